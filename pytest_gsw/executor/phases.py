"""The phases of rows, the resources they use, and the owner of each job and log."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from pytest_gsw.common.text import enumerated, plural
from pytest_gsw.errors import JobError, LogError, RunError, SchedulerUnreachableError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.journal import JournalWriter, by_row
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import NO_OTHER_NODE, Attempt, EarlyStop, FoundJob, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.run import Run

# -- The phases of one row, and the callbacks of the executor ---------------------------------------


#: First interval between two searches for an ended job's log; each is twice the one before.
FIRST_LOG_LOOK_S = 0.1

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]

#: Called with the row's id and the attempt that is not its last.
RepeatObserver = Callable[[str, Attempt], None]

#: Called with a running job, its status, and its progress, ``None`` if unknown; may return a reason to end it.
LookObserver = Callable[[Job, JobStatus, Sample | None], EarlyStop | None]

#: Makes the watch of a row's job; ``None`` if its log cannot be read.
Watcher = Callable[[str], Watch | None]


#: Decides by a row's id and its jobs so far, the last of which may have failed, if the row needs one more.
Decide = Callable[[str, Run], Repeat | Undecided | Done]

#: Measures a row's job that ended well by its files as they are now; returns its error, ``None`` for none.
Check = Callable[[str, Run], RunError | None]


@dataclass(frozen=True)
class RowJobs:
    """A row with its current or next job, and its jobs before that."""

    row_id: str
    spec: JobSpec
    #: The row's jobs before this one, and the runs of those that are measured.
    attempts: tuple[Attempt, ...] = ()
    earlier: tuple[Run, ...] = ()

    @property
    def numbered(self) -> list[tuple[JobSpec, Attempt]]:
        """The row's jobs before this one, each with its number."""
        return [(replace(self.spec, attempt=number), past) for number, past in enumerate(self.attempts, start=1)]

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The row's jobs before this one that were not measured."""
        return tuple(attempt for attempt in self.attempts if not attempt.measured)

    @property
    def retried(self) -> int:
        """Number of infrastructure failures; a job that was cancelled or failed at once costs the row no retry."""
        return sum(attempt.costs_retry for attempt in self.failures)

    def without(self, nodes: Sequence[str]) -> RowJobs:
        """The row with a next job that avoids these nodes if possible; itself on a tile, and if it was not possible."""
        if self.spec.node_list or any(attempt.why == NO_OTHER_NODE for attempt in self.attempts[-1:]):
            return self
        avoided = tuple(dict.fromkeys((*self.spec.avoided_nodes, *nodes)))
        return replace(self, spec=replace(self.spec, avoided_nodes=avoided))


@dataclass
class SubmittedJob:
    """A submitted job and its last known status."""

    job: Job
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    sample: Sample | None = None
    #: The error of a submission whose answer was lost; ``None`` if it was answered.
    away: SchedulerUnreachableError | None = None
    #: The reason for an early stop; ``stop_sent`` is true once this session has sent it to the launcher.
    stopped: EarlyStop | None = None
    stop_sent: bool = False
    #: This session has cancelled it.
    cancelled: bool = False
    #: An earlier session of the run recorded that it would cancel this job at its end.
    cancelled_before: bool = False

    @property
    def may_run(self) -> bool:
        """True if it may still run, even if it was given up and its state is unknown."""
        return not self.status.state.ended and not self.cancelled


@dataclass
class Queued:
    """A row before or during its submission; the submitting thread may change it."""

    row: RowJobs
    #: Time of the first submission without an answer, which may have left a job: seconds since the epoch.
    since_s: float | None = None
    #: Why it waits: the scheduler was unreachable, and may have its job.
    away: SchedulerUnreachableError | None = None
    #: Time since which the scheduler is unreachable for its submission; monotonic seconds.
    away_since_s: float | None = None
    #: Files with the name of a log of the row before its first submission; ``None`` if not checked.
    names: frozenset[str] | None = None
    #: Its submission: the time (seconds since the epoch), true if it certainly left no job, and its answer.
    tried_s: float = 0.0
    refused: bool = False
    answer: Future[Job] | None = None
    #: It has no job yet.
    submitted: ClassVar[None] = None


