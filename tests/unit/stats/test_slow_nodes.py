from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, strategies

from pytest_gsw.stats import slow_nodes
from pytest_gsw.stats.slow_nodes import JobEnd, JobTime, SlowNodeGroup, bits, failures, find, log_tail

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


def slow_groups(jobs: list[JobTime]) -> tuple[SlowNodeGroup, ...]:
    return find(jobs).slow_groups


def named(jobs: list[JobTime]) -> list[tuple[int, ...]]:
    return [one.nodes for one in slow_groups(jobs) if not one.recovered]


def test_a_slow_node_is_named() -> None:
    jobs = history(1, 37, {17: (30, 99, SLOW)})
    (found,) = slow_groups(jobs)
    assert found.nodes == (17,)
    assert found.excess == pytest.approx(SLOW, abs=0.02)
    assert found.since in range(30, 33)
    assert not found.recovered
    theirs = [index for index, job in enumerate(jobs) if job.nodes >> 17 & 1 and job.run >= found.since]
    assert sorted(found.slow_jobs + found.fast_jobs) == theirs
    assert len(found.fast_jobs) <= 1


def test_it_is_named_within_seven_runs() -> None:
    found = [named(history(seed, 37, {17: (30, 99, SLOW)})) for seed in range(20)]
    assert found.count([(17,)]) >= 19
    found = [named(history(seed, 14, {17: (0, 99, SLOW)})) for seed in range(10)]
    assert found.count([(17,)]) >= 9


@pytest.mark.sampled(2)
@pytest.mark.parametrize("noise", [gaussian, heavy_tails, skewed, odd_jobs])
def test_sound_nodes_are_not_named(noise: Noise) -> None:
    assert [one for seed in range(4) for one in slow_groups(history(seed, 60, noise=noise))] == []


