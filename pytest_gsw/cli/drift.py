"""``pytest-gsw history --drift``: which rows drift, since when, and what changed then."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_gsw.cli.answer import Answer, changes_facts, json_answer
from pytest_gsw.cli.runs import opened, series_of
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import by_number, counted, minute, percent
from pytest_gsw.history.comparison import changes_text, cluster_drift_text
from pytest_gsw.history.model import SeriesKey, newest_definitions
from pytest_gsw.history.row_history import ClusterDrifting, Drifting, Past, newest_pasts
from pytest_gsw.performance.drift import NEWEST
from pytest_gsw.performance.noise import REFERENCE_JOBS, reference
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.tables.load import load_tables


@dataclass(frozen=True)
class _Trend:
    """The nights of one row on one cluster."""

    key: SeriesKey
    nights: int
    #: Medians of the first nights that count and of the newest, seconds; ``None`` where there are too few nights.
    first_s: float | None
    newest_s: float | None
    found: Drifting | None
    #: The same of all rows of its cluster together.
    of_cluster: ClusterDrifting | None = None

    @property
    def throughput_change(self) -> float | None:
        """Newest over first throughput, less one."""
        return self.first_s / self.newest_s - 1 if self.first_s and self.newest_s else None


def run(asked: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    accepted = {row.id: row.accepted for row in load_tables(asked.ini.tables(asked.baselines))}
    with opened(asked) as history:
        newest = newest_definitions(series_of(history, asked.rows, asked.cluster))
        pasts = newest_pasts(history, newest, accepted)
    trends = sorted(
        (_trend_of(key, past) for key, past in pasts.items()),
        key=lambda one: (one.found is None, one.throughput_change or 0.0, by_number(one.key.row), one.key),
    )
    status = 1 if any(one.found or one.of_cluster for one in trends) else 0
    if asked.json:
        return json_answer(quoted([_facts(one) for one in trends], os.environ), status)
    return Answer(quoted(_text(trends), os.environ), status)


def _trend_of(key: SeriesKey, past: Past) -> _Trend:
    nights = past.counted
    times_s = [night.judged_s for night in nights]
    of_cluster = None if past.beside is None else past.beside.together.drifting
    if len(nights) < REFERENCE_JOBS + NEWEST:
        return _Trend(key, len(nights), None, None, None, of_cluster)
    first_s, newest_s = statistics.median(reference(times_s)), statistics.median(times_s[-NEWEST:])
    return _Trend(key, len(nights), first_s, newest_s, past.drifting, of_cluster)


def _text(trends: Sequence[_Trend]) -> str:
    columns = ("row", "cluster", ">runs", ">first", ">newest", ">throughput", "since", "what changed then")
    lines = [plain_table(map(_line, trends), *columns, style="simple")]
    drifts = sum(one.found is not None for one in trends)
    few = sum(one.first_s is None for one in trends)
    if few:
        fewest, them = REFERENCE_JOBS + NEWEST, "it drifts" if few == 1 else "they drift"
        lines.append(f"{counted(few, 'row')} of fewer than {fewest} runs: whether {them} cannot be told yet")
    if few < len(trends):
        told = counted(len(trends) - few, "row")
        lines.append(counted(drifts, "row drifts", "rows drift") if drifts else f"of {told} none drifts")
    clusters = {one.key.cluster: one.of_cluster for one in trends if one.of_cluster is not None}
    lines += [f"cluster {name} drifts: {cluster_drift_text(found)}" for name, found in sorted(clusters.items())]
    return "\n".join(lines)


def _line(one: _Trend) -> tuple[str, ...]:
    seconds = ["" if value is None else f"{value:.4g} s" for value in (one.first_s, one.newest_s)]
    change = "" if one.throughput_change is None else percent(one.throughput_change)
    return (one.key.row, one.key.cluster, str(one.nights), *seconds, change, *_drift_cells(one.found))


def _drift_cells(found: Drifting | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    return minute(found.since.begin_s), changes_text(found.changes)


def _facts(one: _Trend) -> dict[str, Any]:
    facts: dict[str, Any] = {
        **asdict(one.key),
        "nights": one.nights,
        "first_s": one.first_s,
        "newest_s": one.newest_s,
        "throughput_change": one.throughput_change,
        "drifts": one.found is not None,
    }
    if one.of_cluster is not None:
        since = {"time_s": one.of_cluster.since.time_s}
        facts["cluster_drift"] = {**_drift_facts(one.of_cluster), "rows": one.of_cluster.rows, "since": since}
    if one.found is None:
        return facts
    night = one.found.since
    return {
        **facts,
        "beside_other_rows": one.found.is_beside,
        **_drift_facts(one.found),
        "since": {"time_s": night.time_s, "run_id": night.run_id, "job_id": night.job_id},
    }


def _drift_facts(found: Drifting | ClusterDrifting) -> dict[str, Any]:
    drift = found.drift
    return {
        "z": drift.z,
        "time_change": drift.shift,
        "changes": changes_facts(found.changes),
    }
