"""Pictures of a night as SVG: steps of a job, nights of a row, scaling of a workload, jobs on a time line.

A picture is shown by ``<img>``, where no style of the page reaches it and no script of its own would run: it has
presentation attributes alone, and a light ground of its own, so that it can be read on any page.
"""

from __future__ import annotations

import math
import statistics
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.performance.measurement import TimedStep, apply, select
from pytest_gsw.performance.noise import reference
from pytest_gsw.report.elements import element
from pytest_gsw.report.night import Night, Row
from pytest_gsw.results.record import Record, judged_key
from pytest_gsw.tables.statistic import parse_statistic

#: Told apart by most people (after Okabe and Ito), each 4.5 : 1 or more against the ground.
_BLUE, _RED, _GREEN, _PURPLE, _GREY, _INK = "#00609a", "#b03a00", "#00704f", "#8a3f74", "#666666", "#222222"
_GROUND, _SHADE, _GRID = "#fbfbfd", "#e8e4d6", "#d8d8de"
_WINDOW = "#cfe6d8"

#: A night that was not passed is another shape, too.
_WIDTH, _HEIGHT = 560, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 40
_FONT = "system-ui, sans-serif"

#: The newest nights of a row that are drawn, and the most steps of a job: of more, the extremes of each few.
SHOWN_NIGHTS = 200
_SHOWN_STEPS = 400

#: What a picture of times spans at least, as a share of its middle: noise of a few thousandths looks like nothing.
_LEAST_SPAN = 0.06

#: A statistic that was computed again is the recorded one if it differs by no more than this.
_SAME = 1e-9


@dataclass(frozen=True)
class Plot:
    """A picture, and what it shows in words."""

    svg: ET.Element
    alt: str


@dataclass(frozen=True)
class _Scale:
    """Values on one axis as places on the picture."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log(self.low), math.log(self.high), math.log(value))
            if self.logarithmic
            else (self.low, self.high, value)
        )
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin), 1)


def _across(low: float, high: float, *, logarithmic: bool = False) -> _Scale:
    return _Scale(low, high, _LEFT + 8, _WIDTH - _RIGHT - 8, logarithmic)


def _upright(values: Iterable[float], *, from_zero: bool = False) -> _Scale:
    """An axis that holds all of these, with room around them."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known), max(known)
    room = max((high - low) * 0.08, (_LEAST_SPAN * abs(low + high) / 2 - (high - low)) / 2, 1e-12)
    return _Scale(0.0 if from_zero else max(0.0, low - room), high + room, _HEIGHT - _BOTTOM, _TOP)


# -- a job's steps ---------------------------------------------------------------------------------


def steps_plot(record: Record) -> Plot | None:
    """Every step of the row's last job, with its warm-up and what the statistic is taken over."""
    series_s = [seconds for seconds in record.series_s if math.isfinite(seconds)]
    if len(series_s) < 2 or len(series_s) != len(record.series_s):
        return None
    warm_up = min(record.warm_up_steps, len(series_s))
    shown = series_s[warm_up:] or series_s
    x = _across(1, len(series_s))
    # A first step that compiles takes a hundred times as long: the axis is that of the steady ones, and what is beyond
    # its end stands there.
    top_s = max(max(shown), 1.5 * statistics.median(shown)) if warm_up else max(series_s)
    y = _upright([min(series_s), min(max(series_s), top_s)])
    window = window_of(record)
    marks: list[ET.Element] = []
    if warm_up:
        marks.append(_band(x(1) - 8, x(warm_up + 0.5), _SHADE, "warm-up"))
    if window is not None:
        first, last = x(window[0] + 0.5), x(window[1] + 1.5)
        marks.append(_band(first - 2, max(last, first + 4), _WINDOW, "" if first - x(1) < 60 else record.statistic))
    judged_s = record.measured.get(judged_key(record)) if not record.repeats else record.job and record.job.judged_s
    lines = [] if not judged_s else [_level(y, judged_s, _RED, f"{judged_s:.4g} s")]
    dots = _thinned([(x(number), y(seconds)) for number, seconds in enumerate(series_s, 1)])
    title = f"Seconds of each of {len(series_s)} steps"
    svg = _frame(title, y, _ticks_across(x, [1, *_round_numbers(1, len(series_s))], "{:.0f}"), "step")
    svg.extend([*marks, *lines, _line(dots, _BLUE)])
    if len(series_s) <= 80:
        svg.extend(_dot(at_x, at_y, _BLUE, 2) for at_x, at_y in dots)
    words = [f"{title}: from {min(series_s):.4g} to {max(series_s):.4g} s"]
    if warm_up:
        words.append(f"the first {warm_up} are warm-up")
    if window is not None:
        words.append(f"{record.statistic} is taken over steps {window[0] + 1} to {window[1] + 1} of the log")
    return Plot(svg, "; ".join(words))


