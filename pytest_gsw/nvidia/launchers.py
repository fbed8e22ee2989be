"""How NVIDIA's recipes of release 25.04 and later are launched: their variables, and what stands for options of sbatch.

``nemo-run``: the launch script runs on this machine and submits the job; Megatron-Bridge's own scripts take arguments.
``llmb-run`` runs that script itself, by what it has installed. ``configured-sbatch``: sbatch, with a directory of the
experiment's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import from_here
from pytest_gsw.errors import RefusedError, SubmissionError
from pytest_gsw.jobs.files_before import directory_keys
from pytest_gsw.jobs.launching import VIRTUAL_ENVIRONMENTS, Launch, Told, launcher_for, tasks_per_node
from pytest_gsw.jobs.layout import FoundLog
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.reads import row_variables
from pytest_gsw.jobs.sbatch_options import options_in, value_of
from pytest_gsw.jobs.script_text import script_text
from pytest_gsw.jobs.spec import profiling_in
from pytest_gsw.nvidia import bridge, experiments
from pytest_gsw.nvidia.evidence import Task, task_beside
from pytest_gsw.nvidia.installations import installed_environment, of_llmb_run, workload_of
from pytest_gsw.tables.images import IMAGE_VARIABLE
from pytest_gsw.tables.model import Baseline

#: By the directory that is replayed, the logs in it of jobs that llmb-run has launched, each with its task.
Launched = dict[Path, list[tuple[FoundLog, Task]]]

#: By whom an option of sbatch is asked for where no command line is ours.
_ADDITIONAL = "ADDITIONAL_SLURM_PARAMS"
#: Variables that the recipes hand to sbatch, and so does sbatch itself.
_ALWAYS = {"account": "SBATCH_ACCOUNT", "partition": "SBATCH_PARTITION", "time": "TIME_LIMIT"}
#: Further variables of sbatch; they come before what a batch script says. Others have none, as ``--exclude``.
_OF_SBATCH = {
    "constraint": "SBATCH_CONSTRAINT",
    "gres": "SBATCH_GRES",
    "qos": "SBATCH_QOS",
    "wckey": "SBATCH_WCKEY",
    "reservation": "SBATCH_RESERVATION",
    "mem": "SBATCH_MEM_PER_NODE",
    "gpus-per-node": "SBATCH_GPUS_PER_NODE",
    "exclusive": "SBATCH_EXCLUSIVE",
    "no-requeue": "SBATCH_NO_REQUEUE",
    "signal": "SBATCH_SIGNAL",
}
#: Flags, which stand without a value.
_FLAGS = frozenset({"exclusive", "no-requeue"})

#: Nodes within one NVLink domain, and where a job is laid out by it.
_NVLINK_NODES = 18
_OF_ONE_NVLINK = frozenset({"gb200", "gb300"})

#: How a recipe of v25.05 or later is launched, in its metadata, and which launcher that is.
_LAUNCHER_TYPE = re.compile(
    r"^ {1,8}launcher_type:[ \t]{0,8}['\"]?([a-z_]{1,40})['\"]?(?=[ \t\r]{0,8}(?:$|[ \t]#))[^\n]{0,80}", re.MULTILINE
)
_LAUNCHED_BY = {
    "nemo": "nemo-run",
    "megatron_bridge": "nemo-run",
    "sbatch": "sbatch",
    "configured_sbatch": "configured-sbatch",
}


class Recipe(Launch):
    """A recipe that is given to sbatch.

    Args:
        baseline: The row.
        cluster: Where it runs.
        launched: What is found of a replay, for all rows of the session.
    """

    takes_arguments = False

    def __init__(self, baseline: Baseline, cluster: Cluster, launched: Launched) -> None:
        self.baseline = baseline
        self.cluster = cluster
        self._launched = launched

    def started(self, spec: JobSpec) -> JobSpec:
        """How the row is started so, by how sbatch would start it.

        Raises:
            SubmissionError: It cannot be.
        """
        recipe = self.baseline.recipe
        if recipe.arguments and not self.takes_arguments and self.cluster.scheduler == "slurm":
            raise SubmissionError(
                f"the launcher {self.name} gives {recipe.script} no arguments, and the row's table has some",
                (("baseline", str(self.baseline.location)),),
                advice="write 'launcher: nemo-run' below 'recipe' in the table, or leave the arguments out",
            )
        return replace(spec, launch=self)

    def told_by(self, output: str) -> Told:
        """By NeMo-Run's words or by llmb-run's."""
        return experiments.told_by(output)

    def logs_below(self, place: Path) -> Sequence[FoundLog]:
        """Those of jobs that llmb-run has launched, by what it says of each beside its log."""
        if place not in self._launched:
            logs = (FoundLog(log, job_id) for log, job_id in experiments.logs_below(place))
            told = ((log, task_beside(log.path, log.job_id)) for log in logs)
            self._launched[place] = [(log, task) for log, task in told if task is not None]
        return [log for log, task in self._launched[place] if task.is_of(self.baseline)]

    def problem(self, spec: JobSpec) -> SubmissionError | None:
        """Where the recipe says of itself that it is launched otherwise."""
        metadata = self.metadata_of(spec)
        text = script_text(metadata) or ""
        said = _LAUNCHER_TYPE.search(text)
        wanted = None if said is None else _LAUNCHED_BY.get(said[1])
        if said is None or wanted is None or self.launches(wanted):
            return None
        line = text.count("\n", 0, said.start()) + 1
        keys = directory_keys(spec, self.baseline, self.cluster)
        return SubmissionError(
            f"the recipe is launched by {wanted}, and the row by {self.name}",
            (("recipe", f"{from_here(metadata)}:{line}  {said[0].strip()}"), *keys),
            advice=f"set `launcher: {wanted}` in the cluster file, or in the table: recipe: {{launcher: {wanted}}}",
        )

    def metadata_of(self, spec: JobSpec) -> Path:
        """What a recipe says of itself, beside its script."""
        return spec.script_path.with_name("metadata.yaml")

    def launches(self, wanted: str) -> bool:
        """Whether a recipe that is launched so may be launched as this row is."""
        # With one of the two, the training would begin on this machine, or the job submit another one.
        return wanted != "nemo-run"


class Experiment(Recipe):
    """A recipe whose jobs have a directory each."""

    has_directory = True

    def started(self, spec: JobSpec) -> JobSpec:
        """With the variables that these recipes demand of whoever launches them, besides those of all recipes."""
        given = spec.environment
        own = {
            "JOB_TOTAL_GPUS": str(self.baseline.gpus),
            "GPU_TYPE": given.get("GPU_TYPE") or (self.cluster.accelerator or self.baseline.accelerator).lower(),
            "GPUS_PER_NODE": given.get("GPUS_PER_NODE") or str(tasks_per_node(self.baseline, self.cluster)),
        }
        environment = {**given, **own}
        unset = tuple(name for name in spec.unset if name not in environment)
        return super().started(replace(spec, environment=environment, unset=unset, log_glob="", batch_output=None))

    def environment(self, environment: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
        """With the recipe's virtual environment first in PATH, where its own variables name one.

        STAGE_PATH is taken away where LLMB_INSTALL says where all is: releases 25.05 to 25.08 do not start with both.
        """
        found = dict(environment)
        home = next(filter(None, map(spec.environment.get, VIRTUAL_ENVIRONMENTS)), None)
        if home:
            found["PATH"] = f"{home}/bin{os.pathsep}{found.get('PATH', os.defpath)}"
            found.pop("PYTHONHOME", None)
        if found.get("LLMB_INSTALL"):
            found.pop("STAGE_PATH", None)
        return found

    def log_in(self, directory: Path, job_id: str) -> Path:
        """That of its last start."""
        return experiments.log_in(directory, job_id)

    def batch_output_in(self, directory: Path, job_id: str) -> Path | None:
        """As NeMo-Run or sbatch names it."""
        return experiments.batch_output_in(directory, job_id)

    def job_id_of(self, log: str) -> str | None:
        """As NeMo-Run names logs."""
        return experiments.job_id_in_experiment(log)

    def place(self, spec: JobSpec) -> tuple[str, Path] | None:
        """Where llmb-run has its installation."""
        installed = spec.environment.get("LLMB_INSTALL", "")
        return ("LLMB_INSTALL", Path(installed)) if installed else None


class Configured(Experiment):
    """A recipe that is given to sbatch with a directory of the experiment's own."""

    name = "configured-sbatch"

    def started(self, spec: JobSpec) -> JobSpec:
        """With a directory for each job name, which no other session has."""
        spec = super().started(spec)
        row, root = self.baseline, spec.environment.get("LLMB_INSTALL") or str(spec.stage)
        workload = row.recipe.name.replace("/", "_")
        task = "_".join(filter(None, (workload, row.size, row.dtype, f"gpus{row.gpus}")))
        experiment = Path(root) / "workloads" / workload / "experiments" / task / spec.name
        at = len(spec.options) - len(self.cluster.sbatch)
        own = f"--ntasks-per-node={tasks_per_node(row, self.cluster)}"
        return replace(
            spec,
            environment={**spec.environment, "LLMB_EXPERIMENT_DIR": str(experiment)},
            options=(*spec.options[:at], own, *spec.options[at:]),  # of two, sbatch takes the cluster's
            batch_output=f"{experiment}/slurm-%j.out",
        )

    def options(self, spec: JobSpec) -> tuple[str, ...]:
        """``--segment`` where nodes are laid out by NVLink: the largest equal parts that fit into one domain."""
        wanted = spec.environment.get("GPU_TYPE") in _OF_ONE_NVLINK
        if not wanted or value_of(spec.options, "segment") is not None:
            return ()
        size = next(size for size in range(min(spec.nodes, _NVLINK_NODES), 0, -1) if spec.nodes % size == 0)
        return (f"--segment={size}",)


