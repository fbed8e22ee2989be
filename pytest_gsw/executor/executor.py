"""Submit all selected rows, poll all their jobs with one request, and return those that finished.

A row passes through these phases: *queued*, *being submitted*, *active* (its job is pending or runs),
*awaiting log* (its job has ended) and *finished*. Each phase is a type with the data available by then.
The rows of each phase are in a dictionary: a poll costs what its jobs cost, not what the session has done so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import starmap
from pathlib import Path
from typing import Any

from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.process import run_in_background
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import duration
from pytest_gsw.errors import (
    INTERRUPTED,
    IncompleteLogError,
    JobError,
    LogError,
    NoLogError,
    NotListedError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
    TakenOverError,
)
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.phases import (
    Active,
    AwaitingLog,
    Check,
    Count,
    Decide,
    Finished,
    LookObserver,
    Phase,
    Queued,
    RepeatObserver,
    RowJobs,
    RowTable,
    StateObserver,
    SubmittedJob,
    Watcher,
    is_healthy,
    submitted_job_of,
    unanswered_s,
)
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.journal import Journal, Submission, by_row, is_next
from pytest_gsw.jobs.layout import check_new, logs_before, names_before, names_in, open_anew, other_outputs_of, sizes_of
from pytest_gsw.jobs.model import (
    AT_ONCE,
    COMPLETING,
    LOST_AT_START,
    NO_OTHER_NODE,
    NODE_LOST,
    NOT_LAUNCHED,
    STANDING_STILL,
    Attempt,
    EarlyStop,
    Job,
    JobSpec,
    JobState,
    JobStatus,
    Launcher,
)
from pytest_gsw.jobs.pending import begins_after, reason_of
from pytest_gsw.jobs.spec import session_environment
from pytest_gsw.logs.reader import detect_format
from pytest_gsw.stats.black_holes import AT_ONCE_S, BlackHole, black_holes
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.checks import is_own, not_alone, read_identity
from pytest_gsw.validation.retryable import failed_at_once, infrastructure_failure, node_use
from pytest_gsw.validation.run import CAUSE_OF_STATE, Run, cause_of, ran_out_of_memory

# -- The run's journal, as far as the disk allows ---------------------------------------------------


class JournalWriter:
    """Writes the run's journal; does nothing for a replay, which submits nothing.

    Args:
        journal: Records every submission, before and after it.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        #: Why the journal is incomplete; empty if it is complete.
        self.problem = ""
        #: Who has taken the run over; empty if this session owns it.
        self.taken_over = ""

    def check(self) -> None:
        """Raise a TakenOverError if the run belongs to another session by now: its jobs are that one's."""
        if self._journal is not None:
            try:
                self._journal.check()
            except TakenOverError as error:
                self.taken_over = str(error)
                raise

    @property
    def kept(self) -> bool:
        """True if there is a journal for a later session to read."""
        return self._journal is not None

    def intents(self, specs: list[JobSpec], now_s: float) -> str | None:
        """Record that these rows are about to be submitted.

        Returns:
            The reason why none of them may be submitted; ``None`` if they are recorded.
        """
        if self._journal is not None:
            try:
                self._journal.intents(specs, now_s)
            except OSError as error:
                return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def write(self, event: Callable[..., None], *facts: object) -> None:
        """Record an event; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


# -- Waiting for a scheduler that is unreachable or full; submissions under way at once -------------


#: Rows are given up after the scheduler was unreachable for this long: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0
#: First and longest wait after a failure to reach the scheduler; each wait is twice the one before.
BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 60.0


class Backoff:
    """The time of the next submissions and their number at once; all times are monotonic seconds.

    Args:
        at_once: Most submissions under way while the scheduler accepts all of them.
    """

    def __init__(self, at_once: int) -> None:
        #: The scheduler's message that the queue is full, empty if it is not, and the time of the first one.
        self.full = ""
        self.full_since_s = math.inf
        #: No row is submitted before this time.
        self.due_s = -math.inf
        #: Submissions that may be under way: one after a full queue or an unreachable scheduler, then one more for each
        #: accepted one.
        self.window = at_once
        self._at_once = at_once
        self._back_off_s = BACK_OFF_S
        #: Time of the scheduler's last answer about a job.
        self._answered_s = -math.inf

    def taken(self) -> None:
        """Note that the scheduler accepted a job."""
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
        if now_s - max(away_since_s, self._answered_s) >= UNKNOWN_LIMIT_S:
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


class Submitter:
    """Submits rows in their order, in threads if the launcher accepts several at once.

    Args:
        rows: The rows.
        launcher: Starts jobs and finds them again.
        journal: The run's journal.
        clock: Monotonic seconds.
    """

    def __init__(self, rows: RowTable, launcher: Launcher, journal: JournalWriter, clock: Callable[[], float]) -> None:
        self._rows, self._launcher, self._journal, self._clock = rows, launcher, journal, clock
        threads = launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self.patience = Backoff(threads * (1 + _QUEUED_PER_THREAD))
        #: True after a wait for answers: those available are then collected, however few.
        self._waited = False

    @property
    def due_s(self) -> float:
        """End of the postponement of all submissions, monotonic seconds; infinity if none is postponed or queued."""
        due_s = self.patience.due_s
        return due_s if self._rows.waiting and due_s > self._clock() else math.inf

    def submit(self) -> None:
        """Submit queued rows as far as the limits allow; no row overtakes one that does not fit."""
        while batch := self._next_batch():
            self._begin(batch)

    def wait(self, timeout_s: float, other: Future[Any] | None = None) -> bool:
        """Wait at most this long for some of the answers or for ``other``; false if there is nothing to wait for."""
        self._waited = True
        futures = [one.answer for one in self._rows.submitting.values() if one.answer is not None]
        awaited = [other] if other is not None else []
        if futures:  # they complete in about their order
            unanswered = self.patience.window // 2 if self._rows.waiting else 0
            awaited.append(futures[max(0, len(futures) - unanswered - 1)])
        if awaited:
            wait(awaited, timeout=min(timeout_s, _ANSWERS_WAIT_S), return_when=FIRST_COMPLETED)
        return bool(awaited or self._rows.submitting)

    def collect(self, wait: bool = False) -> None:
        """Process the answers of submissions in other threads; with ``wait``, also withdraw those not begun.

        Answers that arrive while rows are judged wait until they make room for a batch: they share one sync then.
        """
        if wait:
            self._withdraw()
        submitting = self._rows.submitting.values()
        answered = [(one, one.answer) for one in submitting if one.answer is not None and (wait or one.answer.done())]
        if wait or self._waited or len(submitting) - len(answered) <= self.patience.window // 2:
            self._waited = False
            self._handle_answers([(one, self._answer_of(one, answer)) for one, answer in answered])

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
        rows, patience = self._rows, self.patience
        batch: list[Queued] = []
        if len(rows.submitting) > patience.window // 2:
            return batch
        most = patience.window - len(rows.submitting) if self._threads is not None else 1
        while rows.waiting and len(batch) < most and self._clock() >= patience.due_s:
            if not rows.fits(rows.waiting[0].row):
                break
            batch.append(rows.begin())
        return batch

    def _begin(self, batch: list[Queued]) -> None:
        """Record which rows are about to be submitted, and only then submit them."""
        now_s = time.time()
        for one in batch:
            one.tried_s = now_s
        problem = self._journal.intents([one.row.spec for one in batch], now_s)
        look = cache(names_in)
        for one in batch:
            if problem is not None:
                self._rows.submitting.pop(one.row.row_id, None)
                self._handle_answer(one, SubmissionError(problem, advice=_NO_ROOM))
                continue
            one.answer = Future()  # exists before the submission begins: Ctrl-C may hit at any moment
            submit = partial(self._submit, one, look)
            if self._threads is not None:
                self._threads.submit(_run_submission, one.answer, submit)
            else:
                _run_submission(one.answer, submit)
                self._handle_answers([(one, self._answer_of(one, one.answer))])

    def _submit(self, waiting: Queued, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless an earlier submission without an answer has reached the scheduler.

        Runs in a thread.
        """
        self._journal.check()  # it may have waited for long
        spec = waiting.row.spec
        found = _find_lost_job(self._launcher, waiting)
        if found is not None:
            return found
        waiting.away = None
        if waiting.names is None and self._journal.kept:
            waiting.names = names_before(spec, look)
        try:
            job = self._submit_avoiding(spec)
        except SchedulerUnreachableError:
            waiting.since_s = waiting.since_s or waiting.tried_s
            raise
        except RunError:
            waiting.refused = True
            raise
        return _with_logs_before(job, waiting.names)

    def _submit_avoiding(self, spec: JobSpec) -> Job:
        """Submit a job to other nodes than before, or to any nodes if too few others are left."""
        try:
            return self._launcher.submit(spec)
        except RefusedError:
            if not spec.avoided_nodes:
                raise
        return self._launcher.submit(replace(spec, avoided_nodes=()))

    def _answer_of(self, waiting: Queued, answer: Future[Job]) -> Job | RunError:
        """Result of a submission; waits for it if needed."""
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, KeyboardInterrupt):
            return self._find_after_interrupt(waiting)
        if isinstance(error, TakenOverError):
            raise error
        # An error of one row must not stop the monitoring of the others' jobs.
        return error if isinstance(error, RunError) else SubmissionError(f"{type(error).__name__}: {error}")

    def _find_after_interrupt(self, waiting: Queued) -> Job | RunError:
        """The job of a submission that Ctrl-C interrupted: the launcher may have created it before it could answer."""
        waiting.since_s = waiting.since_s or waiting.tried_s
        try:
            job = _find_lost_job(self._launcher, waiting)
        except RunError as error:
            return SchedulerUnreachableError(error.fact)
        return SchedulerUnreachableError("Ctrl-C hit while the job was submitted") if job is None else job

    def _withdraw(self) -> None:
        """Return rows without a begun submission to the queue, and record that they were not submitted."""
        rows = self._rows
        withdrawn = [one for one in rows.submitting.values() if one.answer is None or one.answer.cancel()]
        # If an earlier answer was lost, a job may exist nevertheless.
        unsubmitted = [one.row.row_id for one in withdrawn if one.since_s is None]
        if unsubmitted:
            self._journal.write(Journal.refused, *unsubmitted)
        for one in reversed(withdrawn):
            del rows.submitting[one.row.row_id]
            rows.free_place(one.row)
            rows.wait(one, first=True)

    def _handle_answers(self, answers: list[tuple[Queued, Job | RunError]]) -> None:
        """Record the scheduler's answers, and only then act on them."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [one.row.row_id for one, _ in answers if one.refused]
        if jobs:
            self._journal.write(Journal.submitted, *jobs)
        if refused:
            self._journal.write(Journal.refused, *refused)
        if any(isinstance(answer, QueueFullError | SchedulerUnreachableError) for _, answer in answers):
            self._withdraw()  # submissions that have not begun would only be refused as well
        for one, answer in answers:
            self._handle_answer(one, answer)
            # Only afterwards: Ctrl-C may hit in between; handling an answer twice is harmless, losing it is not.
            self._rows.submitting.pop(one.row.row_id, None)

    def _handle_answer(self, waiting: Queued, answer: Job | RunError) -> None:
        rows, row = self._rows, waiting.row
        if isinstance(answer, Job):
            rows.activate(row, SubmittedJob(answer, away=waiting.away)).queued_s = self._clock()
            self.patience.taken()
            rows.is_shared(rows.claims.job(answer), row.row_id)
            return
        rows.free_place(row)
        if isinstance(answer, QueueFullError) and not self._is_full_too_long():
            self.patience.no_room(answer.fact, self._clock())
            rows.wait(waiting, first=True)
        elif isinstance(answer, SchedulerUnreachableError) and self._is_worth_waiting(waiting):
            waiting.away = waiting.away or answer
            rows.wait(waiting, first=True)
        else:
            rows.finish(Finished(row.row_id, answer, row, since_s=waiting.since_s))

    def _is_full_too_long(self) -> bool:
        """True if the queue has taken no job for longer than jobs may wait in it, and none of the session has run."""
        return self._clock() - max(self.patience.full_since_s, self._rows.ran_s) >= self._rows.limits.queue_s

    def _is_worth_waiting(self, waiting: Queued) -> bool:
        now_s = self._clock()
        if waiting.away_since_s is None:
            waiting.away_since_s = now_s
        return self.patience.is_worth_waiting(waiting.away_since_s, now_s)


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


def _find_lost_job(launcher: Launcher, waiting: Queued) -> Job | None:
    """The job of a submission whose answer was lost; ``None`` if it did not reach the scheduler."""
    job = None if waiting.since_s is None else launcher.find(waiting.row.spec, waiting.since_s)
    if job is None or not is_next(job, waiting.row.attempts):
        return None
    return _with_logs_before(job, waiting.names)


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with the files that had its log's name before its submission."""
    return job if names is None else replace(job, logs_before=logs_before(job.spec, job.id, names))


