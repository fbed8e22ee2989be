from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from pytest_gsw.performance.culprits import Culprit, culprits
from pytest_gsw.performance.excess import Timed
from pytest_gsw.performance.suspicion import bits

NODES, ROWS = 64, 9
SLOW = -math.log1p(-0.1)
#: The nodes of each row's jobs.
SIZES = (4, 8, 16, 32)

#: Which nodes are slow, from which night on and until which, and the logarithm of how much.
Slow = Mapping[int, tuple[int, int, float]]
Noise = Callable[[random.Random], float]


def gaussian(rng: random.Random) -> float:
    return rng.gauss(0, 0.02)


def heavy_tails(rng: random.Random) -> float:
    """Student's t with three degrees of freedom, sd 3 %."""
    return rng.gauss(0, 0.03) / math.sqrt(2 * rng.gammavariate(1.5, 1))


def skewed(rng: random.Random) -> float:
    """Lognormal, with a long tail of slow jobs; sd 3 %."""
    return 0.03 * (rng.lognormvariate(0, 0.8) - math.exp(0.32)) / (math.exp(0.32) * math.sqrt(math.exp(0.64) - 1))


def odd_jobs(rng: random.Random) -> float:
    """One job in twenty is slower by 5 to 30 %, wherever it runs."""
    return rng.gauss(0, 0.02) + (rng.uniform(0.05, 0.3) if rng.random() < 0.05 else 0)


def history(seed: int, nights: int, slow: Slow | None = None, noise: Noise = gaussian, rows: int = ROWS) -> list[Timed]:
    """Jobs on random nodes, each row with a level of its own."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for night in range(nights):
        for row in range(rows):
            nodes = set(rng.sample(range(NODES), SIZES[row % len(SIZES)]))
            excess = (d for node, (since, until, d) in (slow or {}).items() if node in nodes and since <= night < until)
            jobs.append(Timed(night, row, row + max(excess, default=0.0) + noise(rng), sum(1 << n for n in nodes)))
    return jobs


def named(jobs: list[Timed]) -> list[tuple[int, ...]]:
    return [one.nodes for one in culprits(jobs) if not one.mended]


def test_a_slow_node_is_named() -> None:
    jobs = history(1, 37, {17: (30, 99, SLOW)})
    (found,) = culprits(jobs)
    assert found.nodes == (17,)
    assert found.low < SLOW < found.high
    assert found.since in range(30, 33)
    assert not found.mended
    theirs = [index for index, job in enumerate(jobs) if job.nodes >> 17 & 1 and job.night >= found.since]
    assert sorted(found.accusing + found.clearing) == theirs
    assert len(found.clearing) <= 1


def test_it_is_named_within_seven_nights() -> None:
    found = [named(history(seed, 37, {17: (30, 99, SLOW)})) for seed in range(20)]
    assert found.count([(17,)]) >= 19


def test_and_where_there_is_no_history_before() -> None:
    found = [named(history(seed, 14, {17: (0, 99, SLOW)})) for seed in range(10)]
    assert found.count([(17,)]) >= 9


@pytest.mark.parametrize("noise", [gaussian, heavy_tails, skewed, odd_jobs])
def test_sound_nodes_are_not_named(noise: Noise) -> None:
    assert [one for seed in range(4) for one in culprits(history(seed, 60, noise=noise))] == []


def test_a_repaired_node_is_no_culprit_any_more() -> None:
    (found,) = culprits(history(2, 70, {17: (30, 45, SLOW)}))
    assert (found.nodes, found.mended) == ((17,), True)
    assert found.last in range(42, 46)


def test_two_slow_nodes_are_both_named() -> None:
    assert sorted(named(history(3, 45, {17: (30, 99, SLOW), 40: (32, 99, SLOW)}))) == [(17,), (40,)]


def test_nodes_that_always_run_together_are_named_together() -> None:
    pair = 1 << 17 | 1 << 18
    jobs = [
        Timed(job.night, job.row, job.log_s, job.nodes | pair if job.nodes & 1 << 17 else job.nodes & ~pair)
        for job in history(4, 40, {17: (30, 99, SLOW)})
    ]
    assert named(jobs) == [(17, 18)]


def test_a_slower_row_accuses_no_node() -> None:
    """Its nodes run in no other row's jobs: nobody can tell it from them."""
    jobs = [
        Timed(job.night, job.row, job.log_s + (SLOW if job.row == 0 and job.night >= 30 else 0), 15 << 4 * job.row)
        for job in history(5, 60)
    ]
    assert culprits(jobs) == ()


def test_a_slower_cluster_accuses_no_node() -> None:
    jobs = history(6, 60, rows=3)
    slower = [Timed(one.night, one.row, one.log_s + (SLOW if one.night >= 40 else 0), one.nodes) for one in jobs]
    assert culprits(slower) == ()


def test_a_slow_night_accuses_no_node() -> None:
    jobs = history(7, 60)
    slower = [Timed(one.night, one.row, one.log_s + (0.2 if one.night % 9 == 0 else 0), one.nodes) for one in jobs]
    assert culprits(slower) == ()


def test_no_history_names_nobody() -> None:
    assert culprits([]) == ()
    assert culprits(history(8, 1)) == ()


def test_the_interval_narrows() -> None:
    def width(one: Culprit) -> float:
        return one.high - one.low

    early, late = (culprits(history(9, nights, {17: (30, 99, SLOW)}))[0] for nights in (37, 70))
    assert width(late) < width(early)


def test_bits() -> None:
    assert list(bits(0b10110)) == [1, 2, 4]
    assert list(bits(0)) == []
