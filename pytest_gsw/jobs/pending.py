"""Slurm's reasons for a pending job: those that end by themselves, and those that do not."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache, partial

from pytest_gsw.common.text import moment
from pytest_gsw.jobs.states import NEVER_STARTS


@dataclass(frozen=True)
class PendingReason:
    """A group of reasons."""

    #: Matches the beginning of a reason as squeue prints it, up to the end of a word.
    words: str
    #: The next step of the user; ``None`` if the job may start without one.
    advice: str | None
    #: True if a job may start nevertheless: in another of its partitions, by another QOS, or for its shortest time.
    #: squeue prints the reason of the one that was considered last, see :data:`OF_ONE`.
    has_alternatives: bool = False
    #: True if no release and no change of the site ends it.
    is_final: bool = False
    #: True if the reason contains its end: the job starts no earlier than that.
    is_dated: bool = False


_BEGIN = "BeginTime"
#: Follows the reason of a job that has alternatives.
OF_ONE = " (of one alternative)"

_limit = partial(PendingReason, has_alternatives=True)

#: The reasons of Slurm 22.05 to 26.05 that do not end by themselves, or have a date (job_state_reason.c, and the texts
#: that slurmctld prints in their place); the first match counts.
REASONS: tuple[PendingReason, ...] = (
    PendingReason(rf"[^(]{{1,999}}{re.escape(OF_ONE[:-1])}", None),
    PendingReason(NEVER_STARTS, "find out why the job that it waits for has failed", is_final=True),
    PendingReason(_BEGIN, "leave --begin out, or raise max_queue of the cluster", is_dated=True),
    # Held.
    PendingReason(
        r"JobHeld(?:User|Admin)|job requeued in|License request .{1,400} holding job",
        "run the row again without --hold; scontrol release JOB lets a held job start within two minutes",
    ),
    PendingReason(
        r"[^,]{0,99} requeued held|JobHoldMaxRequeue", "sinfo -R shows its node's fault; then run the row again"
    ),
    PendingReason(
        r"Reservation(?:Deleted|Invalid| \S+ (?:was|is))", "scontrol show reservation; correct --reservation"
    ),
    PendingReason(
        r"BurstBufferOperation|Burst buffer pre run|burst buffer/\w+: (?!Stage-out)", "scontrol show burstbuffer"
    ),
    # More than is allowed or there.
    _limit("BadConstraints", "sinfo -N -o '%N %c %m %G %f'; ask for what nodes have"),
    _limit(
        "PartitionTimeLimit",
        "scontrol show partition has the longest time; timeout: MINUTES at the cluster asks for less",
    ),
    _limit("Partition(?:NodeLimit|Config)|MaxMemPerLimit", "scontrol show partition; ask for less"),
    _limit(
        r"(?:QOS|Assoc)Max\w{1,30}Per(?:Job|Node)(?:Limit)?|QOSMin\w{1,30}",
        "sacctmgr show qos; sacctmgr show assoc user=$USER; ask for less, or name another account or --qos",
    ),
    _limit(
        r"Invalid(?:QOS|Account)|(?:QOS|Account)NotAllowed|Job's (?:QOS|account) not|uid \d{1,10} not in group",
        "sacctmgr show assoc user=$USER format=account,partition,qos; correct the cluster file",
    ),
)
#: Any other reason: it ends as other jobs end, limits free up and nodes come back.
_OTHER = PendingReason("", None)
_PATTERNS = tuple((re.compile(rf"(?:{reason.words})\b"), reason) for reason in REASONS)


@lru_cache(maxsize=256)
def reason_of(text: str) -> PendingReason:
    """The group of a pending job's reason; one that is not in the table may end by itself."""
    words = text[:1000].replace("_", " ")
    return next((reason for pattern, reason in _PATTERNS if pattern.match(words)), _OTHER)


def dated(reason: str, begin_s: float | None) -> str:
    """The reason of a job with an earliest start, with that time: ``BeginTime 2030-01-01 00:00:00``."""
    return f"{_BEGIN} {moment(begin_s)}" if reason == _BEGIN and begin_s is not None else reason


def begins_after(reason: str, time_s: float) -> bool:
    """True if the earliest start in a reason is later than a time; infinity is never."""
    return time_s != math.inf and reason > dated(_BEGIN, time_s)
