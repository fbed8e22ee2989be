"""Where each row is on its way, what the rows take of the cluster, and whose each job and log is."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.common.text import enumerated, plural
from pytest_gsw.errors import JobError, LogError, RunError, SchedulerUnreachableError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.journal import by_row
from pytest_gsw.jobs.model import Attempt, EarlyStop, FoundJob, Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.run import Run

# -- One row on its way through the executor, where each phase is a type, and what is told of it or asked about it


#: How long after its first look an ended job's log is looked for again; each wait is twice the one before.
FIRST_LOG_LOOK_S = 0.1

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]

#: Called with the row's id and the attempt that is not its last.
RepeatObserver = Callable[[str, Attempt], None]

#: Makes the watch of a row's job, or ``None`` where nobody can read its log.
Watcher = Callable[[str], Watch | None]


#: Decides by a row's id and its jobs so far, of which the last ended well, whether it has one more.
Decide = Callable[[str, Run], Repeat | Undecided | Done]


@dataclass(frozen=True)
class RowJobs:
    """A row with the job that it is to have next or has, and those that it had before."""

    row_id: str
    spec: JobSpec
    #: The row's jobs before this one, and those of them that are measured as well.
    attempts: tuple[Attempt, ...] = ()
    earlier: tuple[Run, ...] = ()

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The row's jobs before this one that were not measured."""
        return tuple(one for one in self.attempts if not one.measured)

    @property
    def retried(self) -> int:
        """How many of them the infrastructure failed: one that was cancelled costs the row no retry."""
        return sum(one.status.state is not JobState.CANCELLED for one in self.failures)


@dataclass
class SubmittedJob:
    """A submitted job, and what was last known of it."""

    job: Job
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    sample: Sample | None = None
    #: What became of its submission; ``None`` where that had an answer.
    away: SchedulerUnreachableError | None = None
    #: Why the job is to be ended early, and whether the launcher has been told by this session.
    stopped: EarlyStop | None = None
    stop_sent: bool = False
    #: The launcher was told to end it.
    cancelled: bool = False
    #: An earlier session of the run meant to cancel it because it ended itself.
    cancelled_before: bool = False

    @property
    def may_run(self) -> bool:
        """Whether it may still run: also where it was given up, and nothing is known of it."""
        return not self.status.state.ended and not self.cancelled


@dataclass
class Queued:
    """A row that is to be submitted, or is being submitted by a thread, which may change it."""

    row: RowJobs
    #: When it was submitted first without an answer, so that there may be a job: seconds since the epoch.
    since_s: float | None = None
    #: Why it waits: the scheduler was out of reach, and may have its job.
    away: SchedulerUnreachableError | None = None
    #: Since when the scheduler has been out of reach for its submission; monotonic seconds.
    away_since_s: float | None = None
    #: What was named like a log of the row before it was first submitted; ``None`` where nobody looked.
    names: frozenset[str] | None = None
    #: Of its submission: when that was tried (seconds since the epoch), that it left no job, and its answer.
    tried_s: float = 0.0
    refused: bool = False
    answer: Future[Job] | None = None


@dataclass
class Active:
    """A row whose job is in the queue or runs."""

    row: RowJobs
    seen: SubmittedJob
    #: Since when nothing is known of the job; monotonic seconds.
    unknown_since_s: float | None = None
    watch: Watch | None = None
    #: Nobody can watch it.
    unwatched: bool = False
    #: The job's log, once it was found, and when it was looked for last; monotonic seconds.
    log: Path | None = None
    looked_s: float = 0.0


@dataclass
class AwaitingLog:
    """A row whose job has ended, or was given up, and whose log is awaited."""

    row: RowJobs
    seen: SubmittedJob
    #: Until when the log may appear, when it is looked for next, and how long after that.
    deadline_s: float
    look_s: float
    pause_s: float = FIRST_LOG_LOOK_S
    #: Its run, once only other rows are waited for: its log is not looked for again.
    run: Run | None = None
    #: How much had happened to other rows when it was asked last whether it still waits, and when; monotonic seconds.
    asked: tuple[int, float] = (-1, -math.inf)