# -- Retries and repeats: after an infrastructure failure or a cancellation, or to measure once more ---


#: Reason for the next job of a row whose job an earlier session of the run cancelled.
SESSION_ENDED = "its session ended early"

#: Wait of a row whose job failed at once for other rows to show that its node is the cause: a job that began with it
#: has shown by then that it works, and was polled.
HOLD_S = 1.5 * AT_ONCE_S
#: Least time between two decisions on all nodes of the session.
_NODES_DECIDED_S = 1.0


# -- The logs of jobs: their paths, and the wait for the log of an ended job ------------------------


#: Longest interval between two searches for the log of an ended job.
_LONGEST_LOG_LOOK_S = 1.0

#: Longest interval between two decisions on a row that waits for other rows.
_LONGEST_DECISION_S = 60.0


def log_of(launcher: Launcher, job: Job) -> Path:
    """Path of a job's log.

    Raises:
        LogError: It is missing or older than the job, or the search failed.
    """
    try:
        log = launcher.find_log(job)
    except OSError as error:  # a file system that is unavailable for a moment
        raise LogError(f"the log of job {job.id} cannot be looked for: {error.strerror or error}") from error
    check_new(job, log, is_own)
    return log


def batch_output_of(launcher: Launcher, job: Job) -> Path | None:
    """Output file of a job's batch shell; ``None`` if unknown."""
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


