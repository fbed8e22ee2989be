"""Two runs, row by row: how their throughputs compare, and within which limits noise lets that be known.

Of thirty rows one or two are outside of an interval of 95 % though nothing has changed. So the rows are judged
together: that any row is called slower or faster by chance has a probability of 5 % at most, however the rows hang
together (S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979),
p. 65). A bound of the share of false ones among those named, as Benjamini and Hochberg have it, would let two runs
between which nothing has changed differ as often, and name more where something has.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_gsw.common.words import by_number
from pytest_gsw.history.model import SeriesKey, is_judged, series_key
from pytest_gsw.history.texts import changes_text
from pytest_gsw.performance.noise import PRIOR, PRIOR_JOBS, Noise, ratio_sd
from pytest_gsw.results.outcomes import FAILED, GREEN, OPEN
from pytest_gsw.results.record import RanWith, Record, ran_with

#: The probability with which all intervals hold the true ratios that decide what has changed, of normal noise.
CONFIDENCE = 0.95
_NORMAL = statistics.NormalDist()
#: How many normal values' standard deviation is as sharp as the robust scale of one more job.
_SHARPNESS = 26 / 30
#: Fewest degrees of freedom that it is done with.
_FEWEST_FREE = 5


@dataclass(frozen=True)
class RowRatio:
    """One row in both runs."""

    row: str
    #: Seconds of what the row's outcome rests on, in the first run and in the second.
    before_s: float
    after_s: float
    #: Throughput of the second run over that of the first: below 1 is slower.
    ratio: float
    #: The limits of its interval.
    low: float
    high: float
    #: By how much jobs of this row differ.
    noise: Noise
    #: By name, what of image and environment was another one in the second run.
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: The standard deviation of the ratio's logarithm.
    sd: float = 0.0

    @property
    def change(self) -> str:
        """``slower``, ``faster``, or ``same``: noise alone may make such a difference."""
        if self.high < 1:
            return "slower"
        return "faster" if self.low > 1 else "same"


@dataclass(frozen=True)
class NotCompared:
    """A row that is in one run only, or that cannot be compared, and why."""

    row: str
    why: str
    #: The first run measured it, and the second did not.
    lost: bool = False


@dataclass(frozen=True)
class Comparison:
    """Two runs: the rows of both, the worst first, and the others."""

    rows: tuple[RowRatio, ...]
    others: tuple[NotCompared, ...]
    #: The first run has rows, and all of them are compared.
    is_whole: bool

    @property
    def status(self) -> int:
        """The exit status, by which a run that is not compared as a whole shows nothing."""
        if any(row.change == "slower" for row in self.rows) or any(other.lost for other in self.others):
            return FAILED
        return GREEN if self.is_whole else OPEN


def compare_runs(
    before: Iterable[Record], after: Iterable[Record], noises: Mapping[SeriesKey, Noise] | None = None
) -> Comparison:
    """How a run compares with an earlier one; a series whose noise is not known has the usual one."""
    first, second = ({record.row.id: record for record in run} for run in (before, after))
    both = sorted(first.keys() | second.keys(), key=by_number)
    compared = [_compare(first.get(row), second.get(row), noises or {}) for row in both]
    told = together([one for one in compared if isinstance(one, RowRatio)])
    rows = sorted(told, key=lambda one: (one.ratio, by_number(one.row)))
    others = tuple(one for one in compared if isinstance(one, NotCompared))
    return Comparison(tuple(rows), others, bool(first) and first.keys() <= {one.row for one in rows})


def together(rows: Sequence[RowRatio]) -> list[RowRatio]:
    """The rows with their intervals, the surest first: each at the level at which Holm's procedure tests it."""
    surest = sorted(rows, key=lambda one: (-_deviations(one), by_number(one.row)))
    found: list[RowRatio] = []
    left = len(surest)
    for row in surest:
        wide = row.sd * deviations_of(-_NORMAL.inv_cdf((1 - CONFIDENCE) / left / 2), row.noise.jobs)
        found.append(replace(row, low=row.ratio * math.exp(-wide), high=row.ratio * math.exp(wide)))
        # It ends with the first row that may be as it was: those after it are less sure, and tested no more.
        left -= found[-1].change != "same" and left > 1
    return found


