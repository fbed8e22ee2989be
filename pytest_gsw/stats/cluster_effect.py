"""The effect that all rows of a run have in common, and each row's time without it.

A run's effect is the median of its rows' excesses over their own levels, one job each. The runs of a cluster thus form
a row of their own, whose figures are ratios: the same functions compute its noise and its drift. A row's time without
the effect has less noise, and is compared with the same reference.

A loss of the whole cluster is never removed from its rows silently. An incident is a jump: an effect that exceeds the
usual one of the quiet runs before by more than such jumps differ. A level that wanders is none; it may be a drift.
Within the limit, a row beyond its tolerance does not pass because of the effect.

Rows have different metrics. Their figures are compared as costs, of which less is better
(:meth:`~pytest_gsw.tables.metrics.Direction.cost`); all other values are natural logarithms of costs, slower than usual
above 0.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from pytest_gsw.stats import noise as noises
from pytest_gsw.stats.decision import WORST_FIRST, Decision, Outcome, decide, is_below
from pytest_gsw.stats.drift import NEWEST
from pytest_gsw.stats.noise import FEWEST_JOBS, REFERENCE_JOBS, K, Noise, median_sd, noise_of, usual
from pytest_gsw.tables.metrics import Direction

#: Fewest rows for a run's effect, which is their median.
FEWEST_ROWS = 8

#: Least effect that is reported: 1.5 % less throughput.
LEAST_EFFECT = -math.log1p(-0.015)

#: Prior noise between runs: what the least effect allows for.
_PRIOR = Noise(LEAST_EFFECT / K, 0)

#: Newest runs without an incident against whose median a jump is measured.
_NEWEST = 10

_PASSING = frozenset({Outcome.PASSED, Outcome.IMPROVED})

_Run = TypeVar("_Run")
_Row = TypeVar("_Row")


def effects_of(
    runs: Mapping[_Run, Mapping[_Row, float]], middle: Callable[[Iterable[float]], float] = statistics.median
) -> dict[_Run, float]:
    """The slowdown of each run common to all rows; runs of fewer than :data:`FEWEST_ROWS` have none.

    Args:
        runs: For each run, the excess of each row's first job over the row's level.
        middle: The statistic over all rows.
    """
    return {run: middle(rows.values()) for run, rows in runs.items() if len(rows) >= FEWEST_ROWS}


def taken_before_drift(effects: Sequence[float]) -> list[float]:
    """The parts of run effects, oldest first, that are removed from rows before the drift test.

    It is a run's slowdown against the first ones, which are also the reference of the cluster's drift test; nothing is
    removed if the runs are too few for that test. A lasting gain is not removed either: a row without the gain is not
    slower.
    """
    if len(effects) < REFERENCE_JOBS + NEWEST:
        return [0.0] * len(effects)
    first = effects[:REFERENCE_JOBS]
    usual_effect, noise = statistics.median(first), noise_of([math.exp(effect) for effect in first], _PRIOR)
    gain = -max(LEAST_EFFECT, K * noises.ratio_sd(noise, NEWEST, REFERENCE_JOBS))
    excess = [effect - usual_effect for effect in effects]
    recent = (statistics.median(excess[max(0, run - NEWEST + 1) : run + 1]) for run in range(len(excess)))
    return [value - (level if level < gain else 0.0) for value, level in zip(excess, recent, strict=True)]


# -- earlier runs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """The slowdown of a run common to all rows."""

    value: float
    #: The effect beyond which it is an incident.
    limit: float
    #: Number of rows it is computed from, and of the slower ones among them.
    rows: int
    slower: int

    @property
    def is_incident(self) -> bool:
        """True if the slowdown of the whole cluster is a jump beyond the noise of such jumps."""
        return self.value > self.limit


def _effect(excess: Collection[float], limit: float) -> Effect:
    return Effect(statistics.median(excess), limit, len(excess), sum(value > 0 for value in excess))


def limits_of(effects: Sequence[float], reference: Sequence[float]) -> Sequence[float]:
    """The limit of each run's effect, oldest first, and that of the next run.

    A jump is the difference from the median of the newest runs before without an incident. An incident therefore lasts
    until the level is back. An effect below :data:`LEAST_EFFECT` is none: a cluster that has gained may lose the gain.

    Args:
        effects: The effect of each run.
        reference: The effects of the first runs, whose jumps are the noise.
    """
    before = (reference[max(0, run - _NEWEST) : run] or [0.0] for run in range(len(reference)))
    jumps = [math.exp(effect - statistics.median(runs)) for effect, runs in zip(reference, before, strict=True)]
    least_jump = max(LEAST_EFFECT, K * noise_of(jumps, _PRIOR, LEAST_EFFECT).sigma)
    quiet: deque[float] = deque(maxlen=_NEWEST)
    limits = []
    for effect in (*effects, math.inf):
        level = statistics.median(quiet) if len(quiet) >= FEWEST_JOBS else 0.0
        limits.append(max(LEAST_EFFECT, level + least_jump))
        if effect <= limits[-1]:
            quiet.append(effect)
    return limits


@dataclass(frozen=True)
class ClusterReference:
    """The common history of a cluster's rows.

    Args:
        runs: For each run, oldest first, the cost of the first job of each row for which the run counts.
        levels: Logarithm of each row's usual cost; rows without a level are left out.
        slow: The rows that were too slow in each run, which are left out of the noise.
    """

    runs: Sequence[Mapping[str, float]]
    levels: Mapping[str, float]
    slow: Sequence[Collection[str]]

    @cached_property
    def _excess(self) -> dict[int, dict[str, float]]:
        """Each row's excess over its level, by run with enough rows."""
        excess = (
            {row: math.log(cost) - self.levels[row] for row, cost in run.items() if row in self.levels}
            for run in self.runs
        )
        return {number: rows for number, rows in enumerate(excess) if len(rows) >= FEWEST_ROWS}

    @cached_property
    def effects(self) -> dict[int, float]:
        """The effect of each run that has one, by the run's index."""
        return effects_of(self._excess)

    def effect(self, run: int) -> Effect | None:
        """The slowdown of a run, by index; ``None`` if its rows, or the runs, are too few."""
        excess = self._excess.get(run)
        if excess is None or self.noise is None:
            return None
        return _effect(excess.values(), self._limits[run])

    @cached_property
    def _reference(self) -> Sequence[float]:
        """The effects of the first runs, without rows that were too slow."""
        excess = {
            run: {row: value for row, value in rows.items() if row not in self.slow[run]}
            for run, rows in self._excess.items()
        }
        return [*(effects_of(excess) or self.effects).values()][:REFERENCE_JOBS]

    @cached_property
    def noise(self) -> Noise | None:
        """The noise between the effects of the first runs; ``None`` if these are too few."""
        effects = self._reference
        return noise_of([*map(math.exp, effects)], _PRIOR, LEAST_EFFECT) if len(effects) >= FEWEST_JOBS else None

    @cached_property
    def _limits(self) -> Mapping[int | None, float]:
        """The limit of each run with an effect, by its index, and that of the next run."""
        return dict(zip((*self.effects, None), limits_of([*self.effects.values()], self._reference), strict=True))

    @property
    def limit(self) -> float:
        """The effect beyond which the next run is an incident."""
        return self._limits[None]

    def left(self, row: str) -> Mapping[int, float]:
        """Costs of a row without the run's effect, by run."""
        return {
            number: self.runs[number][row] * math.exp(-self.effects[number])
            for number, rows in self._excess.items()
            if row in rows
        }

    @cached_property
    def taken(self) -> Mapping[int, float]:
        """The part of each run's effect that is removed from its rows before the drift test."""
        return dict(zip(self.effects, taken_before_drift([*self.effects.values()]), strict=True))

    def taken_in_run(self, effect: float) -> float:
        """The same for a run outside this history, from its slowdown for the other rows."""
        return taken_before_drift([*self.effects.values(), effect])[-1]

    @cached_property
    def _noises(self) -> dict[tuple[str, float], Noise]:
        return {}

    def noise_of_left(self, row: str, tolerance: float, direction: Direction = Direction.LOWER_IS_BETTER) -> Noise:
        """The noise between runs of a row's figure without the run's effect."""
        key = (row, tolerance)
        if key not in self._noises:
            left = self.left(row)
            quiet = [cost for run, cost in left.items() if row not in self.slow[run]]
            noise = noise_of((quiet or [*left.values()])[:REFERENCE_JOBS], noises.prior_for(tolerance))
            if noise.jobs >= REFERENCE_JOBS:  # a row does not have to gain as much as all others
                newest = (left[run] * math.exp(min(0.0, self.effects[run])) for run in [*left][-2:])
                level = noises.OwnLevel(direction.cost(math.exp(self.levels[row])), tuple(map(direction.cost, newest)))
                noise = replace(noise, level=level)
            self._noises[key] = noise
        return self._noises[key]


