"""Pictures of a night: steps of a job, nights of a row, scaling of a workload, jobs on a time line."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import day, shortened
from pytest_gsw.performance.measurement import TimedStep, apply, select
from pytest_gsw.performance.noise import reference
from pytest_gsw.reports.html.drawing import (
    BLUE,
    BOTTOM,
    GREEN,
    GREY,
    GRID,
    GROUND,
    HEIGHT,
    LEFT,
    PURPLE,
    RED,
    RIGHT,
    TOP,
    WIDTH,
    Plot,
    Scale,
    across,
    band,
    dots,
    frame,
    ground,
    level,
    line,
    round_numbers,
    shape,
    text,
    ticks,
    upright,
)
from pytest_gsw.reports.html.elements import element
from pytest_gsw.reports.night import Curve, Night, NightJob
from pytest_gsw.reports.rows import Row
from pytest_gsw.results.outcomes import OUTCOMES
from pytest_gsw.results.record import Record
from pytest_gsw.tables import metrics
from pytest_gsw.tables.statistic import parse_statistic

_SHADE, _WINDOW, _PALE, _QUEUE = "#ebe7da", "#cfe6d8", "#9ab4c8", "#a3a5ad"

#: One for each curve of a picture.
COLOURS = (BLUE, RED, GREEN, PURPLE)

#: The newest nights of a row that are drawn, and the most steps of a job: of more, the extremes of each few.
SHOWN_NIGHTS = 200
_SHOWN_STEPS = 400
#: Steps of a job of which each has a dot.
_DOTTED_STEPS = 80

#: No time and no figure is as large.
_MOST = 1e15

#: A statistic that was computed again is the recorded one if it differs by no more than this.
_SAME = 1e-9

#: How a night is drawn that was not passed: another colour, and another shape.
_SHAPES = {
    "triangle": (RED, ((-4.5, 4.0), (4.5, 4.0), (0.0, -5.0))),
    "square": (PURPLE, ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5))),
    "diamond": (GREEN, ((0.0, -5.0), (4.5, 0.0), (0.0, 5.0), (-4.5, 0.0))),
}
#: The same by the words of outcomes, the worst first.
_DRAWN = {
    one.word: (one.attention.shape, *_SHAPES[one.attention.shape])
    for one in sorted(OUTCOMES, key=lambda one: -one.severity)
    if one.attention.shape
}

#: Jobs of a night that are drawn, how high each is, and how many may bear their names.
_MOST_JOBS, _NAMED_JOBS = 200, 60
_BAR, _NAMED_BAR = 7, 15
#: Letters of a name there, and how wide one is, about.
_LONGEST_NAME, _LETTER = 48, 7
#: Units of time, and their seconds; three hundred of one are better told in the next.
_TIME_UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3600))


# -- a job's steps ---------------------------------------------------------------------------------


def steps_plot(record: Record) -> Plot | None:
    """Every step of the row's last job, with its warm-up and what the statistic is taken over."""
    series_s = record.timing.series_s
    if len(series_s) < 2 or not all(map(_can_be_drawn, series_s)):
        return None
    warm_up = min(record.timing.warm_up_steps, len(series_s))
    x = across(1, len(series_s))
    # A first step that compiles takes a hundred times as long: the axis is that of the others; it is at the end.
    y = upright(series_s[warm_up:] or series_s)
    window, judged_s = window_of(record), _judged_s(record)
    unit = (record.judged_metric.series or metrics.Series.STEPS).value
    title = f"Each of {len(series_s):,} {unit}s (s)"
    svg = frame(title, y, ticks(x, [1, *round_numbers(1, len(series_s))]), unit)
    if warm_up:
        svg.append(band(x(1) - 8, x(warm_up + 0.5), _SHADE, "warm-up"))
    if window is not None:
        begin = x(window[0] + 0.5)
        svg.append(band(begin - 2, max(x(window[1] + 1.5), begin + 4), _WINDOW, record.timing.statistic))
    places = _thinned([(x(number), y(seconds)) for number, seconds in enumerate(series_s, 1)])
    svg.append(line(places, BLUE))
    if len(series_s) <= _DOTTED_STEPS:
        svg.append(dots(places, BLUE, 2))
    if judged_s:
        svg.append(level(y, judged_s, RED, f"{judged_s:.4g} s"))
    words = [
        f"{title}, from {min(series_s):.4g} to {max(series_s):.4g} s",
        f"the first {warm_up} are warm-up" if warm_up else "",
        f"{record.timing.statistic} is taken over lines {window[0] + 1} to {window[1] + 1}" if window else "",
        f"it is {judged_s:.4g} s" if judged_s and window else "",
    ]
    return Plot(svg, "; ".join(word for word in words if word))


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


