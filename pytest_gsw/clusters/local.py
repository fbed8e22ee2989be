"""Clusters made ready for a run, and this machine as one: its GPUs, by nvidia-smi, or else its cores."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.clusters.model import LOCAL, Cluster
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError

#: What stands for the accelerator where there is none: then a core is what a GPU is elsewhere.
CPU = "CPU"

_TIMEOUT_S = 30.0
_NO_DEVICES = "No devices were found"


@dataclass(frozen=True)
class Accelerators:
    """What a machine has to train on."""

    #: As tables name it: ``H200``, or :data:`CPU`.
    name: str
    #: GPUs, or cores.
    number: int


def ready_cluster(cluster: Cluster, directory: Path, environ: Mapping[str, str], demo: Mapping[str, str]) -> Cluster:
    """A cluster with all that its jobs need.

    Args:
        cluster: As its file has it.
        directory: The run's own, in which the built-in clusters have their staging area.
        environ: The session's environment.
        demo: What the simulated recipe is told.

    Raises:
        ConfigurationError: It has no staging area; or as :func:`find_accelerators` does.
    """
    if cluster is LOCAL:
        return local_cluster(cluster, directory, environ)
    if cluster.simulated:  # one recipe for every row
        recipes, environment = str(Path(__file__).parents[1] / "demo"), {"GSW_PYTHON": sys.executable, **demo}
        return replace(cluster, stage=str(directory / "stage"), recipes=recipes, environment=environment)
    if cluster.stage is None:
        raise ConfigurationError(
            f"the cluster '{cluster.name}' has no staging area\n"
            f"next: export STAGE_PATH=DIR, or write 'stage: DIR' for it in {cluster.path}"
        )
    return cluster


def local_cluster(cluster: Cluster, directory: Path, environ: Mapping[str, str]) -> Cluster:
    """The built-in cluster ``local`` with what this machine has; RUN_CONF_PYTHON, or else this Python, runs recipes."""
    found = find_accelerators(environ)
    return replace(
        cluster,
        accelerator=found.name,
        gpus=found.number,
        gpus_per_node=found.number,
        stage=str(directory / "stage"),
        environment={"RUN_CONF_PYTHON": environ.get("RUN_CONF_PYTHON") or sys.executable},
    )


def uses_gpus(cluster: Cluster) -> bool:
    """Whether what a cluster trains on are GPUs, and not the cores of its nodes, or nothing at all."""
    return not cluster.simulated and (cluster.accelerator or "").upper() != CPU


def find_accelerators(environ: Mapping[str, str]) -> Accelerators:
    """The GPUs that this process may use, or its cores where it may use none.

    ``CUDA_VISIBLE_DEVICES`` counts as it does for CUDA: where it names none, there is none.

    Raises:
        ConfigurationError: There is nvidia-smi, and it fails: a machine whose driver is broken is not one without GPUs.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is not None and visible.strip() in {"", "-1"} else _gpus(environ)
    if not names:
        return Accelerators(CPU, len(os.sched_getaffinity(0)))
    chosen = ["0"] * len(names) if visible is None else visible.split(",")
    first = int(chosen[0]) if chosen[0].isdecimal() else 0
    said = names[first] if first < len(names) else names[0]
    name = _named(said)
    # A slice of a GPU is not to be held against the figures of a whole one.
    return Accelerators(f"{name}-MIG" if chosen[0].startswith("MIG-") else name, min(len(names), len(chosen)))


def _gpus(environ: Mapping[str, str]) -> list[str]:
    """The names of all GPUs of the machine; none where nvidia-smi is not installed."""
    path = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if path is None:
        return []
    command = [path, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _broken(str(error), environ) from error
    if answer.stdout.strip() == _NO_DEVICES:
        return []
    if answer.returncode:
        raise _broken((answer.stdout + answer.stderr).strip(), environ)
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def _broken(said: str, environ: Mapping[str, str]) -> ConfigurationError:
    return ConfigurationError(
        f"nvidia-smi fails, so that nobody knows which GPUs this machine has\n{quoted(said, environ)}\n"
        "next: nvidia-smi; or, to train on the cores, export CUDA_VISIBLE_DEVICES="
    )


def _named(said: str) -> str:
    """A GPU's name as tables have it, by nvidia-smi's; GPUs that they do not know keep their own."""
    from pytest_gsw.tables.accelerators import ACCELERATORS  # a session that collects needs no table of peaks

    names = {one.device: one.name for one in ACCELERATORS if one.device}
    return names.get(said) or _as_a_name(said)


def _as_a_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.removeprefix("NVIDIA ")).strip("-") or "GPU"
