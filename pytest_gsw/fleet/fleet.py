"""All selected rows at once: submit them, poll all their jobs with one question, hand over what has ended.

A row goes one way through the fleet: it *waits*, is being *submitted*, is *live* (its job is in the
queue or runs), has *ended* (its log is awaited), and is *over*. Each of these is a dictionary in
which a row is found at once, so that a poll costs what the jobs cost that it asks about, and not
what the session has done so far.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ALL_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import (
    JobError,
    LogError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerAwayError,
    SubmissionError,
)
from pytest_gsw.fleet.watch import Sight, Watch
from pytest_gsw.jobs.before import check_new, logs_before, names_before, names_in
from pytest_gsw.jobs.claims import Claims
from pytest_gsw.jobs.environment import session_environment
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Launcher, Stop
from pytest_gsw.jobs.resume import is_next
from pytest_gsw.runs.checks import Run, not_alone
from pytest_gsw.runs.infrastructure import infrastructure_failure

#: How long the scheduler may be out of reach before rows are given up: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0
#: After a failure to reach the scheduler: the first wait, and the longest; each is twice the one before.
BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 60.0
#: How often running jobs' logs are looked at; it costs the file system one ``stat`` a job.
LOG_LOOK_S = 2.0
#: A job whose log shows its last step is given this long to end before the scheduler is asked.
SETTLE_S = 1.0
#: However many batches of jobs end in one interval.
MOST_POLLS_PER_INTERVAL = 5
#: How often the log of an ended job is looked for: at first, and at last.
_MISSING_LOG_LOOK_S = 0.1
_LONGEST_LOG_LOOK_S = 1.0
#: Submissions that wait for a free thread, for each thread: enough to keep all busy.
_QUEUED_PER_THREAD = 2
#: The longest wait for half of the submissions under way: one that hangs must not hold the others up.
_ANSWERS_WAIT_S = 0.5

#: Slurm's words for jobs that are not over, and do not run either.
_STANDING_STILL = frozenset({"SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "COMPLETING"})

#: Slurm's reasons of a job that waits for nodes which nobody can have now.
_NOT_THERE = ("ReqNodeNotAvail", "BadConstraints", "PartitionNodeLimit")

_NO_ROOM = "make room there, or give another directory with --gsw-results=DIR"

_NO_ANSWER = JobStatus(JobState.UNKNOWN, reason="no answer")

#: Called each time before the session waits.
Ticker = Callable[["Fleet"], None]

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]

#: Called with the row's id and the attempt that is not its last.
RepeatObserver = Callable[[str, Attempt], None]

#: Makes the watch of a row's job, or ``None`` where nobody can read its log.
Watcher = Callable[[str], Watch | None]


@dataclass(frozen=True)
class Again:
    """That one more job of a row is wanted although its last one can be measured."""

    #: In a few words: ``10.8 % below, to be confirmed (1 of 2)``.
    why: str
    #: Nodes that it is to do without where that is possible.
    avoiding: tuple[str, ...] = ()


#: Asked of a row's job that ended well, with its log: is one more wanted?
OnceMore = Callable[[str, Run], Again | None]


@dataclass(frozen=True)
class Limits:
    """How much of the cluster a session may take at once; infinity is no limit."""

    jobs: float = math.inf
    gpus: float = math.inf
    #: Jobs that are pending.
    pending: float = math.inf


@dataclass(frozen=True)
class Standing:
    """Where one row stands, for whoever tells the user."""

    row_id: str
    gpus: int
    #: What was last known of its job; ``None`` where there is none.
    status: JobStatus | None
    #: What its log showed last; ``None`` before the first look.
    sight: Sight | None
    over: bool


@dataclass
class _Entry:
    """One row as the fleet sees it."""

    row_id: str
    spec: JobSpec | None = None
    #: When its submission was tried last, and first where the answer was lost: seconds since the epoch.
    tried_s: float = 0.0
    since_s: float | None = None
    #: Its last submission is known to have left no job.
    refused: bool = False
    #: Since when the scheduler has been out of reach for its submission; monotonic seconds.
    away_since_s: float | None = None
    submission: Future[Job] | None = None
    #: What was named like a log of the row before it was first submitted; ``None`` where nobody looked.
    names: frozenset[str] | None = None
    job: Job | None = None
    error: RunError | None = None
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    #: Since when nothing is known of the job; monotonic seconds.
    unknown_since_s: float | None = None
    watch: Watch | None = None
    #: Nobody can watch it.
    unwatched: bool = False
    #: The job's log, once it was found while the job runs.
    log: Path | None = None
    sight: Sight | None = None
    #: Why the job is to be ended early, and whether the launcher has been told by this session.
    stopped: Stop | None = None
    stop_sent: bool = False
    #: The row's jobs before this one, and those of them that are measured as well.
    attempts: tuple[Attempt, ...] = ()
    earlier: tuple[Run, ...] = ()
    #: Until when an ended job's log may appear, when it is looked for next, and how long after that.
    log_deadline_s: float = 0.0
    log_look_s: float = 0.0
    log_pause_s: float = _MISSING_LOG_LOOK_S
    #: The ended job with its log, once that is there.
    run: Run | None = None
    #: The launcher was told to end it.
    cancelled: bool = False

    @property
    def gpus(self) -> int:
        return self.spec.gpus if self.spec else 0


class Fleet:
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
        once_more: Asked of each job that ended well whether its row wants another one.
        on_repeat: Told of every job that is not its row's last.
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
        once_more: OnceMore = lambda *_: None,
        on_repeat: RepeatObserver = lambda *_: None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = launcher
        #: Set when nothing more will be submitted: rows may have had fewer jobs than they were to have.
        self.interrupted = False
        self._poll_interval_s = poll_interval_s
        self._observer = observer
        self._journal = journal
        #: Why the journal lacks something, where it does.
        self.journal_problem = ""
        self._limits = limits or Limits()
        self._ticker = ticker
        self._watcher = watcher
        self._retries = retries
        self._once_more = once_more
        self._on_repeat = on_repeat
        self._environ = session_environment(environ)
        #: Why nothing more is submitted for now: the queue is full. Empty where it is not.
        self.full = ""
        self._clock = clock
        self._sleep = sleep
        #: All rows, and the rows by where they are on their way.
        self._entries: dict[str, _Entry] = {}
        self._waiting: deque[_Entry] = deque()
        self._submitting: dict[str, _Entry] = {}
        self._live: dict[str, _Entry] = {}
        self._ended: dict[str, _Entry] = {}
        self._over: dict[str, _Entry] = {}
        self._claims = Claims()
        #: What rows that are being submitted or live take.
        self._taken_jobs = 0
        self._taken_gpus = 0
        self._last_poll_s = -math.inf
        self._poll_due_s = -math.inf
        self._failed_polls = 0
        self._look_due_s = -math.inf
        self._submit_due_s = -math.inf
        self._back_off_s = BACK_OFF_S
        #: When the scheduler last told of a job; monotonic seconds.
        self._answered_s = -math.inf
        threads = launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None
        self._cancelling: Future[None] | None = None
        self._at_once = threads * (1 + _QUEUED_PER_THREAD)
        #: How many may be under way by now: one once the scheduler took none, then one more for each that it takes.
        self._window = self._at_once

    # -- what goes in -------------------------------------------------------------------------

    def submit(self, specs: Mapping[str, JobSpec | RunError], past: Mapping[str, Submission] | None = None) -> None:
        """Take over these rows, to be submitted in this order as far as the limits allow.

        A row that cannot be submitted keeps its error for :meth:`take`.

        Args:
            specs: How each row is started, or why it cannot be.
            past: What an earlier session did for some of them: earlier attempts, and submissions whose
                answer was lost, which are looked for before anything is submitted again.
        """
        for row_id, spec in specs.items():
            entry = self._entries[row_id] = _Entry(row_id)
            if isinstance(spec, RunError):
                self._fail(entry, spec)
            elif spec.gpus > self._limits.gpus:
                self._fail(
                    entry,
                    SubmissionError(
                        f"the row needs {spec.gpus} GPUs, and no more than {self._limits.gpus:g} may be taken",
                        advice="raise --gsw-max-gpus, or leave the row out",
                    ),
                )
            else:
                earlier = (past or {}).get(row_id)
                entry.spec = spec
                if earlier is not None:
                    entry.since_s = earlier.intended_s or None
                    self._take_over(entry, spec, earlier.attempts)
                if entry.error is None:
                    self._waiting.append(entry)
        self._pump()

    def attach(self, job: Job, past: Submission | None = None) -> None:
        """Take over a job that an earlier session has submitted, and how it ended if that is known."""
        entry = _Entry(job.spec.row_id, spec=job.spec, job=job)
        if past is not None:
            entry.status = past.ended or entry.status
            entry.stopped = past.stopped
        self._entries[entry.row_id] = entry
        if past is not None:
            self._take_over(entry, job.spec, past.attempts)
            if entry.error is not None:
                return
        self._take_place(entry)
        self._live[entry.row_id] = entry
        if not self._is_shared(self._claims.job(job), entry) and entry.status.state.ended:
            self._leave_queue(entry)

    def _take_over(self, entry: _Entry, spec: JobSpec, attempts: tuple[Attempt, ...]) -> None:
        """What an earlier session knew of the row's jobs so far; what was measured must still be there."""
        entry.attempts = attempts
        numbered = [(replace(spec, attempt=number), one) for number, one in enumerate(attempts, start=1)]
        for its, attempt in numbered:
            self._claims.job(Job(attempt.job_id, its, 0.0, cluster=attempt.cluster))
        try:
            entry.earlier = tuple(self._measured_before(its, attempt) for its, attempt in numbered if attempt.measured)
        except LogError as error:
            self._fail(entry, error)

    def _measured_before(self, spec: JobSpec, attempt: Attempt) -> Run:
        """A job that an earlier session has measured.

        Raises:
            LogError: Its log is gone, or another job's of this session.
        """
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0, cluster=attempt.cluster)
        log = self._log_of(job)
        clash = self._claims.log(job, log)
        if clash is not None:
            raise clash[1]
        return Run(job.id, attempt.status, log, self._batch_output(job))

    # -- what comes out -----------------------------------------------------------------------

    def next_over(self) -> str:
        """Wait until a row that was not named before can be measured or has failed, and name it."""
        while True:
            self._pump()
            if self._over:
                return self._over.pop(next(iter(self._over))).row_id
            self._wait()

    def take(self, row_id: str) -> Run:
        """The ended job of this row with its log; waits for it if need be.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        self.wait_for(row_id)
        entry = self._entries[row_id]
        self._over.pop(row_id, None)
        if entry.error is not None:
            raise entry.error
        assert entry.run is not None  # what is over has a run or an error
        return entry.run

    def wait_for(self, row_id: str) -> None:
        """Wait until this row can be measured or has failed."""
        while True:
            self._pump()
            entry = self._entries[row_id]  # a row that is run again has a new one
            if entry.error is not None or entry.run is not None:
                return
            self._wait()

    def knows(self, row_id: str) -> bool:
        """Whether this row was handed over for submission."""
        return row_id in self._entries

    def spec(self, row_id: str) -> JobSpec | None:
        """How this row's last job was started, or is to be."""
        entry = self._entries.get(row_id)
        return None if entry is None else entry.spec

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job, if it was submitted."""
        entry = self._entries.get(row_id)
        return entry.job.id if entry and entry.job else None

    def status(self, row_id: str) -> JobStatus | None:
        """What was last known of this row's job."""
        entry = self._entries.get(row_id)
        return entry.status if entry and entry.job else None

    def attempts(self, row_id: str) -> tuple[Attempt, ...]:
        """The row's jobs before its last one that the infrastructure failed."""
        entry = self._entries.get(row_id)
        return () if entry is None else tuple(one for one in entry.attempts if not one.measured)

    def earlier(self, row_id: str) -> tuple[Run, ...]:
        """The row's jobs before its last one that were measured as well."""
        entry = self._entries.get(row_id)
        return () if entry is None else entry.earlier

    def standings(self) -> Iterator[Standing]:
        """Where every row stands, in the order of submission."""
        for entry in self._entries.values():
            over = entry.run is not None or entry.error is not None
            yield Standing(entry.row_id, entry.gpus, entry.status if entry.job else None, entry.sight, over)

    # -- the end ------------------------------------------------------------------------------

    def interrupt(self, detach: bool) -> int:
        """End the session's wait: what has not ended is an error that says so, and is cancelled unless detached.

        Returns:
            How many jobs are being cancelled, or were left to run; :meth:`close` waits for the launcher's answer.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._retries = 0
        self._once_more = lambda *_: None
        self.interrupted = True
        self._collect(wait=True)
        running = self._running()
        how = "left running" if detach else "cancelled"
        for entry in self._entries.values():
            if entry.error is None and entry.run is None and entry.row_id not in self._ended:
                fate = f"job {entry.job.id} was {how}" if entry.job else "it was never submitted"
                if entry.job is None and entry.since_s is not None:
                    fate = "whether it was submitted is not known"
                entry.error = JobError(f"interrupted: {fate}", advice="pytest --gsw-resume" if detach else "")
        self._waiting.clear()
        for entry in self._ended.values():
            entry.log_deadline_s = entry.log_look_s = self._clock()  # nobody waits for logs any more
        if running and not detach:
            if self._threads is not None:
                # Slurm takes its time for hundreds of jobs; rows are reported meanwhile.
                self._cancelling = self._threads.submit(self._cancel, running)
            else:
                self._cancel(running)
        return len(running)

    def _cancel(self, entries: list[_Entry]) -> None:
        """End these rows' jobs with one request; one that fails leaves them to the session's end."""
        self.launcher.cancel([entry.job for entry in entries if entry.job is not None])
        for entry in entries:
            entry.cancelled = True

    def close(self, detach: bool = False) -> int:
        """Cancel whatever still runs, with one request, unless detached, and let go of the launcher.

        Returns:
            How many jobs were cancelled, besides those of :meth:`interrupt`.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._collect(wait=True)
        if self._cancelling is not None:
            self._cancelling.exception()  # once it has ended, it is known which jobs are left
        running = [entry.job for entry in self._running() if entry.job is not None and not detach]
        try:
            if not detach:
                running += self._found_again()
            if running:
                self.launcher.cancel(running)
        finally:
            if self._threads is not None:
                self._threads.shutdown()
            self.launcher.close()
            if self._journal is not None:
                self._journal.close()
        return len(running)

    def _found_again(self) -> list[Job]:
        """Jobs whose submission's answer was lost: nobody but this session would end them."""
        found = []
        for entry in self._entries.values():
            if entry.job is None and entry.since_s is not None and entry.spec is not None:
                try:
                    job = self.launcher.find(entry.spec, entry.since_s)
                except SchedulerAwayError:
                    break  # nor will it tell of the others
                except RunError:
                    continue
                found += [job] if job is not None else []
        return found

    def _running(self) -> list[_Entry]:
        """Rows whose job may still run: also those that were given up, of which nothing is known."""
        return [
            entry
            for entry in self._entries.values()
            if entry.job is not None and not entry.status.state.ended and not entry.cancelled
        ]

    # -- submission ---------------------------------------------------------------------------

    def _pump(self) -> None:
        """Take what is there: answers, logs of ended jobs; and submit what waits, as far as the limits allow.

        Rows are submitted in order: nothing overtakes one that does not fit.
        """
        self._collect()
        self._find_logs()
        while batch := self._next_batch():
            self._begin(batch)

    def _next_batch(self) -> list[_Entry]:
        """The rows that are submitted next: many together, because the journal is synced once for all of them."""
        batch: list[_Entry] = []
        if len(self._submitting) > self._window // 2:
            return batch
        most = self._window - len(self._submitting) if self._threads is not None else 1
        while self._waiting and len(batch) < most and self._clock() >= self._submit_due_s:
            entry = self._waiting[0]
            if not self._fits(entry):
                break
            self._waiting.popleft()
            self._take_place(entry)
            if self._threads is not None:
                self._submitting[entry.row_id] = entry
            batch.append(entry)
        return batch

    def _begin(self, batch: list[_Entry]) -> None:
        """Write down which rows are about to be submitted, and only then submit them."""
        problem = self._intend(batch)
        look = cache(names_in)
        for entry in batch:
            if problem is not None:
                self._submitting.pop(entry.row_id, None)
                self._take_answer(entry, SubmissionError(problem, advice=_NO_ROOM))
            elif self._threads is not None:
                entry.submission = self._threads.submit(self._submit, entry, look)
            else:
                self._take_answers([(entry, self._answer(entry, look))])

    def _intend(self, batch: list[_Entry]) -> str | None:
        """Why the journal cannot tell of these rows, so that none of them may be submitted; ``None`` where it does."""
        now_s = time.time()
        for entry in batch:
            entry.tried_s, entry.refused = now_s, False
        if self._journal is None:
            return None
        try:
            self._journal.intents([entry.spec for entry in batch if entry.spec is not None], now_s)
        except OSError as error:
            return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def _fits(self, entry: _Entry) -> bool:
        limits = self._limits
        if self._taken_jobs + 1 > limits.jobs or self._taken_gpus + entry.gpus > limits.gpus:
            return False
        if limits.pending == math.inf:
            return True
        pending = sum(live.status.state is JobState.PENDING for live in self._live.values())
        return pending + len(self._submitting) + 1 <= limits.pending

    def _take_place(self, entry: _Entry) -> None:
        self._taken_jobs += 1
        self._taken_gpus += entry.gpus

    def _free_place(self, entry: _Entry) -> None:
        self._taken_jobs -= 1
        self._taken_gpus -= entry.gpus

    def _submit(self, entry: _Entry, look: Callable[[Path, str], frozenset[str]]) -> Job:
        """Submit one row, unless a submission whose answer was lost has got through; in a thread of its own."""
        spec = entry.spec
        assert spec is not None  # only rows that can be submitted wait
        found = None if entry.since_s is None else self.launcher.find(spec, entry.since_s)
        if found is not None and is_next(found, entry.attempts):
            return _with_logs_before(found, entry.names)
        if entry.names is None and self._journal is not None:
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
            return self.launcher.submit(spec)
        except RefusedError:
            if not spec.avoided_nodes:
                raise
        return self.launcher.submit(replace(spec, avoided_nodes=()))

    def _note(self, event: Callable[..., None], *facts: object) -> None:
        """Write what has happened to the journal; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.journal_problem = error.strerror or str(error)

    def _answer(self, entry: _Entry, look: Callable[[Path, str], frozenset[str]]) -> Job | RunError:
        try:
            return self._submit(entry, look)
        except RunError as error:
            return error

    def _collect(self, wait: bool = False) -> None:
        """Take the answers of submissions that other threads have got; waiting, also drop those not begun."""
        if wait:
            self._withdraw()
        self._take_answers(
            [
                (entry, _answer_of(entry.submission))
                for entry in self._submitting.values()
                if entry.submission is not None and (wait or entry.submission.done())
            ]
        )

    def _withdraw(self) -> None:
        """Put rows whose submission has not begun back into the queue, and take back that they were about to be."""
        withdrawn = [one for one in self._submitting.values() if one.submission is None or one.submission.cancel()]
        # Where an earlier answer was lost, there may be a job all the same.
        unsubmitted = [entry.row_id for entry in withdrawn if entry.since_s is None]
        if unsubmitted:
            self._note(Journal.refused, *unsubmitted)
        for entry in withdrawn:
            entry.submission = None
            del self._submitting[entry.row_id]
            self._free_place(entry)
            self._waiting.appendleft(entry)

    def _take_answers(self, answers: list[tuple[_Entry, Job | RunError]]) -> None:
        """Write down what the scheduler has answered, and only then go on with it."""
        jobs = [answer for _, answer in answers if isinstance(answer, Job)]
        refused = [entry.row_id for entry, _ in answers if entry.refused]
        if jobs:
            self._note(Journal.submitted, *jobs)
        if refused:
            self._note(Journal.refused, *refused)
        for entry, answer in answers:
            entry.submission = None
            self._submitting.pop(entry.row_id, None)
            self._take_answer(entry, answer)

    def _take_answer(self, entry: _Entry, answer: Job | RunError) -> None:
        if isinstance(answer, Job):
            entry.job = answer
            entry.since_s = entry.away_since_s = None
            entry.status = JobStatus(JobState.PENDING)
            entry.names = None
            self._live[entry.row_id] = entry
            self._back_off_s = BACK_OFF_S
            self.full = ""
            self._window = min(self._window + 1, self._at_once)
            self._is_shared(self._claims.job(answer), entry)
            return
        self._free_place(entry)
        if isinstance(answer, QueueFullError):
            self._wait_for_room(entry, answer)
        elif isinstance(answer, SchedulerAwayError) and self._is_worth_waiting(entry):
            self._waiting.appendleft(entry)
        else:
            self._fail(entry, answer)

    def _wait_for_room(self, entry: _Entry, full: QueueFullError) -> None:
        """Put off all submissions until a job of this session has left the queue, or a minute has passed."""
        self.full = full.fact
        self._waiting.appendleft(entry)
        self._window = 1
        self._submit_due_s = self._clock() + LONGEST_BACK_OFF_S

    def _is_worth_waiting(self, entry: _Entry) -> bool:
        """Put off all submissions while the scheduler is out of reach; false once that took too long."""
        now_s = self._clock()
        if entry.away_since_s is None:
            entry.away_since_s = now_s
        # One that answers questions is there: it holds all the jobs it can, and takes more when some have ended.
        if now_s - max(entry.away_since_s, self._answered_s) >= UNKNOWN_LIMIT_S:
            return False
        if now_s >= self._submit_due_s:  # else another row's failure has done so
            self._submit_due_s = now_s + self._back_off_s
            self._back_off_s = min(2 * self._back_off_s, LONGEST_BACK_OFF_S)
            self._window = 1
        return True

    def _fail(self, entry: _Entry, error: RunError) -> None:
        entry.error = error
        self._over[entry.row_id] = entry

    def _is_shared(self, clash: tuple[Job, RunError] | None, entry: _Entry) -> bool:
        """Give up both rows where another one has the same job or log; one that was handed out keeps its end."""
        if clash is None:
            return False
        other, error = clash
        rival = self._entries[other.spec.row_id]
        self._give_up([entry] if rival is entry or rival.job is not other else [rival, entry], error)
        return True

    def _give_up(self, entries: list[_Entry], error: RunError) -> None:
        """Let rows be over with an error whatever becomes of their jobs, and end those."""
        over = [one for one in entries if one.error is None and (one.run is None or one.row_id in self._over)]
        for entry in over:
            if self._live.pop(entry.row_id, None) is not None:
                self._free_place(entry)
            self._ended.pop(entry.row_id, None)
            self._fail(entry, error)
        try:
            self._cancel(over)
        except JobError:
            return  # they are ended with the session

    # -- waiting ------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Let time pass until there may be news, and ask about all jobs when their turn has come."""
        self._ticker(self)
        now_s = self._clock()
        if self._live and self._watcher is not None and now_s >= self._look_due_s:
            self._look_due_s = now_s + LOG_LOOK_S
            self._look()
        if self._clock() >= self._poll_due_s:
            self._poll()
            return
        due_s = min(self._due_times()) - self._clock()
        if due_s <= 0:
            return
        futures = [entry.submission for entry in self._submitting.values() if entry.submission is not None]
        if futures:
            some = futures[: max(1, len(futures) - self._window // 2)]
            wait_for(some, timeout=min(due_s, _ANSWERS_WAIT_S), return_when=ALL_COMPLETED)
        elif not self._submitting:
            self._sleep(due_s)

    def _due_times(self) -> Iterable[float]:
        """When there may be news, monotonic seconds."""
        yield self._poll_due_s
        if self._live and self._watcher is not None:
            yield self._look_due_s
        if self._waiting and self._submit_due_s > self._clock():
            yield self._submit_due_s
        for entry in self._ended.values():
            yield entry.log_look_s

    def _poll(self) -> None:
        """Ask once about all jobs that have not ended."""
        self._last_poll_s = self._look_due_s = self._clock()  # what runs by now is looked at next
        asked = [(entry, entry.job) for entry in self._live.values() if entry.job is not None]
        if asked:
            answers = self.launcher.poll([job for _, job in asked])
            told = [
                (entry, job, _fit_to_show(job, answers.get(job.spec.row_id, _NO_ANSWER), entry.status, self._environ))
                for entry, job in asked
            ]
            ended = [(job, status) for entry, job, status in told if status is not entry.status and status.state.ended]
            if ended:
                self._note(Journal.ended, *ended)
            for entry, _, status in told:
                self._update(entry, status)
            for entry, job, status in told:
                if status.siblings:
                    self._give_up([entry], not_alone(Run(job.id, status, None)))
            self._give_any_nodes([entry for entry, _, status in told if _waits_for_other_nodes(entry, status)])
            silent = all(status.state is JobState.UNKNOWN for _, _, status in told)
            self._failed_polls = self._failed_polls + 1 if silent else 0
            if not silent:
                self._answered_s = self._clock()
        # Out of reach, it is asked less and less often; a failed question has cost it something too.
        interval_s = self._poll_interval_s * 2.0 ** min(self._failed_polls, 10)
        self._poll_due_s = self._clock() + min(interval_s, max(self._poll_interval_s, LONGEST_BACK_OFF_S))

    def _give_any_nodes(self, entries: list[_Entry]) -> None:
        """Submit jobs anew that wait for other nodes than those before, and will not get them."""
        if not entries:
            return
        try:
            self.launcher.cancel([entry.job for entry in entries if entry.job is not None])
        except JobError:
            return  # they are still there at the next question
        for entry in entries:
            assert entry.job is not None  # else it would not wait
            assert entry.spec is not None
            status = replace(entry.status, state=JobState.CANCELLED)
            attempt = Attempt(entry.job.id, status, "no other node was available", cluster=entry.job.cluster)
            self._note(Journal.ended, (entry.job, status))
            del self._live[entry.row_id]
            self._free_place(entry)
            self._again(entry, attempt, replace(entry.spec.again(), avoided_nodes=()), entry.earlier)

    def _update(self, entry: _Entry, status: JobStatus) -> None:
        if status is entry.status:  # nothing new, as of most jobs at most times
            entry.unknown_since_s = None
            return
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if entry.unknown_since_s is None:
                entry.unknown_since_s = now_s
            if now_s - entry.unknown_since_s < UNKNOWN_LIMIT_S:
                return  # the scheduler is out of reach for a while; the last known state stands
        else:
            entry.unknown_since_s = None
        changed = status.state is not entry.status.state
        entry.status = status
        if changed and entry.job is not None:
            self._observer(entry.row_id, entry.job.id, status)
        if status.state.ended or status.state is JobState.UNKNOWN:
            self._leave_queue(entry)
        elif status.state is JobState.PENDING:
            entry.watch = entry.sight = entry.log = None  # put back into the queue: the next start is another run

    def _leave_queue(self, entry: _Entry) -> None:
        """A job has ended, or was given up: its log is awaited, as long as that makes sense."""
        del self._live[entry.row_id]
        self._free_place(entry)
        if self.full:
            self._submit_due_s = -math.inf  # there is room now
        entry.watch = None
        entry.log_look_s = self._clock()
        entry.log_deadline_s = entry.log_look_s + (self.launcher.log_wait_s if _is_healthy(entry.status) else 0.0)
        self._ended[entry.row_id] = entry

    def _ask_soon(self) -> None:
        """Ask before the next turn, once for all jobs that end about now, and never much more often than the budget."""
        soon_s = max(self._clock() + SETTLE_S, self._last_poll_s + self._poll_interval_s / MOST_POLLS_PER_INTERVAL)
        self._poll_due_s = min(self._poll_due_s, soon_s)

    # -- logs of running jobs -----------------------------------------------------------------

    def _look(self) -> None:
        """See how far running jobs are, by their logs; end those that are not worth going on with."""
        now_s = self._clock()
        stopped = []
        for entry in self._live.values():
            if entry.status.state is not JobState.RUNNING or entry.job is None or entry.stop_sent:
                continue
            finished = entry.sight is not None and entry.sight.finished
            entry.sight = self._sight_of(entry, entry.job, now_s)
            if entry.sight is None:
                continue
            if entry.sight.finished and not finished:
                self._ask_soon()  # its log is the cheaper signal: no need to wait for the next turn
            if entry.sight.stop is not None:
                stopped.append(entry)
        if stopped:
            self._stop(stopped)

    def _sight_of(self, entry: _Entry, job: Job, now_s: float) -> Sight | None:
        """What a running job's log shows; ``None`` where nobody can tell, or where it is known why it stands still."""
        if entry.status.raw_state.upper().partition("+")[0] in _STANDING_STILL:
            entry.watch = None
            return None
        if entry.unwatched or self._watcher is None:
            return None
        try:
            entry.watch = entry.watch or self._watcher(entry.row_id)
            entry.unwatched = entry.watch is None
            return None if entry.watch is None else entry.watch.look(self._running_log(entry, job), now_s)
        except Exception:
            # Of a site's own log format: its fault is this row's alone, and told when that is measured.
            entry.unwatched = True
            return None

    def _running_log(self, entry: _Entry, job: Job) -> Path | None:
        """A running job's log, looked for once after each poll until it is there."""
        if entry.log is None and entry.log_look_s <= self._last_poll_s:
            entry.log_look_s = self._clock()
            try:
                entry.log = self._log_of(job)
            except LogError:
                entry.log = None
        return entry.log

    def _stop(self, entries: list[_Entry]) -> None:
        """End jobs early, with one request; a job that could not be ended is tried again at the next look."""
        jobs = []
        for entry in entries:
            if entry.job is not None and entry.sight is not None and entry.sight.stop is not None:
                # It may have words of the log.
                stop = quoted(entry.sight.stop, self._environ, entry.job.spec.environment)
                if entry.stopped is None:
                    self._note(Journal.stopped, entry.job, stop)
                entry.stopped = stop
                jobs.append(entry.job)
        try:
            self.launcher.cancel(jobs)
        except JobError:
            return
        for entry in entries:
            entry.stop_sent = True
        self._ask_soon()

    # -- logs of ended jobs -------------------------------------------------------------------

    def _find_logs(self) -> None:
        """Hand over what has ended and has its log, or will not get it any more."""
        now_s = self._clock()
        for entry in [entry for entry in self._ended.values() if now_s >= entry.log_look_s]:
            if entry.row_id not in self._ended:
                continue  # given up for another one's sake
            entry.log_look_s = min(now_s + entry.log_pause_s, max(now_s, entry.log_deadline_s))
            entry.log_pause_s = min(2 * entry.log_pause_s, _LONGEST_LOG_LOOK_S)
            assert entry.job is not None  # only a job can end
            log: Path | None = None
            try:
                log = self._log_of(entry.job)
            except LogError as error:
                if _is_healthy(entry.status):
                    if now_s < entry.log_deadline_s:
                        continue
                    entry.error = error  # a shared file system was given its time
            if log is not None and self._is_shared(self._claims.log(entry.job, log), entry):
                continue
            if entry.error is None:
                output = self._batch_output(entry.job)
                if output is not None and self._is_shared(self._claims.output(entry.job, output), entry):
                    continue
                # A stop that an earlier session meant to send explains nothing but a cancelled job.
                sent = entry.stop_sent or entry.status.state is JobState.CANCELLED
                stopped = entry.stopped if sent else None
                entry.run = Run(entry.job.id, entry.status, log, output, stopped, entry.earlier)
                if self._repeats(entry, entry.run):
                    continue
            self._over[entry.row_id] = entry
            del self._ended[entry.row_id]

    def _log_of(self, job: Job) -> Path:
        try:
            log = self.launcher.find_log(job)
        except OSError as error:  # a file system that is away for a moment
            raise LogError(f"the log of job {job.id} cannot be looked for: {error.strerror or error}") from error
        check_new(job, log)
        return log

    def _batch_output(self, job: Job) -> Path | None:
        try:
            return self.launcher.batch_output(job)
        except OSError:
            return None

    def _repeats(self, entry: _Entry, run: Run) -> bool:
        """Put a row back into the queue where the infrastructure failed it, or where one more job of it is wanted."""
        attempt = self._attempt(entry, run)
        if attempt is None or entry.spec is None or entry.job is None:
            return False
        attempt = replace(attempt, cluster=entry.job.cluster)
        del self._ended[entry.row_id]
        self._again(entry, attempt, attempt.after(entry.spec), run.jobs if attempt.measured else entry.earlier)
        return True

    def _again(self, entry: _Entry, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row back at the head of the queue, after an attempt that is not its last."""
        self._note(Journal.repeated, entry.row_id, attempt)
        self._on_repeat(entry.row_id, attempt)
        again = _Entry(entry.row_id, spec=spec, attempts=(*entry.attempts, attempt), earlier=earlier)
        self._entries[entry.row_id] = again
        self._waiting.appendleft(again)

    def _attempt(self, entry: _Entry, run: Run) -> Attempt | None:
        """What a job was that is not its row's last; ``None`` where it is the last."""
        failure = infrastructure_failure(run) if len(self.attempts(entry.row_id)) < self._retries else None
        if failure is not None:
            return Attempt(run.job_id, run.status, failure.why, failure.nodes)
        again = None
        if _is_healthy(run.status):
            try:
                again = self._once_more(entry.row_id, run)
            except Exception:  # of a site's own rule: told when the row is judged
                return None
        return None if again is None else Attempt(run.job_id, run.status, again.why, again.avoiding, measured=True)


def _answer_of(submission: Future[Job]) -> Job | RunError:
    """What a submission came to; waits for it if need be."""
    error = submission.exception()
    if error is None:
        return submission.result()
    # One row's fault must not keep the others' jobs from being looked after.
    return error if isinstance(error, RunError) else SubmissionError(f"{type(error).__name__}: {error}")


def _waits_for_other_nodes(entry: _Entry, status: JobStatus) -> bool:
    """Whether a job is to avoid nodes and cannot: the others are down, drained or reserved."""
    avoiding = entry.spec is not None and entry.spec.avoided_nodes
    return bool(avoiding) and status.state is JobState.PENDING and status.reason.startswith(_NOT_THERE)


def _fit_to_show(job: Job, status: JobStatus, known: JobStatus, environ: Mapping[str, str]) -> JobStatus:
    """The scheduler's own words go to the screen, the journal and the record; what is no news is what was known."""
    return known if status == known else quoted(status, environ, job.spec.environment)


def _is_healthy(status: JobStatus) -> bool:
    """Whether a log must be there: the job ended well, or there was none to end."""
    return status.state in {JobState.COMPLETED, JobState.REPLAYED} and not status.exit_code


def _with_logs_before(job: Job, names: frozenset[str] | None) -> Job:
    """A job with what had the name of its log before it was submitted."""
    return job if names is None else replace(job, logs_before=logs_before(job.spec, job.id, names))
