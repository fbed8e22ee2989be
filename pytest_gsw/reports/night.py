"""What is known of a night: its rows with their nights before, what is wrong with each, since when. Pure data."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.history.drifting import Drifting, changes_at, drifting, nights_of, since
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.model import Point, SeriesKey, points_of, record_time_s, series_key
from pytest_gsw.history.model import by_run as newest_of
from pytest_gsw.history.store import History
from pytest_gsw.logs.failures import SIGNATURES
from pytest_gsw.performance.verdict import Verdict
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.attention import Attention, Level
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.nodes import expand
from pytest_gsw.results.record import Record, used_gpu_hours
from pytest_gsw.results.row_text import inconclusive_text
from pytest_gsw.results.summary import cause_of
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Accepted

#: What a row can need attention for, the worst first; the last two need none.
KINDS = tuple(one.kind for one in attention.ATTENTIONS if one.sign)

#: How many earlier runs are looked at for rows that could not be measured: each is read whole.
_EARLIER_RUNS = 14

_ADVICE = {signature.name: signature.advice for signature in SIGNATURES}

#: File names may have 255 bytes, and a picture's has a few more than its page's.
_LONGEST_NAME = 120


@dataclass(frozen=True)
class Run:
    """What the records of a run do not say of it."""

    #: The run's directory.
    directory: Path
    #: By node id or file, why a row has no record that can be read.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: How its session ended, ``None`` where nobody wrote it down.
    exit_status: int | None = None


@dataclass(frozen=True)
class Since:
    """Since when a row is what it is tonight."""

    #: The first night of which that is known, seconds since the epoch, and its run and job.
    time_s: float
    run_id: str
    job_id: str
    #: How many nights that are, tonight among them.
    nights: int
    #: The run of the last night before in which it was not; empty where none is known.
    good_run_id: str = ""
    good_time_s: float | None = None
    good_s: float | None = None
    #: By name, what of the environment was another before that night.
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row of a night."""

    record: Record
    #: The name of its page, without an extension.
    name: str
    #: Its nights by the history, the oldest first, this one included where it was measured.
    nights: tuple[Point, ...] = ()
    #: Those that count: since its cluster has accepted a figure, or all.
    counted: tuple[Point, ...] = ()
    drifting: Drifting | None = None
    since: Since | None = None

    @cached_property
    def needs(self) -> Attention:
        """What it needs attention for."""
        needs = outcomes.of(self.record.outcome).attention.in_report
        return attention.DRIFT if needs is attention.PASSED and (self.drifting or self.record.drift) else needs

    @property
    def kind(self) -> str:
        """The same, one of :data:`KINDS`."""
        return self.needs.kind

    @cached_property
    def verdict(self) -> Verdict | None:
        """Its verdict, ``None`` where it has none."""
        return self.record.judged

    @cached_property
    def change(self) -> float | None:
        """Measured throughput over what the outcome rests on, less one; ``None`` where nothing was judged."""
        verdict = self.verdict
        return None if verdict is None else verdict.throughput_change

    @cached_property
    def jobs(self) -> tuple[JobFacts, ...]:
        """Its jobs in the order in which they ran."""
        return tuple(sorted(self.record.jobs.all, key=lambda job: job.submit_s or job.end_s or 0))


@dataclass(frozen=True)
class Cause:
    """Rows that could not be measured for the same cause."""

    #: What happened, without the job that it happened to.
    fact: str
    rows: tuple[Row, ...]
    #: On which nodes, and how often, the most frequent first.
    nodes: tuple[tuple[str, int], ...]
    #: What to do about it, where that is known.
    advice: str


@dataclass(frozen=True)
class NightJob:
    """One job of a night, and its row."""

    row: Row
    facts: JobFacts

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        is_last = self.facts is self.row.record.jobs.last
        return (
            self.row.needs is attention.ERROR
            if is_last
            else bool(self.facts.why_repeated) and self.facts.judged_s is None
        )

    @property
    def begin_s(self) -> float:
        """When it was submitted, or the nearest time to that which is known; 0 where none is."""
        return self.facts.submit_s or self.facts.start_s or self.facts.end_s or 0.0


