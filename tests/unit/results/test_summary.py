"""The night on one screen, to the letter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.results import summary
from pytest_gsw.results.record import Record
from tests.unit.results.a_run import RUN, row
from tests.unit.results.records import JOB, PASSED_BY_ACCEPTED, varied


def test_the_counts() -> None:
    assert summary.counts_line(
        [*RUN, row("expected_failure", 8), row("unexpected_success", 8), row("profiled", 8)]
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


def test_rows_that_passed_by_an_accepted_figure_alone_are_counted() -> None:
    assert summary.counts_line([PASSED_BY_ACCEPTED, row("passed", 16)]) == "2 passed (1 by an accepted figure)"
    # By the document it would have passed, too.
    assert summary.counts_line([varied(PASSED_BY_ACCEPTED, measured={"step_time_s": 4.6})]) == "1 passed"


def test_rows_that_passed_by_a_wide_tolerance_are_counted_apart() -> None:
    wide = varied(row("passed", 8, 5.9), tolerance=0.4)
    assert summary.counts_line([wide, row("passed", 16), row("regressed", 32, 9.0)]) == (
        "2 passed, 1 of them beyond 5 %, 1 regressed"
    )
    # The usual tolerance would have passed it; one that has regressed is counted as that.
    at_the_limit = varied(row("passed", 8, 4.556 / 0.95), tolerance=0.4)
    assert summary.counts_line([at_the_limit, varied(row("regressed", 16, 9.0), tolerance=0.4)]) == (
        "1 passed, 1 regressed"
    )


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
        RUN[0],
    ]
    assert summary.error_lines(night) == [
        (
            "job failed with exit code 1: NCCL time-out: 4 rows (llama2_70b_fp8[H100x1], llama2_70b_fp8[H100x2], "
            "llama2_70b_fp8[H100x3], llama2_70b_fp8[H100x4]) on n2 (4), n[1,3]"
        ),
        "job failed with exit code 1: CUDA out of memory: 1 row (llama2_70b_fp8[H100x5]) on n9",
        "sbatch refused the job: Invalid account: 1 row (llama2_70b_fp8[H100x7])",
    ]


@pytest.mark.parametrize(
    ("fact", "cause"),
    [
        ("job 481231 failed: NCCL", "job failed: NCCL"),
        ("job 12_7.batch failed", "job failed"),
        ("skipped after its job was submitted: why", "skipped after its job was submitted: why"),
    ],
)
def test_a_cause_is_a_fact_without_the_id_of_its_job(fact: str, cause: str) -> None:
    assert summary.without_job(fact) == cause


def test_rows_without_a_record_have_a_cause_as_others_have() -> None:
    missing = {"t.yaml::a_BLANK[H100x8]": "dtype is blank", "t.yaml::b_BLANK[H100x8]": "dtype is blank"}
    assert summary.error_lines([failed("1", "n1")], missing) == [
        "dtype is blank: 2 rows (a_BLANK[H100x8], b_BLANK[H100x8])",
        "job failed with exit code 1: NCCL time-out: 1 row (llama2_70b_fp8[H100x1]) on n1",
    ]


def test_a_cause_on_many_nodes_names_the_most_frequent() -> None:
    (line,) = summary.error_lines([failed("1", "n[01-20]")])
    assert line.endswith(" on n[01-20]")
