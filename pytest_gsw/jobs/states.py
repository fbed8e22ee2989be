"""The state of a job: Slurm's words for it, and a job with its steps at one moment."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class JobState(enum.Enum):
    """The closed table of job states. *Unknown* is a state of its own and never means "done".

    The names are Slurm's, familiar to users from ``squeue`` and ``sacct``.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"
    REVOKED = "REVOKED"
    #: A log that existed already is read; no job was run, so no state can be known.
    REPLAYED = "REPLAYED"
    #: The scheduler did not answer, or with a word that is not in this table.
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:
        return self.value

    @property
    def ended(self) -> bool:
        """True if the job will not run any more, as far as is *known*."""
        return self not in _OPEN


_OPEN = (JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN)

#: Every base state and state flag that ``squeue``, ``sacct`` and ``scontrol`` print instead of or
#: after a base state (Slurm 17.11 to 25.05, "JOB STATE CODES" of their manual pages).
TABLE: dict[str, JobState] = {
    # Will run. CONFIGURING: nodes boot. SPECIAL_EXIT: it ended with a special code, was requeued, and is held.
    # LAUNCH_FAILED: it could not be started, and was requeued and held.
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), JobState.PENDING),
    **dict.fromkeys(("RESV_DEL_HOLD", "SPECIAL_EXIT", "POWER_UP_NODE"), JobState.PENDING),
    **dict.fromkeys(("LAUNCH_FAILED", "RECONFIG_FAIL"), JobState.PENDING),
    # Has started and still holds its nodes, or may go on. COMPLETING: the epilog runs; its end is reported afterwards.
    **dict.fromkeys(("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"), JobState.RUNNING),
    **dict.fromkeys(("SUSPENDED", "UPDATE_DB", "EXPEDITING"), JobState.RUNNING),
    # Will not run any more.
    **{word: JobState(word) for word in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")},
    **{word: JobState(word) for word in ("BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED")},
}

#: The state of a job whose script has ended, or whose end is not in the accounting database yet.
COMPLETING = "COMPLETING"
#: States of jobs that have started and not ended, and whose processes may stand still: nothing new in their logs is no
#: stall. UPDATE_DB is none: slurmctld is only to send accounting the job's start again.
STANDING_STILL = frozenset({"SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", COMPLETING, "EXPEDITING"})

#: Exit code and signal as Slurm writes them.
EXIT_CODE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})", re.ASCII)


def job_state(text: str) -> JobState:
    """The state of Slurm's text; a word that is not in the table is UNKNOWN, never an end."""
    words = text.upper().split()
    # "CANCELLED by 1000" names the user; nothing else follows a state after a blank.
    if not words or (len(words) > 1 and words[:2] != ["CANCELLED", "BY"]):
        return JobState.UNKNOWN
    # "FAILED+COMPLETING" is open as long as one of the words is.
    states = {TABLE.get(word, JobState.UNKNOWN) for word in words[0].split("+")}
    for state in (JobState.UNKNOWN, JobState.PENDING, JobState.RUNNING):
        if state in states:
            return state
    return states.pop() if len(states) == 1 else JobState.UNKNOWN


def exit_and_signal(code: str) -> tuple[int | None, int]:
    """Exit code and signal as Slurm writes them, ``1:0``; ``(None, 0)`` for any other text."""
    match = EXIT_CODE.fullmatch(code)
    return (None, 0) if match is None else (int(match[1]), int(match[2]))


#: Slurm's reason for a job that waits for one which has failed: it stays pending for ever.
NEVER_STARTS = "DependencyNeverSatisfied"

#: The reason for a job on a node list of which a node is down or drained, and for one whose node was lost at its start.
NODE_LOST = "NodeLost"

#: Slurm's reason for a job that could not be launched, as after a prolog that failed: it stays pending for ever.
NOT_LAUNCHED = "launch failed requeued held"


