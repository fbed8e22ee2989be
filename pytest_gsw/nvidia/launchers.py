"""Launchers of NVIDIA's recipes of release 25.04 and later: their variables, and equivalents of sbatch's options.

``nemo-run``: the launch script runs on this machine and submits the job; Megatron-Bridge's own scripts take arguments.
``llmb-run`` runs that script itself, from its own installation. ``configured-sbatch``: sbatch, with a directory of
the experiment's own.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import printable
from pytest_gsw.errors import FileError, LogError, RefusedError, SubmissionError
from pytest_gsw.jobs.model import VIRTUAL_ENVIRONMENTS, ExperimentInfo, FoundLog, JobSpec, Launch
from pytest_gsw.jobs.named_log import named_log, with_log
from pytest_gsw.jobs.preflight import directory_keys
from pytest_gsw.jobs.scripts import options_in, row_variables, script_text, value_of
from pytest_gsw.jobs.spec import environment_of, profiling_in
from pytest_gsw.nvidia.evidence import task_of_log
from pytest_gsw.tables.model import IMAGE_VARIABLE, Baseline
from pytest_gsw.tables.releases import container_of, is_container
from pytest_gsw.tables.yaml_values import Stated, read_spelling

#: The variable for options of sbatch if the recipe makes the command line.
_ADDITIONAL = "ADDITIONAL_SLURM_PARAMS"
#: Variables of options that the recipes pass on to sbatch.
_ALWAYS = {"account": "SBATCH_ACCOUNT", "partition": "SBATCH_PARTITION", "time": "TIME_LIMIT"}
#: Further variables of sbatch; they override a batch script. Other options have none, such as ``--exclude``.
_OF_SBATCH = {
    **{name: f"SBATCH_{name.upper()}" for name in ("constraint", "gres", "qos", "wckey", "reservation", "signal")},
    "mem": "SBATCH_MEM_PER_NODE",
    "gpus-per-node": "SBATCH_GPUS_PER_NODE",
    "exclusive": "SBATCH_EXCLUSIVE",
    "no-requeue": "SBATCH_NO_REQUEUE",
}

#: Nodes within one NVLink domain, and accelerators whose jobs are placed by it.
_NVLINK_NODES = 18
_OF_ONE_NVLINK = frozenset({"gb200", "gb300"})

#: The launcher type in the metadata of a recipe of v25.05 or later, and the launcher for each.
_LAUNCHER_TYPE = re.compile(
    r"^ {1,8}launcher_type:[ \t]{0,8}['\"]?([a-z_]{1,40})['\"]?(?=[ \t\r]{0,8}(?:$|[ \t]#))[^\n]{0,80}", re.MULTILINE
)
_LAUNCHED_BY = {
    "nemo": "nemo-run",
    "megatron_bridge": "nemo-run",
    "sbatch": "sbatch",
    "configured_sbatch": "configured-sbatch",
}

#: NeMo-Run appends a time to the experiment's name.
_EXPERIMENT = re.compile(r"^[ \t]{0,8}Experiment Status for (\S{1,400})_\d{1,18}[ \t]{0,8}$", re.MULTILINE)
_TASK = re.compile(r"^[ \t]{0,8}Task (\d{1,6}):[ \t]{0,8}(\S{0,400})", re.MULTILINE)
_JOB = re.compile(r"^[ \t]{0,16}- Job id:[ \t]{1,8}(\d{1,18})[ \t]{0,8}$", re.MULTILINE)
_PLACE = re.compile(r"^[ \t]{0,16}- Local Directory:[ \t]{1,8}(/[^\n]{0,4000})$", re.MULTILINE)
#: llmb-run's own lines for a job, of either kind of launcher.
_LLMB_RUN = re.compile(r"^JobID: (\d{1,18}), Workdir: (/[^\n]{0,4000})$", re.MULTILINE)
_LLMB_RUN_SBATCH = re.compile(
    r"^SUBMITTED: [^\n]{0,400}\bjobid=(\d{1,18})(?:;\S{1,255})?(?: workdir=(/[^\n]{0,4000}))?[ \t]{0,8}$", re.MULTILINE
)
_LOG = re.compile(r"log-.{1,240}_(?P<job>\d{1,18})_(?P<start>\d{1,9})\.out")
_BATCH_OUTPUT = re.compile(r"(?:sbatch_.{1,240}_|slurm-)(?P<job>\d{1,18})\.out")
_SHOWN = 5
_EXPERIMENTS = "experiments"
#: The file of llmb-run's installer on an installation.
_INSTALLED = "cluster_config.yaml"
#: Paths of experiments below an installation, its workloads, and one of these or a staging area.
_BELOW = ("workloads/*/experiments", "*/experiments", "experiments")
#: Depth of directories: of an experiment's tasks of one name, of one run, and of one task.
_DEEPEST = 4


#: The repositories of the recipes and of Megatron-Bridge's scripts.
_RECIPES_OF, _BRIDGE = "https://github.com/NVIDIA/dgxc-benchmarking", "https://github.com/NVIDIA-NeMo/Megatron-Bridge"
_TRAIN = "train.sh"
#: The two scripts, each with its names of the options for the time limit and the image.
_SCRIPTS = {_TRAIN: ("--time", "--container-image"), "setup_experiment.py": ("--time_limit", "--container_image")}
#: Names of family and recipe in ``setup_experiment.py``, by workload.
_RECIPES: Mapping[str, tuple[str, str]] = {
    "deepseek_v3": ("deepseek", "deepseek_v3"),
    "deepseek_v4_flash": ("deepseek", "deepseek_v4_flash"),
    "gpt_oss_120b": ("gpt_oss", "gpt_oss_120b"),
    "kimi_k2": ("kimi", "kimi_k2"),
    "llama3_8b": ("llama", "llama3_8b"),
    "llama3_70b": ("llama", "llama3_70b"),
    "llama3.1_405b": ("llama", "llama31_405b"),
    "nemotron3_nano": ("nemotronh", "nemotron_3_nano"),
    "nemotron3_super": ("nemotronh", "nemotron_3_super"),
    "nemotron3_ultra": ("nemotronh", "nemotron_3_ultra"),
    "nemotron3.5_lightning": ("nemotronh", "nemotron_3_5_lightning"),
    "qwen3_30b": ("qwen", "qwen3_30b_a3b"),
    "qwen3_235b": ("qwen", "qwen3_235b_a22b"),
}
_PRECISIONS = {"bf16": "bf16", "fp8": "fp8_cs", "mxfp8": "fp8_mx", "nvfp4": "nvfp4"}
#: Path of a run's configuration in its container: NeMo-Run mounts the experiment's directory there.
_CONFIGURATION = "/nemo_run/configs/ConfigContainer.yaml"
#: Options that change a recipe and that the row's own do not override.
_LAYOUT = (
    *("--tensor_model_parallel_size", "--pipeline_model_parallel_size", "--virtual_pipeline_model_parallel_size"),
    *("--context_parallel_size", "--expert_model_parallel_size", "--expert_tensor_parallel_size", "--config_variant"),
)
_SHORT = frozenset({"-tp", "-pp", "-vp", "-cp", "-ep", "-et", "-cv"})
#: Length of the shortest unique prefix of such an option.
_LEAST = len("--tensor")
#: Rows of other tasks name them at the end of their ids.
_TASKS = ("sft", "lora")


class RecipeScripts(Launch):
    """A recipe that is submitted by sbatch.

    Args:
        baseline: The row.
        cluster: Its cluster.
    """

    takes_arguments = False

    def __init__(self, baseline: Baseline, cluster: Cluster) -> None:
        self.baseline = baseline
        self.cluster = cluster
        self._environ = os.environ if cluster.mirror is None else environment_of(cluster)
        tags = [f"v{release}" for release in baseline.source.releases if not is_container(release)]
        self.fetch = f"git clone --branch={tags[-1]} {_RECIPES_OF}" if tags else self.fetch
        #: Why the log that its script names could not be found; ``None`` if it can.
        self._log_error: SubmissionError | None = None

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec for this launcher, from the spec for sbatch.

        Raises:
            SubmissionError: It cannot be launched this way.
        """
        recipe = self.baseline.recipe
        if recipe.arguments and not self.takes_arguments and self.cluster.scheduler == "slurm":
            raise SubmissionError(
                f"the launcher {self.name} gives {recipe.script} no arguments, and the row's table has some",
                (("baseline", str(self.baseline.location)),),
                advice="write 'launcher: nemo-run' below 'recipe' in the table, or leave the arguments out",
            )
        launched = replace(spec, launch=self)
        log = named_log(launched, self._environ) if self.cluster.scheduler == "slurm" else None
        self._log_error = log if isinstance(log, SubmissionError) else None
        return with_log(launched, self.cluster.here(log)) if isinstance(log, str) else launched

    def read_output(self, output: str) -> ExperimentInfo:
        """The jobs in a launch script's output, by NeMo-Run's lines or llmb-run's.

        Each task of an experiment waits for the one before it. The last one trains, and has the experiment's name.
        """
        output = printable(output)  # FORCE_COLOR may be exported
        own = dict.fromkeys((*_LLMB_RUN.findall(output), *_LLMB_RUN_SBATCH.findall(output)))
        # The launched script may print the id of the same job as well.
        jobs = tuple(dict.fromkeys((*(job_id for job_id, _ in own), *_JOB.findall(output))))

        def failed(problem: str) -> ExperimentInfo:
            return ExperimentInfo(problem=problem, job_ids=jobs)

        if own:
            if len(own) > 1 or len(jobs) > 1:
                return failed(f"it names {max(len(own), len(jobs))} jobs, and one row is one job")
            ((job_id, place),) = own
            return ExperimentInfo(job_id, Path(place.rstrip()) if place else None, job_ids=jobs)
        before, *parts = _TASK.split(output)
        numbers, names, texts = parts[::3], parts[1::3], parts[2::3]
        if not texts:
            return failed("its output has no line 'Task 0:'")
        experiment = _EXPERIMENT.search(before)
        is_chain = experiment is not None and experiment[1] == names[-1] and len(jobs) == len(texts)
        if numbers != [*map(str, range(len(texts)))] or (len(texts) > 1 and not is_chain):
            return failed(f"its output has the tasks {', '.join(numbers[:_SHOWN])}, and one row is one job, task 0")
        tasks = []
        for number, text in zip(numbers, (before + texts[0], *texts[1:]), strict=True):
            ids, places = list(dict.fromkeys(_JOB.findall(text))), _PLACE.findall(text)
            for name, values in (("Job id", ids), ("Local Directory", places)):
                if len(values) != 1:
                    return failed(f"task {number} in its output has {len(values) or 'no'} '- {name}:'")
            tasks.append((ids[0], Path(places[0].rstrip())))
        return ExperimentInfo(*tasks[-1], job_ids=jobs, waits_for=tuple(tasks[:-1]))

    def problem(self, spec: JobSpec) -> SubmissionError | None:
        """The error of a recipe whose metadata require another launcher, or whose log could not be found."""
        metadata = self.metadata_of(spec)
        text = script_text(metadata) or ""
        match = _LAUNCHER_TYPE.search(text)
        wanted = None if match is None else _LAUNCHED_BY.get(match[1])
        if match is None or wanted is None or self.launches(wanted):
            # A site may have changed the spec since, and so mended it.
            log = None if self._log_error is None else named_log(spec, self._environ)
            return log if isinstance(log, SubmissionError) else None
        line = text.count("\n", 0, match.start()) + 1
        keys = directory_keys(spec, self.baseline, self.cluster)
        return SubmissionError(
            f"the recipe is launched by {wanted}, and the row by {self.name}",
            (("recipe", f"{relative_path(metadata)}:{line}  {match[0].strip()}"), *keys),
            advice=f"set `launcher: {wanted}` in the cluster file, or in the table: recipe: {{launcher: {wanted}}}",
        )

    def metadata_of(self, spec: JobSpec) -> Path:
        """A recipe's metadata, next to its script."""
        return spec.script_path.with_name("metadata.yaml")

    def launches(self, wanted: str) -> bool:
        """True if a recipe with this launcher may be launched as this row is."""
        # With one of the two, the training would begin on this machine, or the job submit another one.
        return wanted != "nemo-run"


