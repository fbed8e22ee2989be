from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.stats.decision import Decision, Outcome, decide, is_known
from pytest_gsw.stats.noise import PRIOR, Noise, OwnLevel, limit, noise_of, screen

TOLERANCE = 0.05
#: Times over a reference of one second.
TIMES = st.floats(0.5, 2.0)
NOISES = st.builds(Noise, st.floats(0, 0.3), st.integers(0, 30))
CONFIRM = st.integers(0, 6)


def run(times_s: list[float], noise: Noise = PRIOR, confirm: int = 2, first: int = 1) -> tuple[Decision, int]:
    """What becomes of a row whose jobs would take these times, and how many of them ran."""
    ran = first
    while True:
        decision = decide(times_s[:ran], 1.0, TOLERANCE, noise, first=first, confirm=confirm)
        if not decision.more:
            return decision, ran
        ran += decision.more


@pytest.mark.parametrize(
    ("times_s", "outcome", "ran"),
    [
        # A true loss: two jobs of at most three are beyond the limit, and the third cannot change it.
        ([1.11, 1.10, 1.12], Outcome.REGRESSED, 2),
        # One fast job of three does not make it green: this is not "any of three".
        ([1.11, 0.98, 1.12], Outcome.PASSED, 2),
        ([1.20, 0.97, 1.12], Outcome.REGRESSED, 3),
        ([1.20, 1.00, 1.02], Outcome.PASSED, 3),
        # One slow job is an accident: a node, a neighbour.
        ([1.30, 1.00, 1.01], Outcome.PASSED, 3),
        ([1.08, 1.00, 1.01], Outcome.PASSED, 2),
        ([1.05, 1.20, 1.20], Outcome.PASSED, 1),
        ([0.90, 1.20, 1.20], Outcome.IMPROVED, 1),
    ],
)
def test_a_row_with_at_most_two_more_jobs(times_s: list[float], outcome: Outcome, ran: int) -> None:
    decision, jobs = run(times_s)
    assert (decision.outcome, jobs) == (outcome, ran)
    assert decision.median == statistics.median(times_s[:ran])


@pytest.mark.parametrize(
    ("times_s", "outcome", "ran"),
    [
        ([1.11, 1.10, 1.12, 1.0, 1.0], Outcome.REGRESSED, 3),
        ([1.11, 1.10, 1.00, 1.12, 1.0], Outcome.REGRESSED, 4),
        ([1.13, 1.12, 1.00, 1.00, 1.2], Outcome.REGRESSED, 5),
        ([1.20, 1.10, 1.00, 1.00, 1.0], Outcome.PASSED, 4),
        ([1.20, 1.15, 1.00, 1.00, 1.0], Outcome.PASSED, 5),
        ([1.40, 1.00, 1.01, 1.00, 1.0], Outcome.PASSED, 3),
    ],
)
def test_a_row_with_at_most_four_more_jobs(times_s: list[float], outcome: Outcome, ran: int) -> None:
    decision, jobs = run(times_s, confirm=4)
    assert (decision.outcome, jobs) == (outcome, ran)


def test_without_more_jobs_the_first_is_held_against_its_own_limit() -> None:
    noise = Noise(0.03, 30)
    assert limit(TOLERANCE, noise) == pytest.approx(0.0970, abs=1e-4)
    assert run([1.05], noise, confirm=0)[0].outcome == Outcome.PASSED
    assert run([1.06], noise, confirm=0)[0].outcome == Outcome.INCONCLUSIVE
    assert run([1.09], noise, confirm=0)[0].outcome == Outcome.INCONCLUSIVE
    assert run([1.11], noise, confirm=0)[0].outcome == Outcome.REGRESSED
    assert run([1.11], noise, confirm=0)[0].limit == limit(TOLERANCE, noise)


