"""All selected rows at once: submit them, poll all their jobs with one question, hand over what has ended.

A row goes one way through the executor: it *waits*, is being *submitted*, is *live* (its job is in the
queue or runs), has *ended* (its log is awaited), and is *over*. Each of these is a type, which has
what is known by then, and a dictionary in which a row is found at once, so that a poll costs what
the jobs cost that it asks about, and not what the session has done so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures import wait as wait_for
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_gsw.common.process import run_in_background
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import (
    INTERRUPTED,
    JobError,
    LogError,
    NoLogError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.executor.row_state import (
    Active,
    AwaitingLog,
    Count,
    Decide,
    Finished,
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
from pytest_gsw.jobs.environment import session_environment
from pytest_gsw.jobs.journal import Journal, Submission, is_next
from pytest_gsw.jobs.layout import check_new, logs_before, names_before, names_in, outputs_beside
from pytest_gsw.jobs.model import NEVER_STARTS, Attempt, EarlyStop, Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.logs.reader import detect_format
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.checks import not_alone, read_identity
from pytest_gsw.validation.retryable import infrastructure_failure
from pytest_gsw.validation.run import Run

# -- What a session writes to its run's journal, as far as the disk allows --------------------------


class JournalWriter:
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


class Backoff:
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


class Submitter:
    """Submits rows in their order, in threads where the launcher takes several at once.

    Args:
        rows: The rows.
        launcher: How jobs are started, and found again.
        notes: The run's journal.
        clock: Monotonic seconds.
    """

    def __init__(self, rows: RowTable, launcher: Launcher, notes: JournalWriter, clock: Callable[[], float]) -> None:
        self._rows, self._launcher, self._notes, self._clock = rows, launcher, notes, clock
        threads = launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self.patience = Backoff(threads * (1 + _QUEUED_PER_THREAD))
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

    def aside(self, task: Callable[[list[SubmittedJob]], None], jobs: list[SubmittedJob]) -> Future[None] | None:
        """Do this in a thread, so that the session goes on meanwhile; at once where there are no threads."""
        if self._threads is not None:
            return self._threads.submit(task, jobs)
        task(jobs)
        return None

    def close(self) -> None:
        """Let go of the threads."""
        if self._threads is not None:
            self._threads.shutdown()

    def _next_batch(self) -> list[Queued]:
        """The rows that are submitted next: many together, because the journal is synced once for all of them."""
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
        """Write down which rows are about to be submitted, and only then submit them."""
        now_s = time.time()
        for one in batch:
            one.tried_s = now_s
        problem = self._notes.intents([one.row.spec for one in batch], now_s)
        look = cache(names_in)
        for one in batch:
            if problem is not None:
                self._rows.submitting.pop(one.row.row_id, None)
                self._take_answer(one, SubmissionError(problem, advice=_NO_ROOM))
                continue
            one.answer = Future()  # there before the submission begins: Ctrl-C may hit at any moment
            submit = partial(self._submit, one, look)
            if self._threads is not None:
                self._threads.submit(_let_answer, one.answer, submit)
            else:
                _let_answer(one.answer, submit)
                self._take_answers([(one, self._answer_of(one, one.answer))])

    def _submit(self, waiting: Queued, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless a submission whose answer was lost has got through; in a thread of its own."""
        spec = waiting.row.spec
        found = _found(self._launcher, waiting)
        if found is not None:
            return found
        waiting.away = None
        if waiting.names is None and self._notes.kept:
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
        """Submit a job to other nodes than before, or to any where there are not enough others."""
        try:
            return self._launcher.submit(spec)
        except RefusedError:
            if not spec.avoided_nodes:
                raise
        return self._launcher.submit(replace(spec, avoided_nodes=()))

    def _answer_of(self, waiting: Queued, answer: Future[Job]) -> Job | RunError:
        """What a submission came to; waits for it if need be."""
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, KeyboardInterrupt):
            return self._found_after_interrupt(waiting)
        # One row's fault must not keep the others' jobs from being looked after.
        return error if isinstance(error, RunError) else SubmissionError(f"{type(error).__name__}: {error}")

    def _found_after_interrupt(self, waiting: Queued) -> Job | RunError:
        """The job of a submission that Ctrl-C has torn apart: the launcher may have it although it could not say so."""
        waiting.since_s = waiting.since_s or waiting.tried_s
        try:
            job = _found(self._launcher, waiting)
        except RunError as error:
            return SchedulerUnreachableError(error.fact)
        return SchedulerUnreachableError("Ctrl-C hit while the job was submitted") if job is None else job

    def _withdraw(self) -> None:
        """Put rows whose submission has not begun back into the queue, and take back that they were about to be."""
        rows = self._rows
        withdrawn = [one for one in rows.submitting.values() if one.answer is None or one.answer.cancel()]
        # Where an earlier answer was lost, there may be a job all the same.
        unsubmitted = [one.row.row_id for one in withdrawn if one.since_s is None]
        if unsubmitted:
            self._notes.write(Journal.refused, *unsubmitted)
        for one in reversed(withdrawn):
            del rows.submitting[one.row.row_id]
            rows.free_place(one.row)
            rows.wait(one, first=True)

    def _take_answers(self, answers: list[tuple[Queued, Job | RunError]]) -> None:
        """Write down what the scheduler has answered, and only then go on with it."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [one.row.row_id for one, _ in answers if one.refused]
        if jobs:
            self._notes.write(Journal.submitted, *jobs)
        if refused:
            self._notes.write(Journal.refused, *refused)
        if any(isinstance(answer, QueueFullError | SchedulerUnreachableError) for _, answer in answers):
            self._withdraw()  # what no thread has begun need not be refused as well
        for one, answer in answers:
            self._take_answer(one, answer)
            # Only then: Ctrl-C may hit in between, and an answer that is taken twice is none that is lost.
            self._rows.submitting.pop(one.row.row_id, None)

    def _take_answer(self, waiting: Queued, answer: Job | RunError) -> None:
        rows, row = self._rows, waiting.row
        if isinstance(answer, Job):
            rows.activate(row, SubmittedJob(answer, away=waiting.away))
            self.patience.taken()
            rows.is_shared(rows.claims.job(answer), row.row_id)
            return
        rows.free_place(row)
        if isinstance(answer, QueueFullError):
            self.patience.no_room(answer.fact, self._clock())
            rows.wait(waiting, first=True)
        elif isinstance(answer, SchedulerUnreachableError) and self._is_worth_waiting(waiting):
            waiting.away = waiting.away or answer
            rows.wait(waiting, first=True)
        else:
            rows.finish(Finished(row.row_id, answer, row, since_s=waiting.since_s))

    def _is_worth_waiting(self, waiting: Queued) -> bool:
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


def _found(launcher: Launcher, waiting: Queued) -> Job | None:
    """The job of a submission whose answer was lost, where it has got through."""
    job = None if waiting.since_s is None else launcher.find(waiting.row.spec, waiting.since_s)
    if job is None or not is_next(job, waiting.row.attempts):
        return None
    return _with_logs_before(job, waiting.names)


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with what had the name of its log before it was submitted."""
    return job if names is None else replace(job, logs_before=logs_before(job.spec, job.id, names))


