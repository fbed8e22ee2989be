"""Submitting rows: as many at once as the limits and the scheduler allow, and each one once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_gsw.errors import QueueFullError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.fleet.rows import Over, Rows, Seen, Submitting, Waiting
from pytest_gsw.jobs.journal import Journal, is_next
from pytest_gsw.jobs.layout import logs_before, names_before, names_in
from pytest_gsw.jobs.model import Job, JobSpec, Launcher

# -- What a session writes to its run's journal, as far as the disk allows --------------------------


class Notes:
    """The run's journal; a replay, which submits nothing, needs none.

    Args:
        journal: Told of every submission, before and after it.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        #: Why the journal lacks something, where it does.
        self.problem = ""

    @property
    def kept(self) -> bool:
        """Whether a later session will read them."""
        return self._journal is not None

    def intents(self, specs: list[JobSpec], now_s: float) -> str | None:
        """Why the journal cannot tell of these rows, so that none of them may be submitted; ``None`` where it does."""
        if self._journal is None:
            return None
        try:
            self._journal.intents(specs, now_s)
        except OSError as error:
            return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def write(self, event: Callable[..., None], *facts: object) -> None:
        """Write what has happened; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()


@dataclass(frozen=True)
class Means:
    """What all parts of a fleet work with."""

    rows: Rows
    #: How jobs are started, asked about and ended, and where their logs are.
    launcher: Launcher
    #: The run's journal.
    notes: Notes
    #: The session's environment, whose secrets are not shown.
    environ: Mapping[str, str]
    #: Monotonic seconds.
    clock: Callable[[], float]


class Part:
    """A part of a fleet."""

    def __init__(self, means: Means) -> None:
        self._rows = means.rows
        self._launcher = means.launcher
        self._notes = means.notes
        self._environ = means.environ
        self._clock = means.clock


# -- How long a session waits for a scheduler that is out of reach or full --------------------------
#
# And how much it asks of it at once.


#: How long the scheduler may be out of reach before rows are given up: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0
#: After a failure to reach the scheduler: the first wait, and the longest; each is twice the one before.
BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 60.0


def is_too_long(away_s: float) -> bool:
    """Whether a scheduler that has been out of reach for so many seconds is waited for no more."""
    return away_s >= UNKNOWN_LIMIT_S


class Patience:
    """When the next rows may be submitted, and how many at once; all times are monotonic seconds.

    Args:
        at_once: How many submissions may be under way while the scheduler takes all of them.
    """

    def __init__(self, at_once: int) -> None:
        #: Why nothing more is submitted for now: the queue is full. Empty where it is not.
        self.full = ""
        #: No row is submitted before.
        self.due_s = -math.inf
        #: How many may be under way by now: one once the scheduler took none, then one more for each that it takes.
        self.window = at_once
        self._at_once = at_once
        self._back_off_s = BACK_OFF_S
        #: When the scheduler last told of a job.
        self._answered_s = -math.inf

    def taken(self) -> None:
        """The scheduler has taken a job."""
        self._back_off_s = BACK_OFF_S
        self.full = ""
        self.window = min(self.window + 1, self._at_once)

    def answered(self, now_s: float) -> None:
        """The scheduler has told of a job."""
        self._answered_s = now_s

    def no_room(self, why: str, now_s: float) -> None:
        """Put off all submissions until a job of this session has left the queue, or a minute has passed."""
        self.full = why
        self.window = 1
        self.due_s = now_s + LONGEST_BACK_OFF_S

    def room(self) -> None:
        """A job of this session has left the queue."""
        if self.full:
            self.due_s = -math.inf

    def is_worth_waiting(self, away_since_s: float, now_s: float) -> bool:
        """Put off all submissions while the scheduler is out of reach; false once that took too long."""
        # One that answers questions is there: it holds all the jobs it can, and takes more when some have ended.
        if is_too_long(now_s - max(away_since_s, self._answered_s)):
            return False
        if now_s >= self.due_s:  # else another row's failure has done so
            self.due_s = now_s + self._back_off_s
            self._back_off_s = min(2 * self._back_off_s, LONGEST_BACK_OFF_S)
            self.window = 1
        return True


#: Submissions that wait for a free thread, for each thread: enough to keep all busy while the session asks about jobs
#: or judges rows, which takes it a second at a time on a busy machine.
_QUEUED_PER_THREAD = 8
#: The longest wait for half of the submissions under way: one that hangs must not hold the others up.
_ANSWERS_WAIT_S = 0.5

_NO_ROOM = "make room there, or give another directory with --gsw-results=DIR"


class Submitter(Part):
    """Submits rows in their order, in threads where the launcher takes several at once."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        threads = means.launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self.patience = Patience(threads * (1 + _QUEUED_PER_THREAD))
        #: Answers were waited for, so that those that are there are taken however few they are.
        self._waited = False

    @property
    def due_s(self) -> float:
        """Until when all submissions are put off, monotonic seconds; infinity where they are not, or no row waits."""
        due_s = self.patience.due_s
        return due_s if self._rows.waiting and due_s > self._clock() else math.inf

    def submit(self) -> None:
        """Submit what waits, as far as the limits allow; nothing overtakes a row that does not fit."""
        while batch := self._next_batch():
            self._begin(batch)

    def wait(self, timeout_s: float, other: Future[Any] | None = None) -> bool:
        """Wait for some of the answers or for another one, for so many seconds at most; false where none is awaited."""
        self._waited = True
        futures = [one.answer for one in self._rows.submitting.values() if one.answer is not None]
        awaited = [other] if other is not None else []
        if futures:  # they are answered in about their order
            unanswered = self.patience.window // 2 if self._rows.waiting else 0
            awaited.append(futures[max(0, len(futures) - unanswered - 1)])
        if awaited:
            wait_for(awaited, timeout=min(timeout_s, _ANSWERS_WAIT_S), return_when=FIRST_COMPLETED)
        return bool(awaited or self._rows.submitting)

    def collect(self, wait: bool = False) -> None:
        """Take the answers of submissions that other threads have got; waiting, also drop those not begun.

        Those that come while rows are judged are taken once they make room for a batch: they share a sync then.
        """
        if wait:
            self._withdraw()
        submitting = self._rows.submitting.values()
        answered = [(one, one.answer) for one in submitting if one.answer is not None and (wait or one.answer.done())]
        if wait or self._waited or len(submitting) - len(answered) <= self.patience.window // 2:
            self._waited = False
            self._take_answers([(one, self._answer_of(one, answer)) for one, answer in answered])

    def aside(self, task: Callable[[list[Seen]], None], jobs: list[Seen]) -> Future[None] | None:
        """Do this in a thread, so that the session goes on meanwhile; at once where there are no threads."""
        if self._threads is not None:
            return self._threads.submit(task, jobs)
        task(jobs)
        return None

    def close(self) -> None:
        """Let go of the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _next_batch(self) -> list[Submitting]:
        """The rows that are submitted next: many together, because the journal is synced once for all of them."""
        rows, patience = self._rows, self.patience
        batch: list[Submitting] = []
        if len(rows.submitting) > patience.window // 2:
            return batch
        most = patience.window - len(rows.submitting) if self._threads is not None else 1
        while rows.waiting and len(batch) < most and self._clock() >= patience.due_s:
            row = rows.waiting[0].row
            if not rows.fits(row):
                break
            submitting = rows.submitting[row.row_id] = rows.begin(rows.waiting.popleft())
            batch.append(submitting)
        return batch

    def _begin(self, batch: list[Submitting]) -> None:
        """Write down which rows are about to be submitted, and only then submit them."""
        now_s = time.time()
        for one in batch:
            one.tried_s = now_s
        problem = self._notes.intents([one.row.spec for one in batch], now_s)
        look = cache(names_in)
        for one in batch:
            if problem is not None:
                self._rows.submitting.pop(one.row.row_id, None)
                self._take_answer(one.waiting, SubmissionError(problem, advice=_NO_ROOM))
                continue
            one.answer = Future()  # there before the submission begins: Ctrl-C may hit at any moment
            submit = partial(self._submit, one, look)
            if self._threads is not None:
                self._threads.submit(_let_answer, one.answer, submit)
            else:
                _let_answer(one.answer, submit)
                self._take_answers([(one, self._answer_of(one, one.answer))])

    def _submit(self, submitting: Submitting, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless a submission whose answer was lost has got through; in a thread of its own."""
        waiting, spec = submitting.waiting, submitting.waiting.row.spec
        found = _found(self._launcher, waiting)
        if found is not None:
            return found
        waiting.away = None
        if waiting.names is None and self._notes.kept:
            waiting.names = names_before(spec, look)
        try:
            job = self._submit_avoiding(spec)
        except SchedulerAwayError:
            waiting.since_s = waiting.since_s or submitting.tried_s
            raise
        except RunError:
            submitting.refused = True
            raise
        return _with_logs_before(job, waiting.names)

    def _submit_avoiding(self, spec: JobSpec) -> Job:
        """Submit a job to other nodes than before, or to any where there are not enough others."""
        try:
            return self._launcher.submit(spec)
        except RefusedError:
            if not spec.avoided_nodes:
                raise
        return self._launcher.submit(replace(spec, avoided_nodes=()))

    def _answer_of(self, submitting: Submitting, answer: Future[Job]) -> Job | RunError:
        """What a submission came to; waits for it if need be."""
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, KeyboardInterrupt):
            return self._found_after_interrupt(submitting)
        # One row's fault must not keep the others' jobs from being looked after.
        return error if isinstance(error, RunError) else SubmissionError(f"{type(error).__name__}: {error}")

    def _found_after_interrupt(self, submitting: Submitting) -> Job | RunError:
        """The job of a submission that Ctrl-C has torn apart: the launcher may have it although it could not say so."""
        waiting = submitting.waiting
        waiting.since_s = waiting.since_s or submitting.tried_s
        try:
            job = _found(self._launcher, waiting)
        except RunError as error:
            return SchedulerAwayError(error.fact)
        return SchedulerAwayError("Ctrl-C hit while the job was submitted") if job is None else job

    def _withdraw(self) -> None:
        """Put rows whose submission has not begun back into the queue, and take back that they were about to be."""
        rows = self._rows
        withdrawn = [one for one in rows.submitting.values() if one.answer is None or one.answer.cancel()]
        # Where an earlier answer was lost, there may be a job all the same.
        unsubmitted = [one.row.row_id for one in withdrawn if one.waiting.since_s is None]
        if unsubmitted:
            self._notes.write(Journal.refused, *unsubmitted)
        for one in reversed(withdrawn):
            del rows.submitting[one.row.row_id]
            rows.free_place(one.row)
            rows.wait(one.waiting, first=True)

    def _take_answers(self, answers: list[tuple[Submitting, Job | RunError]]) -> None:
        """Write down what the scheduler has answered, and only then go on with it."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [one.row.row_id for one, _ in answers if one.refused]
        if jobs:
            self._notes.write(Journal.submitted, *jobs)
        if refused:
            self._notes.write(Journal.refused, *refused)
        if any(isinstance(answer, QueueFullError | SchedulerAwayError) for _, answer in answers):
            self._withdraw()  # what no thread has begun need not be refused as well
        for one, answer in answers:
            self._take_answer(one.waiting, answer)
            # Only then: Ctrl-C may hit in between, and an answer that is taken twice is none that is lost.
            self._rows.submitting.pop(one.row.row_id, None)

    def _take_answer(self, waiting: Waiting, answer: Job | RunError) -> None:
        rows, row = self._rows, waiting.row
        if isinstance(answer, Job):
            rows.go_live(row, Seen(answer, away=waiting.away))
            self.patience.taken()
            rows.is_shared(rows.claims.job(answer), row.row_id)
            return
        rows.free_place(row)
        if isinstance(answer, QueueFullError):
            self.patience.no_room(answer.fact, self._clock())
            rows.wait(waiting, first=True)
        elif isinstance(answer, SchedulerAwayError) and self._is_worth_waiting(waiting):
            waiting.away = waiting.away or answer
            rows.wait(waiting, first=True)
        else:
            rows.finish(Over(row.row_id, answer, row, since_s=waiting.since_s))

    def _is_worth_waiting(self, waiting: Waiting) -> bool:
        now_s = self._clock()
        if waiting.away_since_s is None:
            waiting.away_since_s = now_s
        return self.patience.is_worth_waiting(waiting.away_since_s, now_s)


def _let_answer(submission: Future[Job], submit: Callable[[], Job]) -> None:
    """Let a submission have its answer, unless it was withdrawn."""
    if submission.set_running_or_notify_cancel():
        try:
            submission.set_result(submit())
        except BaseException as error:
            if not submission.done():
                submission.set_exception(error)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, in the session's own thread


def _found(launcher: Launcher, waiting: Waiting) -> Job | None:
    """The job of a submission whose answer was lost, where it has got through."""
    job = None if waiting.since_s is None else launcher.find(waiting.row.spec, waiting.since_s)
    if job is None or not is_next(job, waiting.row.attempts):
        return None
    return _with_logs_before(job, waiting.names)


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with what had the name of its log before it was submitted."""
    return job if names is None else replace(job, logs_before=logs_before(job.spec, job.id, names))