class Experiment(RecipeScripts):
    """A recipe whose jobs have a directory each."""

    has_directory = True
    home = "LLMB_INSTALL"

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec with the additional variables that these recipes require."""
        given = spec.environment
        own = {
            "JOB_TOTAL_GPUS": str(self.baseline.gpus),
            "GPU_TYPE": given.get("GPU_TYPE") or (self.cluster.accelerator or self.baseline.accelerator).lower(),
            "GPUS_PER_NODE": given.get("GPUS_PER_NODE") or str(_tasks_per_node(self.baseline, self.cluster)),
        }
        environment = {**given, **own}
        unset = tuple(name for name in spec.unset if name not in environment)
        return super().started(replace(spec, environment=environment, unset=unset, log_glob="", batch_output=None))

    def environment(self, environment: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
        """The environment with the recipe's virtual environment first in PATH, if its own variables name one.

        STAGE_PATH is removed if LLMB_INSTALL is set: releases 25.05 to 25.08 do not start with both.
        """
        variables = dict(environment)
        home = next(filter(None, map(spec.environment.get, VIRTUAL_ENVIRONMENTS)), None)
        if home:
            variables["PATH"] = f"{home}/bin{os.pathsep}{variables.get('PATH', os.defpath)}"
            variables.pop("PYTHONHOME", None)
        if variables.get("LLMB_INSTALL"):
            variables.pop("STAGE_PATH", None)
        return variables

    def log_in(self, directory: Path, job_id: str) -> Path:
        """A job's log in its experiment's directory: that of its last start.

        Raises:
            LogError: There is none (yet).
        """
        names = _names_in(directory)
        logs = filter(None, map(_LOG.fullmatch, names))
        starts = [(int(log["start"]), log[0]) for log in logs if log["job"] == job_id]
        if starts:
            return directory / max(starts)[1]
        if f"slurm-{job_id}.out" in names:
            return directory / f"slurm-{job_id}.out"
        near = tuple(("there is", str(directory / name)) for name in names[-_SHOWN:])
        raise LogError(
            f"no log of job {job_id}",
            (("searched", f"{directory}/log-*_{job_id}_*.out"), *(near or (("there is", f"nothing in {directory}"),))),
            advice=f"ls -lt {directory}",
        )

    def batch_output_in(self, directory: Path, job_id: str) -> Path | None:
        """The batch shell's output of a job, next to its log; ``None`` if there is none."""
        outputs = filter(None, map(_BATCH_OUTPUT.fullmatch, _names_in(directory)))
        return next((directory / output[0] for output in outputs if output["job"] == job_id), None)

    def job_id_of(self, log: str) -> str | None:
        """The job's id in the name of a log in an experiment's directory; ``None`` for other names."""
        match = _LOG.fullmatch(log)
        return None if match is None else match["job"]


