"""Nodes that fail each job at once: such a node is always free, and the scheduler gives it the next job.

A node is judged by its jobs, not by their words. Jobs of a recipe that is broken fail wherever they run: a row is no
witness against a node if it works nowhere, and failed at once on a node that works, or three times. Pure functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A job that fails within this time of its start has measured nothing.
AT_ONCE_S = 60.0
#: Fewest rows that are evidence against a node, and fewest of these that work elsewhere if it is named.
_FEWEST_ROWS = 2
#: A row that failed at once as often as this is broken: its repeats had other nodes.
_MOST_FAILURES = 3


@dataclass(frozen=True)
class NodeUse:
    """A job on its nodes: one that failed at once, or one that ran for longer or was measured."""

    #: The row, without its tile.
    row: str
    job_id: str
    nodes: frozenset[str]
    #: Seconds since the epoch; the end of a job that runs is infinity.
    start_s: float
    end_s: float
    failed: bool


@dataclass(frozen=True)
class BlackHole:
    """A node that failed jobs of several rows at once."""

    node: str
    job_ids: tuple[str, ...]
    rows: tuple[str, ...]
    #: Those of its rows that worked on other nodes afterwards.
    moved: tuple[str, ...]
    #: Number of jobs that worked on other nodes meanwhile or afterwards; if there is none, the node may be sound.
    elsewhere: int

    @property
    def is_proven(self) -> bool:
        """True if the rows are not to blame: the same jobs worked elsewhere."""
        return len(self.moved) >= _FEWEST_ROWS


def black_holes(uses: Iterable[NodeUse]) -> tuple[BlackHole, ...]:
    """The nodes that failed jobs at once since they last worked, in the order of their names.

    Of a job of several nodes any may be the cause. A node is found by the jobs of different rows that have it in
    common, if no other node has as many of them.
    """
    worked: list[NodeUse] = []
    of_row: dict[str, list[NodeUse]] = defaultdict(list)
    for use in uses:
        (of_row[use.row] if use.failed else worked).append(use)
    last_s: dict[str, float] = {}
    for use in worked:
        for node in use.nodes:
            last_s[node] = max(use.end_s, last_s.get(node, use.end_s))
    sound = {use.row for use in worked}
    failed: dict[str, list[NodeUse]] = defaultdict(list)
    for row, failures in of_row.items():
        suspects = [{node for node in one.nodes if last_s.get(node, 0.0) <= one.start_s} for one in failures]
        if row in sound or (all(suspects) and len(failures) < _MOST_FAILURES):
            for failure, nodes in zip(failures, suspects, strict=True):
                for node in nodes:
                    failed[node].append(failure)
    shared = [(node, jobs) for node, jobs in sorted(failed.items()) if len({job.row for job in jobs}) >= _FEWEST_ROWS]
    return tuple(_black_hole(node, jobs, worked) for node, jobs in shared if _is_alone(node, jobs, failed))


def _is_alone(node: str, jobs: Sequence[NodeUse], failed: dict[str, list[NodeUse]]) -> bool:
    """True if no other node was in all of these jobs."""
    shared = frozenset.intersection(*(job.nodes for job in jobs)) - {node}
    return not any(len([job for job in failed.get(other, ()) if job in jobs]) == len(jobs) for other in shared)


def _black_hole(node: str, jobs: Sequence[NodeUse], worked: Iterable[NodeUse]) -> BlackHole:
    rows, first_s = tuple(dict.fromkeys(job.row for job in jobs)), min(job.start_s for job in jobs)
    elsewhere = [use for use in worked if node not in use.nodes and use.end_s >= first_s]
    moved = {use.row for use in elsewhere if use.start_s >= first_s}
    return BlackHole(
        node, tuple(job.job_id for job in jobs), rows, tuple(row for row in rows if row in moved), len(elsewhere)
    )
