"""The page of an acceptance's sheet: four sheets of paper or fewer, to be signed by both sides."""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from datetime import timezone

from pytest_gsw.acceptance.sheet import NAME, RowFigure, Sheet, sheet_text
from pytest_gsw.acceptance.state import MET, NOT_MET
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.text import calendar, hours_text, named, plural, share, shortened
from pytest_gsw.reports import html, texts
from pytest_gsw.reports.html import Content, element
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.row_text import endurance_text

#: The most lines of a table, names in a line, and letters in a cell, for which four sheets of paper have room.
_LINES, _NAMED, _LONGEST = 40, 8, 120
_KINDS = {MET: attention.PASSED.kind, NOT_MET: attention.REGRESSED.kind}


def sheet_page(sheet: Sheet, links: Sequence[tuple[str, str]]) -> ET.Element:
    """The sheet; its times are UTC, so that it is the same on every machine."""
    title = f"Acceptance of {sheet.acceptance.name}: {sheet.verdict}{' (simulated)' if sheet.is_simulated else ''}"
    stage_heads = ["stage", "state", ">nodes", ">passed", ">not passed", ">jobs"]
    stage_heads += [">GPU-hours", ">as planned", ">hours", ">as planned"]
    row_heads = ["row", "outcome", ">measured", ">reference", ">change", "interval", ">tolerance", ">noise", ">jobs"]
    main = [
        element("h1", title, class_=_KINDS.get(sheet.verdict, attention.INCONCLUSIVE.kind)),
        _table("Criteria", ["criterion", "verdict", ">wanted", ">measured", "95 % interval", "by"], _criteria(sheet)),
        html.fact_list(_head(sheet)),
        _table("Stages", stage_heads, _stages(sheet)),
        _table("Exceptions", ["node", "kind", "stage", "why", "evidence", "owner"], _exceptions(sheet)),
        _table("Rows", row_heads, map(_row, sheet.rows)),
        html.section("record", "Record", html.fact_list(_record(sheet))),
        element("div", *map(_signature, ("the supplier", "the customer")), class_="signatures"),
    ]
    return html.page(title, [element("div", *main, class_="sheet")], links, here="index.html")


def _table(name: str, heads: Sequence[Content], lines: Iterable[Sequence[Content]]) -> ET.Element | None:
    listed = list(lines)
    more = f", {len(listed) - _LINES} of them in {NAME} alone" if len(listed) > _LINES else ""
    return html.table(name.lower(), f"{name} ({len(listed)}{more})", heads, listed[:_LINES])


def _criteria(sheet: Sheet) -> Iterator[Sequence[Content]]:
    for one in sheet.criteria:
        kind = _KINDS.get(one.verdict, attention.INCONCLUSIVE.kind)
        verdict = element("td", html.sign(kind), f" {one.verdict}", class_=kind)
        figures = ["" if figure is None else texts.signed(share(figure)) for figure in (one.figure, one.low, one.high)]
        wanted = f"{'≤' if one.name == 'within' else '≥'} {share(one.wanted)}"
        yield [one.name, verdict, wanted, figures[0], " to ".join(filter(None, figures[1:])), one.why]


def _head(sheet: Sheet) -> Iterator[tuple[str, Content]]:
    state, times = sheet.acceptance, [calendar(time_s, timezone.utc) for time_s in (sheet.begun_s, sheet.ended_s)]
    yield "cluster", sheet.cluster
    yield "bill", texts.shown_nodes(state.nodes)
    for one in sheet.coverage:
        of_group = (f"{name} ({nodes})" for name, nodes in one.missing.items())
        left = compressed(one.missing) if one.kind == "nodes" else ", ".join(of_group)
        yield f"{one.kind} covered", f"{one.covered} of {one.of}" + (left and f", not {shortened(left, 3 * _LONGEST)}")
    yield "run", f"{sheet.run}, {' to '.join(f'{time:%Y-%m-%d %H:%M}' for time in times if time)} UTC, by {state.user}"
    yield "plan", f"{state.file}, SHA-256 {state.sha256}"
    yield "stopped", state.stopped and f"{state.stopped}; {hours_text(state.saved_gpu_hours)} GPU-hours were not spent"


