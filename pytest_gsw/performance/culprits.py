"""Which nodes make jobs slow, from what each job took and where it ran.

A job of synchronous training is as slow as its slowest node, so one fast job clears all of its nodes. A row may have
become slower itself, or the whole cluster: both stand among the suspects as if they were nodes of all of their jobs.
Where they explain as much, no node is named. Who is named explains jobs; what is left is looked at again.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.performance.excess import WINDOW, Excess, Timed, excesses
from pytest_gsw.performance.suspicion import LOSSES, Evidence, Scores, bits, most_for, of_night, ratios, summed

#: A smaller loss is not worth a node's name.
LEAST_LOSS = 0.02
#: Nodes that cannot be told apart are named up to this number; more of them name nobody.
MOST_TOGETHER = 16
#: Share of nights that may name a sound node. A sum of log likelihood ratios that begins on whichever night is above
#: ln(1/p) with a probability of p at most (J. Ville, Étude critique de la notion de collectif, 1939, p. 100).
_FALSE = 0.001
#: A suspect is looked at closely from this share of the sum that names it.
_CLOSELY = 0.5
#: One node is told from another where it is a hundred times as likely, and mended where its soundness is.
_TOLD_APART = math.log(100)
#: A row is taken to be slower itself only where its sum is so many times what names a node.
_CERTAIN = 3.0
#: How many suspects of different sums are looked at closely in one night, the likeliest ones.
_LOOKED_AT = 3
#: What is looked for in one history at most.
_MOST_FOUND = 24


@dataclass(frozen=True)
class Culprit:
    """A node that makes jobs slow, or several of which one does."""

    nodes: tuple[int, ...]
    #: The logarithm of how many times longer its jobs take, and the limits of its 95 % interval.
    excess: float
    low: float
    high: float
    #: The night of its first job that accuses it after the last that clears it, and of the last one that accuses.
    since: int
    last: int
    #: Whether it has been fast again.
    mended: bool
    #: Indices of its jobs from then on that are slow, and of those that are not.
    accusing: tuple[int, ...]
    clearing: tuple[int, ...]


@dataclass(frozen=True)
class _Spell:
    """When one suspect was slow: first and last night of it, whether it is over, and its sum at the last."""

    since: int
    last: int
    over: bool
    top: float = 0.0


@dataclass(frozen=True)
class Found:
    """What a history tells of slow nodes."""

    #: The nodes that were slow at some time, in the order in which they are found.
    culprits: tuple[Culprit, ...] = ()
    #: Indices of the jobs that they explain.
    explained: frozenset[int] = frozenset()
    #: Rows that became slower themselves, and the night from which on each has another level.
    restarts: tuple[tuple[int, int], ...] = ()


def find(jobs: Sequence[Timed]) -> Found:
    """Look for slow nodes.

    Args:
        jobs: In the order of their nights.
    """
    search = _Search(jobs)
    search.run()
    named = (search.culprit(nodes, spell) for nodes, spell in search.named)
    found = tuple(one for one in named if one is not None and one.excess >= LEAST_LOSS)
    return Found(found, frozenset(search.explained), tuple(search.restarts))


def culprits(jobs: Sequence[Timed]) -> tuple[Culprit, ...]:
    """The nodes that were slow at some time, in the order in which they are found; jobs in that of their nights."""
    return find(jobs).culprits


class _Search:
    """One history, night by night; whoever is named explains jobs, and the nights since are gone through again."""

    def __init__(self, jobs: Sequence[Timed]) -> None:
        self.jobs = jobs
        self.nights = range(jobs[-1].night + 1 if jobs else 0)
        self.nodes = max((job.nodes.bit_length() for job in jobs), default=0)
        self.rows = max((job.row for job in jobs), default=0) + 1
        #: Nodes, rows, and the whole cluster.
        self.suspects = self.nodes + self.rows + 1
        self.masks = [job.nodes | 1 << (self.nodes + job.row) | 1 << (self.suspects - 1) for job in jobs]
        self.of_night: list[list[int]] = [[] for _ in self.nights]
        seen = 0
        for index, job in enumerate(jobs):
            self.of_night[job.night].append(index)
            seen |= job.nodes
        self.enough = math.log(max(1, seen.bit_count()) * len(LOSSES) / _FALSE)
        self.explained: set[int] = set()
        self.restarts: list[tuple[int, int]] = []
        self.named: list[tuple[tuple[int, ...], _Spell]] = []
        self.excess: list[Excess | None] = []
        self.evidence: list[Evidence] = []

    def run(self) -> None:
        """Find whoever can be named."""
        self._look_from(0)
        before = [Scores.none(self.suspects)]
        refused: dict[int, _Spell] = {}
        night = 0
        while night in self.nights:
            del before[night + 1 :]
            before.append(before[night].after(self.evidence[night], night))
            again = self._stand_out(before[night + 1], night, refused)
            if again is None or len(self.named) + len(self.restarts) > _MOST_FOUND:
                night += 1
            else:
                self._look_from(again)
                refused.clear()
                night = again

    def _look_from(self, night: int) -> None:
        """What each night says, from one on."""
        self.excess = excesses(self.jobs, self.explained, self.restarts)
        seen = {i: ratios(one) for i, one in enumerate(self.excess) if one is not None and i not in self.explained}
        most = most_for(seen.values())
        self.evidence[night:] = [
            [(self.masks[i], tuple(map(min, seen[i], most))) for i in each if i in seen]
            for each in self.of_night[night:]
        ]

    def _stand_out(self, scores: Scores, night: int, refused: dict[int, _Spell]) -> int | None:
        """Look at those who stand out; the night from which on it must be looked again, if jobs are explained now."""
        different = dict(scores.above(_CLOSELY * self.enough))
        for total, suspect in list(different.items())[: -_LOOKED_AT - 1 : -1]:
            if self._is_refused(refused.get(suspect), suspect, night, scores):
                continue
            if suspect >= self.nodes:
                if total < _CERTAIN * self.enough:
                    continue
                since = scores.since[scores.way(suspect)][suspect]
                rows = range(self.rows) if suspect == self.suspects - 1 else [suspect - self.nodes]
                self.restarts += [(row, since) for row in rows]
                return since
            spell = self._spell(suspect, night, scores)
            nodes = self._told_apart(suspect, spell)
            if nodes:
                self.named.append((nodes, spell))
                self.explained |= self._jobs_of(sum(1 << node for node in nodes), spell)
                return spell.since
            refused[suspect] = spell
        return None

    def _is_refused(self, spell: _Spell | None, suspect: int, night: int, scores: Scores) -> bool:
        """Whether a suspect was looked at with as much against it, so that another look would tell no more."""
        if spell is None or (night > spell.last and night == self.nights[-1]):
            return False
        since = scores.since[scores.way(suspect)][suspect]
        return night <= spell.last or (since == spell.since and scores.totals[suspect] <= spell.top)

    def _jobs_of(self, mask: int, spell: _Spell) -> set[int]:
        nights = range(spell.since, spell.last + 1 if spell.over else len(self.nights))
        return {index for night in nights for index in self.of_night[night] if self.jobs[index].nodes & mask}

    def _spell(self, suspect: int, night: int, scores: Scores) -> _Spell:
        """When a suspect that stands out was slow: until its sum has fallen from its highest by enough."""
        since = scores.since[scores.way(suspect)][suspect]
        sums = [one[suspect] for one in scores.sums]
        top, last = max(sums), night
        for later in range(night + 1, len(self.nights)):
            said = [weights for mask, weights in self.evidence[later] if mask >> suspect & 1]
            sums = [max(0.0, sum(both)) for both in zip(sums, of_night(said), strict=True)] if said else sums
            if max(sums) > top:
                top, last = max(sums), later
            elif max(sums) <= max(0.0, top - _TOLD_APART):
                return _Spell(since, last, over=True, top=top)
        return _Spell(since, last, over=False, top=top)

    def _told_apart(self, suspect: int, spell: _Spell) -> tuple[int, ...]:
        """The suspect and those that are as likely, once its jobs are no noise; nobody where that is not enough."""
        since = max(spell.since, spell.last - 2 * WINDOW)
        first = max(0, min(since, spell.last - WINDOW))
        window = [index for each in self.of_night[first : spell.last + 1] for index in each]
        start = window[0]
        theirs = {i - start for i in self._jobs_of(1 << suspect, spell) if i <= window[-1]}
        explained = {i - start for i in self.explained if start <= i <= window[-1]}
        excess = excesses([self.jobs[index] for index in window], explained | theirs, self.restarts)
        seen = {i: ratios(one) for i, one in enumerate(excess) if one and i not in explained}
        noise = [seen.values(), [each for i, each in seen.items() if i not in theirs]]
        # How seldom all of k odd jobs among n are one node's by chance: what is left for the last of them counts, too.
        most = tuple(sum(each) / 2 for each in zip(*map(most_for, noise), strict=True))
        said = {i: tuple(map(min, each, most)) for i, each in seen.items() if self.jobs[start + i].night >= since}
        if not self._is_enough(suspect, said, start):
            return ()
        evidence = [(self.masks[start + i], each) for i, each in said.items()]
        beside = functools.reduce(int.__or__, (mask for mask, _ in evidence if mask >> suspect & 1))
        sums = summed(evidence)
        likely = {one: max(total[one] for total in sums) for one in bits(beside)}
        limit = max(likely.values()) - _TOLD_APART
        rivals = tuple(one for one in likely if likely[one] > limit)
        return () if suspect not in rivals or len(rivals) > MOST_TOGETHER or max(rivals) >= self.nodes else rivals

    def _is_enough(self, suspect: int, said: dict[int, tuple[float, ...]], start: int) -> bool:
        of_nights: dict[int, list[tuple[float, ...]]] = {}
        for i, each in said.items():
            if self.masks[start + i] >> suspect & 1:
                of_nights.setdefault(self.jobs[start + i].night, []).append(each)
        return max(map(sum, zip(*map(of_night, of_nights.values()), strict=True)), default=0.0) >= self.enough

    def culprit(self, nodes: tuple[int, ...], spell: _Spell) -> Culprit | None:
        """What is known of those who are named, ``None`` where nothing is left of it."""
        mask = sum(1 << node for node in nodes)
        theirs = {
            index: one
            for index in sorted(self._jobs_of(mask, spell))
            if self.jobs[index].nodes & mask == mask and (one := self.excess[index]) is not None
        }
        if not theirs:
            return None
        mean, half = _mean(list(theirs.values()))
        accusing = tuple(index for index, one in theirs.items() if one.value > mean / 2)
        clearing = tuple(index for index, one in theirs.items() if one.value <= mean / 2)
        return Culprit(nodes, mean, mean - half, mean + half, spell.since, spell.last, spell.over, accusing, clearing)


def _mean(seen: Sequence[Excess]) -> tuple[float, float]:
    """The mean of what jobs took longer, odd ones cut, and half of its 95 % interval."""
    middle = statistics.median(one.value for one in seen)
    cut = [(min(max(one.value, middle - 3 * one.sigma), middle + 3 * one.sigma), one.sigma**-2) for one in seen]
    weight = sum(each for _, each in cut)
    mean = sum(value * each for value, each in cut) / weight
    spread = sum(each * (value - mean) ** 2 for value, each in cut) / weight / max(1, len(cut) - 1)
    return mean, 1.959964 * math.sqrt(max(1 / weight, spread))
