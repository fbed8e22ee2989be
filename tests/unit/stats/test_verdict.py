from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_gsw.results import outcomes
from pytest_gsw.stats.decision import WORST_FIRST, Outcome
from pytest_gsw.stats.measurement import TimedStep, apply, timing_of
from pytest_gsw.stats.noise import Noise, limit
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import (
    DOUBTS,
    MetricVerdict,
    Reason,
    Verdict,
    after_search,
    compare,
    judge_metric,
    verdict_of,
    with_metrics,
)
from pytest_gsw.tables.metrics import BENCHMARKS, BY_KEY, METRICS, VALUE, Direction, Figure, Metric
from pytest_gsw.tables.model import Accepted, Figures, parse_statistic
from tests.unit.rows import LLAMA2_FP8_X128, measured

TIMES = st.floats(1e-6, 1e9)
TOLERANCES = st.floats(1e-6, 1.0)
#: Gains of any size are believed here.
UNBOUNDED = 1e30
ORDER = [Outcome.IMPROVED, Outcome.PASSED, Outcome.REGRESSED]


def verdict(
    measured_s: float, documented: float = 4.556, tolerance: float = 0.05, max_gain: float = UNBOUNDED
) -> Verdict:
    row = replace(LLAMA2_FP8_X128, documented=Figures(step_time_s=documented))
    return verdict_of(row, measured(measured_s), tolerance, max_gain=max_gain)


def test_with_a_tolerance_of_everything_nothing_is_too_slow() -> None:
    slow = verdict(1e9, tolerance=1.0)
    assert slow.outcome is Outcome.PASSED
    assert slow.metric.direction.change_by(slow.allowed_gain) == -1
    assert verdict(2.0, tolerance=1.0).outcome is Outcome.IMPROVED


def test_the_numbers_of_a_verdict() -> None:
    slow = verdict(5.0, documented=4.0, tolerance=0.05)
    assert slow == Verdict(
        Outcome.REGRESSED,
        measured=5.0,
        documented=4.0,
        tolerance=0.05,
        jobs=(5.0,),
        steady_s=5.0,
        given_reason=Reason.SLOWER,
        more=0,
        max_gain=UNBOUNDED,
    )
    assert slow.measured / slow.reference - 1 == pytest.approx(0.25)
    assert slow.gain == pytest.approx(-0.2)
    assert slow.allowed_gain == -0.05
    assert slow.metric.direction.change_by(slow.allowed_gain) == pytest.approx(1 / 0.95 - 1)
    fast = verdict(3.0, documented=4.0, tolerance=0.05)
    assert fast.allowed_gain == 0.05
    assert fast.metric.direction.change_by(fast.allowed_gain) == pytest.approx(1 / 1.05 - 1)


NOT_NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -0.0, -4.556]


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_what_is_not_above_zero_and_finite_is_not_judged(number: float) -> None:
    for name, arguments in {
        "measured": (number, 4.556, 0.05),
        "documented": (4.556, number, 0.05),
        "tolerance": (4.556, 4.556, number),
    }.items():
        with pytest.raises(ValueError, match="judge") as error:
            verdict(*arguments)
        assert str(error.value) == f"cannot judge llama2_70b_fp8[H100x128]: its {name} figure is {number}"


def test_a_row_without_a_documented_figure_is_not_judged() -> None:
    row = replace(LLAMA2_FP8_X128, documented=Figures())
    with pytest.raises(ValueError, match="judge") as error:
        verdict_of(row, measured(4.556), 0.05)
    assert str(error.value) == "cannot judge llama2_70b_fp8[H100x128]: its documented figure is None"


@given(documented=TIMES, tolerance=TOLERANCES, one=TIMES, other=TIMES)
def test_a_slower_run_is_never_judged_better(documented: float, tolerance: float, one: float, other: float) -> None:
    faster, slower = sorted((one, other))
    outcomes = [verdict(time_s, documented, tolerance).outcome for time_s in (faster, slower)]
    assert ORDER.index(outcomes[0]) <= ORDER.index(outcomes[1])


@given(one=TIMES, other=TIMES, tolerance=TOLERANCES)
def test_what_regressed_one_way_round_improved_the_other_way_round(one: float, other: float, tolerance: float) -> None:
    if verdict(one, other, tolerance).outcome is Outcome.REGRESSED:
        assert verdict(other, one, tolerance).outcome is Outcome.IMPROVED


