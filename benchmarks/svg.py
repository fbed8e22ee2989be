"""Line charts as plain SVG: a few kB each, readable on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

#: Told apart by most people, and dark or light enough for both kinds of pages (after Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a5d8", "#888888", "#7a5fc7")
_LEFT, _TOP, _BOTTOM, _LEGEND = 72, 34, 44, 224
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:13px}"
    ".g{stroke:#8884;stroke-width:1}.l{fill:none;stroke-width:2}.m{stroke:#888;stroke-dasharray:5 4;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}}"
)


@dataclass(frozen=True)
class Chart:
    """What to draw. A value of ``None`` leaves a gap; on a logarithmic axis, values below its foot stand on it."""

    title: str
    x_title: str
    y_title: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    y_from: float
    y_to: float
    y_ticks: Sequence[tuple[float, str]]
    x_ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False
    #: Dashed lines across: their value and what they are.
    targets: Sequence[tuple[float, str]] = ()
    #: Names of lines that are drawn as dots only.
    dots: frozenset[str] = field(default_factory=frozenset)
    width: int = 760
    height: int = 320


def draw(chart: Chart) -> str:
    """The chart as the text of an SVG file."""
    right, bottom = chart.width - _LEGEND, chart.height - _BOTTOM

    def scaled(value: float) -> float:
        low, high = chart.y_from, chart.y_to
        value = min(max(value, low), high)
        if chart.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return round(bottom - (value - low) / (high - low) * (bottom - _TOP), 1)

    def across(value: float) -> float:
        low, high = min(chart.xs), max(chart.xs)
        return round(_LEFT + 10 + (value - low) / (high - low or 1) * (right - _LEFT - 20), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.width} {chart.height}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{_STYLE}</style>",
        f'<text class="t" x="{_LEFT}" y="18">{escape(chart.title)}</text>',
        f'<text x="{(_LEFT + right) / 2}" y="{chart.height - 8}" text-anchor="middle">{escape(chart.x_title)}</text>',
    ]
    turned = f'transform="translate(13 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{escape(chart.y_title)}</text>")
    for value, text in chart.y_ticks:
        y = scaled(value)
        parts.append(f'<line class="g" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{escape(text)}</text>')
    parts += [
        f'<text x="{across(value)}" y="{bottom + 17}" text-anchor="middle">{escape(text)}</text>'
        for value, text in chart.x_ticks
    ]
    for number, (value, text) in enumerate(chart.targets, len(chart.lines)):
        y, place = scaled(value), _TOP + 6 + 19 * number
        parts.append(f'<line class="m" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<line class="m" x1="{right + 12}" x2="{right + 29}" y1="{place}" y2="{place}"/>')
        parts.append(f'<text x="{right + 34}" y="{place + 4}">{escape(text)}</text>')
    for number, (name, values) in enumerate(chart.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(across(x), scaled(y)) for x, y in zip(chart.xs, values, strict=True) if y is not None]
        if name not in chart.dots:
            path = " ".join(f"{x},{y}" for x, y in points)
            parts.append(f'<polyline class="l" stroke="{colour}" points="{path}"/>')
        if name in chart.dots or len(points) < 20:
            parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in points]
        y = _TOP + 8 + 19 * number
        parts.append(f'<rect x="{right + 14}" y="{y - 5}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{right + 34}" y="{y + 1}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