class Configured(Experiment):
    """A recipe that is submitted by sbatch with a directory of the experiment's own."""

    name = "configured-sbatch"

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec with a directory for each job name, which no other session has."""
        spec = super().started(spec)
        row, root = self.baseline, spec.environment.get("LLMB_INSTALL") or str(spec.stage)
        workload = row.recipe.name.replace("/", "_")
        task = "_".join(filter(None, (workload, row.workload.size, row.workload.dtype, f"gpus{row.gpus}")))
        experiment = Path(root) / "workloads" / workload / "experiments" / task / spec.name
        at = len(spec.options) - len(self.cluster.submission.sbatch)
        own = f"--ntasks-per-node={_tasks_per_node(row, self.cluster)}"
        return replace(
            spec,
            environment={**spec.environment, "LLMB_EXPERIMENT_DIR": str(experiment)},
            options=(*spec.options[:at], own, *spec.options[at:]),  # the cluster's options override it
            batch_output=f"{experiment}/slurm-%j.out",
        )

    def options(self, spec: JobSpec) -> tuple[str, ...]:
        """``--segment`` if nodes are placed by NVLink: the largest equal parts that fit into one domain."""
        wanted = spec.environment.get("GPU_TYPE") in _OF_ONE_NVLINK
        if not wanted or value_of(spec.options, "segment") is not None:
            return ()
        size = next(size for size in range(min(spec.nodes, _NVLINK_NODES), 0, -1) if spec.nodes % size == 0)
        return (f"--segment={size}",)


class _SubmitsItself(Experiment):
    """A launcher that submits the job itself."""

    submits_itself = True

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """The variables that the recipes pass on to sbatch.

        sbatch itself reads SBATCH_JOB_NAME, which overrides a batch script: by its name the job is found again if the
        script's answer is lost.

        Raises:
            RefusedError: An option has no variable, and the launch script does not read the one for all options.
        """
        limit = {} if spec.time_limit_s is None else {"TIME_LIMIT": _clock(spec.time_limit_s)}
        options = _sbatch_options(spec)
        variables = {_ALWAYS[name]: value or "" for name, value in options.items() if name in _ALWAYS}
        rest = {name: value for name, value in options.items() if name not in _ALWAYS}
        text = script_text(spec.script) if self.runs_script else None
        # A script that is missing, or is llmb-run's own, counts as one that reads the variable for all options.
        if text is None or _ADDITIONAL in text:
            given = spec.environment.get(_ADDITIONAL, "")
            texts = [given, *(name if value is None else f"{name}={value}" for name, value in rest.items())]
            joined = ";".join(filter(None, texts))
            variables |= {_ADDITIONAL: joined} if joined else {}
        else:
            variables |= _variables_of_sbatch(spec, rest)
        return {**variables, **limit, **_naming_variables(spec)}


class NemoRun(_SubmitsItself):
    """A launch script that submits its job by NeMo-Run."""

    name = "nemo-run"
    takes_arguments = True

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec with its arguments, in the virtual environment of llmb-run's installation if no other is named."""
        spec = super().started(spec)
        environment, install = spec.environment, spec.environment.get("LLMB_INSTALL")
        if install and environment.keys().isdisjoint(VIRTUAL_ENVIRONMENTS):
            environment = {**environment, **_installed_environment(spec.script, self.cluster.here(install))}
        arguments = (*self.cluster.submission.arguments, *self.baseline.recipe.arguments)
        return replace(spec, environment=environment, arguments=arguments)

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The script with its arguments."""
        return (f"./{spec.script.name}", *spec.arguments)

    def launches(self, wanted: str) -> bool:
        """True for its own recipes only."""
        return wanted == self.name


class Bridge(NemoRun):
    """One of Megatron-Bridge's own launch scripts, which take arguments instead of variables."""

    reads_variables = False
    fetch = f"git clone {_BRIDGE}, git switch to the branch of its container"

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec with the row, its container and its size as arguments."""
        spec, row, cluster = super().started(spec), self.baseline, self.cluster
        if profiling_in(spec.environment) is not None:
            raise SubmissionError(
                f"{spec.script.name} profiles by its own arguments, and not as the session asks for it",
                (("baseline", str(row.location)),),
                advice=f"leave the profiling out, or run {spec.script} --help and profile by hand",
            )
        # Reported without its value, which may be a secret after --env.
        changed = next(filter(_changes_training, cluster.submission.arguments), None)
        if changed is not None:
            name = changed.partition("=")[0]
            raise SubmissionError(
                f"the arguments of {cluster.name} change what is trained, which is the row's: {name}",
                (("baseline", str(row.location)),),
                advice="leave it out there, and write it as recipe.arguments of a table of your own; "
                "if it is the value of an option, write both as one word: --option=name=value",
            )
        image = _image_for(row, spec.environment)
        own, script, per_node = row.recipe.arguments, spec.script, spec.environment["GPUS_PER_NODE"]
        if script.name == _TRAIN:
            if not own:
                raise _row_error(row, "name its recipe and settings as recipe.arguments of the table")
            # The other script writes the configuration there by itself.
            selected = (*own, f"logger.save_config_filepath={_CONFIGURATION}")
            size = ("--nodes", str(spec.nodes), "--gpus-per-node", per_node)
        else:
            selected = own or _selectors(row, script)
            size = ("--num_gpus", str(row.gpus), "--gpus_per_node", per_node)
        return replace(
            spec,
            # This image overrides any that the shell exports.
            environment={**spec.environment, IMAGE_VARIABLE: image},
            # The scripts use the last of two values.
            arguments=(*cluster.submission.arguments, *selected, *size, _SCRIPTS[script.name][1], image),
        )

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The command with its Slurm arguments."""
        limit = None if spec.time_limit_s is None else _clock(spec.time_limit_s)
        return (*super().command(spec), *_slurm_arguments(spec.script, _sbatch_options(spec), limit))

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """Variables for options without a value: all others are arguments."""
        self.command(spec)
        flags = {name: value for name, value in _sbatch_options(spec).items() if value is None}
        home = spec.environment.get("NEMORUN_HOME") or str(spec.stage)
        return {**_variables_of_sbatch(spec, flags), **_naming_variables(spec), "NEMORUN_HOME": home}


