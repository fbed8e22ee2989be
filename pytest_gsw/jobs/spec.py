"""From a row and a cluster to a :class:`JobSpec`: the recipe's own launch contract, filled in."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pytest_gsw.clusters import CONTRACT_VARIABLES, Cluster
from pytest_gsw.common.masks import MASK, is_secret
from pytest_gsw.common.redact import fingerprint, masked_text, printable
from pytest_gsw.common.text import hours_text, one_line, rounded
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import log_glob, slurm_name
from pytest_gsw.jobs.model import VIRTUAL_ENVIRONMENTS, JobSpec
from pytest_gsw.jobs.scripts import own_variables, requested_time_s, scripts_of, value_of
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import IMAGE_VARIABLE, Accepted, Baseline, Recipe, accepted_to_expect, image_of

#: Steps that a recipe runs when it traces NCCL (the Grok 1 document: "limited to the first 10 steps").
NCCL_TRACE_STEPS = 10

#: Start-up time of a job in estimates of its run time: container start, process-group set-up and compilation, from
#: the recipes' example logs.
START_UP_S = 300.0

#: The default limit on a job's run time: a multiple of the documented duration, and a minimum. A slower job is
#: certainly a regression, and start-up takes long on any cluster.
LIMIT_FACTOR = 3
LEAST_LIMIT_S = 1800.0

#: A placeholder in a cluster's value, after all braces were doubled.
_WORD = re.compile(r"\{(\{([a-z_]+)\})\}")

#: The recipes' variables that turn profiling or tracing on; the last spelling is that of NeMo 2 recipes.
PROFILING_VARIABLES = ("ENABLE_PROFILE", "ENABLE_NCCL_TRACE", "ENABLE_NCCLTRACE")


@dataclass(frozen=True)
class Profile:
    """Profiling as described in the Grok 1 document. A profiled run is never judged."""

    kind: Literal["nsight", "nccl-trace"]
    #: First and last step to profile, ``None`` for the recipe's own.
    steps: tuple[int, int] | None = None
    ranks: tuple[int, ...] = ()
    gpu_metrics: bool = False
    cpu_metrics: bool = False

    def environment(self) -> dict[str, str]:
        """The recipe's variables that turn this profiling on."""
        if self.kind == "nccl-trace":
            return {"ENABLE_NCCL_TRACE": "true"}
        variables = {"ENABLE_PROFILE": "true"}
        if self.steps is not None:
            variables["RUN_CONF_PROFILE_START_STEP"] = str(self.steps[0])
            variables["RUN_CONF_PROFILE_STOP_STEP"] = str(self.steps[1])
        if self.ranks:
            variables["RUN_CONF_PROFILE_RANKS"] = ",".join(map(str, self.ranks))
        flags = {"RUN_CONF_PROFILE_GPU_METRICS": self.gpu_metrics, "RUN_CONF_PROFILE_CPU": self.cpu_metrics}
        return variables | {name: "true" for name, is_on in flags.items() if is_on}


def profiling_in(environment: Mapping[str, str]) -> str | None:
    """The variable that turns profiling or tracing on in this environment, or ``None``.

    A profiled run "is not valid for comparison", even if the variable was left exported in the shell.
    """
    names = (name for name in PROFILING_VARIABLES if environment.get(name, "").lower() in {"1", "true", "yes", "on"})
    return next(names, None)


