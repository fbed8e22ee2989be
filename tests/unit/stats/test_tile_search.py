from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.common.node_lists import expand
from pytest_gsw.stats.noise import Noise, noise_of
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.stats.tile_search import SearchState, TileJob, most_search_jobs, search

LEVEL_S = 10.0
#: The excess of a node that loses a tenth of its throughput.
SLOW = -math.log1p(-0.1)
QUIET = Noise(0.01, 30)

#: The excess of a job on nodes, noise included.
Excess = Callable[[Sequence[str]], float]


def tiles(count: int, size: int = 1) -> list[tuple[str, ...]]:
    names = [f"n{number:04d}" for number in range(count * size)]
    return [tuple(names[first : first + size]) for first in range(0, len(names), size)]


def job(nodes: Sequence[str], excess: float, number: int = 0) -> TileJob:
    return TileJob(",".join(nodes), tuple(nodes), LEVEL_S * math.exp(excess), number)


def sweep(excess: Excess, count: int, size: int = 1) -> list[TileJob]:
    return [job(nodes, excess(nodes)) for nodes in tiles(count, size)]


def run(
    excess: Excess,
    count: int,
    size: int = 1,
    noise: Noise | None = QUIET,
    switches: Mapping[str, str] | None = None,
    is_lost: Callable[[int], bool] = lambda _: False,
) -> tuple[SearchState, list[TileJob]]:
    """A sweep and its search of 80 jobs at most, with the rules that hold for each round."""
    jobs, rounds, sum_of_jobs = sweep(excess, count, size), 0, 0
    slower = {
        node
        for at, one in enumerate(jobs)
        if one.cost > statistics.median([each.cost for each in jobs[:at] + jobs[at + 1 :]] or [math.inf])
        for node in one.nodes
    }
    while True:
        given: dict[str, Any] = {"noise": noise, "switches": switches, "rounds": rounds, "most_jobs": 80 - sum_of_jobs}
        state = search(jobs, **given)
        assert state == search(jobs[::-1], **given)
        assert {node for one in state.findings if not one.switch for node in expand(one.nodes)} <= slower
        in_lines = Counter(
            [*state.cleared, *state.once, *(node for one in state.findings for node in expand(one.nodes))]
        )
        assert in_lines == Counter(node for one in jobs if not one.round for node in one.nodes)
        if not state.next_jobs:
            return state, jobs
        assert state.round == rounds + 1
        rounds = state.round
        sum_of_jobs += len(state.next_jobs)
        assert max(Counter(node for nodes in state.next_jobs for node in nodes).values()) == 1
        assert {len(nodes) for nodes in state.next_jobs} == {size}
        jobs += [job(nodes, excess(nodes), rounds) for nodes in state.next_jobs if not is_lost(rounds)]


def of_nodes(slow: Mapping[str, float], noise: Callable[[], float] = lambda: 0.0) -> Excess:
    return lambda nodes: max((slow.get(node, 0.0) for node in nodes), default=0.0) + noise()


def of_switch(name: str, least: int, slow: float = SLOW) -> tuple[Excess, dict[str, str]]:
    """A switch of eight nodes that is slow for a job with so many of its nodes, and one other at least."""
    switches = {node: f"leaf{int(node[1:]) // 8}" for (node,) in tiles(64)}
    return (
        lambda nodes: slow if len(nodes) > 1 and sum(switches[node] == name for node in nodes) >= least else 0.0
    ), switches


def gaussian(sigma: float) -> list[float]:
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    return [rng.gauss(0, sigma) for _ in range(64)]


def answers(state: SearchState) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.kind, expand(one.nodes), one.switch) for one in state.findings]


# -- Answers ---------------------------------------------------------------------------------------


def test_a_slow_node_runs_again_by_itself_and_is_named() -> None:
    state, jobs = run(of_nodes({"n0017": SLOW}), 64)
    (found,) = state.findings
    assert (found.kind, found.nodes, found.switch, found.more_jobs) == ("slow", "n0017", "", None)
    assert found.change == pytest.approx(-0.1)
    assert -0.12 < found.low < -0.1 < found.high < -0.08
    assert [one.nodes for one in jobs if one.round and "n0017" in one.nodes] == [("n0017",)] * found.jobs
    controls = [one.nodes for one in jobs if one.round and "n0017" not in one.nodes]
    assert len(controls) == len({*controls}) == found.jobs
    assert state.peers["n0017"] == pytest.approx(-0.1)
    assert state.peers["n0018"] == 0
    assert len(state.cleared) == 63


