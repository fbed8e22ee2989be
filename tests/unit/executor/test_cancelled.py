"""Jobs that a session has cancelled because it ended: the one that goes on with it submits their rows anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.journal import Journal, Submission, read_journal
from pytest_gsw.jobs.model import EarlyStop, Job, JobState, JobStatus
from tests.unit.executor.test_executor import (
    COMPLETED,
    DONE,
    FAILED,
    LOST_NODE,
    POLL_S,
    RUNNING,
    AwayLauncher,
    Clock,
    FakeLauncher,
    NumberedLauncher,
    repeating,
    spec,
    started,
)

CANCELLED = JobStatus(JobState.CANCELLED, nodes="n1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def launcher(clock: Clock) -> FakeLauncher:
    return FakeLauncher(clock)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.session("eos", ["t::a", "t::b"])
    return journal


def resumed(clock: Clock, past: Submission, *ends: JobStatus) -> tuple[Executor, list[str], NumberedLauncher]:
    """A session that goes on with a job, which it is then told to have ended so; and how it tells of repetitions."""
    launcher, told = NumberedLauncher(clock, script={"a": list(ends)}), list[str]()
    executor = Executor(
        launcher, POLL_S, on_repeat=lambda _, attempt: told.append(attempt.why), clock=clock, sleep=clock.sleep
    )
    executor.attach(Job("job-a-1", spec("a"), 900.0), past)
    return executor, told, launcher


def test_a_job_that_an_earlier_session_cancelled_is_not_its_rows_last(clock: Clock) -> None:
    executor, told, launcher = resumed(clock, Submission(900.0, "job-a-1", cancelled=True), CANCELLED, DONE)
    run = executor.result_of("a")
    assert (run.job_id, run.status, launcher.submitted) == ("job-a-2", DONE, ["a"])
    assert told == ["its session ended early"]
    assert [(one.job_id, one.status) for one in executor.attempts("a")] == [("job-a-1", CANCELLED)]


def test_a_job_of_which_it_is_known_that_its_session_cancelled_it_is_not_its_rows_last(clock: Clock) -> None:
    past = Submission(900.0, "job-a-1", ended=CANCELLED, cancelled=True)
    executor, told, _ = resumed(clock, past, DONE)
    assert (executor.result_of("a").job_id, told) == ("job-a-2", ["its session ended early"])


@pytest.mark.parametrize(
    ("past", "status"),
    [
        (Submission(900.0, "job-a-1"), CANCELLED),  # by somebody else
        (Submission(900.0, "job-a-1", cancelled=True), DONE),  # it had ended before
        (Submission(900.0, "job-a-1", cancelled=True), FAILED),
        (Submission(900.0, "job-a-1", stopped=EarlyStop("stalled"), cancelled=True), CANCELLED),  # its log was why
    ],
    ids=["by another", "completed", "failed", "stopped"],
)
def test_any_other_end_of_a_job_that_a_session_takes_over_is_its_rows(
    clock: Clock, past: Submission, status: JobStatus
) -> None:
    executor, told, launcher = resumed(clock, past, RUNNING, status)
    run = executor.result_of("a")
    assert (run.job_id, run.status, launcher.submitted, told) == ("job-a-1", status, [], [])


def test_a_job_that_an_earlier_session_cancelled_costs_its_row_no_retry(clock: Clock) -> None:
    past = Submission(900.0, "job-a-1", cancelled=True)
    launcher = NumberedLauncher(clock, script={"a": [CANCELLED, LOST_NODE, DONE]})
    executor, told = repeating(launcher, clock, retries=1)
    executor.attach(Job("job-a-1", spec("a"), 900.0), past)
    assert executor.result_of("a").job_id == "job-a-3"
    assert [attempt.why for _, attempt in told] == ["its session ended early", "node failure"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_the_journal_tells_which_jobs_a_session_has_cancelled(
    launcher: FakeLauncher, tmp_path: Path, journal: Journal, interrupted: bool
) -> None:
    launcher.script = {"a": [RUNNING], "b": [COMPLETED]}
    executor = started(launcher, "ab", journal=journal)
    executor.result_of("b")
    if interrupted:
        executor.interrupt(detach=False)
    executor.close()
    submissions = read_journal(tmp_path).submissions
    assert launcher.cancelled == [["a"]]
    assert {row_id: one.cancelled for row_id, one in submissions.items()} == {"a": True, "b": False}


def test_a_job_that_is_found_and_cancelled_at_the_end_is_in_the_journal(
    clock: Clock, tmp_path: Path, journal: Journal
) -> None:
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 1, took_it=True)
    executor = started(launcher, "a", journal=journal)
    executor.interrupt(detach=False)
    clock.sleep(2)
    executor.close()
    (known,) = read_journal(tmp_path).submissions.values()
    assert (known.job_id, known.cancelled) == ("job-found", True)


def test_jobs_that_are_left_running_are_not_said_to_be_cancelled(
    launcher: FakeLauncher, tmp_path: Path, journal: Journal
) -> None:
    launcher.script = {"a": [RUNNING]}
    executor = started(launcher, "a", journal=journal)
    executor.interrupt(detach=True)
    executor.close(detach=True)
    assert [one.cancelled for one in read_journal(tmp_path).submissions.values()] == [False]
