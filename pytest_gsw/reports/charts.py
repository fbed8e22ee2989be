"""Pictures as SVG in the page, each with its legend: axes, frames and marks; a row's steps and runs; scaling.

A picture is as wide as the page, and its text is as large as the page's: places from left to right are percentages,
those from top to bottom are pixels. Its colours are those of the page's style sheet, by classes. Each colour has a
shape or an entry of the legend as well, and no text is at a place where points may be.
"""

from __future__ import annotations

import enum
import math
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from operator import itemgetter

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import day, minute, named, plural, share
from pytest_gsw.reports.html import element, listing, plain
from pytest_gsw.reports.reported_row import ReportedRow, device, is_implausible, is_slow
from pytest_gsw.reports.run_report import RunListEntry
from pytest_gsw.results import attention, row_text
from pytest_gsw.results.outcomes import OUTCOMES
from pytest_gsw.results.record import Record
from pytest_gsw.stats.measurement import TimedStep, apply, select
from pytest_gsw.stats.noise import reference
from pytest_gsw.stats.verdict import UNUSUAL
from pytest_gsw.tables import metrics
from pytest_gsw.tables.model import parse_statistic

#: Pixels from the top: the whole picture, and the beginning and end of its data.
HEIGHT, TOP, FLOOR = 240, 10, 194

#: The middle of marks without a value: they are on the lower edge.
EDGE = FLOOR - 7

#: The least span of an axis of times, as a share of its middle: noise of a few thousandths must look small.
LEAST_SPAN = 0.06

#: The share of values at either end that may be outliers, and how many times the span of all others they must be
#: away: the others have at least a tenth of the picture.
_FEW, _FAR = 0.05, 9

#: The least percentage between two labels of an axis: on large screens, and on phones.
_ROOM, _ROOM_ON_PHONES = 6.5, 16.0

#: Corners of marks around their middle. A dot has none; a cross is one polygon.
_CORNERS = {
    "up": ((-5, 4), (5, 4), (0, -5.5)),
    "down": ((-5, -4), (5, -4), (0, 5.5)),
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "diamond": ((0, -5.5), (5, 0), (0, 5.5), (-5, 0)),
    "bar": ((-5, -2), (5, -2), (5, 2), (-5, 2)),
    "post": ((-2, -5), (2, -5), (2, 5), (-2, 5)),
    "cross": (
        *((-5, -3.5), (-3.5, -5), (0, -1.5), (3.5, -5), (5, -3.5), (1.5, 0)),
        *((5, 3.5), (3.5, 5), (0, 1.5), (-3.5, 5), (-5, 3.5), (-1.5, 0)),
    ),
}


