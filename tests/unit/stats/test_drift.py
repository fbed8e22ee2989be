from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest

from pytest_gsw.stats.drift import Autocorrelation, LevelChange, change_in, drift, normal_scores, warned_runs

#: The run of the change.
CHANGE = 60


def quiet(_: int) -> float:
    return 0.0


def creep(run: int) -> float:
    """1 % more time a week."""
    return max(0, run - CHANGE + 1) * 0.01 / 7


def step(run: int) -> float:
    """5 % more time at once."""
    return 0.05 if run >= CHANGE else 0.0


def runs(
    seed: int, count: int, sigma: float = 0.02, slower: Callable[[int], float] = quiet, rho: float = 0.0
) -> list[float]:
    """The step times of runs, 4.5 s and AR(1) noise."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    noise, times_s = rng.gauss(0, sigma), []
    for run in range(count):
        times_s.append(4.5 * math.exp(noise + slower(run)))
        noise = rho * noise + rng.gauss(0, sigma * math.sqrt(1 - rho**2))
    return times_s


def first_alarm(times_s: list[float], begin: int = 40) -> int | None:
    return next((run + 1 for run in warned_runs(times_s) if run + 1 >= begin), None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("slower", "sigma"), [(step, 0.01), (step, 0.02), (creep, 0.01), (creep, 0.02)])
def test_the_first_suspect_run_is_near_the_change(slower: Callable[[int], float], sigma: float) -> None:
    suspects = []
    for seed in range(25):
        times_s = runs(seed, CHANGE + 45, sigma, slower)
        found = drift(times_s)
        assert found is not None
        assert found.z > 3.3
        suspects.append(found.first_suspect - CHANGE)
    assert abs(statistics.median(suspects)) <= (1 if slower is step else 5)
    assert sum(abs(suspect) <= 10 for suspect in suspects) >= 20


def test_neither_an_improvement_nor_a_loss_of_less_than_two_percent_is_a_drift() -> None:
    for faster in (lambda run: -step(run), lambda run: -creep(run)):
        times_s = runs(4, CHANGE + 60, 0.01, faster)
        assert first_alarm(times_s) is None
        # The same, the other way round, is.
        assert drift([1 / time_s for time_s in times_s]) is not None
    times_s = runs(5, 120, 0.002, lambda run: 0.015 if run >= CHANGE else 0.0)
    assert first_alarm(times_s) is None
    assert first_alarm(runs(5, 120, 0.002, lambda run: 0.025 if run >= CHANGE else 0.0)) is not None


def test_there_is_no_drift_before_reference_and_newest_runs_are_there() -> None:
    times_s = runs(2, 40, 0.01, lambda run: 0.05 if run >= 30 else 0.0)
    assert drift(times_s[:39]) is None
    assert drift(times_s) is not None
    assert drift(times_s[1:]) is None
    assert drift([]) is None


def test_the_reference_never_moves() -> None:
    # So slow that no two months differ by 2 %, and 13 % in two years: any reference that follows finds nothing.
    times_s = runs(6, 730, 0.005, lambda run: run * 0.13 / 730)
    last = drift(times_s)
    assert last is not None
    assert last.shift == pytest.approx(math.exp(0.13) - 1, abs=0.02)


def test_single_slow_runs_are_no_drift() -> None:
    times_s = runs(8, 180, 0.01)
    for run in range(35, 180, 6):
        times_s[run] *= 1.4
    assert first_alarm(times_s) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("sigma", "slower"), [(0.005, 0.045), (0.01, 0.03), (0.02, 0.05), (0.01, 0.1)])
def test_a_warning_stays_until_the_level_is_back(sigma: float, slower: float) -> None:
    for seed in range(3):
        # Within a block of thirty runs, where a step looks like runs that have much in common.
        times_s = runs(seed, 130, sigma, lambda run: slower if run >= 40 else 0.0)
        first = first_alarm(times_s)
        assert first is not None
        assert all(drift(times_s[:count]) for count in range(first, 131, 15))
        assert warned_runs(times_s) == tuple(range(first - 1, 130))


def test_a_warning_goes_when_the_level_is_back() -> None:
    times_s = runs(1, 130, 0.01, lambda run: 0.05 if 40 <= run < 80 else 0.0)
    assert drift(times_s[:80]) is not None
    assert drift(times_s[:82]) is not None  # two runs are not enough to say so
    assert drift(times_s[:95]) is None
    assert drift(times_s) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("back", [65, 100])
def test_what_comes_back_is_found_as_it_was_at_first(back: int) -> None:
    again = back + 40
    for seed in range(5):
        times_s = runs(seed, again + 40, 0.01, lambda run: 0.05 if 40 <= run < back or run >= again else 0.0)
        warned = warned_runs(times_s)
        assert set(warned).isdisjoint(range(back + 15, again))
        assert set(warned) >= set(range(again + 15, again + 40))
        found = drift(times_s)
        assert found is not None
        assert abs(found.first_suspect - again) <= 2
        assert found.shift == pytest.approx(math.expm1(0.05), abs=0.01)


def test_each_run_is_asked_with_those_up_to_it() -> None:
    times_s = runs(3, 110, 0.02, lambda run: 0.06 * (45 <= run < 75), rho=0.3)
    warned = warned_runs(times_s)
    assert warned
    assert warned == tuple(run for run in range(len(times_s)) if drift(times_s[: run + 1]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("begin", [0, 12, 25])
def test_a_slow_spell_in_the_reference_is_no_part_of_its_level(begin: int) -> None:
    def later(run: int) -> float:
        return 0.1 if begin <= run < begin + 5 else step(run)

    for seed in range(5):
        times_s = runs(seed, CHANGE + 30, 0.01, later)
        first = first_alarm(times_s)
        assert first is not None
        assert CHANGE < first <= CHANGE + 12
        found = drift(times_s)
        assert found is not None
        assert abs(found.first_suspect - CHANGE) <= 2
        assert first_alarm(runs(seed, 90, 0.01, lambda run: 0.1 * (begin <= run < begin + 5))) is None


def level_and_jobs(seed: int, count: int, sigma: float, decay: float) -> list[float]:
    """Half of the variance is a level's that all jobs share, and that wanders."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    level = runs(seed, count, sigma / math.sqrt(2), rho=decay)
    return [time_s * math.exp(rng.gauss(0, sigma / math.sqrt(2))) for time_s in level]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decay", [0.8, 0.85])
