"""Nodes that jobs of a run have shared: a neighbour makes a row slower, and looks like a regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_gsw.results.nodes import expand
from pytest_gsw.results.record import Record


@dataclass(frozen=True)
class Crowd:
    """What ran on one node at once, and took more than the node has."""

    node: str
    jobs: int
    gpus: int


@dataclass(frozen=True)
class _Part:
    """One job's part on one of its nodes; times are seconds since the epoch."""

    start_s: float
    end_s: float
    gpus: int


def worst_crowd(records: Iterable[Record], gpus_per_node: int) -> tuple[Crowd, int] | None:
    """Where the most GPUs were in use at once, and on how many nodes there were too many; ``None`` where on none.

    Jobs that fill a node together are no crowd: that is how small rows may be meant.
    """
    parts: dict[str, list[_Part]] = {}
    for node, part in _parts(records):
        parts.setdefault(node, []).append(part)
    crowds = [crowd for node in sorted(parts) if (crowd := _crowd(node, parts[node])).gpus > gpus_per_node]
    return (max(crowds, key=lambda crowd: crowd.gpus), len(crowds)) if crowds else None


def _parts(records: Iterable[Record]) -> Iterator[tuple[str, _Part]]:
    for record in records:
        for job in record.jobs.all:
            nodes = expand(job.nodes)
            if job.start_s is None or job.end_s is None or job.end_s <= job.start_s or not nodes:
                continue
            part = _Part(job.start_s, job.end_s, -(-record.row.gpus // len(nodes)))
            yield from ((node, part) for node in nodes)


def _crowd(node: str, parts: Sequence[_Part]) -> Crowd:
    """The most that ran at once; a job that ends as another one starts is no neighbour."""
    ends = ((one.end_s, -one.gpus, -1) for one in parts)
    starts = ((one.start_s, one.gpus, 1) for one in parts)
    gpus = jobs = 0
    most = (0, 0)
    for _, more_gpus, more_jobs in sorted((*ends, *starts)):  # of one time, ends come first
        gpus, jobs = gpus + more_gpus, jobs + more_jobs
        most = max(most, (gpus, jobs))
    return Crowd(node, most[1], most[0])
