"""Never green by accident: a broken log of each registered format is an error, even if its job ended well."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_gsw.demo.recipe import train
from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline
from tests.unit.validation.ended import of_bytes
from tests.writers import ALL_WRITERS

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "1",
    "JOB_TOTAL_GPUS": "8",
    "GPUS_PER_NODE": "8",
    "MODEL_SIZE": "any",
    "GSW_DEMO_SECONDS": "0",
    "GSW_DEMO_SEED": "20",
}
#: The table of a benchmark by its format; all others are judged by the time of a step.
BENCHMARKS = {
    "nccl-tests": "metric: busbw_gbs, at: 16 GiB, rows: [{gpus: 8, value: 470}]",
    "serving": "metric: output_tokens_per_s, rows: [{gpus: 8, value: 18400}]",
    "mllog": "metric: time_to_train_min, rows: [{gpus: 8, value: 33.5}]",
}
TRAINING = "global_batch_size: 64, sequence_length: 1024, rows: [{gpus: 8, step_time_s: 1.000}]"
EVERY = pytest.mark.parametrize("name", FORMATS)


def row_of(name: str, directory: Path) -> Baseline:
    path = directory / "own.yaml"
    head = f"model: all_reduce\nframework: {name}\ndtype: bf16\naccelerator: H100\ngpus_per_node: 8\n"
    path.write_text(f"{head}recipe: {{directory: own}}\ntables:\n  - {{{BENCHMARKS.get(name, TRAINING)}}}\n")
    (row,) = load_table(path)
    return row


def log_of(row: Baseline, fault: str) -> bytes:
    log = io.BytesIO()
    train(row, {**JOB, "GSW_DEMO": f"*={fault}"}, log, ALL_WRITERS)
    return log.getvalue()


@EVERY
def test_a_healthy_log_passes(name: str, tmp_path: Path) -> None:
    row = row_of(name, tmp_path)
    assert (
        verdict_of(row, of_bytes(row, log_of(row, "slow:0%"), tmp_path), row.criterion.tolerance).outcome
        is Outcome.PASSED
    )


@EVERY
@pytest.mark.parametrize("fault", ["nan", "short", "truncated", "fail", "oom", "wrong-identity"])
def test_a_broken_log_is_an_error(name: str, fault: str, tmp_path: Path) -> None:
    row = row_of(name, tmp_path)
    with pytest.raises(LogError):
        of_bytes(row, log_of(row, fault), tmp_path)


@EVERY
def test_a_log_without_figures_is_an_error(name: str, tmp_path: Path) -> None:
    row = row_of(name, tmp_path)
    for content in (b"", b"the job has begun\n"):
        with pytest.raises(LogError):
            of_bytes(row, content, tmp_path)
