from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_gsw.stats.cluster_effect import (
    LEAST_EFFECT,
    ClusterEffect,
    ClusterReference,
    CurrentRun,
    decide_adjusted,
    effects_of,
    level_of,
    limits_of,
    taken_before_drift,
)
from pytest_gsw.stats.decision import Decision, Outcome, decide
from pytest_gsw.stats.drift import drift
from pytest_gsw.stats.noise import K, Noise, deviations, limit, median_sd

ROWS = [f"row{number}" for number in range(30)]
#: No row was too slow in any of so many runs.
NONE_SLOW: list[tuple[str, ...]] = [()] * 100
TOLERANCE = 0.05


def runs_of(rng: random.Random, run_sd: float, job_sd: float, runs: int = 30) -> list[dict[str, float]]:
    """The seconds of rows that usually take one, two, three ... seconds."""
    found = []
    for _ in range(runs):
        effect = rng.gauss(0, run_sd)
        found.append({row: number * math.exp(effect + rng.gauss(0, job_sd)) for number, row in enumerate(ROWS, 1)})
    return found


def before(rng: random.Random, run_sd: float, job_sd: float, runs: int = 30) -> ClusterReference:
    seconds = runs_of(rng, run_sd, job_sd, runs)
    levels = {row: level_of([run[row] for run in seconds]) for row in ROWS}
    return ClusterReference(seconds, {row: level for row, level in levels.items() if level is not None}, NONE_SLOW)


def rng_of(seed: object) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - noise, not cryptography


def quiet(rows: int = 30, spread: float = 0.01) -> ClusterReference:
    """Thirty runs without an effect of any, whose rows differ a little."""
    names = ROWS[:rows]
    run = [{row: 1 + spread * ((number + place) % 3 - 1) for place, row in enumerate(names)} for number in range(30)]
    return ClusterReference(run, dict.fromkeys(names, 0.0), NONE_SLOW)


def slower(loss: float) -> float:
    return -math.log1p(-loss)


def lost(rows: int, loss: float, missing: int = 0, **others: float) -> CurrentRun:
    """A run in which all rows have lost as much, but some others."""
    over = {row: slower(others.get(row, loss)) for row in ROWS[:rows]}
    return CurrentRun(quiet(), over, missing)


def is_incident(current_run: CurrentRun) -> bool:
    effect = current_run.effect()
    return effect is not None and effect.is_incident


# -- effects ----------------------------------------------------------------------------------


def test_a_run_has_an_effect_from_eight_rows_on() -> None:
    runs = {1: dict(enumerate([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])), 2: dict(enumerate([0.1] * 5 + [9.0] * 3))}

    assert effects_of(runs) == {2: 0.1}


def test_runs_differ_by_what_their_rows_have_in_common() -> None:
    sds = [one.sigma for seed in range(20) if (one := before(rng_of(seed), 0.03, 0.02).noise) is not None]
    lefts = [before(rng_of(seed), 0.03, 0.02).noise_of_left("row3", TOLERANCE).sigma for seed in range(20)]

    assert statistics.median(sds) == pytest.approx(0.03, rel=0.15)
    assert statistics.median(lefts) == pytest.approx(0.02, rel=0.15)


def test_the_spread_of_runs_is_that_of_the_first_thirty() -> None:
    known = before(rng_of(1), 0.01, 0.02, runs=30)
    later = [{row: 3 * seconds for row, seconds in run.items()} for run in runs_of(rng_of(2), 0.1, 0.02)]

    assert replace(known, runs=(*known.runs, *later)).noise == known.noise


@pytest.mark.parametrize(("runs", "rows"), [(7, 30), (30, 7)])
def test_with_few_runs_or_rows_nothing_is_said(runs: int, rows: int) -> None:
    found = runs_of(rng_of(1), 0.01, 0.02, runs)
    of_few = [{row: run[row] for row in ROWS[:rows]} for run in found]
    few = ClusterReference(of_few, dict.fromkeys(ROWS[:rows], 0.0), NONE_SLOW)
    current_run = CurrentRun(few, dict.fromkeys(ROWS[:rows], slower(0.5)))

    assert few.noise is None
    assert current_run.effect() is None
    assert not current_run.may_have_effect
    assert current_run.bounds("row0", TOLERANCE) == ()


