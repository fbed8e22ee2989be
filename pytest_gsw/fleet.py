"""All selected rows at once: submit them, poll all their jobs with one question, hand over what has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.errors import JobError, LogError, RunError, SubmissionError
from pytest_gsw.examine import Run
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher

#: How long a job may stay unknown before its row is given up: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0

#: How often what is not asked of the scheduler is looked at: answers of submissions, logs that are to appear.
_LOOK_S = 0.1

#: Called each time before the session waits.
Ticker = Callable[["Fleet"], None]

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]


#: By how much the clock of a file server may differ from this machine's.
CLOCK_SKEW_S = 300.0


@dataclass(frozen=True)
class Limits:
    """How much of the cluster a session may take at once; infinity is no limit."""

    jobs: float = math.inf
    gpus: float = math.inf


@dataclass
class _Entry:
    """One row as the fleet sees it: waiting, being submitted, a job, or over."""

    spec: JobSpec | None = None
    submission: Future[Job] | None = None
    job: Job | None = None
    error: RunError | None = None
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    #: Since when nothing is known of the job, and until when its log may appear; monotonic seconds.
    unknown_since_s: float | None = None
    log_deadline_s: float | None = None
    #: The ended job with its log, once that is there.
    run: Run | None = None
    given_up: bool = False
    #: The launcher was told to end it.
    cancelled: bool = False

    @property
    def taken(self) -> bool:
        """Whether it counts against the limits."""
        return (self.submission is not None or self.job is not None) and not self.ended

    @property
    def ended(self) -> bool:
        return self.error is not None or self.status.state.ended or self.given_up


class Fleet:
    """The session's jobs.

    Args:
        launcher: How jobs are started and asked about.
        poll_interval_s: Seconds between two questions to the launcher.
        observer: Told of every change of a job's state.
        ticker: Told each time before the session waits.
        journal: Told of every submission, before and after it; a replay, which submits nothing, needs none.
        limits: How many jobs and GPUs may be taken at once.
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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = launcher
        self._poll_interval_s = poll_interval_s
        self._observer = observer
        self._journal = journal
        self._limits = limits or Limits()
        self._ticker = ticker
        self._clock = clock
        self._sleep = sleep
        self._entries: dict[str, _Entry] = {}
        self._last_poll_s = -math.inf
        threads = launcher.parallel_submissions
        self._threads = ThreadPoolExecutor(threads, "gsw-submit") if threads > 1 else None

    def submit(self, specs: Mapping[str, JobSpec | RunError]) -> None:
        """Take over these rows, to be submitted in this order as far as the limits allow.

        A row that cannot be submitted keeps its error for :meth:`take`.
        """
        for row_id, spec in specs.items():
            entry = self._entries.setdefault(row_id, _Entry())
            if isinstance(spec, RunError):
                entry.error = spec
            elif spec.gpus > self._limits.gpus:
                entry.error = SubmissionError(
                    f"the row needs {spec.gpus} GPUs, and no more than {self._limits.gpus:g} may be taken",
                    advice="raise --gsw-max-gpus, or leave the row out",
                )
            else:
                entry.spec = spec
        self._pump()

    def attach(self, job: Job, ended: JobStatus | None = None) -> None:
        """Take over a job that an earlier session has submitted, and how it ended if that is known."""
        self._entries[job.spec.row_id] = _Entry(spec=job.spec, job=job, status=ended or JobStatus(JobState.PENDING))

    def next_over(self, row_ids: Collection[str]) -> str:
        """Wait until one of these rows can be measured or has failed, and name it."""
        while True:
            self._pump()
            for row_id in row_ids:
                if self._is_over(self._entries[row_id]):
                    return row_id
            self._wait()

    def take(self, row_id: str) -> Run:
        """The ended job of this row with its log; waits for it if need be.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        self.next_over((row_id,))
        entry = self._entries[row_id]
        if entry.error is not None:
            raise entry.error
        assert entry.run is not None  # what is over has a run or an error
        return entry.run

    def knows(self, row_id: str) -> bool:
        """Whether this row was handed over for submission."""
        return row_id in self._entries

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job, if it was submitted."""
        entry = self._entries.get(row_id)
        return entry.job.id if entry and entry.job else None

    def status(self, row_id: str) -> JobStatus | None:
        """What was last known of this row's job."""
        entry = self._entries.get(row_id)
        return entry.status if entry and entry.job else None

    def statuses(self) -> dict[str, JobStatus | None]:
        """What was last known of every row's job; ``None`` where there is no job yet."""
        return {row_id: self.status(row_id) for row_id in self._entries}

    def interrupt(self, detach: bool) -> int:
        """End the session's wait: what has not ended is an error that says so, and is cancelled unless detached.

        Returns:
            How many jobs were cancelled, or left to run.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._collect(wait=True)
        running = self._running()
        jobs = [entry.job for entry in running if entry.job is not None]
        how = "left running" if detach else "cancelled"
        for entry in self._entries.values():
            if not entry.ended:
                fate = f"job {entry.job.id} was {how}" if entry.job else "it was never submitted"
                entry.error = JobError(f"interrupted: {fate}", advice="pytest --gsw-resume" if detach else "")
        if jobs and not detach:
            self.launcher.cancel(jobs)
            for entry in running:
                entry.cancelled = True
        return len(jobs)

    def close(self, detach: bool = False) -> int:
        """Cancel whatever still runs, with one request, unless detached, and let go of the launcher.

        Returns:
            How many jobs were cancelled.
        """
        self._collect(wait=True)
        running = [entry.job for entry in self._running() if entry.job is not None and not detach]
        try:
            if running:
                self.launcher.cancel(running)
        finally:
            if self._threads is not None:
                self._threads.shutdown()
            self.launcher.close()
            if self._journal is not None:
                self._journal.close()
        return len(running)

    def _running(self) -> list[_Entry]:
        """Rows whose job may still run: also those that were given up, of which nothing is known."""
        return [
            entry
            for entry in self._entries.values()
            if entry.job is not None and not entry.status.state.ended and not entry.cancelled
        ]

    # -- submission ---------------------------------------------------------------------------

    def _pump(self) -> None:
        """Submit what waits, in order, as far as the limits allow; nothing overtakes a row that does not fit."""
        self._collect()
        taken = [entry.spec.gpus for entry in self._entries.values() if entry.spec is not None and entry.taken]
        jobs, gpus = len(taken), sum(taken)
        for entry in self._entries.values():
            if entry.spec is None or entry.submission is not None or entry.job is not None or entry.error is not None:
                continue
            if jobs + 1 > self._limits.jobs or gpus + entry.spec.gpus > self._limits.gpus:
                return
            jobs, gpus = jobs + 1, gpus + entry.spec.gpus
            if self._threads is not None:
                entry.submission = self._threads.submit(self._submit, entry.spec)
            else:
                self._take_answer(entry, self._answer(entry.spec))

    def _submit(self, spec: JobSpec) -> Job:
        if self._journal is None:
            return self.launcher.submit(spec)
        self._journal.intent(spec, time.time())
        try:
            job = self.launcher.submit(spec)
        except RunError:
            self._journal.refused(spec.row_id)
            raise
        self._journal.submitted(job)
        return job

    def _answer(self, spec: JobSpec) -> Job | RunError:
        try:
            return self._submit(spec)
        except RunError as error:
            return error

    def _collect(self, wait: bool = False) -> None:
        """Take the answers of submissions that other threads have got; waiting, also drop those not begun."""
        for entry in self._entries.values():
            submission = entry.submission
            if submission is None or (wait and submission.cancel()):
                continue
            if wait or submission.done():
                entry.submission = None
                error = submission.exception()
                if error is None:
                    self._take_answer(entry, submission.result())
                elif isinstance(error, RunError):
                    self._take_answer(entry, error)
                else:
                    raise error

    def _take_answer(self, entry: _Entry, answer: Job | RunError) -> None:
        if isinstance(answer, Job):
            entry.job = answer
        else:
            entry.error = answer

    # -- waiting ------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Let time pass until there may be news, and ask about all jobs when their turn has come."""
        self._ticker(self)
        now_s = self._clock()
        looking = any(
            entry.submission is not None or (entry.log_deadline_s is not None and entry.run is None)
            for entry in self._entries.values()
        )
        due_s = self._last_poll_s + self._poll_interval_s - now_s
        if due_s > 0:
            self._sleep(min(due_s, _LOOK_S) if looking else due_s)
        if self._clock() - self._last_poll_s >= self._poll_interval_s:
            self._poll()

    def _poll(self) -> None:
        """Ask once about all jobs that have not ended."""
        self._last_poll_s = self._clock()
        asked = {
            entry.job.id: (row_id, entry)
            for row_id, entry in self._entries.items()
            if entry.job is not None and not entry.ended
        }
        if not asked:
            return
        answers = self.launcher.poll([entry.job for _, entry in asked.values() if entry.job is not None])
        for job_id, (row_id, entry) in asked.items():
            self._update(row_id, entry, answers.get(job_id, JobStatus(JobState.UNKNOWN, reason="no answer")))

    def _update(self, row_id: str, entry: _Entry, status: JobStatus) -> None:
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if entry.unknown_since_s is None:
                entry.unknown_since_s = now_s
            if now_s - entry.unknown_since_s < UNKNOWN_LIMIT_S:
                return  # the scheduler is out of reach for a while; the last known state stands
            entry.given_up = True
        else:
            entry.unknown_since_s = None
        changed = status.state is not entry.status.state
        entry.status = status
        if entry.job is not None:
            if status.state.ended and self._journal is not None:
                self._journal.ended(entry.job, status)
            if changed:
                self._observer(row_id, entry.job.id, status)

    def _is_over(self, entry: _Entry) -> bool:
        """Whether this row can be handed over: it failed, or its job ended and its log is there or overdue."""
        if entry.error is not None or entry.run is not None:
            return True
        if entry.job is None or not entry.ended:
            return False
        healthy = entry.status.state in {JobState.COMPLETED, JobState.REPLAYED} and not entry.status.exit_code
        if entry.log_deadline_s is None:
            entry.log_deadline_s = self._clock() + (self.launcher.log_wait_s if healthy else 0.0)
        batch_output = self.launcher.batch_output(entry.job)
        try:
            log = self.launcher.find_log(entry.job)
            if entry.status.state is not JobState.REPLAYED:
                _check_age(log, entry.job)
        except LogError as error:
            if not healthy:
                entry.run = Run(entry.job.id, entry.status, None, batch_output)
            elif self._clock() >= entry.log_deadline_s:
                entry.error = error  # a shared file system was given its time
        else:
            entry.run = Run(entry.job.id, entry.status, log, batch_output)
        return entry.error is not None or entry.run is not None


def _check_age(log: Path, job: Job) -> None:
    """Make sure that a log was written since its job was submitted: job ids start again after a reinstallation.

    Raises:
        LogError: It was last written before.
    """
    try:
        written_s = log.stat().st_mtime
    except OSError:
        return  # gone again: whoever reads it will say so
    if written_s < job.submitted_s - CLOCK_SKEW_S:
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(written_s))
        submitted = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.submitted_s))
        raise LogError(
            f"no log of job {job.id} but an older one: it was last written at {written}",
            (("log", str(log)), ("job", f"{job.id}, submitted at {submitted}")),
            advice="an earlier job had the same id; move its results away, and run the row again",
        )