@given(
    measured_s=st.floats(allow_nan=True, allow_infinity=True),
    documented=st.floats(allow_nan=True, allow_infinity=True) | st.none(),
    tolerance=st.floats(allow_nan=True, allow_infinity=True),
)
def test_only_finite_numbers_above_zero_ever_pass(
    measured_s: float, documented: float | None, tolerance: float
) -> None:
    row = replace(LLAMA2_FP8_X128, documented=Figures(step_time_s=documented))
    numbers = (measured_s, documented, tolerance)
    possible = all(number is not None and math.isfinite(number) and number > 0 for number in numbers)
    if possible:
        assert verdict_of(row, measured(measured_s), tolerance).outcome in Outcome
    else:
        with pytest.raises(ValueError, match="cannot judge"):
            verdict_of(row, measured(measured_s), tolerance)


ACCEPTED = Accepted("eos", 5.0, jobs=7, spread=0.008, job_ids="1, 2", date="2026-11-20", definition="3f2a9c1d0e4b")


def test_what_a_cluster_has_accepted_stands_in_the_documents_place() -> None:
    found = verdict_of(LLAMA2_FP8_X128, measured(5.11), 0.05, ACCEPTED)
    assert (found.outcome, found.measured, found.documented) == (Outcome.PASSED, 5.11, 4.556)
    assert (found.tolerance, found.accepted) == (0.05, 5.0)
    assert found.reference == 5.0
    assert found.measured / found.reference - 1 == pytest.approx(5.11 / 5.0 - 1)
    assert found.gain == pytest.approx(5.0 / 5.11 - 1)
    assert found.documented_change == pytest.approx(4.556 / 5.11 - 1)
    assert found.documented_outcome is Outcome.REGRESSED
    assert verdict_of(LLAMA2_FP8_X128, measured(5.3), 0.05, ACCEPTED).outcome is Outcome.REGRESSED
    assert verdict_of(LLAMA2_FP8_X128, measured(4.7), 0.05, ACCEPTED).outcome is Outcome.IMPROVED


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_an_accepted_figure_that_is_no_number_is_not_judged_by(number: float) -> None:
    with pytest.raises(ValueError, match="judge") as error:
        verdict_of(LLAMA2_FP8_X128, measured(5.0), 0.05, replace(ACCEPTED, judged=number))
    assert str(error.value) == f"cannot judge llama2_70b_fp8[H100x128]: its accepted figure is {number}"


def noisy(measured_s: float, sigma: float, *jobs_s: float, repeats: Repeats | None = None) -> Verdict:
    jobs = (measured_s, *jobs_s)
    measurement = replace(measured(statistics.median(jobs)), jobs=jobs)
    return verdict_of(LLAMA2_FP8_X128, measurement, 0.05, noise=Noise(sigma, 30), repeats=repeats)


SLOW_S = 4.556 * 1.08


def test_every_figure_has_a_direction() -> None:
    assert {*BY_KEY, VALUE} == {*vars(Figures())}


@pytest.mark.parametrize(("name", "direction"), [(metric.key, metric.direction) for metric in METRICS])
def test_a_loss_and_a_gain_of_each_figure(name: str, direction: Direction) -> None:
    worse, better = (1.2, 0.8) if name.endswith(("_s", "_tokens")) and "per_s" not in name else (0.8, 1.2)
    assert compare(worse, 1.0, 0.05, direction) is Outcome.REGRESSED
    assert compare(better, 1.0, 0.05, direction) is Outcome.IMPROVED
    assert compare(1.0, 1.0, 0.05, direction) is Outcome.PASSED


@given(
    metric=st.sampled_from(BENCHMARKS),
    measured=st.floats(0.1, 1e3),
    reference=st.floats(0.1, 1e3),
    allowed=st.floats(0.001, 0.9),
)
def test_costs_are_judged_as_their_figures(metric: Metric, measured: float, reference: float, allowed: float) -> None:
    direction = metric.direction
    assert direction.cost(direction.cost(measured)) == pytest.approx(measured)
    by_cost = compare(direction.cost(measured), direction.cost(reference), allowed, Direction.LOWER_IS_BETTER)
    gain = direction.speed(measured, reference) - 1
    assume(abs(abs(gain) - allowed) > 1e-9)  # where the last digit decides
    assert by_cost is compare(measured, reference, allowed, direction)
    assert metric.change_by(gain) == pytest.approx(metric.change(measured, reference), rel=1e-6, abs=1e-9)
    assert Figure(metric, measured).change(reference) == pytest.approx(measured / reference - 1)