def test_a_row_of_few_runs_has_no_level() -> None:
    assert level_of([1.0] * 7) is None
    assert level_of([1.0] * 8) == 0.0


# -- incidents --------------------------------------------------------------------------------


def incident_runs(effects: Sequence[float]) -> list[int]:
    limits = limits_of(effects, effects[:30])
    return [run for run, (effect, limit) in enumerate(zip(effects, limits, strict=False)) if effect > limit]


@pytest.mark.parametrize("level", [0.0, 0.02, 0.04])
def test_an_incident_is_a_jump_from_the_newest_quiet_runs(level: float) -> None:
    effects = [0.0] * 30 + [level * run / 100 for run in range(100)] + [level] * 20

    assert incident_runs(effects) == []
    assert incident_runs([*effects, level + LEAST_EFFECT - 1e-9]) == []
    assert incident_runs([*effects, level + LEAST_EFFECT + 1e-9]) == [len(effects)]


def test_an_incident_lasts_until_the_level_is_back() -> None:
    effects = [0.0] * 30 + [0.04] * 60 + [0.0] * 5 + [0.04]

    assert incident_runs(effects) == [*range(30, 90), 95]


def test_a_lost_gain_is_no_incident() -> None:
    gained = [0.0] * 30 + [-0.05] * 20

    assert incident_runs([*gained, LEAST_EFFECT - 1e-9]) == []
    assert incident_runs([*gained, LEAST_EFFECT + 1e-9]) == [50]


def test_jumps_of_noisy_runs_are_wide() -> None:
    rng = rng_of("noisy")
    effects = [rng.gauss(0, 0.02) for _ in range(2000)]

    limits = limits_of(effects, effects)

    assert statistics.median(limits) == pytest.approx(K * 0.02 * math.hypot(1, median_sd(10)), rel=0.1)
    assert sum(effect > limit for effect, limit in zip(effects, limits, strict=False)) <= 8


@pytest.mark.parametrize("rho", [0.8, 0.95, 0.98])
def test_a_wandering_level_is_seldom_an_incident(rho: float) -> None:
    false = 0
    for seed in range(20):
        rng = rng_of((rho, seed))
        effects, fresh = [rng.gauss(0, 0.01)], 0.01 * math.sqrt(1 - rho**2)
        while len(effects) < 210:
            effects.append(rho * effects[-1] + rng.gauss(0, fresh))
        false += sum(run >= 30 for run in incident_runs(effects))

    assert false <= 36  # of 3,600


@pytest.mark.sampled(1)
@pytest.mark.parametrize("runs", [8, 15])
def test_with_few_runs_incidents_are_as_seldom(runs: int) -> None:
    rng, false = rng_of(runs), 0
    for _ in range(300):
        known = before(rng, 0.02, 0.02, runs)
        for run in runs_of(rng, 0.02, 0.02, runs=2):
            false += is_incident(CurrentRun(known, {row: math.log(run[row]) - known.levels[row] for row in ROWS}))

    assert false <= 10  # of 600