@dataclass(frozen=True)
class Curve:
    """Rows that differ in their number of GPUs alone, the smallest first."""

    name: str
    rows: tuple[Row, ...]

    def measured(self, key: str) -> list[tuple[int, float | None]]:
        """A measured figure by number of GPUs."""
        return [(row.record.row.gpus, row.record.figures.measured.get(key)) for row in self.rows]

    def documented(self, key: str) -> list[tuple[int, float | None]]:
        """A documented figure, or what follows from the documented step time, by number of GPUs."""
        figures = ((row.record.row.gpus, row.record.figures) for row in self.rows)
        return [(gpus, of_row.documented.get(key) or of_row.implied.get(key)) for gpus, of_row in figures]


@dataclass(frozen=True)
class Night:
    """One run."""

    run_id: str
    run: Run
    #: The worst first.
    rows: tuple[Row, ...]

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Where it ran."""
        return tuple(sorted({row.record.run.cluster for row in self.rows}))

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each of :data:`KINDS`; rows without a record are errors."""
        counts = Counter(row.kind for row in self.rows)
        counts[attention.ERROR.kind] += len(self.run.missing)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    @cached_property
    def begin_s(self) -> float | None:
        """When its first job was submitted, or the nearest time to that which is known."""
        known = [job.begin_s for job in self.jobs if job.begin_s]
        return min(known, default=min(self._recorded_s, default=None))

    @cached_property
    def end_s(self) -> float | None:
        """When its last job had ended."""
        known = [job.facts.end_s for job in self.jobs if job.facts.end_s]
        return max(known, default=max(self._recorded_s, default=None))

    @property
    def _recorded_s(self) -> list[float]:
        return [row.record.run.recorded_s for row in self.rows if row.record.run.recorded_s]

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that its jobs ran for, as far as that is known."""
        return sum(used_gpu_hours(row.record) for row in self.rows)

    @property
    def exit_status(self) -> int:
        """How its session ended, or would have by its records."""
        if self.run.exit_status is not None:
            return self.run.exit_status
        levels = {attention.BY_KIND[kind].level for kind in self.counts}
        if Level.ERROR in levels:
            return 1
        return 6 if attention.INCONCLUSIVE.kind in self.counts else 0

    def of(self, kind: str) -> tuple[Row, ...]:
        """Its rows of one of :data:`KINDS`, the worst first."""
        return tuple(row for row in self.rows if row.kind == kind)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """Why rows could not be measured, the most frequent cause first."""
        found: dict[str, list[Row]] = {}
        for row in self.of(attention.ERROR.kind):
            found.setdefault(cause_of(row.record), []).append(row)
        ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
        return tuple(Cause(fact, tuple(rows), _nodes_of(rows), advice_of(fact)) for fact, rows in ordered)

    @cached_property
    def jobs(self) -> tuple[NightJob, ...]:
        """All its jobs."""
        return tuple(NightJob(row, job) for row in self.rows for job in row.jobs)

    @cached_property
    def failing_nodes(self) -> tuple[tuple[str, int, int], ...]:
        """Nodes on which jobs failed, how many of how many; the one that stands out most comes first."""
        ran: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for job in self.jobs:
            nodes = expand(job.facts.nodes)
            ran.update(nodes)
            failed.update(nodes if job.failed else ())
        listed = ((node, count, ran[node]) for node, count in failed.items())
        return tuple(sorted(listed, key=lambda one: (-one[1] / one[2], -one[1], one[0])))

    @cached_property
    def workloads(self) -> Mapping[str, tuple[Curve, ...]]:
        """By workload, its rows that differ in their number of GPUs alone, where there is more than one of them."""
        several = len({row.record.row.accelerator for row in self.rows}) > 1
        found: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows:
            record = row.record
            workload = f"{record.row.workload} on {record.row.accelerator}" if several else record.row.workload
            found.setdefault(workload, {}).setdefault(record.row.id.partition("[")[0], []).append(row)
        curves = {
            workload: tuple(Curve(name, tuple(sorted(rows, key=_gpus))) for name, rows in sorted(by_name.items()))
            for workload, by_name in sorted(found.items())
        }
        scaled = {
            workload: tuple(one for one in of_workload if len({_gpus(row) for row in one.rows}) > 1)
            for workload, of_workload in curves.items()
        }
        return {workload: of_workload for workload, of_workload in scaled.items() if of_workload}


def _gpus(row: Row) -> int:
    return row.record.row.gpus


def accepted_in(tables: Sequence[Path], records: Iterable[Record]) -> Mapping[str, Mapping[str, Accepted]] | None:
    """By row and cluster, what clusters have accepted; ``None`` where that counts for none of the records.

    Args:
        tables: Directories and files of tables.
        records: The records of a report.
    """
    if all(record.reference != "accepted" for record in records):
        return None
    return {row.id: row.accepted for row in load_tables(tables)}


def nights_by_run(
    records: Iterable[Record],
    history: History | None,
    runs: Mapping[str, Run],
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
) -> tuple[Night, ...]:
    """Each run as a night, the newest first.

    Args:
        records: The records of all of them.
        history: The nights before; ``None`` where there are none.
        runs: What the records do not say, by run id.
        accepted: By row and cluster, what clusters have accepted: the nights that count begin with that.

    Raises:
        HistoryError: The history did not answer.
    """
    by_run: dict[str, list[Record]] = {run_id: [] for run_id in runs}
    for record in newest_of(records).values():
        by_run.setdefault(record.run.id, []).append(record)
    points = _known_points(by_run, history)
    nights = [
        _night(run_id, of_run, history, points, runs.get(run_id) or Run(Path(".gsw", "runs", run_id)), accepted or {})
        for run_id, of_run in by_run.items()
    ]
    return tuple(sorted(nights, key=lambda night: (night.begin_s or 0.0, night.run_id), reverse=True))


def _known_points(
    by_run: Mapping[str, Sequence[Record]], history: History | None
) -> Mapping[SeriesKey, tuple[Point, ...]]:
    keys = [key for of_run in by_run.values() for record in of_run if (key := series_key(record)) is not None]
    return {} if history is None else history.points_of(keys)


def _night(
    run_id: str,
    records: Sequence[Record],
    history: History | None,
    points: Mapping[SeriesKey, tuple[Point, ...]],
    run: Run,
    accepted: Mapping[str, Mapping[str, Accepted]],
) -> Night:
    names = page_names(record.row.node_id for record in records)
    rows, missing = [], dict(run.missing)
    for record in records:
        try:
            rows.append(_checked(_row(record, names[record.row.node_id], points, _accepted(record, accepted))))
        except ValueError as error:  # numbers that nothing can be made of
            missing[record.row.node_id] = f"its record cannot be shown: {error}"
    errors = _errors_since(rows, history, run_id)
    dated = [replace(row, since=errors[row.name]) if row.name in errors else row for row in rows]
    return Night(run_id, replace(run, missing=missing), tuple(sorted(dated, key=_worst_first)))


def _checked(row: Row) -> Row:
    """A row whose numbers can be put into words.

    Raises:
        ValueError: They cannot.
    """
    if row.verdict is not None and row.needs is attention.INCONCLUSIVE:
        inconclusive_text(row.record, row.verdict)
    return row


def _worst_first(row: Row) -> tuple[int, float, str]:
    return KINDS.index(row.kind), row.change or 0.0, row.record.row.id


def _accepted(record: Record, accepted: Mapping[str, Mapping[str, Accepted]]) -> Accepted | None:
    """What counts from a cluster's own figure, where the outcome rests on one."""
    known = accepted.get(record.row.id, {}).get(record.run.cluster)
    return known if known is not None and known.definition == record.row.definition else None