def in_batch_output(error: LogError, job: Job, output: Path | None) -> Path | LogError:
    """The batch shell's output, if it is the job's log and there is none in the recipe's place; else the error.

    The recipes redirect the output of their srun by a variable that some versions of Slurm ignore. Steps alone do not
    identify the job: a script may print another log.
    """
    if not isinstance(error, NoLogError) or output is None:
        return error
    try:
        named = read_identity(output, detect_format(output).name).job_id
        check_new(job, output)
    except (LogError, OSError):
        return error
    if named == job.id:
        return output
    whose = "no line names their job" if named is None else f"they are those of job {named}"
    return LogError(
        error.fact,
        (*error.evidence, ("steps in", str(output))),
        error.tail,
        f"let the recipe write its log where it is looked for; the batch output has steps, and {whose}",
    )


# -- Polls of all jobs with one request -------------------------------------------------------------


#: A job whose log shows its last step gets this long to end before the next poll.
SETTLE_S = 1.0
#: Upper limit on polls in one interval.
MOST_POLLS_PER_INTERVAL = 5

#: Wait of a finishing session for the answer of a poll, which it does not need.
_LAST_ANSWER_S = 1.0
#: Wait of an interrupted session for a poll's answer, and for the ends of jobs that the answer shows as COMPLETING.
_LAST_POLL_S = 5.0

#: Slurm's reasons for a job that waits for unavailable nodes.
_NODES_UNAVAILABLE = ("ReqNodeNotAvail", "BadConstraints", "PartitionNodeLimit")
#: Of these, those for nodes that never become available.
_NEVER_FITS = _NODES_UNAVAILABLE[1:]

#: A reason that does not end by itself ends the row once all polls have returned it for this long: a site may hold jobs
#: for a moment, and a user release them.
STUCK_S = 120.0
_NOT_STARTED = (JobState.PENDING, JobState.UNKNOWN)

_NO_ANSWER = JobStatus(JobState.UNKNOWN, reason="no answer")


class PollSchedule:
    """Times of the polls, in monotonic seconds."""

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self.last_s = -math.inf
        self.due_s = -math.inf
        self._failed = 0
        self._settling = 0

    def begin(self) -> None:
        """Note that a poll begins; no other is due until it is answered."""
        self.last_s = self._clock()
        self.due_s = math.inf

    def answered(self, answered: bool) -> None:
        """Note the outcome of a poll: true if the scheduler returned the state of any job."""
        self._failed = 0 if answered else self._failed + 1

    def end(self, settling: bool) -> None:
        """Schedule the next poll; the interval grows while the scheduler is unreachable.

        Args:
            settling: All jobs are about to end: the next poll follows soon, not after a full interval.
        """
        self._settling = self._settling + 1 if settling else 0
        # A failed poll has cost the scheduler something too.
        interval_s = self._interval_s * 2.0 ** min(self._failed, 10)
        interval_s = min(interval_s, max(self._interval_s, LONGEST_BACK_OFF_S))
        soon_s = self._interval_s / MOST_POLLS_PER_INTERVAL * 2.0 ** min(self._settling - 1, 10)
        # An earlier poll may have been scheduled meanwhile because a log shows its end.
        self.due_s = min(self.due_s, self._clock() + (min(interval_s, soon_s) if settling else interval_s))

    def soon(self) -> None:
        """Schedule one early poll for all jobs that end about now, within the limit of polls in an interval."""
        soon_s = max(self._clock() + SETTLE_S, self.last_s + self._interval_s / MOST_POLLS_PER_INTERVAL)
        self.due_s = min(self.due_s, soon_s)


# -- The logs of running jobs: their progress, and early stops --------------------------------------


#: Interval between two reads of running jobs' logs; each costs the file system one ``stat`` a job.
LOG_LOOK_S = 2.0


def too_large(spec: JobSpec, limits: Limits) -> SubmissionError:
    """The error of a row that needs more GPUs than all rows together may use."""
    return SubmissionError(
        f"the row needs {spec.gpus} GPUs, and no more than {limits.gpus:g} may be taken",
        advice="raise max_gpus (gsw_max_gpus in the ini file), or leave the row out",
    )


def _interruption_error(phase: Phase, detach: bool) -> JobError:
    """The error of a row that was interrupted, with the fate of its job."""
    seen = submitted_job_of(phase)
    fate = "it was never submitted"
    if seen is not None:
        fate = f"job {seen.job.id} was {'left running' if detach else 'cancelled'}{_pending_text(seen.status)}"
    elif unanswered_s(phase) is not None:
        fate = "whether it was submitted is not known"
    return JobError(f"{INTERRUPTED}: {fate}")


def _pending_text(status: JobStatus) -> str:
    """Slurm's reason for a pending job; empty if there is none."""
    waits = status.state is JobState.PENDING and status.reason not in {"", "None"}
    return f"; it was pending ({status.reason})" if waits else ""


def _never_starts(job: Job, status: JobStatus, advice: str) -> EarlyStop:
    """The stop of a job that waits for a failed one, with the cause in that one's files as if it were a row's own."""
    fact, first, found = f"job {job.id} can never start: ", status.failed_first, None
    if first is not None:
        with suppress(LogError, OSError):
            outputs = other_outputs_of(replace(job, id=first.id), Path(first.log), None)
            found = cause_of(Run(first.id, JobStatus(first.state), Path(first.log), other_files=outputs))
        if found is not None and found.name != CAUSE_OF_STATE.get(first.state):
            place = f"{found.path}:{found.line}"
            return EarlyStop(f"{fact}{first.why}: {found.name}", found.advice, None, found.text, place)
    return EarlyStop(f"{fact}{status.reason}", advice)


#: Called each time before the session waits.
Ticker = Callable[["Executor"], None]