def window_of(record: Record) -> tuple[int, int] | None:
    """The first and the last place in the series that the statistic is taken over, ``None`` where that is not known.

    A record does not keep the numbers that its log gave to its steps. They begin with 0 or 1; the beginning is right
    with which the statistic comes out as recorded.
    """
    job_s = record.job.judged_s if record.job and record.repeats else record.measured.get(judged_key(record))
    if not job_s or not record.series_s:
        return None
    try:
        statistic = parse_statistic(record.statistic)
    except ValueError:
        return None
    for first_index in (0, 1):
        steps = [TimedStep(first_index + place, seconds) for place, seconds in enumerate(record.series_s)]
        places = [TimedStep(first_index + place, place) for place in range(len(record.series_s))]
        try:
            if math.isclose(apply(statistic, steps), job_s, rel_tol=_SAME):
                chosen = select(statistic, places)
                return round(chosen[0]), round(chosen[-1])
        except ValueError:
            continue
    return None


def _thinned(places: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Places of a line, of very many the highest and the lowest of each few."""
    if len(places) <= _SHOWN_STEPS:
        return places
    each = math.ceil(2 * len(places) / _SHOWN_STEPS)
    kept: list[tuple[float, float]] = []
    for begin in range(0, len(places), each):
        few = places[begin : begin + each]
        kept += sorted({min(few, key=lambda one: one[1]), max(few, key=lambda one: one[1])})
    return kept


# -- a row's nights --------------------------------------------------------------------------------


def history_plot(row: Row) -> Plot | None:
    """The row's newest nights with their reference, what is allowed, and the first suspect night."""
    nights = row.nights[-SHOWN_NIGHTS:]
    if len(nights) < 2:
        return None
    levels = _levels(row)
    x = _across(nights[0].time_s, max(nights[-1].time_s, nights[0].time_s + 1))
    y = _upright([night.judged_s for night in nights] + [value for value, _, _ in levels])
    title = f"Seconds of {len(nights)} nights"
    svg = _frame(title, y, _day_ticks(x), "")
    frozen = reference([night.time_s for night in row.nights], row.start)
    marked = [time_s for time_s in frozen if time_s >= nights[0].time_s]
    if len(marked) > 1:
        svg.append(_band(x(marked[0]) - 4, x(marked[-1]) + 4, _SHADE, "reference"))
    svg.extend(_level(y, value, colour, text) for value, colour, text in levels)
    svg.append(_line([(x(night.time_s), y(night.judged_s)) for night in nights], "#9ab4c8"))
    svg.extend(_night_mark(x(night.time_s), y(night.judged_s), night.outcome) for night in nights)
    words = [f"{title} on {row.record.cluster}, the newest {nights[-1].judged_s:.4g} s"]
    words += [f"{text} {value:.4g} s" for value, _, text in levels]
    suspect = row.drifting.since if row.drifting else None
    if suspect is not None and suspect.time_s >= nights[0].time_s:
        at = x(suspect.time_s)
        svg.append(element("line", x1=at, x2=at, y1=_TOP, y2=_HEIGHT - _BOTTOM, stroke=_PURPLE, stroke_width=1.5))
        side = {"x": at - 4, "text_anchor": "end"} if at > _WIDTH / 2 else {"x": at + 4}
        svg.append(_text("slower since here", y=_HEIGHT - _BOTTOM - 6, fill=_PURPLE, **side))
        words.append(f"slower since about {_day(suspect.time_s)}")
    return Plot(svg, "; ".join(words))


def _levels(row: Row) -> list[tuple[float, str, str]]:
    """The seconds that nights are held against, each with its colour and what it is."""
    judged = judged_key(row.record)
    documented, accepted = row.record.documented.get(judged), row.record.accepted.get(judged)
    verdict = row.verdict
    allowed = row.record.limit or row.record.tolerance
    if verdict is not None:
        allowed = verdict.tolerance if verdict.limit is None else verdict.limit
    held = accepted or documented
    known = (
        (documented, _GREEN, "documented"),
        (accepted, _BLUE, "accepted"),
        (held / (1 - allowed) if held and 0 < allowed < 1 else None, _RED, "limit"),
    )
    return [(value, colour, text) for value, colour, text in known if value]


def _night_mark(x: float, y: float, outcome: str) -> ET.Element:
    """A night: a dot; a triangle where it regressed, a square where nobody knows, a diamond where it was faster."""
    shapes = {
        "regressed": (_RED, ((-4.5, 4), (4.5, 4), (0, -5))),
        "inconclusive": (_PURPLE, ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5))),
        "improved": (_GREEN, ((0, -5), (4.5, 0), (0, 5), (-4.5, 0))),
    }
    if outcome not in shapes:
        return _dot(x, y, _BLUE, 2.5)
    colour, corners = shapes[outcome]
    points = " ".join(f"{round(x + dx, 1)},{round(y + dy, 1)}" for dx, dy in corners)
    return element("polygon", points=points, fill=colour)