def test_two_slow_jobs_name_nothing() -> None:
    state, _ = run(of_nodes({"n0017": 1.0}), 64)
    assert state.findings[0].jobs == 3


def test_a_slow_node_of_a_tile_is_named_beside_nodes_of_fast_tiles() -> None:
    state, jobs = run(of_nodes({"n0017": SLOW}), 16, 4)
    assert answers(state) == [("slow", ("n0017",), "")]
    own = set(tiles(16, 4)[4])
    twice = Counter[str]()
    for one in jobs:
        if own.intersection(one.nodes) and one.round:
            # A second job has proven the partners.
            assert all(twice[node] >= 2 for node in {*one.nodes} - own)
        elif one.round:
            assert len(one.nodes) == 4
        twice.update(one.nodes)
    alone = [frozenset(one.nodes) for one in jobs if own.intersection(one.nodes) == {"n0017"}]
    assert len(alone) == len({*alone}) >= 1


@pytest.mark.parametrize("size", [1, 4])
def test_three_slow_nodes_are_named(size: int) -> None:
    slow = {"n0001": SLOW, "n0030": SLOW, "n0031": 2 * SLOW}
    state, _ = run(of_nodes(slow), 64 // size, size)
    assert {expand(one.nodes) for one in state.findings if one.kind == "slow"} == {(node,) for node in slow}
    assert expand(state.findings[0].nodes) == ("n0031",)


def test_a_suspect_that_is_fast_again_is_cleared() -> None:
    once = iter([0.03])
    state, jobs = run(lambda nodes: next(once, 0.0) if "n0005" in nodes else 0.0, 16)
    assert not state.findings
    assert "n0005" in state.cleared
    assert sum(one.round > 0 and "n0005" in one.nodes for one in jobs) == 1


def test_a_node_that_was_slow_beyond_doubt_and_is_fast_since_is_intermittent() -> None:
    once = iter([0.15])
    state, _ = run(lambda nodes: next(once, 0.0) if "n0005" in nodes else 0.0, 16)
    (found,) = state.findings
    assert (found.kind, found.nodes, found.jobs) == ("intermittent", "n0005", 1)
    assert found.change == pytest.approx(math.expm1(-0.15))
    assert found.low < found.change < found.high


@pytest.mark.parametrize("step", [-0.03, 0.03, 0.1])
def test_a_search_in_another_hour_names_the_slow_node_alone(step: float) -> None:
    noise = iter([*gaussian(0.01)] * 4)
    excess = of_nodes({"n0017": SLOW}, lambda: next(noise))
    jobs, rounds = sweep(excess, 64), 0
    while (state := search(jobs, noise=QUIET, rounds=rounds)).next_jobs:
        rounds = state.round
        jobs += [job(nodes, excess(nodes) + step * rounds, rounds) for nodes in state.next_jobs]
    assert answers(state) == [("slow", ("n0017",), "")]
    assert len(state.cleared) == 63


@pytest.mark.parametrize("size", [4, 16, 32])
@pytest.mark.parametrize("loss", [0.05, 0.1])
def test_a_slow_switch_of_32_nodes_is_named_in_twelve_jobs(size: int, loss: float) -> None:
    switches = {node: f"leaf{int(node[1:]) // 32}" for (node,) in tiles(288)}
    noise = random.Random(2)  # noqa: S311 - noise, not cryptography
    state, jobs = run(
        lambda nodes: (
            noise.gauss(0, 0.005) - (sum(switches[node] == "leaf4" for node in nodes) > 1) * math.log1p(-loss)
        ),
        288 // size,
        size,
        switches=switches,
    )
    assert answers(state) == [("between", tuple(f"n{number:04d}" for number in range(128, 160)), "leaf4")]
    assert sum(one.round > 0 for one in jobs) <= 12


def test_a_node_without_a_second_job_may_lose_what_its_only_one_does_not_exclude() -> None:
    noise = gaussian(0.03)
    jobs = [job(nodes, excess) for nodes, excess in zip(tiles(64), noise, strict=True)]
    state = search(jobs, noise=Noise(0.03, 30), begins=False)
    undecided = {node for one in state.findings for node in expand(one.nodes)}
    assert not undecided.intersection(state.once)
    assert {*state.once} == {one.tile for one in jobs} - undecided - {*state.cleared} != set()
    assert 0.05 < state.once_loss < 0.11


@pytest.mark.parametrize("least", [1, 2])
def test_a_slow_switch_is_named_and_none_of_its_nodes(least: int) -> None:
    excess, switches = of_switch("leaf3", least)
    state, _ = run(excess, 16, 4, switches=switches)
    nodes = tuple(f"n{number:04d}" for number in range(24, 32))
    assert answers(state) == [("between", nodes, "leaf3")]


@pytest.mark.parametrize("least", [1, 2])
def test_without_switches_the_tiles_are_named(least: int) -> None:
    excess, _ = of_switch("leaf3", least)
    state, _ = run(excess, 16, 4)
    assert sorted(answers(state)) == [("between", nodes, "") for nodes in tiles(16, 4)[6:8]]


def test_slow_nodes_are_a_switch_only_if_none_of_it_is_fast() -> None:
    nodes = [node for (node,) in tiles(64)]
    switches = {node: f"leaf{int(node[1:]) // 4}" for node in nodes}
    state, _ = run(of_nodes(dict.fromkeys(nodes[4:8], SLOW)), 64, switches=switches)
    assert answers(state) == [("slow", tuple(nodes[4:8]), "leaf1")]
    state, _ = run(of_nodes(dict.fromkeys(nodes[4:7], SLOW)), 64, switches=switches)
    assert sorted(state.cleared) == nodes[:4] + nodes[7:]
    assert answers(state) == [("slow", (node,), "") for node in nodes[4:7]]


def test_a_sweep_without_a_search_decides_nothing() -> None:
    jobs = [
        job(nodes, SLOW if "n0017" in nodes else excess)
        for nodes, excess in zip(tiles(64), gaussian(0.01), strict=True)
    ]
    state = search(jobs, noise=QUIET, begins=False)
    (found,) = state.findings
    assert (found.kind, found.nodes, found.jobs) == ("not decided", "n0017", 1)
    # As one of 64, its interval is wider than that of a node that nothing selected.
    assert found.low < -0.1 - 0.025
    assert found.more_jobs == 3
    assert not state.next_jobs


def test_not_decided_gives_the_number_of_jobs() -> None:
    noise = Noise(0.03, 30)
    quiet = [job(nodes, min(excess, 0.02)) for nodes, excess in zip(tiles(17), gaussian(0.02)[:17], strict=True)]

    def after(rounds: int, excess: float) -> SweepFinding:
        later = [one for at in range(1, rounds + 1) for one in (job(["n0017"], excess, at), job(["n0001"], 0.0, at))]
        (found,) = search([*quiet, job(["n0017"], 0.09), *later], noise=noise).findings
        return found

    found = after(4, 0.05)
    assert (found.kind, found.nodes, found.jobs) == ("not decided", "n0017", 4)
    assert found.more_jobs is not None
    assert after(4 + 2 * found.more_jobs, 0.05).kind == "slow"
    # Near to half of the loss no number decides.
    assert after(6, 0.026).more_jobs is None


def test_of_a_tile_that_is_not_crossed_its_nodes_are_not_decided_together() -> None:
    state = search(sweep(of_nodes({"n0017": SLOW}), 16, 4), noise=QUIET, begins=False)
    assert answers(state) == [("not decided", tiles(16, 4)[4], "")]
    assert state.findings[0].more_jobs == 3 + 4


# -- Limits ----------------------------------------------------------------------------------------


def test_no_sweep_and_one_tile() -> None:
    assert search([]).findings == ()
    state = search([job(["n1"], SLOW)], noise=QUIET)
    assert (state.next_jobs, state.findings, state.cleared, state.peers) == ((), (), (), {"n1": 0.0})


@pytest.mark.parametrize("count", [2, 3])
def test_of_three_tiles_or_fewer_none_is_named(count: int) -> None:
    state, jobs = run(of_nodes({"n0000": SLOW}), count)
    assert [(one.kind, one.nodes, one.more_jobs) for one in state.findings] == [("not decided", "n0000", None)]
    assert not state.cleared
    assert len(jobs) == count


def test_without_a_history_four_tiles_have_no_noise() -> None:
    state, _ = run(of_nodes({"n0000": SLOW}), 4, noise=None)
    assert [one.kind for one in state.findings] == ["not decided"]
    state, _ = run(of_nodes({"n0000": SLOW}), 8, noise=None)
    assert [one.kind for one in state.findings] == ["slow"]


def test_if_most_tiles_are_slow_none_is_slower_than_its_peers() -> None:
    slow = dict.fromkeys([node for (node,) in tiles(40)], SLOW)
    state, _ = run(of_nodes(slow), 64)
    assert not state.findings


def test_slow_tiles_do_not_widen_the_noise() -> None:
    noise = gaussian(0.01)
    before, after = (
        search(
            [job(nodes, log + (at < slow) * SLOW) for at, (nodes, log) in enumerate(zip(tiles(64), noise, strict=True))]
        ).sigma
        for slow in (0, 12)
    )
    assert before == pytest.approx(0.01, rel=0.25)
    assert after == pytest.approx(before, rel=0.15)


def test_a_search_too_noisy_to_clear_a_node_begins_only_if_it_can_name_one() -> None:
    quiet = [job(nodes, excess) for nodes, excess in zip(tiles(64), gaussian(0.2), strict=True)]
    for excess, begins in ((0.35, False), (1.0, True)):
        state = search([*quiet, job(["n9999"], excess)], noise=Noise(0.2, 30))
        assert "n9999" in {node for one in state.findings for node in expand(one.nodes)}
        assert (("n9999",) in state.next_jobs) == begins


def test_the_budget_goes_to_the_slowest() -> None:
    jobs = sweep(of_nodes({"n0003": 0.06, "n0005": SLOW, "n0007": 0.08}), 64)
    *suspects, control = search(jobs, noise=QUIET).next_jobs
    assert suspects == [("n0005",), ("n0007",), ("n0003",)]
    assert search(jobs, noise=QUIET, most_jobs=2.9).next_jobs == (("n0005",), control)
    assert search(jobs, noise=QUIET, most_jobs=1.9).next_jobs == ()
    assert search(jobs, noise=QUIET, failed={control, ("n0007",)}).next_jobs[:-1] == (("n0005",), ("n0003",))
    assert control not in search(jobs, noise=QUIET, failed={control}).next_jobs
    assert search(jobs, noise=QUIET, most_jobs=-1).next_jobs == ()


def test_lost_jobs_run_again_and_a_search_without_any_ends() -> None:
    excess = of_nodes({"n0017": SLOW})
    state, jobs = run(excess, 16, 4, is_lost=lambda number: number == 1)
    assert answers(state) == [("slow", ("n0017",), "")]
    assert not any(one.round == 1 for one in jobs)
    state, jobs = run(excess, 16, 4, is_lost=lambda _: True)
    assert len(jobs) == 16
    assert [one.kind for one in state.findings] == ["not decided"]


def test_a_slow_node_among_the_fast_is_not_held_against_others() -> None:
    """A tile that was fast once by chance makes one cross slow; the next is beside another."""
    hidden = tiles(16, 4)[0][0]
    excess = of_nodes({"n0017": SLOW, hidden: SLOW})
    jobs = [job(one.nodes, -0.01) if hidden in one.nodes else one for one in sweep(excess, 16, 4)]
    rounds = 0
    while (state := search(jobs, noise=QUIET, rounds=rounds)).next_jobs:
        rounds = state.round
        jobs += [job(nodes, excess(nodes), rounds) for nodes in state.next_jobs]
    assert answers(state) == [("slow", ("n0017",), "")]


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("number", [0, 1])
def test_a_time_that_is_none_is_refused(seconds: float, number: int) -> None:
    with pytest.raises(ValueError, match="is no figure of a job"):
        search([*sweep(of_nodes({}), 8), TileJob("n0000", ("n0000",), seconds, number)])


# -- Properties ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 24), st.integers(1, 5), st.booleans())
def test_the_rules_of_a_round_hold_whatever_jobs_take(seed: int, count: int, size: int, known: bool) -> None:
    """:func:`run` has them: the order of jobs, one job a node, one line a node, no finding on a tile that was not slower."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    slow = {node: rng.uniform(0, 0.3) for nodes in tiles(count, size) for node in nodes if rng.random() < 0.1}
    sigma = rng.choice([0.0, 0.01, 0.1])
    excess = of_nodes(slow, lambda: rng.gauss(0, sigma) * rng.choice([1, 1, 1, 4]))
    switches = {node: f"leaf{rng.randrange(4)}" for nodes in tiles(count, size) for node in nodes} if known else None
    run(excess, count, size, None if rng.random() < 0.5 else QUIET, switches, lambda _: rng.random() < 0.1)


@given(st.integers(1, 64), st.integers(1, 4), st.sampled_from([None, QUIET, Noise(0.0, 30)]))
def test_equal_jobs_name_nothing(count: int, size: int, noise: Noise | None) -> None:
    state, jobs = run(of_nodes({}), count, size, noise)
    assert not state.findings
    assert len(jobs) == count


# -- Error rates: benchmarks/tile_search.py has more -----------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("count", "size", "sigma", "tailed", "named_percent"),
    [(64, 1, 0.0165, False, 99), (16, 4, 0.0165, False, 99), (16, 4, 0.03, False, 90), (64, 1, 0.03, True, 90)],
)
def test_slow_nodes_are_named_and_sound_ones_are_not(
    count: int, size: int, sigma: float, tailed: bool, named_percent: int
) -> None:
    rng = random.Random(f"{count} {size} {sigma} {tailed}")  # noqa: S311 - noise, not cryptography

    def noise() -> float:
        # Student's t with four degrees of freedom has a standard deviation of sqrt(2).
        return rng.gauss(0, sigma) / (math.sqrt(rng.gammavariate(2, 1)) if tailed else 1)

    sweeps, named, wrong = 200, 0, 0
    for number in range(sweeps):
        slow = f"n{rng.randrange(count * size):04d}"
        excess = of_nodes({slow: SLOW} if number % 2 else {}, noise)
        history = noise_of([math.exp(noise()) for _ in range(12)])
        jobs, rounds = sweep(excess, count, size), 0
        while (state := search(jobs, noise=history, rounds=rounds, most_jobs=48 + count - len(jobs))).next_jobs:
            rounds = state.round
            jobs += [job(nodes, excess(nodes), rounds) for nodes in state.next_jobs]
        found: list[SweepFinding] = [one for one in state.findings if one.kind in ("slow", "between")]
        named += [one.nodes for one in found] == [slow] and number % 2
        wrong += bool(found) and (number % 2 == 0 or any(slow not in expand(one.nodes) for one in found))
    assert named >= named_percent / 100 * sweeps / 2 - 2
    assert wrong <= 2


def test_a_switch_that_is_slow_in_the_sweep_alone_is_not_named() -> None:
    switches = {node: f"leaf{int(node[1:]) // 8}" for (node,) in tiles(64)}
    noise = gaussian(0.03)
    jobs = [
        job(nodes, excess + 0.04 * (switches[nodes[0]] == "leaf3"))
        for nodes, excess in zip(tiles(64), noise, strict=True)
    ]
    state = search(jobs, noise=Noise(0.03, 30), switches=switches)
    assert {one.kind for one in state.findings} == {"not decided"}


@pytest.mark.parametrize(("tiles", "jobs"), [(2, 48), (48, 48), (500, 500)])
def test_a_search_takes_about_as_many_jobs_as_there_are_tiles(tiles: int, jobs: int) -> None:
    assert most_search_jobs(tiles) == jobs
