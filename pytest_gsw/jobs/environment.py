"""The environment of jobs and of queries to the scheduler, and its printable form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from pytest_gsw.clusters.model import CONTRACT_VARIABLES
from pytest_gsw.common.redact import MASK, fingerprint, is_secret, masked_text, printable
from pytest_gsw.common.text import one_line
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.tables.model import IMAGE_VARIABLE, image_of

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
_CHANGES_A_QUERY = ("SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")

#: Beginnings of the variables that tune the training libraries.
_OF_LIBRARIES = ("NCCL_", "CUDA_", "OMP_", "UCX_", "FI_", "XLA_", "JAX_", "NVTE_", "TORCH", "PYTORCH_")
#: Variables for a job's row and its output paths, which differ between rows and runs. The image is recorded by
#: itself.
_OF_THE_JOB = CONTRACT_VARIABLES | {
    *("LLMB_EXPERIMENT_DIR", "SRUN_OUTPUT", "SRUN_ERROR", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", IMAGE_VARIABLE),
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
    found = ((name, source.get(name)) for name in list(source))
    return MappingProxyType({name: value for name, value in found if value is not None})


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
    """The environment of Slurm's queries: without the user's formats, and with times as epoch seconds."""
    plain = {name: value for name, value in session.items() if not name.startswith(_CHANGES_A_QUERY)}
    return plain | {"SLURM_TIME_FORMAT": "%s"}


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
    found = inherited | {name: spec.environment[name] for name in own if not name.startswith(("GSW_", "SLURM_JOB"))}
    if len(found) > _MOST_KEPT:
        return None
    return {printable(name): _value(name, value, session, spec.environment) for name, value in sorted(found.items())}


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
