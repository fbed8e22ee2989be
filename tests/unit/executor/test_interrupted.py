"""Sessions that end early: no job is left that nobody knows, and those that they cancelled are submitted anew."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.phases import RowTable
from pytest_gsw.executor.polls import SETTLE_S
from pytest_gsw.jobs.journal import Journal, Submission, read_journal
from pytest_gsw.jobs.model import EarlyStop, Job
from pytest_gsw.jobs.states import COMPLETING, JobState, JobStatus
from tests.messages import wording
from tests.unit.executor.conftest import (
    CANCELLED,
    COMPLETED,
    DONE,
    FAILED,
    LOST_NODE,
    RUNNING,
    AwayLauncher,
    Clock,
    FakeLauncher,
    NumberedLauncher,
    Repeats,
    error_of,
    executor_of,
    spec,
    started,
)


def interrupted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, is_called: bool) -> None:
    """Let Ctrl-C hit once: as this method returns, or before it does anything."""
    method = getattr(owner, name)

    def once(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        if is_called:
            method(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, once)


def ended(launcher: FakeLauncher) -> tuple[str, list[list[str]], list[str]]:
    """What an interrupted session says of its row, which jobs it has cancelled, and which it has submitted."""
    launcher.script = {"a": [RUNNING], **launcher.script}
    executor = executor_of(launcher)
    with contextlib.suppress(KeyboardInterrupt):
        executor.submit({"a": spec()})
        executor.result_of("a")
    executor.interrupt(detach=False)
    error = error_of(executor)
    executor.close()
    return error.fact, launcher.cancelled, launcher.submitted


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_a_job_that_had_ended_before_the_signal_is_judged(
    launcher: FakeLauncher, in_a_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "polls_in_a_thread", in_a_thread, raising=False)
    launcher.script = {"a": [RUNNING, COMPLETED], "b": [RUNNING]}
    executor = started(launcher, "ab")
    executor._polls.poll()
    if executor._polls.answer is not None:
        wait([executor._polls.answer])
        executor._polls.collect()
    executor.interrupt(detach=False)
    assert executor.result_of("a").job_id == "job-a"
    assert error_of(executor, "b").fact == wording("interrupted", job="job-b", fate="cancelled")
    assert launcher.cancelled == [["b"]]


@pytest.mark.parametrize(("answers", "is_judged"), [(3, True), (99, False)])
def test_a_job_whose_end_accounting_records_a_little_later_is_judged(
    launcher: FakeLauncher, answers: int, is_judged: bool
) -> None:
    ending = JobStatus(JobState.RUNNING, raw_state=COMPLETING)
    launcher.script = {"a": [RUNNING, *[ending] * answers, COMPLETED], "b": [RUNNING]}
    executor = started(launcher, "ab")
    executor._polls.poll()
    before_s = launcher.clock.now_s
    executor.interrupt(detach=False)
    assert launcher.clock.now_s - before_s <= 5.0 + SETTLE_S
    if is_judged:
        assert executor.result_of("a").job_id == "job-a"
    else:
        assert error_of(executor).fact == wording("interrupted", job="job-a", fate="cancelled")
    assert launcher.cancelled == [["b"] if is_judged else ["a", "b"]]


def test_a_question_that_fails_after_the_signal_keeps_no_job_from_being_cancelled(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.script = {"a": [RUNNING]}
    executor = started(launcher)
    executor._wait()

    def fail(_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(launcher, "poll", fail)
    executor.interrupt(detach=False)
    executor.close()
    assert error_of(executor).fact == wording("interrupted", job="job-a", fate="cancelled")
    assert launcher.cancelled == [["a"]]


def test_while_a_submission_is_handed_to_a_thread(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher.parallel_submissions = 4
    interrupted(monkeypatch, ThreadPoolExecutor, "submit", is_called=True)
    # The thread has begun by then or has not: the row has a job that is cancelled, or none.
    assert ended(launcher) in (
        (wording("interrupted", job="job-a", fate="cancelled"), [["a"]], ["a"]),
        (wording("never submitted"), [], []),
    )


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", ["activate", "is_shared"])
def test_while_an_answer_is_taken(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch, name: str, threads: int
) -> None:
    launcher.parallel_submissions = threads
    interrupted(monkeypatch, RowTable, name, is_called=False)
    assert ended(launcher) == (wording("interrupted", job="job-a", fate="cancelled"), [["a"]], ["a"])


@pytest.mark.parametrize("found", [True, False])
def test_while_the_session_submits_by_itself(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    interrupted(monkeypatch, FakeLauncher, "submit", is_called=True)
    monkeypatch.setattr(launcher, "find", lambda spec, since_s: Job("job-a", spec, since_s) if found else None)
    fact, cancelled, submitted = ended(launcher)
    assert submitted == ["a"]
    assert (fact, cancelled) == (
        (wording("interrupted", job="job-a", fate="cancelled"), [["a"]])
        if found
        else (wording("own submission unknown"), [])
    )


# -- the session that goes on with it ---------------------------------------------------------------


def resumed(
    clock: Clock, past: Submission, *ends: JobStatus, retries: int = 0
) -> tuple[Executor, Repeats, NumberedLauncher]:
    """A session that goes on with a job, which it is then told to have ended so; and how it tells of repetitions."""
    launcher, repeats = NumberedLauncher(clock, script={"a": list(ends)}), Repeats()
    executor = executor_of(launcher, on_repeat=repeats, retries=retries)
    executor.attach(Job("job-a-1", spec(), 900.0), past)
    return executor, repeats, launcher


def test_a_job_that_an_earlier_session_cancelled_is_not_its_rows_last(clock: Clock) -> None:
    executor, repeats, launcher = resumed(clock, Submission(900.0, "job-a-1", cancelled=True), CANCELLED, DONE)
    run = executor.result_of("a")
    assert (run.job_id, run.status, launcher.submitted) == ("job-a-2", DONE, ["a"])
    assert repeats.why == ["its session ended early"]
    assert [(one.job_id, one.status) for one in executor.rows.row("a").failures] == [("job-a-1", CANCELLED)]


def test_a_job_of_which_it_is_known_that_its_session_cancelled_it_is_not_its_rows_last(clock: Clock) -> None:
    past = Submission(900.0, "job-a-1", ended=CANCELLED, cancelled=True)
    executor, repeats, _ = resumed(clock, past, DONE)
    assert (executor.result_of("a").job_id, repeats.why) == ("job-a-2", ["its session ended early"])


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
    executor, repeats, launcher = resumed(clock, past, RUNNING, status)
    run = executor.result_of("a")
    assert (run.job_id, run.status, launcher.submitted, repeats.why) == ("job-a-1", status, [], [])


def test_a_job_that_an_earlier_session_cancelled_costs_its_row_no_retry(clock: Clock) -> None:
    past = Submission(900.0, "job-a-1", cancelled=True)
    executor, repeats, _ = resumed(clock, past, CANCELLED, LOST_NODE, DONE, retries=1)
    assert executor.result_of("a").job_id == "job-a-3"
    assert repeats.why == ["its session ended early", "node failure"]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.session("eos", ["t::a", "t::b"])
    return journal


@pytest.mark.parametrize(("is_interrupted", "detach"), [(True, False), (False, False), (True, True)])
def test_the_journal_tells_which_jobs_a_session_has_cancelled(
    launcher: FakeLauncher, tmp_path: Path, journal: Journal, is_interrupted: bool, detach: bool
) -> None:
    launcher.script = {"a": [RUNNING]}
    executor = started(launcher, "ab", journal=journal)
    executor.result_of("b")
    if is_interrupted:
        executor.interrupt(detach)
    executor.close(detach)
    submissions = read_journal(tmp_path).submissions
    assert launcher.cancelled == ([] if detach else [["a"]])
    assert {row_id: one.cancelled for row_id, one in submissions.items()} == {"a": not detach, "b": False}


def test_a_job_that_is_found_and_cancelled_at_the_end_is_in_the_journal(
    clock: Clock, tmp_path: Path, journal: Journal
) -> None:
    executor = started(AwayLauncher(clock, back_at_s=clock.now_s + 1, took_it=True), journal=journal)
    executor.interrupt(detach=False)
    clock.sleep(2)
    executor.close()
    (known,) = read_journal(tmp_path).submissions.values()
    assert (known.job_id, known.cancelled) == ("job-found", True)


@pytest.mark.parametrize(("sees_files", "before"), [(True, ()), (False, None)])
def test_a_machine_that_sees_no_files_claims_none_was_there_before_a_job(
    clock: Clock, tmp_path: Path, journal: Journal, sees_files: bool, before: tuple[()] | None
) -> None:
    """Else an older log that has the id of a job that was found by its name would be judged as that job's."""
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 1, took_it=True)
    launcher.sees_files = sees_files
    executor = started(launcher, journal=journal)
    executor.result_of("a")
    assert launcher.sought
    (known,) = read_journal(tmp_path).submissions.values()
    assert (known.job_id, known.logs_before) == ("job-found", before)


@pytest.mark.parametrize("detach", [False, True])
def test_a_job_of_a_scheduler_that_does_not_answer_is_not_said_to_be_cancelled(
    launcher: FakeLauncher, detach: bool
) -> None:
    launcher.script = {"a": [RUNNING, JobStatus(JobState.UNKNOWN)]}
    executor = started(launcher, "a")
    executor._polls.poll()
    executor._polls.poll()
    executor.interrupt(detach)
    fact = error_of(executor).fact
    assert ("may run on" in fact) != detach
    assert "cancelled" not in fact
