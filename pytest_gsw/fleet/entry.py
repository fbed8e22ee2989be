"""One row on its way through the fleet, where each phase is a type, and what is told of it or asked about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.errors import RunError, SchedulerAwayError
from pytest_gsw.fleet.watch import Sample, Watch
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Stop
from pytest_gsw.runs.run import Run

#: How long after its first look an ended job's log is looked for again; each wait is twice the one before.
FIRST_LOG_LOOK_S = 0.1

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]

#: Called with the row's id and the attempt that is not its last.
RepeatObserver = Callable[[str, Attempt], None]

#: Makes the watch of a row's job, or ``None`` where nobody can read its log.
Watcher = Callable[[str], Watch | None]


@dataclass(frozen=True)
class RepeatRequest:
    """That one more job of a row is wanted although its last one can be measured."""

    #: In a few words: ``10.8 % below, to be confirmed (1 of 2)``.
    why: str
    #: Nodes that it is to do without where that is possible.
    avoiding: tuple[str, ...] = ()


@dataclass(frozen=True)
class Later:
    """That it is not known yet whether one more job of a row is wanted: other rows' jobs will tell."""


#: Asked of a row's job that ended well, with its log: is one more wanted?
OnceMore = Callable[[str, Run], RepeatRequest | Later | None]


@dataclass(frozen=True)
class RowStatus:
    """Where one row stands, for whoever tells the user."""

    row_id: str
    gpus: int
    #: What was last known of its job; ``None`` where there is none.
    status: JobStatus | None
    #: What its log showed last; ``None`` before the first look.
    sample: Sample | None
    over: bool


@dataclass(frozen=True)
class Row:
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
class Seen:
    """A submitted job, and what was last known of it."""

    job: Job
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    sample: Sample | None = None
    #: What became of its submission; ``None`` where that had an answer.
    away: SchedulerAwayError | None = None
    #: Why the job is to be ended early, and whether the launcher has been told by this session.
    stopped: Stop | None = None
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
class Waiting:
    """A row that is to be submitted."""

    row: Row
    #: When it was submitted first without an answer, so that there may be a job: seconds since the epoch.
    since_s: float | None = None
    #: Why it waits: the scheduler was out of reach, and may have its job.
    away: SchedulerAwayError | None = None
    #: Since when the scheduler has been out of reach for its submission; monotonic seconds.
    away_since_s: float | None = None
    #: What was named like a log of the row before it was first submitted; ``None`` where nobody looked.
    names: frozenset[str] | None = None


@dataclass
class Submitting:
    """A row that is being submitted, by a thread that may change what it waits with."""

    waiting: Waiting
    #: When that was tried: seconds since the epoch.
    tried_s: float = 0.0
    #: It is known to have left no job.
    refused: bool = False
    answer: Future[Job] | None = None

    @property
    def row(self) -> Row:
        """The row that is submitted."""
        return self.waiting.row


@dataclass
class Live:
    """A row whose job is in the queue or runs."""

    row: Row
    seen: Seen
    #: Since when nothing is known of the job; monotonic seconds.
    unknown_since_s: float | None = None
    watch: Watch | None = None
    #: Nobody can watch it.
    unwatched: bool = False
    #: The job's log, once it was found, and when it was looked for last; monotonic seconds.
    log: Path | None = None
    looked_s: float = 0.0


@dataclass
class Ended:
    """A row whose job has ended, or was given up, and whose log is awaited."""

    row: Row
    seen: Seen
    #: Until when the log may appear, when it is looked for next, and how long after that.
    deadline_s: float
    look_s: float
    pause_s: float = FIRST_LOG_LOOK_S
    #: Its run, once only other rows are waited for: its log is not looked for again.
    run: Run | None = None
    #: How much had happened to other rows when it was asked last whether it still waits, and when; monotonic seconds.
    asked: tuple[int, float] = (-1, -math.inf)


@dataclass
class Over:
    """A row that can be measured, or has failed."""

    row_id: str
    end: Run | RunError
    #: ``None`` where the row cannot be submitted at all.
    row: Row | None = None
    #: ``None`` where there is no job that is known.
    seen: Seen | None = None
    #: When it was submitted without an answer, so that there may be a job: seconds since the epoch.
    since_s: float | None = None


#: Where a row is on its way.
Phase = Waiting | Submitting | Live | Ended | Over


def seen_of(phase: Phase) -> Seen | None:
    """A row's job, if it was submitted."""
    return None if isinstance(phase, Waiting | Submitting) else phase.seen


def status_of(named: tuple[str, Phase]) -> RowStatus:
    """Where a row stands that is named by its id."""
    row_id, phase = named
    seen, gpus = seen_of(phase), 0 if phase.row is None else phase.row.spec.gpus
    status, sample = (None, None) if seen is None else (seen.status, seen.sample)
    return RowStatus(row_id, gpus, status, sample, isinstance(phase, Over))


def unanswered_s(phase: Phase) -> float | None:
    """Since when there may be a job of which nothing is known, seconds since the epoch; else ``None``."""
    if isinstance(phase, Submitting):
        return phase.waiting.since_s
    if isinstance(phase, Waiting):
        return phase.since_s
    return phase.since_s if isinstance(phase, Over) and phase.seen is None else None


def is_healthy(status: JobStatus) -> bool:
    """Whether a log must be there: the job ended well, or there was none to end."""
    return (status.state is JobState.COMPLETED or status.state is JobState.REPLAYED) and not status.exit_code