# -- Which rows have another job --------------------------------------------------------------------
#
# One was failed by the infrastructure or cancelled, or one more is to be measured.


#: Why a job is not its row's last that an earlier session of the run cancelled.
SESSION_ENDED = "its session ended early"


# -- The logs of jobs: where they are, and how long an ended job's is waited for --------------------


#: How often the log of an ended job is looked for at last.
_LONGEST_LOG_LOOK_S = 1.0

#: How often a row that waits for others is asked at least, whatever becomes of them.
_ASKED_S = 60.0


def log_of(launcher: Launcher, job: Job) -> Path:
    """A job's log.

    Raises:
        LogError: There is none, it is older than the job, or it cannot be looked for.
    """
    try:
        log = launcher.find_log(job)
    except OSError as error:  # a file system that is away for a moment
        raise LogError(f"the log of job {job.id} cannot be looked for: {error.strerror or error}") from error
    check_new(job, log)
    return log


def batch_output_of(launcher: Launcher, job: Job) -> Path | None:
    """Where a job's batch shell writes; ``None`` where nobody can tell."""
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


def in_batch_output(error: LogError, job: Job, output: Path | None) -> Path | LogError:
    """The log of a job that left none where its recipe puts it: its batch shell's output, where that holds the log.

    The recipes send the output of their srun to a file by a variable, which not every Slurm knows. Steps alone do not
    tell whose they are: a script may show another log.
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
    whose = "no line says whose they are" if named is None else f"they are those of job {named}"
    return LogError(
        error.fact,
        (*error.evidence, ("steps in", str(output))),
        error.tail,
        f"let the recipe write its log where it is looked for; the batch output has steps, and {whose}",
    )


# -- Asking about all jobs with one question, and what follows from the answers ---------------------


#: A job whose log shows its last step is given this long to end before the scheduler is asked.
SETTLE_S = 1.0
#: However many batches of jobs end in one interval.
MOST_POLLS_PER_INTERVAL = 5

#: How long a session that ends waits for an answer which it does not need.
_LAST_ANSWER_S = 1.0

#: Slurm's reasons of a job that waits for nodes which nobody can have now.
_NOT_THERE = ("ReqNodeNotAvail", "BadConstraints", "PartitionNodeLimit")

#: Slurm's word for a job whose script has ended; one whose end accounting does not tell yet has it, too.
_COMPLETING = "COMPLETING"

_NO_ANSWER = JobStatus(JobState.UNKNOWN, reason="no answer")


class PollSchedule:
    """When the scheduler is asked; all times are monotonic seconds."""

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self.last_s = -math.inf
        self.due_s = -math.inf
        self._failed = 0
        self._settling = 0

    def begin(self) -> None:
        """A question is asked now; no other one is due before it is answered."""
        self.last_s = self._clock()
        self.due_s = math.inf

    def answered(self, answered: bool) -> None:
        """Whether the scheduler told of any job."""
        self._failed = 0 if answered else self._failed + 1

    def end(self, settling: bool) -> None:
        """A question was asked; out of reach, the scheduler is asked less and less often.

        Args:
            settling: Whether nothing but jobs is left that are about to be over: a moment is worth waiting, not a turn.
        """
        self._settling = self._settling + 1 if settling else 0
        # A failed question has cost it something too.
        interval_s = self._interval_s * 2.0 ** min(self._failed, 10)
        interval_s = min(interval_s, max(self._interval_s, LONGEST_BACK_OFF_S))
        soon_s = self._interval_s / MOST_POLLS_PER_INTERVAL * 2.0 ** min(self._settling - 1, 10)
        # Meanwhile a log may have shown its end.
        self.due_s = min(self.due_s, self._clock() + (min(interval_s, soon_s) if settling else interval_s))

    def soon(self) -> None:
        """Ask before the next turn, once for all jobs that end about now, and never much more often than the budget."""
        soon_s = max(self._clock() + SETTLE_S, self.last_s + self._interval_s / MOST_POLLS_PER_INTERVAL)
        self.due_s = min(self.due_s, soon_s)


# -- The logs of running jobs: how far they are, and which are not worth going on with --------------


#: How often running jobs' logs are looked at; it costs the file system one ``stat`` a job.
LOG_LOOK_S = 2.0

#: Slurm's words for jobs that are not over, and do not run either.
_STANDING_STILL = frozenset({"SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "COMPLETING"})


def too_large(spec: JobSpec, limits: Limits) -> SubmissionError:
    """That a row needs more GPUs than all rows together may take."""
    return SubmissionError(
        f"the row needs {spec.gpus} GPUs, and no more than {limits.gpus:g} may be taken",
        advice="raise --gsw-max-gpus, or leave the row out",
    )


def _interrupted(phase: Phase, detach: bool) -> JobError:
    """That a row's end was not waited for, and what became of its job."""
    seen = submitted_job_of(phase)
    fate = "it was never submitted"
    if seen is not None:
        fate = f"job {seen.job.id} was {'left running' if detach else 'cancelled'}{_waited_for(seen.status)}"
    elif unanswered_s(phase) is not None:
        fate = "whether it was submitted is not known"
    return JobError(f"{INTERRUPTED}: {fate}")


