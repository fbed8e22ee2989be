"""Jobs: their specs (:class:`JobSpec`), their submissions (:class:`Job`), and the earlier jobs of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_gsw.errors import LogError, SubmissionError
from pytest_gsw.jobs.states import JobState, JobStatus

#: Suffix of the recipes' stderr in place of the log's ``.out``.
ERROR_SUFFIX = ".err"

#: Why a row was run again: a node was lost before its job began (the nodes follow), the job failed at once, or it could
#: not avoid nodes.
LOST_AT_START = "node lost"
AT_ONCE = "ended within a minute of its start"
NO_OTHER_NODE = "no other node was available"

#: The time limit of a job that its session ends, beyond that end.
BEYOND_S = 300.0

#: The variable with the number of a row's job in this session; unset in the first.
ATTEMPT = "GSW_ATTEMPT"

#: In the place of vboost in a record's environment, and as texts have it.
BOOST_NOT_SET = "boost not set"


#: The variables that name a virtual environment, of which a job has one.
VIRTUAL_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class FoundLog:
    """A log, its job, and the ids of the rows that it may be of; without any, the log itself shows its row."""

    path: Path
    job_id: str
    rows: tuple[str, ...] = ()


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

    def older_command(self, command: tuple[str, ...], errors: str) -> tuple[str, ...] | None:
        """The command of an older program, which refused this one with such errors; ``None`` if there is none."""
        return None

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
    #: Seconds that are left of a row's time when it is submitted, without waits in the queue; the session ends it then.
    #: ``None`` if it ends by itself.
    left_s: float | None = None
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

    def with_left(self, left_s: float) -> JobSpec:
        """The job with so much left of its row's time: the scheduler's limit is not far beyond the session's."""
        limit_s = self.time_limit_s
        return replace(self, left_s=left_s, time_limit_s=limit_s and min(limit_s, left_s + BEYOND_S))

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
        spec = spec.again(avoiding=self.excluded_nodes) if self.avoids else spec.again(self.excluded_nodes)
        return spec if spec.left_s is None else spec.with_left(max(0.0, spec.left_s - (self.status.run_s or 0.0)))


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