@dataclass(frozen=True)
class Scale:
    """Values on one axis as places on the picture; a value beyond an end is placed there."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin), 1)


def across(low: float, high: float, *, logarithmic: bool = False) -> Scale:
    """An axis from left to right, in percent."""
    return Scale(low, high, 1.0, 99.0, logarithmic)


def upright(values: Iterable[float], *, logarithmic: bool = False) -> Scale:
    """An axis from the bottom to the top that holds all of these finite values (above zero on a logarithmic one)."""
    known = list(values)
    low, high = min(known), max(known)
    if logarithmic:
        return Scale(low / 1.3, high * 1.3, FLOOR, TOP, logarithmic=True)
    room = max((high - low) * 0.08, (LEAST_SPAN * abs(low + high) / 2 - (high - low)) / 2, 1e-12)
    return Scale(max(0.0, low - room), high + room, FLOOR, TOP)


def in_view(values: Iterable[float], levels: Iterable[float], least: float) -> tuple[float, float]:
    """The lowest and the highest value of an axis: an outlier takes no room from all others.

    Args:
        values: The values to draw; those beyond are placed at the axis's end.
        levels: Their references: always on the axis.
        least: The least span of the axis.
    """
    known = sorted(values)
    last = len(known) - 1
    most = [*levels, *known[math.ceil(_FEW * last) : math.floor((1 - _FEW) * last) + 1]] or known
    low, high = min(most), max(most)
    room = _FAR * max(high - low, least)
    seen = [*most, *(value for value in known if low - room <= value <= high + room)]
    return min(seen), max(seen)


def frame(y: Scale, x_ticks: Iterable[ET.Element], x_title: str = "") -> ET.Element:
    """A picture with its axes: lines across at round numbers, and places from left to right."""
    svg = element("svg", height=HEIGHT if x_title else HEIGHT - 18)
    for value in _powers(y.low, y.high) if y.logarithmic else round_numbers(y.low, y.high):
        at = y(value)
        svg.append(element("line", x1=0, x2="100%", y1=at, y2=at, class_="grid"))
        svg.append(element("text", _short(value), x=-6, y=at + 4, class_="y"))
    svg.extend(x_ticks)
    if x_title:
        svg.append(element("text", x_title, x="50%", y=HEIGHT - 8, class_="x"))
    return svg


def line(places: Iterable[tuple[float, float]], kind: str) -> ET.Element:
    """A line through places, of a class of the style sheet."""
    drawn = element("polyline", class_=kind)
    # Not a text, and longer than texts may be.
    drawn.set("points", " ".join(f"{10 * x:.0f},{y:.0f}" for x, y in places))
    # Points of a line are no percentages: it is stretched, and its stroke is not.
    stretched = {"viewBox": f"0 0 1000 {HEIGHT}", "preserveAspectRatio": "none"}
    wide = ET.Element("svg", {**stretched, "width": "100%", "height": f"{HEIGHT}"})
    wide.append(drawn)
    return wide


def point(x: float, y: float, told: str, kind: str = "", shape: str = "", link: str | None = None) -> ET.Element:
    """A point with its text under the mouse, and a link.

    Args:
        x: Its place, percent.
        y: Its place, pixels.
        told: Its value with the unit, and its run or row.
        kind: A class of the style sheet.
        shape: One of :data:`_CORNERS`; empty for a dot.
        link: The address of a page.
    """
    # By hand: a page has hundreds of them, and a report hundred thousands.
    title = ET.Element("title")
    title.text = plain(told)
    if shape:
        # Corners are pixels around a place in percent.
        drawn = ET.Element("svg", {"x": f"{x:g}%", "y": f"{y:.0f}"})
        drawn.append(polygon(shape))
    else:
        drawn = ET.Element("circle", {"cx": f"{x:g}%", "cy": f"{y:.0f}"})
    if kind:
        drawn.set("class", kind)
    drawn.append(title)
    return drawn if link is None else element("a", drawn, href=link, aria_label=told)


def polygon(shape: str, x: float = 0, y: float = 0, kind: str | None = None) -> ET.Element:
    """A shape around a place in pixels."""
    places = " ".join(f"{x + dx:g},{y + dy:g}" for dx, dy in _CORNERS[shape])
    return element("polygon", points=places, class_=kind)


def band(begin: float, end: float, kind: str) -> ET.Element:
    """A coloured stretch, from one percentage to another."""
    wide = f"{max(end - begin, 0.4):.1f}%"
    return element("rect", x=f"{begin:g}%", y=TOP, width=wide, height=FLOOR - TOP, class_=kind)


def level(y: float, kind: str, told: str) -> ET.Element:
    """A line across the picture at a value."""
    return element("line", element("title", told), x1=0, x2="100%", y1=y, y2=y, class_=kind)


def post(x: float, kind: str, told: str) -> ET.Element:
    """A line from top to bottom at a place."""
    at = f"{x:g}%"
    return element("line", element("title", told), x1=at, x2=at, y1=TOP, y2=FLOOR, class_=kind)


def key(text: str, kind: str, shape: str = "") -> ET.Element:
    """An entry of a legend: a shape of the picture (``line``, ``band``, or that of its marks), and its meaning."""
    if shape == "line":
        drawn = element("line", x1=0, x2=18, y1=6, y2=6, class_=kind)
    elif shape == "band":
        drawn = element("rect", x=1, y=1, width=16, height=10, class_=kind)
    else:
        drawn = polygon(shape, 9, 6, kind=kind) if shape in _CORNERS else element("circle", cx=9, cy=6, class_=kind)
    return element("li", element("svg", drawn, width=18, height=12, aria_hidden="true"), text)


def ticks(x: Scale, values: Iterable[float]) -> list[ET.Element]:
    """The labels of an axis at some values, without those that would overlap."""
    return named_ticks([(x(value), f"{value:,.10g}") for value in values])


def named_ticks(places: Iterable[tuple[float, str]], wide: float = 1) -> list[ET.Element]:
    """The labels of an axis at some places, without those that would overlap.

    Args:
        places: From left to right, percent, each with its label.
        wide: The width of a label; 1 is one of five letters.
    """
    kept: list[ET.Element] = []
    last = last_on_phones = -math.inf
    for place, what in places:
        if place - last <= _ROOM * wide:
            continue
        last = place
        on_phones = place - last_on_phones > _ROOM_ON_PHONES * wide
        last_on_phones = place if on_phones else last_on_phones
        classes = ["x", "" if on_phones else "roomy", "last" if place > 97 else ""]
        kept.append(element("text", what, x=f"{place:g}%", y=FLOOR + 19, class_=" ".join(filter(None, classes))))
    return kept


def figure(title: str, svg: ET.Element, alt: str, legend: Sequence[ET.Element] = ()) -> ET.Element:
    """A picture on a page, with its title, its description in words, and its legend."""
    # A picture with links must not be an image to screen readers.
    svg.set("role", "group" if svg.find(".//a") is not None else "img")
    svg.set("aria-label", plain(alt))
    return element("figure", element("figcaption", title), listing(legend, "legend"), svg, class_="plot")


def round_numbers(low: float, high: float) -> Sequence[float]:
    """Round numbers from one to another, about four."""
    if not high > low:
        return [low]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    each = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough)
    first, last = math.ceil(low / each - 1e-9), math.floor(high / each + 1e-9)
    return [round(number * each, 12) for number in range(first, last + 1)]


def _powers(low: float, high: float) -> Sequence[float]:
    """The numbers 1, 2 and 5 times a power of ten between two; of many, the powers alone."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(exponents) <= 3 else (1,)
    values = (factor * 10.0**exponent for exponent in exponents for factor in factors)
    return [value for value in values if low <= value <= high]


