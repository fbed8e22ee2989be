"""Records of runs, to be put into histories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.history.alarms import IncidentPeriod, Kind, Occurrence
from pytest_gsw.history.imports import imported_record
from pytest_gsw.history.model import Point, SeriesKey, series_key
from pytest_gsw.history.store import History
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.stats.figures import documented_peak_flops
from pytest_gsw.stats.measurement import TimedStep, Timing
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.measure import summarize
from tests.unit.results.records import JOB, SLOW, varied

DAY_S = 86400.0
#: The run of run 20261101.
FIRST_S = 1793566800.0


def job(number: int, judged: float | None = None, **changes: Any) -> JobFacts:
    """The job of one run."""
    end_s = FIRST_S + number * DAY_S
    times = {"submit_s": end_s - 692, "start_s": end_s - 662, "end_s": end_s}
    return replace(JOB, **{"id": str(481220 + number), **times, "judged": judged, **changes})


def run_record(number: int, judged: float = 5.0, **changes: Any) -> Record:
    """What a row's run of one run left, with its one job."""
    given: dict[str, Any] = {
        "run_id": f"2026{11 + number // 30:02d}{1 + number % 30:02d}-210000-7f3a",
        "outcome": "passed",
        "measured": {"step_time_s": judged},
        "definition": "0123456789ab",
        "image": "nvcr.io/nvidia/jax:24.12",
        "metric": "step_time",
        "job": job(number),
        "recorded_s": FIRST_S + number * DAY_S + 60,
    }
    return varied(SLOW, **{**given, **changes})


def key_of(record: Record) -> SeriesKey:
    """The series of a record that has one."""
    key = series_key(record)
    assert key is not None
    return key


KEY = key_of(run_record(0))


def imported_figure(row: Baseline, source: Path, job: JobFacts, judged: float, image: str | None = None) -> Record:
    """The record of an imported job of which only the result is known, judged by the document."""
    measurement = summarize(row, (TimedStep(None, judged),), judged, documented_peak_flops(row))
    measurement = replace(measurement, timing=Timing(row.criterion.statistic))
    return imported_record(
        row, "eos", source, job, measurement, image, verdict_of(row, measurement, row.criterion.tolerance)
    )


def stored_points(history: History, key: SeriesKey) -> tuple[Point, ...]:
    """The points of a series, the oldest first."""
    lines = history.cluster_points(key.cluster).items()
    return tuple(
        one for line, of_line in lines if line.row == key.row for one in of_line if one.definition == key.definition
    )


def points_of(history: History, keys: Iterable[SeriesKey]) -> dict[SeriesKey, tuple[Point, ...]]:
    """The points of each series."""
    return {key: stored_points(history, key) for key in keys}


ROW = "llama2_70b_fp8[H100x64]"


def period(*runs: Occurrence, **changes: object) -> IncidentPeriod:
    """An alarm by the runs that show it."""
    given: dict[str, object] = {
        "kind": Kind.REGRESSION,
        "cluster": "eos",
        "subject": ROW,
        "things": frozenset({f"{ROW} 0123"}),
        "token": "0123 night-040",
        "runs": runs,
        "begin_s": runs[0].time_s,
        "sd": 0.01,
        "is_newest": True,
        "last_s": 0.0,
        "usual": 0.0,
    }
    return IncidentPeriod(**{**given, **changes})  # type: ignore[arg-type]
