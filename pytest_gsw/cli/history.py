"""``pytest-gsw history``: the times of rows, run by run, their drifts, and the import of older runs."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.cli.output import Answer, changes_facts, quoted_answer
from pytest_gsw.cli.rows import tables_on
from pytest_gsw.cli.run_arguments import NOISE_NOTE, noise_cell, opened, run_directory, series_of
from pytest_gsw.clusters import Cluster, cluster_files, default_settings, find_cluster
from pytest_gsw.common import text, typed_json
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, FileError, NotJudgedError, RunError
from pytest_gsw.history import cluster_series, imports, row_history, store
from pytest_gsw.history.comparison import change_text, changes_text, cluster_drift_text
from pytest_gsw.history.environment_changes import EnvironmentChange
from pytest_gsw.history.model import OF_TILES, SIMULATED, Point, SeriesKey, cluster_of, newest_definitions
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import CLUSTER_NAME, NO_CLUSTER, Record
from pytest_gsw.results.runs_directory import LAST, begin_of
from pytest_gsw.results.summary import cause_of
from pytest_gsw.stats.drift import NEWEST
from pytest_gsw.stats.noise import PRIOR, REFERENCE_JOBS, Noise, reference
from pytest_gsw.tables.load import accepted_figures, load_tables
from pytest_gsw.tables.metrics import Figure, common_change_label
from pytest_gsw.tables.model import Baseline, row_matches
from pytest_gsw.tables.value_types import nearest

#: The most rows whose runs are listed one by one, and the longest list of nodes in a line.
_BY_RUN, _NODES = 3, 40


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.verb is not None:
        with opened(args) as history:
            return Answer(decide(history, args.verb, args.runs, args.why))
    if args.drift:
        return _drift(args)
    if args.add or args.from_logs:
        return _import(args)
    if args.baselines:
        raise ConfigurationError("--baselines is where an import looks rows up; add --from-logs=DIR")
    with opened(args) as history:
        histories = cluster_series.newest_histories(history, series_of(history, args))
        runs = {point.run_id for past in histories.values() for point in past.points}
        excluded = [one for one in history.events(kind=store.EXCLUDE) if one.subject in runs]
        newest = {key: histories[key] for key in (histories if args.all else newest_definitions(histories))}
        hidden = {run for past in newest.values() for run in past.excluded if not args.all}
        jobs = {key: [job for job in past.points if job.run_id not in hidden] for key, past in newest.items()}
        points = {key: of_row[-args.last :] for key, of_row in jobs.items() if of_row}
        shown = {key: newest[key] for key in points}
        is_by_run = args.rows and len(shown) <= _BY_RUN and not args.json
        read = cache(history.records)  # both tables show the newest record of a row
        newest_jobs = {key: of_row[-1] for key, of_row in points.items()}
        by_run = [_run_table(history, read, key, past, args.last) for key, past in shown.items() if is_by_run]
        by_document = {} if args.json else _vs_document(read, newest_jobs, by_row=is_by_run)
    noises = {key: past.noise() or PRIOR for key, past in shown.items()}
    lines = [
        _table(points, noises, by_document, hidden=len(histories) - len(shown)),
        *by_run,
        *_changes(shown),
    ]
    lines += [f"excluded: run {one.subject}: {one.body.get('why', '')}" for one in excluded]
    facts = [_facts(key, points[key], noises[key], past.changes) for key, past in shown.items()]
    return quoted_answer(args, facts, "\n".join(lines))


# -- the list of rows ----------------------------------------------------------------------------


def _table(
    points: Mapping[SeriesKey, Sequence[Point]],
    noises: Mapping[SeriesKey, Noise],
    by_document: Mapping[tuple[str, str, str], str],
    hidden: int,
) -> str:
    several = len({(key.row, key.cluster) for key in points}) < len(points)
    table = [
        [*_line(key, of_row, noises[key], several), by_document.get((key.row, key.cluster, of_row[-1].run_id))]
        for key, of_row in points.items()
    ]
    columns = ["row", "cluster", *(["definition"] if several else []), ">jobs", ">median", ">noise", "newest"]
    lines = [text.plain_table(table, *columns, ">against median", ">vs document", style="simple")]
    if any(noise.jobs == 0 for noise in noises.values()):
        lines.append(NOISE_NOTE)
    if hidden:
        count = text.plural(hidden, "series", "series")
        lines.append(f"{count} of earlier definitions or excluded runs not shown; --all shows them")
    return "\n".join(lines)


#: Reads the records of a run, of rows with these ids.
_Read = Callable[[str, frozenset[str]], Sequence[Record]]


def _vs_document(read: _Read, newest: Mapping[SeriesKey, Point], *, by_row: bool) -> dict[tuple[str, str, str], str]:
    """The changes of rows' newest runs against their documents, by row, cluster and run; read row by row, or by run."""
    runs = [(point.run_id, key.row) for key, point in newest.items()]
    rows_of = [(run_id, [row]) for run_id, row in runs] if by_row else grouped(runs).items()
    records = (record for run_id, rows in rows_of for record in read(run_id, frozenset(rows)))
    return {
        (record.row.id, cluster_of(record), record.run.id): text.percent(record.judged.documented_change)
        for record in records
        if record.judged is not None
    }


