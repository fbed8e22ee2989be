"""Jobs on a Slurm cluster.

Three pure pieces (build an argument list, parse a text, map a state) around one call of a process.

Jobs are submitted in :mod:`~pytest_gsw.jobs.slurm.submission`; what has become of them is asked for in
:mod:`~pytest_gsw.jobs.slurm.poll`.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.words import counted, duration
from pytest_gsw.errors import JobError, LogError, SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.environment import job_environment, session_environment
from pytest_gsw.jobs.model import NEVER_STARTS, Job, JobSpec, JobState, JobStatus, Named
from pytest_gsw.jobs.ownership import SubmissionLock
from pytest_gsw.jobs.scripts import CLUSTER_VARIABLES, cluster_of, directive_words, seconds_of, value_of
from pytest_gsw.jobs.slurm.answers import scancel_problem
from pytest_gsw.jobs.slurm.client import COMMAND_TIMEOUT_S, QUERY_TIMEOUT_S, Ask, Client
from pytest_gsw.jobs.slurm.commands import (
    sacctmgr_qos_command,
    scancel_by_name_command,
    scancel_command,
    scontrol_config_command,
    scontrol_partitions_command,
)
from pytest_gsw.jobs.slurm.poll import Poller
from pytest_gsw.jobs.slurm.submission import Submissions
from pytest_gsw.tables.fields import nearest

# -- Partitions as ``scontrol`` tells of them, and jobs that would wait in one for ever -------------
#
# Slurm takes them all the same.


@dataclass(frozen=True)
class Partition:
    """What one partition has and allows; infinity stands for what has no limit, or is not told."""

    name: str
    is_default: bool
    nodes: float
    gpus: float
    least_nodes: float
    most_nodes: float
    longest_s: float


@dataclass(frozen=True)
class Request:
    """What jobs ask of Slurm by their options, by the environment, or by the launch script."""

    #: Any of them will do; none where it is the cluster's default one.
    partitions: tuple[str, ...]
    #: Where they ask for none by name, what they get is the nodes' affair.
    asks_for_gpus: bool
    #: Where a job has no limit of its own; ``None`` for the partition's.
    time_s: float | None
    #: They take less time, too.
    is_flexible: bool


@dataclass(frozen=True)
class Excess:
    """What a job asks for, and its partition does not give."""

    fact: str
    advice: str
    #: A QOS may allow it all the same.
    by_limit: bool = False


def parse_partitions(text: str) -> dict[str, Partition]:
    """The partitions in the answer to ``scontrol -o show partition``, one a line, by their names."""
    found: dict[str, Partition] = {}
    for line in text.split("\n"):
        facts = _pairs(line.split())
        name = facts.get("PartitionName")
        if name:
            found[name] = Partition(
                name,
                is_default=facts.get("Default") == "YES",
                nodes=_number(facts.get("TotalNodes")) or math.inf,
                gpus=_number(_pairs(facts.get("TRES", "").split(",")).get("gres/gpu")),
                least_nodes=_number(facts.get("MinNodes", "0")),
                most_nodes=_number(facts.get("MaxNodes")),
                longest_s=seconds_of(facts.get("MaxTime", "")) or math.inf,
            )
    return found


#: What else of the environment such a request rests on.
VARIABLES = ("SBATCH_PARTITION", "SBATCH_TIMELIMIT", "SBATCH_GRES", "SBATCH_GPUS_PER_NODE")


def request_of(spec: JobSpec, environ: Mapping[str, str]) -> Request:
    """What a job asks for. Options count before the environment, and that before the launch script."""
    script = directive_words(spec.script)

    def told(name: str, variable: str) -> str:
        given = spec.environment.get(variable, environ.get(variable, ""))
        return value_of(spec.options, name) or given or value_of(script, name) or ""

    named = told("partition", "SBATCH_PARTITION")
    gpus = "gpu" in told("gres", "SBATCH_GRES") or told("gpus-per-node", "SBATCH_GPUS_PER_NODE") != ""
    time_s = seconds_of(told("time", "SBATCH_TIMELIMIT"))
    is_flexible = value_of((*spec.options, *script), "time-min") is not None
    return Request(tuple(filter(None, named.split(","))), gpus, time_s, is_flexible)


def excess_of(spec: JobSpec, request: Request, partitions: Mapping[str, Partition]) -> Excess | None:
    """What keeps a job waiting for ever in each of its partitions, told of the first; ``None`` where one takes it."""
    names = request.partitions or [one.name for one in partitions.values() if one.is_default]
    excesses = [_excess_in(name, spec, request, partitions) for name in names]
    return excesses[0] if excesses and all(excesses) else None


def _excess_in(name: str, spec: JobSpec, request: Request, partitions: Mapping[str, Partition]) -> Excess | None:
    there = partitions.get(name)
    if there is None:
        return Excess(
            f"there is no partition {name}{nearest(name, partitions)}",
            "set `partition` in the cluster file; sinfo -a -s lists them",
        )
    nodes, advice = counted(spec.nodes, "node"), "run it in a partition that is large enough, or leave the row out"
    if spec.nodes > there.nodes:
        return Excess(f"the row needs {nodes}, and the partition {name} has {there.nodes:g}", advice)
    if request.asks_for_gpus and spec.gpus > there.gpus:
        return Excess(f"the row needs {spec.gpus} GPUs, and the partition {name} has {there.gpus:g}", advice)
    if spec.nodes > there.most_nodes:
        fact = f"the row needs {nodes}, and the partition {name} allows no more than {there.most_nodes:g}"
        return Excess(fact, advice, by_limit=True)
    if spec.nodes < there.least_nodes:
        fact = f"the row needs {nodes}, and the partition {name} takes jobs of {there.least_nodes:g} or more"
        return Excess(fact, "name another partition in the cluster file", by_limit=True)
    time_s = spec.time_limit_s or request.time_s
    if time_s is not None and time_s > there.longest_s and not request.is_flexible:
        return Excess(
            f"the job asks for {duration(time_s)}, and the partition {name} allows {duration(there.longest_s)}",
            f"--gsw-timeout={there.longest_s / 60:.0f} asks for no more; or name another partition in the cluster file",
            by_limit=True,
        )
    return None


def _pairs(words: Iterable[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _number(text: str | None) -> float:
    """A whole number; infinity for any other word, such as UNLIMITED."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else math.inf


