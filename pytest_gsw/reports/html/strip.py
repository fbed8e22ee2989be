"""Nights in little: a column for each by verdict, and the curve of one row."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from pytest_gsw.history.model import Point
from pytest_gsw.performance.verdict import UNUSUAL
from pytest_gsw.reports.html.drawing import in_view
from pytest_gsw.reports.html.layout import element
from pytest_gsw.reports.html.texts import minute, moment, percent
from pytest_gsw.reports.run_report import KINDS, Listed, Row
from pytest_gsw.results import attention, outcomes

#: Nights that are shown, and how high a column is, and how wide, in its own units.
SHOWN = 30
_HIGH, _WIDE, _LEAST = 60, 20, 3

#: The curve of a row, in its own units, and what it spans at least, a fraction of throughput.
_CURVE_WIDE, _CURVE_HIGH, _ROOM = 160, 36, 4
_LEAST_SPAN = 0.04


def by_kind(words: Mapping[str, int]) -> dict[str, int]:
    """How many rows there are of each kind, the worst first, by the words of their outcomes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[outcomes.of(word).attention.in_report.kind] += count
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def counts_of(words: Mapping[str, int]) -> str:
    """``3 regressed, 2 errors, 98 passed``."""
    return ", ".join(
        outcomes.ERROR.of_rows(count) if kind == attention.ERROR.kind else f"{count} {attention.BY_KIND[kind].word}"
        for kind, count in by_kind(words).items()
    )


def nights_strip(nights: Iterable[Listed], address_of: Callable[[str], str | None], here: str = "") -> ET.Element:
    """A column for each of the newest nights, the newest at the right; each with its counts, and a link to its page."""
    shown = list(nights)[-SHOWN:]
    most = max((sum(night.outcomes.values()) for night in shown), default=1)
    labels = _labels([night.time_s for night in shown])
    columns = [
        _column(
            night,
            most,
            None if night.run_id == here else address_of(night.run_id),
            label,
            is_here=night.run_id == here,
        )
        for night, label in zip(shown, labels, strict=True)
    ]
    kinds = {kind for night in shown for kind in by_kind(night.outcomes)}
    legend = [_swatch(kind) for kind in KINDS if kind in kinds]
    strip = element("ol", *columns, class_="strip", aria_label="Runs by verdict, the newest last")
    caption = f"The newest runs by verdict, until {minute(shown[-1].time_s)}" if shown else None
    return element("div", element("p", caption, class_="run"), strip, element("p", *legend, class_="legend"))


def _labels(times_s: Sequence[float]) -> list[str]:
    """In what each run differs from the one before, its day, else its hour, else its minute: ``23``, ``16h``, ``:04``.

    The first has its day, or its hour where all are of one day.
    """
    told = [("", "", "") if found is None else _parts(found) for found in map(moment, times_s)]
    days = {day for day, _, _ in told}
    before = [(day if len(days) == 1 else "", "", "") for day, _, _ in told[:1]]
    return [
        next((part for part, known in zip(one, last, strict=True) if part != known), "")
        for one, last in zip(told, [*before, *told], strict=False)
    ]


def _parts(time: datetime) -> tuple[str, str, str]:
    return f"{time:%d}", f"{time:%H}h", f":{time:%M}"


def _column(night: Listed, most: int, address: str | None, label: str, *, is_here: bool) -> ET.Element:
    counts = by_kind(night.outcomes)
    told = f"{minute(night.time_s)}: {'1 incident, ' if night.had_incident else ''}{counts_of(night.outcomes)}"
    worst = attention.BY_KIND[next(iter(counts))].sign if counts else ""
    worst = attention.REGRESSED.sign if night.had_incident else worst
    parts = [
        _bars(counts, most),
        element("span", worst, aria_hidden="true"),
        element("span", label, aria_hidden="true"),
        element("span", told, class_="vh"),
    ]
    if address is None:
        return element("li", element("span", *parts, title=told, class_="here" if is_here else None))
    return element("li", element("a", *parts, title=told, href=address))