def _row(record: Record, name: str, points: Mapping[SeriesKey, tuple[Point, ...]], accepted: Accepted | None) -> Row:
    key = series_key(record)
    if key is None:
        return Row(record, name)
    tonight = [point.point for point in points_of(record)]
    now_s = max([record_time_s(record), *(point.time_s for point in tonight)])
    earlier = (point for point in points.get(key, ()) if point.run_id != record.run.id and point.time_s <= now_s)
    known = (*earlier, *tonight)
    counted = nights_of(since(known, accepted))
    row = Row(record, name, nights_of(known), counted, drifting(counted) if tonight else None)
    return replace(row, since=_since(row))


def _since(row: Row) -> Since | None:
    """Since when a measured row is what it is."""
    if row.needs in attention.SLOW:
        return _streak(row.nights, row.record.run.id, outcomes.SLOW)
    if row.needs is attention.IMPROVED:
        return _streak(row.nights, row.record.run.id, frozenset({outcomes.IMPROVED.word}))
    if row.needs is attention.DRIFT and row.drifting is not None:
        suspect = row.drifting.since.run_id
        return _since_night(row.nights, [night.run_id for night in row.nights].index(suspect))
    return None


def _streak(nights: Sequence[Point], run_id: str, outcomes: frozenset[str]) -> Since | None:
    if not nights or nights[-1].run_id != run_id or nights[-1].outcome not in outcomes:
        return None  # a canary's night, or nothing that counts
    first = len(nights) - 1
    while first and nights[first - 1].outcome in outcomes:
        first -= 1
    return _since_night(nights, first)


