"""How the recipes of release 25.04 and later are launched: their variables, and what stands for options of sbatch.

``nemo-run``: the launch script runs on this machine and submits the job. ``llmb-run`` runs that script itself, by what
it has installed. ``configured-sbatch``: sbatch, with a directory of the experiment's own. Pure functions, but for a
look into the launch script.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.errors import FileError, RefusedError, SubmissionError
from pytest_gsw.jobs.bridge import is_of_bridge, slurm_arguments
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.sbatch_options import options_in, value_of
from pytest_gsw.jobs.script_text import script_text
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.yamlfile import Stated, read_spelling

SBATCH = "sbatch"

#: The variables that name a virtual environment, of which a job has one.
VIRTUAL_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")

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


def launcher_for(baseline: Baseline, cluster: Cluster) -> str:
    """How a row's job is submitted on a cluster: as its table says, or else the cluster.

    Raises:
        SubmissionError: It cannot be so there.
    """
    if cluster.simulated or cluster.scheduler == "replay":
        return SBATCH
    launcher = baseline.recipe.launcher or cluster.launcher or SBATCH
    if launcher != SBATCH and cluster.scheduler != "slurm":
        raise SubmissionError(
            f"the launcher {launcher} submits jobs to Slurm, and {cluster.name} has the scheduler {cluster.scheduler}",
            (("baseline", str(baseline.location)),),
            advice="run the row on a cluster with 'scheduler: slurm', or leave 'launcher' out",
        )
    return launcher


def experiment_directory(baseline: Baseline, environment: Mapping[str, str], stage: Path, name: str) -> Path:
    """Where a configured job writes: a directory for each job name, which no other session has."""
    root = environment.get("LLMB_INSTALL") or str(stage)
    workload = baseline.recipe.name.replace("/", "_")
    task = "_".join(filter(None, (workload, baseline.size, baseline.dtype, f"gpus{baseline.gpus}")))
    return Path(root) / "workloads" / workload / "experiments" / task / name


def experiment_environment(
    baseline: Baseline, cluster: Cluster, given: Mapping[str, str], experiment: Path | None
) -> dict[str, str]:
    """The variables that these recipes demand of whoever launches them, besides those of all recipes."""
    return {
        "JOB_TOTAL_GPUS": str(baseline.gpus),
        "GPU_TYPE": given.get("GPU_TYPE") or (cluster.accelerator or baseline.accelerator).lower(),
        "GPUS_PER_NODE": given.get("GPUS_PER_NODE") or str(tasks_per_node(baseline, cluster)),
        **({} if experiment is None else {"LLMB_EXPERIMENT_DIR": str(experiment)}),
    }


def segment_options(spec: JobSpec) -> tuple[str, ...]:
    """``--segment`` for a job whose nodes are laid out by NVLink: the largest equal parts that fit into one domain."""
    wanted = spec.launcher == "configured-sbatch" and spec.environment.get("GPU_TYPE") in _OF_ONE_NVLINK
    if not wanted or value_of(spec.options, "segment") is not None:
        return ()
    size = next(size for size in range(min(spec.nodes, _NVLINK_NODES), 0, -1) if spec.nodes % size == 0)
    return (f"--segment={size}",)


def installed_environment(script: Path, install: str) -> dict[str, str]:
    """The virtual environment of a recipe that llmb-run's installer made."""
    own = of_llmb_run(Path(install), "workloads", "config", workload_of(script.with_name("metadata.yaml")))
    variable = "CONDA_PREFIX" if own.get("venv_type") == "conda" else "VIRTUAL_ENV"
    return {variable: own["venv_path"]} if "venv_path" in own else {}


def of_llmb_run(install: Path, *keys: str) -> dict[str, str]:
    """The texts at these keys of what llmb-run's installer has written down of an installation."""
    return _texts_at(install / "cluster_config.yaml", *keys)


def workload_of(metadata: Path) -> str:
    """The name that llmb-run has for a recipe, as its metadata say it: ``pretrain_llama3.1``."""
    general = _texts_at(metadata, "general")
    return "_".join(general.get(key, "") for key in ("workload_type", "workload"))