def test_half_of_the_rows_make_no_incident() -> None:
    assert not is_incident(lost(30, 0.0, **dict.fromkeys(ROWS[:14], 0.3)))
    assert is_incident(lost(30, 0.0, **dict.fromkeys(ROWS[:16], 0.3)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("run_sd", "job_sd"), [(0.0, 0.03), (0.01, 0.03), (0.02, 0.02), (0.03, 0.02)])
def test_quiet_runs_are_seldom_incidents_and_a_loss_of_the_cluster_is_one(run_sd: float, job_sd: float) -> None:
    rng, false, found = rng_of((run_sd, job_sd)), 0, 0
    for _ in range(20):
        known = before(rng, run_sd, job_sd)
        for run in runs_of(rng, run_sd, job_sd, runs=25):
            over = {row: math.log(seconds) - known.levels[row] for row, seconds in run.items()}
            false += is_incident(CurrentRun(known, over))
            found += is_incident(CurrentRun(known, {row: one + slower(0.15) for row, one in over.items()}))

    assert false <= 5  # of 500; 0.1 % is the rate with noise that is known
    assert found >= 450


# -- one row ----------------------------------------------------------------------------------


def run(effect: float = 0.0, sigma: float = 0.02, shared: float = 0.03, *, is_incident: bool = False) -> ClusterEffect:
    return ClusterEffect(effect, effect, is_incident, 0.09, 30, 1.0, Noise(sigma, 30, shared))


def decided(times_s: Sequence[float], beside: ClusterEffect, confirm: int = 4) -> Decision:
    return decide_adjusted(times_s, 1.0, TOLERANCE, beside, confirm=confirm)


def test_what_a_run_shares_does_not_average_out() -> None:
    shared = Noise(0.02, 30, shared=0.03)

    assert shared.of_median(1) == pytest.approx(math.hypot(0.03, 0.02))
    assert limit(TOLERANCE, shared, 5) == pytest.approx(1 - math.exp(-3.4 * math.hypot(0.03, 0.02 * median_sd(5))))
    assert limit(TOLERANCE, Noise(0.02, 30), 5) == TOLERANCE


def test_a_row_slower_than_the_others_is_found_by_what_is_left() -> None:
    times_s = [math.exp(slower(0.06) - 0.03)] * 3

    assert decide(times_s, 1.0, TOLERANCE, Noise(0.033, 30), confirm=4).outcome is Outcome.PASSED
    assert decided(times_s, run(-0.03, 0.015)).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("effect", [0.0, 0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("jobs", [1, 3, 5])
def test_no_row_beyond_its_tolerance_passes_by_what_the_others_took(effect: float, jobs: int) -> None:
    times_s = [math.exp(slower(0.051))] * jobs
    for is_incident in (False, True):
        found = decided(times_s, run(effect, 0.01, is_incident=is_incident))
        assert found.outcome in {Outcome.REGRESSED, Outcome.INCONCLUSIVE}


def test_a_row_that_is_slow_with_the_others_is_part_of_the_incident_and_has_no_further_job() -> None:
    found = decided([math.exp(0.2)], run(0.2, is_incident=True))

    assert (found.outcome, found.more, found.is_part) == (Outcome.INCONCLUSIVE, 0, True)
    times_s = [math.exp(0.2 + slower(0.1))]
    beside = run(0.2, is_incident=True)

    assert decided(times_s, beside).more == 1
    found = decided(times_s * 3, beside)
    assert (found.outcome, found.more, found.is_part) == (Outcome.REGRESSED, 0, False)


def test_no_further_job_is_asked_for_where_a_usual_one_would_be_too_slow_current_run() -> None:
    slow_run = decided([math.exp(0.07)], run(0.06))
    slow_job = decided([math.exp(0.06)], run(0.02))

    assert (slow_run.outcome, slow_run.more) == (Outcome.INCONCLUSIVE, 0)
    assert slow_job.more == 1


def test_further_jobs_of_the_same_bad_run_make_no_failure() -> None:
    times_s = [math.exp(0.08)] * 5

    assert decide(times_s, 1.0, TOLERANCE, Noise(0.036, 30), confirm=4).outcome is Outcome.REGRESSED
    found = decided(times_s, run(0.08))
    assert found.outcome is Outcome.INCONCLUSIVE
    found = decided([math.exp(0.2)], run(0.19), confirm=0)

    assert (found.outcome, found.is_part) == (Outcome.REGRESSED, False)


@pytest.mark.parametrize(("last", "outcome"), [(1.0, Outcome.INCONCLUSIVE), (1.08, Outcome.REGRESSED)])
def test_a_row_that_a_slow_hour_may_have_hit_is_part_of_it_in_its_first_run(last: float, outcome: Outcome) -> None:
    known = quiet()
    last_run = {row: last if row in ROWS[:12] else 1.0 for row in ROWS}
    over = {row: slower(0.08) if row in ROWS[:12] else slower(0.02) for row in ROWS}

    (beside,) = CurrentRun(replace(known, runs=[*known.runs, last_run]), over).bounds("row0", TOLERANCE)
    found = decided([math.exp(slower(0.08))] * 5, beside)

    assert beside.is_incident
    assert (found.outcome, found.is_part) == (outcome, outcome is Outcome.INCONCLUSIVE)


@pytest.mark.parametrize("loss", [-0.2, -0.03, -0.01])
def test_a_row_does_not_have_to_gain_with_the_others(loss: float) -> None:
    # Of rows that gained on different runs of the first month, all later runs are a little faster than usual.
    current_run = lost(30, loss, row0=0.0)

    (beside,) = current_run.bounds("row0", TOLERANCE)

    assert (beside.effect, beside.taken) == (pytest.approx(slower(loss)), 0.0)
    assert decided([1.0], beside).outcome is Outcome.PASSED
    assert decided([math.exp(slower(0.04))], beside).outcome is Outcome.PASSED


def test_what_was_too_slow_widens_no_noise() -> None:
    known = before(rng_of(1), 0.01, 0.02, runs=20)
    run_s = [{row: 1.3 * seconds for row, seconds in known.runs[n].items()} for n in range(0, 20, 2)]
    slow = ClusterReference([*known.runs, *run_s], known.levels, [*NONE_SLOW[:20], *[ROWS] * 10])

    assert slow.noise == known.noise
    assert slow.noise_of_left("row0", TOLERANCE) == known.noise_of_left("row0", TOLERANCE)
    never_fast = replace(known, slow=[ROWS] * 20)  # its document is of a faster cluster
    assert (never_fast.noise, never_fast.noise_of_left("row0", TOLERANCE)) == (
        known.noise,
        known.noise_of_left("row0", TOLERANCE),
    )


def test_a_gain_counts_by_the_row_itself() -> None:
    gained = decided([math.exp(-0.2)], run(-0.2))
    slow_run = decided([1.0], run(0.09))

    assert gained.outcome is Outcome.IMPROVED
    assert slow_run.outcome is Outcome.PASSED


# -- rows that wait ---------------------------------------------------------------------------


def outcome_of(current_run: CurrentRun, row: str, time_s: float, reference: float = 1.0) -> object:
    """What comes of a row, ``None`` as long as the others may change that."""
    runs = current_run.bounds(row, TOLERANCE)
    found = [decide_adjusted([time_s], reference, TOLERANCE, one, confirm=4) for one in runs]
    said = {(one.outcome, one.more, one.is_part) for one in found}
    return said.pop() if len(said) == 1 else None


def test_a_usual_row_is_settled_once_more_than_half_of_the_others_are_there() -> None:
    def settled(ended: int) -> bool:
        return outcome_of(lost(ended, 0.0, missing=30 - ended), "row0", 1.0) is not None

    assert [settled(ended) for ended in (1, 8, 15, 17, 30)] == [False, False, False, True, True]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(40))
def test_a_settled_row_comes_out_as_at_the_end_of_the_run(seed: int) -> None:
    rng = rng_of(seed)
    known = before(rng, 0.02, 0.02)
    effect = rng.choice([0.0, 0.0, slower(0.04), slower(0.08), slower(0.15), -0.1])
    (seconds,) = runs_of(rng, 0.02, 0.02, runs=1)
    over = {row: math.log(one) - known.levels[row] + effect for row, one in seconds.items()}
    ended = rng.sample(ROWS, len(ROWS))
    row = ended[0]
    over[row] += rng.choice([0.0, slower(0.07), slower(0.12)])
    reference = math.exp(known.levels[row])

    def at(count: int) -> object:
        partly: Mapping[str, float] = {name: over[name] for name in ended[:count]}
        return outcome_of(CurrentRun(known, partly, len(ROWS) - count), row, reference * math.exp(over[row]), reference)

    at_last = at(len(ROWS))
    assert at_last is not None
    assert {at(count) for count in range(1, len(ROWS))} <= {None, at_last}


# -- by simulation ----------------------------------------------------------------------------


def adjusted_seconds(seen: ClusterReference, row: str) -> list[float]:
    return [run[row] * math.exp(-seen.taken[number]) for number, run in enumerate(seen.runs)]


@pytest.mark.parametrize("own", [0.0, 0.03])
def test_what_a_row_has_lost_is_told_of_the_cluster_or_of_the_row_and_never_of_nobody(own: float) -> None:
    rng = rng_of("shares")
    runs = runs_of(rng, 0.005, 0.01, runs=55)
    late = {number: {row: one * 1.04 for row, one in run.items()} for number, run in enumerate(runs)}
    whole = [late[number] if number >= 35 else run for number, run in enumerate(runs)]
    slow = [{**run, "row0": run["row0"] * (1 + own * (number >= 35))} for number, run in enumerate(whole)]
    seen = replace(before(rng, 0.005, 0.01), runs=slow)

    found = drift(adjusted_seconds(seen, "row0"))
    of_cluster = drift([math.exp(effect) for effect in seen.effects.values()])

    assert of_cluster is not None
    assert of_cluster.shift == pytest.approx(0.04, abs=0.01)
    assert (found is not None) == bool(own)
    assert found is None or found.shift == pytest.approx(own, abs=0.01)


@pytest.mark.parametrize("runs", [39, 40])
def test_nothing_is_taken_before_the_cluster_itself_can_be_asked(runs: int) -> None:
    effects = [0.0] * 30 + [0.05] * (runs - 30)

    taken = taken_before_drift(effects)

    assert taken == (effects if runs >= 40 else [0.0] * runs)


def test_what_is_taken_counts_from_the_cluster_s_own_first_runs() -> None:
    assert taken_before_drift([0.03] * 30 + [0.05] * 10) == pytest.approx([0.0] * 30 + [0.02] * 10)
    lasts = taken_before_drift([0.0] * 30 + [-0.05] * 20)
    once = taken_before_drift([0.0] * 35 + [-0.05] + [0.0] * 10)

    assert lasts[-10:] == [0.0] * 10
    assert once[35] == -0.05


def test_a_row_s_own_creep_is_found_where_runs_differ_by_more() -> None:
    found = {"raw": 0, "own": 0}
    for seed in range(12):
        rng = rng_of(f"creep {seed}")
        runs = runs_of(rng, 0.03, 0.01, runs=70)
        slow = [{**run, "row0": run["row0"] * math.exp(0.01 / 7 * max(0, n - 35))} for n, run in enumerate(runs)]
        levels = {row: level_of([run[row] for run in slow[:30]]) or 0.0 for row in ROWS}
        found["raw"] += drift([run["row0"] for run in slow]) is not None
        found["own"] += drift(adjusted_seconds(ClusterReference(slow, levels, NONE_SLOW), "row0")) is not None

    assert found["own"] >= 11
    assert found["raw"] <= 8


def test_of_many_rows_that_are_tested_together_each_may_be_slower_by_noise() -> None:
    beside = run(0.0, sigma=0.035, shared=0.0)
    times_s = [math.exp(0.065)] * 5

    alone, together = (decide_adjusted(times_s, 1.0, TOLERANCE, replace(beside, tested=rows)) for rows in (1, 100))

    assert (alone.outcome, together.outcome) == (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
    assert deviations(30) == pytest.approx(3.403, abs=1e-3)
    assert deviations(1) == deviations(8) == K


def test_what_is_taken_from_a_row_is_known_as_a_median_of_the_others_is() -> None:
    of_few, of_many = (replace(run(0.02, sigma=0.04), rows=rows) for rows in (9, 1000))
    times_s = [math.exp(0.02 + 0.0735)] * 5

    few, many = (decide_adjusted(times_s, 1.0, TOLERANCE, one) for one in (of_few, of_many))

    assert (few.outcome, many.outcome) == (Outcome.INCONCLUSIVE, Outcome.REGRESSED)
