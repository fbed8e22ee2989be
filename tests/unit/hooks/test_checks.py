from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import LineFormat
from pytest_gsw.executor.executor import Executor
from pytest_gsw.hook_checks import (
    _LAUNCHER,
    format_problems,
    launcher_problems,
    metric_problems,
    peak_problem,
    spec_problems,
)
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.replay import ReplayLauncher
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.metrics import Direction, Metric

SPEC = JobSpec("row", "gsw-row", Path("launch.sh"), Path(), Path(), 1, 8, {"A": "b"})


@pytest.mark.parametrize(
    "launcher", [LocalLauncher(1), ReplayLauncher(Path()), SlurmLauncher()], ids=lambda one: one.name
)
def test_the_built_in_launchers_are_launchers(launcher: object) -> None:
    assert launcher_problems(launcher) == []


def test_a_launcher_of_a_site_has_a_name_and_three_methods(tmp_path: Path) -> None:
    class Own(Launcher):
        name = "own"

        def submit(self, spec: JobSpec) -> Job:
            return Job("7", spec, 0.0)

        def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
            return {job.spec.row_id: JobStatus(JobState.COMPLETED, exit_code=0) for job in jobs}

        def cancel(self, jobs: Sequence[Job]) -> None:
            pass

    launcher = Own()
    assert launcher_problems(launcher) == []
    spec = replace(SPEC, stage=tmp_path, log_glob="log_{job_id}.out")
    (tmp_path / "log_7.out").touch()
    executor = Executor(launcher, 0.0)
    executor.submit({"row": spec})
    assert executor.result_of("row").log == tmp_path / "log_7.out"
    assert executor.close() == 0
    assert (launcher.command(spec), launcher.version, launcher.batch_output(Job("7", spec, 0.0))) == ((), "", None)


def test_each_attribute_of_a_launcher_is_checked() -> None:
    """A missing check would let a site's error pass until a job is lost."""
    attributes = {name for name in Launcher.__annotations__ if not name.startswith("_")}
    assert attributes == _LAUNCHER.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_the_built_in_formats_are_formats(name: str) -> None:
    assert format_problems(FORMATS[name]) == []


@pytest.mark.parametrize(
    ("attribute", "value", "problem"),
    [
        ("name", 7, "name: got 7, wanted a text"),
        ("log_wait_s", math.nan, "log_wait_s: got nan, wanted seconds, 0 or more"),
        ("poll_interval_s", "15", "poll_interval_s: got '15', wanted seconds, 0 or more"),
        ("parallel_submissions", 0, "parallel_submissions: got 0, wanted a whole number above 0"),
        ("parallel_submissions", True, "parallel_submissions: got True, wanted a whole number above 0"),
        ("jobs_outlive_session", "no", "jobs_outlive_session: got 'no', wanted True or False"),
        ("close", None, "close: missing, wanted close()"),
        ("poll", "x", "poll: got 'x', wanted poll(jobs)"),
        ("poll", LocalLauncher(1).close, "poll: got poll() -> 'None', wanted poll(jobs)"),
        ("find", len, "find: got find(obj, /), wanted find(spec, since_s)"),
        (
            "cluster_keys",
            {"queue"},
            "cluster_keys: got {'queue'}, wanted some of account, arguments, constraint, facts, gres, host, launcher, partition, reservation, sbatch, smoke, smoke_ends_job, smoke_limit, ssh",
        ),
    ],
)
def test_what_a_launcher_lacks(attribute: str, value: Any, problem: str) -> None:
    launcher = LocalLauncher(1)
    setattr(launcher, attribute, value)
    assert launcher_problems(launcher) == [problem]


def test_a_coroutine_answers_nothing() -> None:
    class Odd(LocalLauncher):
        async def poll(self, jobs: object) -> Any:  # type: ignore[override]
            return {}

    assert launcher_problems(Odd(1)) == ["poll: got a coroutine, wanted poll(jobs) that returns its answer"]


def test_a_property_that_raises_is_missing() -> None:
    class Odd(LocalLauncher):
        @property
        def log_wait_s(self) -> float:  # type: ignore[override]
            raise AttributeError("x")

    assert launcher_problems(Odd(1)) == ["log_wait_s: missing, wanted seconds, 0 or more"]


