"""Records of runs, to be put into histories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pytest_gsw.history.alarms import IncidentPeriod, Kind, Occurrence
from pytest_gsw.history.model import Point, SeriesKey, series_key
from pytest_gsw.history.store import History
from pytest_gsw.results.record import JobFacts, Record
from tests.unit.results.records import JOB, SLOW, varied

DAY_S = 86400.0
#: The run of run 20261101.
FIRST_S = 1793566800.0


def job(number: int, judged_s: float | None = None, **changes: Any) -> JobFacts:
    """The job of one run."""
    end_s = FIRST_S + number * DAY_S
    times = {"submit_s": end_s - 692, "start_s": end_s - 662, "end_s": end_s}
    return replace(JOB, **{"id": str(481220 + number), **times, "judged_s": judged_s, **changes})


def run_record(number: int, judged_s: float = 5.0, **changes: Any) -> Record:
    """What a row's run of one run left, with its one job."""
    given: dict[str, Any] = {
        "run_id": f"2026{11 + number // 30:02d}{1 + number % 30:02d}-210000-7f3a",
        "outcome": "passed",
        "measured": {"step_time_s": judged_s},
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