# -- What of Slurm itself would keep jobs from running ----------------------------------------------
#
# Found before any is submitted, with one question for all of them. Only what is certain is found: where Slurm does
# not answer, or something may change what a job asks for, nothing is.


#: What of a job's own environment tells how it is submitted.
_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", *CLUSTER_VARIABLES, *VARIABLES)
#: A site's plugins that change what a job asks for, in ``scontrol show config``; these change no partition or limit.
_PLUGINS = re.compile(r"^(?:JobSubmitPlugins|CliFilterPlugins)\s*=\s*(.+?)\s*$", re.MULTILINE)
_HARMLESS_PLUGINS = frozenset({"(null)", "logging", "none", "require_timelimit", "throttle"})
#: A QOS with one of these flags lets its jobs take more than their partition allows; which one a job has is not known.
_OVER_LIMITS = re.compile(r"Partition(?:Max|Min)Nodes|PartitionTimeLimit")


def unready(specs: Sequence[JobSpec], ask: Ask, environ: Mapping[str, str]) -> dict[str, SubmissionError]:
    """By row, why its job would not run: there is no ``sbatch``, or its partition has too little for it."""
    found: dict[str, SubmissionError] = {}
    some: list[_Alike] = []
    for alike in _alike(specs):
        first = alike[0]
        # With the recipe's virtual environment, which has its program.
        path = job_environment(environ, first).get("PATH", os.defpath)
        command = first.launch.program
        if shutil.which(command, path=path) is None:
            found |= {spec.row_id: _not_on_path(command, path) for spec in alike}
        else:
            some.append((request_of(first, environ), alike))
    return found | _beyond_partitions(some, ask, cluster_of(specs[0])) if some else found


