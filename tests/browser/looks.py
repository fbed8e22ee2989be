"""What a visitor sees of a page: what is wider than it should be, and what stands on something else."""

from __future__ import annotations

from typing import Any

from .chromium import Tab

#: Of each picture: its share of the page's width, texts on other texts or on points, points that say nothing.
_PICTURES = """() => [...document.querySelectorAll('figure.plot > svg')].map(svg => {
    const texts = [...svg.querySelectorAll('text')].filter(text => text.getBoundingClientRect().width > 0);
    const boxes = texts.map(text => text.getBoundingClientRect());
    const meet = (one, other) => one.left < other.right && other.left < one.right
        && one.top < other.bottom && other.top < one.bottom;
    const points = [...svg.querySelectorAll('circle, svg > polygon')].map(point => point.getBoundingClientRect());
    return {
        width: svg.getBoundingClientRect().width / svg.parentElement.getBoundingClientRect().width,
        texts: boxes.flatMap((box, at) => boxes.slice(at + 1).filter(other => meet(box, other))
            .map(() => texts[at].textContent)),
        covered: points.filter(point => boxes.some(box => meet(point, box))).length,
        untold: [...svg.querySelectorAll('circle, svg > polygon')]
            .filter(point => !point.querySelector('title') && !point.closest(':has(> title)')).length,
    };
})"""

#: What reaches beyond the right edge of the page and is in no box that is scrolled.
_OUTSIDE = """() => [...document.querySelectorAll('main *')]
    .filter(one => !one.closest('.scroll, .vh, svg') && one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.outerHTML.slice(0, 120))"""

#: What of a page must not be cut by the end of a sheet, and is higher than one.
_HIGHER = """height => [...document.querySelectorAll('figure.plot, .card')]
    .filter(one => one.getBoundingClientRect().height > height)
    .map(one => [one.className, Math.round(one.getBoundingClientRect().height)])"""


def pictures(tab: Tab) -> list[dict[str, Any]]:
    """What is known of each picture of the page."""
    found: list[dict[str, Any]] = tab.ask(_PICTURES)
    return found


def outside(tab: Tab) -> list[str]:
    """Elements of the page that are cut at its right edge, or make it scroll sideways."""
    width, room = tab.ask("() => [document.documentElement.scrollWidth, innerWidth]")
    found: list[str] = tab.ask(_OUTSIDE)
    return [*found, *([f"the page is {width} pixels wide, its window {room}"] if width > room else [])]


def higher_than(tab: Tab, height: int) -> list[list[Any]]:
    """Pictures and cards that do not fit on a sheet of so many pixels: their classes and heights."""
    found: list[list[Any]] = tab.ask(_HIGHER, height)
    return found