def test_a_level_that_wanders_below_the_noise_of_jobs_is_seldom_a_drift(decay: float) -> None:
    # A rule that knows lag-1 autocorrelation alone warns of 15 and 33 rows of a hundred.
    series = [level_and_jobs(seed, 210, 0.02, decay) for seed in range(3000, 3060)]
    assert sum(bool(warned_runs(times_s)) for times_s in series) <= 5


def test_a_warning_of_a_noisy_row_does_not_fall_silent() -> None:
    silent = 0
    for seed in range(30):
        warned = warned_runs(runs(seed, 180, 0.03, step))
        silent += warned != tuple(range(warned[0], 180))
    assert silent <= 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sigma", [0.005, 0.01])
def test_a_large_change_right_after_the_reference_is_found_at_once(sigma: float) -> None:
    for seed in range(10):
        times_s = runs(seed, 45, sigma, lambda run: 0.08 if run >= 30 else 0.0)
        assert first_alarm(times_s) == 40


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_run(bad: float) -> None:
    with pytest.raises(ValueError, match="is no figure of a job"):
        drift([*runs(9, 60), bad])


# benchmarks/drifts.py measures the rule; these few series notice a rule that is broken.
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("sigma", "rho"), [(0.01, 0.0), (0.03, 0.0), (0.02, 0.5)])
def test_false_alarms_in_180_runs_are_rare(sigma: float, rho: float) -> None:
    series = [runs(seed, 210, sigma, rho=rho) for seed in range(1000, 1030)]
    assert sum(first_alarm(times_s) is not None for times_s in series) <= 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("sigma", "within", "share"), [(0.01, 24, 0.9), (0.02, 28, 0.45)])