#: Jobs that ask for the same but for their sizes and limits.
_Alike = tuple[Request, Sequence[JobSpec]]


def _alike(specs: Sequence[JobSpec]) -> list[list[JobSpec]]:
    """The jobs by what tells Slurm what they ask for: many rows have one script, which is looked at once."""
    groups: dict[tuple[object, ...], list[JobSpec]] = {}
    for spec in specs:
        told = tuple([spec.environment.get(name) for name in _VARIABLES])
        groups.setdefault((spec.options, spec.script, spec.launch.name, told), []).append(spec)
    return list(groups.values())


def _not_on_path(command: str, path: str) -> SubmissionError:
    advice = "run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    if command != "sbatch":
        advice = f"name the virtual environment that has {command}: VIRTUAL_ENV in `environment` of the cluster"
    return SubmissionError(f"{command} is not on the PATH", (("PATH", path),), advice=advice)


def _beyond_partitions(some: Sequence[_Alike], ask: Ask, cluster: str) -> dict[str, SubmissionError]:
    command = scontrol_partitions_command(cluster)
    asked = ask(command)
    partitions = parse_partitions(asked.stdout) if asked.returncode == 0 else {}
    if not partitions:
        return {}
    excesses = {spec.row_id: excess_of(spec, request, partitions) for request, alike in some for spec in alike}
    sure = _certain([excess for excess in excesses.values() if excess is not None], ask, cluster)
    return {
        row_id: SubmissionError(excess.fact, (("asked", " ".join(command)),), advice=excess.advice)
        for row_id, excess in excesses.items()
        if excess in sure
    }


def _certain(excesses: Sequence[Excess], ask: Ask, cluster: str) -> list[Excess]:
    """Those that neither a site's plugin nor a QOS may set aside; asked only where there are any."""
    if not excesses:
        return []
    asked = ask(scontrol_config_command(cluster))
    plugins = {name.strip() for names in _PLUGINS.findall(asked.stdout) for name in names.split(",")}
    if asked.returncode or not plugins or plugins - _HARMLESS_PLUGINS:
        return []
    if any(excess.by_limit for excess in excesses):
        asked = ask(sacctmgr_qos_command())
        has_none = "not running a supported accounting_storage plugin" in asked.stderr
        if not has_none and (asked.returncode or _OVER_LIMITS.search(asked.stdout)):
            return [excess for excess in excesses if not excess.by_limit]
    return list(excesses)