def _since_night(nights: Sequence[Point], first: int) -> Since:
    night = nights[first]
    begin = Since(night.time_s, night.run_id, night.job_id, len(nights) - first)
    if not first:
        return begin
    before = nights[first - 1]
    return replace(
        begin,
        good_run_id=before.run_id,
        good_time_s=before.time_s,
        good_s=before.judged_s,
        changes=changes_at(nights, first),
    )


def _errors_since(rows: Iterable[Row], history: History | None, run_id: str) -> dict[str, Since]:
    """By page, since when rows could not be measured: as many runs back as it takes, and no more than a few."""
    tonight = {row.record.row.node_id: row for row in rows if row.needs is attention.ERROR}
    found = {
        row.name: Since(record_time_s(row.record), run_id, row.record.jobs.last.id if row.record.jobs.last else "", 1)
        for row in tonight.values()
    }
    if history is None:
        return found
    for records in _earlier_runs(history, run_id, tonight.values()):
        for record in records:
            row = tonight.get(record.row.node_id)
            if row is None:
                continue
            known = found[row.name]
            time_s = record_time_s(record)
            if record.outcome == outcomes.ERROR.word:
                job_id = record.jobs.last.id if record.jobs.last else ""
                found[row.name] = replace(
                    known, time_s=time_s, run_id=record.run.id, job_id=job_id, nights=known.nights + 1
                )
            else:
                found[row.name] = replace(known, good_run_id=record.run.id, good_time_s=time_s)
                del tonight[record.row.node_id]
        if not tonight:
            break
    return found


def _earlier_runs(history: History, run_id: str, rows: Iterable[Row]) -> Iterator[tuple[Record, ...]]:
    """The records of the runs before, the newest first."""
    clusters = {row.record.run.cluster for row in rows}
    before_s = max((record_time_s(row.record) for row in rows), default=0.0)
    if not clusters:
        return
    summaries = [
        one
        for one in history.runs(last=4 * _EARLIER_RUNS)
        if one.cluster in clusters and one.run_id != run_id and one.last_s <= before_s
    ]
    for summary in sorted(summaries, key=lambda one: one.last_s, reverse=True)[:_EARLIER_RUNS]:
        try:
            yield history.records(summary.run_id)
        except HistoryError:
            return  # of a later release; what it says of that night nobody can tell


def advice_of(fact: str) -> str:
    """What to do about a cause, where that is known."""
    return _ADVICE.get(fact.rpartition(": ")[2], "")


def _nodes_of(rows: Iterable[Row]) -> tuple[tuple[str, int], ...]:
    counts = Counter(node for row in rows if row.record.jobs.last for node in expand(row.record.jobs.last.nodes))
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def page_names(node_ids: Iterable[str]) -> dict[str, str]:
    """The name of each row's page: letters, digits, ``_`` and ``-``, and different ones for different rows.

    A row's page has the same name every night, so that a link to it stays right. Names that differ only in case are
    one file on some file systems.

    Args:
        node_ids: The rows.
    """
    wanted = {node_id: re.sub(r"[^A-Za-z0-9-]+", "_", node_id.rpartition("::")[2]).strip("_-") for node_id in node_ids}
    counts = Counter(name.lower() for name in wanted.values())
    return {
        node_id: name
        if name and len(name) <= _LONGEST_NAME and counts[name.lower()] == 1
        else _with_hash(name, node_id)
        for node_id, name in wanted.items()
    }


def _with_hash(name: str, node_id: str) -> str:
    digest = hashlib.sha256(node_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{name[:_LONGEST_NAME]}-{digest}" if name else f"row-{digest}"
