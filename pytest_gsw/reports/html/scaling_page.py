"""The page of how workloads scale: curves of rows that are alike, and the rows that are compared with none."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from pytest_gsw.common.words import counted, rounded, share
from pytest_gsw.reports.html.drawing import figure
from pytest_gsw.reports.html.elements import Content, element
from pytest_gsw.reports.html.layout import page, row_link, section, sign, simulated_note, table
from pytest_gsw.reports.html.scaling_plot import CURVES, ratio_text, scaling_plot
from pytest_gsw.reports.html.texts import minute, percent
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.rows import Row, is_doubted, is_slow
from pytest_gsw.reports.scaling import Curve, Rule, Workload
from pytest_gsw.results import attention
from pytest_gsw.results.accepted_text import hides_loss
from pytest_gsw.tables.metrics import MFU, TOKENS_PER_S

#: Its address.
SCALING = "scaling.html"

#: Rows that are compared with none, and are listed without being asked for.
_LISTED = 12

_MEANING = {
    Rule.WEAK: "Weak scaling keeps the batch of each GPU: 100 % is what a GPU does on the fewest GPUs.",
    Rule.STRONG: "Strong scaling keeps the whole batch: the speed-up is that over the fewest GPUs.",
}


def scaling_page(night: Night, links: Sequence[tuple[str, str]]) -> ET.Element:
    """How each workload scales, beside the document's figures for the same rows; those with curves come first."""
    ordered = sorted(night.workloads, key=lambda one: not one.curves)
    rules = [rule for rule in Rule if any(one.of(rule) for one in ordered)]
    title = f"How workloads scale, {minute(night.begin_s)}"
    main = [
        element("h1", title),
        simulated_note(night.records),
        element(
            "p",
            "Rows are compared that differ in their number of GPUs alone: one model, number of layers, parallelism and"
            " framework. ",
            *(f"{_MEANING[rule]} " for rule in rules),
            "Where the row on the fewest GPUs did not pass by its document, the next one that did takes its place.",
        ),
        *(_section(number, one) for number, one in enumerate(ordered, 1)),
    ]
    return page(title, main, links, here=SCALING)


def _section(number: int, workload: Workload) -> ET.Element | None:
    pictures = [
        figure(scaling_plot(workload.name, few))
        for rule in Rule
        for curves in [workload.of(rule)]
        for begin in range(0, len(curves), len(CURVES))
        for few in [curves[begin : begin + len(CURVES)]]
    ]
    tables = [curve_table(f"scaling-{number}-{place}", curve) for place, curve in enumerate(workload.curves, 1)]
    return section(f"workload-{number}", workload.name, *pictures, *tables, _others(f"others-{number}", workload))


def curve_table(name: str, curve: Curve) -> ET.Element:
    """The rows of one curve, beside the document's figures."""
    base, device = curve.base, curve.device
    weak = curve.rule is Rule.WEAK
    ratio = "efficiency" if weak else "speed-up"
    batch = "" if curve.name.endswith(curve.batch_text) else f", {curve.batch_text}"
    caption = (
        f"{curve.name}: {curve.rule.value} scaling{batch}; {ratio} against {rounded(base.record.row.gpus, device)}"
    )
    if is_slow(base.record):
        caption += f", {base.needs.word}: {percent(base.change or 0.0)}"
    elif base.verdict is not None and hides_loss(base.record):
        change = percent(base.verdict.documented_throughput_change)
        caption += f", {attention.ACCEPTED.word}: {change} to documented"
    heads = ["row", f"{device}s", ratio, "documented", *([] if weak else ["ideal"])]
    heads += ["tokens/s", "documented", f"tokens/s/{device}", "MFU", "documented"]
    return table(name, caption, heads, [_curve_line(curve, row) for row in curve.rows])


def _curve_line(curve: Curve, row: Row) -> list[Content]:
    gpus, (tokens, stated) = row.record.row.gpus, _tokens(row)
    return [
        _name(row),
        f"{gpus:,}",
        "not believed" if is_doubted(row.record) else _ratio(curve, curve.measured(row)),
        _ratio(curve, curve.documented(row)),
        *([] if curve.rule is Rule.WEAK else [_ratio(curve, curve.ideal(row))]),
        _figure(tokens),
        _figure(stated),
        _figure(tokens / gpus if tokens and gpus > 0 else None),
        *_mfu(row),
    ]


def _ratio(curve: Curve, ratio: float | None) -> str:
    return "" if ratio is None else ratio_text(curve, ratio)


def _others(name: str, workload: Workload) -> ET.Element | None:
    """The rows that are compared with none, and why."""
    if not workload.others:
        return None
    heads = [
        "row",
        "GPUs",
        "layers",
        "batch",
        "tokens/s",
        "documented",
        "MFU",
        "documented",
        "why it is not compared",
    ]
    caption = f"{counted(len(workload.others), 'row')} compared with no other"
    listed = table(name, caption, heads, [_other(row, why) for row, why in workload.others])
    if len(workload.others) <= _LISTED:
        return listed
    return element("details", element("summary", f"{caption}, and why"), listed)


def _other(row: Row, why: str) -> list[Content]:
    facts = row.record.row
    layers = f"{facts.layers or ''}{' (proxy)' if facts.proxy else ''}"
    batch = "" if facts.batch is None else f"{facts.batch:,}"
    rates = map(_figure, _tokens(row))
    return [_name(row), f"{facts.gpus:,}", layers, batch, *rates, *_mfu(row), element("td", why, class_="long")]


def _name(row: Row) -> ET.Element:
    return element("span", sign(row.kind), element("span", row.needs.word, class_="vh"), " ", row_link(row))


def _tokens(row: Row) -> tuple[float | None, float | None]:
    return row.record.figures.measured.get(TOKENS_PER_S.key), row.record.figures.stated(TOKENS_PER_S.key)


def _mfu(row: Row) -> tuple[str, str]:
    measured, stated = row.record.figures.measured.get(MFU.key), row.record.figures.stated(MFU.key)
    return share(measured) if measured else "", share(stated) if stated else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.4g}"