def deviations_of(z: float, jobs: int) -> float:
    """How many standard deviations that come from so many jobs are as rare as this many that are known.

    A robust scale of 30 jobs is as sharp as the standard deviation of 26. The usual noise, of no jobs, is taken as
    known. The quantile of Student's t by that of the normal distribution: M. Abramowitz and I. A. Stegun, Handbook of
    Mathematical Functions (1964), 26.7.5, which is within a hundredth from five degrees of freedom on.

    Raises:
        ValueError: There are fewer degrees of freedom than that.
    """
    if not jobs:
        return z
    free = _SHARPNESS * jobs + PRIOR_JOBS - 1
    if free < _FEWEST_FREE:
        raise ValueError(f"{jobs} jobs say too little of how much they differ")
    return (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )


def _deviations(row: RowRatio) -> float:
    """How far a row is from no change, in standard deviations of the noise, as if that were known.

    It is found by halving, so that a row that is surer than another is so by its interval as well.
    """
    distance = abs(math.log(row.ratio))
    if not row.sd:
        return math.inf if distance else 0.0
    low, high = 0.0, distance / row.sd
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if deviations_of(middle, row.noise.jobs) < distance / row.sd else (low, middle)
    return high


def changes_of(before: RanWith, after: RanWith) -> dict[str, tuple[str, str]]:
    """What of image, environment and variables is another one in a later job, by name; both of them say it."""
    then, now = ran_with(before, after)
    return {
        name: (then[name], now[name]) for name in then if then[name] and now.get(name) not in {None, "", then[name]}
    }


def _compare(before: Record | None, after: Record | None, noises: Mapping[SeriesKey, Noise]) -> RowRatio | NotCompared:
    if before is None or after is None:
        there = before or after
        assert there is not None  # the row comes from one of the two
        return NotCompared(there.row.id, f"is in the {'second' if before is None else 'first'} run only", after is None)
    before_s, after_s = _measured_s(before), _measured_s(after)
    if before_s is None or after_s is None:
        which, record = ("first", before) if before_s is None else ("second", after)
        why = f"has no figure in the {which} run: {record.outcome}: {record.fact}"
        return NotCompared(before.row.id, why, before_s is not None)
    difference = _difference(before, after)
    if difference is not None:
        return NotCompared(before.row.id, difference)
    noise = max((_noise(record, noises) for record in (before, after)), key=lambda noise: noise.sigma)
    ratio = before_s / after_s
    sd = ratio_sd(noise, _jobs(before), _jobs(after))
    return RowRatio(before.row.id, before_s, after_s, ratio, ratio, ratio, noise, changes_of(before.run, after.run), sd)


def _measured_s(record: Record) -> float | None:
    """What a record's outcome rests on, where it was judged and may be compared."""
    judged_s = record.judged_s
    return judged_s if is_judged(record) and judged_s and 0 < judged_s < math.inf else None


def _difference(before: Record, after: Record) -> str | None:
    """Why two measured records of a row cannot be compared all the same."""
    then, now = ((record.jobs.last and record.jobs.last.id, record.run.log) for record in (before, after))
    if then == now or before.run.id == after.run.id:
        return f"is of the same job in both, {now[0]}"
    if before.run.simulated != after.run.simulated:
        return f"is simulated in the {'first' if before.run.simulated else 'second'} run only"
    is_same = before.row.experiment and before.row.experiment == after.row.experiment
    if before.row.definition != after.row.definition and not is_same:
        definitions = (record.row.definition or "one that is not known" for record in (before, after))
        changed = changes_text(changes_of(before.run, after.run))
        return f"has another definition: {' and then '.join(definitions)}" + (f" ({changed})" if changed else "")
    return None


def _noise(record: Record, noises: Mapping[SeriesKey, Noise]) -> Noise:
    key = series_key(record)
    return PRIOR if key is None else noises.get(key, PRIOR)


def _jobs(record: Record) -> int:
    return max(1, len(record.measured_jobs))