def _short(value: float) -> str:
    """A number in few letters: ``2.5``, ``200k``, ``1.5M``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (abs(value) >= size and unit != "k"):
            return f"{value / size:g}{unit}"
    return f"{value:g}"


#: The most runs of a row, and the most steps of a job, that are drawn: of more steps, the extremes of each few.
SHOWN_RUNS = 200
_SHOWN_STEPS = 400
#: The most steps of a job that have a dot each.
_DOTTED_STEPS = 120

#: No time and no figure is as large.
MOST = 1e15

#: The most runs beyond the picture whose values are in its title.
_NAMED_BEYOND = 3

#: A statistic that was computed again is the recorded one if it differs by no more than this.
_SAME = 1e-9

#: The class and the shape of runs that have not passed, by the words of outcomes, the worst first.
_DRAWN = {
    outcome_kind.word: (outcome_kind.attention.in_report.kind, outcome_kind.attention.shape)
    for outcome_kind in sorted(OUTCOMES, key=lambda outcome_kind: -outcome_kind.severity)
    if outcome_kind.attention.shape
}


# -- a job's steps ---------------------------------------------------------------------------------


def steps_plot(record: Record) -> ET.Element | None:
    """Every step of the row's last job, with its warm-up and the steps of the statistic."""
    series_s = record.timing.series_s
    if len(series_s) < 2 or not all(map(can_be_drawn, series_s)):
        return None
    warm_up = min(record.timing.warm_up_steps, len(series_s))
    x = across(1, len(series_s))
    # A first step that compiles takes a hundred times as long: the axis is that of the others; it is at the end.
    y = upright(series_s[warm_up:] or series_s)
    window, judged = window_of(record), _seconds_of_job(record)
    statistic = record.timing.statistic
    unit = (record.judged_metric.series or metrics.Series.STEPS).value
    title = f"Each of {len(series_s):,} {unit}s (s)"
    svg = frame(y, ticks(x, [1, *round_numbers(1, len(series_s))]), unit)
    legend = [key(f"{unit} time", "one")]
    if warm_up > 0:
        svg.insert(0, band(0, x(warm_up + 0.5), "shade"))
        legend.append(key("warm-up", "shade", "band"))
    if window is not None:
        svg.insert(0, band(x(window[0] + 0.5), x(window[1] + 1.5), "window"))
        legend.append(key(f"{unit}s that are judged ({statistic})", "window", "band"))
    places = [(x(number), y(seconds)) for number, seconds in enumerate(series_s, 1)]
    if judged:
        told = f"{statistic or 'measured'} {judged:.4g} s"
        svg.append(level(y(judged), "held", told))
        legend.append(key(told, "held", "line"))
    svg.append(line(_thin_out(places), "one"))
    if len(series_s) <= _DOTTED_STEPS:
        svg.extend(
            point(*place, f"{unit} {number}: {seconds:.4g} s")
            for number, (place, seconds) in enumerate(zip(places, series_s, strict=True), 1)
        )
    words = [
        f"{title}, from {min(series_s):.4g} to {max(series_s):.4g} s",
        f"the first {warm_up} are warm-up" if warm_up else "",
        f"{statistic} is taken over lines {window[0] + 1} to {window[1] + 1}" if window else "",
        f"it is {judged:.4g} s" if judged and window else "",
    ]
    return figure(title, svg, "; ".join(filter(None, words)), legend)


