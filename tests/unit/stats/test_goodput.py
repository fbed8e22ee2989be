"""Goodput by a count by hand, the interval of the time between failures, drift inside a run."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.stats.goodput import (
    IN_JOB,
    INFRASTRUCTURE,
    PROGRAM,
    SESSION,
    Endurance,
    TrainingAttempt,
    TrainingStep,
    endurance,
    mtbf_with_interval,
)


def steps(numbers: Iterable[int], first_at_s: float | None, seconds: float = 10.0) -> tuple[TrainingStep, ...]:
    """Steps one after another, the first of which ends at a time."""
    return tuple(
        TrainingStep(number, seconds, ended_s=None if first_at_s is None else first_at_s + at * seconds)
        for at, number in enumerate(numbers)
    )


def parts(found: Endurance) -> dict[str, float]:
    names = ("wall_s", "productive_s", "start_s", "checkpoint_s", "lost_s", "other_s")
    return {name: getattr(found, name) for name in names}


def total(found: Endurance) -> float:
    return math.fsum((found.productive_s, found.start_s, found.checkpoint_s, found.lost_s, found.other_s))


# -- Seconds of made attempts, counted by hand ---------------------------------------------------------


def test_no_restart() -> None:
    # 30 s of start, 50 steps, a save of 10 s, 45 steps, 10 s to its end.
    done = (*steps(range(1, 51), 40), *steps(range(51, 96), 550))
    found = endurance([TrainingAttempt(0, 1000, steps=done, checkpoint_s=10)])
    assert parts(found) == {
        "wall_s": 1000, "productive_s": 950, "start_s": 30, "checkpoint_s": 10, "lost_s": 0, "other_s": 10,
    }  # fmt: skip
    assert (found.goodput, found.steps, found.steps_lost, found.restarts, found.causes) == (0.95, 95, 0, 0, {})


def test_one_restart_from_a_checkpoint() -> None:
    # The checkpoint is of step 30; the job ends 70 s after step 40, and the next begins 60 s later.
    first = TrainingAttempt(0, 500, INFRASTRUCTURE, steps(range(1, 41), 40))
    second = TrainingAttempt(560, 1160, "", steps(range(31, 81), 610))
    found = endurance([first, second])
    lost_s = 10 * 10 + 70 + 60
    assert parts(found) == {
        "wall_s": 1160, "productive_s": 800, "start_s": 70, "checkpoint_s": 0, "lost_s": lost_s, "other_s": 60,
    }  # fmt: skip
    assert (found.steps, found.steps_lost, found.restarts, found.causes) == (80, 10, 1, {INFRASTRUCTURE: 1})
    assert found.mtbf_s == 500 + 600
    # Without clocks nobody sees where the time between steps was.
    blind = [replace(each, steps=[replace(step, ended_s=None) for step in each.steps]) for each in (first, second)]
    assert parts(endurance(blind)) == {
        "wall_s": 1160, "productive_s": 800, "start_s": 0, "checkpoint_s": 0, "lost_s": 160, "other_s": 200,
    }  # fmt: skip


def test_three_restarts_one_of_them_inside_a_job_and_a_job_without_a_step() -> None:
    inside = (*steps(range(1, 21), 20), *steps(range(16, 19), 250))
    jobs = [
        TrainingAttempt(0, 300, PROGRAM, inside),
        TrainingAttempt(310, 350, INFRASTRUCTURE),
        TrainingAttempt(400, 700, "", steps(range(11, 31), 430)),  # from an older checkpoint
    ]
    found = endurance(jobs)
    lost_s = (10 + 3) * 10 + 30 + 30 + 40 + 10 + 50
    assert parts(found) == {
        "wall_s": 700, "productive_s": 300, "start_s": 30, "checkpoint_s": 0, "lost_s": lost_s, "other_s": 80,
    }  # fmt: skip
    assert (found.steps, found.steps_lost, found.restarts) == (30, 13, 3)
    assert found.causes == {PROGRAM: 1, INFRASTRUCTURE: 1, IN_JOB: 1}
    assert found.mtbf_s == (300 + 40 + 300) / 3


def test_what_a_later_start_undoes() -> None:
    def kept(cause: str, *begins: int) -> tuple[int, int]:
        jobs = [
            TrainingAttempt(at * 2000, at * 2000 + 1500, cause, steps(range(begin, begin + 100), None))
            for at, begin in enumerate(begins)
        ]
        found = endurance(jobs)
        return found.steps, found.steps_lost

    assert kept("", 1, 1, 1) == (300, 0)  # a recipe without checkpoints runs again and again
    assert kept(PROGRAM, 1, 1, 1) == (100, 200)
    assert kept("", 1, 96) == (195, 5)  # its last steps were after the last checkpoint
    assert kept(SESSION, 1, 96) == (195, 5)
    assert kept("", 1, 51, 1) == (250, 50)


def test_lines_of_many_steps_count_in_part() -> None:
    lines = tuple(TrainingStep(number, 2.0, 10) for number in range(10, 60, 10))
    again = (TrainingStep(30, 2.0, 5), TrainingStep(40, 2.0, 10))  # from a checkpoint of step 25
    found = endurance([TrainingAttempt(0, 100, PROGRAM, lines), TrainingAttempt(100, 200, "", again)])
    assert (found.steps, found.steps_lost, found.productive_s) == (40, 25, 80)


def test_the_clock_is_believed_and_not_the_log() -> None:
    longer = endurance([TrainingAttempt(0, 100, steps=steps(range(1, 21), None), checkpoint_s=30)])
    assert (longer.productive_s, longer.checkpoint_s, longer.goodput) == (100, 0, 1)
    # Saves that an old Megatron counts in its steps.
    within = endurance([TrainingAttempt(0, 100, steps=steps(range(1, 10), None), checkpoint_s=30)])
    assert (within.productive_s, within.checkpoint_s, within.other_s) == (90, 10, 0)
    assert endurance([TrainingAttempt(5, 5)]).goodput == 0


SECONDS = st.floats(0, 1000)
TIMES = st.none() | st.floats(-100, 5000)
ATTEMPTS = st.lists(
    st.tuples(
        SECONDS,
        SECONDS,
        st.sampled_from(["", INFRASTRUCTURE, PROGRAM, SESSION]),
        st.lists(st.builds(TrainingStep, st.integers(0, 60), SECONDS, st.integers(1, 10), TIMES), max_size=12),
        SECONDS,
    ),
    min_size=1,
    max_size=6,
)


@given(drawn=ATTEMPTS)
def test_the_parts_add_up_to_the_whole(drawn: list[tuple[float, float, str, list[TrainingStep], float]]) -> None:
    jobs, now_s = [], 0.0
    for idle_s, takes_s, cause, done, saves_s in drawn:
        jobs.append(TrainingAttempt(now_s + idle_s, now_s + idle_s + takes_s, cause, done, saves_s))
        now_s = jobs[-1].end_s
    found = endurance(jobs)
    assert total(found) == pytest.approx(found.wall_s, abs=1e-6)
    assert min(found.productive_s, found.start_s, found.checkpoint_s, found.lost_s) >= 0
    assert found.other_s >= -1e-9
    assert 0 <= found.goodput <= 1 + 1e-9
    assert found.steps + found.steps_lost == sum(step.count for job in jobs for step in job.steps)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_what_is_no_time(bad: float) -> None:
    for keys in ({"start_s": bad}, {"end_s": bad}, {"checkpoint_s": bad}, {"steps": (TrainingStep(1, bad),)}):
        with pytest.raises(ValueError, match="not finite"):
            TrainingAttempt(**{"start_s": 0.0, "end_s": 9.0, **keys})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no goodput"):
        endurance([])


# -- Time between failures -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "low", "high"),
    # Exact limits of a Poisson mean at 90 %, from tables of chi-square.
    [(0, 0, 2.996), (1, 0.0513, 4.744), (2, 0.355, 6.296), (5, 1.970, 10.513), (10, 5.425, 16.962), (50, 38.965, 63.287)],
)  # fmt: skip
def test_the_interval_is_that_of_published_tables(failures: int, low: float, high: float) -> None:
    mean_s, shortest_s, longest_s = mtbf_with_interval(1000.0, failures)
    assert mean_s == (1000 / failures if failures else None)
    assert 1000 / shortest_s == pytest.approx(high, rel=5e-4)
    assert (longest_s is None) if not failures else 1000 / (longest_s or 0) == pytest.approx(low, rel=2e-3)


@pytest.mark.parametrize("failures", [0.3, 2.31, 4, 12, 60])
def test_the_interval_covers_the_truth(failures: float) -> None:
    rng, watched_s, covered = random.Random(1), 86400.0, 0  # noqa: S311
    interval = cache(partial(mtbf_with_interval, watched_s))
    mtbf_s = watched_s / failures
    for _ in range(1000):
        count, at_s = 0, rng.expovariate(1 / mtbf_s)
        while at_s < watched_s:
            count, at_s = count + 1, at_s + rng.expovariate(1 / mtbf_s)
        _, low_s, high_s = interval(count)
        covered += low_s <= mtbf_s and (high_s is None or mtbf_s <= high_s)
    assert covered >= 880


# -- Drift inside a run --------------------------------------------------------------------------------


def run(rng: random.Random, slower: str = "", rho: float = 0.0, odd: bool = False, hours: int = 8) -> TrainingAttempt:
    """Hours of steps of 10 s, whose windows of five minutes have a noise of 1 %; at the end 3 % slower."""
    windows, noise, factors = hours * 12, rng.gauss(0, 0.01), []
    for window in range(windows):
        course = {"slope": window / (windows - 1), "step": float(window >= windows / 2)}.get(slower, 0.0)
        factors.append(math.exp(noise) * (1 + 0.03 * course))
        noise = rho * noise + rng.gauss(0, 0.01 * math.sqrt(1 - rho**2))
    if odd:
        factors[rng.randrange(windows)] *= 1.5
    done, at_s = [], 0.0
    while at_s < windows * 300:
        done.append(TrainingStep(len(done) + 1, 10 * factors[int(at_s // 300)]))
        at_s += done[-1].seconds
    return TrainingAttempt(0, at_s, steps=done)


def drifts(runs: int = 100, **of: object) -> int:
    """The number of runs of which a drift is reported."""
    return sum(endurance([run(random.Random(seed), **of)]).drift is not None for seed in range(runs))  # type: ignore[arg-type]  # noqa: S311


@pytest.mark.parametrize("slower", ["slope", "step"])
@pytest.mark.parametrize("odd", [False, True])
def test_a_drift_of_three_percent_is_found(slower: str, odd: bool) -> None:
    assert drifts(slower=slower, odd=odd) >= 95


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("odd", [False, True])
def test_a_quiet_run_has_none(rho: float, odd: bool) -> None:
    assert drifts(rho=rho, odd=odd) <= 1


def test_the_hours_of_a_run() -> None:
    found = endurance([run(random.Random(3), "step")])  # noqa: S311
    assert found.drift == pytest.approx(0.03, abs=0.01)
    # Steps that were done in vain, and a run of less than two hours, have none.
    short = endurance([run(random.Random(3), hours=1)])  # noqa: S311
    assert short.drift is None
    zero = endurance([TrainingAttempt(0, 9e4, steps=[TrainingStep(n, 0.0) for n in range(9)])])
    assert zero.drift is None
    rounded = [TrainingStep(n, 300.0 * (n % 3 == 0)) for n in range(300)]
    assert endurance([TrainingAttempt(0, 9e4, steps=rounded)]).drift is None


def test_steps_that_take_longer_than_the_jobs_are_no_evidence() -> None:
    found = endurance([TrainingAttempt(0, 100, steps=steps(range(1, 11), None))])
    assert (found.is_plausible, found.beyond_s) == (True, 0.0)
    found = endurance([TrainingAttempt(0, 100, steps=steps(range(1, 14), None))])
    assert (found.is_plausible, found.beyond_s, found.goodput) == (False, 30.0, 1.0)