def test_a_creep_of_one_percent_a_week_is_found_within_four_weeks(sigma: float, within: int, share: float) -> None:
    alarms = [first_alarm(runs(seed, CHANGE + 28, sigma, creep), CHANGE + 1) for seed in range(2000, 2040)]
    assert sum(alarm is not None and alarm - CHANGE <= within for alarm in alarms) >= share * len(alarms)


def wandering_jobs(seed: int, count: int, share: float, decay: float) -> list[float]:
    """Jobs that differ from each other, about a level that wanders: together with a standard deviation of 1."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    level, values = rng.gauss(0, math.sqrt(share)), []
    for _ in range(count):
        values.append(level + rng.gauss(0, math.sqrt(1 - share)))
        level = decay * level + rng.gauss(0, math.sqrt(share * (1 - decay**2)))
    return values


def changed(seed: int, share: float, decay: float, step: float, runs: int = 160) -> LevelChange:
    """What is said of runs of which the last half are more by a step."""
    half = runs // 2
    values = [value + step * (run >= half) for run, value in enumerate(wandering_jobs(seed, runs, share, decay))]
    return change_in(normal_scores(values), 30)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("share", "decay"), [(0.0, 0.5), (1.0, 0.5), (0.5, 0.8), (1.0, 0.8)])
def test_what_runs_have_in_common_beside_a_change_is_about_right(share: float, decay: float) -> None:
    found = [changed(seed, share, decay, 3.0) for seed in range(30)]
    seen = [change.common.share * change.common.decay for change in found if change.is_believed]
    assert len(seen) >= 25
    assert statistics.median(seen) == pytest.approx(share * decay, abs=0.15)


def test_a_creep_is_a_change_and_a_level_that_wanders_is_none() -> None:
    for share, decay in ((0.5, 0.8), (0.5, 0.85), (1.0, 0.5)):
        assert sum(changed(seed, share, decay, 0.0).is_believed for seed in range(100, 150)) <= 2
    assert changed(1, 0.0, 0.5, 2.0).common == Autocorrelation()
    assert changed(1, 0.0, 0.5, 2.0).is_believed
    assert not changed(1, 0.0, 0.5, -2.0).is_believed
    values = [value + max(0, run - 60) * 0.08 for run, value in enumerate(wandering_jobs(1, 100, 0.0, 0.5))]
    assert change_in(normal_scores(values), 30).is_believed
    values = wandering_jobs(1, 60, 0.0, 0.5)
    assert not change_in(normal_scores([*values, 9.0, 9.0, 9.0, 9.0]), 30).is_believed
    assert change_in(normal_scores([*values, *[9.0] * 12]), 30).is_believed


def test_inflation_is_the_variance_of_a_mean() -> None:
    runs, decay = 10, 0.8
    exact = sum(decay ** abs(one - other) for one in range(runs) for other in range(runs)) / runs
    assert Autocorrelation(1.0, decay).inflation(runs) == pytest.approx(exact)
    assert Autocorrelation(0.5, decay).inflation(runs) == pytest.approx(1 + 0.5 * (exact - 1))
    assert Autocorrelation().inflation(runs) == 1


@pytest.mark.parametrize("values", [[], [1.0] * 60, [1.0, 2.0], [1.0] * 30, [1.0] * 30 + [2.0] * 30])
def test_it_takes_runs_that_differ_and_enough_of_them(values: list[float]) -> None:
    found = change_in(normal_scores(values), 30)
    assert found.is_believed == (len(set(values)) == 2 and len(values) == 60)
