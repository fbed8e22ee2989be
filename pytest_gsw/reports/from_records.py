"""Reports of runs from their records, their directories and the history."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.process import collector_paused
from pytest_gsw.common.redact import redact
from pytest_gsw.history.alarms import OF_ROWS, Alarm, Kind, alarms_of, whole_cluster
from pytest_gsw.history.cluster_series import AllAccepted, ClusterSeries, histories_of_records, series_of_cluster
from pytest_gsw.history.comparison import ClusterText, cluster_text
from pytest_gsw.history.model import Point, RowOutcome, SeriesKey, points_of, record_time_s, series_key
from pytest_gsw.history.model import by_run as newest_of
from pytest_gsw.history.node_search import SlowNode
from pytest_gsw.history.row_history import ClusterHistory, RowHistory
from pytest_gsw.history.store import EXCLUDE, History
from pytest_gsw.jobs.journal import RunState
from pytest_gsw.reports.reported_row import LONGEST_NAME, ReportedRow, file_name, page_names, since_of
from pytest_gsw.reports.run_report import ReportedRun, RunListEntry, RunReport
from pytest_gsw.results import attention, cluster_result, outcomes, row_text
from pytest_gsw.results.manifest import begun, is_owned, newest_begun, read_noted
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.results.runs_directory import RECORDS, RUNS, begin_of
from pytest_gsw.results.sweep import read_sweep
from pytest_gsw.tables.load import accepted_figures
from pytest_gsw.tables.model import tile_of

#: The most rows on a workload's page.
_ON_PAGE = 40


#: The number of earlier runs whose outcomes are read: as many as a row's plot has.
EARLIER_RUNS = 200


def accepted_in(tables: Sequence[Path], records: Iterable[Record]) -> AllAccepted | None:
    """The accepted figures by row and cluster; ``None`` if no record rests on one."""
    if all(record.reference != "accepted" for record in records):
        return None
    return accepted_figures(tables)


def with_own_figures(alarms: Iterable[Alarm], records: Collection[Record]) -> tuple[Alarm, ...]:
    """Alarms with a run's own figure of its incident: in that of the history, the run is part of its reference."""
    result = cluster_result.cluster_result_of(records)
    if result is None:
        return tuple(alarms)
    newest = ((alarm, alarm.period.runs[-1]) for alarm in alarms)
    runs = {record.run.id for record in records}
    return tuple(
        replace(alarm, period=replace(alarm.period, runs=(*alarm.period.runs[:-1], replace(last, level=result.effect))))
        if alarm.period.kind is Kind.INCIDENT and last.run_id in runs
        else alarm
        for alarm, last in newest
    )


