"""What pictures share: axes, frames, lines and marks as SVG.

A picture is shown by ``<img>``, where no style of the page reaches it and no script of its own would run: it has
presentation attributes alone, and a light ground of its own, so that it can be read on any page.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.reports.html.elements import element

#: Told apart by most people (after Okabe and Ito), each 4.5 : 1 or more against the ground.
BLUE, RED, GREEN, PURPLE, GREY = "#00609a", "#b03a00", "#00704f", "#8a3f74", "#5c5f66"
GRID, GROUND, _INK = "#dcdce2", "#fbfbfd", "#222222"

#: Places on a picture, in its own units; on a phone it is shown at three quarters of that.
WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 30, 40
_FONT = "system-ui, sans-serif"

#: What an axis of times spans at least, as a share of its middle: noise of a few thousandths looks like nothing.
_LEAST_SPAN = 0.06


@dataclass(frozen=True)
class Plot:
    """A picture, and what it shows in words."""

    svg: ET.Element
    alt: str


@dataclass(frozen=True)
class Scale:
    """Values on one axis as places on the picture; what is beyond an end stands there."""

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
    """An axis from left to right."""
    return Scale(low, high, LEFT + 8, WIDTH - RIGHT - 8, logarithmic)


def upright(values: Iterable[float], *, from_zero: bool = False, logarithmic: bool = False) -> Scale:
    """An axis from the bottom to the top that holds all of these finite values (above zero on a logarithmic one)."""
    known = list(values)
    low, high = min(known), max(known)
    if logarithmic:
        return Scale(low / 1.3, high * 1.3, HEIGHT - BOTTOM, TOP, logarithmic=True)
    room = max((high - low) * 0.08, (_LEAST_SPAN * abs(low + high) / 2 - (high - low)) / 2, 1e-12)
    return Scale(0.0 if from_zero else max(0.0, low - room), high + room, HEIGHT - BOTTOM, TOP)


def ground(title: str, height: float = HEIGHT) -> ET.Element:
    """An empty picture with its title."""
    return element(
        "svg",
        element("title", title),
        element("rect", width=WIDTH, height=height, fill=GROUND),
        element("text", title, x=12, y=19, font_weight="600", font_size=13),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=height,
        font_family=_FONT,
        font_size=12,
        fill=_INK,
    )


def frame(title: str, y: Scale, x_ticks: Iterable[tuple[float, str]], x_title: str = "") -> ET.Element:
    """A picture with its axes: lines across at round numbers, and places from left to right, each with what it is."""
    svg = ground(title)
    for value in _powers(y.low, y.high) if y.logarithmic else round_numbers(y.low, y.high):
        at = y(value)
        svg.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, stroke=GRID))
        svg.append(text(_short(value), LEFT - 6, at + 4, anchor="end"))
    svg.extend(text(what, place, HEIGHT - BOTTOM + 17, anchor="middle") for place, what in x_ticks)
    if x_title:
        svg.append(text(x_title, (LEFT + WIDTH) / 2, HEIGHT - 6, anchor="middle"))
    return svg


def text(content: str, x: float, y: float, *, anchor: str | None = None, colour: str | None = None) -> ET.Element:
    """A text, with a rim of the ground's colour where it has a colour of its own, so that lines may pass under it."""
    rim: dict[str, str | float] = {"stroke": GROUND, "stroke_width": 3, "paint_order": "stroke"} if colour else {}
    return element("text", content, x=x, y=y, text_anchor=anchor, fill=colour, **rim)


def line(places: Iterable[tuple[float, float]], colour: str, dashes: str | None = None) -> ET.Element:
    """A line through places."""
    drawn = element("polyline", fill="none", stroke=colour, stroke_width=1.5, stroke_dasharray=dashes)
    drawn.set("points", " ".join(f"{x:g},{y:g}" for x, y in places))  # no text, and longer than texts may be
    return drawn


def dots(places: Iterable[tuple[float, float]], colour: str, radius: float) -> ET.Element:
    """Dots, which are lines of no length with round ends: one element, however many there are."""
    drawn = element("path", fill="none", stroke=colour, stroke_width=2 * radius, stroke_linecap="round")
    drawn.set("d", "".join(f"M{x:g} {y:g}h0" for x, y in places))  # no text, and longer than texts may be
    return drawn


def shape(x: float, y: float, colour: str, corners: Iterable[tuple[float, float]]) -> ET.Element:
    """A shape about a place."""
    return element("polygon", points=" ".join(f"{x + dx:g},{y + dy:g}" for dx, dy in corners), fill=colour)


def band(begin: float, end: float, colour: str, name: str = "") -> ET.Element:
    """What is special of a stretch, named at its head."""
    height = HEIGHT - BOTTOM - TOP
    shade = element("rect", x=begin, y=TOP, width=round(end - begin, 1), height=height, fill=colour)
    near_the_end = begin > WIDTH - RIGHT - 90
    at, anchor = (end - 2, "end") if near_the_end else (begin + 3, None)
    return element("g", shade, text(name, at, TOP + 12, anchor=anchor, colour=GREY) if name else None)


def level(y: Scale, value: float, colour: str, name: str, anchor: str = "end") -> ET.Element:
    """A value across the picture, named at its end, its middle or its start."""
    at = y(value)
    dashed = element(
        "line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, stroke=colour, stroke_width=1.5, stroke_dasharray="6 4"
    )
    x = {"start": LEFT + 4, "middle": (LEFT + WIDTH - RIGHT) / 2, "end": WIDTH - RIGHT - 2}[anchor]
    return element("g", dashed, text(name, x, at - 4, anchor=anchor, colour=colour))


def ticks(x: Scale, values: Iterable[float], room: float = 24) -> list[tuple[float, str]]:
    """Values as places on an axis, without those that would be written over each other."""
    kept: list[tuple[float, str]] = []
    for value in values:
        if not kept or x(value) - kept[-1][0] > room:
            kept.append((x(value), f"{value:,.10g}"))
    return kept


def round_numbers(low: float, high: float, about: int = 4) -> Sequence[float]:
    """Round numbers from one to another, about so many."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    each = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough)
    first, last = math.ceil(low / each - 1e-9), math.floor(high / each + 1e-9)
    return [round(number * each, 12) for number in range(first, last + 1)]


def _powers(low: float, high: float) -> Sequence[float]:
    """The numbers 1, 2 and 5 times a power of ten between two; of many, the powers alone."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(exponents) <= 3 else (1,)
    found = (factor * 10.0**exponent for exponent in exponents for factor in factors)
    return [value for value in found if low <= value <= high]


def _short(value: float) -> str:
    """A number in few letters: ``2.5``, ``200k``, ``1.5M``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (abs(value) >= size and unit != "k"):
            return f"{value / size:g}{unit}"
    return f"{value:g}"
