from __future__ import annotations

import pytest

from pytest_gsw.history.store import failed_jobs
from pytest_gsw.jobs.model import JobState
from pytest_gsw.results.record import Record
from tests.unit.history.runs import job, run_record


def failed(record: Record) -> list[tuple[str, str]]:
    return [(one.id, why) for one, why in failed_jobs(record)]


def test_a_row_that_passed_has_failed_attempts_all_the_same() -> None:
    attempts = (job(8, state=JobState.NODE_FAIL, why_repeated="node failure"), job(9, why_repeated="NCCL time-out"))
    assert failed(run_record(0, attempts=attempts)) == [("481228", "node failure"), ("481229", "NCCL time-out")]


@pytest.mark.parametrize("why", ["preemption", "requeued"])
def test_what_a_scheduler_took_away_says_nothing(why: str) -> None:
    assert failed(run_record(0, attempts=(job(8, state=JobState.PREEMPTED, why_repeated=why),))) == []


def test_what_a_session_cancelled_says_nothing() -> None:
    assert (
        failed(run_record(0, attempts=(job(8, state=JobState.CANCELLED, why_repeated="its session ended early"),)))
        == []
    )


def test_jobs_that_were_measured_to_confirm_have_not_failed() -> None:
    assert failed(run_record(0, repeats=(job(8, 5.0, why_repeated="to be confirmed"),))) == []


@pytest.mark.parametrize(
    ("state", "fact", "why"),
    [
        ("NODE_FAIL", "job 481220 failed: node failure", "node failure"),
        ("FAILED", "job 481220 failed: ECC error", "ECC error"),
        ("FAILED", "job 481220 failed: CUDA out of memory", None),  # the row's own
        ("FAILED", "job 481220 failed: exit code 1", None),
        ("CANCELLED", "job 481220 was cancelled", None),
        ("TIMEOUT", "job 481220 failed: time limit", None),
        ("COMPLETED", "the log of job 481220 has 3 steps, the row needs 20", None),
    ],
)
def test_the_last_job_of_a_row_that_could_not_be_measured(state: str, fact: str, why: str | None) -> None:
    record = run_record(0, outcome="error", fact=fact, measured={}, job=job(0, state=state))
    assert failed(record) == ([] if why is None else [("481220", why)])


def test_a_job_without_nodes_blames_none() -> None:
    assert failed(run_record(0, attempts=(job(8, nodes="", why_repeated="boot failure"),))) == []
