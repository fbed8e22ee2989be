"""What of Slurm itself would keep jobs from running, found before any is submitted, with one question for all of them.

Only what is certain is found: where Slurm does not answer, or something may change what a job asks for, nothing is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.asking import Ask
from pytest_gsw.jobs.slurm.commands import (
    clusters_with_script,
    is_one,
    sacctmgr_qos_command,
    scontrol_config_command,
    scontrol_partitions_command,
)
from pytest_gsw.jobs.slurm.partitions import Excess, excess_of, parse_partitions, request_of

#: A site's plugins that change what a job asks for, in ``scontrol show config``; these change no partition or limit.
_PLUGINS = re.compile(r"^(?:JobSubmitPlugins|CliFilterPlugins)\s*=\s*(.+?)\s*$", re.MULTILINE)
_HARMLESS_PLUGINS = frozenset({"(null)", "logging", "none", "require_timelimit", "throttle"})
#: A QOS with one of these flags lets its jobs take more than their partition allows; which one a job has is not known.
_OVER_LIMITS = re.compile(r"Partition(?:Max|Min)Nodes|PartitionTimeLimit")


def unready(specs: Sequence[JobSpec], ask: Ask, environ: Mapping[str, str]) -> dict[str, SubmissionError]:
    """By row, why its job would not run: there is no ``sbatch``, or its partition has too little for it."""
    found = _without_sbatch(specs, environ)
    clusters: dict[str, list[JobSpec]] = {}
    for spec in specs:
        if spec.row_id not in found:
            clusters.setdefault(clusters_with_script(spec), []).append(spec)
    for cluster, some in clusters.items():
        if is_one(cluster):
            found |= _beyond_partitions(some, ask, environ, cluster)
    return found


def _without_sbatch(specs: Sequence[JobSpec], environ: Mapping[str, str]) -> dict[str, SubmissionError]:
    paths = {spec.row_id: spec.environment.get("PATH", environ.get("PATH", os.defpath)) for spec in specs}
    lacking = {path for path in set(paths.values()) if shutil.which("sbatch", path=path) is None}
    return {row_id: _no_sbatch(path) for row_id, path in paths.items() if path in lacking}


def _no_sbatch(path: str) -> SubmissionError:
    return SubmissionError(
        "sbatch is not on the PATH",
        (("PATH", path),),
        advice="run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm",
    )


def _beyond_partitions(
    specs: Sequence[JobSpec], ask: Ask, environ: Mapping[str, str], cluster: str
) -> dict[str, SubmissionError]:
    command = scontrol_partitions_command(cluster)
    asked = ask(command)
    partitions = parse_partitions(asked.stdout) if asked.returncode == 0 else {}
    if not partitions:
        return {}
    excesses = {spec.row_id: excess_of(request_of(spec, environ), partitions) for spec in specs}
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
