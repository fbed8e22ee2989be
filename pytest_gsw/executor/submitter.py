"""Queued rows and their submissions: several at once, and later if the scheduler is unreachable or full."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_gsw import errors
from pytest_gsw.executor.phases import ExecutorPart, Finished, Queued, SubmittedJob
from pytest_gsw.jobs.journal import Journal, is_next
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import logs_before, names_before, names_in
from pytest_gsw.jobs.model import Job, JobSpec

#: First and longest wait after a failure to reach the scheduler; each wait is twice the one before.
BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 60.0


class Backoff:
    """The time of the next submissions and their number at once; all times are monotonic seconds.

    Args:
        at_once: Most submissions under way while the scheduler accepts all of them.
        unknown_limit_s: Rows are given up after the scheduler was unreachable for this long.
    """

    def __init__(self, at_once: int, unknown_limit_s: float) -> None:
        #: The scheduler's message that the queue is full, empty if it is not, and the time of the first queued.
        self.full = ""
        self.full_since_s = math.inf
        #: No row is submitted before this time.
        self.due_s = -math.inf
        #: Submissions that may be under way: one after a full queue or an unreachable scheduler, then one more for each
        #: accepted queued.
        self.window = at_once
        self._at_once, self._unknown_limit_s = at_once, unknown_limit_s
        self._back_off_s = BACK_OFF_S
        #: Time of the scheduler's last answer about a job, and of the first submission without one since then.
        self._answered_s, self._away_since_s = -math.inf, math.inf

    def reached(self) -> None:
        """Note that the scheduler answered a submission."""
        self._away_since_s = math.inf

    def taken(self) -> None:
        """Note that the scheduler accepted a job."""
        self.reached()
        self._back_off_s = BACK_OFF_S
        self.full, self.full_since_s = "", math.inf
        self.window = min(self.window + 1, self._at_once)

    def answered(self, now_s: float) -> None:
        """Note that the scheduler answered about a job."""
        self._answered_s = now_s

    def no_room(self, why: str, now_s: float) -> None:
        """Postpone all submissions until a job of this session has left the queue, or for a minute."""
        self.full_since_s = min(self.full_since_s, now_s)
        self.full = why
        self.window = 1
        self.due_s = now_s + LONGEST_BACK_OFF_S

    def room(self) -> None:
        """Note that a job of this session left the queue."""
        if self.full:
            self.due_s = -math.inf

    def is_worth_waiting(self, away_since_s: float, now_s: float) -> bool:
        """Postpone all submissions while the scheduler is unreachable; false once that took too long."""
        # A scheduler that answers polls is reachable but full: it accepts more once some jobs have ended.
        self._away_since_s = min(self._away_since_s, away_since_s)
        if now_s - max(self._away_since_s, self._answered_s) >= self._unknown_limit_s:
            return False
        if now_s >= self.due_s:  # else another row's failure has postponed them
            self.due_s = now_s + self._back_off_s
            self._back_off_s = min(2 * self._back_off_s, LONGEST_BACK_OFF_S)
            self.window = 1
        return True


#: Submissions that wait for each thread: enough to keep all threads busy while the session polls or judges,
#: which takes a second at a time on a busy machine.
_QUEUED_PER_THREAD = 8
#: Longest wait for half of the submissions under way: one that hangs must not delay the others.
_ANSWERS_WAIT_S = 0.5

_NO_ROOM = "make room there, or give another directory with --gsw-results=DIR"


@dataclass(eq=False, repr=False)
class Submitter(ExecutorPart):
    """Submits rows in their order, in threads if the launcher accepts several at once."""

    def __post_init__(self) -> None:
        threads = self.launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self.backoff = Backoff(threads * (1 + _QUEUED_PER_THREAD), self.launcher.unknown_limit_s)
        #: True after a wait for answers: those available are then collected, however few.
        self._waited = False

    @property
    def due_s(self) -> float:
        """End of the postponement of all submissions, monotonic seconds; infinity if none is postponed or queued."""
        due_s = self.backoff.due_s
        return due_s if self.rows.queued and due_s > self.clock() else math.inf

    def submit(self) -> None:
        """Submit queued rows as far as the limits allow; no row overtakes one that does not fit."""
        while batch := self._next_batch():
            self._begin(batch)

    def wait(self, timeout_s: float, other: Future[Any] | None = None) -> bool:
        """Wait at most this long for some of the answers or for ``other``; false if there is nothing to wait for."""
        self._waited = True
        futures = [queued.answer for queued in self.rows.submitting.values() if queued.answer is not None]
        awaited = [other] if other is not None else []
        if futures:  # they complete in about their order
            unanswered = self.backoff.window // 2 if self.rows.queued else 0
            awaited.append(futures[max(0, len(futures) - unanswered - 1)])
        if awaited:
            wait(awaited, timeout=min(timeout_s, _ANSWERS_WAIT_S), return_when=FIRST_COMPLETED)
        return bool(awaited or self.rows.submitting)

    def collect(self, until_all_done: bool = False) -> None:
        """Process the answers of submissions in other threads; if all are to be done, withdraw those not begun.

        Answers that arrive while rows are judged wait until they make room for a batch: they share one sync then.
        """
        if until_all_done:
            self._withdraw()
        submitting = self.rows.submitting.values()
        answered = [
            (queued, queued.answer)
            for queued in submitting
            if queued.answer is not None and (until_all_done or queued.answer.done())
        ]
        if until_all_done or self._waited or len(submitting) - len(answered) <= self.backoff.window // 2:
            self._waited = False
            self._handle_answers([(queued, self._answer_of(queued, answer)) for queued, answer in answered])

    def in_thread(self, task: Callable[[list[SubmittedJob]], None], jobs: list[SubmittedJob]) -> Future[None] | None:
        """Run a task in a thread; at once, and without a future, if there are no threads."""
        if self._threads is not None:
            return self._threads.submit(task, jobs)
        task(jobs)
        return None

    def close(self) -> None:
        """Shut down the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _next_batch(self) -> list[Queued]:
        """Rows to submit next: many together, because one sync of the journal covers all of them."""
        rows, backoff = self.rows, self.backoff
        batch: list[Queued] = []
        if len(rows.submitting) > backoff.window // 2:
            return batch
        most = backoff.window - len(rows.submitting) if self._threads is not None else 1
        while rows.queued and len(batch) < most and self.clock() >= backoff.due_s:
            if not rows.fits(rows.queued[0].row):
                break
            batch.append(rows.begin())
        return batch

    def _begin(self, batch: list[Queued]) -> None:
        """Record which rows are about to be submitted, and only then submit them."""
        now_s = self.launcher.now_s()
        for queued in batch:
            queued.tried_s = now_s
        problem = self.journal.intents([queued.row.spec for queued in batch], now_s)
        look = cache(names_in)
        for queued in batch:
            if problem is not None:
                self.rows.submitting.pop(queued.row.row_id, None)
                self._handle_answer(queued, errors.SubmissionError(problem, advice=_NO_ROOM))
                continue
            queued.answer = Future()  # exists before the submission begins: Ctrl-C may hit at any moment
            submit = partial(self._submit, queued, look)
            if self._threads is not None:
                self._threads.submit(_run_submission, queued.answer, submit)
            else:
                _run_submission(queued.answer, submit)
                self._handle_answers([(queued, self._answer_of(queued, queued.answer))])

    def _submit(self, queued: Queued, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless an earlier submission without an answer has reached the scheduler.

        Runs in a thread.
        """
        self.journal.check()  # it may have waited for long
        spec = queued.row.spec
        lost_job = _find_lost_job(self.launcher, queued)
        if lost_job is not None:
            return lost_job
        queued.away = None
        if queued.names is None and self.journal.kept and self.launcher.sees_files:
            queued.names = names_before(spec, look)
        try:
            job = self._submit_avoiding(spec)
        except errors.SchedulerUnreachableError:
            queued.since_s = queued.since_s or queued.tried_s
            raise
        except errors.RunError:
            queued.refused = True
            raise
        return _with_logs_before(job, queued.names)

    def _submit_avoiding(self, spec: JobSpec) -> Job:
        """Submit a job to other nodes than before, or to any nodes if too few others are left."""
        try:
            return self.launcher.submit(spec)
        except errors.RefusedError:
            if not spec.avoided_nodes:
                raise
        return self.launcher.submit(replace(spec, avoided_nodes=()))

    def _answer_of(self, queued: Queued, answer: Future[Job]) -> Job | errors.RunError:
        """Result of a submission; waits for it if needed."""
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, KeyboardInterrupt):
            return self._find_after_interrupt(queued)
        if isinstance(error, errors.TakenOverError):
            raise error
        # An error of one row must not stop the monitoring of the others' jobs.
        return (
            error if isinstance(error, errors.RunError) else errors.SubmissionError(f"{type(error).__name__}: {error}")
        )

    def _find_after_interrupt(self, queued: Queued) -> Job | errors.RunError:
        """The job of a submission that Ctrl-C interrupted: the launcher may have created it before it could answer."""
        queued.since_s = queued.since_s or queued.tried_s
        try:
            job = _find_lost_job(self.launcher, queued)
        except errors.RunError as error:
            return errors.SchedulerUnreachableError(error.fact)
        return errors.SchedulerUnreachableError("Ctrl-C hit while the job was submitted") if job is None else job

    def _withdraw(self) -> None:
        """Return rows without a begun submission to the queue, and record that they were not submitted."""
        rows = self.rows
        withdrawn = [queued for queued in rows.submitting.values() if queued.answer is None or queued.answer.cancel()]
        # If an earlier answer was lost, a job may exist nevertheless.
        unsubmitted = [queued.row.row_id for queued in withdrawn if queued.since_s is None]
        if unsubmitted:
            self.journal.write(Journal.refused, *unsubmitted)
        for queued in reversed(withdrawn):
            del rows.submitting[queued.row.row_id]
            rows.free_place(queued.row)
            rows.queue(queued, first=True)

    def _handle_answers(self, answers: list[tuple[Queued, Job | errors.RunError]]) -> None:
        """Record the scheduler's answers, and only then act on them."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [queued.row.row_id for queued, _ in answers if queued.refused]
        if jobs:
            self.journal.write(Journal.submitted, *jobs)
        if refused:
            self.journal.write(Journal.refused, *refused)
        if any(isinstance(answer, errors.QueueFullError | errors.SchedulerUnreachableError) for _, answer in answers):
            self._withdraw()  # submissions that have not begun would only be refused as well
        for queued, answer in answers:
            self._handle_answer(queued, answer)
            # Only afterwards: Ctrl-C may hit in between; handling an answer twice is harmless, losing it is not.
            self.rows.submitting.pop(queued.row.row_id, None)

    def _handle_answer(self, queued: Queued, answer: Job | errors.RunError) -> None:
        rows, row = self.rows, queued.row
        if isinstance(answer, Job):
            rows.activate(row, SubmittedJob(answer, away=queued.away)).queued_s = self.clock()
            self.backoff.taken()
            rows.is_shared(rows.claims.job(answer), row.row_id)
            return
        rows.free_place(row)
        if not isinstance(answer, errors.SchedulerUnreachableError):
            self.backoff.reached()
        if isinstance(answer, errors.QueueFullError) and not self._is_full_too_long():
            self.backoff.no_room(answer.fact, self.clock())
            rows.queue(queued, first=True)
        elif isinstance(answer, errors.SchedulerUnreachableError) and self._is_worth_waiting(queued):
            queued.away = queued.away or answer
            rows.queue(queued, first=True)
        else:
            rows.finish(Finished(row.row_id, answer, row, since_s=queued.since_s))

    def _is_full_too_long(self) -> bool:
        """True if the queue has taken no job for longer than jobs may wait in it, and none of the session has run."""
        return self.clock() - max(self.backoff.full_since_s, self.rows.ran_s) >= self.rows.limits.queue_s

    def _is_worth_waiting(self, queued: Queued) -> bool:
        now_s = self.clock()
        if queued.away_since_s is None:
            queued.away_since_s = now_s
        return self.backoff.is_worth_waiting(queued.away_since_s, now_s)


def _run_submission(submission: Future[Job], submit: Callable[[], Job]) -> None:
    """Run a submission and set its result, unless it was withdrawn."""
    if submission.set_running_or_notify_cancel():
        try:
            submission.set_result(submit())
        except BaseException as error:
            if not submission.done():
                submission.set_exception(error)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, in the session's own thread


def _find_lost_job(launcher: Launcher, queued: Queued) -> Job | None:
    """The job of a submission whose answer was lost; ``None`` if it did not reach the scheduler."""
    job = None if queued.since_s is None else launcher.find(queued.row.spec, queued.since_s)
    if job is None or not is_next(job, queued.row.attempts):
        return None
    return _with_logs_before(job, queued.names)


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with the files that had its log's name before its submission."""
    if names is None or job.logs_before is not None:
        return job
    return replace(job, logs_before=logs_before(job.spec, job.id, names))