@lru_cache(maxsize=64)  # the rows of a session have few recipes
def _texts_at(path: Path, *keys: str) -> dict[str, str]:
    """The texts of a mapping within a YAML file; none if the file has no such mapping, or cannot be read."""
    try:
        node: object = read_spelling(path)
    except FileError:
        return {}
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return {key: one.text for key, one in node.items() if isinstance(one, Stated)} if isinstance(node, Mapping) else {}


def tasks_per_node(baseline: Baseline, cluster: Cluster) -> int:
    """Tasks that a job starts on each node, one for each GPU."""
    return min(baseline.gpus, cluster.gpus_per_node or baseline.gpus_per_node)


def launch_command(spec: JobSpec) -> tuple[str, ...]:
    """What is run in the recipe's directory so that the recipe, or llmb-run, submits the job."""
    if spec.launcher == "nemo-run":
        slurm: tuple[str, ...] = ()
        if is_of_bridge(spec.script):
            limit = None if spec.time_limit_s is None else _clock(spec.time_limit_s)
            slurm = slurm_arguments(spec.script, _asked(spec), limit)
        return (f"./{spec.script.name}", *spec.arguments, *slurm)
    environment = spec.environment
    size = ("-s", environment["MODEL_SIZE"]) if "MODEL_SIZE" in environment else ()
    task = ("-w", spec.directory.name, *size, "--dtype", environment["DTYPE"], "--scale", str(spec.gpus))
    profile = ("--profile",) if environment.get("ENABLE_PROFILE") == "true" else ()
    return ("llmb-run", "submit", *task, *profile)


def launch_variables(spec: JobSpec) -> dict[str, str]:
    """What says to a script that submits the job what the command line of sbatch says elsewhere.

    sbatch itself reads SBATCH_JOB_NAME, whatever a batch script has: by its name the job is found again if the script's
    answer is lost.

    Raises:
        RefusedError: An option of sbatch cannot be said so.
    """
    # Where a program asks for the width of its lines, no path is broken in two.
    own = {"SBATCH_JOB_NAME": spec.name, "COLUMNS": "10000"}
    if is_of_bridge(spec.script):
        launch_command(spec)  # has all that has a value
        flags = {name: value for name, value in _asked(spec).items() if value is None}
        home = spec.environment.get("NEMORUN_HOME") or str(spec.stage)
        return {**_variables_of_sbatch(spec, flags), **own, "NEMORUN_HOME": home}
    limit = {} if spec.time_limit_s is None else {"TIME_LIMIT": _clock(spec.time_limit_s)}
    return {**_options_as_variables(spec), **limit, **own}


def with_virtual_environment(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Variables with the recipe's virtual environment first in PATH, where its own variables name one.

    STAGE_PATH is taken away where LLMB_INSTALL says where all is: releases 25.05 to 25.08 do not start with both.
    """
    found = dict(environment)
    home = next(filter(None, map(own.get, VIRTUAL_ENVIRONMENTS)), None)
    if home:
        found["PATH"] = f"{home}/bin{os.pathsep}{found.get('PATH', os.defpath)}"
        found.pop("PYTHONHOME", None)
    if found.get("LLMB_INSTALL"):
        found.pop("STAGE_PATH", None)
    return found


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


def _options_as_variables(spec: JobSpec) -> dict[str, str]:
    """Options of sbatch as variables.

    Raises:
        RefusedError: One of them has no variable, and the launch script does not read what stands for all of them.
    """
    options = _asked(spec)
    variables = {_ALWAYS[name]: value or "" for name, value in options.items() if name in _ALWAYS}
    rest = {name: value for name, value in options.items() if name not in _ALWAYS}
    if spec.launcher == "llmb-run" or _names_additional(spec.script):
        given = spec.environment.get(_ADDITIONAL, "")
        texts = [given, *(name if value is None else f"{name}={value}" for name, value in rest.items())]
        joined = ";".join(filter(None, texts))
        return variables | ({_ADDITIONAL: joined} if joined else {})
    return variables | _variables_of_sbatch(spec, rest)


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


def _names_additional(script: Path) -> bool:
    """Whether a launch script reads what stands for all options; of one that is not there nobody knows."""
    text = script_text(script)
    return text is None or _ADDITIONAL in text
