"""The night on one screen, to the letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_gsw.results import summary
from pytest_gsw.results.record import Record
from tests.unit.results.records import JOB, SLOW, varied


def row(outcome: str, gpus: int, seconds: float | None = 4.556, **changes: Any) -> Record:
    measured = {} if seconds is None else {"step_time_s": seconds}
    name = f"llama2_70b_fp8[H100x{gpus}]"
    return varied(SLOW, outcome=outcome, gpus=gpus, row=name, node_id=f"t.yaml::{name}", measured=measured, **changes)


NIGHT = [
    row("passed", 64, 4.57),
    row("regressed", 128, 5.11),
    row("improved", 256, 4.0),
    row("inconclusive", 512, 5.0),
    row("error", 1024, None, fact="job 481220 failed with exit code 1: ECC error"),
    row("passed", 64, 4.5, dtype="bf16"),
]


def test_a_night_by_workload_and_gpus() -> None:
    assert summary.night_table(NIGHT, 120) == [
        "GPUs                 64           128           256           512    1024",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  SLOW -10.8 %  FAST +13.9 %  NOISY -8.9 %   ERROR",
    ]


def test_on_a_narrow_screen_the_table_is_cut_between_gpu_counts() -> None:
    assert summary.night_table(NIGHT, 48) == [
        "GPUs                 64           128",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  SLOW -10.8 %",
        "",
        "GPUs                     256           512",
        "llama2_70b fp8  FAST +13.9 %  NOISY -8.9 %",
        "",
        "GPUs              1024",
        "llama2_70b fp8   ERROR",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_row_is_lost_on_any_screen(width: int) -> None:
    text = "\n".join(summary.night_table(NIGHT, width))
    assert [text.count(word) for word in ("SLOW", "FAST", "NOISY", "ERROR", "+1.2 %", "-0.3 %")] == [1] * 6


def test_several_accelerators_have_lines_of_their_own() -> None:
    lines = summary.night_table([NIGHT[0], varied(NIGHT[0], accelerator="B200")], 80)
    assert [line.split("  ")[0] for line in lines] == ["GPUs", "llama2_70b fp8 B200", "llama2_70b fp8 H100"]


def test_of_rows_that_share_a_cell_the_worst_is_shown() -> None:
    assert summary.night_table([NIGHT[0], varied(NIGHT[1], gpus=64)], 80)[1] == "llama2_70b fp8  SLOW -10.8 %"


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("within noise", "NOISY"),
        ("", "NOISY"),
        ("canary", "CANARY"),
        ("too good to be true", "TOO GOOD"),
        ("ranks differ", "RANKS"),
        ("last step alone", "LAST STEP"),
    ],
)
def test_a_row_that_is_inconclusive_says_why(reason: str, word: str) -> None:
    record = row("inconclusive", 64, 5.0, reason=reason, limit=0.11, sigma=0.04, sigma_jobs=20)
    assert summary.night_table([record], 80)[1] == f"llama2_70b fp8  {word} -8.9 %"


@pytest.mark.parametrize("outcome", ["regressed", "improved", "inconclusive"])
def test_a_row_that_a_site_s_metric_decides_is_not_called_slow(outcome: str) -> None:
    record = row(outcome, 64, own_outcome="passed", reason="within tolerance")
    assert summary.night_table([record], 80)[1] == f"llama2_70b fp8  {outcome.upper()} +0.0 %"


def test_an_empty_night_has_no_table() -> None:
    assert summary.night_table([], 80) == []


def test_the_counts() -> None:
    assert summary.counts_line(
        [*NIGHT, row("expected_failure", 8), row("unexpected_success", 8), row("profiled", 8)]
    ) == (
        "2 passed, 1 improved, 1 regressed, 1 inconclusive, 1 ran although documented to fail, 1 error, "
        "1 failed as documented, 1 profiled"
    )


def test_the_counts_have_rows_without_a_record_and_drift() -> None:
    drifts = varied(row("passed", 8), drift="it drifts")
    assert summary.counts_line([drifts, row("passed", 16), row("error", 8, None)], 2) == (
        "2 passed, 3 errors, 1 of them drifts"
    )
    assert summary.counts_line([drifts, drifts]) == "2 passed, 2 of them drift"
    assert summary.counts_line([]) == ""


def failed(job_id: str, nodes: str, why: str = "NCCL time-out") -> Record:
    fact = f"job {job_id} failed with exit code 1: {why}"
    return varied(row("error", int(job_id), None), fact=fact, job=replace(JOB, id=job_id, nodes=nodes))


def test_errors_by_cause_and_node() -> None:
    night = [
        failed("1", "n[1-2]"),
        failed("2", "n[2-3]"),
        failed("3", "n2"),
        failed("4", "n2"),
        failed("5", "n9", "CUDA out of memory"),
        varied(row("error", 7, None), fact="sbatch refused the job: Invalid account", job=None),
        NIGHT[0],
    ]
    assert summary.error_lines(night) == [
        (
            "job failed with exit code 1: NCCL time-out: 4 rows (llama2_70b_fp8[H100x1], llama2_70b_fp8[H100x2], "
            "llama2_70b_fp8[H100x3] and 1 more) on n2 (4), n1, n3"
        ),
        "job failed with exit code 1: CUDA out of memory: 1 row (llama2_70b_fp8[H100x5]) on n9",
        "sbatch refused the job: Invalid account: 1 row (llama2_70b_fp8[H100x7])",
    ]


def test_a_cause_on_many_nodes_names_the_most_frequent() -> None:
    (line,) = summary.error_lines([failed("1", "n[01-20]")])
    assert line.endswith(" on n01, n02, n03, n04, n05, n06 and 14 more")
