"""What is summed of each suspect, in whatever order the suspects are numbered."""

from __future__ import annotations

import random

from pytest_gsw.performance.suspicion import LOSSES, Evidence, Scores, bits

SUSPECTS = 600


def renumbered(mask: int, numbers: list[int]) -> int:
    return sum(1 << numbers[one] for one in bits(mask))


def test_neighbours_are_summed_as_others_are() -> None:
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    numbers = rng.sample(range(SUSPECTS), SUSPECTS)
    neighbours, scattered = Scores.none(SUSPECTS), Scores.none(SUSPECTS)
    for night in range(40):
        evidence: Evidence = []
        for size in (300, 120, 40, 8):
            begin = rng.randrange(SUSPECTS - size)
            said = tuple(rng.gauss(-0.5, 2) for _ in LOSSES)
            evidence.append((((1 << size) - 1 << begin) | 1 << SUSPECTS - 1, said))
        neighbours = neighbours.after(evidence, night)
        scattered = scattered.after([(renumbered(mask, numbers), said) for mask, said in evidence], night)
    for way in range(len(LOSSES)):
        assert neighbours.sums[way] == [scattered.sums[way][number] for number in numbers]
        assert neighbours.since[way] == [scattered.since[way][number] for number in numbers]
    assert renumbered(neighbours.alive, numbers) == scattered.alive != 0
    assert max(map(max, neighbours.sums)) > 0


def test_a_night_without_jobs_changes_nothing() -> None:
    one = Scores.none(SUSPECTS).after([((1 << SUSPECTS) - 1, (1.0,) * len(LOSSES))], 0)
    assert one.after([], 1) == one