class SlurmLauncher:
    """Submit, watch and end jobs by Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process when the launcher is made.
        query_timeout_s: How long one question may take.
        command_timeout_s: How long one submission or cancellation may take.
        lock: Held by each submission while it is under way.
        work_directory: Where what launch scripts say is kept; by default one of the machine's for temporary files.
    """

    name = "slurm"
    #: The keys of ``clusters.yaml`` that say how sbatch is called.
    cluster_keys = frozenset({"account", "partition", "gres", "constraint", "launcher", "sbatch", "arguments"})
    log_wait_s = 30.0
    #: With one question for all jobs this is 240 an hour, however many jobs there are.
    poll_interval_s = 15.0
    #: sbatch mostly waits for the controller; more at once than this only makes it busier.
    parallel_submissions = 8
    #: Questions take seconds on a busy controller; submissions and judging go on meanwhile.
    polls_in_a_thread = True
    jobs_outlive_session = True

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        command_timeout_s: float = COMMAND_TIMEOUT_S,
        lock: SubmissionLock | None = None,
        work_directory: Path | None = None,
    ) -> None:
        # Threads submit, and what they walk through must not change under them.
        self._client = Client(session_environment(environ), query_timeout_s, command_timeout_s)
        self._submissions = Submissions(self._client, lock, work_directory or Path(tempfile.gettempdir()))
        self._poller = Poller(self._client.ask)

    @cached_property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, as its commands tell it without asking the controller; "" where they do not."""
        return self._client.version

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, in the directory of the recipe."""
        return spec.launch.command(spec) if spec.submits_itself else self._client.sbatch_command(spec)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """By row, why its job would not run, as far as that is certain before anything is submitted."""
        return unready(specs, self._client.ask, self._client.environ)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job; see :meth:`.Submissions.submit`."""
        return self._submissions.submit(spec)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """A job whose answer was lost; see :meth:`.Submissions.find`."""
        return self._submissions.find(spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs of these rows; see :meth:`.Submissions.named`."""
        return self._submissions.named(specs, since_s)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Never raises; what could not be learnt is UNKNOWN."""
        statuses = self._poller.poll(jobs)
        for job in (job for job in jobs if statuses[job.spec.row_id].reason == NEVER_STARTS):
            status, why = statuses[job.spec.row_id], f"{NEVER_STARTS}{self._failed_before(job)}"
            statuses[job.spec.row_id] = replace(status, reason=why)
        return statuses

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs, and those that they wait for, with one request; those that have ended are no error.

        A job whose id was not yet seen with its name is asked about first: it may be another's.

        Raises:
            JobError: Slurm did not take the request, so that jobs may go on.
        """
        before = sorted(one.id for job in jobs for one in self._submissions.scripts.before(job))
        ids = [*(job.id for job in self._confirmed(jobs)), *before]
        if not ids:
            return
        command = scancel_command(ids, cluster_of(jobs[0].spec))
        problem = scancel_problem(self._client.act(command))
        if problem:
            raise JobError(f"jobs may still run: scancel failed: {problem}", advice=shlex.join(command))

    def find_log(self, job: Job) -> Path:
        """The one log of a job, where its recipe puts it.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        if not job.spec.launch.has_directory:
            return layout.log_of(job)
        directory = self._experiment_of(job)
        if directory is None:
            raise LogError(
                f"where job {job.id} writes is not known: its launch script did not say so",
                advice=f"scontrol show job {job.id} may tell; run the row again",
            )
        return job.spec.launch.log_in(directory, job.id)

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, where failures before training show; ``None`` if there is none."""
        if job.spec.launch.has_directory:
            directory = self._experiment_of(job)
            return None if directory is None else job.spec.launch.batch_output_in(directory, job.id)
        chosen = job.spec.batch_output
        usual = Path(chosen.replace("%j", job.id)) if chosen else job.spec.directory / f"slurm-{job.id}.out"
        if usual.is_file():
            return usual
        told = self._poller.output_of(job)
        return told if told is not None and told.is_file() else None

    def close(self) -> None:
        """Let go of the lock. Jobs that still run are not touched."""
        self._submissions.close()

    def _experiment_of(self, job: Job) -> Path | None:
        """The directory of a job's experiment: as configured, as its launch script has said, or where it writes."""
        if job.spec.batch_output is not None:
            return Path(job.spec.batch_output).parent
        told = self._submissions.scripts.directory_of(job)
        if told is not None:
            return told
        output = self._poller.output_of(job)
        return None if output is None else output.parent

    def _failed_before(self, job: Job) -> str:
        """Which of the jobs that a job waits for has failed, and where its log is; empty if unknown."""
        for one in self._submissions.scripts.before(job):
            its = one.status
            if its.state.ended and (its.state is not JobState.COMPLETED or its.exit_code):
                directory = self._submissions.scripts.directory_of(replace(job, id=one.id)) or Path()
                log = min(directory.glob(f"*_{one.id}*.out"), default=directory)  # log-… comes before sbatch_…
                return f": job {one.id} {its.state.value} {its.exit_code}:{its.signal}: look at {log}"
        return ""

    def _confirmed(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of the jobs that have their ids: an id alone may be another's job by now.

        Raises:
            JobError: That is not known.
        """
        unseen = [job for job in jobs if self._poller.bears_its_name(job) is None]
        problem = self._poller.ask_names(unseen)
        if problem:
            raise JobError(
                f"jobs may still run: whose their ids are is not known: {problem}",
                advice=" && ".join(shlex.join(scancel_by_name_command(job)) for job in unseen),
            )
        return [job for job in jobs if self._poller.bears_its_name(job)]
