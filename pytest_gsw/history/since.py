"""Since when a row or a cluster is in its state, and what changed then: one answer for alarms, screens and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.history.model import Point, RowOutcome
from pytest_gsw.results.record import RanWith, ran_with
from pytest_gsw.stats import drift, figures

#: A problem that returns this soon after a fix was not fixed: some runs happen on one weekday only.
AGAIN_S = 7 * figures.SECONDS_PER_DAY

#: Good runs in a row that fix a regression: one run at the limit is fast by chance.
GOOD_RUNS = 2

#: Newest good runs that show if a value differs from run to run, as nodes do: then another value is no change.
_NEWEST = 6

#: Runs to either side of the likeliest first one of a drift that may be the first one, and the least log likelihood.
_ABOUT, _LIKELY = 5, -3.0

#: Changes of the environment by name: the values before and since.
Changes = Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Period:
    """Indices of runs with a problem."""

    wrong: tuple[int, ...]
    #: The run that fixed it; ``None`` while it lasts.
    recovered: int | None
    #: The good runs in a row so far, of those that would fix it.
    good: int = 0


def periods(wrong: Sequence[bool | None], good_runs: int = 1, times_s: Sequence[float] = ()) -> tuple[Period, ...]:
    """Periods with a problem, by its presence in each run; ``None`` for a run that does not show it.

    It is fixed by so many good runs in a row; a run that does not show it neither fixes nor raises anything. A problem
    that returns within :data:`AGAIN_S` continues, if the times of the runs are known.
    """
    found: list[Period] = []
    since: list[int] = []
    good = 0
    for run, is_wrong in enumerate(wrong):
        if is_wrong and not since and found and times_s and times_s[run] - times_s[found[-1].recovered or 0] <= AGAIN_S:
            since = [*found.pop().wrong]
        if is_wrong or (is_wrong is None and since):
            since.append(run)
        if is_wrong:
            good = 0
        elif is_wrong is False and since:
            good += 1
            if good == good_runs:
                found.append(Period(tuple(since), run))
                since, good = [], 0
    return (*found, Period(tuple(since), None, good)) if since else tuple(found)


@dataclass(frozen=True)
class Since:
    """The onset of a state: of a regression, a drift, an incident, an error."""

    #: Start of the first run with it, seconds since the epoch.
    time_s: float
    #: The number of runs with it.
    runs: int
    #: The last good run before; ``None`` if unknown.
    good: Point | RowOutcome | None = None
    #: What the first run with it has, and no good run before it had.
    changes: Changes = field(default_factory=dict)
    #: True if the run just before the first one was still without the changes.
    changed_then: bool = False


def onset(runs: Sequence[Point], good: Sequence[Point], first: int, count: int) -> Since:
    """The onset of a row's state.

    Args:
        runs: The row's runs, the oldest first.
        good: Those of them that were good before the state began.
        first: Index of the first run with it.
        count: Number of runs with it.
    """
    changes = changed(good, runs[first])
    changed_then = bool(changes) and changes.keys() <= changes_of(runs[first - 1], runs[first], nodes=True).keys()
    return Since(runs[first].begin_s, count, good[-1] if good else None, changes, changed_then)


def changed(good: Sequence[Point], first: Point) -> Changes:
    """The values that a first run with a problem has, and no good run before it had, each after that before.

    Args:
        good: The good runs before, the oldest first.
        first: The first run with the problem.
    """
    found = changes_of(good[-1], first, nodes=True) if good else {}
    facts = _with_nodes(*good, first)[:-1] if found else []
    for name in [*found]:
        values = [value for of_run in facts if (value := of_run.get(name))]
        newest = values[-_NEWEST:]
        # Of values that change from run to run, another one is no change.
        if found[name][1] in values or 2 * len(set(newest)) > len(newest) + 1:
            del found[name]
    return found


def changes_of(before: RanWith, after: RanWith, *, nodes: bool = False) -> dict[str, tuple[str, str]]:
    """Differences of image, environment, variables, and nodes, in a later job, by name, as far as both are known."""
    then, now = (_with_nodes if nodes else ran_with)(before, after)
    return {name: (then[name], now[name]) for name in then if then[name] and now.get(name, "") not in {"", then[name]}}


def _with_nodes(*jobs: RanWith) -> list[dict[str, str]]:
    both = zip(ran_with(*jobs), jobs, strict=True)
    # Of several jobs the first counts: others were to run elsewhere.
    return [{**facts, "nodes": job.nodes.partition(", ")[0] if isinstance(job, Point) else ""} for facts, job in both]


def drift_onset(found: drift.Drift, costs: Sequence[float], onset_at: Callable[[int], Since]) -> tuple[int, Since]:
    """The first run of a drift (an index), and its onset.

    Noise leaves open which run was the first. Of those that are likely enough, it is one in which something changed.

    Args:
        found: The drift.
        costs: The cost of each run.
        onset_at: Returns the onset if a run is the first one.
    """
    likeliest = found.first_suspect
    numbers = range(max(0, likeliest - _ABOUT), min(len(costs), likeliest + _ABOUT + 1))
    likely = zip(drift.log_likelihoods(found, costs, numbers), numbers, strict=True)
    onsets = ((number, onset_at(number)) for odds, number in sorted(likely, reverse=True) if odds >= _LIKELY)
    return next((onset for onset in onsets if onset[1].changes), (likeliest, onset_at(likeliest)))