class Executor:
    """The session's jobs.

    Args:
        launcher: Starts and polls jobs.
        poll_interval_s: Seconds between two polls.
        observer: Called at every change of a job's state.
        ticker: Called each time before the session waits.
        journal: Records every submission, before and after it; a replay, which submits nothing, needs none.
        limits: Most jobs and GPUs at once, and most pending jobs.
        watcher: Makes the watch of each running job's log; by default none is watched.
        retries: Most reruns of a row after infrastructure failures.
        decide: Decides after each job that ended well if its row needs another one.
        on_repeat: Called for every job that is not its row's last.
        on_look: Called at every look at a running job; may return a reason to end it.
        check: Measures each job that ended well, once its log is there and whenever its files have grown.
        environ: The session's environment, whose secrets are redacted; by default that of this process now.
        clock: Monotonic seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        launcher: Launcher,
        poll_interval_s: float,
        observer: StateObserver = lambda *_: None,
        journal: Journal | None = None,
        limits: Limits | None = None,
        ticker: Ticker = lambda _: None,
        watcher: Watcher | None = None,
        retries: int = 0,
        decide: Decide = lambda *_: Done(),
        on_repeat: RepeatObserver = lambda *_: None,
        check: Check | None = None,
        on_look: LookObserver = lambda *_: None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = self._launcher = launcher
        #: True once nothing more will be submitted: rows may have had fewer jobs than they need.
        self.interrupted = False
        self._rows = RowTable(launcher, limits or Limits())
        self.journal = JournalWriter(journal)
        self._environ = session_environment(environ)
        self._observer, self._ticker, self._watcher = observer, ticker, watcher
        self._retries, self._decide, self._on_repeat, self._on_look = retries, decide, on_repeat, on_look
        self._check = check
        #: The ended jobs that were measured, with the sizes of their files then, by row and job.
        self._measured: dict[tuple[str, str], tuple[Job, Run, Mapping[str, int]]] = {}
        self._clock, self._sleep = clock, sleep
        #: Jobs of the run that no row owns, and the errors of rows that were returned before these were found.
        self.strays, self.late = self._rows.strays, self._rows.late
        #: The newest job's spec by row; a row whose jobs cannot be taken over owns none.
        self.started = self._rows.started
        self._turns = PollSchedule(poll_interval_s, clock)
        self._submitting = Submitter(self._rows, launcher, self.journal, clock)
        self._cancelling: Future[None] | None = None
        #: True if a thread polls while the session submits and judges; else the session polls.
        self._polls_in_background = launcher.polls_in_a_thread
        self._polled: list[Active] = []
        #: The answer of the poll in the thread; ``None`` if none is under way.
        self._answer: Future[tuple[Mapping[str, JobStatus], Count]] | None = None
        #: Time of the next read of running jobs' logs; monotonic seconds.
        self._look_s = -math.inf
        #: Ended jobs as evidence on nodes: row, id, status, and true if it failed at once.
        self._ends: list[tuple[str, str, JobStatus, bool]] = []
        #: Nodes that may be, or are, black holes; the time of that decision, and the number of jobs that it rests on.
        self._suspects: Mapping[str, BlackHole] = {}
        self._suspects_s, self._decided = -math.inf, 0

    @property
    def full(self) -> str:
        """The scheduler's message that the queue is full; empty if it is not."""
        return self._submitting.patience.full

    # -- rows and jobs to run -----------------------------------------------------------------

    def submit(self, specs: Mapping[str, JobSpec | RunError], past: Mapping[str, Submission] | None = None) -> None:
        """Queue these rows, to be submitted in this order as far as the limits allow.

        The error of a row that cannot be submitted is raised by :meth:`result_of`.

        Args:
            specs: The spec of each row's job, or the error that prevents it.
            past: Earlier attempts of an earlier session, and its submissions without an answer. The jobs of
                these are looked for before anything is submitted again.
        """
        for row_id, spec in specs.items():
            if isinstance(spec, RunError):
                self._rows.finish(Finished(row_id, spec))
            elif spec.gpus > self._rows.limits.gpus:
                self._rows.finish(Finished(row_id, too_large(spec, self._rows.limits)))
            else:
                self._enqueue(row_id, spec, (past or {}).get(row_id))
        self._pump()

    def attach(self, job: Job, past: Submission | None = None) -> None:
        """Take over an earlier session's job, with its end if that is recorded."""
        rows, row_id, seen = self._rows, job.spec.row_id, SubmittedJob(job)
        row = RowJobs(row_id, job.spec)
        if past is not None:
            seen.status = past.ended or seen.status
            seen.stopped, seen.cancelled_before = past.stopped, past.cancelled
            row = replace(row, attempts=past.attempts)
            try:
                row = self._restore_runs(row)
            except LogError as error:
                rows.finish(Finished(row_id, error, row, seen))
                return
        rows.take_place(row)
        live = rows.activate(row, seen)
        if not rows.is_shared(rows.claims.job(job), row_id) and seen.status.state.ended:
            self._leave_queue(live)

    def _enqueue(self, row_id: str, spec: JobSpec, past: Submission | None) -> None:
        """Queue a row, unless a log that an earlier session measured is missing."""
        if past is None:
            self._rows.wait(Queued(RowJobs(row_id, spec)), first=False)
            return
        row, since_s = RowJobs(row_id, spec, past.attempts), past.intended_s or None
        try:
            row = self._restore_runs(row)
        except LogError as error:
            self._rows.finish(Finished(row_id, error, row, since_s=since_s))
        else:
            self._rows.wait(Queued(row, since_s), first=False)

    def _restore_runs(self, row: RowJobs) -> RowJobs:
        """A row with the jobs that an earlier session measured.

        Raises:
            LogError: A log of these jobs is missing, or belongs to another job of this session.
        """
        self._ends += [(row.row_id, one.job_id, one.status, one.why == AT_ONCE) for one in row.failures]
        numbered = [(replace(row.spec, attempt=number), one) for number, one in enumerate(row.attempts, start=1)]
        for its, attempt in numbered:
            self._rows.claims.job(Job(attempt.job_id, its, 0.0))
        earlier = tuple(self._restore_run(its, attempt) for its, attempt in numbered if attempt.measured)
        return replace(row, earlier=earlier)

    def _restore_run(self, spec: JobSpec, attempt: Attempt) -> Run:
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0)
        log = log_of(self._launcher, job)
        clash = self._rows.claims.log(job, log)
        if clash is not None:
            raise clash[1]
        output = batch_output_of(self._launcher, job)
        return Run(job.id, attempt.status, log, output, other_files=other_outputs_of(job, log, output))

    # -- results ------------------------------------------------------------------------------

    def next_finished(self) -> str:
        """Wait for a finished row that was not returned before, and return its id."""
        while True:
            self._pump()
            if self._rows.over:
                return self._rows.over.pop(next(iter(self._rows.over))).row_id
            self._wait()

    def result_of(self, row_id: str) -> Run:
        """The ended jobs of this row with their logs; waits for them if needed.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        while not isinstance(phase := self._rows.phases[row_id], Finished):
            self._pump()
            if phase is self._rows.phases[row_id]:
                self._wait()
        self._rows.over.pop(row_id, None)
        if isinstance(phase.end, RunError):
            raise phase.end
        return phase.end

    def phase(self, row_id: str) -> Phase | None:
        """The phase of this row; ``None`` if it was never queued."""
        return self._rows.phases.get(row_id)

    def spec(self, row_id: str) -> JobSpec | None:
        """The spec of this row's last or next job."""
        return row.spec if (row := self._rows.row(row_id)) else None

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job; ``None`` if it was not submitted."""
        return seen.job.id if (seen := self._rows.seen(row_id)) else None

    def status(self, row_id: str) -> JobStatus | None:
        """The last status of this row's job; ``None`` if it was not submitted."""
        return seen.status if (seen := self._rows.seen(row_id)) else None

    def attempts(self, row_id: str) -> tuple[Attempt, ...]:
        """The row's jobs before its last one that were not measured."""
        return row.failures if (row := self._rows.row(row_id)) else ()

    def earlier(self, row_id: str) -> tuple[Run, ...]:
        """The row's jobs before its last one that were measured as well."""
        return row.earlier if (row := self._rows.row(row_id)) else ()

    @property
    def phases(self) -> Mapping[str, Phase]:
        """The phase of every row by its id, in the order of submission."""
        return self._rows.phases

    def count(self) -> None:
        """Compare the scheduler's jobs of the run with those of the rows, and files with their sizes, once more."""
        self.journal.check()
        self._rows.count_last()
        self._look_again()

    # -- shutdown -----------------------------------------------------------------------------

    def interrupt(self, detach: bool) -> int:
        """Stop waiting: rows that have not ended become errors, and their jobs are cancelled unless detached.

        Returns:
            Number of jobs being cancelled or left running; :meth:`close` waits for the launcher's answer.

        Raises:
            JobError: The launcher could not cancel them.
            TakenOverError: They are another session's by now.
        """
        self.journal.check()
        self.interrupted = True
        self._launcher.end_waits()
        rows = self._rows
        self._submitting.collect(wait=True)
        self._poll_once_more()
        running = rows.running()
        rows.interrupt(lambda phase: _interruption_error(phase, detach))
        # The next look decides: a log that is not there is missing, and a row waits for no other row.
        rows.news += 1
        for ended in rows.ended.values():
            ended.deadline_s = ended.look_s = self._clock()
        if running and not detach:
            self.journal.write(Journal.cancelled, *(seen.job for seen in running))
            # Slurm needs long to cancel hundreds of jobs; rows are reported meanwhile.
            self._cancelling = self._submitting.in_thread(rows.cancel, running)
        return len(running)

    def _poll_once_more(self) -> None:
        """Learn which jobs had ended before the signal: they are judged.

        An answer on its way may be older than a job's end, and accounting may record the end a little later.
        """
        deadline_s, is_new = self._clock() + _LAST_POLL_S, False
        # A site's launcher may fail, and a second Ctrl-C may come; all jobs have to be cancelled nevertheless.
        with suppress(Exception, KeyboardInterrupt):
            while True:
                if is_new and self._answer is None:
                    self._ask()
                if self._answer is not None:
                    wait([self._answer], _LAST_POLL_S)
                    self._collect_answer()
                if self._answer is not None:  # a scheduler that hangs must not keep the session from ending
                    return
                if is_new:
                    is_ending = any(COMPLETING in live.seen.status.raw_state for live in self._rows.live.values())
                    if not is_ending or self._clock() >= deadline_s:
                        return
                    self._sleep(SETTLE_S)
                is_new = True

    def close(self, detach: bool = False) -> int:
        """Cancel all jobs that still run with one request, unless detached, and close the launcher.

        Returns:
            Number of jobs cancelled, besides those of :meth:`interrupt`.

        Raises:
            JobError: The launcher could not cancel them.
            TakenOverError: They are another session's by now.
        """
        try:
            self.journal.check()
            self._submitting.collect(wait=True)
            if self._cancelling is not None:
                self._cancelling.exception()  # only after it are the remaining jobs known
            count = self._rows.count_last()
            running = [seen.job for seen in self._rows.running() if not detach]
            if not detach:
                running += self._find_lost_jobs()
            if running:
                self.journal.write(Journal.cancelled, *running)
                self._launcher.cancel(running)
            if isinstance(count, RunError):
                fact = f"whether the run has jobs that are no row's is not known: {count.fact}"
                raise JobError(fact, count.evidence, advice=count.advice)
        finally:
            self._submitting.close()
            if self._answer is not None:  # a scheduler that hangs must not keep the session from ending
                wait([self._answer], _LAST_ANSWER_S)
            self._launcher.close()
            self.journal.close()
        return len(running)

    def _find_lost_jobs(self) -> list[Job]:
        """Jobs whose submission's answer was lost: no other session would cancel them."""
        found = []
        for phase in self._rows.phases.values():
            since_s = unanswered_s(phase)
            if since_s is not None and phase.row is not None:
                try:
                    job = self._launcher.find(phase.row.spec, since_s)
                except NotListedError:
                    continue
                except SchedulerUnreachableError:
                    break  # nor can it find the others
                except RunError:
                    continue
                if isinstance(phase, Finished):
                    phase.seen, phase.since_s = None if job is None else SubmittedJob(job), None
                found += [job] if job is not None else []
        if found:
            self.journal.write(Journal.submitted, *found)
        return found

    # -- waiting ------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Process available answers and logs of ended jobs, and submit queued rows as far as the limits allow."""
        self.journal.check()
        self._submitting.collect()
        self._collect_answer()
        self._find_logs()
        self._submitting.submit()
        if self._polls_in_background and self._clock() >= self._poll_due_s:
            self._ask()

    def _wait(self) -> None:
        """Wait until there may be news, and poll all jobs if that is due."""
        self._ticker(self)
        self._look_when_due()
        if self._clock() >= self._poll_due_s:
            self._look_s = self._clock()  # jobs that run after this poll are looked at next
            self._ask()
            return
        logs_s = min((ended.look_s for ended in self._rows.ended.values()), default=math.inf)
        due_s = min(self._poll_due_s, self._looks_due_s, self._submitting.due_s, logs_s) - self._clock()
        if due_s > 0 and not self._submitting.wait(due_s, self._answer):
            self._sleep(due_s)

    # -- retries and repeats ------------------------------------------------------------------

    def _continue_row(self, ended: AwaitingLog, run: Run) -> bool:
        """Return a row to the queue if it needs another job; true if it is not finished.

        It is if the infrastructure failed it, an earlier session cancelled it, or one more job is wanted; or it waits
        for other rows.
        """
        row = ended.row
        attempt = None if self.interrupted else self._attempt(ended, run)
        if attempt is None:
            return False
        if isinstance(attempt, Undecided):
            return True
        del self._rows.ended[row.row_id]
        self._requeue(row, attempt, attempt.after(row.spec), run.jobs if attempt.measured else row.earlier)
        return True

    def _requeue(self, row: RowJobs, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row at the head of the queue, after an attempt that is not its last."""
        self.journal.write(Journal.repeated, row.row_id, attempt)
        self._on_repeat(row.row_id, attempt)
        self._rows.wait(Queued(RowJobs(row.row_id, spec, (*row.attempts, attempt), earlier)), first=True)

    def _attempt(self, ended: AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """The attempt that another job follows; ``None`` if the job is its row's last."""
        row, is_cancelled = ended.row, run.status.state is JobState.CANCELLED
        if is_cancelled and ended.seen.cancelled_before and run.stopped is None:
            return Attempt(run.job_id, run.status, SESSION_ENDED)
        is_on_tile = bool(row.spec.node_list)  # it has no other nodes
        if ended.run is None:
            has_failed = self._launcher.jobs_outlive_session and failed_at_once(run)  # else there is one machine
            self._ends.append((row.row_id, run.job_id, run.status, has_failed))
            ended.held_until_s = self._clock() + HOLD_S if has_failed else -math.inf
            failure = infrastructure_failure(run) if row.retried < self._retries else None
            if failure is not None:
                return Attempt(run.job_id, run.status, failure.why, () if is_on_tile else failure.nodes)
        if ended.held_until_s > -math.inf:
            return self._after_failure_at_once(ended, run)
        if not is_healthy(run.status) or run.log is None:
            return None
        try:
            decided = self._decide(row.row_id, run)
        except Exception:  # in a site's own rule: reported when the row is judged
            return None
        if isinstance(decided, Repeat):
            nodes = () if is_on_tile else decided.avoiding
            return Attempt(run.job_id, run.status, decided.why, nodes, measured=True)
        return decided if isinstance(decided, Undecided) else None

    def _after_failure_at_once(self, ended: AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """The attempt of a job that failed at once; it is its row's last if the row is to blame.

        Jobs on a black hole cost the row no retry. Any other one is repeated once on other nodes if there are retries:
        a recipe that is broken fails there, too. One that ran out of memory is not: its row may need too much of it.
        """
        row, rows, nodes = ended.row, self._rows, set(expand(run.status.nodes))
        if not nodes or row.spec.node_list:
            return None  # it has no other nodes
        suspects = self._find_suspects()
        holes, before = set(rows.left_out), [set(one.excluded_nodes) for one in row.failures if one.why == AT_ONCE]
        avoidable = nodes.difference(*before)  # the others could not be avoided
        blamed, may_retry = avoidable & holes, row.retried < self._retries and all(one & holes for one in before)
        if avoidable and (blamed or (may_retry and not ran_out_of_memory(run))):
            return Attempt(run.job_id, run.status, AT_ONCE, tuple(sorted(blamed or nodes)))
        may_get_it = rows.waiting or any(live.seen.status.state is JobState.PENDING for live in rows.live.values())
        has_news = len(self._ends) > self._decided or any(
            one.run is None and one is not ended for one in rows.ended.values()
        )
        may_be_shown = may_get_it or rows.submitting or has_news or (rows.live and not nodes.isdisjoint(suspects))
        return Undecided() if may_be_shown and self._clock() < ended.held_until_s else None

    def _find_suspects(self) -> Mapping[str, BlackHole]:
        """The nodes that fail each job at once; those that are found to do so get no further job of the session."""
        if self._clock() >= self._suspects_s + _NODES_DECIDED_S:
            self._suspects_s, self._decided = self._clock(), len(self._ends)
            running = [(row, live.seen.job.id, live.seen.status, False) for row, live in self._rows.live.items()]
            uses = starmap(node_use, [*self._ends, *running])
            self._suspects = {one.node: one for one in black_holes(filter(None, uses))}
            self._rows.left_out = tuple(node for node, one in self._suspects.items() if one.elsewhere)
        return self._suspects

    # -- the logs of ended jobs ---------------------------------------------------------------

    def _await_log(self, live: Active) -> None:
        """Await the log of a job that has ended or was given up, if it should have one."""
        row, now_s = live.row, self._clock()
        deadline_s = now_s + (self._launcher.log_wait_s if is_healthy(live.seen.status) else 0.0)
        self._rows.phases[row.row_id] = self._rows.ended[row.row_id] = AwaitingLog(row, live.seen, deadline_s, now_s)

    def _find_logs(self) -> None:
        """Finish rows with an ended job whose log is found or overdue."""
        now_s = self._clock()
        for ended in [ended for ended in self._rows.ended.values() if now_s >= ended.look_s]:
            row_id = ended.row.row_id
            if row_id not in self._rows.ended:
                continue  # given up because of another row
            ended.look_s = min(now_s + ended.pause_s, max(now_s, ended.deadline_s))
            ended.pause_s = min(2 * ended.pause_s, _LONGEST_LOG_LOOK_S)
            if ended.run is not None and self._has_no_news(ended, now_s):
                continue
            end = ended.run or self._run_of(ended, now_s)
            self._rows.news += isinstance(end, Run) and ended.run is None
            run = Run(ended.seen.job.id, ended.seen.status, None) if isinstance(end, NoLogError) else end
            if isinstance(run, Run) and self._continue_row(ended, run):
                ended.run, ended.look_s = end, now_s + ended.pause_s  # it may be past its log's deadline
                ended.asked = self._rows.news, now_s
                continue
            if end is not None:
                self._rows.finish(Finished(row_id, end, ended.row, ended.seen))
                del self._rows.ended[row_id]

    def _has_no_news(self, ended: AwaitingLog, now_s: float) -> bool:
        """True if a row that waits for others need not be decided again: nothing has changed for them."""
        news, asked_s = ended.asked
        if news != self._rows.news or ended.held_until_s > -math.inf or now_s >= asked_s + _LONGEST_DECISION_S:
            return False
        ended.look_s = now_s + ended.pause_s
        return True

    def _run_of(self, ended: AwaitingLog, now_s: float) -> Run | LogError | None:
        """An ended row's run or its log's error; ``None`` if the log is awaited or the row was given up."""
        job = ended.seen.job
        log: Path | None = None
        try:
            log = log_of(self._launcher, job)
        except LogError as error:
            if is_healthy(ended.seen.status):
                # A shared file system may show the log late.
                if now_s < ended.deadline_s:
                    ended.sizes = {}
                    return None
                found = in_batch_output(error, job, batch_output_of(self._launcher, job))
                if isinstance(found, LogError):
                    return found
                log = found
        if log is not None and self._rows.is_shared(self._rows.claims.log(job, log), ended.row.row_id):
            return None
        row, seen = ended.row, ended.seen
        output = batch_output_of(self._launcher, job)
        # An early stop that an earlier session recorded but may not have sent explains only a cancelled job.
        sent = seen.stop_sent or seen.status.state is JobState.CANCELLED
        other_files = other_outputs_of(job, log, output)
        run = Run(
            job.id, seen.status, log, output, seen.stopped if sent else None, row.earlier, other_files=other_files
        )
        return run if self._is_whole(ended, run, now_s) else None

    def _is_whole(self, ended: AwaitingLog, run: Run, now_s: float) -> bool:
        """True if nothing more of an ended job's log is awaited.

        A log that lacks something is awaited as a missing one is. If its end came late, more may follow: it is
        measured once its files are the same at two looks.
        """
        if self._check is None or not is_healthy(run.status):
            return True
        is_late = ended.sizes is not None
        files = (run.log, run.batch_output, *run.other_files)
        if is_late:
            open_anew(files)
        sizes = sizes_of(files)
        if sizes != ended.sizes:
            ended.sizes, row_id = sizes, ended.row.row_id
            error = self._check(row_id, run)
            ended.is_incomplete = isinstance(error, IncompleteLogError)
            if error is None:
                self._measured[row_id, run.job_id] = ended.seen.job, run, sizes
            # A log that is read for long must not keep the session from its other rows.
            ended.look_s = max(ended.look_s, min(2 * self._clock() - now_s, ended.deadline_s))
        elif not ended.is_incomplete:
            return True
        return now_s >= ended.deadline_s or not (is_late or ended.is_incomplete)

    def _look_again(self) -> None:
        """Measure jobs anew whose files have grown since: last words may come late, behind a log that was whole."""
        for (row_id, _), (job, run, before) in self._measured.items():
            others = run.other_files or other_outputs_of(job, run.log, run.batch_output)
            sizes = sizes_of((run.log, run.batch_output, *others))
            if sizes == before or self._check is None or not any(sizes[file] > before.get(file, 0) for file in sizes):
                continue
            phase, error = self._rows.phases[row_id], self._check(row_id, replace(run, other_files=others, earlier=()))
            if error is not None and isinstance(phase, Finished) and isinstance(phase.end, Run):
                self.late[row_id] = error

    # -- polls of all jobs with one request ---------------------------------------------------

    @property
    def _poll_due_s(self) -> float:
        """Time of the next poll, monotonic seconds; infinity while one is under way."""
        return self._turns.due_s if self._answer is None else math.inf

    def _ask(self) -> None:
        """Poll all active jobs and, if that is due, count the run's jobs."""
        self._turns.begin()
        self._polled = list(self._rows.live.values())
        poll = partial(self._poll, [live.seen.job for live in self._polled])
        if self._polled and self._polls_in_background:
            self._answer = run_in_background(poll, "gsw-ask")
        else:
            self._finish_poll(poll)

    def _collect_answer(self) -> None:
        """Process the answer of a poll in the thread."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            self._finish_poll(answer.result)

    def _leave_queue(self, live: Active) -> None:
        """Release the place of a job that has ended or was given up, and await its log."""
        self._rows.leave_queue(live)
        self._submitting.patience.room()
        self._await_log(live)

    def _is_settling(self) -> bool:
        """True if all remaining jobs have ended their scripts."""
        rows = self._rows
        if rows.waiting or rows.submitting or not rows.live:
            return False
        return all(COMPLETING in live.seen.status.raw_state for live in rows.live.values())

    def _poll(self, jobs: list[Job]) -> tuple[Mapping[str, JobStatus], Count]:
        # A row is finished only after its jobs are counted, by the poll's own answer if that lists all of them.
        specs, answers = self._rows.to_count(), self._launcher.poll(jobs)
        if (named := self._launcher.named_in_poll(specs)) is not None:
            return answers, by_row(specs, named)
        return answers, self._rows.count(any(status.state.ended for status in answers.values()))

    def _finish_poll(self, answer: Callable[[], tuple[Mapping[str, JobStatus], Count]]) -> None:
        """Process a poll's answer, except for rows that were given up or interrupted meanwhile."""
        try:
            answers, count = answer() if self._polled else ({}, {})
            polled = [live for live in self._polled if self._rows.live.get(live.row.row_id) is live]
            if polled:
                self._apply_answers([(live, self._redacted_status(live, answers)) for live in polled])
            self._rows.hold(count)
            if self._polled and not self._rows.live:
                self._rows.is_counted = not isinstance(count, RunError) and self._rows.have_ended()
        finally:
            self._turns.end(self._is_settling())

    def _redacted_status(self, live: Active, answers: Mapping[str, JobStatus]) -> JobStatus:
        """The new status, with secrets redacted for screen, journal and record; the last one itself if unchanged."""
        seen, status = live.seen, answers.get(live.row.row_id, _NO_ANSWER)
        return seen.status if status == seen.status else redact(status, self._environ, seen.job.spec.environment)

    def _apply_answers(self, answers: list[tuple[Active, JobStatus]]) -> None:
        """Record which jobs have ended, and only then act on the answers."""
        ended = [
            (live.seen.job, status) for live, status in answers if status is not live.seen.status and status.state.ended
        ]
        if ended:
            self.journal.write(Journal.ended, *ended)
        for live, status in answers:
            self._update(live, status)
        for live, status in answers:
            if status.siblings:
                self._rows.give_up([live.row.row_id], not_alone(Run(live.seen.job.id, status, None)))
        # Jobs that avoid nodes and cannot start: the other nodes are down, drained or reserved.
        avoiding = [
            live
            for live, status in answers
            if status.state is JobState.PENDING
            and live.row.spec.avoided_nodes
            and status.reason.startswith(_NODES_UNAVAILABLE)
        ]
        if not self.interrupted:
            self._resubmit([live for live in avoiding if live.row.row_id in self._rows.live], NO_OTHER_NODE)
            for live in [live for live, _ in answers if self._was_not_launched(live)]:
                self._resubmit([live], live.seen.status.reason.replace(NOT_LAUNCHED, LOST_AT_START))
            self._end_waits(answers)
        silent = all(status.state is JobState.UNKNOWN for _, status in answers)
        self._turns.answered(not silent)
        if not silent:
            self._submitting.patience.answered(self._clock())

    def _was_not_launched(self, live: Active) -> bool:
        """True if a job is held because a node was lost at its start, and its row may run again elsewhere."""
        row, status = live.row, live.seen.status
        is_lost = status.state is JobState.PENDING and status.reason.startswith(f"{NOT_LAUNCHED}: ")
        return is_lost and not row.spec.node_list and row.retried < self._retries and row.row_id in self._rows.live

    def _resubmit(self, pending: list[Active], why: str) -> None:
        """Cancel jobs that cannot start, and submit them again: anywhere if they avoid all nodes that there are."""
        if not pending:
            return
        try:
            self._launcher.cancel([live.seen.job for live in pending])
        except JobError:
            return  # tried again after the next poll
        for live in pending:
            row, job = live.row, live.seen.job
            status = replace(live.seen.status, state=JobState.CANCELLED)
            attempt = Attempt(job.id, status, why)
            spec = row.spec.again()
            self.journal.write(Journal.ended, (job, status))
            self._rows.leave_queue(live)
            self._requeue(row, attempt, replace(spec, avoided_nodes=()) if why == NO_OTHER_NODE else spec, row.earlier)

    def _end_waits(self, answers: list[tuple[Active, JobStatus]]) -> None:
        """End pending jobs that do not start by themselves, or have waited for too long."""
        rows, now_s = self._rows, self._clock()
        if [live for live, status in answers if status.state not in _NOT_STARTED]:
            rows.ran_s = now_s
        stops = [
            (live.seen, stop)
            for live, status in answers
            if status.state is JobState.PENDING and not live.seen.stop_sent and rows.live.get(live.row.row_id) is live
            if (stop := self._end_of_wait(live, status, now_s)) is not None
        ]
        if stops:
            self._end_early(stops)

    def _end_of_wait(self, live: Active, status: JobStatus, now_s: float) -> EarlyStop | None:
        """Why a job that a poll has found pending is not awaited any longer; ``None`` if it is."""
        job, reason, limit_s = live.seen.job, status.reason, self._rows.limits.queue_s
        tile = job.spec.node_list
        if tile and reason.startswith((NODE_LOST, *_NEVER_FITS)):
            why = reason.removeprefix(f"{NODE_LOST}: ")
            return EarlyStop(f"not covered: {why}", f"sinfo -N -R -n {tile} shows more")
        if live.queued_s is None:
            # Of an earlier session. A job of the run that starts soon must still be able to prolong the wait.
            waited_s = time.time() - max(job.submitted_s, status.submit_s or 0.0)
            live.queued_s = now_s - max(0.0, min(waited_s, limit_s - STUCK_S))
        kind = reason_of(reason)
        if kind.advice is None or (
            kind.is_dated and not begins_after(reason, (status.submit_s or time.time()) + limit_s)
        ):
            live.stuck_s = None
        else:
            live.stuck_s = now_s if live.stuck_s is None else live.stuck_s
            if kind.is_final or now_s - live.stuck_s >= STUCK_S:
                if kind.is_final:
                    return _never_starts(job, status, kind.advice)
                return EarlyStop(f"job {job.id} does not start by itself: {reason}", kind.advice)
        waited_s = now_s - max(live.queued_s, self._rows.ran_s)
        if waited_s >= limit_s:
            return EarlyStop(
                f"job {job.id} waited {duration(waited_s)} in the queue: {reason or 'no reason is known'}",
                "raise max_queue of the cluster (hours; 0: no limit), or run the row when there is room",
            )
        return None

    def _update(self, live: Active, status: JobStatus) -> None:
        seen = live.seen
        if status is seen.status:  # unchanged, as most jobs are in most polls
            live.unknown_since_s = None
            return
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if live.unknown_since_s is None:
                live.unknown_since_s = now_s
            if now_s - live.unknown_since_s < UNKNOWN_LIMIT_S:
                return  # the scheduler is unreachable for a while; the last known state remains
        else:
            live.unknown_since_s = None
        changed = status.state is not seen.status.state
        seen.status = status
        if changed:
            self._observer(live.row.row_id, seen.job.id, status)
        if status.state.ended or status.state is JobState.UNKNOWN:
            self._leave_queue(live)
        elif status.state is JobState.PENDING:
            live.watch = seen.sample = live.log = None  # requeued: the next start is another run
            if changed:
                live.queued_s, live.stuck_s = now_s, None

    # -- the logs of running jobs: their progress, and early stops ----------------------------

    @property
    def _looks_due_s(self) -> float:
        """Time of the next read of logs, monotonic seconds; infinity if there is none to read."""
        return self._look_s if self._rows.live and self._watcher is not None else math.inf

    def _look_when_due(self) -> None:
        now_s = self._clock()
        if now_s >= self._looks_due_s:
            self._look_s = now_s + LOG_LOOK_S
            self._look()

    def _look(self) -> None:
        """Read the progress of running jobs from their logs, and end those that cannot succeed."""
        now_s = self._clock()
        stopped = []
        for live in self._rows.live.values():
            seen = live.seen
            if seen.status.state is JobState.PENDING:
                live.log = None  # a restarted job may write to another file
            if seen.status.state is not JobState.RUNNING or seen.stop_sent:
                continue
            finished = seen.sample is not None and seen.sample.finished
            seen.sample = self._sample_of(live, now_s)
            stop = self._on_look(seen.job, seen.status, seen.sample)
            if stop is not None:
                stopped.append((seen, stop))
            if seen.sample is None:
                continue
            if seen.sample.finished and not finished:
                self._turns.soon()  # its log shows the end before the next regular poll does
            if seen.sample.stop is not None and stop is None:
                stopped.append((seen, seen.sample.stop))
        if stopped:
            self._end_early(stopped)

    def _sample_of(self, live: Active, now_s: float) -> Sample | None:
        """Progress of a running job by its log; ``None`` if unknown, or if Slurm's state explains the standstill."""
        if live.seen.status.raw_state.upper().partition("+")[0] in STANDING_STILL:
            live.watch = None
            return None
        if live.unwatched or self._watcher is None:
            return None
        try:
            live.watch = live.watch or self._watcher(live.row.row_id)
            live.unwatched = live.watch is None
            return None if live.watch is None else live.watch.look(self._running_log(live), now_s)
        except Exception:
            # In a site's own log format: the error concerns this row alone, and is reported when it is measured.
            live.unwatched = True
            return None

    def _running_log(self, live: Active) -> Path | None:
        """A running job's log; it is looked for once after each poll until it exists."""
        if live.log is None and live.looked_s <= self._turns.last_s:
            live.looked_s = self._clock()
            try:
                live.log = log_of(self._launcher, live.seen.job)
            except LogError:
                live.log = None
        return live.log

    def _end_early(self, stops: list[tuple[SubmittedJob, EarlyStop]]) -> None:
        """End jobs early with one request; if that fails, the next look tries again."""
        for seen, why in stops:
            stop = redact(why, self._environ, seen.job.spec.environment)  # it may quote the log
            if seen.stopped is None:
                self.journal.write(Journal.stopped, seen.job, stop)
            seen.stopped = stop
        try:
            self._launcher.cancel([seen.job for seen, _ in stops])
        except JobError:
            return
        for seen, _ in stops:
            seen.stop_sent = True
        self._turns.soon()
