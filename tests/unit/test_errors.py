from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pytest_gsw import errors
from pytest_gsw.errors import (
    ConfigurationError,
    Fault,
    FileError,
    GswError,
    JobError,
    LogError,
    RunError,
    SubmissionError,
)

FAULTS = (Fault(12, 3, "rows[0].gpus", "got '0'"), Fault(2, 120, "", "is empty"))


def test_a_file_error_lists_its_faults_by_line() -> None:
    assert str(FileError(Path("a/t.yaml"), FAULTS)) == (
        "a/t.yaml: 2 problems\n  a/t.yaml:2:120   is empty\n  a/t.yaml:12:3    rows[0].gpus: got '0'"
    )


def test_a_run_error_with_everything() -> None:
    error = JobError(
        "job 7 failed",
        evidence=(("job", "7 FAILED 1:0"), ("batch log", "/stage/slurm-7.out")),
        tail=("line 1", "line 2"),
        advice="scontrol show job 7",
    )
    assert str(error) == (
        "job 7 failed\n"
        "\n"
        "job        7 FAILED 1:0\n"
        "batch log  /stage/slurm-7.out\n"
        "last       line 1\n"
        "           line 2\n"
        "next       scontrol show job 7"
    )


@pytest.mark.parametrize(
    "error",
    [
        GswError("fact"),
        ConfigurationError("fact"),
        FileError(Path("t.yaml"), FAULTS),
        RunError("fact"),
        SubmissionError("fact", evidence=(("command", "sbatch"),)),
        JobError("fact", tail=("a", "b")),
        LogError("fact", (("log", "x"),), ("a",), "look"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_survive_the_way_to_another_process(error: GswError, protocol: int) -> None:
    copy = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - written one call ago
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_every_error_is_drawn_in_the_tree() -> None:
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert errors.__doc__ is not None
    assert all(cls.__name__ in errors.__doc__ and issubclass(cls, GswError) for cls in classes)
    assert len(classes) == 20