def nodes_for(baseline: Baseline, cluster: Cluster) -> int:
    """Nodes of the row on this cluster; raise a SubmissionError if its GPUs do not fill whole nodes."""
    per_node = cluster.gpus_per_node or baseline.gpus_per_node
    if baseline.gpus > per_node and baseline.gpus % per_node:
        raise SubmissionError(
            f"{baseline.gpus} GPUs do not fill whole nodes of {per_node} on {cluster.name}",
            advice=f"set gpus_per_node of {cluster.name} in {cluster.path} to what its nodes have",
        )
    return -(-baseline.gpus // per_node)


def steps_of(baseline: Baseline, *, traced: bool) -> int | None:
    """Steps of a run: fewer if NCCL is traced."""
    return NCCL_TRACE_STEPS if traced else baseline.recipe.steps


def expected_run_s(baseline: Baseline, accepted: Accepted | None = None) -> float | None:
    """Expected run time of a job by the documented step times or the cluster's accepted one; ``None`` if unknown."""
    step_time_s = baseline.documented.step_time_s
    if accepted is not None and baseline.judged_by is STEP_TIME:
        step_time_s = accepted.judged
    if baseline.recipe.steps is None or step_time_s is None:
        return None
    return start_up_s(baseline) + (baseline.recipe.steps_before + baseline.recipe.steps) * step_time_s


def start_up_s(baseline: Baseline) -> float:
    """The part of the expected run time that is allowed for start-up, of each of the recipe's runs."""
    return (2 if baseline.recipe.steps_before else 1) * START_UP_S


def estimate_text(rows: Iterable[tuple[Baseline, int]]) -> str:
    """The expected GPU-hours of rows, each with its number of jobs, with their start-up and their steps apart."""
    known = [(row, row.gpus * jobs / 3600, run_s) for row, jobs in rows if (run_s := expected_run_s(row)) is not None]
    if not known:
        return "run times not known"
    whole = sum(gpu_hours * run_s for _, gpu_hours, run_s in known)
    start_up = sum(gpu_hours * start_up_s(row) for row, gpu_hours, _ in known)
    parts = f"{hours_text(whole - start_up)} of documented steps, {hours_text(start_up)} allowed for start-up"
    return f"about {rounded(whole, 'GPU-hour')}: {parts}"


def default_time_limit_s(baseline: Baseline, cluster: Cluster, launch_script: Path | None = None) -> float | None:
    """The default limit on a row's run time, in seconds; ``None`` for the launch script's own.

    The script's own also applies if the document does not give the row's run time, or if the cluster's options or
    variables set a limit. No limit is below the script's own: its recipe may profile before it measures.
    """
    environment = {**cluster.environment, **baseline.recipe.environment}
    expected_s = expected_run_s(baseline, accepted_to_expect(baseline, cluster.name, image_of(environment)))
    given = value_of(cluster.submission.sbatch, "time") is not None
    given = given or not {"SBATCH_TIMELIMIT", "TIME_LIMIT"}.isdisjoint(environment)
    if expected_s is None or given:
        return None
    # The simulated cluster's script has no time of a row.
    asked_s = None if launch_script is None or cluster.simulated else requested_time_s(launch_script)
    return max(LEAST_LIMIT_S, LIMIT_FACTOR * expected_s, asked_s or 0.0)


def make_job_spec(
    baseline: Baseline,
    cluster: Cluster,
    *,
    run_id: str,
    profile: Profile | None = None,
    time_limit_s: float | None = None,
) -> JobSpec:
    """The spec of one row's job on one cluster, which must have a staging area; errors as of :func:`nodes_for`.

    The session's id makes the job's name unique. Without a given limit the run time has the default one, with
    profiling the script's own.
    """
    recipe, workload = baseline.recipe, baseline.workload
    stage = stage_of(cluster, baseline)
    directory = recipe_directory(cluster, baseline, stage)
    glob = log_glob(workload.framework, workload.model, workload.size, workload.dtype, baseline.gpus)
    environment = _environment(baseline, cluster, stage, profile)
    script = launch_script(cluster, baseline, directory)
    own = _own_variables(baseline, cluster, script, f"{stage}/{glob}")
    # A recipe that came with its table may be in a directory that users may not write to.
    written_to = stage if recipe.is_next_to_table else None
    return JobSpec(
        row_id=baseline.id,
        name=job_name(baseline, run_id),
        unique_name=not recipe.one_job_per_row,
        script=script,
        directory=directory,
        stage=stage,
        nodes=nodes_for(baseline, cluster),
        gpus=baseline.gpus,
        node_list=baseline.tile,
        environment={**{name: value for name, value in own.items() if value is not None}, **environment},
        # The value of another row or of the user's shell must not reach this row.
        unset=tuple(name for name, value in own.items() if value is None and name not in environment),
        options=_options(baseline, cluster),
        time_limit_s=time_limit_s or (None if profile else default_time_limit_s(baseline, cluster, script)),
        batch_output=None if written_to is None else f"{written_to}/slurm-%j.out",
        log_glob=glob,
    )


def job_name(baseline: Baseline, run_id: str) -> str:
    """The name of a row's job, with the session's id.

    The recipes fix one name and run "singleton" on it: one row at a time for each user. A name of its own lets rows run
    side by side. If two jobs of one row must not, the row's name without the session's id prevents that.
    """
    slug = slurm_name(baseline.id)
    return f"gsw-{slug}" if baseline.recipe.one_job_per_row else f"gsw-{run_id}-{slug}"


def stage_of(cluster: Cluster, baseline: Baseline) -> Path:
    """The staging area of a row's recipe."""
    return _path((cluster.stage or "").replace("{recipe}", baseline.recipe.name))


def recipe_directory(cluster: Cluster, baseline: Baseline, stage: Path) -> Path:
    """The directory of a row's recipe, from which it is submitted."""
    name = baseline.recipe.name
    if baseline.recipe.is_next_to_table and not cluster.simulated:
        return baseline.location.path.absolute().parent / name
    if cluster.recipes is None:
        return stage  # the recipe's setup.sh puts its launch script there
    if cluster.simulated:
        return _path(cluster.recipes)  # one simulated recipe replaces all of them
    if "{recipe}" in cluster.recipes:
        return _path(cluster.recipes.replace("{recipe}", name))
    return _path(cluster.recipes, name)


def launch_script(cluster: Cluster, baseline: Baseline, directory: Path) -> Path:
    """The launch script of a row's recipe, in this directory."""
    return _path(str(directory), Recipe.script if cluster.simulated else baseline.recipe.script)


@lru_cache(maxsize=256)
def _path(*parts: str) -> Path:
    """One shared object for all rows of a recipe: making one, or comparing two, costs more than the look-up."""
    return Path(*parts)


def _environment(baseline: Baseline, cluster: Cluster, stage: Path, profile: Profile | None) -> dict[str, str]:
    nodes, workload = nodes_for(baseline, cluster), baseline.workload
    given = configured_variables(baseline, cluster.environment, nodes)
    return {
        **({} if "LLMB_INSTALL" in given else {"STAGE_PATH": str(stage)}),
        "DTYPE": workload.dtype,
        **({} if workload.size is None else {"MODEL_SIZE": workload.size}),
        "NUM_NODES": str(nodes),
        "RUN_CONF_GPU_PER_NODE": str(min(baseline.gpus, cluster.gpus_per_node or baseline.gpus_per_node)),
        # The row, for recipes that keep a snapshot of their environment, and for the demo.
        "GSW_ROW": baseline.row_id,
        "GSW_BASELINE_FILE": str(baseline.location.path),
        # Without it each simulated job would start a second Python, which takes as long as its training.
        **({"GSW_DEMO_TRAINS": f"{workload.model} {workload.framework}"} if cluster.simulated else {}),
        # Rows may differ in these attributes only, and the script has to distinguish them.
        **{f"GSW_ROW_{name.upper()}": value for name, value in baseline.attributes.items()},
        **given,
        **(profile.environment() if profile else {}),
    }


def _own_variables(baseline: Baseline, cluster: Cluster, launch_script: Path, log_path: str) -> dict[str, str | None]:
    """The recipe's own variables that the row fixes, as far as its scripts read them; ``None`` unsets one."""
    no_size: dict[str, str | None] = {} if baseline.workload.size is not None else {"MODEL_SIZE": None}
    if cluster.scheduler == "replay":
        return no_size  # no recipe runs
    if cluster.simulated:
        steps = baseline.recipe.steps
        return no_size if steps is None else {**no_size, "MAX_STEPS": str(steps)}
    return {**no_size, **own_variables(baseline, scripts_of(launch_script), log_path)}


def configured_variables(baseline: Baseline, site: Mapping[str, str], nodes: int) -> dict[str, str]:
    """The variables that the site and the table set; the table's take precedence, being closer to the row.

    A variable whose placeholders the document does not give is left to the script.
    """
    own = baseline.recipe.environment
    if not own.keys().isdisjoint(VIRTUAL_ENVIRONMENTS):
        site = {name: text for name, text in site.items() if name not in VIRTUAL_ENVIRONMENTS}
    if not any("{" in text for texts in (site, own) for text in texts.values()):
        return {**site, **own}  # as of most rows
    facts = _placeholder_values(baseline, nodes)
    # Other braces in a cluster's value are literal: a secret may contain some.
    doubled = {name: text.replace("{", "{{").replace("}", "}}") for name, text in site.items()}
    templates = {name: _WORD.sub(lambda at: at[at[2] in facts], text) for name, text in doubled.items()}
    return {
        variable: template.format_map(facts)
        for variable, template in {**templates, **own}.items()
        if all(facts[name] is not None for _, name, _, _ in string.Formatter().parse(template) if name)
    }


def _placeholder_values(baseline: Baseline, nodes: int) -> dict[str, str | int | float | None]:
    """The values of :data:`~pytest_gsw.tables.schema.PLACEHOLDERS`; ``None`` for those that the document lacks."""
    return {
        **baseline.conditions,
        "workload": baseline.workload.name,
        "parameters_in_billions": baseline.workload.parameters_in_billions,
        "nodes": nodes,
        "steps": baseline.recipe.steps,
        "recipe": baseline.recipe.name,
    }


def _options(baseline: Baseline, cluster: Cluster) -> tuple[str, ...]:
    if cluster.scheduler != "slurm":
        return ()
    submission = cluster.submission
    named = {
        "--account": submission.account,
        "--partition": submission.partition,
        "--gres": submission.gres,
        "--constraint": submission.constraint,
        "--reservation": submission.reservation,
        "--dependency": "singleton" if baseline.recipe.one_job_per_row else None,
    }
    return (*(f"{option}={value}" for option, value in named.items() if value is not None), *submission.sbatch)


# -- The environment of jobs and of queries to the scheduler, and its printable form ---------------


#: Variables of the session that would change what a submission means, wherever pytest runs.
CHANGES_THE_SUBMISSION = frozenset(
    {
        # "h100:512" is sbatch's own syntax, but recipes take the value for the number of GPUs, and
        # so for the name of the directory of their results.
        "SBATCH_GPUS",
        # Without the variables of the session, a recipe falls back to its defaults: another model size.
        "SBATCH_EXPORT",
        "SLURM_EXPORT_ENV",
        # sbatch would not return before the job has ended.
        "SBATCH_WAIT",
        # One submission would make many jobs.
        "SBATCH_ARRAY_INX",
        # The job would go to a cluster that the session does not poll.
        "SBATCH_CLUSTERS",
        "SLURM_CLUSTERS",
        # All jobs would share one log, or log where the recipe does not.
        "SRUN_OUTPUT",
        "SRUN_ERROR",
        "SLURM_STDOUTMODE",
        "SLURM_STDERRMODE",
    }
)

#: The session's own variables: the location of its history, perhaps a URL with a password, and the password.
#: Recipes keep snapshots of their environment in their results.
_NOT_FOR_JOBS = frozenset({"GSW_HISTORY", "PGPASSWORD"})

#: Beginning of pytest's own variables, which change from test to test (``PYTEST_CURRENT_TEST``) or would change what a
#: job's own pytest does (``PYTEST_ADDOPTS``, ``PYTEST_XDIST_WORKER``).
_OF_PYTEST = "PYTEST_"

#: Variables that jobs inherit even if pytest itself runs inside a Slurm job. Slurm sets none of these in a
#: job: they are the user's choice of a cluster, and variables in the recipes' documents and scripts.
KEPT_INSIDE_A_JOB = frozenset({"SLURM_CONF", "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_MPI_TYPE"})

#: Beginnings of the variables that Slurm sets in a job. An inner ``srun`` reads them as options:
#: SLURM_NTASKS_PER_NODE, SLURM_GPUS_PER_NODE, SLURM_JOB_ID ("step of that other job") …
_SET_INSIDE_A_JOB = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "PMI2_")

