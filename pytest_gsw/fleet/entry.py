"""One row as the fleet sees it, and what the fleet tells of it or asks about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.errors import RunError
from pytest_gsw.fleet.watch import Sight, Watch
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
class Entry:
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
    log_pause_s: float = FIRST_LOG_LOOK_S
    #: The ended job with its log, once that is there.
    run: Run | None = None
    #: The launcher was told to end it.
    cancelled: bool = False

    @property
    def gpus(self) -> int:
        """GPUs that its job takes."""
        return self.spec.gpus if self.spec else 0

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The row's jobs before this one that the infrastructure failed."""
        return tuple(one for one in self.attempts if not one.measured)


def is_healthy(status: JobStatus) -> bool:
    """Whether a log must be there: the job ended well, or there was none to end."""
    return status.state in {JobState.COMPLETED, JobState.REPLAYED} and not status.exit_code