def history_plot(row: Row) -> Plot | None:
    """The row's newest nights with their reference, what is allowed, and the first suspect night."""
    possible = (night for night in row.nights if _can_be_drawn(night.time_s) and _can_be_drawn(night.judged_s))
    nights = tuple(possible)[-SHOWN_NIGHTS:]
    if len(nights) < 2:
        return None
    first_s, last_s = nights[0].time_s, nights[-1].time_s
    levels = _levels(row)
    x = across(first_s, max(last_s, first_s + 1))
    y = upright([*(night.judged_s for night in nights), *(value for value, *_ in levels)])
    title = f"{row.record.judged_metric.label.capitalize()} of {len(nights)} nights (s)"
    outcomes = [night.outcome for night in nights]
    marks = [f"{name}: {outcome}" for outcome, (name, *_) in _DRAWN.items() if outcome in outcomes]
    svg = frame(title, y, _days(x), ", ".join(marks))
    frozen = [time_s for time_s in reference([night.time_s for night in row.counted]) if time_s >= first_s]
    if len(frozen) > 1:
        svg.append(band(x(frozen[0]) - 4, x(frozen[-1]) + 4, _SHADE, "reference"))
    places = [(x(night.time_s), y(night.judged_s)) for night in nights]
    svg.append(line(places, _PALE))
    svg.append(dots((at for at, outcome in zip(places, outcomes, strict=True) if outcome not in _DRAWN), BLUE, 2.5))
    for at, outcome in zip(places, outcomes, strict=True):
        if outcome in _DRAWN:
            _, colour, corners = _DRAWN[outcome]
            svg.append(shape(*at, colour, corners))
    svg.extend(level(y, value, colour, name, anchor) for value, colour, name, anchor in levels)
    words = [f"{title}, the newest {nights[-1].judged_s:.4g} s"]
    words += [f"{name} {value:.4g} s" for value, _, name, _ in levels]
    words += [f"{outcomes.count(outcome)} {outcome}" for outcome in _DRAWN if outcome in outcomes]
    suspect = row.drifting.since if row.drifting else None
    if suspect is not None and suspect.time_s >= first_s:
        begin = x(suspect.time_s)
        svg.append(line([(begin, TOP), (begin, HEIGHT - BOTTOM)], PURPLE))
        side, anchor = (-4, "end") if begin > WIDTH / 2 else (4, "start")
        svg.append(text("slower from here on", begin + side, HEIGHT - BOTTOM - 6, anchor=anchor, colour=PURPLE))
        words.append(f"slower since about {day(suspect.time_s)}")
    return Plot(svg, "; ".join(words))


def _levels(row: Row) -> list[tuple[float, str, str, str]]:
    """The seconds that nights are held against: each with its colour, what it is, and where that is written."""
    record, judged, verdict = row.record, row.record.judged_metric.key, row.verdict
    documented, accepted = record.figures.documented.get(judged), record.figures.accepted.get(judged)
    allowed = (record.limit or record.row.tolerance) if verdict is None else verdict.allowed
    held = accepted or documented
    known = (
        (documented, GREEN, "documented", "start"),
        (accepted, BLUE, "accepted", "middle"),
        (held / (1 - allowed) if held and 0 < allowed < 1 else None, RED, "limit", "end"),
    )
    return [(value, colour, name, anchor) for value, colour, name, anchor in known if value and _can_be_drawn(value)]


def _days(x: Scale) -> list[tuple[float, str]]:
    """Up to five days, the first and the last among them."""
    days: dict[str, float] = {}
    for part in range(5):
        time_s = x.low + (x.high - x.low) * part / 4
        days.setdefault(day(time_s), min(max(x(time_s), LEFT + 20), WIDTH - 46))
    return [(place, name) for name, place in days.items()]


# -- a workload's scaling --------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """What is drawn over GPU counts."""

    title: str
    #: The name of the figure in records.
    key: str
    #: Whether it grows with the GPUs.
    logarithmic: bool
    #: What its values are multiplied by: 100 makes a percentage of a fraction.
    factor: float = 1.0


THROUGHPUT = Figure("Throughput (tokens/s)", metrics.TOKENS_PER_S.key, logarithmic=True)
MFU = Figure("MFU (%)", metrics.MFU.key, logarithmic=False, factor=100.0)


