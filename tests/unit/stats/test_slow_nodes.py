from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import pytest

from pytest_gsw.stats.slow_nodes import JobTime, SlowNodeGroup, bits, find

NODES, ROWS = 64, 9
SLOW = -math.log1p(-0.1)
#: The nodes of each row's jobs.
SIZES = (4, 8, 16, 32)

#: Which nodes are slow, from which run on and until which, and the logarithm of how much.
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


def history(seed: int, runs: int, slow: Slow | None = None, noise: Noise = gaussian, rows: int = ROWS) -> list[JobTime]:
    """Jobs on random nodes, each row with a level of its own."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for run in range(runs):
        for row in range(rows):
            nodes = set(rng.sample(range(NODES), SIZES[row % len(SIZES)]))
            excess = (d for node, (since, until, d) in (slow or {}).items() if node in nodes and since <= run < until)
            jobs.append(JobTime(run, row, row + max(excess, default=0.0) + noise(rng), sum(1 << n for n in nodes)))
    return jobs


def culprits(jobs: list[JobTime]) -> tuple[SlowNodeGroup, ...]:
    return find(jobs).culprits


def named(jobs: list[JobTime]) -> list[tuple[int, ...]]:
    return [one.nodes for one in culprits(jobs) if not one.mended]


def test_a_slow_node_is_named() -> None:
    jobs = history(1, 37, {17: (30, 99, SLOW)})
    (found,) = culprits(jobs)
    assert found.nodes == (17,)
    assert found.excess == pytest.approx(SLOW, abs=0.02)
    assert found.since in range(30, 33)
    assert not found.mended
    theirs = [index for index, job in enumerate(jobs) if job.nodes >> 17 & 1 and job.run >= found.since]
    assert sorted(found.accusing + found.clearing) == theirs
    assert len(found.clearing) <= 1


def test_it_is_named_within_seven_runs() -> None:
    found = [named(history(seed, 37, {17: (30, 99, SLOW)})) for seed in range(20)]
    assert found.count([(17,)]) >= 19


def test_and_where_there_is_no_history_before() -> None:
    found = [named(history(seed, 14, {17: (0, 99, SLOW)})) for seed in range(10)]
    assert found.count([(17,)]) >= 9


@pytest.mark.sampled(2)
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
        JobTime(job.run, job.row, job.log_s, job.nodes | pair if job.nodes & 1 << 17 else job.nodes & ~pair)
        for job in history(4, 40, {17: (30, 99, SLOW)})
    ]
    assert named(jobs) == [(17, 18)]


def test_a_slower_row_accuses_no_node() -> None:
    """Its nodes run in no other row's jobs: nobody can tell it from them."""
    jobs = [
        JobTime(job.run, job.row, job.log_s + (SLOW if job.row == 0 and job.run >= 30 else 0), 15 << 4 * job.row)
        for job in history(5, 60)
    ]
    assert culprits(jobs) == ()


def test_a_slower_cluster_accuses_no_node() -> None:
    jobs = history(6, 60, rows=3)
    slower = [JobTime(one.run, one.row, one.log_s + (SLOW if one.run >= 40 else 0), one.nodes) for one in jobs]
    assert culprits(slower) == ()


def test_a_slow_run_accuses_no_node() -> None:
    jobs = history(7, 60)
    slower = [JobTime(one.run, one.row, one.log_s + (0.2 if one.run % 9 == 0 else 0), one.nodes) for one in jobs]
    assert culprits(slower) == ()


def test_no_history_names_nobody() -> None:
    assert culprits([]) == ()
    assert culprits(history(8, 1)) == ()


# -- who is cleared -----------------------------------------------------------------------------

FEW = 32


def month(runs: int, sigma: float = 0.02, slow: Mapping[int, float] | None = None, seed: int = 1) -> list[JobTime]:
    """Six rows on four to sixteen of 32 nodes at random, some of which are slow from the first run on."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for run in range(runs):
        for row in range(6):
            ran = rng.sample(range(FEW), (4, 8, 16)[row % 3])
            excess = max((loss for node, loss in (slow or {}).items() if node in ran), default=0.0)
            jobs.append(JobTime(run, row, row + excess + rng.gauss(0, sigma), sum(1 << node for node in ran)))
    return jobs


def test_a_month_clears_all_nodes() -> None:
    found = find(month(30))
    assert (found.cleared, found.untold) == ((1 << FEW) - 1, 0)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_a_history_without_levels_clears_nobody(runs: int) -> None:
    found = find(month(runs))
    assert found.cleared == 0
    assert {*bits(found.untold)} == {node for job in month(runs) for node in bits(job.nodes)}


def test_noise_takes_longer() -> None:
    few, many = find(month(5)).untold.bit_count(), find(month(5, 0.06)).untold.bit_count()
    assert many > FEW / 2 > few


def test_a_row_that_always_runs_on_the_same_nodes_clears_none_of_them() -> None:
    """Its level is theirs, whether one of them is slow or not."""
    found = find([JobTime(one.run, one.row, one.log_s, 15 << 4 * one.row) for one in month(40)])
    assert (found.cleared, found.untold) == (0, (1 << 24) - 1)


def test_a_slow_node_is_not_cleared() -> None:
    for seed in range(10):
        found = find(month(40, 0.03, {7: SLOW}, seed))
        assert not found.cleared >> 7 & 1
        assert found.cleared.bit_count() > FEW / 2


def test_a_slow_node_is_not_cleared_by_what_was_before() -> None:
    jobs = [
        JobTime(one.run, one.row, one.log_s + SLOW * (one.run >= 30 and one.nodes >> 7 & 1), one.nodes)
        for one in month(40)
    ]
    found = find(jobs)
    assert not (found.cleared | found.untold) >> 7 & 1  # it is known


def test_a_node_that_became_slow_last_run_is_not_cleared_by_the_runs_before() -> None:
    jobs = month(40, 0.01)
    last = [JobTime(40, row, row + SLOW, 1 << 7 | 1 << 20 + row) for row in range(3)]
    found = find(jobs + last)
    assert not found.cleared >> 7 & 1
    assert found.cleared.bit_count() >= FEW - 4


def test_a_node_that_has_not_run_for_a_month_is_not_among_them() -> None:
    found = find([one for one in month(60) if one.run < 25 or not one.nodes & 1 << 7])
    assert not (found.cleared | found.untold) >> 7 & 1