@pytest.mark.parametrize(
    ("direction", "tolerance", "measured", "outcome", "allowed"),
    [
        (Direction.EQUAL_IS_BEST, 0.005, 8.97, Outcome.PASSED, 0.005),
        (Direction.EQUAL_IS_BEST, 0.005, 9.0, Outcome.REGRESSED, 0.005),
        (Direction.EQUAL_IS_BEST, 0.005, 8.8, Outcome.REGRESSED, -0.005),
        (Direction.EQUAL_IS_BEST, 0.0, 8.931, Outcome.PASSED, 0.0),
        (Direction.EQUAL_IS_BEST, 0.0, 8.932, Outcome.REGRESSED, 0.0),
        (Direction.LOWER_IS_BETTER, 0.0, 1.0, Outcome.PASSED, 0.0),
        (Direction.LOWER_IS_BETTER, 0.0, 8.94, Outcome.REGRESSED, 0.0),
        (Direction.HIGHER_IS_BETTER, 0.0, 90.0, Outcome.PASSED, 0.0),
        (Direction.HIGHER_IS_BETTER, 0.0, 8.9, Outcome.REGRESSED, 0.0),
    ],
)
def test_limits_and_figures_to_be_met(
    direction: Direction, tolerance: float, measured: float, outcome: Outcome, allowed: float
) -> None:
    metric = Metric("final_loss", "", direction, "final loss")
    found = judge_metric(metric, [measured], 8.931, tolerance, Repeats(1, 2), 0.25)
    assert (found.outcome, found.allowed_change) == (outcome, allowed)
    assert found.more == (outcome is Outcome.REGRESSED)


def test_a_loss_within_the_noise_is_inconclusive_and_a_gain_within_it_no_improvement() -> None:
    found = noisy(SLOW_S, 0.03)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, Reason.WITHIN_NOISE)
    assert found.limit == found.allowed == pytest.approx(limit(0.05, Noise(0.03, 30)))
    found = noisy(4.556 / 1.08, 0.03)
    assert (found.outcome, found.reason) == (Outcome.PASSED, Reason.GAIN_WITHIN_NOISE)
    assert noisy(4.556 / 1.2, 0.03).outcome is Outcome.IMPROVED


def test_the_median_of_all_jobs_decides() -> None:
    repeats = Repeats(confirm=2)
    passed = noisy(5.5, 0.01, 4.56, 4.55, repeats=repeats)
    assert (passed.outcome, passed.measured, passed.jobs) == (Outcome.PASSED, 4.56, (5.5, 4.56, 4.55))
    failed = noisy(5.5, 0.01, 4.55, 5.2, repeats=repeats)
    assert (failed.outcome, failed.measured, failed.more) == (Outcome.REGRESSED, 5.2, 0)


def test_a_statistic_that_is_far_from_the_steady_median_is_told() -> None:
    measurement = replace(measured(4.556), timing=timing_of([4.9] * 20))
    found = verdict_of(LLAMA2_FP8_X128, measurement, 0.05)
    assert found.statistic_gap == pytest.approx(4.556 / 4.9 - 1)
    assert verdict_of(LLAMA2_FP8_X128, replace(measurement, timing=timing_of([4.6] * 20)), 0.05).statistic_gap is None


@given(sigma=st.floats(0, 0.5), jobs=st.lists(st.floats(4.0, 6.0), min_size=1, max_size=5))
def test_a_loss_beyond_the_tolerance_never_passes_and_noise_makes_nothing_else_red(
    sigma: float, jobs: list[float]
) -> None:
    found = noisy(jobs[0], sigma, *jobs[1:])
    slow = compare(found.measured, found.reference, 0.05, found.metric.direction) is Outcome.REGRESSED
    assert slow == (found.outcome in {Outcome.REGRESSED, Outcome.INCONCLUSIVE})


# -- what is measured and not believed -------------------------------------------------------------


