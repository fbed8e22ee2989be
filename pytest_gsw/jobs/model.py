"""A launcher's input (:class:`JobSpec`), its answers (:class:`JobStatus`), and its contract."""

from __future__ import annotations

import enum
import math
import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.text import plural
from pytest_gsw.errors import LogError, SubmissionError

if TYPE_CHECKING:
    from pytest_gsw.jobs.layout import FoundLog


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

#: ``sacct`` cuts a word to its column's width and marks that with a plus: ``CANCELLED+``, ``OUT_OF_ME+``.
_SHORTEST_CUT = 3


def job_state(text: str) -> JobState:
    """The state of Slurm's text; a word that is not in the table is UNKNOWN, never an end."""
    words = text.upper().split()
    if not words:
        return JobState.UNKNOWN
    # "CANCELLED by 1000" names the user; nothing else follows a state after a blank.
    if len(words) > 1 and words[:2] != ["CANCELLED", "BY"]:
        return JobState.UNKNOWN
    word = words[0]
    if word in TABLE:
        return TABLE[word]
    if word.endswith("+"):
        return _of_cut_word(word[:-1])
    return _of_flags(word.split("+"))


def _of_cut_word(start: str) -> JobState:
    if len(start) < _SHORTEST_CUT:
        return JobState.UNKNOWN
    possible = {state for word, state in TABLE.items() if word.startswith(start)}
    return possible.pop() if len(possible) == 1 else JobState.UNKNOWN


def _of_flags(words: list[str]) -> JobState:
    """The state of ``FAILED+COMPLETING``: open as long as one of the words is."""
    states = {TABLE.get(word, JobState.UNKNOWN) for word in words}
    for state in (JobState.UNKNOWN, JobState.PENDING, JobState.RUNNING):
        if state in states:
            return state
    return states.pop() if len(states) == 1 else JobState.UNKNOWN


def exit_and_signal(code: str) -> tuple[int | None, int]:
    """Exit code and signal as Slurm writes them, ``1:0``; ``(None, 0)`` for any other text."""
    match = EXIT_CODE.fullmatch(code)
    return (None, 0) if match is None else (int(match[1]), int(match[2]))


#: Suffix of the recipes' stderr in place of the log's ``.out``.
ERROR_SUFFIX = ".err"

#: Slurm's reason for a job that waits for one which has failed: it stays pending for ever.
NEVER_STARTS = "DependencyNeverSatisfied"

#: The reason for a job on a node list of which a node is down or drained, and for one whose node was lost at its start.
NODE_LOST = "NodeLost"

#: Slurm's reason for a job that could not be launched, as after a prolog that failed: it stays pending for ever.
NOT_LAUNCHED = "launch failed requeued held"

#: Why a row was run again: a node was lost before its job began (the nodes follow), the job failed at once, or it could
#: not avoid nodes.
LOST_AT_START = "node lost"
AT_ONCE = "ended within a minute of its start"
NO_OTHER_NODE = "no other node was available"

#: The variable with the number of a row's job in this session; unset in the first.
ATTEMPT = "GSW_ATTEMPT"

#: In the place of vboost in a record's environment, and as texts have it.
BOOST_NOT_SET = "boost not set"


#: The variables that name a virtual environment, of which a job has one.
VIRTUAL_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class ExperimentInfo:
    """The jobs that a launch script has submitted, by its output."""

    #: The job that trains; ``None`` for none, for several of which no one is it, and for one without a directory.
    job_id: str | None = None
    #: The directory of its files; ``None`` if the output does not name it.
    directory: Path | None = None
    #: Why there is no such job; empty if there is one.
    problem: str = ""
    #: Ids of all jobs in the output, even if there is a problem.
    job_ids: tuple[str, ...] = ()
    #: The jobs that it waits for, as one that imports a checkpoint, with the directories of their files.
    waits_for: tuple[tuple[str, Path], ...] = ()