def scaling_plot(name: str, figure: Figure, curves: Sequence[Curve]) -> Plot | None:
    """A figure over GPU counts, of as many curves as there are colours: measured drawn through, documented dashed."""
    drawn = [
        (curve.name, _points(figure, curve.measured(figure.key)), _points(figure, curve.documented(figure.key)))
        for curve in curves
    ]
    points = [point for _, measured, documented in drawn for point in (*measured, *documented)]
    gpus = sorted({number for number, _ in points})
    if len(gpus) < 2:
        return None
    x = across(gpus[0], gpus[-1], logarithmic=True)
    values = [value for _, value in points]
    y = upright(values, from_zero=not figure.logarithmic, logarithmic=figure.logarithmic)
    svg = frame(figure.title, y, ticks(x, gpus, room=32), "GPUs; dashed: documented")
    # Throughput grows to the right, so that its names stand at the left, above; MFU falls, and has them below.
    top = TOP + 14 if figure.logarithmic else HEIGHT - BOTTOM - 6 - 15 * (len(drawn) - 1)
    for number, (row, measured, documented) in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        svg.append(line([(x(at), y(value)) for at, value in documented], colour, dashes="5 4"))
        svg.append(line([(x(at), y(value)) for at, value in measured], colour))
        svg.append(dots(((x(at), y(value)) for at, value in measured), colour, 3))
        svg.append(text(row, LEFT + 10, top + 15 * number, colour=colour))
    span = f"{gpus[0]:,} to {gpus[-1]:,} GPUs"
    return Plot(svg, f"{figure.title} of {name} over {span}; measured drawn through, documented dashed")


def _points(figure: Figure, known: Sequence[tuple[int, float | None]]) -> list[tuple[int, float]]:
    return [(gpus, figure.factor * value) for gpus, value in known if gpus > 0 and value and 1e-9 < value < _MOST]


# -- a night's jobs --------------------------------------------------------------------------------


def jobs_plot(night: Night) -> Plot | None:
    """The night's jobs over time: how long each waited, and how long it ran. The one that ended last comes last."""
    jobs = sorted((job for job in night.jobs if _is_timed(job)), key=lambda one: one.facts.end_s or 0.0)
    if not jobs:
        return None
    begin_s = min(job.begin_s for job in jobs)
    span_s = max((jobs[-1].facts.end_s or 0.0) - begin_s, 1.0)
    unit, unit_s = next(one for one in _TIME_UNITS if span_s < one[1] * 300 or one is _TIME_UNITS[-1])
    shown = jobs[-_MOST_JOBS:]
    named = len(shown) <= _NAMED_JOBS
    bar = _NAMED_BAR if named else _BAR
    bottom = TOP + bar * len(shown) + 4
    x = Scale(0.0, span_s / unit_s, 12, WIDTH - RIGHT)
    title = f"{len(shown)} jobs over the night" if len(shown) == len(jobs) else f"The {len(shown)} jobs that ended last"
    svg = ground(title, bottom + BOTTOM)
    for place, what in ticks(x, round_numbers(0.0, span_s / unit_s)):
        svg.append(line([(place, TOP), (place, bottom)], GRID))
        svg.append(text(what, place, bottom + 16, anchor="middle"))
    svg.append(text(f"{unit} since the first job was submitted", WIDTH / 2, bottom + 33, anchor="middle"))
    for number, job in enumerate(shown):
        svg.append(
            _bar(job, lambda time_s: x((time_s - begin_s) / unit_s), TOP + 2 + bar * number, bar - 2, named=named)
        )
    return Plot(svg, f"{title}; thin bars are time in the queue, thick ones run time, red ones failed")


def _bar(job: NightJob, x: Callable[[float], float], top: float, height: float, *, named: bool) -> ET.Element:
    """One job: its time in the queue, its run, and whose it is where there is room for that."""
    submitted, started, ended = x(job.begin_s), x(job.facts.start_s or job.begin_s), x(job.facts.end_s or 0.0)
    middle = top + height / 2
    waited, ran = max(started - submitted, 0.0), max(ended - started, 1.0)
    return element(
        "g",
        element("rect", x=submitted, y=middle - 1.5, width=f"{waited:.1f}", height=3, fill=_QUEUE),
        element("rect", x=started, y=top, width=f"{ran:.1f}", height=height, fill=RED if job.failed else BLUE),
        _name_of_bar(job.row.record.row.id, started, ended, middle + 4) if named else None,
    )


def _name_of_bar(name: str, started: float, ended: float, y: float) -> ET.Element:
    """Whose a job is: behind its run, before it, or, where neither has room, across it."""
    name = shortened(name, _LONGEST_NAME)
    room = _LETTER * len(name)
    if ended + 4 + room <= WIDTH:
        return text(name, ended + 4, y, colour=GREY)
    if started - 4 - room >= 0:
        # The time in the queue goes on behind it.
        behind = element("rect", x=started - 4 - room, y=y - 10, width=room + 2, height=12, fill=GROUND)
        return element("g", behind, text(name, started - 4, y, anchor="end", colour=GREY))
    return text(name, WIDTH - RIGHT - 4, y, anchor="end", colour=GREY)


def _is_timed(job: NightJob) -> bool:
    return bool(job.facts.end_s and 0 < job.begin_s <= job.facts.end_s < _MOST)


def _can_be_drawn(value: float) -> bool:
    """Whether an axis can hold a value: a record may say anything."""
    return 0 <= value < _MOST