GLOB_WANTED = "log_glob: got str, wanted a glob below the staging area with {job_id} in the file's name"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("environment", {"A": 1}, "environment: got dict, wanted a mapping of texts to texts"),
        ("options", ["--qos=x"], "options: got list, wanted a tuple of texts"),
        ("script", "launch.sh", "script: got str, wanted a pathlib.Path"),
        ("gpus", 8.0, "gpus: got float, wanted a whole number, 0 or more"),
        ("time_limit_s", -1, "time_limit_s: got int, wanted seconds above 0, or None"),
        ("log_glob", "/results/*", GLOB_WANTED),
        ("log_glob", "results/train.log", GLOB_WANTED),
        ("log_glob", "runs/{job_id}/train.log", GLOB_WANTED),
        ("log_glob", "../log_{job_id}.out", GLOB_WANTED),
        ("unset", "PATH", "unset: got str, wanted a tuple of texts"),
        ("attempt", "1", "attempt: got str, wanted a whole number above 0"),
    ],
)
def test_which_field_of_a_spec_is_wrong(field: str, value: Any, problem: str) -> None:
    assert spec_problems(SPEC) == []
    assert spec_problems(replace(SPEC, **{field: value})) == [problem]


METRIC = Metric("peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory", read=lambda _: [1.0])


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("key", "Peak", "key: got 'Peak', wanted a-z, 0-9 and '_', at most 60 of them, and no key of a row such as "),
        ("key", "tokens_per_s_per_gpu", "key: got 'tokens_per_s_per_gpu', wanted a-z, 0-9 and '_', "),
        ("unit", "", "unit: got '', wanted a text of at most 20 characters"),
        ("unit", "a\nb", "unit: got 'a\\nb', wanted a text of at most 20 characters"),
        ("label", "x" * 41, f"label: got '{'x' * 41}', wanted a text of at most 40 characters"),
        ("direction", "down", "direction: got 'down', wanted a Direction"),
        ("statistic", "mode", "statistic: got 'mode', wanted one of last, median, mean, max, min"),
        ("read", None, "read: missing, wanted read(log)"),
        ("read", 5, "read: got 5, wanted read(log)"),
    ],
)
def test_which_field_of_a_metric_is_wrong(field: str, value: Any, problem: str) -> None:
    assert metric_problems(METRIC) == []
    (found,) = metric_problems(replace(METRIC, **{field: value}))
    assert found.startswith(problem)


@pytest.mark.parametrize("peak", [None, 1, 989.4e12])
def test_peaks(peak: float | None) -> None:
    assert peak_problem(peak) is None


@pytest.mark.parametrize("peak", [0, -1.0, math.inf, math.nan, "1e15", True, ()])
def test_what_is_no_peak(peak: Any) -> None:
    assert peak_problem(peak) == f"{peak!r}, wanted FLOP/s above 0 or None"


def test_each_field_of_a_spec_is_checked_or_made_by_the_session() -> None:
    made = {
        "row_id",
        "definition",
        "image",
        "variables",
        "documented",
    }  # the session compares the first, and fills in the others
    wrong = replace(SPEC, **{field.name: object() for field in fields(JobSpec)})
    assert {line.partition(":")[0] for line in spec_problems(wrong)} == {field.name for field in fields(JobSpec)} - made


# -- formats of a site -----------------------------------------------------------------------------


class Tick(LineFormat):
    name = "tick"
    dialects = ((b"tick ",),)


def test_a_format_of_lines_is_sound() -> None:
    assert format_problems(Tick()) == []


def test_a_format_without_a_reader_is_refused() -> None:
    class Bare:
        name, dialects, first_index, wraps, shows_progress = "bare", ((b"tick ",),), None, False, True

    assert format_problems(Bare()) == ["reader: missing, wanted reader()"]


def test_what_its_reader_returns_is_looked_at() -> None:
    class Odd(Tick):
        def reader(self) -> Any:
            return object()

    class Minutes(Tick):
        unit = "minutes"

    assert format_problems(Odd()) == [
        "reader().feed: missing, wanted feed(offset, record)",
        "reader().log: missing, wanted log()",
    ]
    assert format_problems(Minutes()) == ["reader: raised ValueError: 'minutes' is not a valid Unit"]