class _SubmitsItself(Experiment):
    """What submits the job itself."""

    submits_itself = True

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """What the recipes hand to sbatch.

        sbatch itself reads SBATCH_JOB_NAME, whatever a batch script has: by its name the job is found again if the
        script's answer is lost.
        """
        limit = {} if spec.time_limit_s is None else {"TIME_LIMIT": _clock(spec.time_limit_s)}
        return {**self.as_variables(spec), **limit, **_named_as(spec)}

    def as_variables(self, spec: JobSpec) -> dict[str, str]:
        """Options of sbatch as variables.

        Raises:
            RefusedError: One of them has no variable, and the launch script does not read what stands for all of them.
        """
        options = _asked(spec)
        variables = {_ALWAYS[name]: value or "" for name, value in options.items() if name in _ALWAYS}
        rest = {name: value for name, value in options.items() if name not in _ALWAYS}
        if self.reads_additional(spec):
            given = spec.environment.get(_ADDITIONAL, "")
            texts = [given, *(name if value is None else f"{name}={value}" for name, value in rest.items())]
            joined = ";".join(filter(None, texts))
            return variables | ({_ADDITIONAL: joined} if joined else {})
        return variables | _variables_of_sbatch(spec, rest)

    def reads_additional(self, spec: JobSpec) -> bool:
        """Whether what stands for all options is read."""
        return True


