"""What of Slurm itself would keep jobs from running, found before any is submitted, with one question for all of them.

Only what is certain is found: where Slurm does not answer, or something may change what a job asks for, nothing is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.directives import CLUSTER_VARIABLES, cluster_of
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.client import Ask
from pytest_gsw.jobs.slurm.commands import (
    sacctmgr_qos_command,
    scontrol_config_command,
    scontrol_partitions_command,
)
from pytest_gsw.jobs.slurm.partitions import VARIABLES, Excess, Request, excess_of, parse_partitions, request_of

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