def _run_table(history: store.History, read: _Read, key: SeriesKey, past: row_history.RowHistory, last: int) -> str:
    """The newest runs of a row, measured or not, the newest first: a line each."""
    metric = past.points[-1].metric
    label = metric.label
    runs = [(point.time_s, point.run_id) for point in past.points]
    runs += [(one.time_s, one.run_id) for one in history.outcomes(key.cluster, last).get(key.row, ())]
    newest = sorted({run_id: time_s for time_s, run_id in sorted(runs)}.items(), key=lambda run: (run[1], run[0]))
    changes = {change.since.run_id: changes_text(change.named) for change in past.changes}
    lines = []
    for run_id, time_s in newest[: -last - 1 : -1]:
        tiles = [point for point in past.points if point.run_id == run_id and point.reason in OF_TILES]
        if tiles:
            when, median = text.minute(begin_of(run_id, time_s)), statistics.median(point.judged for point in tiles)
            outcomes = text.listed(Counter(point.outcome for point in tiles))
            nodes = text.shortened(compressed(node for point in tiles for node in expand(point.nodes)), _NODES)
            lines.append(
                (when, run_id, metric.text(median), "", outcomes, nodes, f"{text.plural(len(tiles), 'job')} of tiles")
            )
        for record in (of_run for of_run in read(run_id, frozenset({key.row})) if cluster_of(of_run) == key.cluster):
            change = "" if record.judged is None else text.percent(record.judged.documented_change)
            label = record.judged_metric.label
            took = metric.text(record.measured) if record.measured else ""
            outcome = record.outcome + (", excluded" if run_id in past.excluded else "")
            note = cause_of(record) if record.outcome == ERROR.word else changes.get(run_id, "")
            when = text.minute(begin_of(run_id, time_s))
            lines.append(
                (when, run_id, took, change, outcome, text.shortened(record.nodes, _NODES), text.one_line(note))
            )
    columns = ("began", "run", f">{label}", ">vs document", "outcome", "nodes", "changed, or error")
    return f"\n{key.row} on {key.cluster}, the newest run first\n{text.plain_table(lines, *columns, style='simple')}"


def _changes(histories: Mapping[SeriesKey, row_history.RowHistory]) -> list[str]:
    """The changes of the environment under the newest runs of each row, with their effects."""
    return [
        f"{key.row} on {key.cluster}: {change_text(change)}"
        for key, past in histories.items()
        for change in _notable_changes(past.changes)
    ]


def _notable_changes(changes: Sequence[EnvironmentChange]) -> list[EnvironmentChange]:
    """The newest change with an effect, and the newest one."""
    beyond_noise = next((change for change in reversed(changes) if change.is_beyond_noise), None)
    return [change for change in changes if change is beyond_noise or change is changes[-1]]