class Launch:
    """The way in which a recipe's jobs are submitted to Slurm: by sbatch here; a recipe's own way is a subclass."""

    #: Its name as ``launcher`` in a table or a cluster file.
    name = "sbatch"
    #: The program that has to be on the PATH.
    program = "sbatch"
    #: True if a program other than sbatch submits the job; its output names the job.
    submits_itself = False
    #: True if the recipe's launch script runs, and if its scripts read the row from variables.
    runs_script = True
    reads_variables = True
    #: True if a job writes into a directory of its own, found by its id.
    has_directory = False
    #: The variable with the jobs' directory in place of the staging area.
    home = ""
    #: How the recipe is fetched, in advice.
    fetch = "fetch the recipe"

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The command in the recipe's directory that submits the job, if that is not sbatch."""
        raise NotImplementedError

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """The variables in place of sbatch's options.

        Raises:
            RefusedError: An option has no such variable.
        """
        return {}

    def options(self, spec: JobSpec) -> tuple[str, ...]:
        """Further options of sbatch, for Slurm from 24.05 on."""
        return ()

    def environment(self, environment: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
        """The environment of a submission, made of the session's and the job's."""
        return dict(environment)

    def read_output(self, output: str) -> ExperimentInfo:
        """The submitted jobs, by the output."""
        return ExperimentInfo()

    def log_in(self, directory: Path, job_id: str) -> Path:
        """The log of a job in its directory.

        Raises:
            LogError: There is none (yet).
        """
        raise LogError(f"no log of job {job_id}", (("searched", str(directory)),))

    def batch_output_in(self, directory: Path, job_id: str) -> Path | None:
        """The batch shell's output of a job in its directory; ``None`` if there is none."""
        return None

    def job_id_of(self, log: str) -> str | None:
        """The job's id in the name of a log; ``None`` if the name has none."""
        return None

    def logs_below(self, place: Path) -> Sequence[FoundLog]:
        """The logs of the row's jobs below a replayed directory that does not have the recipe's layout."""
        return ()

    def problem(self, spec: JobSpec) -> SubmissionError | None:
        """Why a row certainly cannot be submitted so, by its recipe's own files."""
        return None


SBATCH = Launch()


@dataclass(frozen=True)
class JobSpec:
    """One submission of a recipe's launch script for one row."""

    row_id: str
    #: The scheduler's job name; only letters, digits, ``.``, ``_`` and ``-``.
    name: str
    #: The recipe's launch script.
    script: Path
    #: The directory of the submission; recipes read files next to their script.
    directory: Path
    #: The staging area (``STAGE_PATH``), under which the recipe writes its results.
    stage: Path
    nodes: int
    gpus: int
    #: Variables set for the job on top of the session's own environment. Tracebacks show arguments; not these.
    environment: Mapping[str, str] = field(repr=False)
    #: Variables of the session's environment that the job must not see.
    unset: tuple[str, ...] = ()
    #: Further options of the scheduler's submit command, such as ``--account=eng``.
    options: tuple[str, ...] = field(default=(), repr=False)
    #: Limit on the run time (queue wait does not count), ``None`` for the script's own.
    time_limit_s: float | None = None
    #: File of the batch shell's output on Slurm, with ``%j`` for the job's id; ``None``: the script's own, or one in
    #: the directory of the submission.
    batch_output: str | None = None
    #: The way in which the job is submitted to Slurm.
    launch: Launch = field(default=SBATCH, repr=False)
    #: Arguments of the launch script, if it takes any.
    arguments: tuple[str, ...] = ()
    #: The path of the job's log, as a glob below :attr:`stage`; ``{job_id}`` is the job's id.
    log_glob: str = ""
    #: True if no job of another session ever has this name.
    unique_name: bool = False
    #: The only nodes that the job may get, as a node list; empty for any.
    node_list: str = ""
    #: Nodes that the job must not get, because an earlier attempt failed on them.
    excluded_nodes: tuple[str, ...] = ()
    #: Nodes that the job avoids if possible, because an earlier one was measured on them.
    avoided_nodes: tuple[str, ...] = ()
    #: The number of this attempt at the row, from 1.
    attempt: int = 1
    #: The row's definition at the submission, and the image as known by then.
    definition: str = ""
    image: str | None = None
    #: Its variables as a record keeps them, by name; ``None`` if unknown.
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    #: The row's documented figures at the submission, by name.
    documented: Mapping[str, float] = field(default_factory=dict)

    @property
    def script_path(self) -> Path:
        """The launch script from anywhere; a hook may name it from its directory on."""
        return self.script if self.script.is_absolute() else self.directory / self.script

    def again(self, without: tuple[str, ...] = (), avoiding: tuple[str, ...] = ()) -> JobSpec:
        """The next job of the row, which excludes, and if possible avoids, these nodes as well; on a tile it cannot."""
        if self.node_list:
            without = avoiding = ()
        attempt = self.attempt + 1
        base = self.name if self.attempt == 1 else self.name.partition(".")[2]
        return replace(
            self,
            # In front: no row's own name begins so.
            name=f"again{attempt}.{base}" if self.unique_name else self.name,
            excluded_nodes=tuple(dict.fromkeys((*self.excluded_nodes, *without))),
            avoided_nodes=tuple(dict.fromkeys((*self.avoided_nodes, *avoiding))),
            environment={**self.environment, ATTEMPT: str(attempt)},
            attempt=attempt,
        )


@dataclass(frozen=True)
class LogBefore:
    """A file that had the name of a job's log before the submission; size and time are the file server's."""

    #: Below the staging area.
    path: str
    size: int
    inode: int
    mtime_ns: int


def scancel(cluster: str, *ids: str) -> str:
    """The command line that ends jobs of a Slurm cluster: ``scancel --clusters=eos 7 8``."""
    return " ".join(("scancel", *((f"--clusters={cluster}",) if cluster else ()), *ids))


@dataclass(frozen=True)
class Job:
    """A submitted job."""

    id: str
    spec: JobSpec
    #: Seconds since the epoch, by this machine's clock, just before the submission.
    submitted_s: float
    #: Files with the name of its log before the submission; ``None`` if unknown.
    logs_before: tuple[LogBefore, ...] | None = None
    #: The scheduler's name for it, if the launch script has given it another than the spec's.
    other_name: str = ""

    @property
    def name(self) -> str:
        """The name that the scheduler has for it."""
        return self.other_name or self.spec.name

    @property
    def has_unique_name(self) -> bool:
        """True if no other job ever has its name."""
        return self.spec.unique_name and not self.other_name


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


@dataclass(frozen=True)
class Attempt:
    """An earlier job of a row: it failed for a reason that is not the row's, or it was measured, and is not enough."""

    job_id: str
    status: JobStatus
    #: Why the row was run again, in a few words: ``node failure``.
    why: str
    #: Nodes that its later jobs excluded; see :attr:`avoids`.
    excluded_nodes: tuple[str, ...] = ()
    #: True if it did not fail: its figure counts together with those of the later jobs.
    measured: bool = False

    @property
    def avoids(self) -> bool:
        """True if the row's later jobs do without its nodes only where that is possible."""
        return self.measured or self.why == AT_ONCE

    @property
    def costs_retry(self) -> bool:
        """True if it counts against the row's retries; one that failed at once has a limit of its own."""
        return self.why != AT_ONCE and is_failure(self.status.state, self.why)

    def after(self, spec: JobSpec) -> JobSpec:
        """The row's next job, by the spec of this one."""
        return spec.again(avoiding=self.excluded_nodes) if self.avoids else spec.again(self.excluded_nodes)


def is_failure(state: JobState, why: str) -> bool:
    """True if a job that was not its row's last has failed: its session or its user cancelled others."""
    return state is not JobState.CANCELLED or why.startswith(LOST_AT_START)


@dataclass(frozen=True)
class EarlyStop:
    """The reason for which the session ended a job early."""

    #: The fact by its log, one line: ``stalled at step 17 of 50: no new step for 10m00s``.
    fact: str
    #: The advice to the user.
    advice: str = ""
    #: Remaining run time of the job at that moment, ``None`` if unknown.
    saved_s: float | None = None
    #: The line of a cause in the files of a failed job that it waits for, and its place.
    cause: str = ""
    said_at: str = ""


@dataclass(frozen=True)
class FoundJob:
    """A job that a scheduler has, by its name."""

    id: str
    name: str
    status: JobStatus


class Launcher(ABC):
    """The way jobs start on one cluster. One object serves a whole session; a site's launcher is a subclass."""

    #: ``slurm``, ``local``, ``replay``, or a plugin's own word.
    name: str
    #: Seconds that a finished job's log may take to appear on a shared file system.
    log_wait_s: float = 30.0
    #: Seconds between two polls of all jobs, long enough not to burden the scheduler.
    poll_interval_s: float = 15.0
    #: Number of threads that may call :meth:`submit` at once; 1 if it must be the session's own.
    parallel_submissions: int = 1
    #: True if a later session can poll the jobs of an earlier one.
    jobs_outlive_session: bool = False
    #: True if :meth:`poll` may be called while other methods are; a site's own launcher is never called so.
    polls_in_a_thread: bool = False
    #: The keys account, partition, gres, constraint, launcher, sbatch and arguments of ``clusters.yaml`` that it uses.
    cluster_keys: Collection[str] = ()

    @property
    def version(self) -> str:
        """The scheduler's version, for records; empty if unknown."""
        return ""

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, for ``--gsw-plan``."""
        return ()

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """The errors of jobs that certainly cannot be submitted, by row."""
        return {}

    @abstractmethod
    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerUnreachableError: The scheduler gave no answer, but may have the job, see :meth:`find`.
            SubmissionError: The scheduler refused it.
            LogError: A log is replayed, and there is none, or more than one.
        """

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec at or after a time (seconds since the epoch), by its name.

        Called for submissions whose answer was lost: the scheduler was out of reach, or the session
        that submitted did not live to read it. ``None`` if there is no such job, or if jobs do
        not outlive their session.

        Raises:
            SchedulerUnreachableError: The scheduler does not answer.
        """
        return None

    def named(self, specs: Sequence[JobSpec], since_s: float) -> Sequence[FoundJob] | None:
        """All jobs of these rows since then, by their names; ``None`` if the scheduler cannot list them.

        By these a run is resumed, and its jobs are counted: one that is no row's is ended.

        Raises:
            SchedulerUnreachableError: The scheduler does not answer.
        """
        return None

    @abstractmethod
    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id (``job.spec.row_id``), with one query for all of them.

        An answer is a job's own by more than its id, which a scheduler that lost its state gives out again:
        two rows of one session may have the same, and then each is answered for itself.

        A job of which nothing could be learnt has :attr:`JobState.UNKNOWN`; this never raises
        because a scheduler is out of reach.
        """

    def named_in_poll(self, specs: Sequence[JobSpec]) -> Sequence[FoundJob] | None:
        """The same as :meth:`named` by what the last poll has read; ``None`` if that does not show all jobs."""
        return None

    @abstractmethod
    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs with one request; those that have ended already are no error.

        Raises:
            JobError: The request failed and jobs may go on; the advice is how to end them by hand.
        """

    @abstractmethod
    def find_log(self, job: Job) -> Path:
        """The one log that belongs to this job.

        Raises:
            LogError: There is none (yet), or more than one.
        """

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, which has failures before training; ``None`` if there is none."""
        return None

    def switches(self, spec: JobSpec) -> Mapping[str, str] | None:
        """The node list of each leaf switch or block by its name, ``switch s1``, where such a job runs.

        ``None`` if unknown. A session with a history asks once a week.
        """
        return None

    def report_by(self, write: Callable[[str], None]) -> None:  # noqa: B027 - most need not
        """Write a line by this function if the scheduler does not answer for long."""

    def end_waits(self) -> None:  # noqa: B027
        """Wait no longer for a scheduler that does not answer: the session is to end."""

    def close(self) -> None:  # noqa: B027
        """Release resources and end processes; a scheduler's jobs that still run are left alone."""


# -- Ends of a job's steps: a batch script may end with 0 although a step of it failed -------------
#
# ``srun … | tee log`` and ``srun … || true`` hide a step's exit code from the script; Slurm keeps it. A step has
# failed unless it COMPLETED with exit code 0, or is excused. A step is excused if the row's table lists its name, or if
# it is a helper: it has no exit code of its own, and is not the step that trained. No record names the step that wrote
# the log, but the training ran for most of its helper's time, and COMPLETED. A helper is one of these:
#
# - It still ran when the batch script ended, and Slurm ended it by a signal: a helper in the background. If it then
#   ends itself with an exit code, it looks like a step that failed at the end: slurmctld may receive the script's end
#   first, and neither the times nor DerivedExitCode distinguish the two. DerivedExitCode counts such a helper on 24.11,
#   not on 22.05.
# - The job's own script ended it (``kill`` of its srun, ``CANCELLED by`` the user): a helper that has done its work.


#: Name of the step in which a session reads facts of a job's nodes: its end says nothing about the job.
PROBE_STEP = "gsw-probe"
#: Most steps of a job in a journal or a record, failed ones first.
MOST_KEPT = 64

#: Slurm terminates a step that outlives its script, and kills it after KillWait, 30 s unless a site has less.
#: A step that was killed sooner after the script's end than this was not killed by Slurm: slurmctld receives a
#: step's end up to a second after its script may have continued.
KILL_WAIT_S = 2.0
#: Share of a helper's time that the training runs.
_MOST_OF_IT = 0.75
#: Name of NeMo-Run's steps of one command.
_SHELL = "bash"
#: sacct subtracts 128 from a step's exit code above that; DerivedExitCode does not.
_CUT = 128 << 8


@dataclass(frozen=True)
class StepProblem:
    """The reason why a job that COMPLETED with exit code 0 has failed nevertheless."""

    #: The text after "job 7 completed, but ".
    fact: str
    #: Each failed step in one line, with its nodes.
    steps: tuple[str, ...] = ()


def problem_of(
    status: JobStatus, may_fail: Collection[str] = (), uid: int | None = None, excused: JobStep | None = None
) -> StepProblem | None:
    """The failure in the steps of a job that COMPLETED with exit code 0; ``None`` if there is none.

    Steps with the names ``may_fail`` may fail, and so may the ``excused`` one. ``uid`` is the job's user,
    by default the session's.
    """
    uid = os.getuid() if uid is None else uid
    steps = status.steps or ()
    may_fail = {*may_fail, PROBE_STEP}
    suspects = [step for step in steps if not is_well(step) and step.name not in may_fail and step != excused]
    exit_code, signal_number = exit_and_signal(status.derived_exit_code)
    worst = ((exit_code or 0) << 8) | signal_number
    failed = [
        step
        for step in suspects
        # By its own script, or with its job.
        if not (step.raw_state == f"CANCELLED by {uid}" or _ended_with_its_job(step, status, worst, uid))
    ] or [step for step in suspects if not _is_helper(step, steps)]
    if failed:
        first, more = failed[0], len(failed) - 1
        others = f", and {plural(more, 'more step')} failed" if more else ""
        return StepProblem(
            f"its step {first.id} ({first.name}) {how_it_ended(first)}{others}", tuple(map(line, failed))
        )
    if not steps and worst == signal.SIGTERM:
        # Steps are unknown, or the site keeps none. slurmctld counts helpers, and most other ends are worse.
        return None
    if worst and not any(worst in {_step_status(step), _step_status(step) + _CUT} for step in steps):
        which = "" if status.steps is None else ", and none that is on record did"
        return StepProblem(f"one of its steps failed (DerivedExitCode {status.derived_exit_code}){which}")
    return None


def how_it_ended(step: JobStep) -> str:
    """The end of a step as part of a sentence: ``failed with exit code 1``, ``ended CANCELLED by signal 9``."""
    if not step.state.ended:
        return f"has no end on record: it is {step.raw_state or 'not known'}"
    ended = {JobState.FAILED: "failed", JobState.COMPLETED: "ended"}.get(step.state, f"ended {step.state.value}")
    if step.signal:
        return f"{ended} by signal {step.signal}"
    return f"{ended} with exit code {step.exit_code}" if step.exit_code else ended


def line(step: JobStep) -> str:
    """A step in one line: ``0 bash FAILED 1:0 on n001``."""
    where = f" on {step.nodes}" if step.nodes else ""
    code = "" if step.exit_code is None else f" {step.exit_code}:{step.signal}"
    return f"{step.id} {step.name} {step.raw_state or step.state.value}{code}{where}"


def limited_steps(steps: tuple[JobStep, ...] | None) -> tuple[JobStep, ...] | None:
    """The steps for a journal and a record: at most :data:`MOST_KEPT`, those that did not end well first."""
    return tuple(sorted(steps, key=is_well)[:MOST_KEPT]) if steps is not None and len(steps) > MOST_KEPT else steps


def boost_step(steps: Collection[JobStep]) -> JobStep | None:
    """The failed step with which NeMo-Run raises the GPUs' boost, its shell before the training; else ``None``."""
    shell = next((step for step in steps if step.name == _SHELL), None)
    if shell is None or not shell.exit_code:
        return None
    begin_s, end_s = _span(shell)
    later = (_span(step) for step in steps if is_well(step))
    return shell if any(then_s >= end_s and until_s - then_s > end_s - begin_s for then_s, until_s in later) else None


def is_well(step: JobStep) -> bool:
    """True if a step COMPLETED with exit code 0."""
    return step.state is JobState.COMPLETED and not step.exit_code and not step.signal


def _ended_with_its_job(step: JobStep, status: JobStatus, worst: int, uid: int) -> bool:
    """True if a failed step still ran when the batch script had ended, and Slurm ended it for that.

    ``worst`` is the worst end of the steps that Slurm has counted, as a status of wait(2).
    """
    if step.end_s is None or status.end_s is None:
        return False
    # "CANCELLED by" another user comes neither from Slurm nor from the job's script.
    if step.raw_state not in {"CANCELLED", f"CANCELLED by {uid}"}:
        return False
    if step.signal == signal.SIGTERM:
        # 24.11 counts helpers, and Slurm's own ends have no "by" a user.
        return step.end_s >= status.end_s and (step.raw_state == "CANCELLED" or _step_status(step) != worst)
    return step.signal == signal.SIGKILL and step.end_s >= status.end_s + KILL_WAIT_S


def _is_helper(step: JobStep, steps: Collection[JobStep]) -> bool:
    """True if a step is not the one that trained: another ran for most of its time, and ended well before it.

    A helper begins before the training and ends after it. Slurm's times are whole seconds: one may be a second off.
    """
    own = _span(step)
    for begin_s, end_s in map(_span, filter(is_well, steps)):
        shared_s, wanted_s = end_s - max(begin_s, own[0]), _MOST_OF_IT * (own[1] - own[0])
        if end_s <= own[1] and shared_s + 1 >= wanted_s and end_s - begin_s - 1 >= wanted_s + _MOST_OF_IT:
            return not step.exit_code
    return False


def _span(step: JobStep) -> tuple[float, float]:
    """Start and end of a step; NaN, unequal to any time, if unknown."""
    return math.nan if step.start_s is None else step.start_s, math.nan if step.end_s is None else step.end_s


def _step_status(step: JobStep) -> int:
    """A step's end as a status of wait(2); larger is worse, as Slurm counts."""
    return ((step.exit_code or 0) << 8) | step.signal
