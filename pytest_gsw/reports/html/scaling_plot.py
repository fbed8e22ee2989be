"""Figures of a workload over GPU counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.reports.html.drawing import Plot, across, frame, key, line, point, ticks, upright
from pytest_gsw.reports.html.plots import MOST
from pytest_gsw.reports.night import Curve
from pytest_gsw.tables import metrics

#: A class and a shape for each curve of a picture.
CURVES = (("one", ""), ("two", "triangle"), ("three", "square"), ("four", "diamond"))


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
    svg = frame(y, ticks(x, gpus), "GPUs")
    legend = []
    for (row, measured, documented), (kind, shape) in zip(drawn, CURVES, strict=False):
        svg.append(line([(x(at), y(value)) for at, value in documented], f"{kind} stated"))
        svg.append(line([(x(at), y(value)) for at, value in measured], kind))
        svg.extend(point(x(at), y(value), f"{row}, {at:,} GPUs: {value:,.4g}", kind, shape) for at, value in measured)
        legend.append(key(row, kind, shape))
    legend.append(key("documented", "stated", "line"))
    span = f"{gpus[0]:,} to {gpus[-1]:,} GPUs"
    alt = f"{figure.title} of {name} over {span}; measured drawn through, documented dashed"
    return Plot(figure.title, svg, alt, tuple(legend))


def _points(figure: Figure, known: Sequence[tuple[int, float | None]]) -> list[tuple[int, float]]:
    return [(gpus, figure.factor * value) for gpus, value in known if gpus > 0 and value and 1e-9 < value < MOST]