class LlmbRun(_SubmitsItself):
    """llmb-run, which runs its own copy of the recipe."""

    name = program = "llmb-run"
    runs_script = False
    reads_variables = False

    def started(self, spec: JobSpec) -> JobSpec:
        """The spec without variables that llmb-run would pass on to its own scripts."""
        unset = dict.fromkeys((*row_variables(), *spec.unset))
        return super().started(replace(spec, unset=tuple(name for name in unset if name not in spec.environment)))

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """Its task, from the row's variables."""
        environment = spec.environment
        size = ("-s", environment["MODEL_SIZE"]) if "MODEL_SIZE" in environment else ()
        task = ("-w", spec.directory.name, *size, "--dtype", environment["DTYPE"], "--scale", str(spec.gpus))
        profile = ("--profile",) if environment.get("ENABLE_PROFILE") == "true" else ()
        return ("llmb-run", "submit", *task, *profile)

    def older_command(self, command: tuple[str, ...], errors: str) -> tuple[str, ...] | None:
        """The command of llmb-run before 26.02."""
        if "invalid choice: 'submit'" not in errors:
            return None
        return tuple("single" if word == "submit" else word for word in command)

    def metadata_of(self, spec: JobSpec) -> Path:
        """The recipe's own metadata, or those in the checkout of recipes that it launches it from."""
        beside = super().metadata_of(spec)
        if beside.is_file():
            return beside
        installed = (
            spec.directory.parent.parent,
            Path(self.cluster.here(spec.environment.get("LLMB_INSTALL", str(spec.directory)))),
        )
        configured = (_texts_at(place / _INSTALLED, *keys) for place in installed for keys in ((), ("launcher",)))
        repository = next((found["llmb_repo"] for found in configured if "llmb_repo" in found), None)
        found = () if repository is None else _metadata_below(repository)
        return next((metadata for metadata in found if _workload_of(metadata) == spec.directory.name), beside)

    def launches(self, wanted: str) -> bool:
        """True for all recipes except those submitted by sbatch: llmb-run does not print the directory of such jobs."""
        return wanted != RecipeScripts.name