class NemoRun(_SubmitsItself):
    """A launch script that submits its job by NeMo-Run."""

    name = "nemo-run"
    takes_arguments = True

    def started(self, spec: JobSpec) -> JobSpec:
        """In the virtual environment of llmb-run's installation, where there is one and no other is named."""
        spec = super().started(spec)
        environment, install = spec.environment, spec.environment.get("LLMB_INSTALL")
        if install and environment.keys().isdisjoint(VIRTUAL_ENVIRONMENTS):
            environment = {**environment, **installed_environment(spec.script, install)}
        return self.told(replace(spec, environment=environment))

    def told(self, spec: JobSpec) -> JobSpec:
        """With the script's arguments."""
        return replace(spec, arguments=(*self.cluster.arguments, *self.baseline.recipe.arguments))

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The script with its arguments."""
        return (f"./{spec.script.name}", *spec.arguments)

    def reads_additional(self, spec: JobSpec) -> bool:
        """As the script says; of one that is not there nobody knows."""
        text = script_text(spec.script)
        return text is None or _ADDITIONAL in text

    def launches(self, wanted: str) -> bool:
        """No other recipe."""
        return wanted == self.name


class Bridge(NemoRun):
    """One of Megatron-Bridge's own launch scripts: it is told by arguments what others are told by variables."""

    reads_variables = False

    def told(self, spec: JobSpec) -> JobSpec:
        """With the row, its container and its size as arguments."""
        row, cluster = self.baseline, self.cluster
        if profiling_in(spec.environment) is not None:
            raise SubmissionError(
                f"{spec.script.name} profiles by its own arguments, and not as the session asks for it",
                (("baseline", str(row.location)),),
                advice=f"leave the profiling out, or run {spec.script} --help and profile by hand",
            )
        # Told without its value: after --env that may be a secret.
        changed = next(filter(bridge.changes_training, cluster.arguments), None)
        if changed is not None:
            name = changed.partition("=")[0]
            raise SubmissionError(
                f"the arguments of {cluster.name} change what is trained, which is the row's: {name}",
                (("baseline", str(row.location)),),
                advice="leave it out there, and write it as recipe.arguments of a table of your own; "
                "if it is the value of an option, write both as one word: --option=name=value",
            )
        image = bridge.image_for(row, spec.environment)
        layout = spec.nodes, int(spec.environment["GPUS_PER_NODE"])
        own = bridge.arguments_of(row, row.recipe.arguments, spec.script, layout, image)
        return replace(
            spec,
            # Whatever the shell exports, it is this one that runs.
            environment={**spec.environment, IMAGE_VARIABLE: image},
            arguments=(*cluster.arguments, *own),  # of two the scripts take the last one
        )

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """With what it is told of Slurm."""
        limit = None if spec.time_limit_s is None else _clock(spec.time_limit_s)
        return (*super().command(spec), *bridge.slurm_arguments(spec.script, _asked(spec), limit))

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """What has no value: all others are arguments."""
        self.command(spec)
        flags = {name: value for name, value in _asked(spec).items() if value is None}
        home = spec.environment.get("NEMORUN_HOME") or str(spec.stage)
        return {**_variables_of_sbatch(spec, flags), **_named_as(spec), "NEMORUN_HOME": home}