#: Beginnings of the variables that change what Slurm's queries print.
_CHANGES_A_QUERY = ("SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")

#: Beginnings of the variables that tune the training libraries.
_OF_LIBRARIES = ("NCCL_", "CUDA_", "OMP_", "UCX_", "FI_", "XLA_", "JAX_", "NVTE_", "TORCH", "PYTORCH_")
#: Variables for a job's row and its output paths, which differ between rows and runs. The image is recorded by
#: itself.
_OF_THE_JOB = CONTRACT_VARIABLES | {
    *("LLMB_EXPERIMENT_DIR", "SRUN_OUTPUT", "SRUN_ERROR", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", IMAGE_VARIABLE)
}
#: Most recorded variables, and most recorded letters of each.
_MOST_KEPT = 200
_LONGEST_KEPT = 200


def session_environment(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """A copy of the session's environment as it is now.

    pytest and a site's fixtures set and delete variables while other threads submit jobs: iteration over ``os.environ``
    would then fail. A variable that is deleted before it is read counts as not set.
    """
    source: Mapping[str, str] = os.environ if environ is None else environ
    variables = ((name, source.get(name)) for name in list(source))
    return MappingProxyType({name: value for name, value in variables if value is not None})


def environment_of(cluster: Cluster | None) -> Mapping[str, str]:
    """The environment in which jobs are submitted to a cluster: its login node's, or this process's as it is now.

    Raises:
        ConfigurationError: There is no connection to the login node.
    """
    if cluster is None or cluster.mirror is None:
        return session_environment()
    from pytest_gsw.jobs.ssh.login import login_to  # few clusters have a login node

    return login_to(cluster).node().variables


def job_environment(session: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
    """The environment of a job's submission: the session's without misleading variables, plus the row's."""
    inside_a_job = _is_inside_a_job(session)
    inherited = {
        name: value for name, value in session.items() if _is_for_jobs(name, inside_a_job) and name not in spec.unset
    }
    environment = inherited | dict(spec.environment)
    return spec.launch.environment(environment, spec)


def job_variable(session: Mapping[str, str], spec: JobSpec, name: str) -> str:
    """One variable of that environment, empty if not set; not for variables that a virtual environment changes."""
    if name in spec.environment:
        return spec.environment[name]
    value = session.get(name, "")
    is_inherited = value and name not in spec.unset and _is_for_jobs(name, _is_inside_a_job(session))
    return value if is_inherited else ""


def job_image(session: Mapping[str, str], spec: JobSpec) -> str | None:
    """The image in a job's environment."""
    return image_of({IMAGE_VARIABLE: job_variable(session, spec, IMAGE_VARIABLE)})


def _is_inside_a_job(session: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in session or "SLURM_JOBID" in session


@lru_cache(maxsize=4096)
def _is_for_jobs(name: str, inside_a_job: bool) -> bool:
    """True if jobs inherit this variable; cached, since each job needs the same ones."""
    return (
        name not in CHANGES_THE_SUBMISSION
        and name not in _NOT_FOR_JOBS
        and not name.startswith(_OF_PYTEST)
        and not (inside_a_job and name.startswith(_SET_INSIDE_A_JOB) and name not in KEPT_INSIDE_A_JOB)
    )


def query_environment(session: Mapping[str, str]) -> dict[str, str]:
    """The environment of Slurm's queries: without the user's formats, with times as epoch seconds and given in UTC."""
    plain = {name: value for name, value in session.items() if not name.startswith(_CHANGES_A_QUERY)}
    return plain | {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC0"}


def masked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """A printable copy with secrets hidden, found by their values or their names."""
    return {name: MASK if value and is_secret(name) else masked_text(value) for name, value in environment.items()}


def kept_variables(session: Mapping[str, str], spec: JobSpec, taken: Iterable[str] = ()) -> dict[str, str] | None:
    """The job's variables for its record, by which a later run finds changes.

    Secrets are masked: a record shows if one was set, not if it changed.

    Args:
        session: The session's environment.
        spec: The job. Its own variables, from the row's table, the cluster or a hook, are kept.
        taken: Variables that the session exports and the launch script reads. Those of libraries are kept as well.

    Returns:
        Printable values by name; ``None`` if there are too many.
    """
    wanted = {*taken, *(name for name in session if name.startswith(_OF_LIBRARIES))}
    inherited = {name: value for name in wanted if (value := job_variable(session, spec, name))}
    own = spec.environment.keys() - _OF_THE_JOB
    kept = inherited | {name: spec.environment[name] for name in own if not name.startswith(("GSW_", "SLURM_JOB"))}
    if len(kept) > _MOST_KEPT:
        return None
    return {printable(name): _value(name, value, session, spec.environment) for name, value in sorted(kept.items())}


def _value(name: str, value: str, *environments: Mapping[str, str]) -> str:
    """A value as recorded; a long one is cut and gets a fingerprint, which shows changes in the rest."""
    shown = MASK if value and is_secret(name) else one_line(printable(masked_text(value, *environments)))
    return shown if len(shown) <= _LONGEST_KEPT else f"{shown[:_LONGEST_KEPT]}… ({fingerprint(shown)})"


def masked_command(argv: Sequence[str]) -> tuple[str, ...]:
    """A printable command: secrets in ``--api-key=x``, ``--export=ALL,HF_TOKEN=x`` and URLs are hidden."""
    return tuple(masked_text(_masked_argument(argument)) for argument in argv)


def _masked_argument(argument: str) -> str:
    """An argument with the values of secret names hidden, each up to a comma or a blank."""
    shown, hiding = "", False
    for piece in re.findall(r"[^=,\s]*[=,\s]?", argument):
        end = piece[-1:] if piece[-1:] in {"=", ","} or piece[-1:].isspace() else ""
        if not hiding:
            shown += piece
            if end == "=" and is_secret(piece[:-1].replace("-", "_")):
                hiding, shown = True, shown + MASK
        elif end != "=":
            hiding, shown = False, shown + end
    return shown
