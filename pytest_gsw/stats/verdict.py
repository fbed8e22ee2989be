"""The verdict on a measured row against its document: a value; other modules word it."""

from __future__ import annotations

import enum
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gsw.common.typed_json import NOT_IN_JSON
from pytest_gsw.stats.cluster_effect import ClusterEffect, decide_adjusted
from pytest_gsw.stats.decision import ROUNDING, WORST_FIRST, decide, is_above, is_below
from pytest_gsw.stats.decision import Outcome as Outcome
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise, gain_limit
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.tables.metrics import METRIC_KEY, STEP_TIME, Direction, Metric, MetricLabel
from pytest_gsw.tables.model import Accepted, Baseline

# -- Implausible measurements: too large a gain, ranks of one job that differ, steps that outlast a job --


#: Factor by which steps may outlast their job's run time, and the error of a scheduler's whole seconds.
_LONGER, _ROUNDED_S = 1.1, 2.0


@dataclass(frozen=True)
class RankSpread:
    """The ranks of one job whose step times differ from the others."""

    #: Label and seconds of each such rank, the farthest one first.
    ranks: tuple[tuple[str, float], ...]
    #: The median of all the job's ranks, seconds.
    median_s: float


def ranks_of_jobs(jobs: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """The ranks of the job in which they differ the most; a job without ranks is an empty mapping."""
    return min(jobs, key=lambda ranks_s: min(ranks_s.values()) / max(ranks_s.values()) if ranks_s else 1.0)


def ranks_apart(ranks_s: Mapping[str, float], tolerance: float) -> RankSpread | None:
    """The ranks that differ from the others; ``None`` if the slowest and the fastest are within the tolerance.

    Each step of synchronous training ends when all ranks have exchanged their gradients: all take the same time. If
    they do not, some ranks did not take part, or the lines are misread. A rank's time is its median over the measured
    steps, above zero.
    """
    if len(ranks_s) < 2 or not is_below(min(ranks_s.values()) / max(ranks_s.values()), tolerance):
        return None
    median_s = statistics.median(ranks_s.values())

    def nearness(seconds: float) -> float:
        return min(seconds / median_s, median_s / seconds)

    ordered = sorted(ranks_s.items(), key=lambda rank: nearness(rank[1]))
    # If they are spread evenly, none alone is beyond the tolerance.
    distant = [rank for rank in ordered if is_below(nearness(rank[1]), tolerance)] or ordered[:2]
    return RankSpread(tuple(distant), median_s)


def is_longer_than_job(series_s: Sequence[float], run_s: float) -> bool:
    """True if steps took clearly longer than their job ran: some are of another job, or the log's clock is wrong."""
    return _LONGER * run_s + _ROUNDED_S < sum(series_s) < math.inf


#: A statistic that differs by more than this from the median of the steady steps needs a note.
NOTABLE_GAP = 0.02


class Reason(enum.Enum):
    """Reasons for an outcome, the usual one of an outcome first, by the word in records.

    An inconclusive one also has a text in ``results/row_text.py``, and a line in ``docs/design.md``.
    """

    _value_: str
    #: Why such a run shows neither the noise of its row nor a figure to accept, behind "it"; empty if it shows both.
    forbids: str
    #: The outcome that has it; ``None`` for none.
    outcome: Outcome | None

    def __new__(  # noqa: PYI034 - typing.Self is Python 3.11's
        cls, word: str, forbids: str = "", outcome: Outcome | None = Outcome.INCONCLUSIVE
    ) -> Reason:
        """A reason whose value is its word."""
        reason = object.__new__(cls)
        reason._value_, reason.forbids, reason.outcome = word, forbids, outcome
        return reason

    #: It differs by no more than the tolerance.
    WITHIN_TOLERANCE = "within tolerance", "", Outcome.PASSED
    #: It is faster by more than the tolerance, and by no more than the noise between jobs of this row.
    GAIN_WITHIN_NOISE = "gain within noise", "", Outcome.PASSED
    FASTER = "faster than allowed", "", Outcome.IMPROVED
    SLOWER = "slower than allowed", "", Outcome.REGRESSED
    #: It is slower by more than the tolerance, and by no more than the noise between jobs of this row.
    WITHIN_NOISE = "within noise"
    #: A canary row shows that the cluster is not in its usual state.
    CANARY = "canary", "is of a run in which a canary was too slow"
    #: All rows of the cluster are slower in this run, which is a failure of its own.
    INCIDENT = "incident"
    #: A job is implausibly fast.
    TOO_GOOD = (
        "too good to be true",
        "is too good to be true; --max-gain=PERCENT counts such runs, once it is clear why they are so fast",
    )
    #: Ranks of one job show different times for the same steps.
    RANKS_DIFFER = "ranks differ", "is of a job whose ranks differ"
    #: The document's statistic is the last step, and the other steps of the job are within the tolerance.
    LAST_STEP = "last step alone", "is of a job whose last step is unlike its others"
    #: The document's statistic is better by more than the tolerance than the median of the steady steps.
    STEPS_SLOWER = "steady steps slower", "is of a job whose steady steps are slower than its figure"
    #: A third of the measured steps are slower than the steady ones by more than the tolerance.
    THIRD_SLOWER = "third of steps slower", "is of a job of which a third of the steps are slower than the steady ones"
    #: The log leaves open what was measured.
    NOT_KNOWN = "not known", "is of a log that leaves open what was measured"
    #: Further jobs name a node of the tile, or the tile's nodes together; also of its points in the history.
    SLOW_NODE = "slower than its peers", "is of a tile with a slow node", Outcome.REGRESSED
    #: One job of the tile is beyond the tolerance, and the tiles together are not.
    LIKE_PEERS = "no slower than its peers", "", Outcome.PASSED
    #: The search among tiles has not decided if the tile has a slow node.
    NOT_DECIDED = "not decided"
    #: The loss at the tile's last step is unlike that of the others.
    OTHER_LOSS = "other loss", "has another loss than its peers"
    #: Of a point of the history alone: its job ran on a tile, so that it shows the nodes and not the row.
    TILE = "tile", "is of a tile, and shows its nodes", None


#: By the word in records, what a reason forbids.
FORBIDS = {reason.value: reason.forbids for reason in Reason if reason.forbids}
_DOUBTS = (Reason.TOO_GOOD, Reason.RANKS_DIFFER, Reason.LAST_STEP, Reason.STEPS_SLOWER, Reason.THIRD_SLOWER)
#: Reasons of runs with an implausible figure, as in records; each forbids something.
DOUBTS = frozenset(reason.value for reason in (*_DOUBTS, Reason.NOT_KNOWN))
#: Such runs, runs with an unusual state of the cluster, and tiles: none of them measures the noise of a row.
UNUSUAL = FORBIDS.keys()

#: Noise of a row without a history: the tolerance is the limit.
_NOISELESS = Noise(sigma=0.0, jobs=0)

#: The reason of an outcome from a site's rule that gives none: the first one that has it.
_USUAL_REASON = {reason.outcome: reason for reason in reversed(Reason)}


def _check_numbers(of: str, numbers: Mapping[str, float]) -> None:
    """Raise a ValueError for a number that nothing can be compared with."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"'{of}.{name}' is {number!r}, wanted a number above 0")


@dataclass(frozen=True)
class MetricVerdict:
    """The outcome by one of a site's metrics, and its numbers, in the metric's unit."""

    metric: MetricLabel
    outcome: Outcome
    #: The median of the row's jobs.
    measured: float
    documented: float
    #: Accepted worsening (and improvement), as a fraction of the documented value; of a limit it is zero.
    tolerance: float
    #: Number of further jobs that are needed before this counts.
    more: int = 0

    def __post_init__(self) -> None:
        """Raise a ValueError for a key that no metric has, and for numbers that nothing can be compared with."""
        if re.fullmatch(METRIC_KEY, self.metric.key) is None:
            raise ValueError(f"'{self.metric.key}' is no key of a metric")
        numbers = {"measured": self.measured, "documented": self.documented, "tolerance": self.tolerance or 1.0}
        _check_numbers(self.metric.key, numbers)

    @property
    def change(self) -> float:
        """Measured over documented value, less one."""
        return self.measured / self.documented - 1

    @property
    def allowed_change(self) -> float:
        """The change beyond which it has regressed; one that has to be met is too high as well as too low."""
        is_less_better = self.metric.direction is Direction.LOWER_IS_BETTER
        is_too_high = self.metric.direction is Direction.EQUAL_IS_BEST and self.change > 0
        return self.tolerance if is_less_better or is_too_high else -self.tolerance


@dataclass(frozen=True)
class Verdict:
    """The outcome for one row, and its numbers, in the unit of the judged metric.

    A gain is one of speed, as a fraction: of throughput, or of the inverse of a time; below 0 it is a loss.
    """

    outcome: Outcome
    #: The median of the row's jobs.
    measured: float
    documented: float
    #: Accepted loss (and gain) of throughput, as a fraction.
    tolerance: float
    #: The figure that the cluster has accepted in the document's place; ``None`` if the document is the reference.
    accepted: float | None = None
    #: The loss beyond which it is a regression (the gain beyond which an improvement), if noise makes that more than
    #: the tolerance.
    limit: float | None = None
    #: Noise between jobs of this row, if there is a history.
    noise: Noise | None = None
    #: The figure of each job; :attr:`measured` is their median.
    jobs: tuple[float, ...] = ()
    #: The median of the steady steps, besides the statistic of the document; if a third of the steps are slower, the
    #: time that these take at least.
    steady_s: float | None = None
    given_reason: Reason | None = None
    #: Number of further jobs that are needed before this counts; ``None`` if the rule gives none.
    more: int | None = None
    #: The loss of its first job beyond which it has more; ``None`` if it can have none, or has several in any case.
    screen: float | None = None
    #: The gain of throughput beyond which a result is implausible, as a fraction; ``None`` if the rule has none.
    max_gain: float | None = None
    #: Ranks whose times differ, if any.
    ranks: RankSpread | None = None
    #: The effect of the other rows of the run, if there is one.
    cluster_effect: ClusterEffect | None = None
    #: The outcomes by the site's metrics that the row documents.
    metrics: tuple[MetricVerdict, ...] = ()
    #: The outcome by the row's own metric, if those have a worse one; ``None`` if it is the outcome.
    own_outcome: Outcome | None = None
    #: The judged metric, which a record has of its row.
    metric: Metric = field(default=STEP_TIME, metadata=NOT_IN_JSON)

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be compared: a ValueError."""
        numbers = {"measured": self.measured, "documented": self.documented, "tolerance": self.tolerance}
        _check_numbers("verdict", numbers | ({} if self.accepted is None else {"accepted": self.accepted}))
        for job in self.jobs:
            _check_numbers("verdict", {"jobs": job})

    @property
    def own(self) -> Outcome:
        """The outcome by the row's own metric alone."""
        return self.own_outcome or self.outcome

    @property
    def reason(self) -> Reason:
        """The reason for the outcome by the row's own metric."""
        return self.given_reason or _USUAL_REASON[self.own]

    @property
    def allowed(self) -> float:
        """The loss (and gain) of throughput beyond which it is a regression (an improvement)."""
        return self.tolerance if self.limit is None else self.limit

    @property
    def reference(self) -> float:
        """The reference of the outcome."""
        return self.documented if self.accepted is None else self.accepted

    @property
    def gain(self) -> float:
        """Measured speed over that of the reference, less one: -0.1 is 10 % less throughput."""
        return self._gain_of(self.measured)

    def _gain_of(self, value: float) -> float:
        return self.metric.direction.speed(value, self.reference) - 1

    @property
    def change(self) -> float:
        """The change against the reference as screens show it."""
        return self.metric.change(self.measured, self.reference)

    @property
    def left_change(self) -> float | None:
        """The same without the slowdown of all other rows in the run; ``None`` if that is unknown."""
        effect = self.cluster_effect
        return None if effect is None else self.metric.change_by((1 + self.gain) * math.exp(effect.taken) - 1)

    @property
    def documented_change(self) -> float:
        """The change against the document as screens show it, whatever the reference."""
        return self.metric.change(self.measured, self.documented)

    @property
    def documented_outcome(self) -> Outcome:
        """The outcome by the document, whatever the reference."""
        return compare(self.measured, self.documented, self.allowed, self.metric.direction)

    @property
    def best_job(self) -> float:
        """The figure of the fastest job."""
        return max(self.jobs or (self.measured,), key=self._gain_of)

    @property
    def greatest_gain(self) -> float:
        """The gain of the fastest job."""
        return self._gain_of(self.best_job)

    @property
    def statistic_gap(self) -> float | None:
        """The document's statistic over the median of the steady steps, less one, if it is notable."""
        if not self.steady_s:
            return None
        gap = self.measured / self.steady_s - 1
        return gap if abs(gap) > NOTABLE_GAP else None

    @property
    def allowed_gain(self) -> float:
        """The tolerance, as a loss, or as a gain of a run that is faster than that; noise may excuse more."""
        return self.tolerance if self.own is Outcome.IMPROVED else -self.tolerance


def compare(measured: float, reference: float, allowed: float, direction: Direction) -> Outcome:
    """Compare a measured figure with its reference; all are finite and above zero.

    The allowance is one of speed: with 5 %, throughput may be 5 % lower, and a time up to 1/0.95 of its reference.
    """
    speed = direction.speed(measured, reference)
    if is_below(speed, allowed):
        return Outcome.REGRESSED
    if is_above(speed, allowed):
        return Outcome.IMPROVED
    return Outcome.PASSED


#: By the reason of one job's outcome, the same of all tiles together: else it is by chance.
_OF_TILES = dict.fromkeys((Reason.SLOWER, Reason.WITHIN_NOISE), Outcome.REGRESSED) | {Reason.FASTER: Outcome.IMPROVED}


def after_search(
    verdict: Verdict, level: float | None, *, is_slow: bool, is_open: bool, has_other_loss: bool
) -> Verdict:
    """The verdict of a tile by all tiles of its row, and by the jobs of a search among them.

    Args:
        verdict: That of its job in the sweep.
        level: The median of the figures of all tiles in the sweep; ``None`` without a search.
        is_slow: True if the search names its nodes, or one of them.
        is_open: True if the search has not decided.
        has_other_loss: True if its loss is unlike that of the other tiles.
    """
    is_chance = False
    if level is not None and verdict.own_outcome is None and verdict.reason in _OF_TILES:
        of_tiles = compare(level, verdict.reference, verdict.tolerance, verdict.metric.direction)
        is_chance = of_tiles is not _OF_TILES[verdict.reason]
    if is_slow:
        outcome, reason = Outcome.REGRESSED, Reason.SLOW_NODE
    elif verdict.outcome is Outcome.REGRESSED and not is_chance:
        return verdict
    elif has_other_loss or is_open:
        outcome, reason = Outcome.INCONCLUSIVE, Reason.OTHER_LOSS if has_other_loss else Reason.NOT_DECIDED
    elif is_chance:
        outcome, reason = Outcome.PASSED, Reason.LIKE_PEERS
    else:
        return verdict
    return replace(verdict, outcome=outcome, own_outcome=None, given_reason=reason)


def verdict_of(
    baseline: Baseline,
    measurement: Measurement,
    tolerance: float,
    accepted: Accepted | None = None,
    noise: Noise | None = None,
    repeats: Repeats | None = None,
    max_gain: float | None = None,
    cluster_effect: ClusterEffect | None = None,
) -> Verdict:
    """Compare a row's measurement with its document, or with the figure that its cluster has accepted instead.

    Args:
        baseline: The row.
        measurement: The measurement; the median if there are several jobs.
        tolerance: Accepted loss (and gain) of throughput as a fraction.
        accepted: The cluster's figure, which then is the reference.
        noise: Noise between jobs of this row on its cluster; ``None`` if unknown: the tolerance then is the limit.
        repeats: The number of jobs that the row may have, from which the verdict derives how many are still needed.
        max_gain: Largest plausible gain of throughput, as a fraction; the row's own by default.
        cluster_effect: The effect of the other rows of the run; ``None`` without one.

    Raises:
        ValueError: There is no documented figure to judge by, or a number is not finite and above zero. A missing
            figure never passes, and NaN is never compared.
    """
    metric, documented = baseline.judged_by, baseline.judged
    reference = documented if accepted is None else accepted.judged
    max_gain = baseline.criterion.max_gain if max_gain is None else max_gain
    numbers = {"documented": documented, "accepted": reference, "measured": measurement.judged, "tolerance": tolerance}
    numbers["greatest gain"] = max_gain
    numbers |= {f"rank {label}": seconds for label, seconds in measurement.ranks_s.items()}
    for name, number in numbers.items():
        if number is None or not math.isfinite(number) or number <= 0:
            raise ValueError(f"cannot judge {baseline.id}: its {name} figure is {number}")
    assert documented is not None  # the loop above has made sure of both
    assert reference is not None
    direction, jobs, repeats = metric.direction, measurement.jobs or (measurement.judged,), repeats or Repeats()
    row_noise = noise or _NOISELESS
    plan: Any = {"first": repeats.first, "confirm": repeats.confirm, "direction": direction}
    if cluster_effect is None:
        decision = decide(jobs, reference, tolerance, row_noise, **plan)
    else:
        decision = decide_adjusted(jobs, reference, tolerance, cluster_effect, **plan)
    outcome = decision.outcome
    allowed = decision.allowed_gain if outcome is Outcome.IMPROVED else decision.limit
    is_within = compare(decision.median, reference, tolerance, direction) is Outcome.PASSED
    reason = Reason.GAIN_WITHIN_NOISE if outcome is Outcome.PASSED and not is_within else _USUAL_REASON[outcome]
    if decision.is_part:
        reason = Reason.INCIDENT
    # Noise may make the gain of a single job more.
    plausible, ranks = max(max_gain, gain_limit(tolerance, row_noise)), ranks_apart(measurement.ranks_s, tolerance)
    steady_s = usual_s = None
    if measurement.steady_s is not None:  # a figure alone has no steps
        steady_s = statistics.median(measurement.steadies_s or (measurement.steady_s,))
        # A job that is unlike its steps counts as slow as these.
        usual_s = statistics.median([*map(max, jobs, measurement.steadies_s)] or [steady_s])
    if outcome is Outcome.REGRESSED and is_last_step_alone(baseline, measurement, reference, tolerance):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.LAST_STEP
    if outcome is not Outcome.REGRESSED:  # which is the worse news
        if measurement.doubt is not None:
            outcome, reason = Outcome.INCONCLUSIVE, Reason.NOT_KNOWN
        elif ranks is not None:
            outcome, reason = Outcome.INCONCLUSIVE, Reason.RANKS_DIFFER
        elif usual_s and is_below(measurement.judged / usual_s, tolerance):  # a statistic is not a run
            outcome, reason, steady_s = Outcome.INCONCLUSIVE, Reason.STEPS_SLOWER, usual_s
        elif measurement.third_s and is_below(max(measurement.judged, usual_s or 0.0) / measurement.third_s, tolerance):
            outcome, reason, steady_s = Outcome.INCONCLUSIVE, Reason.THIRD_SLOWER, measurement.third_s
        elif is_above(max(direction.speed(job, reference) for job in jobs), plausible):  # a median may hide such a job
            outcome, reason = Outcome.INCONCLUSIVE, Reason.TOO_GOOD
    return Verdict(
        outcome,
        measurement.judged,
        documented,
        tolerance,
        None if accepted is None else reference,
        limit=allowed if allowed > tolerance else None,
        noise=noise,
        jobs=jobs,
        steady_s=steady_s,
        given_reason=reason,
        more=decision.more,
        screen=decision.screen if repeats.first == 1 < repeats.most else None,
        max_gain=plausible,
        ranks=ranks,
        cluster_effect=cluster_effect,
        metric=metric,
    )


def is_last_step_alone(baseline: Baseline, measurement: Measurement, reference_s: float, tolerance: float) -> bool:
    """True if a job is too slow only by its last step, which is the document's statistic.

    The median of its steady steps is within the tolerance of the reference, and the step before the last is within it
    of that median, but the last step is not: a job that slows down at its end has more slow steps. The comparison keeps
    the statistic: no row passes by its median.
    """
    if measurement.timing.statistic != "last" or baseline.judged_by is not STEP_TIME or len(measurement.jobs) > 1:
        return False
    usual_s, before_s = measurement.steady_s or math.inf, (*measurement.timing.series_s[-2:-1], math.inf)[0]
    is_usual = not is_below(reference_s / usual_s, tolerance) and not is_below(usual_s / before_s, tolerance)
    return is_usual and is_below(usual_s / measurement.judged, tolerance)


def judge_metric(
    metric: Metric, jobs: Sequence[float], documented: float, tolerance: float, repeats: Repeats, max_gain: float
) -> MetricVerdict:
    """Compare a row's values of a further metric with its document.

    The tolerance is a fraction of the documented value, in the worse direction: with 5 %, 61.2 GiB may be 64.26 GiB,
    and 1,000 tokens/s 950.

    Args:
        metric: The metric.
        jobs: The value of each of the row's jobs so far.
        documented: The value in the document.
        tolerance: Accepted worsening (and improvement), as a fraction; a limit has none.
        repeats: The number of jobs that the row may have.
        max_gain: Largest plausible improvement, as a fraction.

    Raises:
        ValueError: There is no job, or a number is not finite and above zero.
    """
    for number in (*jobs, documented, tolerance or 1):
        if not 0 < number < math.inf:
            raise ValueError(f"cannot judge {metric.key}: {number} is no figure")
    sign = 1 if metric.direction is Direction.LOWER_IS_BETTER else -1
    is_equal = metric.direction is Direction.EQUAL_IS_BEST
    losses = [sign * (value / documented - 1) for value in jobs]
    measured = statistics.median(jobs)
    loss, best = sign * (measured / documented - 1), min(losses)
    loss = abs(loss) if is_equal else loss
    if loss > tolerance + ROUNDING:
        outcome = Outcome.REGRESSED
    elif is_equal or not tolerance:  # nothing is better than a figure to be met, or than one on the right side
        outcome = Outcome.PASSED
    elif -best > max(max_gain, tolerance) + ROUNDING:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.IMPROVED if -loss > tolerance + ROUNDING else Outcome.PASSED
    to_confirm = outcome is Outcome.REGRESSED and len(jobs) < repeats.most
    more = max(repeats.first - len(jobs), int(to_confirm), 0)
    return MetricVerdict(metric.as_label, outcome, measured, documented, tolerance, more)


def with_metrics(verdict: Verdict, metrics: Sequence[MetricVerdict]) -> Verdict:
    """A verdict whose outcome is the worst of its own and those by further metrics."""
    if not metrics:
        return verdict
    worst = min((verdict.outcome, *(metric_verdict.outcome for metric_verdict in metrics)), key=WORST_FIRST.index)
    more = None if verdict.more is None else max(verdict.more, *(metric_verdict.more for metric_verdict in metrics))
    return replace(
        verdict,
        outcome=worst,
        own_outcome=None if worst is verdict.outcome else verdict.outcome,
        given_reason=verdict.reason,
        metrics=tuple(metrics),
        more=more,
    )