@dataclass
class Finished:
    """A row that can be measured, or has failed."""

    row_id: str
    end: Run | RunError
    #: ``None`` where the row cannot be submitted at all.
    row: RowJobs | None = None
    #: ``None`` where there is no job that is known.
    seen: SubmittedJob | None = None
    #: When it was submitted without an answer, so that there may be a job: seconds since the epoch.
    since_s: float | None = None


#: Where a row is on its way.
Phase = Queued | Active | AwaitingLog | Finished


def submitted_job_of(phase: Phase) -> SubmittedJob | None:
    """A row's job, if it was submitted."""
    return None if isinstance(phase, Queued) else phase.seen


def unanswered_s(phase: Phase) -> float | None:
    """Since when there may be a job of which nothing is known, seconds since the epoch; else ``None``."""
    if isinstance(phase, Queued) or (isinstance(phase, Finished) and phase.seen is None):
        return phase.since_s
    return None


def is_healthy(status: JobStatus) -> bool:
    """Whether a log must be there: the job ended well, or there was none to end."""
    return (status.state is JobState.COMPLETED or status.state is JobState.REPLAYED) and not status.exit_code


# -- One row, one job, one log ----------------------------------------------------------------------
#
# To which row each of a session's job ids and logs belongs. A controller that lost its state gives out ids again. Two
# rows that have the same one would share its answers, its log, and its cancellation; neither can be told from the
# other by what a user sees.


@dataclass
class UniqueJobs:
    """To which job each id and each log belongs, in one session."""

    #: By the ids of all jobs that are a row's, as its submissions have named them.
    jobs: dict[str, Job] = field(default_factory=dict)
    _logs: dict[str, Job] = field(default_factory=dict)

    def job(self, job: Job) -> tuple[Job, RunError] | None:
        """Claim a job's id for its row; the job that has the id already, and what both rows are told."""
        other = _claim(self.jobs, job.id, job)
        if other is None:
            return None
        return other, JobError(
            f"the scheduler gave the id {job.id} twice, to {_both_rows(other, job)}",
            (("job", job.id), *_job_names(other, job)),
            advice=f"it has lost its state, as in a restart; once job {job.id} is gone, run again: {_ids(other, job)}",
        )

    def log(self, job: Job, log: Path) -> tuple[Job, RunError] | None:
        """Claim a log for its row; the job whose log it is already, and what both rows are told."""
        other = _claim(self._logs, os.path.realpath(log), job)
        if other is None:
            return None
        return other, LogError(
            f"one log is that of two jobs, of {_both_rows(other, job)}",
            (("log", str(log)), ("jobs", f"{other.id}, {job.id}"), *_job_names(other, job)),
            advice=f"a log's name has its job's id; correct the recipe, and run again: {_ids(other, job)}",
        )


def _claim(claims: dict[str, Job], key: str, job: Job) -> Job | None:
    """Claim something for a job; the other job that has it already, ``None`` where there is none."""
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


#: The jobs that the scheduler has, by the row whose name they bear; why that is not known.
Count = Mapping[str, Sequence[FoundJob]] | RunError