def _bars(counts: Mapping[str, int], most: int) -> ET.Element:
    """The counts of one night, the worst on top."""
    bars = []
    bottom = float(_HIGH)
    for kind in reversed(list(counts)):
        height = max(_LEAST, counts[kind] / most * (_HIGH - _LEAST * len(counts)))
        bottom -= height
        bars.append(element("rect", x=1, y=round(bottom, 1), width=_WIDE - 2, height=round(height, 1), class_=kind))
    return element("svg", *bars, viewBox=f"0 0 {_WIDE} {_HIGH}", class_="column", aria_hidden="true")


def _swatch(kind: str) -> ET.Element:
    known = attention.BY_KIND[kind]
    box = element("svg", element("rect", x=1, y=1, width=8, height=8, class_=kind), viewBox="0 0 10 10")
    box.set("class", "swatch")
    box.set("aria-hidden", "true")
    return element("span", box, f" {known.sign} {known.word}")


# -- the curve of a row ----------------------------------------------------------------------------


def row_curve(row: Row) -> ET.Element | None:
    """Throughput over a row's newest nights against what the row is held against; those with errors have crosses.

    Nights that say nothing of the row are squares beside the line.
    """
    verdict = row.verdict
    nights = row.past.measured[-SHOWN:]
    if verdict is None or len(nights) < 2:
        return None
    changes = [verdict.reference_s / night.judged_s - 1 for night in nights]
    failed = [one for one in row.earlier if one.outcome == outcomes.ERROR.word and one.time_s >= nights[0].time_s]
    when = sorted([*(night.time_s for night in nights), *(one.time_s for one in failed)])
    place = {time_s: _across(number, len(when)) for number, time_s in enumerate(when)}
    low, high = in_view(changes, [0.0], _LEAST_SPAN)
    room = max(0.0, _LEAST_SPAN - (high - low)) / 2
    low, high = low - room, high + room

    def up(change: float) -> float:
        return round(_ROOM + (high - min(max(change, low), high)) / (high - low) * (_CURVE_HIGH - 2 * _ROOM), 1)

    places = [(place[night.time_s], up(change)) for night, change in zip(nights, changes, strict=True)]
    told = f"Throughput of {len(nights)} runs from {percent(min(changes))} to {percent(max(changes))}"
    told += f", {percent(changes[-1])} in the newest"
    told += f"; {len(failed)} with errors" if failed else ""
    zero = element("line", x1=0, x2=_CURVE_WIDE, y1=up(0.0), y2=up(0.0), class_="reference")
    line = element("polyline", class_="nights")
    drawn = list(zip(places, nights, strict=True))
    usual = [place for place, night in drawn if night.reason not in UNUSUAL]
    line.set("points", " ".join(f"{x:g},{y:g}" for x, y in usual))  # no text, and longer than texts may be
    marks = [_mark(place, night, row) for place, night in drawn if night.reason in UNUSUAL or night is nights[-1]]
    crosses = [arm for one in failed for arm in _cross(place[one.time_s])]
    return element(
        "svg",
        *(element("title", told), zero, line, *crosses, *marks),
        viewBox=f"0 0 {_CURVE_WIDE} {_CURVE_HIGH}",
        class_="curve",
        role="img",
        aria_label=told,
    )


def _mark(place: tuple[float, float], night: Point, row: Row) -> ET.Element:
    """A night by what it came to: a dot, or a square where it says nothing of the row."""
    x, y = place
    kind = row.kind if night.run_id == row.record.run.id else outcomes.of(night.outcome).attention.in_report.kind
    if night.reason in UNUSUAL:
        return element("rect", x=round(x - 3, 1), y=round(y - 3, 1), width=6, height=6, class_=kind)
    return element("circle", cx=x, cy=y, r=3, class_=kind)


def _across(number: int, of: int) -> float:
    return round(_ROOM + number / max(of - 1, 1) * (_CURVE_WIDE - 2 * _ROOM), 1)


def _cross(x: float) -> list[ET.Element]:
    """A night with an error, at the foot."""
    y, arm = _CURVE_HIGH - _ROOM - 1, 3
    slopes = ((y - arm, y + arm), (y + arm, y - arm))
    return [element("line", x1=x - arm, x2=x + arm, y1=y1, y2=y2, class_="failed") for y1, y2 in slopes]
