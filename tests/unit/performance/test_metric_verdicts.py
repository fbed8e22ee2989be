"""Outcomes by a site's metrics, and what a row is by all of them."""

from __future__ import annotations

import math

import pytest

from pytest_gsw.performance.repeats import Repeats
from pytest_gsw.performance.verdict import (
    WORST_FIRST,
    MetricVerdict,
    Outcome,
    Reason,
    judge,
    judge_metric,
    with_metrics,
)
from pytest_gsw.results import outcomes
from pytest_gsw.tables.metrics import Direction, Metric
from tests.unit.rows import LLAMA2_FP8_X128, measured

MEMORY = Metric("peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory")
OUTPUT = Metric("output_tokens_per_s", "tokens/s", Direction.HIGHER_IS_BETTER, "output")


def by(metric: Metric, *jobs: float, documented: float = 100.0, repeats: Repeats | None = None) -> MetricVerdict:
    return judge_metric(metric, jobs, documented, 0.05, repeats or Repeats(), 0.25)


@pytest.mark.parametrize(
    ("value", "lower", "higher"),
    [
        (74.9, Outcome.INCONCLUSIVE, Outcome.REGRESSED),
        (75.0, Outcome.IMPROVED, Outcome.REGRESSED),
        (94.9, Outcome.IMPROVED, Outcome.REGRESSED),
        (95.0, Outcome.PASSED, Outcome.PASSED),
        (100.0, Outcome.PASSED, Outcome.PASSED),
        (105.0, Outcome.PASSED, Outcome.PASSED),
        (105.1, Outcome.REGRESSED, Outcome.IMPROVED),
        (125.0, Outcome.REGRESSED, Outcome.IMPROVED),
        (125.1, Outcome.REGRESSED, Outcome.INCONCLUSIVE),
    ],
)
def test_the_tolerance_counts_in_the_metrics_own_direction(value: float, lower: Outcome, higher: Outcome) -> None:
    assert (by(MEMORY, value).outcome, by(OUTPUT, value).outcome) == (lower, higher)


@pytest.mark.parametrize("documented", [0.3, 61.2, 1840.0, 1e9])
def test_a_value_exactly_on_its_limit_passes(documented: float) -> None:
    assert by(MEMORY, documented * 1.05, documented=documented).outcome is Outcome.PASSED
    assert by(OUTPUT, documented * 0.95, documented=documented).outcome is Outcome.PASSED


def test_of_several_jobs_the_median_counts_and_each_must_be_believed() -> None:
    assert by(MEMORY, 120.0, 100.0, 101.0).measured == 101.0
    assert by(MEMORY, 100.0, 100.0, 1.0).outcome is Outcome.INCONCLUSIVE


def test_a_loss_is_confirmed_by_further_jobs() -> None:
    repeats = Repeats(first=1, confirm=2)
    assert by(MEMORY, 120.0, repeats=repeats).more == 1
    assert by(MEMORY, 120.0, 121.0, 122.0, repeats=repeats).more == 0
    assert by(MEMORY, 100.0, repeats=repeats).more == 0
    assert by(MEMORY, 100.0, repeats=Repeats(first=3)).more == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_figure_is_not_judged(value: float) -> None:
    with pytest.raises(ValueError, match="cannot judge peak_memory_gib"):
        by(MEMORY, value)


def test_the_order_of_outcomes_is_that_of_their_table() -> None:
    assert [one.value for one in WORST_FIRST] == [
        one.word for one in sorted(outcomes.OUTCOMES, key=lambda one: -one.severity) if one.word in outcomes.JUDGED
    ]


@pytest.mark.parametrize(
    ("own_s", "memory", "output", "row"),
    [
        (4.556, 100.0, 100.0, Outcome.PASSED),
        (4.556, 120.0, 100.0, Outcome.REGRESSED),
        (4.556, 100.0, 80.0, Outcome.REGRESSED),
        (4.556, 100.0, 200.0, Outcome.INCONCLUSIVE),
        (4.556, 90.0, 100.0, Outcome.IMPROVED),
        (5.5, 90.0, 200.0, Outcome.REGRESSED),
    ],
)
def test_a_row_is_the_worst_of_all(own_s: float, memory: float, output: float, row: Outcome) -> None:
    own = judge(LLAMA2_FP8_X128, measured(own_s), 0.05)
    verdict = with_metrics(own, [by(MEMORY, memory), by(OUTPUT, output)])
    assert verdict.outcome is row
    assert verdict.own is own.outcome
    assert verdict.reason is own.reason
    assert verdict.allowed_time_change == own.allowed_time_change


def test_without_metrics_a_verdict_is_its_own() -> None:
    own = judge(LLAMA2_FP8_X128, measured(5.5), 0.05)
    assert with_metrics(own, []) is own
    assert (own.own, own.reason) == (Outcome.REGRESSED, Reason.SLOWER)
