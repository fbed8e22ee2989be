"""Which nodes are known to be sound: cleared by what their newest jobs took, as :mod:`.culprits` names slow ones.

That nobody is named says nothing of a node that has hardly run. A node is cleared where its jobs, the newest first, are
a hundred times likelier if it is sound than if it costs :data:`CLEARED_OF` (A. Wald, Annals of Mathematical Statistics
16 (1945), p. 117: a sequential test of two hypotheses).
"""

from __future__ import annotations

import functools
import math
import operator
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.performance.culprits import Found
from pytest_gsw.performance.excess import FEWEST, WINDOW, Excess, Timed, excesses
from pytest_gsw.performance.noise import PRIOR
from pytest_gsw.performance.suspicion import LOSSES, bits, of_night, ratios

_WAY = 1
#: The loss that nodes are cleared of, as a logarithm: a node that costs less fails no row by itself.
CLEARED_OF = LOSSES[_WAY]
#: The newest nights, that nodes are cleared by: what was long before says nothing of today.
NEWEST_NIGHTS = WINDOW
#: A node is taken for sound where that is so many times as likely, and looked at no further where it is so many times
#: less likely: a node that became slow is not cleared by the nights before.
_CLEAR, _ACCUSE = math.log(1000), math.log(10)
#: A row's level is that of sound nodes where one node is in at most half of its jobs.
_MOST_OFTEN = 0.5


@dataclass(frozen=True)
class Soundness:
    """What the newest jobs say of the nodes that they ran on, which are numbered as in the jobs."""

    #: Nodes that are known to be sound, as bits.
    cleared: int = 0
    #: Of each other one, about how many more jobs would tell; 0 where jobs do not, as its rows hardly run without it.
    untold: Mapping[int, int] = field(default_factory=dict)


def soundness(jobs: Sequence[Timed], found: Found) -> Soundness:
    """What is known of the nodes of the newest nights, but for those that are slow.

    Args:
        jobs: In the order of their nights.
        found: Who is slow; the jobs that they explain say nothing of other nodes.
    """
    first = jobs[-1].night - NEWEST_NIGHTS if jobs else 0
    start = next((index for index, job in enumerate(jobs) if job.night > first), 0)
    newest = jobs[start:]
    explained = {index - start for index in found.explained if index >= start}
    known = _Newest(newest, explained, excesses(newest, explained, found.restarts))
    sums, cleared = known.sums()
    there = functools.reduce(operator.or_, (job.nodes for job in newest), 0)
    slow = sum(1 << node for node in {node for one in found.culprits if not one.mended for node in one.nodes})
    untold = there & ~cleared & ~slow
    return Soundness(cleared & ~slow, {node: known.missing(node, sums) for node in bits(untold)})


class _Newest:
    """Jobs of the newest nights, and what each took beyond what is usual."""

    def __init__(self, jobs: Sequence[Timed], explained: Collection[int], excess: Sequence[Excess | None]) -> None:
        self.told = [
            (job, one)
            for index, (job, one) in enumerate(zip(jobs, excess, strict=True))
            if one is not None and index not in explained
        ]
        #: By row, the nodes of each of its jobs.
        self.nodes_of: dict[int, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            if index not in explained:
                self.nodes_of[job.row].append(job.nodes)
        #: By row, the nodes that a level is made with: whether these are sound, its jobs cannot tell.
        self.too_often = {row: _too_often(each) for row, each in self.nodes_of.items()}
        self.sigma = statistics.median(one.sigma for _, one in self.told) if self.told else PRIOR.sigma

    def sums(self) -> tuple[dict[int, float], int]:
        """What jobs say of each node until it is decided, and the nodes that are cleared, as bits."""
        sums: dict[int, float] = defaultdict(float)
        cleared = decided = 0
        for night in self._nights():
            tonight: dict[int, list[tuple[float, ...]]] = {}
            for job, one in night:
                said = (ratios(one)[_WAY],)
                for node in bits(job.nodes & ~decided & ~self.too_often[job.row]):
                    tonight.setdefault(node, []).append(said)
            for node, each in tonight.items():
                sums[node] += of_night(each)[0]
                if not -_CLEAR < sums[node] < _ACCUSE:
                    decided |= 1 << node
                    cleared |= (sums[node] < 0) << node
        return sums, cleared

    def _nights(self) -> Iterator[list[tuple[Timed, Excess]]]:
        """The jobs of each night, the newest first."""
        by_night: dict[int, list[tuple[Timed, Excess]]] = {}
        for job, one in reversed(self.told):
            by_night.setdefault(job.night, []).append((job, one))
        return iter(by_night.values())

    def missing(self, node: int, sums: Mapping[int, float]) -> int:
        """About how many more jobs would tell of a node; 0 where its rows' jobs do not."""
        if node in sums:
            return self._jobs_for(_CLEAR + sums[node])
        young = (each for each in self.nodes_of.values() if len(each) < FEWEST)
        levels = [FEWEST - len(each) for each in young if any(nodes >> node & 1 for nodes in each)]
        return min(levels) + self._jobs_for(_CLEAR) if levels else 0

    def _jobs_for(self, evidence: float) -> int:
        """How many jobs of a sound node say so much, on the average."""
        return max(1, math.ceil(evidence / -ratios(Excess(0.0, self.sigma))[_WAY]))


def _too_often(jobs: Sequence[int]) -> int:
    """The nodes of most of a row's jobs."""
    ran = Counter(node for nodes in jobs for node in bits(nodes))
    return sum(1 << node for node, count in ran.items() if count > _MOST_OFTEN * len(jobs))
