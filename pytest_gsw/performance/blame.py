"""Nodes on which jobs fail more often than on others.

A row may fail by itself, and in one night everything may: a job's chance is that of its row or of its night, whichever
is higher. A node is named where so many failures of its jobs are less likely than one in twenty
for a whole cluster, the least likely first; its jobs say nothing of other nodes then.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.performance.slow_nodes import bits

#: How likely a sound cluster has a node that is named (C. E. Bonferroni: a share of it for each node).
_FALSE = 0.05
#: One failure names nobody.
_FEWEST = 2
#: One node is told from another where it is a hundred times as likely.
_TOLD_APART = math.log(100)
#: What changes no sum any more.
_NEGLIGIBLE = 1e-17


@dataclass(frozen=True)
class Ended:
    """One job, measured or failed."""

    night: str
    row: str
    #: Its nodes: bit i is the i-th node.
    nodes: int
    failed: bool


@dataclass(frozen=True)
class Failures:
    """How many of a node's jobs failed, or of several nodes' of which one fails them."""

    nodes: tuple[int, ...]
    failed: int
    of: int
    #: The share that fails of the same rows, in the same nights, on all nodes.
    usual: float
    #: Whether that is beyond chance.
    named: bool


def failures(jobs: Sequence[Ended]) -> tuple[Failures, ...]:
    """Of each node of which a job failed; those that are named come first."""
    if not any(job.failed for job in jobs):
        return ()
    enough = math.log(_FALSE / functools.reduce(operator.or_, (job.nodes for job in jobs)).bit_count())
    named: list[Failures] = []
    left = list(jobs)
    of_all = counts = _counts(left)
    while True:
        often = {one: each for one, each in counts.items() if each.failed >= max(_FEWEST, each.expected)}
        tails = {one: log_tail(each.failed, each.of, each.usual) for one, each in often.items()}
        odd = {one: tail for one, tail in tails.items() if tail < enough}
        if not odd:
            break
        first = min(odd, key=lambda one: (odd[one], one))
        together = _rivals(first, tails, [job.nodes for job in left if job.failed])
        named.append(_told(together, counts[first]))
        mask = functools.reduce(operator.or_, (1 << one for one in together))
        left = [job for job in left if not job.nodes & mask]
        counts = _counts(left)
    known = {one for each in named for one in each.nodes}
    others = [_told((one,), each, named=False) for one, each in of_all.items() if one not in known]
    return (*named, *sorted(others, key=lambda one: (-one.failed / one.of, -one.failed, one.nodes)))


@dataclass
class _Count:
    failed: int = 0
    of: int = 0
    expected: float = 0.0

    @property
    def usual(self) -> float:
        return min(1.0, self.expected / self.of)


def _counts(jobs: Sequence[Ended]) -> Mapping[int, _Count]:
    """Of each node of which a job failed."""
    of_row, of_night = _sums((job.row, job.failed) for job in jobs), _sums((job.night, job.failed) for job in jobs)
    failing = functools.reduce(operator.or_, (job.nodes for job in jobs if job.failed), 0)
    counts: dict[int, _Count] = defaultdict(_Count)
    for job in jobs:
        failed, of = of_night[job.night]
        usual = max(of_row[job.row][0] / of_row[job.row][1], (failed - 1) / of)  # one failure makes no bad night
        for node in bits(job.nodes & failing):
            one = counts[node]
            one.failed += job.failed
            one.of += 1
            one.expected += usual
    return counts


def _sums(ended: Iterable[tuple[str, bool]]) -> Mapping[str, tuple[int, int]]:
    """How many failed, and of how many, by name."""
    of: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for name, has_failed in ended:
        of[name] += 1
        failed[name] += has_failed
    return {name: (failed[name], count) for name, count in of.items()}


def _rivals(first: int, tails: Mapping[int, float], failed: Collection[int]) -> tuple[int, ...]:
    """Those that failures do not tell from the likeliest: about as unlikely, and mostly in the same jobs."""
    theirs = [nodes for nodes in failed if nodes >> first & 1]
    return tuple(
        sorted(
            one
            for one, tail in tails.items()
            if tail < tails[first] + _TOLD_APART and 2 * sum(nodes >> one & 1 for nodes in theirs) > len(theirs)
        )
    )


def _told(nodes: tuple[int, ...], count: _Count, named: bool = True) -> Failures:
    return Failures(nodes, count.failed, count.of, count.usual, named)


def log_tail(count: int, of: int, share: float) -> float:
    """The logarithm of how likely so many or more of them are, each of which has this share by itself.

    Args:
        count: How many.
        of: Of how many.
        share: From 0 to 1.
    """
    if count <= 0 or share >= 1:
        return 0.0
    if share <= 0:
        return -math.inf
    if count > of * share:
        return min(0.0, _log_sum(count, of, share))
    # The other tail is the shorter one: so many or more of those that have not.
    return math.log1p(-min(1.0, math.exp(_log_sum(of - count + 1, of, 1 - share))))


def _log_sum(count: int, of: int, share: float) -> float:
    """The logarithm of the sum of a binomial's terms from one on behind which they fall."""
    first = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    first += count * math.log(share) + (of - count) * math.log1p(-share)
    term, total = 1.0, 1.0
    for k in range(count, of):
        term *= (of - k) / (k + 1) * share / (1 - share)
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return first + math.log(total)
