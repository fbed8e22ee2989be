"""Partitions as ``scontrol`` tells of them, and jobs that would wait in one for ever: Slurm takes them all the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_gsw.common.words import counted, duration
from pytest_gsw.jobs.directives import directive_words
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.sbatch_options import seconds_of, value_of
from pytest_gsw.tables.fields import nearest


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
