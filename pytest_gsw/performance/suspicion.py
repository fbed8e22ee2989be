"""What jobs say for and against suspects, summed over nights: the evidence that :mod:`.culprits` names nodes by."""

from __future__ import annotations

import functools
import itertools
import math
import operator
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

#: Makes of truths the digits of a number.
_DIGITS = bytes([*b"01", *range(2, 256)])

#: What a night says: the suspects of each job, and for each of the losses how much likelier it makes them.
Evidence = list[tuple[int, tuple[float, ...]]]


def ratios(one: Excess) -> tuple[float, ...]:
    """The log likelihood ratio of each of the losses against none."""
    value, precision = one.value, one.sigma**-2
    found = [loss * (value - loss / 2) * precision for loss in LOSSES]
    if max(found) > _MOST_FOR or min(found) < -_MOST_AGAINST:
        found = [min(max(ratio, -_MOST_AGAINST), _MOST_FOR) for ratio in found]
    return tuple(found)


def most_for(seen: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    """What one job may say for each of the losses, by the ratios of all jobs.

    While nothing is slow, the mean of a likelihood ratio is 1 where noise is Gaussian and its spread known. On that
    rests how seldom sums of their logarithms are large. Noise has other shapes, so what a job says is cut where the
    mean over all jobs, and one more that is odd, is 1.
    """
    of_losses = list(zip(*seen, strict=True))
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


def summed(evidence: Evidence) -> list[list[float]]:
    """For each of the losses what jobs say together, by suspect.

    What a job says is added where a stretch of its suspects begins, and taken away behind its end.
    """
    steps = [[0.0] * (max(mask.bit_length() for mask, _ in evidence) + 1) for _ in LOSSES]
    for mask, said in evidence:
        edges = [*bits(mask ^ mask << 1)]
        for total, weight in zip(steps, said, strict=True):
            for begin, end in zip(edges[::2], edges[1::2], strict=True):
                total[begin] += weight
                total[end] -= weight
    return [list(itertools.accumulate(total)) for total in steps]


@dataclass(frozen=True)
class Scores:
    """The sums of all suspects after a night, for each of the losses, and the night with which each began.

    A sum never falls below nothing (CUSUM: E. S. Page, Biometrika 41 (1954), p. 100): who was sound for a year is
    found as soon as who is new.
    """

    sums: tuple[list[float], ...]
    since: tuple[list[int], ...]
    #: The largest sum of each.
    totals: list[float]
    #: Those with a sum above nothing, as bits.
    alive: int = 0

    @classmethod
    def none(cls, suspects: int) -> Scores:
        """Before the first night."""
        return cls(tuple([0.0] * suspects for _ in LOSSES), tuple([0] * suspects for _ in LOSSES), [0.0] * suspects)

    def after(self, evidence: Evidence, night: int) -> Scores:
        """The sums after one more night."""
        accused = self.alive
        for mask, said in evidence:
            if max(said) > 0:
                accused |= mask
        sums, since = tuple(map(list, self.sums)), tuple(map(list, self.since))
        begins = functools.reduce(operator.or_, (mask ^ mask << 1 for mask, _ in evidence), 1)
        if 4 * begins.bit_count() < accused.bit_count():  # jobs ran on stretches of neighbours, who are alike
            _add_stretches(sums, since, _stretches(evidence, begins, accused), night)
        else:
            _add_each(sums, since, _each(evidence, accused), night)
        totals = list(map(max, *sums))
        alive = int(bytes(map(bool, reversed(totals))).translate(_DIGITS) or b"0", 2)
        return Scores(sums, since, totals, alive)

    def way(self, suspect: int) -> int:
        """The loss of the largest sum of one suspect."""
        return max(range(len(self.sums)), key=lambda way: self.sums[way][suspect])

    def above(self, limit: float) -> list[tuple[float, int]]:
        """The suspects whose largest sum is above a limit, with that, the lowest first."""
        return sorted((total, suspect) for suspect, total in enumerate(self.totals) if total > limit)


def _stretches(evidence: Evidence, begins: int, accused: int) -> Iterator[tuple[slice, tuple[float, ...]]]:
    """Suspects who are in the same jobs, with what these say, where that changes any sum."""
    for begin, end in itertools.pairwise(bits(begins)):
        if accused >> begin & (1 << end - begin) - 1:
            theirs = [said for mask, said in evidence if mask >> begin & 1]
            if theirs:
                yield slice(begin, end), of_night(theirs)


def _add_stretches(
    sums: Sequence[list[float]],
    since: Sequence[list[int]],
    stretches: Iterable[tuple[slice, tuple[float, ...]]],
    night: int,
) -> None:
    for stretch, said in stretches:
        for one, began, weight in zip(sums, since, said, strict=True):
            old = one[stretch]
            if weight > 0:
                began[stretch] = [at if each else night for each, at in zip(old, began[stretch], strict=True)]
                one[stretch] = [each + weight for each in old]
            elif any(old):
                one[stretch] = [new if (new := each + weight) > 0 else 0.0 for each in old]


def _each(evidence: Evidence, accused: int) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Each of the accused, with what its jobs say."""
    tonight: dict[int, list[tuple[float, ...]]] = {}
    for mask, said in evidence:
        for suspect in bits(mask & accused):
            tonight.setdefault(suspect, []).append(said)
    for suspect, theirs in tonight.items():
        yield suspect, of_night(theirs)


def _add_each(
    sums: Sequence[list[float]],
    since: Sequence[list[int]],
    said: Iterable[tuple[int, tuple[float, ...]]],
    night: int,
) -> None:
    for suspect, weights in said:
        for one, began, weight in zip(sums, since, weights, strict=True):
            old = one[suspect]
            new = old + weight
            if new > 0 and not old:
                began[suspect] = night
            one[suspect] = new if new > 0 else 0.0


def bits(mask: int) -> Iterator[int]:
    """The positions of a number's bits."""
    text = bin(mask)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)
