"""Pictures of a row: the steps of its last job, and its nights."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from pytest_gsw.common.words import counted, day, minute, named
from pytest_gsw.performance.measurement import TimedStep, apply, select
from pytest_gsw.performance.noise import reference
from pytest_gsw.performance.verdict import UNUSUAL
from pytest_gsw.reports.html.drawing import (
    EDGE,
    LEAST_SPAN,
    Plot,
    Scale,
    across,
    band,
    frame,
    in_view,
    key,
    level,
    line,
    named_ticks,
    point,
    post,
    round_numbers,
    ticks,
    upright,
)
from pytest_gsw.reports.html.texts import jobs_text
from pytest_gsw.reports.run_report import Row
from pytest_gsw.results.outcomes import OUTCOMES
from pytest_gsw.results.record import Record
from pytest_gsw.tables import metrics
from pytest_gsw.tables.statistic import parse_statistic

#: The newest nights of a row that are drawn, and the most steps of a job: of more, the extremes of each few.
SHOWN_NIGHTS = 200
_SHOWN_STEPS = 400
#: Steps of a job of which each has a dot.
_DOTTED_STEPS = 120

#: No time and no figure is as large.
MOST = 1e15

#: Nights beyond the picture whose values are told.
_NAMED_BEYOND = 3

#: A statistic that was computed again is the recorded one if it differs by no more than this.
_SAME = 1e-9

#: How nights are drawn that were not passed, by the words of outcomes, the worst first: a class, and a shape.
_DRAWN = {
    one.word: (one.attention.in_report.kind, one.attention.shape)
    for one in sorted(OUTCOMES, key=lambda one: -one.severity)
    if one.attention.shape
}


# -- a job's steps ---------------------------------------------------------------------------------


def steps_plot(record: Record) -> Plot | None:
    """Every step of the row's last job, with its warm-up and what the statistic is taken over."""
    series_s = record.timing.series_s
    if len(series_s) < 2 or not all(map(can_be_drawn, series_s)):
        return None
    warm_up = min(record.timing.warm_up_steps, len(series_s))
    x = across(1, len(series_s))
    # A first step that compiles takes a hundred times as long: the axis is that of the others; it is at the end.
    y = upright(series_s[warm_up:] or series_s)
    window, judged_s = window_of(record), _judged_s(record)
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
    svg.append(line(_thinned(places), "one"))
    if len(series_s) <= _DOTTED_STEPS:
        svg.extend(
            point(*place, f"{unit} {number}: {seconds:.4g} s")
            for number, (place, seconds) in enumerate(zip(places, series_s, strict=True), 1)
        )
    if judged_s:
        told = f"{statistic or 'measured'} {judged_s:.4g} s"
        svg.append(level(y(judged_s), "held", told))
        legend.append(key(told, "held", "line"))
    words = [
        f"{title}, from {min(series_s):.4g} to {max(series_s):.4g} s",
        f"the first {warm_up} are warm-up" if warm_up else "",
        f"{statistic} is taken over lines {window[0] + 1} to {window[1] + 1}" if window else "",
        f"it is {judged_s:.4g} s" if judged_s and window else "",
    ]
    return Plot(title, svg, "; ".join(word for word in words if word), tuple(legend))


def window_of(record: Record) -> tuple[int, int] | None:
    """The first and the last place in the series that the statistic is taken over, ``None`` where that is not known.

    A record does not keep the numbers that its log gave to its steps. They begin with 0 or 1; the beginning is right
    with which the statistic comes out as recorded.
    """
    judged_s = _judged_s(record)
    if not judged_s or not record.timing.statistic:
        return None
    try:
        statistic = parse_statistic(record.timing.statistic)
    except ValueError:
        return None
    for first_index in (0, 1):
        numbers = range(first_index, first_index + len(record.timing.series_s))
        steps = [TimedStep(number, seconds) for number, seconds in zip(numbers, record.timing.series_s, strict=True)]
        try:
            if math.isclose(apply(statistic, steps), judged_s, rel_tol=_SAME):
                # Which steps are taken does not depend on what they took: their places, then, instead of seconds.
                chosen = select(statistic, [TimedStep(number, number - first_index) for number in numbers])
                return round(chosen[0]), round(chosen[-1])
        except ValueError:
            continue
    return None


def _judged_s(record: Record) -> float | None:
    """What was measured of the job that the series is of, ``None`` where that is not known."""
    if record.jobs.last is not None and record.jobs.last.judged_s is not None:
        return record.jobs.last.judged_s
    return None if record.jobs.repeats else record.judged_s


