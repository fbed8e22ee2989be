"""How workloads scale, drawn over GPU counts."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_gsw.common.words import share
from pytest_gsw.reports.html.drawing import EDGE, Plot, across, frame, key, level, line, point, ticks, upright
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
    weak = curves[0].rule is Rule.WEAK
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
    title = f"{'Efficiency per GPU (%)' if weak else 'Speed-up'} of {workload}"
    svg = frame(y, ticks(x, gpus), "GPUs")
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
            place = x(row.record.row.gpus), y(value)
            svg.append(point(*place, told, kind, shape, link=f"rows/{row.name}.html"))
        for row in (one for one in curve.rows if one.needs is attention.ERROR):
            told = f"{row.record.row.id}: error: {row.record.fact}"
            place = x(row.record.row.gpus), EDGE
            svg.append(point(*place, told, "error", "cross", link=f"rows/{row.name}.html"))
        legend.append(key(curve.name, kind, shape))
    if any(row.needs is attention.ERROR for curve in curves for row in curve.rows):
        legend.append(key("could not be measured", "error", "cross"))
    legend += [key("documented", "stated", "line"), key("ideal", "pale", "line")]
    alt = f"{title} over {gpus[0]:,} to {gpus[-1]:,} GPUs; measured drawn through, documented dashed"
    return Plot(title, svg, alt, tuple(legend))


def ratio_text(curve: Curve, ratio: float) -> str:
    """An efficiency as a percentage, or a speed-up as a factor."""
    return share(ratio) if curve.rule is Rule.WEAK else f"{ratio:.2f}x"