def test_repeats_from_the_start_all_run_and_their_median_counts() -> None:
    noise = Noise(0.04, 30)
    assert decide([1.0], 1.0, TOLERANCE, noise, first=3).more == 2
    assert decide([1.0, 1.2], 1.0, TOLERANCE, noise, first=3).more == 1
    decision = decide([1.0, 1.2, 1.1], 1.0, TOLERANCE, noise, first=3)
    assert (decision.outcome, decision.median, decision.more) == (Outcome.REGRESSED, 1.1, 0)
    assert decision.limit == limit(TOLERANCE, noise, 3)
    # With more jobs to come, three beyond the screen of three are not the end.
    assert decide([1.0, 1.2, 1.1], 1.0, TOLERANCE, noise, first=3, confirm=2).more == 1


def test_the_numbers_of_a_decision() -> None:
    decision = decide([1.25], 1.0, TOLERANCE)
    assert decision.loss == pytest.approx(0.2)
    assert decision.limit == TOLERANCE
    assert decision.allowed_gain == pytest.approx(math.exp(3.1 * 0.0165) - 1)
    assert decide([0.8], 1.0, TOLERANCE).loss == pytest.approx(-0.25)


@pytest.mark.parametrize("tolerance", [0.001, 0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("reference", [0.661, 4.324, 7.47, 17.96068, 435.0])
def test_a_run_exactly_on_the_limit_passes(reference: float, tolerance: float) -> None:
    quiet = Noise(0.0, 30)
    assert decide([reference / (1 - tolerance)], reference, tolerance, quiet).outcome == Outcome.PASSED
    assert decide([reference / (1 - tolerance) * (1 + 1e-9)], reference, tolerance, quiet).outcome == Outcome.REGRESSED
    assert decide([reference / (1 + tolerance)], reference, tolerance, quiet).outcome == Outcome.PASSED
    assert decide([reference / (1 + tolerance) * (1 - 1e-9)], reference, tolerance, quiet).outcome == Outcome.IMPROVED


def test_on_a_noisy_cluster_a_loss_within_the_limit_is_inconclusive() -> None:
    noisy = Noise(0.08, 30)
    assert run([1.04], noisy)[0].outcome == Outcome.PASSED
    # A few more jobs would tell nothing: one within the screen is the only one.
    assert run([1.10], noisy) == (decide([1.10], 1.0, TOLERANCE, noisy, confirm=2), 1)
    assert run([1.10], noisy)[0].outcome == Outcome.INCONCLUSIVE
    assert run([1.10], noisy)[0].limit == limit(TOLERANCE, noisy)
    assert run([1.30, 1.12, 1.13], noisy)[0].outcome == Outcome.INCONCLUSIVE
    assert run([1.30, 1.32, 1.33], noisy)[0].outcome == Outcome.REGRESSED
    assert screen(TOLERANCE, noisy) == pytest.approx(1 - math.exp(-1.5 * 0.08))
    # Up to a noise of 5 %, the screen is the tolerance.
    assert screen(TOLERANCE, Noise(0.05, 30)) == TOLERANCE
    assert run([1.06, 1.00], Noise(0.05, 30))[1] == 2


@pytest.mark.parametrize(
    ("times_s", "outcome", "ran"),
    [
        ([1.06, 1.00, 1.00, 1.00, 1.0], Outcome.PASSED, 2),
        ([1.07, 1.06, 1.00, 1.00, 1.0], Outcome.PASSED, 4),
        # Three of five are beyond the tolerance and three within the limit: no further job could change that.
        ([1.07, 1.06, 1.065, 0.90, 0.9], Outcome.INCONCLUSIVE, 3),
        ([1.07, 0.99, 1.065, 1.12, 1.0], Outcome.PASSED, 2),
        ([1.30, 1.06, 1.065, 1.06, 1.0], Outcome.INCONCLUSIVE, 4),
        ([1.30, 1.30, 1.065, 1.06, 1.06], Outcome.INCONCLUSIVE, 5),
    ],
)
def test_a_loss_between_tolerance_and_limit_asks_for_more_jobs(
    times_s: list[float], outcome: Outcome, ran: int
) -> None:
    decision, jobs = run(times_s, Noise(0.045, 30), confirm=4)
    assert (decision.outcome, jobs) == (outcome, ran)


@given(TIMES, NOISES, CONFIRM)
def test_a_first_job_within_the_tolerance_is_the_only_one_and_passes(time_s: float, noise: Noise, confirm: int) -> None:
    # benchmarks/decisions.py relies on it, to ask about the other runs only.
    if 1 / time_s >= 1 - TOLERANCE:
        decision, ran = run([time_s], noise, confirm)
        assert ran == 1
        assert decision.outcome in (Outcome.PASSED, Outcome.IMPROVED)


def at(usual: float, *newest: float, sigma: float = 0.01) -> Noise:
    return Noise(sigma, 30, level=OwnLevel(usual, newest))


@pytest.mark.parametrize(
    ("times_s", "noise", "ran"),
    [
        ([1.02], at(1.0), 1),  # within half of the tolerance
        ([1.03, 1.0], at(1.0), 2),
        ([1.03, 1.03, 1.03], at(1.0), 3),  # most of five are within the tolerance
        ([1.03], Noise(0.01, 30), 1),  # the usual figure is not known
        ([1.03], at(1.0, sigma=0.02), 1),  # within two standard deviations
        ([1.045, 1.0], at(1.0, sigma=0.02), 2),
        ([1.05], at(1.03), 1),  # as usual
        ([1.03, 1.0], at(0.97), 2),  # a gain is no reason to lose it
        ([1.06, 1.0], at(1.1), 2),  # beyond the tolerance in any case
        ([1.02, 1.0], at(1.0, 1.04, 1.04), 2),  # the newest three are slow
        ([1.02], at(1.0, 1.04, 1.0), 1),
    ],
)
def test_a_row_whose_usual_figure_is_known_is_repeated_sooner(times_s: list[float], noise: Noise, ran: int) -> None:
    decision, jobs = run(times_s, noise, confirm=4)

    assert (decision.outcome, jobs) == (Outcome.PASSED, ran)


def test_a_lucky_first_job_hides_no_loss() -> None:
    times_s = [1.04, 1.08, 1.08, 1.08]

    assert run(times_s, Noise(0.02, 30), confirm=4)[0].outcome is Outcome.PASSED
    assert run(times_s, at(1.0, sigma=0.015), confirm=4)[0].outcome is Outcome.REGRESSED


@given(st.lists(TIMES, min_size=7, max_size=7), NOISES, CONFIRM)
def test_jobs_that_have_run_all_count(times_s: list[float], noise: Noise, confirm: int) -> None:
    decision, ran = run(times_s, noise, confirm)
    assert 1 <= ran <= 1 + confirm
    assert decision.median == statistics.median(times_s[:ran])
    assert decision.loss == pytest.approx(1 - 1 / decision.median)
    if decision.outcome in {Outcome.PASSED, Outcome.IMPROVED}:
        assert decision.loss <= TOLERANCE + 1e-9
    else:
        assert decision.loss > TOLERANCE
    if decision.outcome == Outcome.REGRESSED:
        assert decision.loss > limit(TOLERANCE, noise, 1 + confirm) - 1e-9


@given(st.lists(TIMES, min_size=7, max_size=7), NOISES, CONFIRM)
def test_jobs_that_are_saved_could_not_have_made_a_failed_row_pass(
    times_s: list[float], noise: Noise, confirm: int
) -> None:
    decision, ran = run(times_s, noise, confirm)
    if decision.outcome == Outcome.REGRESSED:
        fastest = [*times_s[:ran], *[0.01] * (1 + confirm - ran)]
        assert decide(fastest, 1.0, TOLERANCE, noise, confirm=confirm).outcome == Outcome.REGRESSED


@given(st.lists(TIMES, min_size=7, max_size=7), st.lists(TIMES, min_size=7, max_size=7), NOISES, CONFIRM)
def test_jobs_that_are_saved_could_not_have_changed_what_is_not_passed(
    times_s: list[float], others_s: list[float], noise: Noise, confirm: int
) -> None:
    decision, ran = run(times_s, noise, confirm)
    if decision.outcome in {Outcome.REGRESSED, Outcome.INCONCLUSIVE} and not noise.noisy:
        every = [*times_s[:ran], *others_s[ran : 1 + confirm]]
        assert decide(every, 1.0, TOLERANCE, noise, confirm=confirm).outcome == decision.outcome


@given(st.lists(TIMES, min_size=3, max_size=3), NOISES)
def test_the_order_of_jobs_does_not_matter_once_all_have_run(times_s: list[float], noise: Noise) -> None:
    decisions = {decide(order, 1.0, TOLERANCE, noise, confirm=2) for order in itertools.permutations(times_s)}
    assert len({(one.outcome, one.median) for one in decisions if not one.more}) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_time_is_not_compared(bad: float) -> None:
    with pytest.raises(ValueError, match="is no figure of a job"):
        decide([1.0, bad], 1.0, TOLERANCE)
    with pytest.raises(ValueError, match="is no figure of a job"):
        decide([1.0], bad, TOLERANCE)
    with pytest.raises(ValueError, match="a tolerance of"):
        decide([1.0], 1.0, -abs(bad))


def test_what_cannot_be_decided() -> None:
    with pytest.raises(ValueError, match="a row without a job cannot be decided"):
        decide([], 1.0, TOLERANCE)
    with pytest.raises(ValueError, match="0 jobs and 0 more are no plan"):
        decide([1.0], 1.0, TOLERANCE, first=0)
    with pytest.raises(ValueError, match="1 jobs and -1 more are no plan"):
        decide([1.0], 1.0, TOLERANCE, confirm=-1)


def simulated(loss: float, confirm: int, history: int, series: int, sigma: float = 0.03) -> tuple[float, float]:
    """The share of runs that fail, and jobs a run; 20 runs for each history. Seeded, so never flaky."""
    rng = random.Random(f"{loss} {confirm} {history}")  # noqa: S311 - noise, not cryptography
    failed = jobs = 0
    for _ in range(series):
        noise = noise_of([math.exp(rng.gauss(0, sigma)) for _ in range(history)])
        for _ in range(20):
            times_s = [math.exp(rng.gauss(0, sigma)) / (1 - loss) for _ in range(1 + confirm)]
            decision, ran = run(times_s, noise, confirm)
            failed, jobs = failed + (decision.outcome == Outcome.REGRESSED), jobs + ran
    return failed / series / 20, jobs / series / 20


# benchmarks/decisions.py measures the rules; these few runs notice a rule that is broken.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("confirm", "history"), [(4, 30), (4, 8), (4, 0), (2, 30)])
def test_false_failures_and_jobs_at_a_noise_of_three_percent(confirm: int, history: int) -> None:
    failed, jobs = simulated(0.0, confirm, history, series=300)
    assert failed <= 0.001 + 3 * math.sqrt(0.001 / 6000)
    assert 1.02 < jobs <= 1.1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("confirm", "history"), [(4, 30), (4, 8), (4, 0), (2, 30)])
def test_power_against_a_loss_of_ten_percent_at_a_noise_of_three_percent(confirm: int, history: int) -> None:
    failed, jobs = simulated(0.1, confirm, history, series=100)
    assert failed >= (0.93 if history != 8 else 0.75)
    assert jobs < 3.6


KNOWN = Noise(0.01, 30)


@pytest.mark.parametrize(
    ("times_s", "before_s", "noise", "known"),
    [
        ([1.11], [1.12, 1.10, 1.11], KNOWN, True),
        ([1.14], [1.11], KNOWN, True),
        ([1.30], [1.12, 1.10, 1.11], KNOWN, False),  # worse
        ([1.07], [1.25, 1.25], KNOWN, False),  # better
        ([1.04], [1.04, 1.04], KNOWN, False),  # within the tolerance
        ([1.08], [1.09, 1.09], Noise(0.03, 30), False),  # what one job may show by chance
        ([1.11], [1.11], PRIOR, False),  # nobody knows by how much jobs of this row differ
        ([1.11], [], KNOWN, False),
    ],
)
def test_a_loss_that_is_known_from_the_run_before(
    times_s: list[float], before_s: list[float], noise: Noise, known: bool
) -> None:
    assert is_known(times_s, 1.0, TOLERANCE, noise, before_s) is known