class LlmbRun(_SubmitsItself):
    """llmb-run, which runs its own copy of the recipe."""

    name = program = "llmb-run"
    runs_script = False
    reads_variables = False

    def started(self, spec: JobSpec) -> JobSpec:
        """Without what it would hand on to scripts that lie where it alone knows."""
        unset = dict.fromkeys((*row_variables(), *spec.unset))
        return super().started(replace(spec, unset=tuple(name for name in unset if name not in spec.environment)))

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """Its task, by what the row's variables say."""
        environment = spec.environment
        size = ("-s", environment["MODEL_SIZE"]) if "MODEL_SIZE" in environment else ()
        task = ("-w", spec.directory.name, *size, "--dtype", environment["DTYPE"], "--scale", str(spec.gpus))
        profile = ("--profile",) if environment.get("ENABLE_PROFILE") == "true" else ()
        return ("llmb-run", "submit", *task, *profile)

    def metadata_of(self, spec: JobSpec) -> Path:
        """The recipe's own, or that in the checkout of recipes that it launches it from."""
        beside = super().metadata_of(spec)
        if beside.is_file():
            return beside
        installed = (spec.directory.parent.parent, Path(spec.environment.get("LLMB_INSTALL", spec.directory)))
        configured = (of_llmb_run(place, *keys) for place in installed for keys in ((), ("launcher",)))
        repository = next((found["llmb_repo"] for found in configured if "llmb_repo" in found), None)
        found = () if repository is None else Path(repository).glob("**/metadata.yaml")
        return next((metadata for metadata in found if workload_of(metadata) == spec.directory.name), beside)

    def launches(self, wanted: str) -> bool:
        """All but those that it gives to sbatch itself: it does not say where such a job writes."""
        return wanted != Recipe.name