# -- a workload's scaling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """One figure over GPU counts, measured and documented."""

    name: str
    measured: Sequence[tuple[int, float]]
    documented: Sequence[tuple[int, float]]


def scaling_plot(title: str, unit: str, curves: Sequence[Curve], *, logarithmic: bool) -> Plot | None:
    """Curves over GPU counts: measured ones are drawn through, documented ones dashed.

    Args:
        title: What is drawn.
        unit: How to write its values, a format.
        curves: One for each dtype.
        logarithmic: Whether the values grow with the GPUs, as throughput does.
    """
    points = [point for curve in curves for point in (*curve.measured, *curve.documented)]
    gpus = sorted({number for number, _ in points})
    if len(gpus) < 2:
        return None
    values = [value for _, value in points]
    x = _across(gpus[0], gpus[-1], logarithmic=True)
    y = (
        _Scale(min(values) / 1.2, max(values) * 1.2, _HEIGHT - _BOTTOM, _TOP, logarithmic=True)
        if logarithmic
        else _upright(values, from_zero=True)
    )
    ticks = [(x(number), f"{number:,}") for number in gpus]
    kept = [tick for place, tick in enumerate(ticks) if not place or tick[0] - ticks[place - 1][0] > 30]
    svg = _frame(title, y, kept, "GPUs", unit)
    colours = (_BLUE, _RED, _GREEN, _PURPLE)
    for number, curve in enumerate(curves):
        colour = colours[number % len(colours)]
        svg.append(_line([(x(at), y(value)) for at, value in curve.documented], colour, dashes="5 4"))
        svg.append(_line([(x(at), y(value)) for at, value in curve.measured], colour))
        svg.extend(_dot(x(at), y(value), colour, 3) for at, value in curve.measured)
        svg.append(_text(curve.name, x=_LEFT + 10, y=_TOP + 14 + 15 * number, fill=colour))
    return Plot(svg, f"{title} over {gpus[0]:,} to {gpus[-1]:,} GPUs; measured drawn through, documented dashed")


# -- a night's jobs --------------------------------------------------------------------------------

_BAR, _MOST_BARS = 9, 400


def jobs_plot(night: Night) -> Plot | None:
    """The night's jobs over time: how long each waited, and how long it ran. The one that ended last comes last."""
    jobs = [
        (row, job)
        for row in night.rows
        for job in row.jobs
        if job.end_s and (job.start_s or job.submit_s) and job.end_s >= (job.submit_s or job.start_s or 0)
    ]
    if not jobs:
        return None
    begin_s = min(job.submit_s or job.start_s or 0.0 for _, job in jobs)
    end_s = max(job.end_s or 0.0 for _, job in jobs)
    jobs = sorted(jobs, key=lambda one: -(one[1].end_s or 0.0))[:_MOST_BARS][::-1]
    bottom = _TOP + _BAR * len(jobs) + 4
    x = _Scale(0.0, max(end_s - begin_s, 1.0) / 60, 12, _WIDTH - _RIGHT)
    title = f"Jobs of the night: {len(jobs)}" + (" that ended last" if len(jobs) == _MOST_BARS else "")
    svg = _ground(title, bottom + _BOTTOM)
    for place, text in _ticks_across(x, _round_numbers(x.low, x.high), "{:g}"):
        svg.append(element("line", x1=place, x2=place, y1=_TOP, y2=bottom, stroke=_GRID))
        svg.append(_text(text, x=place, y=bottom + 16, text_anchor="middle"))
    svg.append(_text("minutes since the first job was submitted", x=_WIDTH / 2, y=bottom + 33, text_anchor="middle"))
    for number, (row, job) in enumerate(jobs):
        top = _TOP + 2 + _BAR * number
        ended = x(((job.end_s or 0.0) - begin_s) / 60)
        started = x(((job.start_s or job.submit_s or 0.0) - begin_s) / 60)
        submitted = x(((job.submit_s or job.start_s or 0.0) - begin_s) / 60)
        failed = row.kind == "error" or bool(job.why_repeated and job.judged_s is None)
        waiting = max(started - submitted, 0.0)
        svg.append(element("rect", x=submitted, y=top + 2, width=round(waiting, 1), height=3, fill="#a8a8b0"))
        bar = element(
            "rect",
            element("title", f"{row.record.row} job {job.id} {job.state}"),
            x=started,
            y=top,
            width=round(max(ended - started, 1.0), 1),
            height=_BAR - 2,
            fill=_RED if failed else _BLUE,
        )
        svg.append(bar)
    return Plot(svg, f"{title}; thin bars are time in the queue, thick ones run time, red ones failed")


