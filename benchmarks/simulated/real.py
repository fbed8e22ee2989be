"""A real series: what the drift rule and Otava say of TigerBeetle's throughput."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.simulated.otava import Otava
from pytest_gsw.stats.drift import drift, warned_runs

_DATA = Path(__file__).resolve().parent.parent / "data" / "tigerbeetle.csv"


def tigerbeetle() -> list[float]:
    """The published series, transactions per second."""
    lines = _DATA.read_text(encoding="utf-8").splitlines()
    return [float(line.split(",")[1]) for line in lines if line[:1].isdigit()]


def alarms_of_drift(per_s: Sequence[float]) -> list[dict[str, Any]]:
    """Every alarm, to slower and, on the reciprocal, to faster, when each is accepted as the new state of things.

    The next reference is then the points from the first suspect one on.
    """
    found: list[dict[str, Any]] = []
    start = 0
    ways = {"slower": [1 / value for value in per_s], "faster": list(per_s)}
    while True:
        first = {way: warned[0] for way, times_s in ways.items() if (warned := warned_runs(times_s[start:]))}
        if not first:
            return found
        at, way = min((start + at, way) for way, at in first.items())
        seen = drift(ways[way][start : at + 1])
        assert seen is not None  # it warns on that run
        alarm = {"way": way, "at": at, "suspect": start + seen.first_suspect, "shift": seen.shift}
        found.append({**alarm, "z": seen.z, "since": start})
        start += seen.first_suspect


def real_series(otava: Otava | None) -> dict[str, Any]:
    """What the drift rule and Otava, with its defaults, say."""
    per_s = tigerbeetle()
    result: dict[str, Any] = {"drift": alarms_of_drift(per_s)}
    if otava is None:
        return result
    result["otava"] = otava.ask({"series": per_s})
    result["otava 5 %"] = otava.ask({"series": per_s, "options": {"min_magnitude": 0.05}})
    # Otava again each run, as the drift rule is asked; a series of times, whose changes to slower are those up.
    nightly: dict[int, int] = {}
    for count in range(10, len(per_s) + 1):
        for index, before, after in otava.ask({"series": per_s[:count]}):
            if after < before:
                nightly.setdefault(index, count - 1)
    result["otava nightly slower"] = sorted(nightly.items())
    return result
