"""Logs of simulated benchmarks: as a session measures and judges them, but for the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.demo.benchmarks import BENCHMARKS
from pytest_gsw.errors import ConfigurationError, LogError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.tables.bundled import benchmarks
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.measure import read_metrics
from pytest_gsw.validation.run import Run
from tests.unit.demo.conftest import Trained
from tests.unit.validation.ended import measure_as_documented

Train = Callable[..., Trained]
_LIMITS = (
    "metrics: {successful_requests: {value: 1000}, tpot_ms_median: {most: 42}, output_tokens_per_s: {least: 5000}}"
)
ROWS = (
    ("nccl-tests", "all_reduce", "{metric: busbw_gbs, at: 16 GiB, rows: [{gpus: 16, value: 470}]}"),
    ("nccl-tests", "all_gather", "{metric: time_us, at: 128 MiB, rows: [{gpus: 72, value: 470}]}"),
    ("nccl-tests", "alltoall", "{metric: busbw_avg_gbs, rows: [{gpus: 16, value: 70}]}"),
    ("nccl-tests", "broadcast", "{metric: algbw_in_place_gbs, at: 8 MiB, dtype: bf16, rows: [{gpus: 8, value: 70}]}"),
    (
        "serving",
        "qwen3",
        f"{{metric: ttft_ms_median, at: concurrency 256, {_LIMITS}, rows: [{{gpus: 8, value: 33.5}}]}}",
    ),
    ("serving", "qwen3", "{metric: output_tokens_per_s, rows: [{gpus: 8, value: 18400}]}"),
    ("mllog", "llama2", "{metric: time_to_train_min, rows: [{gpus: 8, value: 33.5}]}"),
    ("nemo-rl", "grpo", "{metric: generation_tokens_per_s_per_gpu, rows: [{gpus: 8, value: 7745.97}]}"),
    ("nemo-rl", "grpo", "{global_batch_size: 8, sequence_length: 1024, rows: [{gpus: 16, step_time_s: 35.70}]}"),
)
EVERY = pytest.mark.parametrize("facts", ROWS, ids=lambda facts: "-".join(facts)[:40])


def row_of(directory: Path, log_format: str, model: str, table: str) -> Baseline:
    path = directory / "own.yaml"
    head = f"model: {model}\nframework: {log_format}\ndtype: float\naccelerator: H100\ngpus_per_node: 8\n"
    path.write_text(f"{head}recipe: {{directory: own}}\ntables:\n  - {table}\n")
    (row,) = load_table(path)
    return row


def judged(row: Baseline, trained: Train, directory: Path, fault: str = "") -> Outcome:
    """The outcome of a run that ended well, by its log."""
    size = {"JOB_TOTAL_GPUS": str(row.gpus), "SLURM_JOB_NUM_NODES": str(row.nodes)}
    made = trained(row, fault, MODEL_SIZE="any", GPUS_PER_NODE=str(row.gpus_per_node), GSW_DEMO_SEED="20", **size)
    log = directory / "run.log"
    log.write_bytes(made.log)
    ended = Run("481220", JobStatus(JobState.COMPLETED, exit_code=0), log)
    check_job(ended, row.recipe.may_fail)
    log_format: LogFormat = FORMATS[row.workload.log_format]
    steps = read_steps(row, ended, log_format)[0]
    measurement = measure_as_documented(row, ended, steps, log_format)
    if row.metrics and not fault:
        further = read_metrics(row, log, steps, {})
        assert further["successful_requests"] == 1000
        assert further["tpot_ms_median"] <= 42
        assert further["output_tokens_per_s"] >= 5000
    return verdict_of(row, measurement, row.criterion.tolerance).outcome


def test_every_figure_format_has_a_writer() -> None:
    with_figures = {name for name in FORMATS if FORMATS[name].content == "figure"}
    assert {*BENCHMARKS} == {*with_figures, "nemo-rl"}
    assert {facts[0] for facts in ROWS} == {*BENCHMARKS}


@EVERY
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [("", Outcome.PASSED), ("slow:12%", Outcome.REGRESSED), ("fast:12%", Outcome.IMPROVED)],
)
def test_a_benchmark_is_as_fast_as_documented_and_as_the_fault_makes_it(
    facts: tuple[str, str, str], fault: str, outcome: Outcome, trained: Train, tmp_path: Path
) -> None:
    assert judged(row_of(tmp_path, *facts), trained, tmp_path, fault) is outcome


@EVERY
@pytest.mark.parametrize("fault", ["nan", "short", "truncated", "fail", "oom", "wrong-identity", "wrong-settings"])
def test_a_broken_benchmark_is_never_green(
    facts: tuple[str, str, str], fault: str, trained: Train, tmp_path: Path
) -> None:
    """Also where its job's exit code is that of a healthy run."""
    with pytest.raises((LogError, ConfigurationError)):
        judged(row_of(tmp_path, *facts), trained, tmp_path, fault)


@pytest.mark.parametrize("table", benchmarks(), ids=lambda path: path.stem)
def test_every_bundled_benchmark_comes_to_what_is_documented(table: Path, trained: Train, tmp_path: Path) -> None:
    for row in load_table(table):
        assert judged(row, trained, tmp_path) is Outcome.PASSED, row.id