class RowTable:
    """All rows, and the rows by where they are on their way.

    Args:
        launcher: How jobs are ended.
        limits: How many jobs and GPUs may be taken at once, and how many jobs may be pending.
    """

    def __init__(self, launcher: Launcher, limits: Limits) -> None:
        self.phases: dict[str, Phase] = {}
        self.waiting: deque[Queued] = deque()
        #: Those that a thread submits.
        self.submitting: dict[str, Queued] = {}
        self.live: dict[str, Active] = {}
        self.ended: dict[str, AwaitingLog] = {}
        #: Those that were not handed out yet.
        self.over: dict[str, Finished] = {}
        #: How often something became known that other rows may wait for: a job with its log, or that a row is over.
        self.news = 0
        #: Of how many claimed jobs it is known which others there are.
        self._counted = 0
        self._since_s = time.time()
        #: How the newest job of each row was started that may have one, in this session or in one before it.
        self.started: dict[str, JobSpec] = {}
        #: The jobs of the run that no row owns, and why a row that was handed out before is an error by now.
        self.strays: dict[str, SubmittedJob] = {}
        self.late: dict[str, JobError] = {}
        self.limits = limits
        self.claims = UniqueJobs()
        self._launcher = launcher
        #: What rows that are being submitted or live take.
        self._taken_jobs = 0
        self._taken_gpus = 0

    def row(self, row_id: str) -> RowJobs | None:
        """A row; ``None`` where it is not known, or cannot be submitted at all."""
        phase = self.phases.get(row_id)
        return None if phase is None else phase.row

    def seen(self, row_id: str) -> SubmittedJob | None:
        """A row's job; ``None`` where it has none that is known."""
        phase = self.phases.get(row_id)
        return None if phase is None else submitted_job_of(phase)

    # -- what a row takes ---------------------------------------------------------------------

    def fits(self, row: RowJobs) -> bool:
        """Whether a row may be submitted beside those that have a place."""
        limits = self.limits
        if self._taken_jobs + 1 > limits.jobs or self._taken_gpus + row.spec.gpus > limits.gpus:
            return False
        if limits.pending == math.inf:
            return True
        pending = sum(live.seen.status.state is JobState.PENDING for live in self.live.values())
        return pending + len(self.submitting) + 1 <= limits.pending

    def take_place(self, row: RowJobs) -> None:
        """Count what a row takes that is submitted."""
        self.started[row.row_id] = row.spec
        self._taken_jobs += 1
        self._taken_gpus += row.spec.gpus

    def free_place(self, row: RowJobs) -> None:
        """Count no longer what a row took."""
        self._taken_jobs -= 1
        self._taken_gpus -= row.spec.gpus

    # -- where a row goes ---------------------------------------------------------------------

    def wait(self, waiting: Queued, *, first: bool) -> None:
        """Let a row wait to be submitted, before all others or after them."""
        self.phases[waiting.row.row_id] = waiting
        if first:
            self.waiting.appendleft(waiting)
        else:
            self.waiting.append(waiting)

    def begin(self) -> Queued:
        """Let the first row that waits be submitted."""
        waiting = self.waiting.popleft()
        waiting.refused, waiting.answer = False, None
        self.submitting[waiting.row.row_id] = waiting
        self.take_place(waiting.row)
        return waiting

    def activate(self, row: RowJobs, seen: SubmittedJob) -> Active:
        """A row that has its place has a job now."""
        live = self.phases[row.row_id] = self.live[row.row_id] = Active(row, seen)
        return live

    def leave_queue(self, live: Active) -> None:
        """A row's job is no longer live."""
        del self.live[live.row.row_id]
        self.free_place(live.row)

    def finish(self, over: Finished) -> None:
        """Let a row be over."""
        self.phases[over.row_id] = self.over[over.row_id] = over
        self.news += 1

    # -- whose the jobs of the run are --------------------------------------------------------

    def count(self, has_reason: bool) -> Count:
        """Ask by name which jobs there are, in whichever thread: once after submissions were answered, or for a reason.

        Names that other sessions' jobs have as well tell nothing, nor does a launcher that cannot be asked so.
        """
        named = getattr(self._launcher, "named", None)
        claimed, started = len(self.claims.jobs), [spec for spec in list(self.started.values()) if spec.unique_name]
        # A launch script that has yet to answer may name some of its jobs by then.
        specs = [spec for spec in started if not self._is_submitted(spec.row_id)]
        if named is None or not specs or (claimed == self._counted and not has_reason):
            return {}
        self._counted = claimed
        try:
            return by_row(specs, named(specs, self._since_s))
        except RunError as error:
            self._counted = -1  # asked again
            return error

    def _is_submitted(self, row_id: str) -> bool:
        """Whether a row is being submitted, and nothing is known of the answer yet."""
        return row_id in self.submitting and isinstance(self.phases[row_id], Queued)

    def hold(self, count: Count) -> None:
        """Hold the jobs that there are against the rows' own, and end with its row each that none of them owns."""
        for row_id, jobs in {} if isinstance(count, RunError) else count.items():
            phase, spec = self.phases[row_id], self.started[row_id]
            new = [job for job in jobs if job.id not in self.claims.jobs and job.id not in self.strays]
            # A submission whose answer is awaited may own one of them; they are counted once more then.
            if not new or self._is_submitted(row_id) or unanswered_s(phase) is not None:
                continue
            strays = [SubmittedJob(Job(one.id, spec, 0.0, other_name=one.name), one.status) for one in new]
            self.strays |= {seen.job.id: seen for seen in strays}
            error = _not_owned(strays)
            self.give_up([row_id], error, strays)
            if not isinstance(getattr(self.phases[row_id], "end", None), RunError):
                self.late[row_id] = error

    # -- jobs that are given up ---------------------------------------------------------------

    def is_shared(self, clash: tuple[Job, RunError] | None, row_id: str) -> bool:
        """Give up both rows where another one has the same job or log; one that was handed out keeps its end."""
        if clash is None:
            return False
        other, error = clash
        rival = submitted_job_of(self.phases[other.spec.row_id])
        is_other = other.spec.row_id != row_id and rival is not None and rival.job is other
        self.give_up([other.spec.row_id, row_id] if is_other else [row_id], error)
        return True

    def give_up(self, row_ids: list[str], error: RunError, others: Sequence[SubmittedJob] = ()) -> None:
        """Let rows be over with an error whatever becomes of their jobs, and end those, and others with them."""
        given_up = [over for row_id in row_ids if (over := self._give_up(row_id, error)) is not None]
        jobs = [*others, *(over.seen for over in given_up if over.seen is not None)]
        try:
            self.cancel([seen for seen in jobs if seen.may_run])
        except JobError:
            return  # they are ended with the session

    def _give_up(self, row_id: str, error: RunError) -> Finished | None:
        """Let a row be over with an error; ``None`` where it has one, or was handed out."""
        phase = self.phases[row_id]
        if isinstance(phase, Finished) and (isinstance(phase.end, RunError) or row_id not in self.over):
            return None
        if self.live.pop(row_id, None) is not None and phase.row is not None:
            self.free_place(phase.row)
        self.ended.pop(row_id, None)
        if isinstance(phase, Queued) and row_id not in self.submitting:
            self.waiting.remove(phase)
        over = Finished(row_id, error, phase.row, submitted_job_of(phase), unanswered_s(phase))
        self.finish(over)
        return over

    def interrupt(self, error: Callable[[Phase], RunError]) -> None:
        """Let all rows whose job has not ended be over, each with its error."""
        for row_id, phase in self.phases.items():
            if isinstance(phase, AwaitingLog):
                self.ended[row_id] = phase  # Ctrl-C may have hit while it was to be handed over or repeated
            elif not isinstance(phase, Finished):
                self.phases[row_id] = Finished(
                    row_id, error(phase), phase.row, submitted_job_of(phase), unanswered_s(phase)
                )
        self.waiting.clear()
        self.live.clear()
        self.news += 1

    def cancel(self, jobs: list[SubmittedJob]) -> None:
        """End jobs with one request; one that fails leaves them to the session's end.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._launcher.cancel([seen.job for seen in jobs])
        for seen in jobs:
            seen.cancelled = True

    def running(self) -> list[SubmittedJob]:
        """Jobs that may still run; first those that wait, which would start on the nodes that others leave."""
        of_rows = map(submitted_job_of, self.phases.values())
        jobs = (seen for seen in (*of_rows, *self.strays.values()) if seen is not None and seen.may_run)
        return sorted(jobs, key=lambda seen: seen.status.state is not JobState.PENDING)


def stray_text(stray: SubmittedJob) -> str:
    """A job that no row owns, in one line: ``12 gsw-a FAILED on n001``."""
    state = "cancelled" if stray.cancelled else stray.status.state.value
    return f"{stray.job.id} {stray.job.name} {state}{stray.status.nodes and f' on {stray.status.nodes}'}"


def _not_owned(strays: Sequence[SubmittedJob]) -> JobError:
    ids = enumerated([stray.job.id for stray in strays])
    return JobError(
        f"the row has {plural(len(strays), 'job')} that no submission of it named: {ids}",
        tuple(("no row's", stray_text(stray)) for stray in strays),
        advice="let the recipe submit one job for a row, and name it; then run the row again",
    )