class HistoryReader:
    """A history as one report reads it: each cluster once, and all of the report of one moment.

    Args:
        history: All runs.
        accepted: By row and cluster, the accepted figures: the runs that count begin with them.
    """

    def __init__(self, history: History, accepted: AllAccepted | None = None) -> None:
        self._history = history
        self._accepted = accepted
        self._series: dict[str, ClusterSeries] = {}
        self.histories: Mapping[SeriesKey, RowHistory] = {}
        #: By cluster and row, the outcomes of earlier runs, the oldest first.
        self.earlier: dict[tuple[str, str], tuple[RowOutcome, ...]] = {}

    def series(self, cluster: str) -> ClusterSeries:
        """The runs of a cluster."""
        if cluster not in self._series:
            self._series[cluster] = series_of_cluster(self._history, cluster, accepted=self._accepted)
        return self._series[cluster]

    def alarms(self, records: Collection[Record], slow_before: Sequence[SlowNode] | None = None) -> tuple[Alarm, ...]:
        """The alarms of a run's rows and of its clusters' nodes, by the runs until then.

        ``slow_before`` are the nodes that were slow before it, if known.
        """
        of_cluster = grouped([(key.cluster, other) for other in records if (key := series_key(other)) is not None])
        alarms: list[Alarm] = []
        for cluster, ran in of_cluster.items():
            rows = {record.row.id for record in ran}
            known = alarms_of(
                self._history,
                cluster,
                self.series(cluster),
                now_s=time.time(),
                until_s=max(map(record_time_s, ran)) or math.inf,
                measured={record.row.id for record in ran if points_of(record)},
                slow_before=slow_before,
            )
            shown = {*rows, whole_cluster(cluster)}
            of_run = (alarm for alarm in known if alarm.period.kind not in OF_ROWS or alarm.period.subject in shown)
            listed = {name for alarm in of_run for name in (alarm.id, alarm.part_of)}
            alarms += (alarm for alarm in known if alarm.id in listed)
        return redact(with_own_figures(alarms, records), os.environ)

    def read(self, records: Collection[Record], runs: Collection[ReportedRun]) -> None:
        """Read the histories of rows, and the outcomes of earlier runs without excluded ones.

        Rows that were never judged are errors, in those of the runs that still have a directory beside these runs'.
        """
        self.histories = histories_of_records(self._history, records, self.series)
        there = [
            one for place in sorted({run.directory.parent for run in runs}) for one in newest_begun(place, EARLIER_RUNS)
        ]
        clusters = {record.run.cluster for record in records} | {run.noted.cluster for run in runs}
        for cluster in clusters - {NO_CLUSTER, ""}:
            excluded = {event.subject for event in self._history.events(cluster, EXCLUDE)}
            recorded = self._history.outcomes(cluster, EARLIER_RUNS + len(runs))
            begun_there = [state for state in there if state.cluster == cluster]
            for row, of_row in _with_never_judged(recorded, begun_there).items():
                self.earlier[cluster, row] = tuple(outcome for outcome in of_row if outcome.run_id not in excluded)

    def before(self, record: Record) -> tuple[RowOutcome, ...]:
        """The outcomes of a row in the runs before; a run that judged the same job again is none."""
        time_s = record_time_s(record)
        of_row = self.earlier.get((record.run.cluster, record.row.id), ())
        return tuple(outcome for outcome in of_row if outcome.run_id != record.run.id and outcome.time_s < time_s)

    def cluster_texts(self, records: Iterable[Record]) -> dict[str, ClusterText]:
        """The text of each cluster's runs until this one, for all of its rows together, by cluster."""
        current_run: dict[str, dict[str, Point]] = {}
        together: dict[str, ClusterHistory] = {}
        for record in records:
            key, points = series_key(record), points_of(record)
            adjustment = None if key is None or key not in self.histories else self.histories[key].adjustment
            if key is not None and points and adjustment is not None and not record.row.tile:
                current_run.setdefault(key.cluster, {})[key.row] = points[0]
                together[key.cluster] = adjustment.together
        texts = {}
        for cluster, points_of_rows in current_run.items():
            until_s = max(point.time_s for point in points_of_rows.values())
            before = together[cluster].until(until_s, next(iter(points_of_rows.values())).run_id)
            texts[cluster] = redact(cluster_text(before.including_run(points_of_rows)), os.environ)
        return texts

    def runs(self, clusters: Collection[str], incidents: Collection[str]) -> tuple[RunListEntry, ...]:
        """The runs of clusters, the oldest first; ``incidents`` are the ids of those that were incidents."""
        rows = [(row, of_row) for (cluster, row), of_row in self.earlier.items() if cluster in clusters]
        outcomes_of = grouped([(outcome.run_id, outcome) for _, of_row in rows for outcome in of_row])
        nights = {outcome.run_id for row, of_row in rows if not tile_of(row) for outcome in of_row}
        runs = (
            RunListEntry(
                run_id,
                begin_of(run_id, min(outcome.time_s for outcome in of_run)),
                Counter(outcome.outcome for outcome in of_run),
                run_id in incidents,
                run_id not in nights,
            )
            for run_id, of_run in outcomes_of.items()
        )
        return tuple(sorted(runs, key=lambda run: (run.time_s, run.run_id)))


def _with_never_judged(
    recorded: Mapping[str, tuple[RowOutcome, ...]], there: Iterable[RunState]
) -> Mapping[str, tuple[RowOutcome, ...]]:
    """The outcomes of a cluster's runs by row, with an error for each row that one of them never judged."""
    found = {row: {outcome.run_id: outcome for outcome in of_row} for row, of_row in recorded.items()}
    times_s: dict[str, float] = {}
    for outcome in (outcome for of_row in recorded.values() for outcome in of_row):
        times_s[outcome.run_id] = max(outcome.time_s, times_s.get(outcome.run_id, outcome.time_s))
    for run in there:
        name = run.directory.name
        missing = [row for row in run.row_ids if name not in found.get(row, {})]
        # A run with records that the history lacks was to be kept from it.
        if not missing or (name not in times_s and any(run.directory.glob(RECORDS))) or is_owned(run.directory):
            continue
        for row in missing:
            found.setdefault(row, {})[name] = RowOutcome(name, times_s.get(name, run.begun_s), outcomes.ERROR.word)
    return {row: tuple(sorted(of_row.values(), key=lambda outcome: outcome.time_s)) for row, of_row in found.items()}


def run_report(
    records: Iterable[Record], run: ReportedRun, history: History | HistoryReader | None = None
) -> RunReport:
    """The report of one run, without secrets.

    Args:
        records: Its records.
        run: What its records do not have.
        history: The runs before, or a reader that has some of them already; ``None`` if there is none.

    Raises:
        HistoryError: The history could not be read.
    """
    listed = list(records)
    run_id = listed[0].run.id if listed else run.directory.name
    (report,) = _build_reports({run_id: listed}, {run_id: run}, history)
    return report


