"""How workloads scale, drawn over GPU counts."""

from __future__ import annotations

import enum
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from pytest_gsw.common.words import share
from pytest_gsw.reports.html.drawing import EDGE, Plot, across, frame, key, level, line, point, ticks, upright
from pytest_gsw.reports.run_report import Row, device, is_doubted, is_slow
from pytest_gsw.results import attention
from pytest_gsw.results.row_text import hides_loss
from pytest_gsw.tables import metrics

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


#: Settings that grow with the number of GPUs, or shrink with it: rows of one curve may differ in them.
_WITH_GPUS = frozenset({"dp", "fsdp", "gas"})
#: No throughput is as large.
_MOST = 1e15


class Rule(enum.Enum):
    """What stays the same while the GPUs become more."""

    WEAK = "weak"
    STRONG = "strong"


@dataclass(frozen=True)
class Curve:
    """Rows that are compared: one of each number of GPUs, the smallest first."""

    rule: Rule
    name: str
    rows: tuple[Row, ...]
    #: Samples per GPU of weak scaling, samples of strong scaling.
    batch: Fraction

    @cached_property
    def base(self) -> Row:
        """The row that the others are held against: the first that is as fast as documented.

        Where there is none, it is the first that passed by an accepted figure, else the first that is believed.
        """
        believed = [row for row in self.rows if measured_rate(row)]
        fast = [row for row in believed if not is_slow(row.record)]
        documented = [row for row in fast if not hides_loss(row.record)]
        return (documented or fast or believed or self.rows)[0]

    @property
    def device(self) -> str:
        """What its rows are counted in."""
        return device(self.rows[0].record.row.accelerator)

    @property
    def batch_text(self) -> str:
        """``2 samples per GPU``, or of strong scaling ``256 samples``."""
        per = f" per {self.device}" if self.rule is Rule.WEAK else ""
        return f"{float(self.batch):.4g} {'sample' if self.batch == 1 else 'samples'}{per}"

    def measured(self, row: Row) -> float | None:
        """A row's efficiency per GPU (weak), or its speed-up (strong), against the base; 1 is the base's own."""
        return self._ratio(row, measured_rate)

    def documented(self, row: Row) -> float | None:
        """The same of the document's figures."""
        return self._ratio(row, documented_rate)

    def ideal(self, row: Row) -> float:
        """What it would be if GPUs did not hinder each other."""
        return 1.0 if self.rule is Rule.WEAK else row.record.row.gpus / self.base.record.row.gpus

    def _ratio(self, row: Row, rate: Callable[[Row], float | None]) -> float | None:
        own, base = rate(row), rate(self.base)
        if own is None or base is None:
            return None
        more = row.record.row.gpus / self.base.record.row.gpus if self.rule is Rule.WEAK else 1.0
        return own / base / more


@dataclass(frozen=True)
class Workload:
    """The rows of one model on one accelerator that are compared."""

    name: str
    curves: tuple[Curve, ...]

    def of(self, rule: Rule) -> tuple[Curve, ...]:
        """Its curves of one rule."""
        return tuple(curve for curve in self.curves if curve.rule is rule)


def workloads(rows: Iterable[Row]) -> tuple[Workload, ...]:
    """The workloads that were run on several numbers of GPUs, by name."""
    known = sorted(rows, key=lambda row: (row.record.row.gpus, row.record.row.id))
    several = len({row.record.row.accelerator for row in known}) > 1
    found: dict[str, list[Row]] = {}
    for row in known:
        facts = row.record.row
        found.setdefault(f"{facts.workload} on {facts.accelerator}" if several else facts.workload, []).append(row)
    return tuple(
        _workload(name, of_name)
        for name, of_name in sorted(found.items())
        if len({row.record.row.gpus for row in of_name}) > 1
    )


def measured_rate(row: Row) -> float | None:
    """Tokens, or where these are not known samples, per second; ``None`` where nothing is that is believed."""
    return None if is_doubted(row.record) else _rate(row, row.record.figures.measured.get)


def documented_rate(row: Row) -> float | None:
    """The same by the document."""
    return _rate(row, row.record.figures.stated)


def experiment(row: Row) -> dict[str, str]:
    """What rows must share to be compared, by name, but for their batch."""
    facts = row.record.row
    layers = f"{facts.layers or 'an unknown number'}{', a proxy' if facts.proxy else ''}"
    settings = {name: value for name, value in facts.settings.items() if name not in _WITH_GPUS}
    return {"dtype": facts.dtype, "framework": facts.framework, "layers": layers, **settings}


def _rate(row: Row, figure: Callable[[str], float | None]) -> float | None:
    tokens, step_s, batch = figure(metrics.TOKENS_PER_S.key), figure(metrics.STEP_TIME.key), row.record.row.batch
    if tokens is None and step_s and batch:
        tokens = batch / step_s
    return tokens if tokens is not None and 1e-9 < tokens < _MOST and row.record.row.gpus > 0 else None


def _workload(name: str, rows: Sequence[Row]) -> Workload:
    alike: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(sorted(experiment(row).items())), []).append(row)
    found = [
        (rule, batch, one_of_each)
        for of_experiment in alike.values()
        for rule in Rule
        for batch, of_batch in _by_batch(of_experiment, rule).items()
        if len(one_of_each := tuple({row.record.row.gpus: row for row in reversed(of_batch)}.values())[::-1]) > 1
    ]
    varies = _varying([experiment(of_curve[0]) for _, _, of_curve in found])
    curves = _told_apart(
        Curve(rule, _name(of_curve[0], varies), of_curve, batch)
        for rule, batch, of_curve in sorted(found, key=lambda one: (one[2][0].record.row.id, one[0].value))
    )
    return Workload(name, curves)


def _by_batch(rows: Iterable[Row], rule: Rule) -> Mapping[Fraction, list[Row]]:
    found: dict[Fraction, list[Row]] = {}
    for row in rows:
        batch, gpus = row.record.row.batch, row.record.row.gpus
        if batch and batch > 0 and gpus > 0:
            found.setdefault(Fraction(batch, gpus if rule is Rule.WEAK else 1), []).append(row)
    return found


def _varying(experiments: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of what differs between experiments."""
    names = dict.fromkeys(name for one in experiments for name in one)
    return [name for name in names if len({one.get(name) for one in experiments}) > 1]


def _name(row: Row, varies: Iterable[str]) -> str:
    """What a curve is called among the others of its workload: its dtype, and in what else it differs from them."""
    facts = experiment(row)
    others = [f"{name} {facts[name]}" for name in varies if name in facts and name != "dtype"]
    return ", ".join([row.record.row.dtype, *others])


def _told_apart(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Curves, of which no two of a rule have one name: those that would have differ in their batches."""
    listed = tuple(curves)
    names = Counter((one.rule, one.name) for one in listed)
    return tuple(
        one if names[one.rule, one.name] == 1 else replace(one, name=f"{one.name}, {one.batch_text}") for one in listed
    )