@dataclass
class Active:
    """A row whose job is pending or runs."""

    row: RowJobs
    submitted: SubmittedJob
    #: Time since which the job's state is unknown; monotonic seconds.
    unknown_since_s: float | None = None
    watch: Watch | None = None
    #: True if its log cannot be watched.
    unwatched: bool = False
    #: The job's log once it was found, and the time of the last search; monotonic seconds.
    log: Path | None = None
    looked_s: float = 0.0
    #: Start of its wait in the queue; ``None`` until the first poll of an earlier session's job. Monotonic seconds.
    queued_s: float | None = None
    #: Time since which polls return a reason that does not end by itself; monotonic seconds.
    stuck_s: float | None = None
    #: Its submission was answered.
    since_s: ClassVar[None] = None

    @property
    def job(self) -> Job:
        """Its job."""
        return self.submitted.job

    @property
    def status(self) -> JobStatus:
        """The last known status of its job."""
        return self.submitted.status


@dataclass
class AwaitingLog:
    """A row whose job has ended or was given up, before its log is found."""

    row: RowJobs
    submitted: SubmittedJob
    #: Latest time for the log to appear, time of the next search, and the interval after that.
    deadline_s: float
    look_s: float
    pause_s: float = FIRST_LOG_LOOK_S
    #: The sizes of the job's files at the last look; ``None`` before the first one.
    sizes: Mapping[str, int] | None = None
    #: True if its log lacked something then.
    is_incomplete: bool = False
    #: Its run, or the error of its log, while it waits for other rows only: its log is not looked for again.
    run: Run | LogError | None = None
    #: The value of :attr:`RowTable.news` at its last decision, and the time of that; monotonic seconds.
    asked: tuple[int, float] = (-1, -math.inf)
    #: Its job failed at once: other rows may show until then that its node is the cause; monotonic seconds.
    held_until_s: float = -math.inf
    #: Its submission was answered.
    since_s: ClassVar[None] = None


@dataclass
class Finished:
    """A row that can be measured, or has failed."""

    row_id: str
    end: Run | RunError
    #: ``None`` if the row cannot be submitted at all.
    row: RowJobs | None = None
    #: ``None`` if no job is known.
    submitted: SubmittedJob | None = None
    #: Time of a submission without an answer, which may have left a job: seconds since the epoch.
    since_s: float | None = None


#: The phase of a row.
Phase = Queued | Active | AwaitingLog | Finished


# -- One row, one job, one log ----------------------------------------------------------------------
#
# A controller that lost its state assigns ids again. Two rows with the same id would share its status, its log and
# its cancellation, and the user could not distinguish them.


@dataclass
class UniqueJobs:
    """The job that each id and each log belongs to, in one session."""

    #: Jobs by their ids, as the rows' submissions returned them.
    jobs: dict[str, Job] = field(default_factory=dict)
    _logs: dict[str, Job] = field(default_factory=dict)

    def job(self, job: Job) -> tuple[Job, RunError] | None:
        """Claim a job's id for its row.

        Returns:
            The job that has the id already, and the error of both rows; ``None`` if the id is new.
        """
        other = _claim(self.jobs, job.id, job)
        if other is None:
            return None
        return other, JobError(
            f"the scheduler gave the id {job.id} twice, to {_both_rows(other, job)}",
            (("job", job.id), *_job_names(other, job)),
            advice=f"it has lost its state, as in a restart; once job {job.id} is gone, run again: {_ids(other, job)}",
        )

    def log(self, job: Job, log: Path) -> tuple[Job, RunError] | None:
        """Claim a log for its row.

        Returns:
            The job that has the log already, and the error of both rows; ``None`` if the log is new.
        """
        other = _claim(self._logs, os.path.realpath(log), job)
        if other is None:
            return None
        return other, LogError(
            f"one log is that of two jobs, of {_both_rows(other, job)}",
            (("log", str(log)), ("jobs", f"{other.id}, {job.id}"), *_job_names(other, job)),
            advice=f"a log's name has its job's id; correct the recipe, and run again: {_ids(other, job)}",
        )