def evidence(search: slow_nodes._Search, most: float) -> Mapping[int, float]:
    """All evidence against each suspect, which is no less than its largest sum."""
    return {
        suspect: sum(max(0.0, min(search.ratios[index], most)) for index in indices)
        for suspect, indices in search.jobs_of.items()
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("noise", [gaussian, heavy_tails, skewed, odd_jobs])
@pytest.mark.parametrize(
    "slow", [{}, {17: (20, 99, SLOW)}, {17: (10, 25, SLOW), 40: (12, 99, SLOW), 3: (30, 99, 0.05)}]
)
def test_suspects_are_tested_in_the_order_of_their_largest_sums(
    noise: Noise, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = [history(seed, 45, slow, noise) for seed in range(2)]
    for jobs in histories:
        search = slow_nodes._Search(jobs)
        search._fit_levels()
        most = search._limit()
        tops = {suspect: search._peak(suspect, most).top for suspect in search.jobs_of}
        assert {suspect: top for suspect, top in search._tops(most).items() if top} == {
            suspect: top for suspect, top in tops.items() if top
        }
    found = [find(jobs) for jobs in histories]
    monkeypatch.setattr(slow_nodes._Search, "_tops", evidence)
    assert [find(jobs) for jobs in histories] == found


class PlainSearch(slow_nodes._Search):
    """The search with the sums of all runs of the cluster."""

    def _fit_levels(self) -> None:
        super()._fit_levels()
        self.highest = dict.fromkeys(self.of_run, math.inf)


#: Slow nodes: up to three, at any time and by any loss.
SLOW_NODES = strategies.dictionaries(
    strategies.integers(0, NODES - 1),
    strategies.tuples(strategies.integers(0, 40), strategies.integers(10, 60), strategies.floats(0.01, 0.4)),
    max_size=3,
)


@given(
    strategies.integers(0, 2**32),
    strategies.integers(1, 45),
    SLOW_NODES,
    strategies.sampled_from([gaussian, heavy_tails, skewed, odd_jobs]),
    strategies.integers(1, 12),
    # Slow runs: those of eight rows and more lose their effect.
    strategies.dictionaries(strategies.integers(0, 44), strategies.floats(0.02, 0.1), max_size=9),
    strategies.floats(0.05, 4),
)
def test_sums_of_the_cluster_that_are_left_out_change_nothing(
    seed: int, runs: int, slow: Slow, noise: Noise, rows: int, slow_runs: Mapping[int, float], share: float
) -> None:
    jobs = [one._replace(log_s=one.log_s + slow_runs.get(one.run, 0)) for one in history(seed, runs, slow, noise, rows)]
    search, plain = slow_nodes._Search(jobs), PlainSearch(jobs)

    def peaks(of: slow_nodes._Search) -> list[slow_nodes._Peak]:
        limits = (of.most * share, of.most, of.most * 1.2)
        return [of._peak(of.cluster, most, last) for most in limits for last in (None, *range(runs))]

    search._fit_levels()
    plain._fit_levels()
    assert peaks(search) == peaks(plain)
    assert search._find_suspects([]) == plain._find_suspects([])
    for run, indices in search.of_run.items():
        highest = sum(max(-2 * search.most, search.ratios[index]) for index in indices)
        assert search.highest[run] == pytest.approx(highest, abs=1e-6)
    assert peaks(search) == peaks(plain)
    assert find(jobs).slow_groups == tuple(PlainSearch(jobs).find_slow())


def test_the_sum_of_a_sound_cluster_is_left_out() -> None:
    search = slow_nodes._Search(history(1, 40, {17: (30, 99, SLOW)}))
    assert [*search.find_slow()]
    search.ratios = []
    assert search._peak(search.cluster, search.most).top == 0


def test_no_sum_is_left_out_for_a_lower_limit() -> None:
    search = slow_nodes._Search(history(1, 2))
    search._fit_levels()
    search.most = 4.0
    search.ratios = [0.1] * (ROWS - 2) + [-100.0] * 2 + [0.0] * ROWS
    search.highest = {0: 0.1 * (ROWS - 2) - 2 * 2 * search.most, 1: 0.0}
    assert search._peak(search.cluster, 0.1).top == pytest.approx(1.5 * 0.1)


#: Four leaf switches.
LEAVES = [((1 << 16) - 1) << first for first in range(0, NODES, 16)]


def on_leaves(seed: int, runs: int, slower: Callable[[int, int], float], rows: int = 16) -> list[JobTime]:
    """Jobs on nodes of one leaf switch each; ``slower`` is what a switch costs in a run."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for run in range(runs):
        for row in range(rows):
            leaf = rng.randrange(4)
            nodes = rng.sample(range(16 * leaf, 16 * leaf + 16), (1, 2, 4, 8)[row % 4])
            value = row + slower(leaf, run) + gaussian(rng)
            jobs.append(JobTime(run, row, value, sum(1 << node for node in nodes)))
    return jobs


@pytest.mark.parametrize("nights", [1, 3])
def test_switches_congested_now_and_then_are_named_and_not_their_nodes(nights: int) -> None:
    def slower(leaf: int, run: int) -> float:
        return 0.06 if run >= 10 and (run - 10) // 9 % 2 == leaf and (run - 10) % 9 < nights else 0.0

    jobs = on_leaves(1, 90, slower)
    found = find(jobs, LEAVES).slow_groups
    assert sorted((one.switch, one.recovered) for one in found) == [(0, False), (1, False)]
    for one in found:
        assert one.nodes == tuple(bits(LEAVES[one.switch or 0]))
        assert one.excess == pytest.approx(0.06, abs=0.02)
        assert len(one.fast_jobs) > len(one.slow_jobs)
    assert find(jobs[: 16 * 11], LEAVES).slow_groups == ()  # once


def test_a_slow_switch_is_named_until_it_is_fast_again() -> None:
    (found,) = find(on_leaves(1, 40, lambda leaf, run: SLOW * (leaf == 2 and run >= 30)), LEAVES).slow_groups
    assert (found.switch, found.nodes, found.recovered) == (2, tuple(range(32, 48)), False)
    assert found.excess == pytest.approx(SLOW, abs=0.02)
    assert found.since in range(30, 33)
    (found,) = find(on_leaves(1, 60, lambda leaf, run: SLOW * (leaf == 2 and 30 <= run < 40)), LEAVES).slow_groups
    assert (found.switch, found.last, found.recovered) == (2, 39, True)


def test_a_slow_node_is_named_below_its_switch() -> None:
    jobs = history(1, 37, {17: (30, 99, SLOW)})
    assert [(one.nodes, one.switch) for one in find(jobs, LEAVES).slow_groups] == [((17,), None)]
    result = find(jobs, LEAVES)
    assert result.cleared | result.undecided == (1 << NODES) - 1 & ~(1 << 17)


def test_a_slow_hour_of_all_rows_is_no_switch() -> None:
    assert find(on_leaves(1, 40, lambda _, run: 0.08 * (run % 5 == 0), rows=6), LEAVES).slow_groups == ()


@given(strategies.integers(0, 2**32), strategies.sampled_from([gaussian, heavy_tails, skewed, odd_jobs]))
def test_a_switch_above_all_nodes_is_not_named(seed: int, noise: Noise) -> None:
    jobs = history(seed, 25, {17: (10, 99, SLOW)}, noise)
    assert all(one.switch is None for one in find(jobs, [(1 << NODES) - 1]).slow_groups)


def test_one_run_and_the_next_name_no_node() -> None:
    jobs = history(1, 32, {17: (30, 99, 0.4)}, rows=20)
    assert slow_groups(jobs) == ()


def test_a_repaired_node_is_no_culprit_any_more() -> None:
    (found,) = slow_groups(history(2, 70, {17: (30, 45, SLOW)}))
    assert (found.nodes, found.recovered) == ((17,), True)
    assert found.last in range(42, 46)
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
    assert slow_groups(jobs) == ()


def test_a_slower_cluster_and_a_slow_run_accuse_no_node() -> None:
    jobs = history(6, 60, rows=3)
    slower = [JobTime(one.run, one.row, one.log_s + (SLOW if one.run >= 40 else 0), one.nodes) for one in jobs]
    assert slow_groups(slower) == ()
    jobs = history(7, 60)
    slower = [JobTime(one.run, one.row, one.log_s + (0.2 if one.run % 9 == 0 else 0), one.nodes) for one in jobs]
    assert slow_groups(slower) == ()
    assert slow_groups([]) == ()
    assert slow_groups(history(8, 1)) == ()


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
    assert (found.cleared, found.undecided) == ((1 << FEW) - 1, 0)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_a_history_without_levels_clears_nobody(runs: int) -> None:
    found = find(month(runs))
    assert found.cleared == 0
    assert {*bits(found.undecided)} == {node for job in month(runs) for node in bits(job.nodes)}


def test_noise_takes_longer() -> None:
    few, many = find(month(5)).undecided.bit_count(), find(month(5, 0.06)).undecided.bit_count()
    assert many > FEW / 2 > few


def test_a_row_that_always_runs_on_the_same_nodes_clears_none_of_them() -> None:
    """Its level is theirs, whether one of them is slow or not."""
    found = find([JobTime(one.run, one.row, one.log_s, 15 << 4 * one.row) for one in month(40)])
    assert (found.cleared, found.undecided) == (0, (1 << 24) - 1)


def test_a_slow_node_is_not_cleared() -> None:
    for seed in range(10):
        found = find(month(40, 0.03, {7: SLOW}, seed))
        assert not found.cleared >> 7 & 1
        assert found.cleared.bit_count() > FEW / 2
    jobs = [
        JobTime(one.run, one.row, one.log_s + SLOW * (one.run >= 30 and one.nodes >> 7 & 1), one.nodes)
        for one in month(40)
    ]
    found = find(jobs)
    assert not (found.cleared | found.undecided) >> 7 & 1  # it is known
    jobs = month(40, 0.01)
    last = [JobTime(40, row, row + SLOW, 1 << 7 | 1 << 20 + row) for row in range(3)]
    found = find(jobs + last)
    assert not found.cleared >> 7 & 1
    assert found.cleared.bit_count() >= FEW - 4
    found = find([one for one in month(60) if one.run < 25 or not one.nodes & 1 << 7])
    assert not (found.cleared | found.undecided) >> 7 & 1


# -- nodes whose jobs fail -------------------------------------------------------------------------

RUNS = 60
BAD = 17


def runs(
    seed: int,
    bad: Mapping[int, float] | None = None,
    of_rows: Mapping[int, float] | None = None,
    of_all: float = 0.0,
    together: Sequence[int] = (),
) -> list[JobEnd]:
    """Jobs on random nodes; by nodes, rows and runs, how often they fail."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for run in range(RUNS):
        is_bad_run = rng.random() < of_all
        for row in range(ROWS):
            nodes = set(rng.sample(range(NODES), SIZES[row % len(SIZES)]))
            if nodes.intersection(together):
                nodes.update(together)
            well = 0.3 if is_bad_run else 0.99
            well *= 1 - (of_rows or {}).get(row, 0.0)
            for node in nodes:
                well *= 1 - (bad or {}).get(node, 0.0)
            jobs.append(JobEnd(str(run), str(row), sum(1 << node for node in nodes), rng.random() > well))
    return jobs


def failing(jobs: list[JobEnd]) -> list[tuple[int, ...]]:
    return [one.nodes for one in failures(jobs) if one.named]


def test_failures_are_counted_by_node() -> None:
    jobs = [JobEnd(str(run), "a", 1 << run % 3, failed=run == 4) for run in range(12)]
    (one,) = failures(jobs)
    assert (one.nodes, one.failed, one.of, one.named) == ((1,), 1, 4, False)
    assert one.usual == pytest.approx(1 / 12)
    assert failures([]) == failures([JobEnd("1", "a", 1, failed=False)]) == ()


def test_a_node_that_fails_half_of_its_jobs_is_named_alone() -> None:
    for seed in range(10):
        found = failures(runs(seed, {BAD: 0.5}))
        assert [one.nodes for one in found if one.named] == [(BAD,)]


@pytest.mark.parametrize("noise", [{}, {"of_rows": {1: 0.5, 3: 0.3}}, {"of_all": 0.05}])
def test_nodes_on_which_rows_or_runs_fail_are_not_named(noise: dict[str, object]) -> None:
    """Whether jobs fail by chance, rows by themselves, or all of a run."""
    assert [one for seed in range(10) for one in failing(runs(seed, **noise))] == []  # type: ignore[arg-type]


def test_nodes_that_fail_jobs_together_are_named_together() -> None:
    (found,) = failing(runs(1, {BAD: 0.5}, together=(BAD, 40)))
    assert found == (BAD, 40)
    assert sorted(failing(runs(2, {BAD: 0.6, 40: 0.6}))) == [(BAD,), (40,)]
    jobs = [JobEnd(one.run, one.row, 15 << 4 * int(one.row), one.failed) for one in runs(3, of_rows={2: 0.6})]
    assert failing(jobs) == []


def test_the_tail_at_the_ends() -> None:
    assert log_tail(0, 9, 0.0) == log_tail(3, 9, 1.0) == 0.0
    assert log_tail(1, 9, 0.0) == -math.inf
