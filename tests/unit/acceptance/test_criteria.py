"""The criteria of an acceptance by its state and its records."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_gsw.acceptance.plan import Criteria
from pytest_gsw.acceptance.state import AcceptanceState, CriterionResult, covered_nodes, criteria_of, exceptions_of
from pytest_gsw.results.record import AmongTiles, Record
from pytest_gsw.stats.goodput import Endurance
from tests.unit.acceptance.plans import DOCUMENTED, DRAINED, NODES, SLOW, documented, state_of, tiles
from tests.unit.results.sweeps import ROW, slow_finding, tile


def _criterion(name: str, state: AcceptanceState, records: list[Record]) -> CriterionResult:
    (result,) = (result for result in criteria_of(state, records) if result.name == name)
    return result


def test_nodes_that_passed_are_covered() -> None:
    coverage = _criterion("covered", state_of(), [*tiles(), *documented(4.5, 4.6)])
    assert (coverage.figure, coverage.verdict) == (6 / 8, "met")
    assert coverage.why == "6 of 8 nodes, 2 exceptions"


@pytest.mark.parametrize(
    ("states", "wanted", "verdict"),
    [
        ((), 0.75, "met"),
        ((), 0.875, "not met"),
        (("decided", "runs"), 0.875, "open"),  # n008 is tried again at the end
        (("decided", "runs"), 0.9, "not met"),  # n003 does not come back
        (("runs",), 0.75, "open"),  # another node can still fail
        (("not run",), 0.75, "open"),  # nothing was met
    ],
)
def test_coverage_is_decided_as_soon_as_nothing_can_change_it(
    states: tuple[str, ...], wanted: float, verdict: str
) -> None:
    state = state_of(*states, criteria=Criteria(covered=wanted))
    assert _criterion("covered", state, tiles()).verdict == verdict


def test_a_search_covers_the_nodes_of_a_slow_tile_that_it_does_not_name() -> None:
    of_switch = tile("n[001-004]", 5.0, stage="nodes")
    assert not covered_nodes(state_of(), [of_switch])
    named = replace(of_switch, among_tiles=AmongTiles(-0.1, (slow_finding("n003"),)))
    assert covered_nodes(state_of(), [named]) == {"n001", "n002", "n004"}


def test_the_slowest_row_is_within() -> None:
    within = _criterion("within", state_of(), [*tiles(), *documented(4.5, 4.6)])
    assert (within.verdict, within.figure) == ("met", pytest.approx(1 - 4.5 / 4.6))
    assert within.why == f"{DOCUMENTED[1]} is the slowest of 2 rows"
    assert within.low is not None
    assert within.high is not None
    # Three rows with that of the tiles, each with the usual noise of 1.65 %: 2.394 standard deviations.
    assert within.low == pytest.approx(1 - 4.5 / 4.6 * math.exp(2.394 * 0.0165), abs=1e-5)
    assert within.low < (within.figure or 0.0) < within.high


@pytest.mark.parametrize(
    ("states", "records", "verdict"),
    [
        ((), documented(4.5), "open"),
        (("decided", "waits"), [], "open"),
        (("decided", "not run"), [], "open"),
        (("decided", "runs"), documented(4.5), "open"),
        (("decided", "runs"), documented(5.0, outcome="regressed"), "not met"),
        ((), documented(4.5, 4.6, outcome="inconclusive"), "not met"),
        ((), documented(4.5, 4.6, outcome="error", measured={}), "not met"),
        ((), documented(4.5, 4.3), "met"),
    ],
)
def test_within_is_open_until_all_rows_have_ended(states: tuple[str, ...], records: list[Record], verdict: str) -> None:
    assert _criterion("within", state_of(*states), [*tiles(), *records]).verdict == verdict


def test_tiles_without_a_result_leave_coverage_open() -> None:
    state = state_of(criteria=Criteria(covered=0.5))
    coverage = _criterion("covered", state, tiles("n002"))
    assert (coverage.verdict, coverage.why) == ("open", f"5 of 8 nodes, 2 exceptions, {ROW}@n002: no result")


def test_rows_judged_with_a_larger_tolerance_leave_within_open() -> None:
    rows = [replace(one, row=replace(one.row, tolerance=0.1)) for one in documented(4.5, 4.6)]
    within = _criterion("within", state_of(), rows)
    assert within.verdict == "open"
    assert within.why.startswith(f"{DOCUMENTED[0]}: judged with a tolerance of 10.0 %")


def test_a_row_with_a_duration_that_is_too_slow_is_not_within() -> None:
    (slow,) = documented(5.0, outcome="regressed")
    slow = replace(slow, row=replace(slow.row, id="llama3_8b_bf16[H100x48]", stage="endurance"))
    assert _criterion("within", state_of(), [*documented(4.5, 4.6), slow]).verdict == "not met"


def test_each_node_of_a_tile_that_has_not_passed_is_covered_or_an_exception() -> None:
    of_switch = tile("n[001-004]", 5.0, stage="nodes")
    undecided = replace(slow_finding("n[001-002]"), kind="not decided")
    for findings in ((), (undecided,), (slow_finding("n003"),), (slow_finding("n003"), undecided)):
        record = replace(of_switch, among_tiles=AmongTiles(-0.1, findings))
        left_out = {one.node for one in exceptions_of("nodes", [record])}
        assert left_out | covered_nodes(state_of(exceptions=()), [record]) == {*NODES[:4]}, findings


def test_rows_that_are_not_good_are_named() -> None:
    within = _criterion("within", state_of(), documented(4.5, 4.6, outcome="error", measured={}))
    assert within.why == f"{DOCUMENTED[0]} error, {DOCUMENTED[1]} error"
    assert within.figure is None


def test_a_plan_without_criteria_has_none() -> None:
    assert criteria_of(state_of(criteria=Criteria()), tiles()) == ()


def test_a_row_with_a_duration_is_not_among_those_within() -> None:
    state = state_of("decided", "decided", "waits", criteria=Criteria(within=0.05, goodput=0.95))
    within, goodput = criteria_of(state, documented(4.5, 4.6))
    assert (within.verdict, goodput.verdict, goodput.figure) == ("met", "open", None)
    assert goodput.why == "stage endurance: waits"


def test_exceptions_of_both_kinds_are_left_out() -> None:
    back = state_of(exceptions=(SLOW,))
    assert covered_nodes(back, [*tiles(), tile("n008", stage="nodes")]) == set(NODES) - {"n003"}
    assert "n008" not in covered_nodes(state_of(exceptions=(DRAINED,)), [tile("n008", stage="nodes")])


def test_goodput_of_logs_that_take_longer_than_their_jobs_is_not_met() -> None:
    (row, *_) = documented(4.5, 4.6)
    used = Endurance(1, 100, 0, 100.0, 99.0, 0.0, 0.0, 0.0, 1.0)
    state = state_of(criteria=Criteria(goodput=0.9))
    stages = tuple(replace(stage, for_s=3600.0) if stage.name == row.row.stage else stage for stage in state.stages)
    state = replace(state, stages=stages)
    good = replace(row, endurance=used)
    assert _criterion("goodput", state, [good]).figure == 0.99
    odd = replace(row, endurance=replace(used, beyond_s=30.0))
    result = _criterion("goodput", state, [odd])
    assert result.verdict == "not met"
    assert "its logs' steps take longer than its jobs" in result.why
    simulated = replace(odd, run=replace(odd.run, simulated=True))
    assert "take longer" not in _criterion("goodput", state, [simulated]).why


def test_goodput_of_a_row_that_ended_before_its_time_by_an_error_is_not_met() -> None:
    (row, *_) = documented(4.5, outcome="error", measured={})
    used = Endurance(1, 100, 0, 100.0, 99.0, 0.0, 0.0, 0.0, 1.0)
    record = replace(row, row=replace(row.row, id="llama3_8b_bf16[H100x48]", stage="endurance"), endurance=used)
    result = _criterion("goodput", state_of(criteria=Criteria(goodput=0.9)), [record])
    assert (result.verdict, result.figure) == ("not met", 0.99)