def _claim(claims: dict[str, Job], key: str, job: Job) -> Job | None:
    """Claim a key for a job; return the other job that has it already, if any."""
    other = claims.setdefault(key, job)
    is_same = (other.id, other.spec.row_id, other.spec.attempt) == (job.id, job.spec.row_id, job.spec.attempt)
    return None if is_same or not job.submitted_s else other


def _both_rows(one: Job, other: Job) -> str:
    if one.spec.row_id == other.spec.row_id:
        return f"two jobs of {one.spec.row_id}"
    return f"{one.spec.row_id} and {other.spec.row_id}"


def _job_names(one: Job, other: Job) -> tuple[tuple[str, str], ...]:
    return tuple(("job name", job.name) for job in (one, other))


def _ids(one: Job, other: Job) -> str:
    return " ".join(dict.fromkeys((one.spec.row_id, other.spec.row_id)))


#: The scheduler's jobs by the row in their name; or the error that prevented the count.
Count = Mapping[str, Sequence[FoundJob]] | RunError


class RowTable:
    """All rows, and the rows by their phase.

    Args:
        launcher: Cancels jobs.
        limits: Most jobs and GPUs at once, and most pending jobs.
    """

    def __init__(self, launcher: Launcher, limits: Limits) -> None:
        self.phases: dict[str, Phase] = {}
        #: True once nothing more is submitted: rows may have had fewer jobs than they need.
        self.is_interrupted = False
        self.queued: deque[Queued] = deque()
        #: Rows that a thread submits.
        self.submitting: dict[str, Queued] = {}
        self.active: dict[str, Active] = {}
        self.awaiting_log: dict[str, AwaitingLog] = {}
        #: Time at which a poll last found that a job of the session has started; monotonic seconds.
        self.ran_s = -math.inf
        #: Finished rows that were not returned yet.
        self.finished: dict[str, Finished] = {}
        #: Number of events that waiting rows may depend on: a log was found, or a row finished.
        self.news = 0
        #: Number of claimed jobs at the last count of the run's jobs; -1 after a failed one.
        self._counted = 0
        #: True if the last count was made after the ends of all jobs of the run.
        self.is_counted = False
        self._since_s = launcher.now_s()
        #: The spec of the newest job of each row that may have one, in this session or in an earlier one.
        self.started: dict[str, JobSpec] = {}
        #: Jobs of the run that no row owns, and the errors of rows that were returned before these were found.
        self.strays: dict[str, SubmittedJob] = {}
        self.late: dict[str, RunError] = {}
        self.limits = limits
        self.claims = UniqueJobs()
        #: Nodes that no job of the session is to get.
        self.left_out: tuple[str, ...] = ()
        self._launcher = launcher
        #: Resources of rows that are being submitted or active.
        self._taken_jobs = 0
        self._taken_gpus = 0

    def row(self, row_id: str) -> RowJobs | None:
        """A row's jobs; ``None`` if it is unknown or cannot be submitted at all."""
        phase = self.phases.get(row_id)
        return None if phase is None else phase.row

    def submitted(self, row_id: str) -> SubmittedJob | None:
        """A row's job; ``None`` if it has no known one."""
        phase = self.phases.get(row_id)
        return None if phase is None else phase.submitted

    # -- resources ----------------------------------------------------------------------------

    def fits(self, row: RowJobs) -> bool:
        """True if the limits allow this row in addition to those submitted."""
        limits = self.limits
        if self._taken_jobs + 1 > limits.jobs or self._taken_gpus + row.spec.gpus > limits.gpus:
            return False
        if limits.pending == math.inf:
            return True
        pending = sum(active.status.state is JobState.PENDING for active in self.active.values())
        return pending + len(self.submitting) + 1 <= limits.pending

    def take_place(self, row: RowJobs) -> None:
        """Count the resources of a row that is submitted."""
        self.started[row.row_id] = row.spec
        self.is_counted = False
        self._taken_jobs += 1
        self._taken_gpus += row.spec.gpus

    def free_place(self, row: RowJobs) -> None:
        """Release the resources of a row."""
        self._taken_jobs -= 1
        self._taken_gpus -= row.spec.gpus

    # -- changes of phase ---------------------------------------------------------------------

    def queue(self, row: Queued, *, first: bool) -> None:
        """Queue a row for submission, before all others or after them."""
        self.phases[row.row.row_id] = row
        if first:
            self.queued.appendleft(row)
        else:
            self.queued.append(row)

    def begin(self) -> Queued:
        """Move the first queued row to those being submitted."""
        queued = self.queued.popleft()
        queued.refused, queued.answer = False, None
        if self.left_out:
            queued.row = queued.row.without(self.left_out)
        self.submitting[queued.row.row_id] = queued
        self.take_place(queued.row)
        return queued

    def activate(self, row: RowJobs, submitted: SubmittedJob) -> Active:
        """Note the job of a row that has its place."""
        active = self.phases[row.row_id] = self.active[row.row_id] = Active(row, submitted)
        return active

    def leave_queue(self, active: Active) -> None:
        """Release the place of a row whose job has ended."""
        del self.active[active.row.row_id]
        self.free_place(active.row)

    def finish(self, finished: Finished) -> None:
        """Note that a row is finished."""
        self.phases[finished.row_id] = self.finished[finished.row_id] = finished
        self.news += 1

    # -- owners of the run's jobs -------------------------------------------------------------

    def to_count(self) -> list[JobSpec]:
        """The rows whose jobs are to be counted from now on.

        Names that other sessions' jobs have as well prove nothing. A launch script that has yet to answer may have
        submitted only some of its jobs by now.
        """
        started = [spec for spec in list(self.started.values()) if spec.unique_name]
        return [spec for spec in started if not self._is_submitted(spec.row_id)]

    def count(self, has_reason: bool) -> Count:
        """List the scheduler's jobs by name, in any thread: after new submissions, or for a reason.

        A launcher that cannot list by name returns nothing.
        """
        claimed, specs = len(self.claims.jobs), self.to_count()
        if not specs or (claimed == self._counted and not has_reason):
            return {}
        self._counted = claimed
        try:
            return by_row(specs, self._launcher.named(specs, self._since_s) or ())
        except RunError as error:
            self._counted = -1  # the next call counts again
            return error

    def count_last(self) -> Count:
        """Count the jobs as the session ends, unless the last poll has shown that all have ended, and hold them."""
        count = {} if self.is_counted else self.count(has_reason=True)
        self.is_counted = not isinstance(count, RunError)
        self.hold(count)
        return count

    def have_ended(self) -> bool:
        """True if each row that was to be submitted has a job, and all jobs of the run are known to have ended."""
        return all(
            job and job.status.state.ended for job in (*map(self.submitted, self.started), *self.strays.values())
        )

    def _is_submitted(self, row_id: str) -> bool:
        """True if a row is being submitted and there is no answer yet."""
        return row_id in self.submitting and isinstance(self.phases[row_id], Queued)

    def hold(self, count: Count) -> None:
        """Compare the scheduler's jobs with the rows' own; a row with a job that no submission returned is an error."""
        for row_id, jobs in {} if isinstance(count, RunError) else count.items():
            phase, spec = self.phases[row_id], self.started[row_id]
            new = [job for job in jobs if job.id not in self.claims.jobs and job.id not in self.strays]
            # A submission whose answer is awaited may own one of them; they are counted again after it.
            if not new or self._is_submitted(row_id) or phase.since_s is not None:
                continue
            strays = [SubmittedJob(Job(job.id, spec, 0.0, other_name=job.name), job.status) for job in new]
            self.strays |= {stray.job.id: stray for stray in strays}
            error = _stray_error(strays)
            self.give_up([row_id], error, strays)
            if not isinstance(getattr(self.phases[row_id], "end", None), RunError):
                self.late[row_id] = error

    # -- rows that are given up ---------------------------------------------------------------

    def is_shared(self, clash: tuple[Job, RunError] | None, row_id: str) -> bool:
        """Give up both rows if they share a job or log; a row that was returned before keeps its result."""
        if clash is None:
            return False
        other, error = clash
        rival = self.phases[other.spec.row_id].submitted
        is_other = other.spec.row_id != row_id and rival is not None and rival.job is other
        self.give_up([other.spec.row_id, row_id] if is_other else [row_id], error)
        return True

    def give_up(self, row_ids: list[str], error: RunError, others: Sequence[SubmittedJob] = ()) -> None:
        """Finish rows with an error whatever the end of their jobs, and cancel these jobs and the others."""
        given_up = [finished for row_id in row_ids if (finished := self._give_up(row_id, error)) is not None]
        jobs = [*others, *(finished.submitted for finished in given_up if finished.submitted is not None)]
        try:
            self.cancel([job for job in jobs if job.may_run])
        except JobError:
            return  # they are cancelled at the session's end

    def _give_up(self, row_id: str, error: RunError) -> Finished | None:
        """Finish a row with an error; ``None`` if it has one already, or was returned before."""
        phase = self.phases[row_id]
        if isinstance(phase, Finished) and (isinstance(phase.end, RunError) or row_id not in self.finished):
            return None
        if self.active.pop(row_id, None) is not None and phase.row is not None:
            self.free_place(phase.row)
        self.awaiting_log.pop(row_id, None)
        if isinstance(phase, Queued) and row_id not in self.submitting:
            self.queued.remove(phase)
        finished = Finished(row_id, error, phase.row, phase.submitted, phase.since_s)
        self.finish(finished)
        return finished

    def interrupt(self, error: Callable[[Phase], RunError]) -> None:
        """Finish all rows whose job has not ended, each with its error."""
        for row_id, phase in self.phases.items():
            if isinstance(phase, AwaitingLog):
                self.awaiting_log[row_id] = phase  # Ctrl-C may have hit while it was being finished or repeated
            elif not isinstance(phase, Finished):
                self.phases[row_id] = Finished(row_id, error(phase), phase.row, phase.submitted, phase.since_s)
        self.queued.clear()
        self.active.clear()
        self.news += 1

    def cancel(self, jobs: list[SubmittedJob]) -> None:
        """Cancel jobs with one request; if it fails, they remain until the session's end.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._launcher.cancel([submitted.job for submitted in jobs])
        for submitted in jobs:
            submitted.cancelled = True

    def running(self) -> list[SubmittedJob]:
        """Jobs that may still run; pending ones first, since they would start on the nodes that others free."""
        of_rows = (phase.submitted for phase in self.phases.values())
        jobs = (job for job in (*of_rows, *self.strays.values()) if job is not None and job.may_run)
        return sorted(jobs, key=lambda job: job.status.state is not JobState.PENDING)


@dataclass(eq=False, repr=False)
class ExecutorPart:
    """The shared state of the parts of an executor."""

    rows: RowTable
    launcher: Launcher
    journal: JournalWriter
    #: Monotonic seconds.
    clock: Callable[[], float]


def stray_text(stray: SubmittedJob) -> str:
    """A job that no row owns, in one line: ``12 gsw-a FAILED on n001``."""
    state = "cancelled" if stray.cancelled else stray.status.state.value
    return f"{stray.job.id} {stray.job.name} {state}{stray.status.nodes and f' on {stray.status.nodes}'}"


def _stray_error(strays: Sequence[SubmittedJob]) -> JobError:
    ids = enumerated([stray.job.id for stray in strays])
    return JobError(
        f"the row has {plural(len(strays), 'job')} that no submission of it named: {ids}",
        tuple(("no row's", stray_text(stray)) for stray in strays),
        advice="let the recipe submit one job for a row, and name it; then run the row again",
    )
