"""What jobs say for and against suspects, summed over nights: the evidence that :mod:`.culprits` names nodes by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_gsw.performance.excess import Excess

#: The losses, as logarithms, that suspects are held against; one between two of them is found by both.
LOSSES = (0.03, 0.06, 0.12)
#: What one job may say for and against a suspect at most: one odd job names nobody and clears nobody for good.
_MOST_FOR, _MOST_AGAINST = 5.0, 8.0
#: What one night may say for a suspect: jobs of one hour share the network.
_MOST_OF_A_NIGHT = 8.0
#: How far jobs of one night say the same: that what their night's effect is not known to.
_SHARED = 0.25

#: What a night says: the suspects of each job, and for each of the losses how much likelier it makes them.
Evidence = list[tuple[int, tuple[float, ...]]]


def weights(one: Excess, most: Iterable[float]) -> tuple[float, ...]:
    """The log likelihood ratio of each of the losses against none, within what a job may say."""
    return tuple(map(min, _ratios(one), most))


def _ratios(one: Excess) -> tuple[float, ...]:
    return tuple(min(_MOST_FOR, max(-_MOST_AGAINST, loss * (one.value - loss / 2) / one.sigma**2)) for loss in LOSSES)


def most_for(seen: Iterable[Excess]) -> tuple[float, ...]:
    """What one job may say for each of the losses, by all jobs.

    While nothing is slow, the mean of a likelihood ratio is 1 where noise is Gaussian and its spread known. On that
    rests how seldom sums of their logarithms are large. Noise has other shapes, so what a job says is cut where the
    mean over all jobs, and one more that is odd, is 1.
    """
    of_losses = list(zip(*map(_ratios, seen), strict=True))
    return tuple(_cut(sorted(one, reverse=True)) for one in of_losses) or (0.0,) * len(LOSSES)


def _cut(ratios: Sequence[float]) -> float:
    rest = sum(map(math.exp, ratios))
    for above, ratio in enumerate(ratios):
        if rest < len(ratios):
            limit = math.log((len(ratios) - rest) / (above + 1))
            if limit >= ratio or above + 1 == len(ratios):
                return max(0.0, min(limit, _MOST_FOR))
        rest -= math.exp(ratio)
    return 0.0


def of_night(said: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """What several jobs of one night say together."""
    if len(said) == 1:
        return said[0]
    share = 1 / (1 + _SHARED * (len(said) - 1))
    return tuple(min(_MOST_OF_A_NIGHT, share * sum(each)) for each in zip(*said, strict=True))


@dataclass(frozen=True)
class Scores:
    """The sums of all suspects after a night, for each of the losses, and the night with which each began.

    A sum never falls below nothing (CUSUM: E. S. Page, Biometrika 41 (1954), p. 100): who was sound for a year is
    found as soon as who is new.
    """

    sums: tuple[list[float], ...]
    since: tuple[list[int], ...]
    #: Those with a sum above nothing, as bits.
    alive: int = 0

    @classmethod
    def none(cls, suspects: int) -> Scores:
        """Before the first night."""
        return cls(tuple([0.0] * suspects for _ in LOSSES), tuple([0] * suspects for _ in LOSSES))

    def after(self, evidence: Evidence, night: int) -> Scores:
        """The sums after one more night."""
        accused = self.alive
        for mask, said in evidence:
            if max(said) > 0:
                accused |= mask
        tonight: dict[int, list[tuple[float, ...]]] = {}
        for mask, said in evidence:
            for suspect in bits(mask & accused):
                tonight.setdefault(suspect, []).append(said)
        sums, since, alive = tuple(map(list, self.sums)), tuple(map(list, self.since)), self.alive
        for suspect, theirs in tonight.items():
            lives = False
            for one, began, weight in zip(sums, since, of_night(theirs), strict=True):
                old = one[suspect]
                one[suspect] = new = max(0.0, old + weight)
                if new and not old:
                    began[suspect] = night
                lives = lives or new > 0
            alive = alive | 1 << suspect if lives else alive & ~(1 << suspect)
        return Scores(sums, since, alive)

    def total(self, suspect: int) -> float:
        """The largest sum of one suspect."""
        return max(one[suspect] for one in self.sums)

    def way(self, suspect: int) -> int:
        """The loss of the largest sum of one suspect."""
        return max(range(len(self.sums)), key=lambda way: self.sums[way][suspect])

    def above(self, limit: float) -> list[int]:
        """The suspects above a limit, the highest first."""
        found = [suspect for suspect in bits(self.alive) if self.total(suspect) > limit]
        return sorted(found, key=lambda one: (-self.total(one), -one))


def bits(mask: int) -> Iterator[int]:
    """The positions of a number's bits."""
    text = bin(mask)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)