def window_of(record: Record) -> tuple[int, int] | None:
    """The first and the last place in the series that the statistic is taken over, ``None`` if unknown.

    A record does not keep the numbers that its log gave to its steps. They begin with 0 or 1; the beginning is right
    with which the statistic comes out as recorded.
    """
    judged = _seconds_of_job(record)
    if not judged or not record.timing.statistic:
        return None
    try:
        statistic = parse_statistic(record.timing.statistic)
    except ValueError:
        return None
    for first_index in (0, 1):
        numbers = range(first_index, first_index + len(record.timing.series_s))
        steps = [TimedStep(number, seconds) for number, seconds in zip(numbers, record.timing.series_s, strict=True)]
        try:
            if math.isclose(apply(statistic, steps), judged, rel_tol=_SAME):
                # The selection of steps does not depend on their seconds: their places stand in for them.
                chosen = select(statistic, [TimedStep(number, number - first_index) for number in numbers])
                return round(chosen[0]), round(chosen[-1])
        except ValueError:
            continue
    return None


def _seconds_of_job(record: Record) -> float | None:
    """The measured seconds of the series' job, ``None`` if unknown."""
    if record.jobs.last is not None and record.jobs.last.judged is not None:
        return record.jobs.last.judged
    return None if record.jobs.repeats else record.measured


