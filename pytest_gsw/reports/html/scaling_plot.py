"""How workloads scale, drawn over GPU counts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from pytest_gsw.common.words import share
from pytest_gsw.reports.html.drawing import EDGE, Plot, across, frame, key, level, line, point, ticks, upright
from pytest_gsw.reports.run_report import Row, is_doubted
from pytest_gsw.reports.scaling import Curve, Rule
from pytest_gsw.results import attention

#: A class and a shape for each curve of a picture.
CURVES = (("one", ""), ("two", "triangle"), ("three", "square"), ("four", "diamond"))
#: Efficiencies of which all pictures have the axis, percent: a loss looks as large in one as in another.
_EFFICIENCIES = (80.0, 100.0)


def scaling_plot(workload: str, curves: Sequence[Curve]) -> Plot | None:
    """Curves of one rule over GPU counts, as many as there are shapes: measured drawn through, documented dashed.

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
    legend = []
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
            svg.append(point(*place, told, *drawn_as, link=f"rows/{row.name}.html"))
        for row, why, kind_of_row in _without_value(curve):
            place = x(row.record.row.gpus), EDGE
            told = f"{row.record.row.id}: {why}"
            svg.append(point(*place, told, kind_of_row, "cross", link=f"rows/{row.name}.html"))
        legend.append(key(curve.name, kind, shape))
    legend += _of_outcomes(curves)
    legend += [key("documented", "stated", "line"), key("ideal", "pale", "line")]
    alt = f"{title} over {gpus[0]:,} to {gpus[-1]:,} {device}s; measured drawn through, documented dashed"
    return Plot(title, svg, alt, tuple(legend))


def _without_value(curve: Curve) -> list[tuple[Row, str, str]]:
    """The rows that are no points, each with the reason and a class."""
    errors = [
        (row, f"error: {row.record.fact}", attention.ERROR.kind) for row in curve.rows if row.needs is attention.ERROR
    ]
    doubted = [row for row in curve.rows if is_doubted(row.record)]
    return [*errors, *((row, f"not believed: {row.record.reason}", attention.INCONCLUSIVE.kind) for row in doubted)]


def _of_outcomes(curves: Sequence[Curve]) -> list[ET.Element]:
    """What marks mean that are of rows which did not pass, and crosses."""
    rows = [row for curve in curves for row in curve.rows]
    needs = {row.needs for row in rows if row.needs.shape and not is_doubted(row.record)}
    legend = [key(one.word, one.kind, one.shape) for one in attention.ATTENTIONS if one in needs]
    if any(is_doubted(row.record) for row in rows):
        legend.append(key("not believed", attention.INCONCLUSIVE.kind, "cross"))
    if any(row.needs is attention.ERROR for row in rows):
        legend.append(key("could not be measured", attention.ERROR.kind, "cross"))
    return legend


def ratio_text(curve: Curve, ratio: float) -> str:
    """An efficiency as a percentage, or a speed-up as a factor."""
    return share(ratio) if curve.rule is Rule.WEAK else f"{ratio:.2f}x"