def test_a_gain_of_more_than_a_quarter_is_too_good_to_be_true() -> None:
    for measured_s, outcome, reason in (
        (4.556 / 1.25, Outcome.IMPROVED, Reason.FASTER),
        (4.556 / 1.2501, Outcome.INCONCLUSIVE, Reason.TOO_GOOD),
        (4.556 / 1000, Outcome.INCONCLUSIVE, Reason.TOO_GOOD),
    ):
        found = verdict_of(LLAMA2_FP8_X128, measured(measured_s), 0.05)
        assert (found.outcome, found.reason, found.max_gain) == (outcome, reason, 0.25)
    assert verdict_of(LLAMA2_FP8_X128, measured(4.556 / 10), 0.05).more == 0


def test_a_gain_is_believed_by_the_row_the_caller_and_a_wider_tolerance() -> None:
    fast = measured(4.556 / 1.6)
    assert verdict_of(LLAMA2_FP8_X128, fast, 0.05).outcome is Outcome.INCONCLUSIVE
    assert (
        verdict_of(
            replace(LLAMA2_FP8_X128, criterion=replace(LLAMA2_FP8_X128.criterion, max_gain=0.7)), fast, 0.05
        ).outcome
        is Outcome.IMPROVED
    )
    assert verdict_of(LLAMA2_FP8_X128, fast, 0.05, max_gain=0.7).outcome is Outcome.IMPROVED
    assert (
        verdict_of(
            replace(LLAMA2_FP8_X128, criterion=replace(LLAMA2_FP8_X128.criterion, max_gain=0.7)),
            fast,
            0.05,
            max_gain=0.5,
        ).outcome
        is Outcome.INCONCLUSIVE
    )
    assert verdict_of(LLAMA2_FP8_X128, fast, 0.7).outcome is Outcome.PASSED
    assert verdict_of(LLAMA2_FP8_X128, measured(4.556 / 1.8), 0.7).outcome is Outcome.INCONCLUSIVE
    assert verdict_of(LLAMA2_FP8_X128, measured(4.556 / 1.08), 0.05, max_gain=0.06).outcome is Outcome.INCONCLUSIVE


def test_a_gain_that_noise_explains_is_no_wonder() -> None:
    assert noisy(4.556 / 1.4, 0.12).outcome is Outcome.PASSED
    assert noisy(4.556 / 1.4, 0.12).max_gain == pytest.approx(math.expm1(3.1 * 0.12))
    assert noisy(4.556 / 1.5, 0.12).reason is Reason.TOO_GOOD
    slow = replace(ACCEPTED, judged=9.0)
    assert verdict_of(LLAMA2_FP8_X128, measured(4.5), 0.05, slow).reason is Reason.TOO_GOOD
    fast = replace(ACCEPTED, judged=2.0)
    assert verdict_of(LLAMA2_FP8_X128, measured(2.0), 0.05, fast).outcome is Outcome.PASSED
    assert noisy(5.1, 0.01, 0.5, repeats=Repeats(confirm=1)).reason is Reason.TOO_GOOD
    assert noisy(4.5, 0.01, 4.6, 0.5, repeats=Repeats(3)).reason is Reason.TOO_GOOD
    assert noisy(5.5, 0.01, 5.6, 0.5, repeats=Repeats(confirm=2)).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("metric", ["calibrated_step_time", "checkpoint_save_time"])
def test_what_is_believed_of_other_figures(metric: str) -> None:
    row = replace(
        LLAMA2_FP8_X128,
        criterion=replace(LLAMA2_FP8_X128.criterion, metric=metric),
        documented=Figures(**{"step_time_s": 1.0, f"{metric}_s": 10.0}),
    )
    assert verdict_of(row, measured(9.0), 0.05).outcome is Outcome.IMPROVED
    assert verdict_of(row, measured(1.0), 0.05).reason is Reason.TOO_GOOD


@given(sigma=st.floats(0, 0.5), measured_s=TIMES, tolerance=TOLERANCES, max_gain=st.floats(1e-6, 1e6))
def test_nothing_that_is_better_than_believed_is_green(
    sigma: float, measured_s: float, tolerance: float, max_gain: float
) -> None:
    found = verdict_of(LLAMA2_FP8_X128, measured(measured_s), tolerance, noise=Noise(sigma, 9), max_gain=max_gain)
    if found.outcome in {Outcome.PASSED, Outcome.IMPROVED}:
        most = max(max_gain, tolerance, math.expm1(3.1 * sigma))
        assert found.gain <= most * (1 + 1e-9) + 1e-9


