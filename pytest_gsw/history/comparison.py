"""Two runs, row by row: the ratio of their throughputs, and its confidence limits by noise.

Of thirty rows one or two are outside of an interval of 95 % though nothing has changed. The rows are therefore judged
together: the probability that any row is called slower or faster by chance is 5 % at most, for any correlation of the
rows (S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979),
p. 65). A bound on the share of false findings, as in Benjamini and Hochberg, would let two unchanged runs
differ as often, and name more rows if there are real changes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from pytest_gsw.common.text import by_number, command, day, minute, percent, plural, share
from pytest_gsw.history.alarms import Alarm, Kind, State
from pytest_gsw.history.environment_changes import EnvironmentChange
from pytest_gsw.history.model import SIMULATED, SeriesKey, is_judged, series_key
from pytest_gsw.history.node_search import FailingNode, KnownGoodNodes, SlowNode
from pytest_gsw.history.row_history import GONE_DAYS, ClusterDrifting, ClusterHistory, Drifting
from pytest_gsw.history.since import Since, changes_of
from pytest_gsw.results.outcomes import FAILED, GREEN, OPEN
from pytest_gsw.results.record import Record, RowFacts
from pytest_gsw.results.summary import black_hole_text, black_holes_of
from pytest_gsw.stats import decision, slow_nodes
from pytest_gsw.stats.noise import ACCEPTED_JOBS, PRIOR, Noise, deviations_of, interval, ratio_sd
from pytest_gsw.stats.verdict import Verdict
from pytest_gsw.tables.metrics import STEP_TIME, Figure, Metric

# -- Findings of a row's history, in one line each -------------------------------------------------


def drift_text(found: Drifting) -> str:
    """The drift of a row, its start, and the changes in that run, in one line."""
    job = f" (job {found.first.job_id} of run {found.first.run_id})"
    return _drift_text(", beside the other rows," if found.is_beside else "", found, job, found.first.metric)


def cluster_drift_text(found: ClusterDrifting) -> str:
    """The drift of all rows of a cluster together, its start, and the changes then, in one line."""
    return _drift_text(f", of {plural(found.rows, 'row')} together,", found)


def _drift_text(of_whom: str, found: Drifting | ClusterDrifting, job: str = "", metric: Metric = STEP_TIME) -> str:
    change = percent(metric.change_by(1 / (1 + found.drift.shift) - 1))
    runs = f"{metric.change_label} of the newest runs{of_whom} is {change} against the first ones"
    return f"{runs}, since about {minute(found.onset.time_s)}{job}{changed_text(found.onset)}"


@dataclass(frozen=True)
class ClusterText:
    """The state of a cluster by the runs of its rows together, in words."""

    #: Start of an incident that every run since then has had, and the changes then; empty if there is none:
    #: ``, since 2026-11-20 22:04; changed: driver 550.54 -> 560.28``.
    since: str = ""
    #: Its drift; empty if there is none, ``None`` if its runs are too few.
    drift: str | None = None


def cluster_text(together: ClusterHistory) -> ClusterText:
    """The state of a cluster by its runs, the newest of which is the reported one."""
    if together.before.noise is None:
        return ClusterText()  # too few runs for any statement
    onset, drifting = together.since, together.drifting
    drift = "" if drifting is None else cluster_drift_text(drifting)
    since = "" if onset is None else f", since {minute(onset.time_s)}{changed_text(onset)}"
    return ClusterText(since, drift if together.knows_drift else None)


def changed_text(since: Since) -> str:
    """The changes at an onset, as the end of a sentence; empty if there are none."""
    return f"; {changed_word(since)}: {changes_text(since.changes)}" if since.changes else ""


def changed_word(since: Since) -> str:
    """``changed then`` if it is certain that the changes came with an onset; else ``changed``."""
    return "changed then" if since.changed_then else "changed"


def changes_text(changes: Mapping[str, tuple[str, str]]) -> str:
    """Changes of the environment: ``nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28``."""
    return ", ".join(f"{name} {before} -> {now}" for name, (before, now) in changes.items())


def change_text(change: EnvironmentChange) -> str:
    """A change, its time, and the runs since compared with those before, in one line."""
    runs = f"{plural(change.runs_since, 'run')} since, {change.runs_before} before"
    interval = f"{percent(change.low - 1)} to {percent(change.high - 1)}"
    named = changes_text(change.named)
    return f"{minute(change.since.begin_s)} {named}: throughput {percent(change.ratio - 1)} ({interval}; {runs})"


#: Columns of a list of alarms; numeric ones have a leading ">".
COLUMNS = ("id", "alarm", "state", "of", "cluster", ">vs usual", "since", ">runs with it", "acknowledged")

#: Runs after which the figure of a row that was never fast enough is not this cluster's.
_NEVER_RUNS = 3


def cells(alarm: Alarm) -> tuple[str, ...]:
    """One line of a list."""
    period = alarm.period
    change = "" if alarm.change is None else percent(alarm.change)
    facts = (alarm.id, period.kind.value, state_text(alarm), period.subject, period.cluster)
    return (*facts, change, minute(alarm.since.time_s), str(alarm.since.runs), acknowledged_text(alarm))


def counts_text(alarms: Iterable[Alarm]) -> str:
    """The number of active alarms, and of those that page: ``3 alarms, 1 to look at``."""
    active = [alarm for alarm in alarms if alarm.is_active]
    return f"{plural(len(active), 'alarm')}, {sum(alarm.pages for alarm in active)} to look at"


def state_text(alarm: Alarm) -> str:
    """The state of an alarm: ``new``, ``ongoing (1 of 2 passes)``, ``fixed 2026-11-23 16:11``."""
    if alarm.state is State.FIXED:
        return f"fixed {minute(alarm.fixed_s or 0.0)}"
    good, needed = alarm.period.good_runs, alarm.period.ends_after
    return f"ongoing ({good} of {needed} passes)" if alarm.state is State.ONGOING and good else alarm.state.value


def acknowledged_text(alarm: Alarm) -> str:
    """The alarm that explains this one; its owner, end and reason; empty if there is neither."""
    known, part = alarm.acknowledged, f"part of {alarm.part_of}" if alarm.part_of else ""
    if known is None:
        return part
    # The last run of an acknowledgement belongs to the day before its end.
    by = f"{known.owner} until {day(known.until_s - 1)}: {known.why}"
    return f"{by} (pages again)" if alarm.pages else "; ".join(filter(None, (part, by)))


def stale_text(alarm: Alarm) -> str:
    """Time since the last measurement of an alarm's subject, if too long ago; else empty."""
    period = alarm.period
    if not period.is_away:
        return ""
    return f"{'ran no job' if period.kind is Kind.NODE else 'was not measured'} since {minute(period.last_s)}"


