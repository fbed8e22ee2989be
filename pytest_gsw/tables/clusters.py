"""Clusters: where rows run. ``clusters.yaml`` becomes :class:`Cluster` values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.yamlfile import Value, read_free_mapping

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


#: Every key of one cluster.
CLUSTER_FIELDS: f.Fields = {
    "scheduler": f.pattern(
        r"[a-z][a-z0-9_-]*",
        "slurm, local, or a name that a plugin provides",
        "How jobs start: slurm, local (processes on this machine), or a launcher of a plugin.",
        required=True,
    ),
    "account": f.text("Slurm account; SLURM_ACCOUNT or SBATCH_ACCOUNT by default."),
    "partition": f.text("Slurm partition; SLURM_PARTITION or SBATCH_PARTITION by default."),
    "accelerator": f.text("Accelerator of every node, such as H100. Rows of others are skipped."),
    "gpus_per_node": f.whole(
        "GPUs of one node; SLURM_GPUS_PER_NODE or SBATCH_GPUS_PER_NODE by default, else the row's."
    ),
    "gpus": f.whole("GPUs of the whole cluster. Rows that need more are skipped."),
    "gres": f.text("Generic resources of each node, such as gpu:8, where Slurm is configured with them."),
    "constraint": f.text("Features that the nodes must have."),
    "stage": f.text("Staging area (STAGE_PATH by default); {recipe} is the recipe's directory."),
    "recipes": f.text("Directory that holds the recipes' directories; the staging area by default."),
    "sbatch": f.Sequence_(None, "Further options of sbatch, one list entry each."),
    "environment": f.Nested(None, "Further variables for every job."),
    "tolerance": f.percentage("Accepted loss of throughput on this cluster."),
}


@dataclass(frozen=True)
class Cluster:
    """Where rows run: scheduler, hardware and staging area, with every variable filled in."""

    name: str
    scheduler: str
    account: str | None = None
    partition: str | None = None
    accelerator: str | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    gres: str | None = None
    constraint: str | None = None
    #: Staging area; ``{recipe}`` stands for the recipe's directory.
    stage: str | None = None
    #: Directory of the recipes' directories; ``{recipe}`` likewise.
    recipes: str | None = None
    sbatch: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    tolerance: float | None = None
    #: The file that defines it; ``None`` for the built-in ones.
    path: Path | None = None
    #: Whatever runs here is made up: its figures are labelled wherever they appear.
    simulated: bool = False


#: The cluster that needs nothing: a simulated recipe, run as processes on this machine.
DEMO = Cluster(name="demo", scheduler="local", gpus=4608, simulated=True)


def find_cluster(name: str, files: Sequence[Path], environ: Mapping[str, str]) -> Cluster:
    """The cluster of this name from the first of these files that defines it.

    Args:
        name: What ``--gsw-cluster`` says.
        files: ``clusters.yaml`` files in order of precedence; those that do not exist are passed over.
        environ: The environment that fills ``${VAR}`` and stands in for keys that are left out.

    Raises:
        FileError: A file is wrong, or a variable that the cluster uses is not set.
        ConfigurationError: No file defines the cluster.
    """
    known: dict[str, Path | None] = {DEMO.name: None}
    for path in files:
        if not path.is_file():
            continue
        clusters = read_free_mapping(path, "clusters", CLUSTER_FIELDS)
        if name in clusters:
            return _cluster(name, clusters[name], path, environ)
        known.update(dict.fromkeys(clusters, path))
    if name == DEMO.name:
        return DEMO
    looked_in = "\n".join(f"  {path}{'' if path.is_file() else ' (not there)'}" for path in files)
    raise ConfigurationError(
        f"no cluster '{name}'{f.nearest(name, known)}\n"
        f"known: {', '.join(sorted(known))}\n"
        f"looked in:\n{looked_in}\n"
        f"next: define '{name}' in one of these files, or give another with --gsw-clusters=FILE"
    )


def _cluster(name: str, value: Value, path: Path, environ: Mapping[str, str]) -> Cluster:
    faults: list[Fault] = []
    keys: dict[str, Any] = {}
    for key, entry in value.value.items():
        keys[key] = _filled(entry, f"clusters.{name}.{key}", environ, faults)
    if faults:
        raise FileError(path, tuple(faults))
    return Cluster(name=name, path=path, **{**_from_environment(environ), **keys})


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the documents' own variables say, for the keys that a file leaves out."""
    defaults: dict[str, Any] = {
        "account": environ.get("SBATCH_ACCOUNT") or environ.get("SLURM_ACCOUNT"),
        "partition": environ.get("SBATCH_PARTITION") or environ.get("SLURM_PARTITION"),
        "stage": environ.get("STAGE_PATH"),
    }
    # The documents tell users to set "8 or null"; anything but a plain number is Slurm's affair.
    per_node = environ.get("SBATCH_GPUS_PER_NODE") or environ.get("SLURM_GPUS_PER_NODE") or ""
    if re.fullmatch(r"[1-9]\d{0,3}", per_node):
        defaults["gpus_per_node"] = int(per_node)
    return {key: value for key, value in defaults.items() if value}


def _filled(entry: Value, key: str, environ: Mapping[str, str], faults: list[Fault]) -> Any:
    """A value with ``${VAR}`` replaced, in texts, lists of texts and mappings of texts."""
    if isinstance(entry.value, str):
        return _substitute(entry.value, entry, key, environ, faults)
    if isinstance(entry.value, tuple):
        return tuple(_filled(item, key, environ, faults) for item in entry.value)
    if isinstance(entry.value, dict):
        return {name: _substitute(text, entry, f"{key}.{name}", environ, faults) for name, text in entry.value.items()}
    return entry.value


def _substitute(text: str, place: Value, key: str, environ: Mapping[str, str], faults: list[Fault]) -> str:
    def replace(match: re.Match[str]) -> str:
        variable = match.group(1)
        if not environ.get(variable):  # an empty one too: "--account=" is no account
            problem = f"the variable {variable} is not set; export {variable}=… or write the value here"
            faults.append(Fault(place.line, place.column, key, problem))
            return ""
        return environ[variable]

    return re.sub(rf"\$\{{({_VARIABLE})\}}", replace, text)