def _line(key: SeriesKey, points: Sequence[Point], noise: Noise, several: bool) -> list[str]:
    figures = [point.judged for point in points]
    newest, metric = points[-1], points[-1].metric
    before = statistics.median(figures[:-1]) if figures[1:] else None
    return [
        key.row,
        key.cluster,
        *([key.definition] if several else []),
        str(len(points)),
        "" if before is None else metric.text(before),
        noise_cell(noise),
        f"{text.minute(newest.time_s)} {metric.text(newest.judged)}",
        "" if before is None else text.percent(metric.change(newest.judged, before)),
    ]


def _facts(
    key: SeriesKey, points: Sequence[Point], noise: Noise, changes: Sequence[EnvironmentChange]
) -> dict[str, Any]:
    metric = points[-1].metric
    return {
        **typed_json.facts(SeriesKey, key),
        "metric": metric.key,
        "unit": metric.unit,
        "median": statistics.median(point.judged for point in points),
        "noise": {"sigma": noise.sigma, "jobs": noise.jobs},
        "points": [_point_facts(point) for point in points],
        **({"changes": [_change_facts(change) for change in changes]} if changes else {}),
    }


def _change_facts(change: EnvironmentChange) -> dict[str, Any]:
    return {
        "time": _moment(change.since.time_s),
        "run_id": change.since.run_id,
        "named": changes_facts(change.named),
        **{name: getattr(change, name) for name in ("ratio", "low", "high", "runs_before", "runs_since")},
    }


def _point_facts(point: Point) -> dict[str, Any]:
    facts = {**typed_json.facts(Point, point), "time": _moment(point.time_s)}
    empty = {name for name in ("metrics", "variables") if not facts[name]}
    unsaid = {"definition", "added_s", "job", "jobs", "metric", *empty}
    return {name: value for name, value in facts.items() if name not in unsaid}


def _moment(time_s: float) -> str:
    """A time in the reader's zone, in ISO 8601; empty if the calendar does not have it."""
    found = text.calendar(time_s)
    return "" if found is None else found.isoformat(timespec="seconds")


# -- imports, and runs that do not count ---------------------------------------------------------


def _import(args: argparse.Namespace) -> Answer:
    if args.json or args.all:
        raise ConfigurationError("an import prints what it has added; leave out --json and --all")
    with opened(args, make=True) as history:
        found = _import_runs(args, history)
        for line in found.left_out:
            sys.stderr.write(f"pytest-gsw history: left out: {redact(line, os.environ)}\n")
        if not found.records and not found.known:
            raise RunError(f"nothing was added to the history {history.shown}")
        added = history.add(found.records)
    return Answer(f"{history.shown}: {_counts(found, added)}")


def _counts(found: imports.Imported, added: int) -> str:
    of_runs = f"of {text.plural(len({record.run.id for record in found.records}), 'run')}"
    known = len(found.records) - added
    counts = [f"{text.plural(added, 'record')} {of_runs} added" if added else "nothing new"]
    if known:
        counts.append(f"{text.plural(known, 'record')} {'' if added else f'{of_runs} '}there already")
    if found.known:
        counts.append(f"{text.plural(found.known, 'job')} there already")
    if found.left_out:
        counts.append(f"{len(found.left_out)} left out")
    return ", ".join(counts)


