"""Rows are submitted together and share one sync of the journal: a session that is killed at any point loses none."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_gsw.errors import QueueFullError, SchedulerUnreachableError, SubmissionError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs import journal as journal_module
from pytest_gsw.jobs.journal import COPY, NAME, Journal, RunState, run_state_of
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.states import JobStatus
from tests.unit.executor.conftest import Clock, FakeLauncher, error_of, executor_of, spec

ROWS = [f"r{number:02}" for number in range(40)]


@dataclass(frozen=True)
class Moment:
    """What there is at one moment, if the session is killed then."""

    #: Bytes of the journal that are on the disk for certain, and those that may be.
    synced: int
    written: int
    #: By row, the jobs that the scheduler has.
    jobs: dict[str, str]


@dataclass
class Watched:
    """The run's journal and what the scheduler has, as they go on."""

    directory: Path
    synced: int = 0
    syncs: int = 0
    moments: list[Moment] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def fsync(self, _descriptor: int) -> None:
        written = (self.directory / NAME).stat().st_size
        with self.lock:
            self.note()
            self.synced, self.syncs = written, self.syncs + 1

    def note(self) -> None:
        path = self.directory / NAME
        written = path.stat().st_size if path.exists() else 0
        self.moments.append(Moment(self.synced, written, dict(self.jobs)))

    def past(self, size: int) -> RunState:
        content, copy = (self.directory / NAME).read_bytes()[:size], (self.directory / COPY).read_bytes()
        return run_state_of(content, copy, self.directory)


@dataclass
class Scheduler(FakeLauncher):
    """One that several threads ask, and that notes each moment."""

    parallel_submissions: int = 4
    watched: Watched | None = None
    away: tuple[str, ...] = ()

    def submit(self, spec: JobSpec) -> Job:
        assert self.watched is not None
        with self.watched.lock:
            on_disk = self.watched.past(self.watched.synced).submissions
            assert on_disk[spec.row_id].is_of("any"), "an sbatch starts whose intent is not on the disk"
            self.watched.note()
            if spec.row_id not in self.refused:
                self.watched.jobs[spec.row_id] = f"job-{spec.row_id}"
            self.watched.note()
        if spec.row_id in self.away:
            raise SchedulerUnreachableError("no answer")
        return super().submit(spec)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        assert self.watched is not None
        on_disk = self.watched.past(self.watched.synced).submissions
        for job in jobs:
            assert on_disk[job.spec.row_id].job_id == job.id, "a job is asked about whose answer is not on the disk"
        return super().poll(jobs)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    with mock.patch.object(journal_module.os, "fsync", watched.fsync):
        yield watched


def started(watched: Watched, scheduler: Scheduler) -> Executor:
    scheduler.watched = watched
    journal = Journal(watched.directory)
    journal.session("eos", [f"t.yaml::{row}" for row in ROWS])
    executor = executor_of(scheduler, journal=journal)
    executor.submit({row: spec(row) for row in ROWS})
    return executor


def unsafe(watched: Watched) -> list[str]:
    """Rows of which a session that goes on would not know, at some moment, that they may have a job."""
    found, past_of = [], cache(watched.past)
    content = (watched.directory / NAME).read_bytes()
    ends = [offset for offset, byte in enumerate(content, 1) if byte == ord("\n")]
    cuts = sorted({*ends, *(end - 20 for end in ends)})  # after each line, and in it
    for moment in watched.moments:
        for size in (moment.synced, *(cut for cut in cuts if moment.synced < cut < moment.written), moment.written):
            past = past_of(size)
            for row, job_id in moment.jobs.items():
                submission = past.submissions.get(row)
                if submission is None or not submission.is_of(job_id):
                    found.append(f"{row} at {size}")
    return found


def test_a_session_that_is_killed_at_any_point_knows_of_every_job(watched: Watched) -> None:
    scheduler = Scheduler(Clock(), refused=("r05", "r23"))
    executor = started(watched, scheduler)
    for _ in ROWS:
        row = executor.next_finished()
        if row in scheduler.refused:
            error_of(executor, row, SubmissionError)
        else:
            assert executor.result_of(row).job_id == f"job-{row}"
    executor.close()
    assert sorted(scheduler.submitted) == sorted(ROWS)
    assert watched.moments
    assert unsafe(watched) == []
    past = watched.past(watched.synced)
    assert {row: one.job_id for row, one in past.submissions.items()} == watched.jobs


def test_rows_that_are_submitted_together_share_a_sync(watched: Watched) -> None:
    executor = started(watched, Scheduler(Clock()))
    for _ in ROWS:
        executor.next_finished()
    executor.close()
    # For the session's line and its copy; for the intents of each half of the 36 that are under way; and for the
    # answers, which on a busy machine may come one by one. A sync for each intent would be as many again.
    assert watched.syncs <= 2 + -(-len(ROWS) // 18) + len(ROWS) + 2


def test_rows_that_were_not_begun_are_not_asked_for_again(watched: Watched) -> None:
    """Ctrl-C while rows are on their way: what no thread has taken up has no job, and the journal says so."""
    scheduler = Scheduler(Clock(), away=("r01",))
    executor = started(watched, scheduler)
    executor.interrupt(detach=True)
    executor.close(detach=True)
    past = watched.past(watched.synced)
    assert unsafe(watched) == []
    assert {row for row, one in past.submissions.items() if one.job_id is None} <= {"r01"}
    assert {row for row, one in past.submissions.items()} == set(watched.jobs)


@dataclass
class FullQueue(Scheduler):
    """One that takes no job; all but the first submission wait until they are let go."""

    parallel_submissions: int = 2
    let_go: Any = field(default_factory=threading.Event)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.row_id)
        if spec.row_id != ROWS[0]:
            assert self.let_go.wait(60)
        raise QueueFullError("the queue takes no more jobs")


def test_rows_that_were_not_begun_wait_in_their_order_while_the_queue_is_full(watched: Watched) -> None:
    scheduler = FullQueue(Clock())
    executor = started(watched, scheduler)
    while not executor.full:
        executor._submitter.wait(60)
        executor._submitter.collect()
    waiting = [one.row.row_id for one in executor.rows.queued]
    scheduler.let_go.set()
    executor.close(detach=True)
    begun = scheduler.submitted
    assert len(begun) <= 3  # the first, and what two threads took up before its answer was read
    assert waiting == [row for row in ROWS if row not in begun[1:]]
