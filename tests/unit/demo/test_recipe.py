"""How runs with faults end, in this process: those that end the process are in test_launch."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gsw.demo import recipe
from pytest_gsw.demo.recipe import find_row, play, train
from pytest_gsw.demo.writers import Event
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.verdict import Outcome, judge
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import check_job, read_steps
from pytest_gsw.validation.measure import measure_as_documented
from pytest_gsw.validation.run import Run, ran_out_of_memory
from tests.unit.demo.conftest import ENVIRONMENT, Trained

Train = Callable[..., Trained]
Rows = Mapping[str, Baseline]
BUNDLED = load_tables([bundled_baselines()])
NAMES = (
    "paxml",
    "nemo",
    "maxtext",
    "automodel",
    "composer",
    "megatron",
    "megatron-window",
    "megatron-deepspeed",
    "deepspeed",
    "huggingface",
)


@pytest.mark.parametrize("name", NAMES)
def test_out_of_memory(rows: Rows, trained: Train, name: str) -> None:
    run = trained(rows[name], "oom")
    assert run.exit_code == 1
    if name in {"paxml", "maxtext"}:
        error = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
    else:
        error = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has "
    assert f"\n{error}" in run.text
    for trained_step in (
        "train_step() took",
        "completed step",
        "[batch=",
        "iteration  ",
        "CurrSamples",
        "'train_runtime'",
        "1/",
    ):
        assert trained_step not in run.text.replace("1/1]", "").replace("iterations", "")


def test_a_row_documented_to_run_out_of_memory_does(rows: Rows, trained: Train) -> None:
    row = replace(rows["nemo"], expected_failure="out_of_memory")
    assert "OutOfMemoryError" in trained(row).text
    assert trained(row, "slow:0%").exit_code == 0  # a fault that is asked for replaces it


@pytest.mark.parametrize("name", NAMES)
def test_failure_after_a_few_steps(rows: Rows, trained: Train, name: str) -> None:
    run = trained(rows[name], "fail")
    assert run.exit_code == 1
    assert "\nTraceback (most recent call last):\n" in run.text
    assert run.text.endswith("is invalid for input of size 33550336\n")
    assert len(run.log) < len(trained(rows[name]).log)


def test_short_and_truncated_logs(rows: Rows, trained: Train) -> None:
    def last_line(fault: str) -> str:
        run = trained(rows["maxtext"], fault, GSW_DEMO_SEED="1")
        assert run.exit_code == 0
        return run.text.rpartition("completed step: ")[2]

    whole, short, truncated = last_line("slow:0%"), last_line("short"), last_line("truncated")
    assert whole.startswith("49, seconds: 4.3")
    assert short.startswith("29, seconds: 4.")
    # Cut off inside the figure, so that what is left is still a number.
    assert truncated.startswith("49, seconds: 4.3")
    assert len(truncated) == len("49, seconds: 4.32")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("fault", "share"), [("short", 0.95), ("truncated", 1.0)])
def test_every_log_can_be_cut(rows: Rows, trained: Train, name: str, fault: str, share: float) -> None:
    whole = trained(rows[name], GSW_DEMO_SEED="1").log
    cut = trained(rows[name], fault, GSW_DEMO_SEED="1").log
    assert 0 < len(cut) < share * len(whole)
    if fault == "truncated":
        assert cut[-1:].isdigit() or cut[-1:] == b"."


def test_wrong_identity(rows: Rows, trained: Train) -> None:
    assert " MODEL_SIZE=8b " in trained(rows["maxtext"], "wrong-identity").text
    assert " MODEL_SIZE=70b " in trained(replace(rows["maxtext"], size="8b"), "wrong-identity").text


def test_exit_code_of_a_perfect_log(rows: Rows, trained: Train) -> None:
    run = trained(rows["maxtext"], "exit:9", GSW_DEMO_SEED="1")
    assert run.exit_code == 9
    assert run.log == trained(rows["maxtext"], GSW_DEMO_SEED="1").log


def test_seeds(rows: Rows, trained: Train) -> None:
    row = rows["maxtext"]
    assert trained(row).log == trained(row).log
    other_job = trained(row, SLURM_JOB_ID="481221").text.replace("481221", "481220")
    assert other_job != trained(row).text
    seeded = trained(row, GSW_DEMO_SEED="7")
    assert seeded.text == trained(row, SLURM_JOB_ID="481221", GSW_DEMO_SEED="7").text.replace("481221", "481220")


def test_faults_are_for_the_rows_that_they_match(rows: Rows, trained: Train) -> None:
    assert trained(rows["maxtext"], GSW_DEMO="*[H100x64]=exit:9;grok1*=fail").exit_code == 9
    assert trained(rows["maxtext"], GSW_DEMO="*=exit:9;llama2*=slow:1%").exit_code == 0


def test_a_run_takes_the_seconds_it_is_given(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(recipe, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    train(rows["maxtext"], {**ENVIRONMENT, "GSW_DEMO_SECONDS": "0.3"}, io.BytesIO())
    assert now_s == pytest.approx(1000.3)


def test_each_event_can_be_read_at_once() -> None:
    class Pipe(io.BytesIO):
        seen: tuple[bytes, ...] = ()

        def flush(self) -> None:
            self.seen = (*self.seen, self.getvalue())

    out = Pipe()
    play([Event(1.0, b"one\n"), Event(2.0, b"two")], 0.0, out)
    assert out.seen == (b"one\n", b"one\ntwo")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SLURM_JOB_ID": ""}, "SLURM_JOB_ID is not set; launch.sh and pytest-gsw set it for every job"),
        ({"JOB_TOTAL_GPUS": "h100:512"}, "JOB_TOTAL_GPUS: got 'h100:512', wanted a whole number"),
        ({"GSW_DEMO_SECONDS": "nan"}, "GSW_DEMO_SECONDS: got 'nan', wanted a number of seconds, 0 or more"),
    ],
)
def test_wrong_surroundings(rows: Rows, trained: Train, environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        trained(rows["maxtext"], **environment)
    assert str(caught.value) == message


def test_a_format_without_a_writer(rows: Rows, trained: Train) -> None:
    with pytest.raises(ConfigurationError, match=r"^the demo writes no mine logs, only paxml, nemo, "):
        trained(replace(rows["maxtext"], log_format="mine"))


def test_a_job_without_a_row() -> None:
    with pytest.raises(ConfigurationError, match=r"^GSW_BASELINE_FILE is not set"):
        find_row({})


@pytest.mark.parametrize("table", sorted({row.location.path for row in BUNDLED}), ids=lambda path: path.stem)
def test_every_bundled_row_comes_to_what_is_documented(table: Path, trained: Train, tmp_path: Path) -> None:
    """As a session measures and judges it, but for the job."""
    log = tmp_path / "run.log"
    for row in (one for one in BUNDLED if one.location.path == table):
        variables = {"JOB_TOTAL_GPUS": str(row.gpus), "SLURM_JOB_NUM_NODES": str(row.nodes)}
        run = trained(row, GPUS_PER_NODE=str(row.gpus_per_node), GSW_DEMO_SEED="20", **variables)
        log.write_bytes(run.log)
        ended = Run("481220", JobStatus(JobState.COMPLETED, exit_code=run.exit_code), log)
        if row.expected_failure:
            assert run.exit_code == 1, row.id
            assert ran_out_of_memory(replace(ended, status=JobStatus(JobState.FAILED, exit_code=1))), row.id
            continue
        check_job(ended, row.recipe.may_fail)
        log_format = FORMATS[row.log_format]
        measurement = measure_as_documented(row, ended, read_steps(row, ended, log_format), log_format)
        assert judge(row, measurement, row.tolerance).outcome is Outcome.PASSED, row.id