def advice_line(alarm: Alarm) -> str:
    """The next step for an alarm, or its coming end; empty if there is none."""
    if away := stale_text(alarm):
        end = "has ended" if alarm.state is State.GONE else f"ends {GONE_DAYS} days after that"
        return f"{alarm.period.subject} {away} on {alarm.period.cluster}; its alarm {end}"
    period, row, cluster = alarm.period, alarm.period.subject, alarm.period.cluster
    was_always_slow = period.kind is Kind.REGRESSION and period.is_always and len(period.runs) >= _NEVER_RUNS
    if not was_always_slow or not alarm.is_active or cluster == SIMULATED:  # simulated figures are never proposed
        return ""
    never = f"{row} was never within its tolerance on {cluster}; if that is how it is"
    runs = [run.run_id for run in period.runs[-ACCEPTED_JOBS:]]
    if len(runs) < ACCEPTED_JOBS:
        return f"{never}, {ACCEPTED_JOBS} runs are needed for the figure that it may have there"
    return f"{never}: {command('pytest-gsw', 'baseline', 'propose', f'--row={row}', f'--cluster={cluster}', *runs)}"


def line_of(alarm: Alarm) -> str:
    """An alarm in one line of a session's summary."""
    period = alarm.period
    change = "" if alarm.change is None else f" {percent(alarm.change)} vs usual"
    since = f"since {minute(alarm.since.time_s)}, {plural(alarm.since.runs, 'run')}"
    slow = "slow" if any(" " in thing for thing in period.things) else "slow node"  # a switch
    what = f"{slow if period.kind is Kind.NODE else f'{period.kind.value} of'} {period.subject}"
    if alarm.state is State.FIXED:
        return f"{alarm.id}  {what}: {state_text(alarm)}"
    head = f"{alarm.id}  {state_text(alarm)} {what}"
    if alarm.state is State.GONE:
        return f"{head}: {stale_text(alarm)}"
    known = acknowledged_text(alarm)
    return f"{head}:{change} {since}" + (f"; {known}" if known else "")