def level_of(reference: Sequence[float]) -> float | None:
    """The level of a row from the costs of its reference; ``None`` if that has fewer than eight runs."""
    return statistics.median(usual([*map(math.log, reference)])) if len(reference) >= FEWEST_JOBS else None


# -- one row, one run -----------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterEffect:
    """The other rows' slowdown in a run, as applied to one row."""

    #: Their slowdown, and the part of it that is removed from the row.
    effect: float
    taken: float
    #: True if the whole cluster's slowdown is an incident; and the limit of that.
    is_incident: bool
    limit: float
    #: Number of rows it is computed from, this one included.
    rows: int
    #: Usual figure of the row, in its metric's unit.
    usual: float
    #: Noise of the row's figure without the effect, and of the runs.
    noise: Noise
    #: True if the row is one of those; the loss from a slow node is not the run's.
    is_counted: bool = True
    #: Number of rows tested together: in 99 of a hundred runs none of them fails by noise alone.
    tested: int = 1


def decide_adjusted(
    jobs: Sequence[float],
    reference: float,
    tolerance: float,
    cluster_effect: ClusterEffect,
    *,
    first: int = 1,
    confirm: int = 0,
    direction: Direction = Direction.LOWER_IS_BETTER,
) -> Decision:
    """Decide a row from all its jobs of this run and from the other rows' effect.

    The worse decision counts: by the full figure, or by the figure without the effect. Jobs of one run share its
    effect; more of them do not narrow the noise between runs. The full figure is no reason for a further job if even a
    usual one would be beyond the tolerance in this run: the job would show the same again.

    Args:
        jobs: The figure of each job so far, in its metric's unit.
        reference: The reference, in the same unit.
        tolerance: Accepted loss (and gain) of speed, as a fraction.
        cluster_effect: The effect of the other rows.
        first: Jobs that run in any case.
        confirm: Most jobs that follow if the first are beyond the screen.
        direction: The better direction of the figure.

    Raises:
        ValueError: As :func:`~pytest_gsw.stats.decision.decide` does.
    """
    plan: Any = {"first": first, "confirm": confirm, "rows": cluster_effect.tested, "direction": direction}
    raw = decide(jobs, reference, tolerance, replace(cluster_effect.noise, level=None), **plan)
    # The effect is as uncertain as a median of the other rows, and all jobs of the row share that error.
    error = cluster_effect.noise.sigma * median_sd(max(1, cluster_effect.rows - 1))
    own = replace(cluster_effect.noise, shared=error)
    left = decide([direction.slowed(job, -cluster_effect.taken) for job in jobs], reference, tolerance, own, **plan)
    usual_now = direction.slowed(cluster_effect.usual, cluster_effect.effect)
    is_usual_now = is_below(direction.speed(usual_now, reference), tolerance)
    is_needless = is_usual_now and len(jobs) >= first
    is_part = cluster_effect.is_incident and left.outcome in _PASSING and raw.outcome not in _PASSING
    outcomes = {left.outcome, raw.outcome}
    # A gain is one of the row's own figure; faster than a slow run is none.
    worst = raw.outcome if outcomes <= _PASSING else min(outcomes, key=WORST_FIRST.index)
    outcome = Outcome.INCONCLUSIVE if is_part else worst
    counts = left if left.outcome is outcome is not raw.outcome else raw
    more = max(left.more, 0 if is_needless else raw.more)
    figures = replace(counts, median=raw.median, loss=raw.loss, screen=left.screen)
    return replace(figures, outcome=outcome, more=more, is_part=is_part)