_LAUNCHERS: Mapping[str, type[Recipe]] = {one.name: one for one in (Recipe, Configured, NemoRun, LlmbRun)}


def launch_of(name: str, script: Path) -> type[Recipe]:
    """How a launcher of this name launches a script."""
    return Bridge if name == NemoRun.name and bridge.is_of_bridge(script) else _LAUNCHERS[name]


def launched(spec: JobSpec, baseline: Baseline, cluster: Cluster, found: Launched) -> JobSpec:
    """How a row is started by its launcher, by how sbatch would start it.

    Raises:
        SubmissionError: It cannot be.
    """
    if cluster.simulated:
        return spec
    if cluster.scheduler == "replay":  # nothing is started; it tells how logs are named
        name = baseline.recipe.launcher or Recipe.name
        return replace(spec, launch=launch_of(name, spec.script)(baseline, cluster, found))
    started = launch_of(launcher_for(baseline, cluster), spec.script)(baseline, cluster, found).started(spec)
    if started.submits_itself:
        started.launch.variables(started)  # what cannot be said to the script is told before anything is submitted
    return started


def _named_as(spec: JobSpec) -> dict[str, str]:
    # Where a program asks for the width of its lines, no path is broken in two.
    return {"SBATCH_JOB_NAME": spec.name, "COLUMNS": "10000"}


def _clock(seconds: float) -> str:
    """A time limit as the recipes have it, in whole minutes: ``00:55:00``."""
    hours, minutes = divmod(max(1, -int(-seconds // 60)), 60)
    return f"{hours:02}:{minutes:02}:00"


def _asked(spec: JobSpec) -> dict[str, str | None]:
    """The options of sbatch that a job is submitted with, by their long names."""
    options = _named(spec.options)
    own = (*spec.excluded_nodes, *spec.avoided_nodes)
    if own:
        options["exclude"] = ",".join(filter(None, (options.get("exclude"), *own)))
    return options


def _variables_of_sbatch(spec: JobSpec, options: Mapping[str, str | None]) -> dict[str, str]:
    """Options as sbatch's own variables."""
    variables: dict[str, str] = {}
    for name, value in options.items():
        if name not in _OF_SBATCH:
            raise RefusedError(
                f"{spec.script.name} submits the job itself, and takes no --{name}",
                (("script", str(spec.script)), ("reads", f"no {_ADDITIONAL}")),
                advice=f"leave --{name} out of the cluster's options, or let the script read {_ADDITIONAL}",
            )
        variables[_OF_SBATCH[name]] = "1" if name in _FLAGS else value or ""
    return variables


def _named(options: Sequence[str]) -> dict[str, str | None]:
    """Options of sbatch by their long names; one without a value has ``None``."""
    found: dict[str, str | None] = {}
    for option in options_in(options):
        if not option.name:
            raise RefusedError(
                f"{option.written} cannot be handed to a recipe that submits its job itself",
                advice="write the option's long form in the cluster's sbatch list, such as --qos=acceptance",
            )
        found[option.name] = option.value
    return found