def _thinned(places: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Places of a line, of very many the highest and the lowest of each few."""
    if len(places) <= _SHOWN_STEPS:
        return places
    each = math.ceil(2 * len(places) / _SHOWN_STEPS)
    few = (places[begin : begin + each] for begin in range(0, len(places), each))
    return [place for some in few for place in sorted({min(some, key=_height), max(some, key=_height)})]


def _height(place: tuple[float, float]) -> float:
    return place[1]


# -- a row's nights --------------------------------------------------------------------------------


def history_plot(row: Row, pages: Mapping[str, str] | None = None) -> Plot | None:
    """The row's newest nights with their reference, what is allowed, and the first suspect night.

    Args:
        row: The row.
        pages: By run, the address of the row's page in it; empty for the one that shows the picture.
    """
    possible = (night for night in row.past.measured if can_be_drawn(night.time_s) and can_be_drawn(night.judged_s))
    nights = tuple(possible)[-SHOWN_NIGHTS:]
    if not nights:
        return None
    first_s = nights[0].time_s
    failed = [one for one in row.failures if can_be_drawn(one.time_s) and one.time_s >= first_s]
    if len(nights) + len(failed) < 2:
        return None
    last_s = max([nights[-1].time_s, *(one.time_s for one in failed)])
    levels = _levels(row)
    addresses = {run_id: address for run_id, address in (pages or {}).items() if address}
    x = across(first_s, max(last_s, first_s + 1))
    held_s = [value for value, *_ in levels]
    view = in_view([night.judged_s for night in nights], held_s, LEAST_SPAN * max(held_s, default=0.0))
    y = upright(view)
    title = f"{row.record.judged_metric.label.capitalize()} of {counted(len(nights), 'run')} (s), lower is better"
    if beyond := [f"{night.judged_s:.4g} s" for night in nights if not view[0] <= night.judged_s <= view[1]]:
        title += f"; beyond the picture: {named(beyond, _NAMED_BEYOND)}"
    svg, legend = frame(y, _days(x)), []
    frozen = [time_s for time_s in reference([night.time_s for night in row.past.counted]) if time_s >= first_s]
    if len(frozen) > 1:
        svg.insert(0, band(max(x(frozen[0]) - 0.4, 0), x(frozen[-1]) + 0.4, "shade"))
        legend.append(key("runs of the reference", "shade", "band"))
    for value, kind, name in levels:
        told = f"{name} {value:.4g} s"
        svg.append(level(y(value), kind, told))
        legend.append(key(told, kind, "line"))
    suspect = row.drifting.since if row.drifting else None
    slower = "" if suspect is None or suspect.time_s < first_s else f"slower since about {minute(suspect.begin_s)}"
    if suspect is not None and slower:
        svg.append(post(x(suspect.time_s), "suspect", slower))
        legend.append(key(slower, "suspect", "line"))
    places = [(x(night.time_s), y(night.judged_s)) for night in nights]
    usual = [place for place, night in zip(places, nights, strict=True) if night.reason not in UNUSUAL]
    svg.append(line(usual, "pale"))
    outcomes = [night.outcome for night in nights]
    for place, night in zip(places, nights, strict=True):
        told = f"{night.judged_s:.4g} s, {minute(night.time_s)}, {jobs_text(night)}"
        drawn = _DRAWN.get(night.outcome)
        told += f", {night.outcome}" if drawn else ""
        told += f": {night.reason}" if night.reason in UNUSUAL else ""
        kind, mark = drawn or ("", "")
        svg.append(point(*place, told, kind, mark, addresses.get(night.run_id)))
    for one in failed:
        fact, job = "", None
        if one.run_id == row.record.run.id:
            fact, job = row.record.fact, row.record.jobs.last
        said = [f"error: {fact}" if fact else "error", f"job {job.id}" if job and job.id else "", minute(one.time_s)]
        told = ", ".join(filter(None, said))
        svg.append(point(x(one.time_s), EDGE, told, "error", "cross", link=addresses.get(one.run_id)))
    marks = [key(outcome, *drawn) for outcome, drawn in _DRAWN.items() if outcome in outcomes]
    marks += [key("error", "error", "cross")] if failed else []
    passed = [key("passed", "one")] if any(outcome not in _DRAWN for outcome in outcomes) else []
    words = [f"{title}, the newest {nights[-1].judged_s:.4g} s"]
    words += [f"{name} {value:.4g} s" for value, _, name in levels]
    words += [f"{outcomes.count(outcome)} {outcome}" for outcome in _DRAWN if outcome in outcomes]
    words += [f"{counted(len(failed), 'run')} with an error"] if failed else []
    return Plot(title, svg, "; ".join([*words, *([slower] if slower else [])]), (*passed, *marks, *legend))


def _levels(row: Row) -> list[tuple[float, str, str]]:
    """The seconds that nights are held against: each with its class and what it is."""
    record, judged, verdict = row.record, row.record.judged_metric.key, row.verdict
    documented, accepted = record.figures.documented.get(judged), record.figures.accepted.get(judged)
    allowed = (record.limit or record.row.tolerance) if verdict is None else verdict.allowed
    held = accepted or documented
    known = (
        (documented, "documented", "documented"),
        (accepted, "accepted", "accepted"),
        (held / (1 - allowed) if held and 0 < allowed < 1 else None, "limit", "limit"),
    )
    return [(value, kind, name) for value, kind, name in known if value and can_be_drawn(value)]


def _days(x: Scale) -> list[ET.Element]:
    """Up to five days, the first and the last among them; times where all are of one day."""
    of_one_day = day(x.low) == day(x.high)
    names: dict[str, float] = {}
    for part in range(5):
        time_s = x.low + (x.high - x.low) * part / 4
        names.setdefault(minute(time_s).rpartition(" ")[2] if of_one_day else day(time_s), x(time_s))
    return named_ticks(((place, name) for name, place in names.items()), wide=1 if of_one_day else 2)


def can_be_drawn(value: float) -> bool:
    """Whether an axis can hold a value: a record may say anything."""
    return 0 <= value < MOST