def _thin_out(places: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The places of a line; of very many, the highest and the lowest of each few."""
    if len(places) <= _SHOWN_STEPS:
        return places
    each = math.ceil(2 * len(places) / _SHOWN_STEPS)
    few = (places[begin : begin + each] for begin in range(0, len(places), each))
    return [place for some in few for place in sorted({min(some, key=itemgetter(1)), max(some, key=itemgetter(1))})]


# -- a row's runs --------------------------------------------------------------------------------


def history_plot(row: ReportedRow, pages: Mapping[str, str] | None = None) -> ET.Element | None:
    """The row's newest runs with their reference, the limit, and the first suspect run.

    For a row that is as before, the line stands for runs that passed.

    Args:
        row: The row.
        pages: By run, the address of the row's page in it; empty for the page with the picture.
    """
    possible = (run for run in row.past.measured if can_be_drawn(run.time_s) and can_be_drawn(run.judged))
    points = tuple(possible)[-SHOWN_RUNS:]
    if not points:
        return None
    first_s = points[0].time_s
    failed = [one for one in row.failures if can_be_drawn(one.time_s) and one.time_s >= first_s]
    if len(points) + len(failed) < 2:
        return None
    last_s = max([points[-1].time_s, *(row_outcome.time_s for row_outcome in failed)])
    levels = _levels(row)
    addresses = {run_id: address for run_id, address in (pages or {}).items() if address}
    x = across(first_s, max(last_s, first_s + 1))
    metric = row.record.judged_metric
    held, numbers = [value for value, *_ in levels], [run.judged for run in points]
    view = in_view(numbers, held, LEAST_SPAN * max(held, default=0.0))
    y = upright(view)
    title = f"{metric.label[0].upper()}{metric.label[1:]} of {plural(len(points), 'run')} ({metric.unit})"
    title += f", {metric.direction.value}"
    if beyond := [metric.text(value) for value in numbers if not view[0] <= value <= view[1]]:
        title += f"; beyond the picture: {named(beyond, _NAMED_BEYOND)}"
    svg, legend = frame(y, _days(x)), []
    frozen = [time_s for time_s in reference([run.time_s for run in row.past.counted]) if time_s >= first_s]
    if len(frozen) > 1:
        svg.insert(0, band(max(x(frozen[0]) - 0.4, 0), x(frozen[-1]) + 0.4, "shade"))
        legend.append(key("runs of the reference", "shade", "band"))
    for value, kind, name in levels:
        told = f"{name} {metric.text(value)}"
        svg.append(level(y(value), kind, told))
        legend.append(key(told, kind, "line"))
    suspect = row.drifting.first if row.drifting else None
    slower = "" if suspect is None or suspect.time_s < first_s else f"slower since about {minute(suspect.begin_s)}"
    if suspect is not None and slower:
        svg.append(post(x(suspect.time_s), "suspect", slower))
        legend.append(key(slower, "suspect", "line"))
    places = [(x(run.time_s), y(value)) for run, value in zip(points, numbers, strict=True)]
    usual = [place for place, run in zip(places, points, strict=True) if run.reason not in UNUSUAL]
    svg.append(line(usual, "pale"))
    for one in failed:
        fact, job = "", None
        if one.run_id == row.record.run.id:
            fact, job = row.record.fact, row.record.jobs.last
        said = [f"error: {fact}" if fact else "error", f"job {job.id}" if job and job.id else "", minute(one.time_s)]
        told = ", ".join(filter(None, said))
        svg.append(point(x(one.time_s), EDGE, told, "error", "cross", link=addresses.get(one.run_id)))
    outcomes = [run.outcome for run in points]
    for place, run in zip(places, points, strict=True):
        if row.is_as_before and run.outcome not in _DRAWN and run.reason not in UNUSUAL and run is not points[-1]:
            continue
        jobs = "job" if run.jobs == 1 else "median of jobs"
        told = f"{metric.text(run.judged)}, {minute(run.time_s)}, {jobs} {run.job_id}"
        drawn = _DRAWN.get(run.outcome)
        told += f", {run.outcome}" if drawn else ""
        told += f": {run.reason}" if run.reason in UNUSUAL else ""
        kind, mark = drawn or ("", "")
        svg.append(point(*place, told, kind, mark, addresses.get(run.run_id)))
    marks = [key(outcome, *drawn) for outcome, drawn in _DRAWN.items() if outcome in outcomes]
    marks += [key("error", "error", "cross")] if failed else []
    passed = [key("passed", "one")] if any(outcome not in _DRAWN for outcome in outcomes) else []
    words = [f"{title}, the newest {metric.text(numbers[-1])}"]
    words += [f"{name} {metric.text(value)}" for value, _, name in levels]
    words += [f"{outcomes.count(outcome)} {outcome}" for outcome in _DRAWN if outcome in outcomes]
    words += [f"{plural(len(failed), 'run')} with an error"] if failed else []
    return figure(title, svg, "; ".join(filter(None, [*words, slower])), [*passed, *marks, *legend])


def _levels(row: ReportedRow) -> list[tuple[float, str, str]]:
    """The references of runs in the metric's unit, each with its class and its name."""
    record, verdict = row.record, row.record.judged
    documented, accepted = map(record.judged_of, (record.figures.documented, record.figures.accepted))
    allowed = (record.limit or record.row.tolerance) if verdict is None else verdict.allowed
    held, direction = accepted or documented, record.judged_metric.direction
    known = (
        (documented, "documented", "documented"),
        (accepted, "accepted", "accepted"),
        (direction.slowed(held, -math.log1p(-allowed)) if held and 0 < allowed < 1 else None, "limit", "limit"),
    )
    return [(value, kind, name) for value, kind, name in known if value and can_be_drawn(value)]


def _days(x: Scale) -> list[ET.Element]:
    """Up to five days, the first and the last among them; times if all are of one day."""
    of_one_day = day(x.low) == day(x.high)
    names: dict[str, float] = {}
    for part in range(5):
        time_s = x.low + (x.high - x.low) * part / 4
        names.setdefault(minute(time_s).rpartition(" ")[2] if of_one_day else day(time_s), x(time_s))
    return named_ticks(((place, name) for name, place in names.items()), wide=1 if of_one_day else 2)


def can_be_drawn(value: float) -> bool:
    """True if an axis can have a value: a record may have any."""
    return 0 <= value < MOST


# -- the share of good rows ------------------------------------------------------------------------


def trend_plot(runs: Iterable[RunListEntry]) -> ET.Element | None:
    """The share of rows in each run that need no attention, over time; sweeps are left out."""
    known = [(run.time_s, run.good_percent) for run in runs if run.outcomes and can_be_drawn(run.time_s)]
    if len(known) < 2:
        return None
    x, y = across(known[0][0], known[-1][0]), Scale(min(90.0, *(good for _, good in known)), 100.0, FLOOR, TOP)
    title = f"Rows that need no attention in {plural(len(known), 'run')} (%)"
    svg = frame(y, _days(x))
    svg.append(line([(x(time_s), y(good)) for time_s, good in known], "one"))
    svg.extend(point(x(time_s), y(good), f"{minute(time_s)}: {good:.1f} %") for time_s, good in known)
    return figure(title, svg, f"{title}, the newest {known[-1][1]:.1f}")


# -- how workloads scale ---------------------------------------------------------------------------


#: The class and the shape of each curve of a picture.
CURVES = (("one", ""), ("two", "diamond"), ("three", "bar"), ("four", "post"))
#: The efficiencies on the axes of all pictures, percent: a loss looks as large in one as in another.
_EFFICIENCIES = (80.0, 100.0)


def scaling_plot(workload: str, curves: Sequence[Curve]) -> ET.Element | None:
    """Curves of one rule over GPU counts, as many as there are shapes: measured ones solid, documented ones dashed.

    Weak scaling is an efficiency per GPU, in percent of that on the fewest GPUs; strong scaling is a speed-up.
    """
    weak, device = curves[0].rule is Rule.WEAK, curves[0].device
    factor = 100.0 if weak else 1.0
    drawn = [
        (
            curve,
            [(row, value * factor) for row in curve.rows if (value := curve.measured(row))],
            [(row, value * factor) for row in curve.rows if (value := curve.documented(row))],
        )
        for curve in curves
    ]
    gpus = sorted({row.record.row.gpus for _, *both in drawn for points in both for row, _ in points})
    if len(gpus) < 2:
        return None
    ideal = [(row.record.row.gpus, curve.ideal(row) * factor) for curve in curves for row in curve.rows]
    values = [value for _, *both in drawn for points in both for _, value in points] + [value for _, value in ideal]
    x = across(gpus[0], gpus[-1], logarithmic=True)
    y = upright([*values, *_EFFICIENCIES] if weak else values, logarithmic=not weak)
    title = f"{f'Efficiency per {device} (%)' if weak else 'Speed-up'} of {workload}"
    svg = frame(y, ticks(x, gpus), f"{device}s")
    if weak:
        svg.append(level(y(100.0), "pale", "ideal: 100 %"))
    else:
        svg.append(line([(x(at), y(value)) for at, value in sorted(set(ideal))], "pale"))
    legend, points = [], []
    for (curve, measured, documented), (kind, shape) in zip(drawn, CURVES, strict=False):
        svg.append(line([(x(row.record.row.gpus), y(value)) for row, value in documented], f"{kind} stated"))
        svg.append(line([(x(row.record.row.gpus), y(value)) for row, value in measured], kind))
        for row, value in measured:
            stated = curve.documented(row)
            told = f"{row.record.row.id}: {ratio_text(curve, value / factor)}"
            told += f", documented {ratio_text(curve, stated)}" if stated else ""
            place, needs = (x(row.record.row.gpus), y(value)), row.needs
            told += f", {needs.word}" if needs.shape else ""
            drawn_as = (needs.kind, needs.shape) if needs.shape else (kind, shape)
            points.append((bool(needs.shape), point(*place, told, *drawn_as, link=row.address)))
        for row, why, kind_of_row in _without_value(curve):
            place = x(row.record.row.gpus), EDGE
            told = f"{row.record.row.id}: {why}"
            svg.append(point(*place, told, kind_of_row, "cross", link=row.address))
        legend.append(key(curve.name, kind, shape))
    # Rows that did not pass are on top of all others.
    svg.extend(drawn for _, drawn in sorted(points, key=itemgetter(0)))
    legend += _of_outcomes(curves)
    legend += [key("documented", "stated", "line"), key("ideal", "pale", "line")]
    alt = f"{title} over {gpus[0]:,} to {gpus[-1]:,} {device}s; measured drawn through, documented dashed"
    return figure(title, svg, alt, legend)


def _without_value(curve: Curve) -> list[tuple[ReportedRow, str, str]]:
    """The rows without a value, each with the reason and a class."""
    errors = [
        (row, f"error: {row.record.fact}", attention.ERROR.kind) for row in curve.rows if row.needs is attention.ERROR
    ]
    doubted = [row for row in curve.rows if is_implausible(row.record)]
    return [*errors, *((row, f"not believed: {row.record.reason}", attention.INCONCLUSIVE.kind) for row in doubted)]


def _of_outcomes(curves: Sequence[Curve]) -> list[ET.Element]:
    """The legend of crosses and of rows that have not passed."""
    rows = [row for curve in curves for row in curve.rows]
    needs = {row.needs for row in rows if row.needs.shape and not is_implausible(row.record)}
    legend = [key(need.word, need.kind, need.shape) for need in attention.ATTENTIONS if need in needs]
    if any(is_implausible(row.record) for row in rows):
        legend.append(key("not believed", attention.INCONCLUSIVE.kind, "cross"))
    if any(row.needs is attention.ERROR for row in rows):
        legend.append(key("could not be measured", attention.ERROR.kind, "cross"))
    return legend


def ratio_text(curve: Curve, ratio: float) -> str:
    """An efficiency as a percentage, or a speed-up as a factor."""
    return share(ratio) if curve.rule is Rule.WEAK else f"{ratio:.2f}x"


#: Settings that depend on the number of GPUs: rows of one curve may differ in them.
_WITH_GPUS = frozenset({"dp", "fsdp", "gas"})


class Rule(enum.Enum):
    """The quantity that is constant along a curve: samples per GPU (weak), or samples (strong)."""

    WEAK = "weak"
    STRONG = "strong"


@dataclass(frozen=True)
class Curve:
    """Comparable rows: one of each number of GPUs, the smallest first."""

    rule: Rule
    name: str
    rows: tuple[ReportedRow, ...]
    #: Samples per GPU of weak scaling, samples of strong scaling.
    batch: Fraction

    @cached_property
    def base(self) -> ReportedRow:
        """The reference of the other rows: the first that is as fast as documented.

        If there is none, it is the first that passed by an accepted figure, else the first plausible one.
        """
        believed = [row for row in self.rows if measured_rate(row)]
        fast = [row for row in believed if not is_slow(row.record)]
        documented = [row for row in fast if not row_text.hides_loss(row.record)]
        return (documented or fast or believed or self.rows)[0]

    @property
    def device(self) -> str:
        """The unit of its rows."""
        return device(self.rows[0].record.row.accelerator)

    @property
    def batch_text(self) -> str:
        """``2 samples per GPU``, or of strong scaling ``256 samples``."""
        per = f" per {self.device}" if self.rule is Rule.WEAK else ""
        return f"{float(self.batch):.4g} {'sample' if self.batch == 1 else 'samples'}{per}"

    def measured(self, row: ReportedRow) -> float | None:
        """A row's efficiency per GPU (weak), or its speed-up (strong), against the base; 1 is the base's own."""
        return self._ratio(row, measured_rate)

    def documented(self, row: ReportedRow) -> float | None:
        """The same of the document's figures."""
        return self._ratio(row, documented_rate)

    def ideal(self, row: ReportedRow) -> float:
        """The value of ideal scaling."""
        return 1.0 if self.rule is Rule.WEAK else row.record.row.gpus / self.base.record.row.gpus

    def _ratio(self, row: ReportedRow, rate: Callable[[ReportedRow], float | None]) -> float | None:
        own, base = rate(row), rate(self.base)
        if own is None or base is None:
            return None
        more = row.record.row.gpus / self.base.record.row.gpus if self.rule is Rule.WEAK else 1.0
        return own / base / more


def workloads(rows: Iterable[ReportedRow]) -> Mapping[str, tuple[Curve, ...]]:
    """The curves of the workloads that were run on several numbers of GPUs, by their names.

    A workload is one model on one accelerator.
    """
    known = sorted(rows, key=lambda row: (row.record.row.gpus, row.record.row.id))
    several = len({row.record.row.accelerator for row in known}) > 1
    facts = [(row.record.row, row) for row in known]
    groups = grouped([(f"{of.workload} on {of.accelerator}" if several else of.workload, row) for of, row in facts])
    return {
        name: _curves(of_name)
        for name, of_name in sorted(groups.items())
        if len({row.record.row.gpus for row in of_name}) > 1
    }


def measured_rate(row: ReportedRow) -> float | None:
    """Tokens, or if unknown samples, per second; ``None`` without a plausible figure."""
    return None if is_implausible(row.record) else _rate(row, row.record.figures.measured.get)


def documented_rate(row: ReportedRow) -> float | None:
    """The same by the document."""
    return _rate(row, row.record.figures.stated)


def experiment(row: ReportedRow) -> dict[str, str]:
    """The properties that comparable rows share, by name, but for their batch."""
    facts = row.record.row
    layers = f"{facts.layers or 'an unknown number'}{', a proxy' if facts.proxy else ''}"
    settings = {name: value for name, value in row.settings.items() if name not in _WITH_GPUS}
    return {"dtype": facts.dtype, "framework": facts.framework, "layers": layers, **settings}


def _rate(row: ReportedRow, figure: Callable[[str], float | None]) -> float | None:
    tokens, step_s, batch = figure(metrics.TOKENS_PER_S.key), figure(metrics.STEP_TIME.key), row.record.row.batch
    if tokens is None and step_s and batch:
        tokens = batch / step_s
    return tokens if tokens is not None and 1e-9 < tokens < MOST and row.record.row.gpus > 0 else None


def _curves(rows: Sequence[ReportedRow]) -> tuple[Curve, ...]:
    alike = grouped([(tuple(sorted(experiment(row).items())), row) for row in rows])
    curves = [
        (rule, batch, one_of_each)
        for of_experiment in alike.values()
        for rule in Rule
        for batch, of_batch in _by_batch(of_experiment, rule).items()
        if len(one_of_each := tuple({row.record.row.gpus: row for row in reversed(of_batch)}.values())[::-1]) > 1
    ]
    varies = varying_names([experiment(of_curve[0]) for _, _, of_curve in curves])
    listed = [
        Curve(rule, _name(of_curve[0], varies), of_curve, batch)
        for rule, batch, of_curve in sorted(curves, key=lambda curve: (curve[2][0].record.row.id, curve[0].value))
    ]
    # Names are unique within a rule: curves of one name differ in their batches.
    names = Counter((curve.rule, curve.name) for curve in listed)
    return tuple(
        one if names[one.rule, one.name] == 1 else replace(one, name=f"{one.name}, {one.batch_text}") for one in listed
    )


def _by_batch(rows: Iterable[ReportedRow], rule: Rule) -> Mapping[Fraction, list[ReportedRow]]:
    known = [(row.record.row.batch or 0, row.record.row.gpus, row) for row in rows]
    return grouped(
        [
            (Fraction(batch, gpus if rule is Rule.WEAK else 1), row)
            for batch, gpus, row in known
            if batch > 0 and gpus > 0
        ]
    )


def varying_names(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of properties that differ between rows."""
    names = dict.fromkeys(name for facts in rows for name in facts)
    return [name for name in names if len({facts.get(name) for facts in rows}) > 1]


def _name(row: ReportedRow, varies: Iterable[str]) -> str:
    """The name of a curve among the others of its workload: its dtype, and the other properties that differ."""
    facts = experiment(row)
    others = [f"{name} {facts[name]}" for name in varies if name in facts and name != "dtype"]
    return ", ".join([row.record.row.dtype, *others])
