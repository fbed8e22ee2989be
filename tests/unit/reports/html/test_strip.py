"""The curve of a row: what is marked in it, and what it says to those who do not see it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import datetime
from pathlib import Path

import pytest

from pytest_gsw.performance.verdict import Reason
from pytest_gsw.reports.build import run_reports
from pytest_gsw.reports.html.nights import counts_of, nights_strip, row_curve
from pytest_gsw.reports.run_report import Listed
from pytest_gsw.results.record import Record
from tests.unit.reports.nights import SLOW, TONIGHT, history_of, row, runs
from tests.unit.results.records import varied

TOO_GOOD = varied(
    SLOW, measured={"step_time_s": 3.6}, series_s=(3.6,) * 5, outcome="inconclusive", reason=Reason.TOO_GOOD.value
)


def curve(directory: Path, tonight: Record, *before: Record) -> ET.Element:
    with history_of(directory, *before) as history:
        (night,) = run_reports([tonight], history, runs(directory))
    found = row_curve(night.rows[0])
    assert found is not None
    return found


def told(svg: ET.Element) -> str:
    return (svg.get("aria-label") or "").replace("\N{NO-BREAK SPACE}", " ")


def test_errors_are_counted_in_the_plural() -> None:
    assert counts_of({"error": 6, "passed": 1}) == "6 errors, 1 passed"
    assert counts_of({"error": 1, "regressed": 3}) == "3 regressed, 1 error"


def last_of_line(svg: ET.Element) -> list[str]:
    (line,) = svg.iter("polyline")
    return (line.get("points") or "").split()[-1].split(",")


def test_the_last_dot_is_of_tonight(tmp_path: Path) -> None:
    svg = curve(tmp_path, SLOW, *(row(SLOW.row.id, TONIGHT - number) for number in (3, 2, 1)))
    (dot,) = svg.iter("circle")
    assert (dot.get("class"), [dot.get("cx"), dot.get("cy")]) == ("regressed", last_of_line(svg))
    assert told(svg) == "Throughput of 4 runs from \N{MINUS SIGN}10.0 % to +0.0 %, \N{MINUS SIGN}10.0 % in the newest"


def test_one_outlier_leaves_the_other_nights_their_height(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, TONIGHT - number, 4.5 + number % 5 / 50) for number in range(20, 0, -1)]
    before[7] = row(SLOW.row.id, TONIGHT - 13, 0.045, outcome="improved")
    svg = curve(tmp_path, SLOW, *before)
    (line,) = svg.iter("polyline")
    heights = [float(place.partition(",")[2]) for place in (line.get("points") or "").split()]
    assert min(heights) == heights[7] == 4
    assert max(heights[:7]) - min(heights[:7]) > 3
    assert "to +9900.0 %" in told(svg)


def test_what_is_not_believed_is_a_square_beside_the_line(tmp_path: Path) -> None:
    svg = curve(tmp_path, TOO_GOOD, *(row(SLOW.row.id, TONIGHT - number) for number in (3, 2, 1)))
    assert list(svg.iter("circle")) == []
    (square,) = svg.iter("rect")
    assert square.get("class") == "inconclusive"
    assert (square.get("x"), square.get("y")) == ("153", "1")  # at the right, and at the top: it is the fastest
    assert float(last_of_line(svg)[0]) < 150
    assert told(svg) == "Throughput of 4 runs from +0.0 % to +25.0 %, +25.0 % in the newest"


def test_a_night_that_was_not_believed_stays_a_square(tmp_path: Path) -> None:
    doubted = row(SLOW.row.id, TONIGHT - 1, 3.6, outcome="inconclusive", reason=Reason.TOO_GOOD.value)
    svg = curve(tmp_path, SLOW, row(SLOW.row.id, TONIGHT - 2), doubted)
    assert [(one.tag, one.get("class")) for one in svg if one.tag in {"rect", "circle"}] == [
        ("rect", "inconclusive"),
        ("circle", "regressed"),
    ]


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        (["22 12:00", "23 12:00", "23 13:00", "23 13:04", "24 13:04"], ["22", "23", "13h", ":04", "24"]),
        (["23 16:04", "23 16:11", "23 17:11"], ["16h", ":11", "17h"]),
        (["23 16:04", "23 16:04"], ["16h", ""]),
    ],
    ids=["days", "one-day", "one-minute"],
)
def test_a_run_is_labelled_by_what_tells_it_from_the_one_before(times: list[str], labels: list[str]) -> None:
    begun = [datetime.strptime(f"2026-11-{one}", "%Y-%m-%d %H:%M").astimezone().timestamp() for one in times]
    strip = nights_strip([Listed(f"{time_s}", time_s, {"passed": 6}) for time_s in begun], lambda _: None)
    assert [column[0][2].text or "" for column in strip.iter("li")] == labels