def of_ranks(ranks_s: dict[str, float], measured_s: float = 4.556, tolerance: float = 0.05) -> Verdict:
    return verdict_of(LLAMA2_FP8_X128, replace(measured(measured_s), ranks_s=ranks_s), tolerance)


@pytest.mark.parametrize(
    ("ranks_s", "apart"),
    [
        ({}, ()),
        ({"0": 4.5}, ()),
        ({"0": 4.5, "1": 4.5 / 0.95}, ()),
        ({"0": 0.9, "1": 0.9, "2": 0.91, "3": 3.0}, (("3", 3.0),)),
        # A rank that is too fast is as odd as one that is too slow.
        ({"0": 4.5, "1": 4.5, "2": 0.5}, (("2", 0.5),)),
        ({"0": 4.5, "1": 4.8}, (("0", 4.5), ("1", 4.8))),
        ({"a": 1.0, "b": 1.04, "c": 1.08}, (("c", 1.08), ("a", 1.0))),
        ({"0": 1.0, "1": 1.0, "2": 1.0, "3": 1.2, "4": 1.5}, (("4", 1.5), ("3", 1.2))),
    ],
)
def test_ranks_that_differ(ranks_s: dict[str, float], apart: tuple[tuple[str, float], ...]) -> None:
    found = of_ranks(ranks_s)
    assert (found.ranks.ranks if found.ranks else ()) in {apart, apart[::-1]}
    expected = (Outcome.INCONCLUSIVE, Reason.RANKS_DIFFER) if apart else (Outcome.PASSED, Reason.WITHIN_TOLERANCE)
    assert (found.outcome, found.reason) == expected


def test_ranks_that_differ_make_nothing_green_and_nothing_red_less_so() -> None:
    apart = {"0": 0.9, "1": 3.0}
    assert of_ranks(apart, 4.0).reason is Reason.RANKS_DIFFER
    assert of_ranks(apart, 0.4).reason is Reason.RANKS_DIFFER
    slow = of_ranks(apart, 5.5)
    assert (slow.outcome, slow.reason) == (Outcome.REGRESSED, Reason.SLOWER)
    assert slow.ranks is not None
    assert of_ranks({"0": 1.0, "1": 1.3}, tolerance=0.4).outcome is Outcome.PASSED


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_a_rank_without_a_time_is_not_judged(number: float) -> None:
    with pytest.raises(ValueError, match=r"its rank 3 figure is "):
        of_ranks({"0": 1.0, "3": number})


def by_last_step(last_s: float, usual_s: float, **changes: object) -> Verdict:
    """A job of 30 steps, all of which take as long, but for the last, which is what its document states."""
    series_s = (*[usual_s] * 29, last_s)
    found = replace(measured(last_s), timing=timing_of(series_s, "last"))
    return verdict_of(LLAMA2_FP8_X128, replace(found, **changes), 0.05, repeats=Repeats(confirm=2))  # type: ignore[arg-type]


def test_a_last_step_that_is_a_spike_is_no_regression_and_does_not_pass() -> None:
    found = by_last_step(4.556 * 1.5, 4.556)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, Reason.LAST_STEP)
    assert found.measured == 4.556 * 1.5  # the document's statistic stays what is compared
    assert found.more  # another job is asked


@pytest.mark.parametrize(
    ("last_s", "usual_s"),
    [
        (4.556 * 1.5, 4.556 * 1.12),  # the other steps are too slow as well
        (4.556 * 1.07, 4.556 * 1.04),  # the last is as slow as the others
        (4.556 * 1.12, 4.556 * 1.12),
    ],
)
def test_a_regression_by_the_last_step_that_other_steps_bear_out_stays_one(last_s: float, usual_s: float) -> None:
    assert by_last_step(last_s, usual_s).outcome is Outcome.REGRESSED


def test_a_job_that_slows_down_at_its_end_is_too_slow_by_more_than_its_last_step() -> None:
    """As GPUs that get too hot do; its median is still the usual one."""
    series_s = (*[4.556] * 24, *[4.556 * 1.3] * 6)
    found = by_last_step(series_s[-1], 4.556, timing=timing_of(series_s, "last"))
    assert (found.outcome, found.reason) == (Outcome.REGRESSED, Reason.SLOWER)
    series_s = (*[4.556] * 29, 4.556 * 1.5)
    assert by_last_step(series_s[-1], 4.556, timing=timing_of(series_s, "mean[35:44]")).outcome is Outcome.REGRESSED
    jobs = (4.556 * 1.5, 4.556 * 1.5, 4.556 * 1.5)
    assert by_last_step(4.556 * 1.5, 4.556, jobs=jobs).outcome is Outcome.REGRESSED