def _stages(sheet: Sheet) -> Iterator[Sequence[Content]]:
    for stage, one in zip(sheet.acceptance.stages, sheet.stages, strict=True):
        told = ["" if hours is None else hours_text(hours) for hours in (stage.told_gpu_hours, stage.told_hours)]
        counts = (f"{count}" for count in (one.passed, one.failed, one.jobs))
        of = f"{stage.name}{stage.tile and f', each {stage.tile}'}"
        hours = (hours_text(one.gpu_hours), told[0], hours_text(one.hours), told[1])
        yield [of, stage.state, f"{len(expand(stage.nodes))}", *counts, *hours]


def _exceptions(sheet: Sheet) -> Iterator[Sequence[Content]]:
    for one in sheet.acceptance.exceptions:
        evidence = ", ".join(filter(None, (one.row, one.job_id and f"job {one.job_id}")))
        why, owner = texts.signed(shortened(one.why, _LONGEST)), element("td", class_="owner")
        yield [one.node, one.kind, one.stage, why, evidence, owner]


def _row(one: RowFigure) -> Sequence[Content]:
    metric, words = one.row.judged_metric, [outcomes.of(word) for word in one.outcomes]
    kind = max(words, key=lambda word: word.severity).attention.in_report.kind
    counts = [f"{count} {word.text}" for word, count in zip(words, one.outcomes.values(), strict=True)]
    told = words[0].text if [*one.outcomes.values()] == [1] else ", ".join(counts)
    figures = ["", "", "", ""]
    if one.figure is not None and one.reference is not None and one.low is not None and one.high is not None:
        limits = sorted(metric.change_by(limit - 1) for limit in (one.low, one.high))
        shown = texts.percent(metric.change(one.figure, one.reference)), " to ".join(map(texts.percent, limits))
        figures = [metric.text(one.figure), metric.text(one.reference), *shown]
    noise = f"{share(one.noise.sigma)}{'' if one.noise.jobs else '*'}"
    outcome = element("td", html.sign(kind), f" {told}", class_=kind)
    return [one.name, outcome, *figures, share(one.row.tolerance), noise, f"{one.jobs}"]


def _record(sheet: Sheet) -> Iterator[tuple[str, Content]]:
    repeated, stages = [text for row in sheet.rows for text in row.repeated], sheet.stages
    used, lost = sum(one.gpu_hours for one in stages), sum(one.lost_gpu_hours for one in stages)
    files = {**sheet.records, **sheet.logs, **sheet.tables}
    shared = [f"{one.name} {one.value} (of {one.nodes})" for one in sheet.versions if not one.outliers]
    yield "GPU-hours", f"{hours_text(used)} used, {hours_text(lost)} of them lost"
    yield "jobs", f"{sum(one.jobs for one in stages)}, {len(repeated)} of them run again"
    yield "run again", named(repeated, _NAMED)
    for row in sheet.rows:
        yield row.name, "" if row.endurance is None else texts.signed(endurance_text(row.endurance))
    yield "the same on all nodes", named(shared, 4 * _NAMED)
    for one in sheet.versions:
        others = ", ".join(f"{value} on {nodes}" for value, nodes in one.outliers.items())
        most = f"{one.value} on {plural(one.count, 'node')}"
        yield f"{one.name} differs", others and f"{most}, {shortened(others, 3 * _LONGEST)}"
    yield "method", sheet.method
    yield "software", ", ".join(f"{name} {version}" for name, version in sheet.software.items())
    own = hashlib.sha256(sheet_text(sheet).encode()).hexdigest()
    yield "files", f"{plural(len(files), 'file')} of records, logs and tables, each with its SHA-256 in {NAME}: {own}"
    yield "not read", named([f"{path}: {why}" for path, why in files.items() if " " in why], _NAMED)


def _signature(side: str) -> ET.Element:
    lines = (element("div", element("dt", what), element("dd")) for what in ("name", "date", "signature"))
    return element("div", element("h2", f"For {side}"), element("dl", *lines))