def _waited_for(status: JobStatus) -> str:
    """What a job that had not begun waited for, as Slurm says it; empty where nothing is said."""
    waits = status.state is JobState.PENDING and status.reason not in {"", "None"}
    return f"; it was pending ({status.reason})" if waits else ""


#: Called each time before the session waits.
Ticker = Callable[["Executor"], None]


class Executor:
    """The session's jobs.

    Args:
        launcher: How jobs are started and asked about.
        poll_interval_s: Seconds between two questions to the launcher.
        observer: Told of every change of a job's state.
        ticker: Told each time before the session waits.
        journal: Told of every submission, before and after it; a replay, which submits nothing, needs none.
        limits: How many jobs and GPUs may be taken at once, and how many jobs may be pending.
        watcher: Makes the watch of each running job's log; by default none is watched.
        retries: How often a row is run again when the infrastructure failed.
        decide: Decides after each job that ended well whether its row has another one.
        on_repeat: Told of every job that is not its row's last.
        await_logs: Whether a job that ended well must have left a log.
        environ: The session's environment, whose secrets are not shown; by default that of this process now.
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
        await_logs: bool = True,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = self._launcher = launcher
        #: Set when nothing more will be submitted: rows may have had fewer jobs than they were to have.
        self.interrupted = False
        #: Whether all jobs of the run were counted after the last of them had ended.
        self._is_counted = False
        self._rows = RowTable(launcher, limits or Limits())
        self._notes = JournalWriter(journal)
        self._environ = session_environment(environ)
        self._observer, self._ticker, self._watcher = observer, ticker, watcher
        self._retries, self._decide, self._on_repeat = retries, decide, on_repeat
        self._await_logs = await_logs
        self._clock, self._sleep = clock, sleep
        #: The jobs of the run that no row owns; and why rows that were handed out before that was known are errors.
        self.strays, self.late = self._rows.strays, self._rows.late
        #: By row, how its newest job was started: of a row whose jobs cannot be taken over, none is owned.
        self.started = self._rows.started
        self._turns = PollSchedule(poll_interval_s, clock)
        self._submitting = Submitter(self._rows, launcher, self._notes, clock)
        self._cancelling: Future[None] | None = None
        #: Whether a thread asks about jobs while the session submits and judges, or the session itself.
        self._asks_aside: bool = getattr(launcher, "polls_in_a_thread", False)
        self._asked: list[Active] = []
        #: What the thread is about to be answered, ``None`` while nothing is asked.
        self._answer: Future[tuple[Mapping[str, JobStatus], Count]] | None = None
        #: When running jobs' logs are looked at next; monotonic seconds.
        self._look_s = -math.inf

    @property
    def full(self) -> str:
        """Why nothing more is submitted for now: the queue is full. Empty where it is not."""
        return self._submitting.patience.full

    @property
    def journal_problem(self) -> str:
        """Why the journal lacks something, where it does."""
        return self._notes.problem

    # -- what goes in -------------------------------------------------------------------------

    def submit(self, specs: Mapping[str, JobSpec | RunError], past: Mapping[str, Submission] | None = None) -> None:
        """Take over these rows, to be submitted in this order as far as the limits allow.

        A row that cannot be submitted keeps its error for :meth:`result_of`.

        Args:
            specs: How each row is started, or why it cannot be.
            past: What an earlier session did for some of them: earlier attempts, and submissions whose
                answer was lost, which are looked for before anything is submitted again.
        """
        for row_id, spec in specs.items():
            if isinstance(spec, RunError):
                self._rows.finish(Finished(row_id, spec))
            elif spec.gpus > self._rows.limits.gpus:
                self._rows.finish(Finished(row_id, too_large(spec, self._rows.limits)))
            else:
                self._let_wait(row_id, spec, (past or {}).get(row_id))
        self._pump()

    def attach(self, job: Job, past: Submission | None = None) -> None:
        """Take over a job that an earlier session has submitted, and how it ended if that is known."""
        rows, row_id, seen = self._rows, job.spec.row_id, SubmittedJob(job)
        row = RowJobs(row_id, job.spec)
        if past is not None:
            seen.status = past.ended or seen.status
            seen.stopped, seen.cancelled_before = past.stopped, past.cancelled
            row = replace(row, attempts=past.attempts)
            try:
                row = self._with_earlier(row)
            except LogError as error:
                rows.finish(Finished(row_id, error, row, seen))
                return
        rows.take_place(row)
        live = rows.activate(row, seen)
        if not rows.is_shared(rows.claims.job(job), row_id) and seen.status.state.ended:
            self._leave_queue(live)

    def _let_wait(self, row_id: str, spec: JobSpec, past: Submission | None) -> None:
        """Let a row wait, unless what an earlier session measured of it is gone."""
        if past is None:
            self._rows.wait(Queued(RowJobs(row_id, spec)), first=False)
            return
        row, since_s = RowJobs(row_id, spec, past.attempts), past.intended_s or None
        try:
            row = self._with_earlier(row)
        except LogError as error:
            self._rows.finish(Finished(row_id, error, row, since_s=since_s))
        else:
            self._rows.wait(Queued(row, since_s), first=False)

    def _with_earlier(self, row: RowJobs) -> RowJobs:
        """A row with what an earlier session measured of its jobs so far, which must still be there.

        Raises:
            LogError: A log of these jobs is gone, or another job's of this session.
        """
        numbered = [(replace(row.spec, attempt=number), one) for number, one in enumerate(row.attempts, start=1)]
        for its, attempt in numbered:
            self._rows.claims.job(Job(attempt.job_id, its, 0.0))
        earlier = tuple(self._measured_before(its, attempt) for its, attempt in numbered if attempt.measured)
        return replace(row, earlier=earlier)

    def _measured_before(self, spec: JobSpec, attempt: Attempt) -> Run:
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0)
        log = log_of(self._launcher, job)
        clash = self._rows.claims.log(job, log)
        if clash is not None:
            raise clash[1]
        output = batch_output_of(self._launcher, job)
        return Run(job.id, attempt.status, log, output, beside=outputs_beside(job, log, output))

    # -- what comes out -----------------------------------------------------------------------

    def next_finished(self) -> str:
        """Wait until a row that was not named before can be measured or has failed, and name it."""
        while True:
            self._pump()
            if self._rows.over:
                return self._rows.over.pop(next(iter(self._rows.over))).row_id
            self._wait()

    def result_of(self, row_id: str) -> Run:
        """The ended job of this row with its log; waits for it if need be.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        while True:
            self._pump()
            phase = self._rows.phases[row_id]
            if isinstance(phase, Finished):
                break
            self._wait()
        self._rows.over.pop(row_id, None)
        if isinstance(phase.end, RunError):
            raise phase.end
        return phase.end

    def phase(self, row_id: str) -> Phase | None:
        """Where this row is on its way; ``None`` where it was not handed over for submission."""
        return self._rows.phases.get(row_id)

    def spec(self, row_id: str) -> JobSpec | None:
        """How this row's last job was started, or is to be."""
        row = self._rows.row(row_id)
        return None if row is None else row.spec

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job, if it was submitted."""
        seen = self._rows.seen(row_id)
        return None if seen is None else seen.job.id

    def status(self, row_id: str) -> JobStatus | None:
        """What was last known of this row's job."""
        seen = self._rows.seen(row_id)
        return None if seen is None else seen.status

    def attempts(self, row_id: str) -> tuple[Attempt, ...]:
        """The row's jobs before its last one that were not measured."""
        row = self._rows.row(row_id)
        return () if row is None else row.failures

    def earlier(self, row_id: str) -> tuple[Run, ...]:
        """The row's jobs before its last one that were measured as well."""
        row = self._rows.row(row_id)
        return () if row is None else row.earlier

    @property
    def phases(self) -> Mapping[str, Phase]:
        """Where every row is on its way, by its id and in the order of submission."""
        return self._rows.phases

    def count(self) -> None:
        """Hold all jobs of the run that the scheduler has against the rows' own once more."""
        self._rows.hold(self._rows.count(has_reason=True))
        self._is_counted = True

    # -- the end ------------------------------------------------------------------------------

    def interrupt(self, detach: bool) -> int:
        """End the session's wait: what has not ended is an error that says so, and is cancelled unless detached.

        Returns:
            How many jobs are being cancelled, or were left to run; :meth:`close` waits for the launcher's answer.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self.interrupted = True
        rows = self._rows
        self._submitting.collect(wait=True)
        running = rows.running()
        rows.interrupt(lambda phase: _interrupted(phase, detach))
        # A log that is not there at the next look is missing; a row that waits for others waits no longer, either.
        rows.news += 1
        for ended in rows.ended.values():
            ended.deadline_s = ended.look_s = self._clock()
        if running and not detach:
            self._notes.write(Journal.cancelled, *(seen.job for seen in running))
            # Slurm takes its time for hundreds of jobs; rows are reported meanwhile.
            self._cancelling = self._submitting.aside(rows.cancel, running)
        return len(running)

    def close(self, detach: bool = False) -> int:
        """Cancel whatever still runs, with one request, unless detached, and let go of the launcher.

        Returns:
            How many jobs were cancelled, besides those of :meth:`interrupt`.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._submitting.collect(wait=True)
        if self._cancelling is not None:
            self._cancelling.exception()  # once it has ended, it is known which jobs are left
        try:
            count = self._rows.count(has_reason=not self._is_counted)
            self._rows.hold(count)
            running = [seen.job for seen in self._rows.running() if not detach]
            if not detach:
                running += self._found_again()
            if running:
                self._notes.write(Journal.cancelled, *running)
                self._launcher.cancel(running)
            if isinstance(count, RunError):
                fact = f"whether the run has jobs that are no row's is not known: {count.fact}"
                raise JobError(fact, count.evidence, advice=count.advice)
        finally:
            self._submitting.close()
            if self._answer is not None:  # a scheduler that hangs keeps no session from ending
                wait([self._answer], _LAST_ANSWER_S)
            self._launcher.close()
            self._notes.close()
        return len(running)

    def _found_again(self) -> list[Job]:
        """Jobs whose submission's answer was lost: nobody but this session would end them."""
        found = []
        for phase in self._rows.phases.values():
            since_s = unanswered_s(phase)
            if since_s is not None and phase.row is not None:
                try:
                    job = self._launcher.find(phase.row.spec, since_s)
                except SchedulerUnreachableError:
                    break  # nor will it tell of the others
                except RunError:
                    continue
                if isinstance(phase, Finished):
                    phase.seen, phase.since_s = None if job is None else SubmittedJob(job), None
                found += [job] if job is not None else []
        if found:
            self._notes.write(Journal.submitted, *found)
        return found

    # -- waiting ------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Take what is there: answers, logs of ended jobs; and submit what waits, as far as the limits allow."""
        self._submitting.collect()
        self._collect_answer()
        self._find_logs()
        self._submitting.submit()
        self._ask_aside()

    def _wait(self) -> None:
        """Let time pass until there may be news, and ask about all jobs when their turn has come."""
        self._ticker(self)
        self._look_when_due()
        if self._clock() >= self._question_due_s:
            self._look_s = self._clock()  # what runs by then is looked at next
            self._ask()
            return
        logs_s = min((ended.look_s for ended in self._rows.ended.values()), default=math.inf)
        due_s = min(self._question_due_s, self._looks_due_s, self._submitting.due_s, logs_s) - self._clock()
        if due_s > 0 and not self._submitting.wait(due_s, self._answer):
            self._sleep(due_s)

    # -- which rows have another job: one was failed by the infrastructure or cancelled, or one more is to be measured

    def _goes_on(self, ended: AwaitingLog, run: Run) -> bool:
        """Whether a row is not over: it waits for others, or is put back into the queue.

        That is where the infrastructure failed it, an earlier session cancelled it, or one more job of it is wanted.
        """
        row = ended.row
        attempt = None if self.interrupted else self._attempt(ended, run)
        if attempt is None:
            return False
        if isinstance(attempt, Undecided):
            return True
        del self._rows.ended[row.row_id]
        self._again(row, attempt, attempt.after(row.spec), run.jobs if attempt.measured else row.earlier)
        return True

    def _again(self, row: RowJobs, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row back at the head of the queue, after an attempt that is not its last."""
        self._notes.write(Journal.repeated, row.row_id, attempt)
        self._on_repeat(row.row_id, attempt)
        self._rows.wait(Queued(RowJobs(row.row_id, spec, (*row.attempts, attempt), earlier)), first=True)

    def _attempt(self, ended: AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """What a job was that is not its row's last; ``None`` where it is the last."""
        row, is_cancelled = ended.row, run.status.state is JobState.CANCELLED
        if is_cancelled and ended.seen.cancelled_before and run.stopped is None:
            return Attempt(run.job_id, run.status, SESSION_ENDED)
        failure = infrastructure_failure(run) if row.retried < self._retries else None
        if failure is not None:
            return Attempt(run.job_id, run.status, failure.why, failure.nodes)
        if not is_healthy(run.status):
            return None
        try:
            decided = self._decide(row.row_id, run)
        except Exception:  # of a site's own rule: reported when the row is judged
            return None
        if isinstance(decided, Repeat):
            return Attempt(run.job_id, run.status, decided.why, decided.avoiding, measured=True)
        return decided if isinstance(decided, Undecided) else None

    # -- the logs of jobs that have ended, and how long they are waited for -------------------

    def _await_log(self, live: Active) -> None:
        """A job has ended, or was given up: its log is awaited, as long as that makes sense."""
        row, now_s = live.row, self._clock()
        deadline_s = now_s + (self._launcher.log_wait_s if is_healthy(live.seen.status) else 0.0)
        self._rows.phases[row.row_id] = self._rows.ended[row.row_id] = AwaitingLog(row, live.seen, deadline_s, now_s)

    def _find_logs(self) -> None:
        """Hand over what has ended and has its log, or will not get it any more."""
        now_s = self._clock()
        for ended in [ended for ended in self._rows.ended.values() if now_s >= ended.look_s]:
            row_id = ended.row.row_id
            if row_id not in self._rows.ended:
                continue  # given up for another one's sake
            ended.look_s = min(now_s + ended.pause_s, max(now_s, ended.deadline_s))
            ended.pause_s = min(2 * ended.pause_s, _LONGEST_LOG_LOOK_S)
            if ended.run is not None and self._waits_on(ended, now_s):
                continue
            end = ended.run or self._run_of(ended, now_s)
            self._rows.news += isinstance(end, Run) and ended.run is None
            if isinstance(end, Run) and self._goes_on(ended, end):
                ended.run, ended.look_s = end, now_s + ended.pause_s  # it may be past its log's deadline
                ended.asked = self._rows.news, now_s
                continue
            if end is not None:
                self._rows.finish(Finished(row_id, end, ended.row, ended.seen))
                del self._rows.ended[row_id]

    def _waits_on(self, ended: AwaitingLog, now_s: float) -> bool:
        """Whether a row that waits for others need not be asked again: nothing has become of them."""
        news, asked_s = ended.asked
        if news != self._rows.news or now_s >= asked_s + _ASKED_S:
            return False
        ended.look_s = now_s + ended.pause_s
        return True

    def _run_of(self, ended: AwaitingLog, now_s: float) -> Run | LogError | None:
        """An ended row's run, or that it has no log; ``None`` where that is awaited, or the row was given up."""
        job = ended.seen.job
        log: Path | None = None
        try:
            log = log_of(self._launcher, job) if self._await_logs else None
        except LogError as error:
            if is_healthy(ended.seen.status):
                # A shared file system is given its time.
                if now_s < ended.deadline_s:
                    return None
                found = in_batch_output(error, job, batch_output_of(self._launcher, job))
                if isinstance(found, LogError):
                    return found
                log = found
        if log is not None and self._rows.is_shared(self._rows.claims.log(job, log), ended.row.row_id):
            return None
        row, seen = ended.row, ended.seen
        output = batch_output_of(self._launcher, job)
        # A stop that an earlier session meant to send explains nothing but a cancelled job.
        sent = seen.stop_sent or seen.status.state is JobState.CANCELLED
        beside = outputs_beside(job, log, output)
        return Run(job.id, seen.status, log, output, seen.stopped if sent else None, row.earlier, beside=beside)

    # -- asking about all jobs with one question, and what follows from the answers -----------

    @property
    def _question_due_s(self) -> float:
        """When the scheduler is asked next, monotonic seconds; infinity while its answer is awaited."""
        return self._turns.due_s if self._answer is None else math.inf

    def _ask_aside(self) -> None:
        """Ask when it is time, if another thread does so; else the session asks where it would wait."""
        if self._asks_aside and self._clock() >= self._question_due_s:
            self._ask()

    def _ask(self) -> None:
        """Ask once about all jobs that have not ended, and where that is due, which jobs there are."""
        self._turns.begin()
        self._asked = list(self._rows.live.values())
        poll = partial(self._poll, [live.seen.job for live in self._asked])
        if self._asked and self._asks_aside:
            self._answer = run_in_background(poll, "gsw-ask")
        else:
            self._end_question(poll)

    def _collect_answer(self) -> None:
        """Take what the thread was answered."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            self._end_question(answer.result)

    def _leave_queue(self, live: Active) -> None:
        """A job has ended, or was given up."""
        self._rows.leave_queue(live)
        self._submitting.patience.room()
        self._await_log(live)

    def _is_settling(self) -> bool:
        """Whether nothing but jobs is left whose scripts have ended."""
        rows = self._rows
        if rows.waiting or rows.submitting or not rows.live:
            return False
        return all(_COMPLETING in live.seen.status.raw_state for live in rows.live.values())

    def _poll(self, jobs: list[Job]) -> tuple[Mapping[str, JobStatus], Count]:
        answers = self._launcher.poll(jobs)
        # A row is handed over only once its jobs are counted.
        return answers, self._rows.count(any(status.state.ended for status in answers.values()))

    def _end_question(self, answer: Callable[[], tuple[Mapping[str, JobStatus], Count]]) -> None:
        """Take the answer, but for rows that were given up meanwhile, or that an interrupted session does not await."""
        try:
            answers, count = answer() if self._asked else ({}, {})
            asked = [live for live in self._asked if self._rows.live.get(live.row.row_id) is live]
            if asked:
                self._take([(live, self._shown(live, answers)) for live in asked])
            self._rows.hold(count)
        finally:
            self._turns.end(self._is_settling())

    def _shown(self, live: Active, answers: Mapping[str, JobStatus]) -> JobStatus:
        """The scheduler's own words go to the screen, the journal and the record; what is no news is what was known."""
        seen, status = live.seen, answers.get(live.row.row_id, _NO_ANSWER)
        return seen.status if status == seen.status else redact(status, self._environ, seen.job.spec.environment)

    def _take(self, told: list[tuple[Active, JobStatus]]) -> None:
        """Write down which jobs have ended, and only then go on with them."""
        ended = [
            (live.seen.job, status) for live, status in told if status is not live.seen.status and status.state.ended
        ]
        if ended:
            self._notes.write(Journal.ended, *ended)
        for live, status in told:
            self._update(live, status)
        for live, status in told:
            if status.siblings:
                self._rows.give_up([live.row.row_id], not_alone(Run(live.seen.job.id, status, None)))
        # A job that is to avoid nodes and cannot: the others are down, drained or reserved.
        avoiding = [
            live
            for live, status in told
            if status.state is JobState.PENDING and live.row.spec.avoided_nodes and status.reason.startswith(_NOT_THERE)
        ]
        self._give_any_nodes([live for live in avoiding if live.row.row_id in self._rows.live])
        silent = all(status.state is JobState.UNKNOWN for _, status in told)
        self._turns.answered(not silent)
        if not silent:
            self._submitting.patience.answered(self._clock())

    def _give_any_nodes(self, without: list[Active]) -> None:
        """Submit jobs anew that wait for other nodes than those before, and will not get them."""
        if not without:
            return
        try:
            self._launcher.cancel([live.seen.job for live in without])
        except JobError:
            return  # they are still there at the next question
        for live in without:
            row, job = live.row, live.seen.job
            status = replace(live.seen.status, state=JobState.CANCELLED)
            attempt = Attempt(job.id, status, "no other node was available")
            self._notes.write(Journal.ended, (job, status))
            self._rows.leave_queue(live)
            self._again(row, attempt, replace(row.spec.again(), avoided_nodes=()), row.earlier)

    def _update(self, live: Active, status: JobStatus) -> None:
        seen = live.seen
        if status is seen.status:  # nothing new, as of most jobs at most times
            live.unknown_since_s = None
            return
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if live.unknown_since_s is None:
                live.unknown_since_s = now_s
            if not is_too_long(now_s - live.unknown_since_s):
                return  # the scheduler is out of reach for a while; the last known state stands
        else:
            live.unknown_since_s = None
        changed = status.state is not seen.status.state
        seen.status = status
        if changed:
            self._observer(live.row.row_id, seen.job.id, status)
        if status.state.ended or status.state is JobState.UNKNOWN:
            self._leave_queue(live)
        elif status.state is JobState.PENDING:
            live.watch = seen.sample = live.log = None  # put back into the queue: the next start is another run

    # -- the logs of running jobs: how far they are, and which are not worth going on with ----

    @property
    def _looks_due_s(self) -> float:
        """When logs are looked at next, monotonic seconds; infinity where there is none to look at."""
        return self._look_s if self._rows.live and self._watcher is not None else math.inf

    def _look_when_due(self) -> None:
        """See how far running jobs are, when the turn of their logs has come."""
        now_s = self._clock()
        if now_s >= self._looks_due_s:
            self._look_s = now_s + LOG_LOOK_S
            self._look()

    def _look(self) -> None:
        """See how far running jobs are, by their logs; end those that are not worth going on with."""
        now_s = self._clock()
        stopped = []
        for live in self._rows.live.values():
            seen = live.seen
            if seen.status.state is JobState.PENDING:
                live.log = None  # a job that is started again may write to another
                if seen.status.reason.startswith(NEVER_STARTS) and not seen.stop_sent:
                    fact = f"job {seen.job.id} can never start: {seen.status.reason}"
                    stopped.append((seen, EarlyStop(fact, "find out why the job that it waits for has failed")))
            if seen.status.state is not JobState.RUNNING or seen.stop_sent:
                continue
            finished = seen.sample is not None and seen.sample.finished
            seen.sample = self._sample_of(live, now_s)
            if seen.sample is None:
                continue
            if seen.sample.finished and not finished:
                self._turns.soon()  # its log is the cheaper signal: no need to wait for the next turn
            if seen.sample.stop is not None:
                stopped.append((seen, seen.sample.stop))
        if stopped:
            self._end_early(stopped)

    def _sample_of(self, live: Active, now_s: float) -> Sample | None:
        """What a running job's log shows; ``None`` where nobody can tell, or where it is known why it stands still."""
        if live.seen.status.raw_state.upper().partition("+")[0] in _STANDING_STILL:
            live.watch = None
            return None
        if live.unwatched or self._watcher is None:
            return None
        try:
            live.watch = live.watch or self._watcher(live.row.row_id)
            live.unwatched = live.watch is None
            return None if live.watch is None else live.watch.look(self._running_log(live), now_s)
        except Exception:
            # Of a site's own log format: its fault is this row's alone, and told when that is measured.
            live.unwatched = True
            return None

    def _running_log(self, live: Active) -> Path | None:
        """A running job's log, looked for once after each poll until it is there."""
        if live.log is None and live.looked_s <= self._turns.last_s:
            live.looked_s = self._clock()
            try:
                live.log = log_of(self._launcher, live.seen.job)
            except LogError:
                live.log = None
        return live.log

    def _end_early(self, stops: list[tuple[SubmittedJob, EarlyStop]]) -> None:
        """End jobs early, with one request; a job that could not be ended is tried again at the next look."""
        for seen, why in stops:
            stop = redact(why, self._environ, seen.job.spec.environment)  # it may have words of the log
            if seen.stopped is None:
                self._notes.write(Journal.stopped, seen.job, stop)
            seen.stopped = stop
        try:
            self._launcher.cancel([seen.job for seen, _ in stops])
        except JobError:
            return
        for seen, _ in stops:
            seen.stop_sent = True
        self._turns.soon()
