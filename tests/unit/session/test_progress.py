"""An open row as the progress of a waiting session has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.clusters import DEMO
from pytest_gsw.executor.phases import Active, Queued, RowJobs, SubmittedJob
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import Job
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results.run_progress import OpenRow, State
from pytest_gsw.session import progress
from pytest_gsw.session.row_plan import RowPlan
from tests.unit.jobs.test_spec import spec
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.session.sessions import EOS, SETTINGS

PLAN = RowPlan(LLAMA2_FP8_X128, "t.yaml::a", spec())
WAITS = RowJobs("a", spec())
DOCUMENTED_S = expected_run_s(LLAMA2_FP8_X128)


def open_row(status: JobStatus, sample: Sample | None = None, simulated_s: float | None = None) -> OpenRow:
    """A row with a job."""
    seen = SubmittedJob(Job("7", spec(), 90.0), status, sample)
    return progress._open_row(PLAN, Active(WAITS, seen), simulated_s)


def test_a_row_before_its_submission() -> None:
    row = progress._open_row(PLAN, Queued(WAITS), None)
    assert row == OpenRow("t.yaml::a", State.QUEUED, 128, left_s=DOCUMENTED_S)


def test_a_pending_job_has_its_reason_and_its_expected_start() -> None:
    row = open_row(JobStatus(JobState.PENDING, reason="Priority", submit_s=100.0))
    assert (row.state, row.job_id, row.reason, row.since_s) == (State.PENDING, "7", "Priority", 100.0)
    assert row.left_s == DOCUMENTED_S


def test_a_job_of_which_the_scheduler_says_nothing_is_known_since_its_submission() -> None:
    assert open_row(JobStatus(JobState.PENDING)).since_s == 90.0


def test_a_running_job_has_its_steps_and_what_is_left_of_them() -> None:
    row = open_row(JobStatus(JobState.RUNNING, submit_s=100.0, start_s=200.0), Sample(steps=10, of=40), 80.0)
    assert (row.state, row.since_s, row.steps, row.of, row.left_s) == (State.RUNNING, 200.0, 10, 40, 60.0)


def test_a_job_with_more_steps_than_it_should_have_has_none_left() -> None:
    assert open_row(JobStatus(JobState.RUNNING), Sample(steps=50, of=40), 80.0).left_s == 0.0


@pytest.mark.parametrize(
    ("state", "shown"),
    [(JobState.COMPLETED, State.ENDED), (JobState.NODE_FAIL, State.ENDED), (JobState.UNKNOWN, State.UNKNOWN)],
)
def test_a_job_that_has_ended_or_is_not_known(state: JobState, shown: State) -> None:
    assert open_row(JobStatus(state)).state is shown


def test_only_a_simulation_has_times_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSW_DEMO_SECONDS", "3")
    assert progress.simulated_s(replace(SETTINGS, cluster=DEMO)) == 3.0
    assert progress.simulated_s(replace(SETTINGS, cluster=EOS)) is None
    monkeypatch.setenv("GSW_DEMO_SECONDS", "soon")
    assert progress.simulated_s(replace(SETTINGS, cluster=DEMO)) is None