def _import_runs(args: argparse.Namespace, history: store.History) -> imports.Imported:
    if args.add:
        if args.rows or args.cluster:
            raise ConfigurationError("--add takes whole runs; leave out rows and --cluster")
        return imports.import_runs([run_directory(args.ini, str(given)) or given for given in args.add])
    args.cluster = args.cluster or args.ini.cluster
    if args.cluster is None:
        raise ConfigurationError("--from-logs: nothing there says where the jobs ran; add --cluster=NAME")
    if CLUSTER_NAME.fullmatch(args.cluster) is None or args.cluster in {SIMULATED, NO_CLUSTER}:
        raise ConfigurationError(f"--cluster: '{args.cluster}' is no name of a cluster that jobs ran on")
    if not args.from_logs.is_dir():
        raise ConfigurationError(f"--from-logs: there is no directory {args.from_logs}")
    # pytest and a site's plugins take a while to import.
    from pytest_gsw.session.hook_results import found_logs, site_config
    from pytest_gsw.session.judging import judge_log

    rows, config, cluster = _rows(args), site_config(args.plugins), _cluster_of_import(args)

    def judge(row: Baseline, path: Path, job_id: str) -> imports.Judged:
        found = judge_log(config, row, path, job_id, cluster=cluster)
        if found.record.not_comparable:
            raise NotJudgedError(f"not judged: {found.record.not_comparable}")
        return found.measurement, found.verdict

    found = found_logs(config, args.from_logs, rows)
    return imports.import_logs(args.from_logs, rows, args.cluster, history.has_job, judge, found)


def _cluster_of_import(args: argparse.Namespace) -> Cluster:
    """The cluster where the jobs ran; one that no file defines has the limits of all clusters."""
    files = cluster_files(args.ini.clusters, (Path.cwd(),), os.environ)
    try:
        return find_cluster(args.cluster, files, os.environ)
    except FileError:
        raise
    except ConfigurationError:
        return Cluster(args.cluster, "replay", settings=default_settings(files))


def _rows(args: argparse.Namespace) -> tuple[Baseline, ...]:
    rows = load_tables(args.ini.tables(args.baselines) or tables_on(args.cluster, args.ini.clusters))
    return tuple(row for row in rows if not args.rows or any(row_matches(pattern, row.id) for pattern in args.rows))


def decide(history: store.History, word: str, runs: list[str], why: str) -> str:
    """Exclude runs from the reference of their rows, or include them again; the text of what was done.

    Raises:
        ConfigurationError: There is no such run, or it is in that state already.
    """
    clusters = history.runs()
    runs = [max(clusters) if run == LAST and clusters else run for run in runs]
    excluded = {one.subject: one for one in history.events(kind=store.EXCLUDE)}
    for run in runs:
        if run not in clusters:
            fact = f"the history {history.shown} has no run '{run}'{nearest(run, clusters)}"
            raise ConfigurationError(f"{fact}\nnext: pytest-gsw history --json")
        if (run in excluded) == (word == "exclude"):
            state = f"excluded already: {excluded[run].body.get('why', '')}" if run in excluded else "not excluded"
            raise ConfigurationError(redact(f"run {run} is {state}", os.environ))
    for run in dict.fromkeys(runs):
        kind, revokes = (store.EXCLUDE, None) if word == "exclude" else (store.REVOKE, excluded[run].id)
        history.decide(store.Event(kind, run, clusters[run], time.time(), {"why": redact(why, os.environ)}, revokes))
    names, are, them = ", ".join(dict.fromkeys(runs)), *(("is", "it") if len(set(runs)) == 1 else ("are", "them"))
    if word == "include":
        return f"{history.shown}: {names} {are} included again"
    back = f"pytest-gsw history include {' '.join(runs)} --why=TEXT"
    return f"{history.shown}: {names} {are} excluded; to include {them} again: {back}"


# -- drifts ---------------------------------------------------------------------------------------


class _Trend(NamedTuple):
    """The runs of one row on one cluster."""

    key: SeriesKey
    past: row_history.RowHistory
    #: Medians of the first runs that count and of the newest; ``None`` if there are too few runs.
    first: Figure | None = None
    newest: Figure | None = None
    #: The gain of speed between them, and the change that is shown.
    gain: float = 0.0
    change: float | None = None
    found: row_history.Drifting | None = None

    @property
    def of_cluster(self) -> row_history.ClusterDrifting | None:
        """The drift of all rows of its cluster together."""
        return None if self.past.adjustment is None else self.past.adjustment.together.drifting


