"""Submitting rows: as many at once as the limits and the scheduler allow, and each one once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import replace
from functools import cache
from pathlib import Path

from pytest_gsw.errors import QueueFullError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.fleet.entry import Entry
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.patience import Patience
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.before import logs_before, names_before, names_in
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.jobs.resume import is_next

#: Submissions that wait for a free thread, for each thread: enough to keep all busy.
_QUEUED_PER_THREAD = 2
#: The longest wait for half of the submissions under way: one that hangs must not hold the others up.
_ANSWERS_WAIT_S = 0.5

_NO_ROOM = "make room there, or give another directory with --gsw-results=DIR"


class Submitting:
    """Submits rows in their order, in threads where the launcher takes several at once.

    Args:
        rows: All rows.
        launcher: How jobs are started.
        notes: Told of every submission, before and after it.
        clock: Monotonic seconds.
    """

    def __init__(self, rows: Rows, launcher: Launcher, notes: Notes, clock: Callable[[], float]) -> None:
        self._rows = rows
        self._launcher = launcher
        self._notes = notes
        self._clock = clock
        threads = launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self.patience = Patience(threads * (1 + _QUEUED_PER_THREAD))

    def submit(self) -> None:
        """Submit what waits, as far as the limits allow; nothing overtakes a row that does not fit."""
        while batch := self._next_batch():
            self._begin(batch)

    def wait(self, timeout_s: float) -> bool:
        """Wait for some of the answers, for so many seconds at most; false where no submission is under way."""
        futures = [entry.submission for entry in self._rows.submitting.values() if entry.submission is not None]
        if futures:
            some = futures[: max(1, len(futures) - self.patience.window // 2)]
            wait_for(some, timeout=min(timeout_s, _ANSWERS_WAIT_S), return_when=ALL_COMPLETED)
        return bool(futures or self._rows.submitting)

    def collect(self, wait: bool = False) -> None:
        """Take the answers of submissions that other threads have got; waiting, also drop those not begun."""
        if wait:
            self._withdraw()
        self._take_answers(
            [
                (entry, _answer_of(entry.submission))
                for entry in self._rows.submitting.values()
                if entry.submission is not None and (wait or entry.submission.done())
            ]
        )

    def aside(self, task: Callable[[list[Entry]], None], entries: list[Entry]) -> Future[None] | None:
        """Do this in a thread, so that the session goes on meanwhile; at once where there are no threads."""
        if self._threads is not None:
            return self._threads.submit(task, entries)
        task(entries)
        return None

    def close(self) -> None:
        """Let go of the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _next_batch(self) -> list[Entry]:
        """The rows that are submitted next: many together, because the journal is synced once for all of them."""
        rows, patience = self._rows, self.patience
        batch: list[Entry] = []
        if len(rows.submitting) > patience.window // 2:
            return batch
        most = patience.window - len(rows.submitting) if self._threads is not None else 1
        while rows.waiting and len(batch) < most and self._clock() >= patience.due_s:
            entry = rows.waiting[0]
            if not rows.fits(entry):
                break
            rows.waiting.popleft()
            rows.take_place(entry)
            if self._threads is not None:
                rows.submitting[entry.row_id] = entry
            batch.append(entry)
        return batch

    def _begin(self, batch: list[Entry]) -> None:
        """Write down which rows are about to be submitted, and only then submit them."""
        now_s = time.time()
        for entry in batch:
            entry.tried_s, entry.refused = now_s, False
        problem = self._notes.intents([entry.spec for entry in batch if entry.spec is not None], now_s)
        look = cache(names_in)
        for entry in batch:
            if problem is not None:
                self._rows.submitting.pop(entry.row_id, None)
                self._take_answer(entry, SubmissionError(problem, advice=_NO_ROOM))
            elif self._threads is not None:
                entry.submission = self._threads.submit(self._submit, entry, look)
            else:
                self._take_answers([(entry, self._answer(entry, look))])

    def _submit(self, entry: Entry, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless a submission whose answer was lost has got through; in a thread of its own."""
        spec = entry.spec
        assert spec is not None  # only rows that can be submitted wait
        found = None if entry.since_s is None else self._launcher.find(spec, entry.since_s)
        if found is not None and is_next(found, entry.attempts):
            return _with_logs_before(found, entry.names)
        if entry.names is None and self._notes.kept:
            entry.names = names_before(spec, look)
        try:
            job = self._submit_avoiding(spec)
        except SchedulerAwayError:
            entry.since_s = entry.since_s or entry.tried_s
            raise
        except RunError:
            entry.refused = True
            raise
        return _with_logs_before(job, entry.names)

    def _submit_avoiding(self, spec: JobSpec) -> Job:
        """Submit a job to other nodes than before, or to any where there are not enough others."""
        try:
            return self._launcher.submit(spec)
        except RefusedError:
            if not spec.avoided_nodes:
                raise
        return self._launcher.submit(replace(spec, avoided_nodes=()))

    def _answer(self, entry: Entry, look: Callable[[Path, str], frozenset[str]]) -> Job | RunError:
        try:
            return self._submit(entry, look)
        except RunError as error:
            return error

    def _withdraw(self) -> None:
        """Put rows whose submission has not begun back into the queue, and take back that they were about to be."""
        rows = self._rows
        withdrawn = [one for one in rows.submitting.values() if one.submission is None or one.submission.cancel()]
        # Where an earlier answer was lost, there may be a job all the same.
        unsubmitted = [entry.row_id for entry in withdrawn if entry.since_s is None]
        if unsubmitted:
            self._notes.write(Journal.refused, *unsubmitted)
        for entry in withdrawn:
            entry.submission = None
            del rows.submitting[entry.row_id]
            rows.free_place(entry)
            rows.waiting.appendleft(entry)

    def _take_answers(self, answers: list[tuple[Entry, Job | RunError]]) -> None:
        """Write down what the scheduler has answered, and only then go on with it."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [entry.row_id for entry, _ in answers if entry.refused]
        if jobs:
            self._notes.write(Journal.submitted, *jobs)
        if refused:
            self._notes.write(Journal.refused, *refused)
        for entry, answer in answers:
            entry.submission = None
            self._rows.submitting.pop(entry.row_id, None)
            self._take_answer(entry, answer)

    def _take_answer(self, entry: Entry, answer: Job | RunError) -> None:
        rows = self._rows
        if isinstance(answer, Job):
            entry.job = answer
            entry.since_s = entry.away_since_s = None
            entry.status = JobStatus(JobState.PENDING)
            entry.names = None
            rows.live[entry.row_id] = entry
            self.patience.taken()
            rows.is_shared(rows.claims.job(answer), entry)
            return
        rows.free_place(entry)
        if isinstance(answer, QueueFullError):
            self.patience.no_room(answer.fact, self._clock())
            rows.waiting.appendleft(entry)
        elif isinstance(answer, SchedulerAwayError) and self._is_worth_waiting(entry):
            rows.waiting.appendleft(entry)
        else:
            rows.fail(entry, answer)

    def _is_worth_waiting(self, entry: Entry) -> bool:
        now_s = self._clock()
        if entry.away_since_s is None:
            entry.away_since_s = now_s
        return self.patience.is_worth_waiting(entry.away_since_s, now_s)


def _answer_of(submission: Future[Job]) -> Job | RunError:
    """What a submission came to; waits for it if need be."""
    error = submission.exception()
    if error is None:
        return submission.result()
    # One row's fault must not keep the others' jobs from being looked after.
    return error if isinstance(error, RunError) else SubmissionError(f"{type(error).__name__}: {error}")


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with what had the name of its log before it was submitted."""
    return job if names is None else replace(job, logs_before=logs_before(job.spec, job.id, names))
