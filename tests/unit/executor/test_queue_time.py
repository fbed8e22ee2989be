"""Pending jobs: those that do not start by themselves, and those that wait for too long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pytest_gsw.errors import QueueFullError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.polls import STUCK_S
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.pending import OF_ONE, dated
from pytest_gsw.jobs.states import JobState, JobStatus
from tests.messages import wording
from tests.unit.executor.conftest import (
    CANCELLED,
    DONE,
    POLL_S,
    RUNNING,
    Clock,
    FakeLauncher,
    error_of,
    executor_of,
    spec,
    started,
)

HOUR_S = 3600.0
#: What the wall clock shows throughout.
NOW_S = 1.8e9
UNKNOWN = JobStatus(JobState.UNKNOWN, reason="slurmctld is out of reach")


def waits(reason: str, **facts: Any) -> JobStatus:
    return JobStatus(JobState.PENDING, "PENDING", reason=reason, **facts)


HELD = waits("JobHeldUser")


@dataclass
class Queue(FakeLauncher):
    """One whose jobs end when they are cancelled, and which notes when that is."""

    cancelled_s: dict[str, float] = field(default_factory=dict)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return {
            row_id: CANCELLED if row_id in self.cancelled_s else status for row_id, status in super().poll(jobs).items()
        }

    def cancel(self, jobs: Sequence[Job]) -> None:
        super().cancel(jobs)
        self.cancelled_s |= {job.spec.row_id: self.clock.now_s - 1000.0 for job in jobs}


@pytest.fixture(autouse=True)
def _wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW_S)


@pytest.fixture
def launcher(clock: Clock) -> Queue:
    return Queue(clock)


def passes(launcher: Queue, *answers: JobStatus | None, hours: float = 24.0) -> bool:
    """True if the job is awaited until it ends by itself."""
    launcher.script["a"] = [*answers, DONE]
    executor = started(launcher, limits=Limits(queue_s=hours * HOUR_S))
    return executor.result_of("a").stopped is None and not launcher.cancelled


def stopped(launcher: Queue, *answers: JobStatus | None, hours: float = 24.0) -> tuple[str, str, float]:
    """Why a job was ended before it had started, the advice, and after how many seconds."""
    launcher.script["a"] = list(answers)
    run = started(launcher, limits=Limits(queue_s=hours * HOUR_S)).result_of("a")
    assert run.stopped is not None
    assert run.status.state is JobState.CANCELLED
    assert launcher.cancelled == [["a"]]
    return run.stopped.fact, run.stopped.advice, launcher.cancelled_s["a"]


@pytest.mark.parametrize("reason", ["JobHeldUser", "launch failed requeued held", "QOSMaxNodePerJobLimit"])
def test_a_reason_that_does_not_end_by_itself_ends_the_row_after_two_minutes(launcher: Queue, reason: str) -> None:
    fact, advice, after_s = stopped(launcher, waits("Priority"), waits(reason))
    assert fact == wording("does not start", job="job-a", why=reason)
    assert advice
    assert STUCK_S <= after_s <= STUCK_S + 2 * POLL_S


def test_a_dependency_that_is_never_satisfied_ends_the_row_at_once(launcher: Queue) -> None:
    fact, _, after_s = stopped(launcher, waits("DependencyNeverSatisfied: job 11 FAILED 3:0"))
    assert fact == wording("never starts", job="job-a", why="") + wording("dependency", job=11, code="3:0")
    assert after_s <= POLL_S


def test_there_is_no_limit_where_none_is_set(launcher: Queue) -> None:
    assert stopped(launcher, HELD, hours=float("inf"))[2] <= STUCK_S + POLL_S


@pytest.mark.parametrize(
    "other", [waits("Priority"), waits("Resources"), waits(f"PartitionTimeLimit{OF_ONE}"), waits(""), RUNNING]
)
def test_a_hold_that_is_released_in_time_ends_nothing(launcher: Queue, other: JobStatus) -> None:
    polls = int(STUCK_S // POLL_S)
    assert passes(launcher, *[HELD] * polls, other, *[HELD] * polls, other)


def test_a_scheduler_that_is_silent_does_not_confirm_the_reason(launcher: Queue) -> None:
    """The job may have been released meanwhile."""
    assert passes(launcher, HELD, *[UNKNOWN] * 20, waits("Priority"), RUNNING)


@pytest.mark.parametrize("reason", ["Priority", "Resources", "ReqNodeNotAvail, UnavailableNodes:n7", "AssocGrpGRES"])
@pytest.mark.parametrize("hours", [24.0, float("inf")])
def test_other_reasons_are_awaited(launcher: Queue, reason: str, hours: float) -> None:
    assert passes(launcher, *[waits(reason)] * 3000, RUNNING, hours=hours)


def test_a_wait_has_an_end(launcher: Queue) -> None:
    fact, advice, after_s = stopped(launcher, waits("Licenses"), hours=2.0)
    assert fact == wording("waited", job="job-a", time="2h00m", why="Licenses")
    assert "max_queue" in advice
    assert 2 * HOUR_S <= after_s <= 2 * HOUR_S + 2 * POLL_S


@pytest.mark.parametrize(
    ("begin_s", "hours", "ends"),
    [(2 * HOUR_S, 1.0, True), (2 * HOUR_S, 3.0, False), (2 * HOUR_S, float("inf"), False), (None, 24.0, False)],
)
def test_an_earliest_start_beyond_the_limit_is_not_awaited(
    launcher: Queue, begin_s: float | None, hours: float, ends: bool
) -> None:
    answer = waits(dated("BeginTime", None if begin_s is None else NOW_S + begin_s), submit_s=NOW_S)
    if ends:
        assert stopped(launcher, answer, hours=hours)[2] <= STUCK_S + 2 * POLL_S
    else:
        assert passes(launcher, *[answer] * 480, RUNNING, hours=hours)


def test_the_time_counts_from_the_last_requeue(launcher: Queue) -> None:
    half = [waits("Resources")] * int(0.75 * HOUR_S // POLL_S)
    assert passes(launcher, *half, RUNNING, *half, RUNNING, hours=1.0)


def test_a_job_that_waits_for_others_of_its_session_waits_as_long_as_they_run(launcher: Queue) -> None:
    hour = int(HOUR_S // POLL_S)
    launcher.script = {"a": [RUNNING] * 3 * hour + [DONE], "b": [waits("Dependency")] * (3 * hour + 60) + [DONE]}
    executor = started(launcher, "ab", limits=Limits(queue_s=HOUR_S))
    assert [executor.result_of(row).stopped for row in "ab"] == [None, None]
    launcher.script = {"c": [RUNNING, DONE], "d": [waits("Dependency")]}
    executor = started(launcher, "cd", limits=Limits(queue_s=HOUR_S))
    assert [executor.result_of(row).stopped is None for row in "cd"] == [True, False]


@pytest.mark.parametrize(
    ("answers", "after_s"),
    [
        ([waits("Resources")], 0.25 * HOUR_S),
        ([waits("Resources", submit_s=NOW_S - 0.5 * HOUR_S)], 0.5 * HOUR_S),  # it was requeued meanwhile
        ([RUNNING, waits("Resources")], HOUR_S),
        ([waits("JobHeldAdmin")], STUCK_S),
    ],
)
def test_a_session_that_resumes_goes_on_counting(launcher: Queue, answers: list[JobStatus], after_s: float) -> None:
    launcher.script["a"] = answers
    executor = executor_of(launcher, limits=Limits(queue_s=HOUR_S))
    executor.attach(Job("job-a", spec(), NOW_S - 0.75 * HOUR_S), Submission(0.0))
    assert executor.result_of("a").stopped is not None
    assert after_s <= launcher.cancelled_s["a"] <= after_s + 3 * POLL_S


def test_a_session_that_resumes_after_the_limit_lets_another_job_start_first(launcher: Queue) -> None:
    launcher.script = {"a": [waits("Dependency")] * 100 + [DONE], "b": [waits("Resources"), *[RUNNING] * 99, DONE]}
    executor = executor_of(launcher, limits=Limits(queue_s=HOUR_S))
    for row in "ab":
        executor.attach(Job(f"job-{row}", spec(row), NOW_S - 30 * HOUR_S), Submission(0.0))
    assert [executor.result_of(row).stopped for row in "ab"] == [None, None]


def test_a_clock_that_jumps_ends_no_wait(launcher: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter([0.0, *[30 * HOUR_S] * 10_000])
    monkeypatch.setattr(time, "time", lambda: NOW_S + next(jumps))
    assert passes(launcher, *[waits("Priority", submit_s=NOW_S)] * 20, RUNNING)


def test_a_cancellation_that_fails_is_tried_again(launcher: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_gsw.errors import JobError

    cancel, tries = launcher.cancel, []

    def fails_first(jobs: Sequence[Job]) -> None:
        tries.append(launcher.clock.now_s)
        if len(tries) == 1:
            raise JobError("jobs may still run: scancel failed")
        cancel(jobs)

    monkeypatch.setattr(launcher, "cancel", fails_first)
    assert stopped(launcher, HELD)[2] <= STUCK_S + 3 * POLL_S
    assert len(tries) == 2


@dataclass
class Full(Queue):
    """A queue without room for any job until some time."""

    free_s: float = float("inf")

    def submit(self, spec: JobSpec) -> Job:
        if self.clock.now_s < self.free_s:
            raise QueueFullError("the queue takes no more jobs (AssocMaxSubmitJobLimit)")
        return super().submit(spec)


def test_a_queue_that_stays_full_is_not_awaited_for_longer(clock: Clock) -> None:
    executor = started(Full(clock), "ab", limits=Limits(queue_s=HOUR_S))
    for row in "ab":
        assert error_of(executor, row, QueueFullError).fact == wording("queue is full", why="AssocMaxSubmitJobLimit)")
    assert HOUR_S <= clock.now_s - 1000.0 <= HOUR_S + 300.0


def test_a_queue_that_has_room_again_is_awaited(clock: Clock) -> None:
    launcher = Full(clock, free_s=1000.0 + 0.9 * HOUR_S)
    executor = started(launcher, "ab", limits=Limits(queue_s=HOUR_S))
    assert [executor.result_of(row).status for row in "ab"] == [replace(DONE, nodes="")] * 2