# -- a statistic is not a run ----------------------------------------------------------------------

#: The steps of a run, by what happened to it: its statistic says more of it than most of its steps.
FASTER_THAN_ITS_STEPS = {
    "the last step alone": ("last", [1.5] * 19 + [1.0]),
    "the last six": ("last", [1.5] * 14 + [1.0] * 6),
    "the last two fifths": ("mean[-10:]", [1.5] * 60 + [1.0] * 40),
    "bursts": ("last", ([1.5] * 11 + [1.0] * 9) * 3),
    "drift downwards": ("last", [1.5 - 0.01 * n for n in range(51)]),
    "every other step": ("last", [1.5, 1.0] * 10),
    "every other step, of an odd number": ("median", [1.0, *[1.5, 1.0] * 10]),
    "throttled from two thirds on": ("median", [1.0] * 13 + [2.0] * 7),
    "the window alone": ("mean[5:14]", [1.5] * 5 + [1.0] * 10 + [1.5] * 5),
    "the window of the recipes alone": ("mean[35:44]", [1.1] * 35 + [1.0] * 10 + [1.1] * 5),
    "a few steps that are far too fast": ("mean[-10:]", [1.3] * 36 + [0.3] * 4),
}
#: The same of runs whose figure is what they were like.
AS_FAST_AS_ITS_STEPS = {
    "even": ("last", [1.0] * 20),
    "warm-up": ("last", [30.0, 6.0, *[2.0] * 8, *[1.0] * 20]),
    "a warm-up that is half of the run": ("mean[-10:]", [3.0] * 10 + [1.0] * 10),
    "a checkpoint every third step": ("last", [1.0, 2.0, 1.0] * 10),
    "a checkpoint every fifth step": ("median", [1.0, 1.0, 1.0, 1.0, 3.0] * 6),
    "an evaluation of some steps": ("median", [1.0] * 20 + [2.0] * 5 + [1.0] * 15),
    "a checkpoint at the end, outside of the window": ("mean[35:44]", [1.0] * 45 + [2.5] * 5),
    "a last step that is faster by what is allowed": ("last", [1 / 0.95] * 19 + [1.0]),
    "few steps": ("last", [12.0, 1.0, 1.0]),
    "one figure": ("mean", [1.0]),
}


def of_steps(statistic: str, seconds: list[float], *, slower: float = 1.0, **changes: object) -> Verdict:
    """A run of these steps, of a row whose document has what the run's statistic says."""
    judged = apply(parse_statistic(statistic), [TimedStep(number, one) for number, one in enumerate(seconds)])
    row = replace(
        LLAMA2_FP8_X128,
        documented=Figures(step_time_s=judged / slower),
        criterion=replace(LLAMA2_FP8_X128.criterion, statistic=statistic),
    )
    found = replace(measured(judged), timing=timing_of(seconds, statistic))
    return verdict_of(row, replace(found, **changes), 0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FASTER_THAN_ITS_STEPS)
def test_a_statistic_that_is_better_than_the_steady_steps_does_not_pass(name: str) -> None:
    found = of_steps(*FASTER_THAN_ITS_STEPS[name])
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, Reason.STEPS_SLOWER)
    assert found.statistic_gap is not None
    assert found.statistic_gap < -0.05
    for slower, outcome in ((0.85, Outcome.INCONCLUSIVE), (1.15, Outcome.REGRESSED)):  # no gain, and a loss stays one
        assert of_steps(*FASTER_THAN_ITS_STEPS[name], slower=slower).outcome is outcome


@pytest.mark.parametrize("name", AS_FAST_AS_ITS_STEPS)
def test_checkpoints_evaluations_and_warm_up_are_no_doubt(name: str) -> None:
    assert of_steps(*AS_FAST_AS_ITS_STEPS[name]).outcome is Outcome.PASSED