def run_reports(
    records: Iterable[Record],
    history: History | HistoryReader | None = None,
    runs: Mapping[str, ReportedRun] | None = None,
) -> tuple[RunReport, ...]:
    """The reports of several runs, the newest first; ``runs`` has by id what their records do not have."""
    by_run: dict[str, list[Record]] = {run_id: [] for run_id in runs or {}}
    for record in newest_of(records).values():
        by_run.setdefault(record.run.id, []).append(record)
    reports = _build_reports(
        by_run, {run_id: (runs or {}).get(run_id) or ReportedRun(RUNS / run_id) for run_id in by_run}, history
    )
    return tuple(sorted(reports, key=lambda report: (report.begin_s or 0.0, report.run_id), reverse=True))


@collector_paused()
def _build_reports(
    by_run: Mapping[str, Sequence[Record]], runs: Mapping[str, ReportedRun], history: History | HistoryReader | None
) -> list[RunReport]:
    reader = HistoryReader(history) if isinstance(history, History) else history
    # A session redacts its records; a file may hold anything.
    shown = {run_id: [redact(record, os.environ) for record in of_run] for run_id, of_run in by_run.items()}
    begun_runs = {run_id: _with_manifest(run) for run_id, run in runs.items()}
    if reader is not None:
        reader.read([record for of_run in shown.values() for record in of_run], begun_runs.values())
    return [_build_report(redact(name, os.environ), of_run, begun_runs[name], reader) for name, of_run in shown.items()]


def _with_manifest(run: ReportedRun) -> ReportedRun:
    """A run with what its session wrote down before it began."""
    known = begun(run.directory)
    noted = redact(read_noted(run.directory), os.environ)
    missing = {redact(name, os.environ): redact(why, os.environ) for name, why in run.missing.items()}
    begun_s, sweep = None if known is None else known.begun_s or None, redact(read_sweep(run.directory), os.environ)
    progress = redact(run.progress, os.environ)
    return replace(run, missing=missing, noted=noted, begun_s=begun_s, sweep=sweep, progress=progress)


def _build_report(run_id: str, records: Sequence[Record], run: ReportedRun, reader: HistoryReader | None) -> RunReport:
    rows, broken = _build_rows(records, reader)
    run = replace(run, missing={**run.missing, **broken})
    if reader is None:
        return RunReport(run_id, run, rows, alarms=run.alarms or ())
    alarms = reader.alarms(records) if run.alarms is None else run.alarms
    keys = (key for record in records if (key := series_key(record)) in reader.histories)
    series = {key.cluster: reader.series(key.cluster) for key in keys if key is not None}
    slow = {cluster: tuple(suspect for suspect in of.slow if not suspect.recovered) for cluster, of in series.items()}
    nodes = {cluster: of.nodes for cluster, of in series.items()}
    report = RunReport(
        run_id,
        run,
        rows,
        slow_nodes=redact({cluster: suspects for cluster, suspects in slow.items() if suspects}, os.environ),
        nodes_failing_jobs=redact({cluster: of.failing for cluster, of in nodes.items() if of.failing}, os.environ),
        known_good_nodes=redact({cluster: of.sound for cluster, of in nodes.items()}, os.environ),
        node_jobs={node: jobs for of in nodes.values() for node, jobs in of.newest_jobs().items()},
        alarms=alarms,
        cluster_texts=reader.cluster_texts(records),
    )
    incidents = {seen.run_id for alarm in alarms if alarm.period.kind is Kind.INCIDENT for seen in alarm.period.runs}
    return replace(report, history_runs=reader.runs(report.clusters, incidents))


def _row_history(record: Record, histories: Mapping[SeriesKey, RowHistory]) -> RowHistory:
    """The history of a row until a run of it, with that run."""
    key = series_key(record)
    if key is None:
        return RowHistory()
    current_run = points_of(record)
    until_s = max([record_time_s(record), *(point.time_s for point in current_run)])
    return histories.get(key, RowHistory()).without(record.run.id, until_s, current_run).including_run(current_run)


def _build_rows(
    records: Sequence[Record], reader: HistoryReader | None
) -> tuple[tuple[ReportedRow, ...], dict[str, str]]:
    """The rows of a run, and by node id why a record cannot be shown."""
    names = page_names(record.row.node_id for record in records)
    rows, broken = [], {}
    together: Counter[str] = Counter()
    for record in records:
        name = names[record.row.node_id]
        is_tile = bool(record.row.tile)  # the history is its row's
        past = RowHistory() if is_tile else _row_history(record, {} if reader is None else reader.histories)
        try:
            row = ReportedRow(record, name, past, earlier=() if reader is None or is_tile else reader.before(record))
            if record.judged is not None and row.needs is attention.INCONCLUSIVE:
                row_text.inconclusive_text(record, record.judged)
            workload = file_name(record.row.workload)[:LONGEST_NAME].lower() or "rows"
            number, together[workload] = together[workload] // _ON_PAGE, together[workload] + 1
            page = f"{workload}-{number + 1}" if number else workload
            rows.append(replace(row, since=since_of(row), shared_page=page))
        except ValueError as error:  # numbers from which nothing can be computed
            broken[record.row.node_id] = f"its record cannot be shown: {error}"
    return tuple(rows), broken