# -- what pictures share ---------------------------------------------------------------------------


def _ground(title: str, height: float) -> ET.Element:
    return element(
        "svg",
        element("title", title),
        element("rect", width=_WIDTH, height=height, fill=_GROUND),
        _text(title, x=12, y=19, font_weight="600", font_size=13),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height:g}",
        width=_WIDTH,
        height=height,
        font_family=_FONT,
        font_size=12,
        fill=_INK,
    )


def _frame(title: str, y: _Scale, across: Iterable[tuple[float, str]], x_title: str, unit: str = "") -> ET.Element:
    svg = _ground(title, _HEIGHT)
    numbers = _powers(y.low, y.high) if y.logarithmic else _round_numbers(y.low, y.high)
    for value in numbers:
        at = y(value)
        svg.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at, stroke=_GRID))
        svg.append(_text(unit.format(value) if unit else f"{value:g}", x=_LEFT - 6, y=at + 4, text_anchor="end"))
    svg.extend(_text(text, x=place, y=_HEIGHT - _BOTTOM + 17, text_anchor="middle") for place, text in across)
    if x_title:
        svg.append(_text(x_title, x=(_LEFT + _WIDTH) / 2, y=_HEIGHT - 6, text_anchor="middle"))
    return svg


def _text(text: str, **attributes: str | float) -> ET.Element:
    return element("text", text, **attributes)


def _line(places: Sequence[tuple[float, float]], colour: str, dashes: str | None = None) -> ET.Element:
    points = " ".join(f"{x:g},{y:g}" for x, y in places)
    return element("polyline", points=points, fill="none", stroke=colour, stroke_width=1.5, stroke_dasharray=dashes)


def _dot(x: float, y: float, colour: str, radius: float) -> ET.Element:
    return element("circle", cx=x, cy=y, r=radius, fill=colour)


def _band(begin: float, end: float, colour: str, text: str) -> ET.Element:
    """What is special of a stretch, named at its head."""
    shade = element("rect", x=begin, y=_TOP, width=round(end - begin, 1), height=_HEIGHT - _BOTTOM - _TOP, fill=colour)
    return element("g", shade, _text(text, x=begin + 3, y=_TOP + 12, fill=_GREY) if text else None)


def _level(y: _Scale, value: float, colour: str, text: str) -> ET.Element:
    at = y(value)
    across = element(
        "line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at, stroke=colour, stroke_width=1.5, stroke_dasharray="6 4"
    )
    return element("g", across, _text(text, x=_WIDTH - _RIGHT, y=at - 4, text_anchor="end", fill=colour))


def _ticks_across(x: _Scale, values: Iterable[float], form: str) -> list[tuple[float, str]]:
    kept: list[tuple[float, str]] = []
    for value in values:
        if not kept or x(value) - kept[-1][0] > 24:
            kept.append((x(value), form.format(value)))
    return kept


def _day_ticks(x: _Scale) -> list[tuple[float, str]]:
    """Up to five days, the first and the last among them."""
    span_s = x.high - x.low
    wanted = [x.low + span_s * part / 4 for part in range(5)]
    ticks: list[tuple[float, str]] = []
    for time_s in wanted:
        if all(text != _day(time_s) for _, text in ticks):
            ticks.append((min(max(x(time_s), _LEFT + 20), _WIDTH - 46), _day(time_s)))
    return ticks


def _day(time_s: float) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.localtime(time_s))
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return ""


def _round_numbers(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from one to another, about so many."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    each = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / each - 1e-9), math.floor(high / each + 1e-9)
    return [round(number * each, 12) for number in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 times a power of ten between two; of many, the powers alone."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(exponents) <= 3 else (1,)
    return [
        factor * 10.0**exponent
        for exponent in exponents
        for factor in factors
        if low <= factor * 10.0**exponent <= high
    ]