def _was_usual(noise: Noise, tolerance: float, direction: Direction) -> bool:
    """True if the run before was within its screen; false if the row's level is not known yet."""
    if noise.level is None:
        return False
    speed = direction.speed(noise.level.newest[-1], noise.level.usual)
    return not is_below(speed, noises.screen(tolerance, noise, usual=1.0))


@dataclass(frozen=True)
class CurrentRun:
    """The current run: the rows' excesses over their levels so far, and the number of first jobs still to end."""

    before: ClusterReference
    over: Mapping[str, float]
    missing: int = 0

    def effect(self, rest: float | None = None) -> Effect | None:
        """Its slowdown so far, or if each missing job took ``rest``; ``None`` if there are too few."""
        values = [*self.over.values(), *([] if rest is None else [rest] * self.missing)]
        is_known = self.before.noise is not None and len(values) >= FEWEST_ROWS
        return _effect(values, self.before.limit) if is_known else None

    @property
    def may_have_effect(self) -> bool:
        """True if it has, or may still get, an effect."""
        return self.before.noise is not None and len(self.over) + self.missing >= FEWEST_ROWS

    def effect_on(
        self, row: str, tolerance: float, rest: float | None = None, *, direction: Direction = Direction.LOWER_IS_BETTER
    ) -> ClusterEffect | None:
        """The other rows' effect for a row with a level, counted or not; ``None`` if there is none."""
        effect, runs = self.effect(rest), self.before.noise
        if effect is None or runs is None or row not in self.before.levels:
            return None
        others = [value for name, value in self.over.items() if name != row]
        others = sorted([*others, *([] if rest is None else [rest] * self.missing)])
        value = statistics.median(others)
        noise = replace(self.before.noise_of_left(row, tolerance, direction), shared=runs.sigma)
        # An hour that is slow for half of the rows is slower for some. A loss that may be part of it is the row's
        # own if the run before had it, too. And a row does not have to gain as much as the others.
        is_spared = effect.is_incident and _was_usual(noise, tolerance, direction)
        taken = max(0.0, others[3 * len(others) // 4] if is_spared else value)
        usual_figure = direction.cost(math.exp(self.before.levels[row]))
        return ClusterEffect(
            value,
            taken,
            effect.is_incident,
            effect.limit,
            effect.rows,
            usual_figure,
            noise,
            is_counted=row in self.over,
            tested=len(self.before.levels),
        )

    def bounds(
        self, row: str, tolerance: float, *, direction: Direction = Direction.LOWER_IS_BETTER
    ) -> tuple[ClusterEffect, ...]:
        """The run's effects on a row if all missing rows were as fast, and as slow, as possible.

        A row's outcome only improves with slower others, as long as the run stays an incident or none. It is settled if
        both effects give the same.

        Returns:
            One effect if no row is missing; none if the rows so far are too few.
        """
        if len(self.over) < FEWEST_ROWS:
            return ()
        rests = (-math.inf, math.inf) if self.missing else (None,)
        on_row = (self.effect_on(row, tolerance, rest, direction=direction) for rest in rests)
        effects = [effect for effect in on_row if effect is not None]
        return tuple(effects) if all(math.isfinite(one.effect + one.taken) for one in effects) else ()