def _drift(args: argparse.Namespace) -> Answer:
    accepted = accepted_figures(args.ini.tables(args.baselines))
    with opened(args) as history:
        histories = cluster_series.newest_histories(history, newest_definitions(series_of(history, args)), accepted)
    trends = sorted(
        (_trend_of(key, past) for key, past in histories.items()),
        key=lambda one: (one.found is None, one.gain, text.by_number(one.key.row), one.key),
    )
    status = 1 if any(one.found or one.of_cluster for one in trends) else 0
    return quoted_answer(args, [_trend_facts(one) for one in trends], _drift_text(trends, args.all), status)


def _trend_of(key: SeriesKey, past: row_history.RowHistory) -> _Trend:
    figures = [run.judged for run in past.counted]
    if len(figures) < REFERENCE_JOBS + NEWEST:
        return _Trend(key, past)
    medians = (statistics.median(reference(figures)), statistics.median(figures[-NEWEST:]))
    first, newest = (Figure(past.counted[-1].metric, median) for median in medians)
    gain, change = newest.speed(first.value) - 1, newest.change(first.value)
    return _Trend(key, past, first, newest, gain, change, past.drifting)


def _drift_text(trends: Sequence[_Trend], everything: bool) -> str:
    shown = [one for one in trends if everything or one.found]
    change = common_change_label(one.past.points[-1].metric for one in shown) or "change"
    columns = ("row", "cluster", ">runs", ">first", ">newest", f">{change}", "since", "changed")
    lines = [text.plain_table(map(_trend_line, shown), *columns, style="simple")] if shown else []
    drifts = sum(one.found is not None for one in trends)
    measured = [one for one in trends if one.past.counted]
    few = sum(one.first is None for one in measured)
    if few:
        has = f"{text.plural(few, 'row')} {'has' if few == 1 else 'have'}"
        lines.append(f"{has} fewer than {REFERENCE_JOBS + NEWEST} runs, too few to detect drift")
    if few < len(measured):
        rows = text.plural(len(measured) - few, "row")
        lines.append(text.plural(drifts, "row drifts", "rows drift") if drifts else f"no drift in {rows}")
    clusters = {one.key.cluster: one.of_cluster for one in trends if one.of_cluster is not None}
    lines += [f"cluster {name} drifts: {cluster_drift_text(found)}" for name, found in sorted(clusters.items())]
    return "\n".join(lines)


def _trend_line(one: _Trend) -> tuple[str, ...]:
    medians = ["" if figure is None else figure.text for figure in (one.first, one.newest)]
    change = "" if one.change is None else text.percent(one.change)
    found = one.found
    since = ("", "") if found is None else (text.minute(found.onset.time_s), changes_text(found.onset.changes))
    return (one.key.row, one.key.cluster, str(len(one.past.counted)), *medians, change, *since)


def _trend_facts(one: _Trend) -> dict[str, Any]:
    facts: dict[str, Any] = {**typed_json.facts(SeriesKey, one.key), "runs": len(one.past.counted)}
    metric = one.past.points[-1].metric
    facts |= {"drifts": one.found is not None, "metric": metric.key, "unit": metric.unit, metric.change_key: one.change}
    facts |= {name: figure and figure.value for name, figure in (("first", one.first), ("newest", one.newest))}
    if one.of_cluster is not None:
        facts["cluster_drift"] = {**_drift_facts(one.of_cluster), "rows": one.of_cluster.rows}
    if (found := one.found) is not None:
        job = {"run_id": found.first.run_id, "job_id": found.first.job_id}
        facts |= {**_drift_facts(found, **job), "beside_other_rows": found.is_beside}
    return facts


def _drift_facts(found: row_history.Drifting | row_history.ClusterDrifting, **job: str) -> dict[str, Any]:
    facts = {"z": found.drift.z, "time_change": found.drift.shift, "changes": changes_facts(found.onset.changes)}
    return {**facts, "since": {"time_s": found.onset.time_s, **job}}