def explaining(slow: Iterable[SlowNode], verdict: Verdict, ran: Sequence[tuple[str, float]]) -> SlowNode | None:
    """The slow node that explains a row's regression: without its loss, the row's median would be fast enough.

    Args:
        slow: Slow nodes.
        verdict: The row's verdict.
        ran: The nodes of each of its jobs, and the job's end, seconds since the epoch.
    """
    figures, direction = verdict.jobs or (verdict.measured,), verdict.metric.direction
    if len(figures) != len(ran):
        return None  # a site's own rule has judged by other figures
    for suspect in slow:
        without = [
            direction.slowed(value, math.log1p(suspect.change)) if suspect.ran_in(*job) else value
            for value, job in zip(figures, ran, strict=True)
        ]
        if not decision.is_below(direction.speed(statistics.median(without), verdict.reference), verdict.allowed):
            return suspect
    return None


def suspect_text(one: SlowNode) -> str:
    """A slow node with its loss and the number of jobs as evidence: ``node pool0-0017 (-9.8 %, 41 jobs)``."""
    return (
        f"{one.label if one.below else _node_label(one)} ({percent(one.change)}, {plural(len(one.slow_jobs), 'job')})"
    )


def _node_label(node: SlowNode | FailingNode) -> str:
    return f"node {node.name}" if len(node.nodes) == 1 else node.name


def slow_since_text(node: SlowNode) -> str:
    """The same with its start: ``node pool0-0017 (-9.8 %, 41 jobs) since 2026-11-18 22:04``."""
    return f"{suspect_text(node)} since {minute(node.slow_jobs[0].begin_s)}"


def failing_text(node: FailingNode) -> str:
    """A node whose jobs fail: ``node pool0-0017 (5 of 16 jobs failed, usual are 2.1 %)``."""
    return f"{_node_label(node)} ({node.failed} of {plural(node.of, 'job')} failed, usual are {share(node.usual)})"


def failing_texts(records: Sequence[Record], failing: Iterable[FailingNode]) -> list[str]:
    """The nodes that failed jobs of a run at once, and then others on which more jobs fail than by chance."""
    holes = black_holes_of(records)
    known = {hole.node for hole in holes}
    return [*map(black_hole_text, holes), *(failing_text(node) for node in failing if known.isdisjoint(node.nodes))]


def least_loss_text() -> str:
    """The least loss that a node is cleared of: ``5.8 %``."""
    return percent(math.exp(-slow_nodes.LOSS) - 1).removeprefix("-")


def sound_text(sound: KnownGoodNodes) -> str:
    """The number of nodes that are known good, and of those without enough data."""
    if not sound.cleared and not sound.undecided:
        return "no data on other nodes"
    cleared, undecided = len(sound.cleared), len(sound.undecided)
    loss = f"a loss of {least_loss_text()} or more"
    known = f"{plural(cleared, 'node')} cleared of {loss} by the last {slow_nodes.NEWEST_RUNS} runs"
    return f"{known}, {undecided} without enough data" if undecided else known


@dataclass(frozen=True)
class RowRatio:
    """One row in both runs."""

    row: str
    #: The figures of the first run and the second.
    before: Figure
    after: Figure
    #: Speed of the second run over that of the first: below 1 is slower.
    ratio: float
    #: The limits of its interval.
    low: float
    high: float
    #: The noise between jobs of this row.
    noise: Noise
    #: Differences of image and environment in the second run, by name.
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: The standard deviation of the ratio's logarithm.
    sd: float = 0.0

    @property
    def change(self) -> str:
        """``slower``, ``faster``, or ``same`` if noise alone may make the difference."""
        if self.high < 1:
            return "slower"
        return "faster" if self.low > 1 else "same"


@dataclass(frozen=True)
class NotCompared:
    """A row of one run only, or without a possible comparison, and the reason."""

    row: str
    why: str
    #: True if the first run measured it, and the second did not.
    lost: bool = False


#: A row of both runs, and the result of its comparison.
Measured = TypeVar("Measured")
RowResult: TypeAlias = RowRatio | NotCompared


@dataclass(frozen=True)
class Comparison:
    """Two runs: the rows of both, the worst first, and the others."""

    rows: tuple[RowRatio, ...]
    others: tuple[NotCompared, ...]
    #: True if the first run has rows, and all of them are compared.
    is_whole: bool

    @property
    def status(self) -> int:
        """The exit status; a comparison that is not complete is open."""
        if any(row.change == "slower" for row in self.rows) or any(other.lost for other in self.others):
            return FAILED
        return GREEN if self.is_whole else OPEN


