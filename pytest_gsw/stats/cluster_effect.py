"""The rows of a run together: what all of them have in common, and what is left of each.

A run's effect is the median of what rows took beyond their own levels, of one job each. A cluster's runs are then a
row of their own, whose figures are ratios: the same functions say how much they differ, and whether they drift. What is
left of a row has less noise than the row, and is held against the same reference.

What a whole cluster has lost is never taken from its rows in silence: where the effect is beyond what runs differ by
it is an incident, and where it is not, a row beyond its tolerance does not pass by it.

All values are natural logarithms of times, slower than usual above 0, unless they are seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from pytest_gsw.stats.decision import Decision, Outcome, decide, is_below
from pytest_gsw.stats.drift import NEWEST
from pytest_gsw.stats.noise import (
    FEWEST_JOBS,
    REFERENCE_JOBS,
    K,
    Noise,
    median_sd,
    noise_of,
    prior_for,
    ratio_sd,
    usual,
)

#: Fewest rows whose middle is the run's effect.
FEWEST_ROWS = 8

#: The effect up to which a run is none to be told: 1.5 % less throughput.
LEAST_EFFECT = -math.log1p(-0.015)

#: What runs are taken to differ by beside what a history says of it: as much as the least effect allows for.
_PRIOR = Noise(LEAST_EFFECT / K, 0)

#: Of several outcomes, the first counts.
_WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED, Outcome.PASSED)
_PASSING = frozenset({Outcome.PASSED, Outcome.IMPROVED})

_Run = TypeVar("_Run")
_Row = TypeVar("_Row")


def effects_of(
    runs: Mapping[_Run, Mapping[_Row, float]],
    middle: Callable[[Iterable[float]], float] = statistics.median,
) -> dict[_Run, float]:
    """By how much each run was slower for all rows; runs of fewer than :data:`FEWEST_ROWS` have no effect.

    Args:
        runs: For each run, what each row's first job took beyond the row's level.
        middle: What of all rows counts.
    """
    return {run: middle(rows.values()) for run, rows in runs.items() if len(rows) >= FEWEST_ROWS}


def taken_before_drift(effects: Sequence[float]) -> list[float]:
    """What of the effects of runs, the oldest first, is taken from rows before these are asked whether they drift.

    It is what a run is slower than the first ones, against which the cluster is asked the same: of too few runs to
    ask the cluster nothing is taken. A gain that lasts is not either: who did not gain with the others is not slower.
    """
    if len(effects) < REFERENCE_JOBS + NEWEST:
        return [0.0] * len(effects)
    first = effects[:REFERENCE_JOBS]
    usual_effect, noise = statistics.median(first), noise_of([math.exp(effect) for effect in first], _PRIOR)
    gain = -max(LEAST_EFFECT, K * ratio_sd(noise, NEWEST, REFERENCE_JOBS))
    over = [effect - usual_effect for effect in effects]
    lately = (statistics.median(over[max(0, run - NEWEST + 1) : run + 1]) for run in range(len(over)))
    return [value - (level if level < gain else 0.0) for value, level in zip(over, lately, strict=True)]


# -- the runs before ------------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """By how much a run is slower for all rows, and by how much runs differ when nothing has changed."""

    value: float
    #: Between the effects of runs; its jobs are runs.
    noise: Noise
    #: How many rows tell it, and how many of these are slower than usual.
    rows: int
    slower: int

    @property
    def limit(self) -> float:
        """The effect beyond which it is an incident; what it is held against is a median of runs as well."""
        return max(LEAST_EFFECT, K * self.noise.sigma * math.hypot(1.0, median_sd(self.noise.jobs)))

    @property
    def is_incident(self) -> bool:
        """Whether the whole cluster is slower than runs differ by."""
        return self.value > self.limit


@dataclass(frozen=True)
class ClusterReference:
    """What the runs of a cluster have in common.

    Args:
        runs: For each run, the oldest first, the seconds of the first job of each row of which the run counts.
        levels: The logarithm of what each row takes; rows without one tell nothing of runs.
        slow: The rows that were too slow in each run, which widen no noise by that; of none where it is empty.
    """

    runs: Sequence[Mapping[str, float]]
    levels: Mapping[str, float]
    slow: Sequence[Collection[str]] = ()

    @cached_property
    def _over(self) -> dict[int, dict[str, float]]:
        """By run with enough rows, what each row took beyond its level."""
        over = (
            {row: math.log(seconds) - self.levels[row] for row, seconds in run.items() if row in self.levels}
            for run in self.runs
        )
        return {number: rows for number, rows in enumerate(over) if len(rows) >= FEWEST_ROWS}

    @cached_property
    def effects(self) -> dict[int, float]:
        """The effect of each run that has one, by its index."""
        return effects_of(self._over)

    def effect(self, run: int) -> Effect | None:
        """By how much a run, an index, was slower; ``None`` where its rows, or runs, are too few to tell."""
        rows, noise = self._over.get(run), self.noise
        if rows is None or noise is None:
            return None
        return Effect(self.effects[run], noise, len(rows), sum(value > 0 for value in rows.values()))

    @cached_property
    def noise(self) -> Noise | None:
        """By how much the effects of the first runs differ, ``None`` where these are too few to tell."""
        over = {
            run: {row: value for row, value in rows.items() if not self._was_slow(run, row)}
            for run, rows in self._over.items()
        }
        ratios = [math.exp(effect) for effect in (effects_of(over) or self.effects).values()][:REFERENCE_JOBS]
        return noise_of(ratios, _PRIOR, LEAST_EFFECT) if len(ratios) >= FEWEST_JOBS else None

    def _was_slow(self, run: int, row: str) -> bool:
        return bool(self.slow) and row in self.slow[run]

    def left(self, row: str) -> Mapping[int, float]:
        """By run, the seconds of a row without what the run was slower for all."""
        return {
            number: self.runs[number][row] * math.exp(-self.effects[number])
            for number, rows in self._over.items()
            if row in rows
        }

    @cached_property
    def taken(self) -> Mapping[int, float]:
        """By run, what is taken from its rows before these are asked whether they drift."""
        return dict(zip(self.effects, taken_before_drift([*self.effects.values()]), strict=True))

    def taken_in_run(self, effect: float) -> float:
        """The same of a run that is not among these, by what it is slower for the other rows."""
        return taken_before_drift([*self.effects.values(), effect])[-1]

    @cached_property
    def _noises(self) -> dict[tuple[str, float], Noise]:
        return {}

    def noise_of_left(self, row: str, tolerance: float) -> Noise:
        """By how much what is left of a row differs from run to run."""
        key = (row, tolerance)
        if key not in self._noises:
            left = self.left(row)
            usual = [one for run, one in left.items() if not self._was_slow(run, row)]
            self._noises[key] = noise_of((usual or [*left.values()])[:REFERENCE_JOBS], prior_for(tolerance))
        return self._noises[key]


def level_of(reference_s: Sequence[float]) -> float | None:
    """The level of a row by its reference, ``None`` where that has fewer than eight runs."""
    return statistics.median(usual([*map(math.log, reference_s)])) if len(reference_s) >= FEWEST_JOBS else None


# -- one row, one run -----------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterEffect:
    """What the other rows say of a run, to one row."""

    #: By how much it is slower for them, and what of that is taken from the row.
    effect: float
    taken: float
    #: Whether the whole cluster is slower than runs differ by, and beyond what it is that.
    is_incident: bool
    limit: float
    #: How many rows say so, this one included.
    rows: int
    #: What the row usually takes, seconds.
    usual_s: float
    #: By how much what is left of the row differs, and the runs.
    noise: Noise
    #: Whether the row is one of those that say so: what a slow node costs is not the run's.
    is_counted: bool = True
    #: How many rows are tested together: none of them is to fail by noise alone in 99 of a hundred runs.
    tested: int = 1


@dataclass(frozen=True)
class JointDecision:
    """What is known of a row after the jobs that it has had this run, by itself and beside the others."""

    outcome: Outcome
    #: Jobs to run now before the row can be decided; 0: it is.
    more: int
    #: By what it took, with what runs differ by in its noise, and by what is left of that without the run's effect.
    raw: Decision
    left: Decision
    #: Its loss is part of an incident, which is what fails.
    is_part: bool

    @property
    def decision(self) -> Decision:
        """The one of the two that counts, with what both come to."""
        counts = self.left if self.left.outcome is self.outcome is not self.raw.outcome else self.raw
        return replace(counts, outcome=self.outcome, median_s=self.raw.median_s, loss=self.raw.loss, more=self.more)


def decide_adjusted(
    times_s: Sequence[float],
    reference_s: float,
    tolerance: float,
    cluster_effect: ClusterEffect,
    *,
    first: int = 1,
    confirm: int = 0,
) -> JointDecision:
    """Decide a row by all its jobs of this run and by what the other rows say of the run.

    The worse counts of what it took and of what is left of that. Jobs of one run share its effect, so that more of
    them do not narrow what runs differ by. No job is asked for by what a row took where a usual one would be beyond
    the tolerance in this run: it would tell the same again.

    Args:
        times_s: The step time of each job so far, seconds.
        reference_s: The step time that they are held against, seconds.
        tolerance: Accepted loss (and gain) of throughput, as a fraction.
        cluster_effect: What the others say.
        first: Jobs that run in any case.
        confirm: Most jobs that follow where the first are beyond the screen.

    Raises:
        ValueError: As :func:`~pytest_gsw.stats.decision.decide` does.
    """
    raw = decide(
        times_s, reference_s, tolerance, cluster_effect.noise, first=first, confirm=confirm, rows=cluster_effect.tested
    )
    # What is taken is known no better than a median of the other rows, and all jobs of the row share that error.
    error = cluster_effect.noise.sigma * median_sd(max(1, cluster_effect.rows - 1))
    own = replace(cluster_effect.noise, shared=error)
    without = [time_s * math.exp(-cluster_effect.taken) for time_s in times_s]
    left = decide(without, reference_s, tolerance, own, first=first, confirm=confirm, rows=cluster_effect.tested)
    is_usual_now = is_below(reference_s / (cluster_effect.usual_s * math.exp(cluster_effect.effect)), tolerance)
    is_needless = (cluster_effect.is_incident or is_usual_now) and len(times_s) >= first
    more = max(left.more, 0 if is_needless else raw.more)
    if cluster_effect.is_incident and left.outcome in _PASSING and raw.outcome not in _PASSING:
        return JointDecision(Outcome.INCONCLUSIVE, more, raw, left, is_part=True)
    outcomes = {left.outcome, raw.outcome}
    # A gain is one of the row's own figure; what is left of a slower run is none.
    worst = raw.outcome if outcomes <= _PASSING else min(outcomes, key=_WORST_FIRST.index)
    return JointDecision(worst, more, raw, left, is_part=False)


@dataclass(frozen=True)
class CurrentRun:
    """A run that goes on: what rows took so far beyond their levels, and how many first jobs are still to end."""

    before: ClusterReference
    over: Mapping[str, float]
    missing: int = 0

    def effect(self, rest: float | None = None) -> Effect | None:
        """By how much it is slower for all rows so far, or if the missing ones took ``rest``; ``None`` for too few."""
        values = [*self.over.values(), *([] if rest is None else [rest] * self.missing)]
        found = effects_of({0: dict(enumerate(values))})
        noise = self.before.noise
        if noise is None or not found:
            return None
        return Effect(found[0], noise, len(values), sum(value > 0 for value in values))

    @property
    def says_something(self) -> bool:
        """Whether it can come to have an effect."""
        return self.before.noise is not None and len(self.over) + self.missing >= FEWEST_ROWS

    def beside(self, row: str, tolerance: float, rest: float | None = None) -> ClusterEffect | None:
        """What the other rows say to one of a level, counted or not; ``None`` where they say nothing."""
        effect = self.effect(rest)
        if effect is None or row not in self.before.levels:
            return None
        others = [value for name, value in self.over.items() if name != row]
        value = statistics.median([*others, *([] if rest is None else [rest] * self.missing)])
        taken = max(0.0, value)  # a row does not have to gain what all others have gained
        noise = replace(self.before.noise_of_left(row, tolerance), shared=effect.noise.sigma)
        usual_s = math.exp(self.before.levels[row])
        return ClusterEffect(
            value,
            taken,
            effect.is_incident,
            effect.limit,
            effect.rows,
            usual_s,
            noise,
            is_counted=row in self.over,
            tested=len(self.before.levels),
        )

    def bounds(self, row: str, tolerance: float) -> tuple[ClusterEffect, ...]:
        """The run to a row if all rows that are missing were as fast, and as slow, as can be.

        What comes of a row only gets better, the slower the others are, as long as the run stays an incident or none.
        So it is settled where it is the same by both.

        Returns:
            One where no row is missing; none where those that are known are too few to tell anything.
        """
        if len(self.over) < FEWEST_ROWS:
            return ()
        rests = (-math.inf, math.inf) if self.missing else (None,)
        effects = [effect for rest in rests if (effect := self.beside(row, tolerance, rest)) is not None]
        return tuple(effects) if all(math.isfinite(effect.effect) for effect in effects) else ()
