"""What pictures share: axes, frames, lines and marks as SVG in the page, and the legends beside them.

A picture is as wide as the page has room, and its text is as large as the page's: places from left to right are
percentages, those from top to bottom are pixels. Its colours are those of the page's style sheet, by classes. What is
shown by a colour is shown by a shape or told by a legend as well, and no text stands where points may be.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.reports.html.layout import element, plain

#: Pixels from the top: the whole picture, and where its data begin and end.
HEIGHT, TOP, FLOOR = 240, 10, 194

#: The middle of marks that have no value: they stand on the lower edge.
EDGE = FLOOR - 7

#: What an axis of times spans at least, as a share of its middle: noise of a few thousandths looks like nothing.
LEAST_SPAN = 0.06

#: Of many values so few at either end may be far off: beyond so many times what all others span, which then have at
#: least a tenth of the picture.
_FEW, _FAR = 0.05, 9

#: Percentages between two places that are written on an axis: on any screen that is no phone, and on a phone, too.
_ROOM, _ROOM_ON_PHONES = 6.5, 16.0

#: Corners of marks about their middle. A dot has none, and a cross is one polygon as well.
_CORNERS = {
    "triangle": ((-5, 4), (5, 4), (0, -5.5)),
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    "diamond": ((0, -5.5), (5, 0), (0, 5.5), (-5, 0)),
    "cross": (
        *((-5, -3.5), (-3.5, -5), (0, -1.5), (3.5, -5), (5, -3.5), (1.5, 0)),
        *((5, 3.5), (3.5, 5), (0, 1.5), (-3.5, 5), (-5, 3.5), (-1.5, 0)),
    ),
}


@dataclass(frozen=True)
class Plot:
    """A picture, what stands above it, what it shows in words, and what its colours and shapes mean."""

    title: str
    svg: ET.Element
    alt: str
    legend: tuple[ET.Element, ...] = ()


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
    """An axis from left to right, in percent."""
    return Scale(low, high, 1.0, 99.0, logarithmic)


def upright(values: Iterable[float], *, from_zero: bool = False, logarithmic: bool = False) -> Scale:
    """An axis from the bottom to the top that holds all of these finite values (above zero on a logarithmic one)."""
    known = list(values)
    low, high = min(known), max(known)
    if logarithmic:
        return Scale(low / 1.3, high * 1.3, FLOOR, TOP, logarithmic=True)
    room = max((high - low) * 0.08, (LEAST_SPAN * abs(low + high) / 2 - (high - low)) / 2, 1e-12)
    return Scale(0.0 if from_zero else max(0.0, low - room), high + room, FLOOR, TOP)


def in_view(values: Iterable[float], levels: Iterable[float], least: float) -> tuple[float, float]:
    """The lowest and the highest value that an axis is made for: one that is far off takes no room from all others.

    Args:
        values: What is drawn; what is beyond then stands at the axis's end.
        levels: What it is held against: always on the axis.
        least: What an axis spans at least.
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
    svg = ground(HEIGHT if x_title else HEIGHT - 18)
    for value in _powers(y.low, y.high) if y.logarithmic else round_numbers(y.low, y.high):
        at = y(value)
        svg.append(element("line", x1=0, x2="100%", y1=at, y2=at, class_="grid"))
        svg.append(element("text", _short(value), x=-6, y=at + 4, class_="y"))
    svg.extend(x_ticks)
    if x_title:
        svg.append(element("text", x_title, x="50%", y=HEIGHT - 8, class_="x"))
    return svg


def ground(height: float) -> ET.Element:
    """An empty picture of so many pixels."""
    return element("svg", height=round(height))


def line(places: Iterable[tuple[float, float]], kind: str) -> ET.Element:
    """A line through places, of a class of the style sheet."""
    drawn = element("polyline", class_=kind)
    # No text, and longer than texts may be.
    drawn.set("points", " ".join(f"{10 * x:.0f},{y:.0f}" for x, y in places))
    # Points of a line are no percentages: it is stretched, and its stroke is not.
    stretched = {"viewBox": f"0 0 1000 {HEIGHT}", "preserveAspectRatio": "none"}
    wide = ET.Element("svg", {**stretched, "width": "100%", "height": f"{HEIGHT}"})
    wide.append(drawn)
    return wide