def compare_runs(
    before: Iterable[Record], after: Iterable[Record], noises: Mapping[SeriesKey, Noise] | None = None
) -> Comparison:
    """The comparison of a run with an earlier one; a series with unknown noise gets the usual one."""
    first, second = ({record.row.id: record for record in run} for run in (before, after))
    return compare_each(first, second, lambda then, now: _compare(then, now, noises or {}))


def compare_each(
    before: Mapping[str, Measured], after: Mapping[str, Measured], compare: Callable[[Measured, Measured], RowResult]
) -> Comparison:
    """The comparison of rows by their names; ``compare`` compares two of one name."""

    def result(row: str) -> RowResult:
        if row in before and row in after:
            return compare(before[row], after[row])
        return NotCompared(row, f"is in the {'first' if row in before else 'second'} run only", row in before)

    compared = [result(row) for row in sorted(before.keys() | after.keys(), key=by_number)]
    ratios = together([ratio for ratio in compared if isinstance(ratio, RowRatio)])
    rows = sorted(ratios, key=lambda ratio: (ratio.ratio, by_number(ratio.row)))
    others = tuple(not_compared for not_compared in compared if isinstance(not_compared, NotCompared))
    return Comparison(tuple(rows), others, bool(before) and before.keys() <= {ratio.row for ratio in rows})


def together(rows: Sequence[RowRatio]) -> list[RowRatio]:
    """The rows with their intervals, the surest first: each at the level at which Holm's procedure tests it."""
    surest = sorted(rows, key=lambda ratio: (-_deviations(ratio), by_number(ratio.row)))
    intervals: list[RowRatio] = []
    left = len(surest)
    for row in surest:
        low, high = interval(row.ratio, row.sd, row.noise.jobs, left)
        intervals.append(replace(row, low=low, high=high))
        # The procedure ends with the first unchanged row: those after it are less sure, and not tested.
        left -= intervals[-1].change != "same" and left > 1
    return intervals


def _deviations(row: RowRatio) -> float:
    """Distance of a row from no change, in standard deviations of the noise, as if that were known.

    Found by bisection: a row that is surer than another is so by its interval as well.
    """
    distance = abs(math.log(row.ratio))
    if not row.sd:
        return math.inf if distance else 0.0
    low, high = 0.0, distance / row.sd
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if deviations_of(middle, row.noise.jobs) < distance / row.sd else (low, middle)
    return high


def _compare(before: Record, after: Record, noises: Mapping[SeriesKey, Noise]) -> RowResult:
    then, now = _figure(before), _figure(after)
    if then is None or now is None:
        which, record = ("first", before) if then is None else ("second", after)
        why = f"has no figure in the {which} run: {record.outcome}: {record.fact}"
        return NotCompared(before.row.id, why, then is not None)
    difference = _difference(before, after)
    if difference is not None:
        return NotCompared(before.row.id, difference)
    noise = max((_noise(record, noises) for record in (before, after)), key=lambda noise: noise.sigma)
    ratio = now.speed(then.value)
    sd = ratio_sd(noise, _jobs(before), _jobs(after))
    return RowRatio(before.row.id, then, now, ratio, ratio, ratio, noise, changes_of(before.run, after.run), sd)


def _figure(record: Record) -> Figure | None:
    """The figure of a record, if it was judged and may be compared."""
    value = record.measured
    return Figure(record.judged_metric, value) if is_judged(record) and value and 0 < value < math.inf else None


def _difference(before: Record, after: Record) -> str | None:
    """The reason why two measured records of a row cannot be compared."""
    then, now = ((record.jobs.last and record.jobs.last.id, record.run.log) for record in (before, after))
    if then == now or before.run.id == after.run.id:
        return f"is of the same job in both, {now[0]}"
    if before.run.simulated != after.run.simulated:
        return f"is simulated in the {'first' if before.run.simulated else 'second'} run only"
    if has_other_definition(before.row, after.row):
        definitions = (record.row.definition or "one that is not known" for record in (before, after))
        changed = changes_text(changes_of(before.run, after.run))
        return f"has another definition: {' and then '.join(definitions)}" + (f" ({changed})" if changed else "")
    return None


def has_other_definition(before: RowFacts, after: RowFacts) -> bool:
    """True if two rows of one name differ in more than image and release."""
    is_same = before.experiment and before.experiment == after.experiment
    return before.definition != after.definition and not is_same


def _noise(record: Record, noises: Mapping[SeriesKey, Noise]) -> Noise:
    key = series_key(record)
    return PRIOR if key is None else noises.get(key, PRIOR)


def _jobs(record: Record) -> int:
    return max(1, len(record.measured_jobs))
