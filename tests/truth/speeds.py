"""Runs of a known speed: within what is allowed, beyond it, and beyond belief."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_gsw.results import outcomes
from pytest_gsw.stats.noise import Noise
from pytest_gsw.tables.model import MAX_GAIN
from tests.truth.model import Case
from tests.truth.trial import Trial

#: "Just beyond" a limit is this much farther than what the digits can tell.
_MARGIN = 0.0005
_TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.1)
#: Noise of which a single job may lose 8.9 % of throughput, and a tolerance that is less than that.
_KNOWN_NOISE, _KNOWN_TOLERANCE = Noise(sigma=0.03, jobs=30), 0.05


def speeds(trial: Trial) -> Iterator[Case]:
    """Throughput that differs by a little less, a little more, and far more than is allowed."""
    own = trial.baseline.criterion.tolerance
    yield trial.judged("untouched", "nothing", trial.run, outcomes.PASSED.word, own)
    for sign, beyond in ((-1, outcomes.REGRESSED.word), (1, outcomes.IMPROVED.word)):
        tolerance = trial.random.choice((*_TOLERANCES, own))
        limit = 1 + sign * tolerance
        if sign > 0 and tolerance >= MAX_GAIN:
            beyond = outcomes.INCONCLUSIVE.word  # nothing between what is allowed and what is believed
        factor = 1 + sign * (trial.accuracy(trial.documented / limit) + _MARGIN)
        word = "less" if sign < 0 else "more"
        for name, throughput, outcome in (
            ("within", limit / factor, outcomes.PASSED.word),
            ("beyond", limit * factor, beyond),
            ("far", limit * trial.random.uniform(0.5, 0.9) if sign < 0 else _far(trial, tolerance), beyond),
        ):
            done = f"{abs(throughput - 1):.4%} {word} throughput, {tolerance:.2%} allowed"
            yield trial.judged(f"{word}-{name}", done, trial.at(throughput), outcome, tolerance)


def _far(trial: Trial, tolerance: float) -> float:
    """Throughput, against the documented one, that is far beyond a tolerance, possible, and believed if any is."""
    far = min((1 + tolerance) * 1.15, trial.most)
    return far if tolerance >= MAX_GAIN else min(far, 1 + MAX_GAIN - 0.01)


def not_believed(trial: Trial) -> Iterator[Case]:
    """Figures that neither pass nor fail: gains beyond belief, and a loss that noise may be."""
    least, most = (1 + max(MAX_GAIN, trial.baseline.criterion.tolerance)) * 1.02, min(10.0, trial.most)
    if most > least:
        throughput = trial.random.uniform(least, most)
        done = f"{throughput - 1:.0%} more throughput"
        yield trial.judged("more-unbelieved", done, trial.at(throughput), outcomes.INCONCLUSIVE.word)
    case = trial.judged("decimal", "the table's figure is ten times as long", trial.run, outcomes.INCONCLUSIVE.word)
    figure = {trial.baseline.judged_by.key: trial.documented * 10}
    misprinted = replace(trial.baseline, documented=replace(trial.baseline.documented, **figure))
    yield replace(case, baseline=misprinted)
    lost = trial.random.uniform(0.06, 0.08)
    allowed = f"{_KNOWN_TOLERANCE:.2%} allowed, of jobs that differ by {_KNOWN_NOISE.sigma:.0%}"
    done = f"{lost:.2%} less throughput, {allowed}"
    case = trial.judged("less-in-noise", done, trial.at(1 - lost), outcomes.INCONCLUSIVE.word, _KNOWN_TOLERANCE)
    yield replace(case, noise=_KNOWN_NOISE)
    if trial.baseline.criterion.statistic == "last" and not trial.one_number:
        series, end = (
            (trial.run.steps_s, trial.run.second_rank_s),
            (trial.run.logged_steps - 1) * trial.run.log_interval,
        )
        steps_s, second_s = ((*(3 * step_s for step_s in one[:end]), *one[end:]) for one in series)
        slow = replace(trial.run, steps_s=steps_s, second_rank_s=second_s)
        done = "all steps take three times as long but the last, which is the documented one"
        yield trial.judged("last-alone", done, slow, outcomes.INCONCLUSIVE.word)
    if trial.baseline.workload.log_format == "maxtext":  # where two ranks print their steps
        first_s, second_s = (tuple(share * step_s for step_s in trial.run.steps_s) for share in (0.5, 1.5))
        apart = replace(trial.run, steps_s=first_s, second_rank_s=second_s)
        done = "one rank takes three times as long as the other, and their median is the documented one"
        yield trial.judged("ranks-apart", done, apart, outcomes.INCONCLUSIVE.word)