def point(x: float, y: float, told: str, kind: str = "", shape: str = "", link: str | None = None) -> ET.Element:
    """A point with what a browser tells of it under the mouse, and with the page that it leads to.

    Args:
        x: Its place, percent.
        y: Its place, pixels.
        told: Its value with the unit, and what it is of.
        kind: A class of the style sheet.
        shape: ``triangle``, ``square``, ``diamond`` or ``cross``; a dot where it is empty.
        link: The address of a page.
    """
    # By hand: a page has hundreds of them, and a report hundred thousands.
    title = ET.Element("title")
    title.text = plain(told)
    if shape:
        # Corners are pixels about a place in percent.
        drawn = ET.Element("svg", {"x": f"{x:g}%", "y": f"{y:.0f}"})
        drawn.append(polygon(shape))
    else:
        drawn = ET.Element("circle", {"cx": f"{x:g}%", "cy": f"{y:.0f}"})
    if kind:
        drawn.set("class", kind)
    drawn.append(title)
    return drawn if link is None else element("a", drawn, href=link, aria_label=told)


def polygon(shape: str, x: float = 0, y: float = 0, size: float = 1, kind: str | None = None) -> ET.Element:
    """A shape about a place in pixels."""
    places = " ".join(f"{x + size * dx:g},{y + size * dy:g}" for dx, dy in _CORNERS[shape])
    return element("polygon", points=places, class_=kind)


def band(begin: float, end: float, kind: str) -> ET.Element:
    """What is special of a stretch, from one percentage to another."""
    wide = f"{max(end - begin, 0.4):.1f}%"
    return element("rect", x=f"{begin:g}%", y=TOP, width=wide, height=FLOOR - TOP, class_=kind)


def level(y: float, kind: str, told: str) -> ET.Element:
    """A value across the picture."""
    return element("line", element("title", told), x1=0, x2="100%", y1=y, y2=y, class_=kind)


def post(x: float, kind: str, told: str) -> ET.Element:
    """A place from the top to the bottom."""
    at = f"{x:g}%"
    return element("line", element("title", told), x1=at, x2=at, y1=TOP, y2=FLOOR, class_=kind)


def key(text: str, kind: str, shape: str = "") -> ET.Element:
    """An entry of a legend: a shape of the picture (``line``, ``band``, or that of its marks), and what it means."""
    if shape == "line":
        drawn = element("line", x1=0, x2=18, y1=6, y2=6, class_=kind)
    elif shape == "band":
        drawn = element("rect", x=1, y=1, width=16, height=10, class_=kind)
    else:
        drawn = polygon(shape, 9, 6, kind=kind) if shape in _CORNERS else element("circle", cx=9, cy=6, class_=kind)
    return element("li", element("svg", drawn, width=18, height=12, aria_hidden="true"), text)


def ticks(x: Scale, values: Iterable[float]) -> list[ET.Element]:
    """Values on an axis, without those that would be written over each other."""
    return named_ticks([(x(value), f"{value:,.10g}") for value in values])


def named_ticks(places: Iterable[tuple[float, str]], y: float = FLOOR + 18, wide: float = 1) -> list[ET.Element]:
    """Places on an axis, each with what it is, without those that would be written over each other.

    Args:
        places: From left to right, percent.
        y: Where they are written, pixels.
        wide: How wide a text is; 1 is one of five letters.
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
        kept.append(element("text", what, x=f"{place:g}%", y=y, class_=" ".join(filter(None, classes))))
    return kept


def figure(plot: Plot | None) -> ET.Element | None:
    """A picture on a page, with its title and its legend; nothing where there is none."""
    if plot is None:
        return None
    svg = plot.svg
    # What has links in it is no image to those who hear it.
    svg.set("role", "group" if svg.find(".//a") is not None else "img")
    svg.set("aria-label", plain(plot.alt))
    legend = element("ul", *plot.legend, class_="legend") if plot.legend else None
    return element("figure", element("figcaption", plot.title), legend, svg, class_="plot")


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