_LAUNCHERS: Mapping[str, type[RecipeScripts]] = {one.name: one for one in (RecipeScripts, Configured, NemoRun, LlmbRun)}


def launched(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> JobSpec:
    """The spec of a row's job with the launcher of its table, or else of its cluster.

    Raises:
        SubmissionError: It cannot be launched this way.
    """
    is_replay = cluster.scheduler == "replay"  # the launcher determines the names of logs
    name = baseline.recipe.launcher or (not is_replay and cluster.submission.launcher) or RecipeScripts.name
    if name != RecipeScripts.name and cluster.scheduler not in {"slurm", "replay"}:
        raise SubmissionError(
            f"the launcher {name} submits jobs to Slurm, and {cluster.name} has the scheduler {cluster.scheduler}",
            (("baseline", str(baseline.location)),),
            advice="run the row on a cluster with 'scheduler: slurm', or leave 'launcher' out",
        )
    kind = Bridge if name == NemoRun.name and spec.script.name in _SCRIPTS else _LAUNCHERS[name]
    launch = kind(baseline, cluster)
    if is_replay:
        return replace(spec, launch=launch)
    started = launch.started(spec)
    launch.variables(started)  # raises before any submission for options that cannot be passed to the script
    return started


def _tasks_per_node(baseline: Baseline, cluster: Cluster) -> int:
    """Tasks of a job on each node, one for each GPU."""
    return min(baseline.gpus, cluster.gpus_per_node or baseline.gpus_per_node)


def _naming_variables(spec: JobSpec) -> dict[str, str]:
    # COLUMNS prevents programs from wrapping paths.
    return {"SBATCH_JOB_NAME": spec.name, "COLUMNS": "10000"}


def _clock(seconds: float) -> str:
    """A time limit in the recipes' form, in whole minutes: ``00:55:00``."""
    hours, minutes = divmod(max(1, -int(-seconds // 60)), 60)
    return f"{hours:02}:{minutes:02}:00"


def _sbatch_options(spec: JobSpec) -> dict[str, str | None]:
    """The options of sbatch for a job, by their long names."""
    options: dict[str, str | None] = {}
    for option in options_in(spec.options):
        if not option.name:
            raise RefusedError(
                f"{option.written} cannot be handed to a recipe that submits its job itself",
                advice="write the option's long form in the cluster's sbatch list, such as --qos=acceptance",
            )
        options[option.name] = option.value
    own = (*spec.excluded_nodes, *spec.avoided_nodes)
    if own:
        options["exclude"] = ",".join(filter(None, (options.get("exclude"), *own)))
    if spec.node_list:
        options["nodelist"] = spec.node_list
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
        is_flag = name in {"exclusive", "no-requeue"}
        variables[_OF_SBATCH[name]] = "1" if is_flag else value or ""
    return variables


def launched_logs(place: Path, rows: Sequence[Baseline]) -> list[FoundLog]:
    """The logs below a directory of jobs that llmb-run has launched, with their rows, by its file next to each."""
    found = []
    for log, job_id in _logs_below(place):
        task = task_of_log(log, job_id)
        if task is not None and (of_log := tuple(row.id for row in rows if task.is_of(row))):
            found.append(FoundLog(log, job_id, of_log))
    return found


def _logs_below(place: Path) -> list[tuple[Path, str]]:
    """The log of the last start of each job, with the job's id, in all experiments of a place.

    The place is an installation (``$LLMB_INSTALL``), its workloads, one of these, a staging area, or a directory in its
    experiments. Other directories of an installation are skipped: they may have millions of files.
    """
    roots = [place]
    if _EXPERIMENTS not in place.parts:
        roots = sorted(root for pattern in _BELOW for root in place.glob(pattern))
    logs: dict[tuple[str, str], tuple[int, str]] = {}
    for root in roots:
        for directory, below, names in os.walk(root):
            if directory.count(os.sep) - str(root).count(os.sep) >= _DEEPEST:
                below.clear()
            for log in filter(None, map(_LOG.fullmatch, names)):
                key = directory, log["job"]
                logs[key] = max(logs.get(key, (-1, "")), (int(log["start"]), log[0]))
            for output in filter(None, map(_BATCH_OUTPUT.fullmatch, names)):
                if output[0].startswith("slurm-") and f"llmb-config_{output['job']}.yaml" in names:
                    logs.setdefault((directory, output["job"]), (-1, output[0]))
    return [(Path(directory, name), job_id) for (directory, job_id), (_, name) in sorted(logs.items())]


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []  # does not exist yet


def _changes_training(word: str) -> bool:
    """True if an argument of a cluster changes the training: a setting of the recipe, or its layout."""
    name = word.partition("=")[0]
    if not word.startswith("-"):
        return name != word
    return name in _SHORT or (len(name) >= _LEAST and any(option.startswith(name) for option in _LAYOUT))


def _slurm_arguments(script: Path, options: Mapping[str, str | None], limit: str | None) -> tuple[str, ...]:
    """A script's Slurm arguments, from options of sbatch with a value, by their long names.

    Raises:
        RefusedError: A required one is missing.
    """
    for name in ("account", "partition"):
        if not options.get(name):
            raise RefusedError(
                f"{script.name} submits the job itself, and asks for its {name}",
                (("script", str(script)),),
                advice=f"write '{name}: NAME' at the cluster, or export SLURM_{name.upper()}",
            )
    given = {name: value for name, value in options.items() if value is not None}
    time = given.pop("time", limit)
    named = [(f"--{name}", given.pop(name)) for name in ("account", "partition", "gres") if name in given]
    if time is not None:
        named.append((_SCRIPTS[script.name][0], time))
    if given:
        named.append(("--additional_slurm_params", ";".join(f"{name}={value}" for name, value in given.items())))
    return tuple(word for pair in named for word in pair)


def _selectors(baseline: Baseline, script: Path) -> tuple[str, ...]:
    """The recipe of a row of the summaries, from the row's facts."""
    recipe, precision = _RECIPES.get(baseline.workload.name), _PRECISIONS.get(baseline.workload.dtype)
    if recipe is None or precision is None:
        raise _row_error(
            baseline, "name it as recipe.arguments of a table: --model_family_name, --model_recipe_name, …"
        )
    parser = script_text(script.with_name("argument_parser.py"))
    if parser is not None and "--model_recipe_name" not in parser:
        raise _row_error(
            baseline, "its checkout is older than container 26.02: git switch to the branch of the container"
        )
    task = next((task for task in _TASKS if baseline.id.endswith(f"-{task}]")), "pretrain")
    facts = {
        "--max_steps": baseline.recipe.steps,
        "--global_batch_size": baseline.batch.global_batch_size,
        "--micro_batch_size": baseline.batch.micro_batch_size,
        "--seq_length": baseline.workload.sequence_length,
    }
    chosen = ("--model_family_name", recipe[0], "--model_recipe_name", recipe[1], "--task", task)
    target = ("--gpu", baseline.accelerator.lower(), "--compute_dtype", precision)
    arguments = (word for name, value in facts.items() if value is not None for word in (name, str(value)))
    return (*chosen, *target, *arguments)


def _image_for(baseline: Baseline, environment: Mapping[str, str]) -> str:
    """The container of the job: its variables' choice, if it matches the row, else the row's own.

    Raises:
        SubmissionError: The table states none, or the choice does not match.
    """
    containers = [release for release in baseline.source.releases if is_container(release)]
    stated = baseline.recipe.image or baseline.attributes.get("container")
    stated = stated or next((f"nvcr.io/nvidia/{release}" for release in containers), None)
    chosen = environment.get(IMAGE_VARIABLE, "").strip()
    if not chosen and stated is None:
        raise _row_error(baseline, f"name its container: recipe.image of the table, or {IMAGE_VARIABLE} of the cluster")
    ran, wanted = container_of(chosen), container_of(stated or "")
    if ran is not None and wanted is not None and ran != wanted:
        raise SubmissionError(
            f"the row's figures are of {wanted}, and {IMAGE_VARIABLE} chooses {ran}",
            (("image", chosen), ("baseline", str(baseline.location))),
            advice=f"choose an image of {wanted}, or run the rows of the other: --gsw-release={ran}",
        )
    return chosen or str(stated)


def _row_error(baseline: Baseline, advice: str) -> SubmissionError:
    return SubmissionError(
        "the row lacks settings that Megatron-Bridge needs", (("baseline", str(baseline.location)),), advice=advice
    )


def _installed_environment(script: Path, install: str) -> dict[str, str]:
    """The virtual environment of a recipe that llmb-run's installer made."""
    own = _texts_at(Path(install, _INSTALLED), "workloads", "config", _workload_of(script.with_name("metadata.yaml")))
    variable = "CONDA_PREFIX" if own.get("venv_type") == "conda" else "VIRTUAL_ENV"
    return {variable: own["venv_path"]} if "venv_path" in own else {}


#: Most directories of a clone that are looked at, and their depth: the setting may name a whole file system.
_MOST_DIRECTORIES, _DEPTH = 2000, 5


@lru_cache(maxsize=8)  # the rows of a session have few clones
def _metadata_below(repository: str) -> tuple[Path, ...]:
    """The metadata of all recipes in a clone; what vanishes meanwhile, or cannot be read, is left out."""
    files = []
    for place, below, names in itertools.islice(os.walk(repository), _MOST_DIRECTORIES):
        is_deep = place.count(os.sep) - repository.count(os.sep) >= _DEPTH
        below[:] = [] if is_deep else sorted(name for name in below if not name.startswith("."))
        files += [Path(place, name) for name in names if name == "metadata.yaml"]
    return tuple(files)


def _workload_of(metadata: Path) -> str:
    """llmb-run's name of a recipe, from its metadata: ``pretrain_llama3.1``."""
    general = _texts_at(metadata, "general")
    return "_".join(general.get(key, "") for key in ("workload_type", "workload"))


@lru_cache(maxsize=64)  # the rows of a session have few recipes
def _texts_at(path: Path, *keys: str) -> dict[str, str]:
    """The texts of a mapping within a YAML file; empty if the file has no such mapping, or cannot be read."""
    try:
        node: object = read_spelling(path)
    except FileError:
        return {}
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return {key: one.text for key, one in node.items() if isinstance(one, Stated)} if isinstance(node, Mapping) else {}