def test_a_third_of_the_steps_that_is_slower() -> None:
    for third_s, reason in (
        (1.06, Reason.THIRD_SLOWER),
        (1.05, Reason.WITHIN_TOLERANCE),
        (None, Reason.WITHIN_TOLERANCE),
    ):
        assert of_steps("last", [1.0] * 20, third_s=third_s).reason is reason
    assert of_steps("last", [1.0] * 20, third_s=2.0, slower=1.15).outcome is Outcome.REGRESSED
    assert Reason.THIRD_SLOWER.value in DOUBTS


def test_of_several_jobs_their_medians_are_compared() -> None:
    """A job that is unlike its steps is outvoted by two that are not, as a slow one is."""

    def of_jobs(*steadies_s: float) -> Reason:
        return of_steps("last", [1.0] * 20, jobs=(1.0, 1.0, 1.0), steadies_s=steadies_s).reason

    assert of_jobs(1.5, 1.0, 1.5) is Reason.STEPS_SLOWER
    assert of_jobs(1.5, 1.0, 1.0) is Reason.WITHIN_TOLERANCE
    # It does not outvote a slow one together with a third.
    jobs = {"jobs": (1.0, 1.3, 1.0), "steadies_s": (1.5, 1.3, 1.0)}
    assert of_steps("last", [1.0] * 20, **jobs).reason is Reason.STEPS_SLOWER  # type: ignore[arg-type]


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
    own = verdict_of(LLAMA2_FP8_X128, measured(own_s), 0.05)
    verdict = with_metrics(own, [by(MEMORY, memory), by(OUTPUT, output)])
    assert verdict.outcome is row
    assert verdict.own is own.outcome
    assert verdict.reason is own.reason
    assert verdict.metric.direction.change_by(verdict.allowed_gain) == own.metric.direction.change_by(own.allowed_gain)


def test_without_metrics_a_verdict_is_its_own() -> None:
    own = verdict_of(LLAMA2_FP8_X128, measured(5.5), 0.05)
    assert with_metrics(own, []) is own
    assert (own.own, own.reason) == (Outcome.REGRESSED, Reason.SLOWER)


@pytest.mark.parametrize(
    ("measured_s", "level_s", "flags", "outcome", "reason"),
    [
        # A job beyond the tolerance, and tiles that are not, or are as well.
        (4.5, 4.0, "", Outcome.PASSED, Reason.LIKE_PEERS),
        (4.5, 4.4, "", Outcome.REGRESSED, Reason.SLOWER),
        (4.5, None, "", Outcome.REGRESSED, Reason.SLOWER),
        (3.5, 4.0, "", Outcome.PASSED, Reason.LIKE_PEERS),
        (3.5, 3.6, "", Outcome.IMPROVED, Reason.FASTER),
        (4.1, 4.0, "", Outcome.PASSED, Reason.WITHIN_TOLERANCE),
        # What the search finds, however fast the first job was.
        (4.1, 4.0, "is_slow", Outcome.REGRESSED, Reason.SLOW_NODE),
        (4.5, 4.0, "is_open", Outcome.INCONCLUSIVE, Reason.NOT_DECIDED),
        (4.1, 4.0, "is_open", Outcome.INCONCLUSIVE, Reason.NOT_DECIDED),
        (4.5, 4.4, "is_open", Outcome.REGRESSED, Reason.SLOWER),
        (4.1, None, "has_other_loss", Outcome.INCONCLUSIVE, Reason.OTHER_LOSS),
        (4.5, None, "has_other_loss", Outcome.REGRESSED, Reason.SLOWER),
    ],
)
def test_a_tile_is_judged_by_all_tiles_and_all_jobs(
    measured_s: float, level_s: float | None, flags: str, outcome: Outcome, reason: Reason
) -> None:
    given = {name: name == flags for name in ("is_slow", "is_open", "has_other_loss")}
    found = after_search(verdict(measured_s, documented=4.0), level_s, **given)
    assert (found.outcome, found.reason, found.own_outcome) == (outcome, reason, None)


def test_another_metric_of_a_tile_counts_whatever_its_peers_have() -> None:
    memory = MetricVerdict(
        Metric("memory", "memory", "GiB", Direction.LOWER_IS_BETTER), Outcome.REGRESSED, 70, 60, 0.05
    )
    too_much = with_metrics(verdict(4.0, documented=4.0), [memory])
    flags = {"is_open": True, "has_other_loss": True}
    assert after_search(too_much, 4.0, is_slow=False, **flags) == too_much
    assert after_search(too_much, 4.0, is_slow=True, **flags).outcome is Outcome.REGRESSED