@dataclass(frozen=True)
class JobStep:
    """One of the steps (``srun``) of a job. Times are seconds since the epoch."""

    #: Its number within the job.
    id: str
    #: Its name, by default that of its program.
    name: str
    state: JobState
    #: The scheduler's own word.
    raw_state: str = ""
    exit_code: int | None = None
    #: The signal that ended it, 0 for none.
    signal: int = 0
    nodes: str = ""
    start_s: float | None = None
    end_s: float | None = None

    @property
    def text(self) -> str:
        """The step as JSON has it: one text, of which :meth:`of_text` makes it again."""
        code = "" if self.exit_code is None else f"{self.exit_code}:{self.signal}"
        times = ("" if time_s is None else f"{time_s:.0f}" for time_s in (self.start_s, self.end_s))
        return "|".join((self.id, self.raw_state or self.state.value, code, self.nodes, *times, self.name))

    @classmethod
    def of_text(cls, text: str) -> JobStep:
        """The step of a text; a step with an unknown end if it is not one of :attr:`text`."""
        fields = text.split("|", 6)
        if len(fields) < 7:
            return cls("?", text, JobState.UNKNOWN)
        number, raw_state, code, nodes, start, end, name = fields
        times = [float(time) if re.fullmatch(r"[0-9]{1,12}", time) else None for time in (start, end)]
        return cls(number, name, job_state(raw_state), raw_state, *exit_and_signal(code), nodes, *times)


@dataclass(frozen=True)
class FailedJob:
    """A failed job that another one waits for, which stays pending for ever."""

    id: str
    state: JobState
    #: Its exit code, ``None`` if unknown, and its signal.
    exit_code: int | None
    signal: int
    #: Its log, or the directory of its files.
    log: str

    @property
    def why(self) -> str:
        """The reason of the job that waits: ``DependencyNeverSatisfied: job 7 FAILED 1:0``."""
        return f"{NEVER_STARTS}: job {self.id} {self.state.value} {self.exit_code}:{self.signal}"


@dataclass(frozen=True)
class JobStatus:
    """A job at one moment. Times are seconds since the epoch."""

    state: JobState
    #: The scheduler's own word, or the text that could not be parsed.
    raw_state: str = ""
    #: Exit code of the batch script, ``None`` while unknown.
    exit_code: int | None = None
    #: The signal that ended the batch script, 0 for none.
    signal: int = 0
    #: Why a job is pending, or ended, in the scheduler's words.
    reason: str = ""
    #: The scheduler's own node list: ``pool0-[0017-0032]``.
    nodes: str = ""
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    #: The steps of a job that has ended; ``None`` if unknown.
    steps: tuple[JobStep, ...] | None = None
    #: The worst end of the steps that ended before the batch script, as Slurm writes it (``1:0``); empty if unknown.
    derived_exit_code: str = ""
    #: Facts of the job's end that could not be queried, with the reason; one line, empty if all are known.
    unchecked: str = ""
    #: Ids of further jobs behind the same submission; there must be none.
    siblings: tuple[str, ...] = ()
    #: The failed job that a pending one waits for; ``None`` if there is none, or it is unknown.
    failed_first: FailedJob | None = None
    #: When a pending job starts, as far as the scheduler expects; ``None`` if unknown.
    expected_start_s: float | None = None

    @property
    def ended_well(self) -> bool:
        """True if there must be a whole log: the job ended well, or its log is replayed."""
        return (self.state is JobState.COMPLETED or self.state is JobState.REPLAYED) and not self.exit_code

    @property
    def queue_s(self) -> float | None:
        """Seconds between submission and start."""
        if self.submit_s is None or self.start_s is None:
            return None
        return max(0.0, self.start_s - self.submit_s)

    @property
    def run_s(self) -> float | None:
        """Seconds between start and end."""
        if self.start_s is None or self.end_s is None:
            return None
        return max(0.0, self.end_s - self.start_s)
