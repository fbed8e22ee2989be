"""The pages of a run: the first one, those of its jobs and of each row, the index of runs, and their files.

A report is written over that of the run before. The first page of each run is kept, ``runs/RUN.html``; pages for each
row of each run would be gigabytes. Every file is written whole, and the first page last, so that it never names a page
that is missing.
"""

from __future__ import annotations

import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TypeVar

from pytest_gsw.common.files import make_directory, write_whole
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.process import collector_paused
from pytest_gsw.common.text import calendar, command, duration, enumerated, moment, named, plural, rounded, share
from pytest_gsw.errors import LogError
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.history.comparison import COLUMNS, cells, counts_text, recovery_text, sound_text, suspect_text
from pytest_gsw.history.model import Point, RowOutcome, cluster_of
from pytest_gsw.history.row_history import FAILURES_DAYS
from pytest_gsw.history.store import History
from pytest_gsw.logs.reader import tail_lines
from pytest_gsw.logs.signatures import find_cause
from pytest_gsw.reports import charts
from pytest_gsw.reports.elements import (
    NUMBER,
    WORST_FIRST,
    Content,
    card_text,
    change,
    command_line,
    command_list,
    drift_text,
    element,
    fact_list,
    fact_text,
    figure_text,
    html_text,
    job_text,
    kind_cell,
    limit_text,
    minute,
    nodes_fact,
    page,
    percent,
    report_text,
    row_link,
    section,
    several,
    shown_change,
    shown_nodes,
    sign,
    signed,
    simulated_note,
    since_facts,
    table,
    time_element,
    without_unit,
)
from pytest_gsw.reports.run_report import (
    AT_DOCUMENT,
    KINDS,
    LISTED_RUNS,
    Cause,
    ReportedRow,
    ReportedSweep,
    RunJob,
    RunListEntry,
    RunReport,
    Unrecorded,
    advice_of,
    current_reference,
    device,
    past_references,
    reference_at,
    since_line,
)
from pytest_gsw.results import attention, outcomes, row_text
from pytest_gsw.results.attention import Attention
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.results.row_text import accepted_line, compared_text, finding_text, hides_loss, informative_line
from pytest_gsw.results.run_progress import COLUMNS as OPEN_COLUMNS
from pytest_gsw.results.suggested_commands import again, history_command, next_command, repeat_commands
from pytest_gsw.results.summary import outcome_texts
from pytest_gsw.results.sweep import next_lines, sweep_facts
from pytest_gsw.stats.verdict import UNUSUAL, Reason
from pytest_gsw.tables.metrics import MFU, common_change_label

#: The first page of a run, in its directory.
INDEX = "index.html"

_HEADED = [one for one in attention.ATTENTIONS if one.heading]

#: The most rows of one kind that have a card, and the most of one cause that are named; the list of all rows has all.
_AT_LENGTH, _NAMED = 40, 12
#: The place of an alarm's cluster among its cells: in a report of one cluster, the title has it.
_CLUSTER = COLUMNS.index("cluster")
#: The most causes, and the most rows without a record, that are listed.
_CAUSES, _MISSING = 40, 200
#: Seconds after which a browser reads the page of a session that goes on again.
_REFRESH_S = 60


def run_page(report: RunReport, links: Sequence[tuple[str, str]], kept: str = "", root: str = "") -> ET.Element:
    """The first page of a run.

    Args:
        report: The run.
        links: Names of the run's pages, each with its address.
        kept: The address of the run's kept page; empty if it has none.
        root: The path to the report's directory.
    """
    title = f"{report_text(report)} on {', '.join(report.clusters) or 'no cluster'}, {minute(report.begin_s)}"
    title += f", replay of {report.replay_of}" if report.replay_of else ""
    main = [
        element("h1", title),
        _counts(report),
        element("p", *_run_facts(report, kept), class_="run"),
        fact_list(_summary_facts(report)),
        simulated_note(report.records),
        changes_section(report),
        section("cluster", "The cluster", _incident(report), *_drift_cards(report), *_nodes(report)),
        _open_rows(report),
        _attention(report),
        *(_sweep_section(number, one, report) for number, one in enumerate(report.sweeps, 1)),
        _faster_rows(report),
        section("next", "What to type next", command_list(report.next_commands)),
        section("alarms", "All alarms", *_alarms(report)),
        section("verdicts", "Verdicts", *verdict_tables(_without_tiles([*report.worst_first, *report.unrecorded]))),
        section("scaling", "Scaling", *_scaling(report)),
        section("rows", "All rows", _all_rows(report)),
    ]
    made = page(title, main, links, here="" if root else INDEX, root=root)
    if report.goes_on:
        made[0].append(element("meta", http_equiv="refresh", content=_REFRESH_S))
    return made


def _open_rows(report: RunReport) -> ET.Element | None:
    """The rows that the session has yet to judge, those that run first."""
    if report.run.progress is None:
        return None
    lines = report.run.progress.lines
    more = command_line(command("pytest-gsw", "rows", "--run", report.run_id)) if len(lines) > _MISSING else None
    return section("open", "Open rows", table("open", plural(len(lines), "row"), OPEN_COLUMNS, lines[:_MISSING]), more)


def _counts(report: RunReport) -> ET.Element:
    """The number of rows of each outcome: the numbers of the session's last line."""
    told = outcome_texts(report.records, len(report.unrecorded))
    slow, nodes, incident = attention.REGRESSED.kind, report.slow_tile_nodes, report.incident
    entries = [_badge(slow, plural(nodes, "slow node"), "#slow-tiles")] if nodes else []
    if incident is not None:
        entries.append(_badge(incident.needs.in_report.kind, f"1 {incident.needs.kind}", "#cluster"))
    entries += [_badge(one.attention.in_report.kind, told[one]) for one in WORST_FIRST if one in told]
    if drifting := report.counts.get(attention.DRIFT.kind):
        entries.append(_badge(attention.DRIFT.kind, f"{drifting} of them {'drifts' if drifting == 1 else 'drift'}"))
    return element("ul", *entries, class_="counts", aria_label="Rows by verdict")


def _scaling(report: RunReport) -> Iterator[ET.Element | None]:
    """The scaling of each workload, measured and documented; a picture has as many curves as there are shapes."""
    most = len(charts.CURVES)
    for workload, of_workload in charts.workloads(_without_tiles(report.rows)).items():
        for rule in charts.Rule:
            curves = [curve for curve in of_workload if curve.rule is rule]
            for begin in range(0, len(curves), most):
                yield charts.figure(charts.scaling_plot(workload, curves[begin : begin + most]))


def _badge(kind: str, text: str, target: str = "") -> ET.Element:
    target = target or (f"#{kind}" if attention.BY_KIND[kind].heading else "#rows")
    return element("li", element("a", sign(kind), f" {text}", href=target, class_=f"badge {kind}"))


def _nodes(report: RunReport) -> list[ET.Element | None]:
    """The nodes that make jobs slow, or fail them."""
    slow = [signed(suspect_text(one)) for of_cluster in report.slow_nodes.values() for one in of_cluster]
    return [
        _nodes_card("slow: ", slow, attention.REGRESSED.kind, "jobs.html#slow"),
        _nodes_card("fails jobs: ", report.failing_texts, attention.ERROR.kind, "jobs.html#failing"),
        *map(command_line, report.nodes_commands.values()),
    ]


def _nodes_card(what: str, nodes: Sequence[str], kind: str, where: str) -> ET.Element | None:
    if not nodes:
        return None
    told = element("a", what, named(nodes, _NAMED), href=where)
    return element("p", sign(kind), " ", told, class_=f"card {kind}")


def _incident(report: RunReport) -> ET.Element | None:
    """The incident of the whole cluster, and the rows that are part of it."""
    incident = report.incident
    if incident is None:
        return None
    kind = incident.needs.in_report.kind
    pages = {row.record.row.node_id: row for row in report.rows}
    parts = [row_link(pages[name]) for name in incident.parts if name in pages]
    return element(
        "div",
        element("h3", sign(kind), f" {signed(incident.fact)}{report.incident_since}"),
        fact_list([("canaries that were too slow as well", ", ".join(incident.canaries))]),
        element("p", "These rows are part of it, and inconclusive for that:") if parts else None,
        element("ul", *(element("li", link) for link in parts[:_AT_LENGTH]), class_="rows") if parts else None,
        _more(len(parts) - _AT_LENGTH),
        command_line(history_command(incident.cluster)),
        class_=f"card {kind}",
    )


def _drift_cards(report: RunReport) -> list[ET.Element]:
    """The drifts of whole clusters."""
    kind = attention.DRIFT.kind
    told = [f" cluster {cluster}: {signed(one.drift)}" for cluster, one in report.cluster_texts.items() if one.drift]
    return [element("p", sign(kind), text, class_=f"card {kind}") for text in told]


def _run_facts(report: RunReport, kept: str) -> list[Content]:
    name = element("code", report.run_id)
    parts: list[Content] = ["run ", element("a", name, href=kept) if kept else name]
    if report.begin_s and report.end_s and calendar(report.begin_s) and calendar(report.end_s):
        took = duration(report.end_s - report.begin_s)
        parts += [", ", time_element(report.begin_s), " to ", time_element(report.end_s), f" ({took})"]
    return [*parts, f", {_end_text(report)}"]


def _summary_facts(report: RunReport) -> list[tuple[str, str]]:
    """The run for readers who are responsible for the cluster: share of good rows, its trend, and GPU-hours."""
    good, rows = report.at_document
    weeks = ["no run" if one is None else without_unit(share(one)) for one in report.weekly_shares]
    trend = f"{' → '.join(weeks)} % of rows, week by week until this run" if len(weeks) > 1 else ""
    limit = f"at ≥ {AT_DOCUMENT * 100:g} % of the document"
    return [
        ("rows", f"{good} of {rows} {limit} ({share(good / rows)})" if rows else ""),
        ("trend", trend),
        ("GPU-hours", _gpu_hours_text(report)),
    ]


def _gpu_hours_text(report: RunReport) -> str:
    saved = sum(record.jobs.saved_gpu_hours or 0.0 for record in report.records)
    used = f"{report.gpu_hours:,.1f} used, {report.lost_gpu_hours:,.1f} of them lost in failed jobs"
    return used + (f", about {saved:,.1f} saved by ending jobs early" if saved else "")


def _end_text(report: RunReport) -> str:
    if (progress := report.run.progress) is not None:
        when = f", as of {moment(progress.time_s)}" if progress.time_s else ""
        return f"its session goes on{when}: {progress.text}"
    if report.unjudged and report.run.exit_status is None:
        return "its session was ended before all rows were judged"
    return f"exit status {report.exit_status}"


# -- rows that need attention ----------------------------------------------------------------------


def _attention(report: RunReport) -> ET.Element | None:
    groups = [_findings_group(report)] if any(sweep.of_row.findings for sweep in report.sweeps) else []
    groups += [_group(report, one.kind) for one in _HEADED if one.is_urgent and one.kind in report.counts]
    if groups:
        return section("attention", "What needs attention", *groups)
    if not report.rows:
        return None
    told: list[Content] = [f" Nothing needs attention{' so far' if report.goes_on else ''}."]
    if alarms := report.active_alarms:
        told = [" No row needs attention; ", element("a", plural(alarms, "active alarm"), href="#alarms"), "."]
    return element("p", sign(attention.PASSED.kind), *told, class_="well")


def _faster_rows(report: RunReport) -> ET.Element | None:
    """Rows that are faster than their documents."""
    groups = [_group(report, one.kind) for one in _HEADED if not one.is_urgent and one.kind in report.counts]
    return section("faster", "Faster than allowed", *groups)


def _group(report: RunReport, kind: str) -> ET.Element:
    heading = element("h3", sign(kind), f" {_heading(report, kind)}", id=kind)
    if kind == attention.ERROR.kind:
        shown = enumerate(report.causes[:_CAUSES], 1)
        causes = [_cause_card(number, cause, report.run.directory) for number, cause in shown]
        left = sum(len(cause.rows) for cause in report.causes[_CAUSES:])
        cards = element("ul", *causes, _unrecorded_card(report), class_="cards")
        return element("div", heading, cards, _more(left))
    parts = frozenset(() if report.incident is None else report.incident.parts)
    rows = [row for row in report.of(kind) if row.record.row.node_id not in parts]
    told = len(report.of(kind)) - len(rows)
    alone = [row for row in rows if not row.tile]
    cards = element("ul", *(_card(row, report.run.directory) for row in alone[:_AT_LENGTH]), class_="cards")
    under = element("p", f"{told} of them are part of what the whole cluster has, above.") if told else None
    tiles = _tile_links([row for row in rows if row.tile])
    return element("div", heading, cards if alone else None, _more(len(alone) - _AT_LENGTH), under, tiles)


def _tile_links(tiles: Sequence[ReportedRow]) -> ET.Element | None:
    """Tiles of one kind, which have no cards: what they show together is in the section of their row."""
    if not tiles:
        return None
    links: Sequence[Content] = [part for row in tiles[:_NAMED] for part in (", ", row_link(row))][1:]
    more = f" and {len(tiles) - _NAMED} more" if len(tiles) > _NAMED else None
    return element("p", f"{plural(len(tiles), 'tile')}: ", *links, more)


def _heading(report: RunReport, kind: str) -> str:
    count = report.counts[kind]
    ran = report.outcomes.get(outcomes.UNEXPECTED_SUCCESS.word, 0) if kind == attention.REGRESSED.kind else 0
    parts = [f"{attention.BY_KIND[kind].heading} ({count - ran})"] if count > ran else []
    parts += [f"Ran although documented to fail ({ran})"] if ran else []
    return ", ".join(parts)


def _more(count: int) -> ET.Element | None:
    """A link to the rows that are not named here."""
    if count <= 0:
        return None
    return element("p", f"and {count} more, ", element("a", "in the list of all rows", href="#rows"))


def _card(row: ReportedRow, directory: Path) -> ET.Element:
    what, nodes = nodes_fact(row.record)
    return element(
        "li",
        element("h4", row_link(row), " ", change(row)),
        row_curve(row),
        element("p", card_text(row), class_="fact"),
        fact_list([(what, shown_nodes(nodes)), *since_facts(row)]),
        command_line(next_command(row.record, row.needs, directory)),
        class_=f"card {row.kind}",
    )


def _cause_card(number: int, cause: Cause, directory: Path) -> ET.Element:
    # Another job of a row with advice of its own would meet the error again.
    repeated = [row.record for row in cause.rows if not row.record.advice]
    return element(
        "li",
        element("h4", f"{plural(len(cause.rows), 'row')}: {cause.fact}", id=f"cause-{number}"),
        fact_list([("nodes", cause.nodes), ("advice", cause.advice), ("its log says", _log_line(cause, directory))]),
        element("ul", *(_error_row(row) for row in cause.rows[:_NAMED]), class_="rows"),
        _more(len(cause.rows) - _NAMED),
        command_line(again(repeated, directory)) if repeated else None,
        class_=f"card {attention.ERROR.kind}",
    )


def _log_line(cause: Cause, directory: Path) -> str:
    """The line most like the cause of an unknown error, in the log of the first row that has one."""
    if cause.advice:
        return ""
    lines = (likely_cause(log_ends_of(row, directory)) for row in cause.rows[:_NAMED])
    return next(filter(None, lines), "")


def _error_row(row: ReportedRow) -> ET.Element:
    said = [job_text(row.record), *(f"{name} {value}" for name, value in since_facts(row))]
    words = "; ".join(text for text in said if text)
    return element("li", row_link(row), f": {words}" if words else None)


def _unrecorded_card(report: RunReport) -> ET.Element | None:
    missing = report.unrecorded
    if not missing:
        return None
    entries = [element("li", element("code", one.node_id), f": {one.why}") for one in missing[:_MISSING]]
    more = f"and {len(missing) - _MISSING} more" if len(missing) > _MISSING else None
    return element(
        "li",
        element("h4", f"{plural(len(missing), 'row')}: no record", id="missing"),
        element("ul", *entries, class_="rows"),
        element("p", more) if more else None,
        class_=f"card {attention.ERROR.kind}",
    )


def _alarms(report: RunReport) -> list[ET.Element | None]:
    """The active alarms, and under a summary the others."""
    if not report.alarms:
        return []
    left_out = _CLUSTER if len(report.clusters) == 1 else len(COLUMNS)
    heads = [head for place, head in enumerate(COLUMNS) if place != left_out]

    def table_of(name: str, caption: str, alarms: Iterable[Alarm]) -> ET.Element | None:
        lines = ([cell for place, cell in enumerate(_alarm_cells(one)) if place != left_out] for one in alarms)
        return table(name, caption, heads, lines)

    standing = [one for one in report.alarms if one.is_active]
    over = len(report.alarms) - len(standing)
    caption = f"{counts_text(standing)}{f', {over} fixed or gone' if over else ''}"
    stand = table_of("alarms", caption, standing) if standing else element("p", caption)
    if not over:
        return [stand]
    ended = (one for one in report.alarms if not one.is_active)
    summary = f"{plural(over, 'alarm')} of the last days, fixed or gone"
    return [stand, _folded(summary, table_of("over", "Fixed alarms", ended))]


def _alarm_cells(alarm: Alarm) -> list[Content]:
    """The cells of an alarm; the last one and its state may have several lines."""
    name, kind, state, *others, acknowledged = (signed(cell) for cell in cells(alarm))
    wrapped = (element("td", text or None, class_="wraps") for text in (state, acknowledged))
    return [name, kind, next(wrapped), *others, next(wrapped)]


# -- tiles -----------------------------------------------------------------------------------------

#: By the kind of a finding, the kind of its card and cell.
_OF_FINDINGS = {
    "slow": attention.REGRESSED,
    "between": attention.REGRESSED,
    "intermittent": attention.REGRESSED,
    "not decided": attention.INCONCLUSIVE,
}


def _without_tiles(rows: Iterable[_Row]) -> list[_Row]:
    return [row for row in rows if not row.tile]


def _findings_group(report: RunReport) -> ET.Element:
    """Findings of tiles: a card each."""
    cards = [
        element(
            "li",
            element(
                "h4", sign(needs.kind), " ", element("a", finding.nodes, href=f"#tiles-{number}"), f": {finding.kind}"
            ),
            element("p", signed(finding_text(finding)), class_="fact"),
            fact_list([("row", sweep.of_row.row)]),
            class_=f"card {needs.kind}",
        )
        for number, sweep in enumerate(report.sweeps, 1)
        for finding in sweep.of_row.findings
        for needs in [_OF_FINDINGS[finding.kind]]
    ]
    heading = element("h3", "Slower than their peers", id="slow-tiles")
    return element("div", heading, element("ul", *cards[:_AT_LENGTH], class_="cards"))


def _sweep_section(number: int, sweep: ReportedSweep, report: RunReport) -> ET.Element | None:
    """The tiles of one row: how they compare, what is slow, what was not covered, and the commands."""
    one, name = sweep.of_row, f"tiles-{number}"
    left = [element("li", element("code", nodes), f": {why}") for why, nodes in sweep.not_covered.items()]
    changes = [change for row in sweep.tiles if (change := row.record.change) is not None]
    spread = f"{percent(min(changes))} to {percent(max(changes))}" if changes else ""
    median = f"median {percent(statistics.median(changes))}, {spread}" if changes else ""
    covered = f"{sweep.covered_nodes} of {plural(sweep.whole.nodes, 'node')} of the partition {sweep.whole.partition}"
    return section(
        name,
        sweep.title,
        charts.figure(charts.peers_plot(one)),
        fact_list(
            [
                ("covered", covered if sweep.whole.nodes else ""),
                ("vs reference", median),
                *((head, signed(text)) for head, text in sweep_facts(one, {})),
            ]
        ),
        element("h3", f"Not covered ({sweep.not_covered_nodes})") if left else None,
        element("ul", *left[:_MISSING], class_="rows") if left else None,
        command_list(next_lines(sweep.of_row, report.run_id)),
    )


def _folded(summary: str, content: ET.Element | None) -> ET.Element | None:
    """Content under its summary; nothing without content."""
    return None if content is None else element("details", element("summary", summary), content)


# -- all verdicts ----------------------------------------------------------------------------------


def _all_rows(report: RunReport) -> ET.Element | None:
    """A table of all rows, and a folded one of the tiles that passed."""
    metrics = [row.record.judged_metric for row in report.worst_first]
    units = {metric.unit for metric in metrics}
    unit = f" ({units.pop()})" if len(units) == 1 else ""
    numbers = [f">{common_change_label(metrics) or 'change'} (%)", f">measured{unit}", f">against{unit}", ">MFU (%)"]
    heads = ["row", "verdict", *numbers, "since", "nodes", "job", ">ran"]
    if report.sweeps:
        heads[2:2] = [">vs peers (%)"]
    places = {kind: place for place, kind in enumerate(KINDS)}
    folded = [row for row in report.worst_first if _is_folded(row)]
    lines = [(places[row.kind], _list_line(row, report, not unit)) for row in report.worst_first if not _is_folded(row)]
    for one in report.unrecorded:
        link = element("a", one.id, href="#missing")
        lines.append((places[attention.ERROR.kind], [link, kind_cell(attention.ERROR), *[""] * (len(heads) - 2)]))
    caption = f"{report.rows_text}, the worst first{'; tiles that passed are below' if folded else ''}"
    passed = f"{plural(len(folded), 'tile')} that passed"
    shown = [
        table("all", caption, heads, [line for _, line in sorted(lines, key=lambda one: one[0])]),
        _folded(passed, table("passed-tiles", passed, heads, [_list_line(row, report, not unit) for row in folded])),
    ]
    return element("div", *shown) if any(one is not None for one in shown) else None


def _is_folded(row: ReportedRow) -> bool:
    return bool(row.tile) and not row.needs.is_urgent


def _list_line(row: ReportedRow, report: RunReport, with_unit: bool) -> list[Content]:
    record, jobs = row.record, row.record.reported_jobs
    runs_s = [job.run_s for job in jobs if job.run_s is not None]
    mfu, reference = record.figures.measured.get(MFU.key), record.judged.reference if record.judged else None
    return [
        row_link(row),
        kind_cell(row.needs),
        *([without_unit(percent(row.peers_change))] if report.sweeps else []),
        without_unit(percent(record.change)),
        *(figure_text(record.judged_metric, one, unit=with_unit) for one in (record.measured, reference)),
        "" if mfu is None else without_unit(share(mfu)),
        minute(row.since.time_s) if row.since is not None and since_line(row.since) else "",
        several(shown_nodes(record.nodes)),
        several(", ".join(job.id for job in jobs)),
        duration(sum(runs_s)) if runs_s else "",
    ]


#: The most entries of one list; the table of alarms has all.
_CHANGES = 8

#: By the kind of an alarm, the address of its details, its word and its class.
_OF_ALARMS = {
    Kind.INCIDENT: ("#alarms", "the whole cluster was slower", attention.REGRESSED.kind),
    Kind.NODE: ("jobs.html#slow", "slow node", attention.REGRESSED.kind),
    Kind.DRIFT: ("#alarms", "drifts", attention.DRIFT.kind),
    Kind.REGRESSION: ("#alarms", outcomes.REGRESSED.word, attention.REGRESSED.kind),
}


def changes_section(report: RunReport) -> ET.Element | None:
    """Short lists of causes of errors, and of new, ongoing and fixed alarms; nothing if there are none."""
    known = report.alarms_by_state
    cards = [_errors_card(report)] if report.counts.get(attention.ERROR.kind) else []
    cards += [_changes_card(state, alarms, report) for state, alarms in known.items() if alarms]
    if not cards:
        return None
    empty = [state for state, alarms in known.items() if not alarms]
    none = element("p", f"No alarm is {enumerated(empty, 'or')}.") if empty else None
    return section("lately", "Errors and alarms", element("div", *cards, class_="turned"), none)


def _errors_card(report: RunReport) -> ET.Element:
    """The causes of errors, each with a link to its rows."""
    known = [
        (f"#cause-{number}", cause.fact, len(cause.rows)) for number, cause in enumerate(report.causes[:_CAUSES], 1)
    ]
    known += [("#missing", "no record", len(report.unrecorded))] if report.unrecorded else []
    texts = [(address, fact, plural(rows, "row").replace(" ", "\N{NO-BREAK SPACE}")) for address, fact, rows in known]
    shown = [
        element("li", _spaced(attention.ERROR), element("a", fact, href=address), f": {count}")
        for address, fact, count in texts[:_CHANGES]
    ]
    if (left := len(texts) - _CHANGES) > 0:
        below = element("a", "below", href=f"#{attention.ERROR.kind}")
        shown.append(element("li", f"and {plural(left, 'more cause')} ", below))
    heading = element("h3", f"Errors ({report.counts[attention.ERROR.kind]})")
    return element("div", heading, element("ul", *shown, class_="rows"), class_=f"card {attention.ERROR.kind}")


def _changes_card(state: str, alarms: Sequence[Alarm], report: RunReport) -> ET.Element:
    left = len(alarms) - _CHANGES
    more = element("li", f"and {left} more, ", element("a", "in the list of alarms", href="#alarms"))
    shown = [*(_changes_entry(one, report) for one in alarms[:_CHANGES]), *([more] if left > 0 else [])]
    return element(
        "div",
        element("h3", f"{state.capitalize()} ({len(alarms)})"),
        element("ul", *shown, class_="rows"),
        class_=f"card {state}",
    )


def _changes_entry(alarm: Alarm, report: RunReport) -> ET.Element:
    address, what, kind = _OF_ALARMS[alarm.period.kind]
    period = alarm.period
    name = "" if period.kind is Kind.INCIDENT else f"{period.subject}: "
    if period.kind is Kind.INCIDENT and report.incident is not None and alarm.is_active:
        address, what = "#cluster", "the whole cluster is slower"
    change = "" if alarm.change is None else f" {percent(alarm.change)} vs usual"
    good = recovery_text(period) if alarm.is_active else ""
    link, since = element("a", f"{name}{what}", href=address), time_element(alarm.since.time_s)
    needs = attention.BY_KIND[kind] if alarm.is_active else attention.PASSED
    return element("li", _spaced(needs), link, f"{change}, since ", since, f" ({good})" if good else None)


def _spaced(needs: Attention) -> ET.Element:
    """A sign that stays on the line of the text behind it."""
    return element("span", f"{needs.sign}\N{NO-BREAK SPACE}", aria_hidden="true")


#: The most columns of GPU counts: a screen of 1,024 pixels has room for as many.
_COLUMNS = 10
#: The most workloads that are named above a table.
_NAMED_WORKLOADS = 4
#: Settings that follow from others.
_FOLLOWS = frozenset({"dp", "fsdp"})


#: A row of a run, with or without a record.
_Any = ReportedRow | Unrecorded
_Row = TypeVar("_Row", bound=_Any)


@dataclass
class _Table:
    """Workloads that share their numbers of GPUs."""

    accelerator: str
    lines: dict[tuple[str, str], dict[int, _Any]] = field(default_factory=dict)


def verdict_tables(rows: Iterable[_Any]) -> list[ET.Element | None]:
    """The tables of verdicts, the worst first if the rows are.

    Rows without a record are in them if their facts are known.
    """
    known = [(row.facts, row) for row in rows]
    groups = grouped([((of["workload"], of["dtype"], of["accelerator"]), row) for of, row in known if of])
    tables: list[_Table | tuple[str, Sequence[_Any]]] = []
    for (workload, dtype, accelerator), of_group in groups.items():
        by_gpus = {int(row.facts["gpus"]): row for row in of_group}
        if len(by_gpus) < len(of_group):
            tables.append((f"{workload} {dtype} on {accelerator}", of_group))
            continue
        _table_for(workload, accelerator, by_gpus, tables).lines[workload, dtype] = by_gpus
    return [
        _by_gpus(f"verdicts-{number}", one) if isinstance(one, _Table) else _by_case(f"verdicts-{number}", *one)
        for number, one in enumerate(tables, 1)
    ]


def _table_for(
    workload: str, accelerator: str, gpus: Iterable[int], tables: list[_Table | tuple[str, Sequence[_Any]]]
) -> _Table:
    """The table that has the workload already, else the first with room for its numbers of GPUs, or a new one."""
    known = [one for one in tables if isinstance(one, _Table) and one.accelerator == accelerator]
    of_workload = [one for one in known if any(name == workload for name, _ in one.lines)]
    for one in of_workload or known:
        if len({*gpus}.union(*one.lines.values())) <= _COLUMNS:
            return one
    made = _Table(accelerator)
    tables.append(made)
    return made


def _by_gpus(name: str, one: _Table) -> ET.Element | None:
    gpus = sorted({number for cells in one.lines.values() for number in cells})
    workloads = list(dict.fromkeys(workload for workload, _ in one.lines))
    what = ", ".join(workloads) if len(workloads) <= _NAMED_WORKLOADS else plural(len(workloads), "workload")
    noun = device(one.accelerator)
    span = f"{f'{gpus[0]:,} to ' if len(gpus) > 1 else ''}{rounded(gpus[-1], noun)}"
    heads: list[Content] = ["workload", "dtype", *(_head(number, noun) for number in gpus)]
    lines: list[list[Content]] = [
        [workload, dtype, *(_cell(cells.get(number)) for number in gpus)]
        for (workload, dtype), cells in one.lines.items()
    ]
    change = _change_title(row for cells in one.lines.values() for row in cells.values())
    return table(name, f"{what} on {one.accelerator}, {change} on {span}", heads, lines)


def _change_title(rows: Iterable[_Any]) -> str:
    """The title of rows' changes, with their metric if they have the same."""
    label = common_change_label(row.record.judged_metric for row in rows if isinstance(row, ReportedRow))
    return f"change of {label} (%)" if label else "change (%)"


def _head(number: int, noun: str) -> ET.Element:
    """A number of GPUs; its noun, which the caption has, is for screen readers alone."""
    shown, _, unit = rounded(number, noun).partition(" ")
    return element("span", shown, element("span", f" {unit}", class_="vh"), class_=NUMBER)


def _by_case(name: str, group: str, rows: Sequence[_Any]) -> ET.Element | None:
    """A line for each row of a workload with several rows on one number of GPUs, with the settings that differ."""
    settings = [_settings(row) for row in rows]
    varies = charts.varying_names(settings)
    lines: list[list[Content]] = [
        [
            element("span", _case(row, one, varies), class_="case"),
            _cell(row),
            f"{int(row.facts['gpus']):,}",
            row.id.partition("[")[2].rstrip("]"),
        ]
        for row, one in zip(rows, settings, strict=True)
    ]
    return table(
        name,
        f"{group}: {plural(len(rows), 'row')}, {_change_title(rows)}",
        ["differs in", ">verdict", f">{device(rows[0].facts['accelerator'])}s", "name"],
        lines,
    )


def _settings(row: _Any) -> Mapping[str, str]:
    if isinstance(row, Unrecorded):
        return {"": row.facts["framework"]}
    facts = row.record.row
    batch = {} if facts.batch is None else {"batch": f"{facts.batch:,}"}
    others = {name: value for name, value in facts.settings.items() if name not in _FOLLOWS}
    noted = {name: others.pop(name) for name in ("noted",) if name in others}
    return {"": facts.framework, **batch, **others, **noted}


def _case(row: _Any, settings: Mapping[str, str], varies: Collection[str]) -> str:
    told = [f"{name} {value}".strip() for name, value in settings.items() if name in varies]
    return ", ".join(told) or row.id


def _cell(row: _Any | None) -> ET.Element:
    """A row's sign, word and change of throughput; the word "passed" is for screen readers alone."""
    if row is None:
        return element("td")
    if isinstance(row, Unrecorded):
        kind = attention.ERROR.kind
        mark = element("a", sign(kind), " ", element("span", attention.ERROR.word), href="#missing", class_=kind)
        return element("td", mark, class_=f"verdict {kind}")
    word = element("span", row.needs.word, class_="vh" if row.needs is attention.PASSED else None)
    shown = without_unit(percent(row.record.change))
    mark = element("a", sign(row.kind), " ", word, f" {shown}" if shown else None, href=row.address, class_=row.kind)
    return element("td", mark, class_=f"verdict {row.kind}")


# -- the page of all jobs --------------------------------------------------------------------------


#: Its address.
JOBS = "jobs.html"

#: The most nodes and jobs that are listed.
_NODES, _JOBS = 40, 1500


def jobs_page(report: RunReport, links: Sequence[tuple[str, str]]) -> ET.Element:
    """The run's jobs: GPU-hours, failures by node, and nodes that make jobs slow."""
    title = f"Jobs of the run, {minute(report.begin_s)}"
    main = [
        element("h1", title),
        simulated_note(report.records),
        fact_list(_sums(report)),
        section("failing", "Failures by node", _failed_nodes_table(report), _failing_nodes_table(report)),
        section("slow", "Slow nodes", _slow_nodes_table(report), *_known_good_nodes(report)),
        section("jobs", "All jobs", _jobs(report)),
    ]
    return page(title, main, links, here=JOBS)


def _sums(report: RunReport) -> list[tuple[str, str]]:
    jobs = report.jobs
    failed = sum(job.failed for job in jobs)
    waits_s = [job.facts.queue_s for job in jobs if job.facts.queue_s is not None]
    runs_s = [job.facts.run_s for job in jobs if job.facts.run_s is not None]
    return [
        ("jobs", f"{plural(len(jobs), 'job')}, {failed} failed"),
        ("GPU-hours", _gpu_hours_text(report)),
        ("queue", _spread(waits_s)),
        ("run", _spread(runs_s)),
    ]


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return ""
    return f"median {duration(statistics.median(times_s))}, longest {duration(max(times_s))}"


def _failed_nodes_table(report: RunReport) -> ET.Element | None:
    nodes = report.failing_nodes
    lines = [[node, f"{failed}", f"{ran}"] for node, failed, ran in nodes[:_NODES]]
    caption = f"{plural(len(nodes), 'node')} with failed jobs, the most failures among its jobs first"
    return table("failing", caption, ["node", ">failed jobs", ">of jobs"], lines)


def _failing_nodes_table(report: RunReport) -> ET.Element | None:
    """The nodes on which jobs fail more often than by chance, by all jobs of the history."""
    lines = [
        [one.name, cluster, f"{one.failed}", f"{one.of}", without_unit(share(one.usual))]
        for cluster, failing in report.nodes_failing_jobs.items()
        for one in failing
    ]
    heads = ["node", "cluster", ">failed jobs", ">of jobs", ">usual (%)"]
    caption = f"Nodes of which more jobs fail than by chance, by the history's last {FAILURES_DAYS} days"
    return table("blamed", caption, heads, lines[:_NODES])


def _slow_nodes_table(report: RunReport) -> ET.Element | None:
    """The nodes that make jobs slow, by all jobs of the history."""
    lines: list[list[Content]] = [
        [
            *(one.label, cluster, without_unit(percent(one.change)), time_element(one.slow_jobs[0].begin_s)),
            *(f"{len(one.slow_jobs)}", f"{len(one.fast_jobs)}"),
        ]
        for cluster, slow in report.slow_nodes.items()
        for one in slow
    ]
    heads = ["node", "cluster", ">throughput (%)", "since", ">slow jobs", ">fast jobs"]
    return table("slow", "Nodes that make jobs slow, by all jobs of the history", heads, lines[:_NODES])


def _known_good_nodes(report: RunReport) -> Iterator[ET.Element]:
    """The number of nodes that are known good: without it, no slow node may mean no data."""
    for cluster, sound in report.known_good_nodes.items():
        slow = "" if cluster in report.slow_nodes else "no node is known to make jobs slow; "
        yield element("p", f"{cluster}: {slow}{sound_text(sound)}")


def _jobs(report: RunReport) -> ET.Element | None:
    jobs = report.jobs[:_JOBS]
    heads = ["row", "job", "state", "nodes", "submitted", ">queue", ">ran", ">GPU-hours"]
    caption = f"{plural(len(jobs), 'job')} in the order of their submission"
    return table("jobs", caption, heads, map(_job, jobs))


def _job(job: RunJob) -> list[Content]:
    facts = job.facts
    return [
        row_link(job.row),
        facts.id,
        element("td", _state(job), class_=attention.ERROR.kind if job.failed else None),
        shown_nodes(facts.nodes),
        time_element(facts.known_begin_s) if facts.known_begin_s else None,
        "" if facts.queue_s is None else duration(facts.queue_s),
        "" if facts.run_s is None else duration(facts.run_s),
        "" if facts.run_s is None else f"{job.row.record.row.gpus * facts.run_s / 3600:,.1f}",
    ]


def _state(job: RunJob) -> str:
    """The state of a job, after a word if it failed: a failed job may be COMPLETED."""
    return f"{'failed: ' if job.failed else ''}{job.facts.state}"


# -- the page of one row ---------------------------------------------------------------------------

#: Facts with a place of their own on the page.
_ELSEWHERE = frozenset({"steps", "job", "note", "accepted"})


def row_page(
    row: ReportedRow,
    report: RunReport,
    ends: Sequence[LogEnd],
    links: Sequence[tuple[str, str]],
    pages: Mapping[str, str],
    then: Mapping[str, float],
) -> ET.Element:
    """The page of one row in one run.

    Args:
        row: The row.
        report: Its run.
        ends: The ends of its logs.
        links: Names of the run's pages, each with its address.
        pages: By run, the newest first, the addresses of its pages in others.
        then: By run, its reference, see :func:`~pytest_gsw.reports.run_report.past_references`.
    """
    record, word = row.record, row.needs.word
    badge = element("span", sign(row.kind), f" {word}", class_=f"badge {row.kind}")
    log = section("log", "Last lines of the log", *_log(ends))
    # The log comes first for an error, the figures for a slow row.
    first, last = (log, None) if row.needs is attention.ERROR else (None, log)
    run_facts = row_text.run_facts(record)
    steps = [one for one in run_facts if one[0] == "steps"]
    shared = element("a", f"All rows of {record.row.workload}", href=f"../{_WORKLOADS}/{row.shared_page}.html")
    main = [
        element("h1", record.row.id),
        element("p", badge, " ", change(row), class_="headline"),
        element("p", fact_text(row), class_="fact"),
        element("p", shared),
        _tile_facts(row, report),
        fact_list([*_at_once(row, ends), *since_facts(row), *_notes(row)]),
        simulated_note([record]),
        first,
        section("next", "What to type next", command_list(all_commands(row, report.run.directory))),
        section("figures", "Figures", _figures(row)),
        None
        if record.row.tile
        else section("runs", "Runs", charts.figure(charts.history_plot(row, pages)), _runs_table(row, pages, then)),
        section("steps", "Steps", charts.figure(charts.steps_plot(record)), fact_list(steps)),
        section("jobs", "Jobs", _jobs_of_row(row)),
        last,
        section("facts", "Facts", fact_list(_facts(record, run_facts))),
    ]
    return page(f"{record.row.id}: {word} on {record.run.cluster}, {minute(report.begin_s)}", main, links, root="../")


def workload_page(
    rows: Sequence[tuple[ReportedRow, Mapping[str, str]]], report: RunReport, links: Sequence[tuple[str, str]]
) -> ET.Element:
    """The page of a workload: its rows, those that are as before at length, others with a link to their pages.

    Args:
        rows: Each with its pages in other runs, as for :func:`row_page`.
        report: Their run.
        links: Names of the run's pages, each with its address.
    """
    workloads = ", ".join(dict.fromkeys(row.record.row.workload for row, _ in rows))
    title = f"{workloads} on {', '.join(report.clusters)}: {plural(len(rows), 'row')}"
    main = [element("h1", title), simulated_note(row.record for row, _ in rows)]
    main += [_row_section(row, report, pages) for row, pages in rows]
    return page(f"{title}, {minute(report.begin_s)}", main, links, root="../")


def _row_section(row: ReportedRow, report: RunReport, pages: Mapping[str, str]) -> ET.Element:
    name = row.record.row.id
    link = name if row.is_as_before else element("a", name, href=f"../{row.address}")
    heading = element("h2", sign(row.kind), " ", link, id=f"row-{row.name}")
    if not row.is_as_before:
        return element("section", heading, element("p", f"{row.needs.word} ", change(row), class_="fact"))
    job = ("job", job_text(row.record))
    facts = [job, *_notes(row), *_facts(row.record, row_text.run_facts(row.record))]
    details = element("div", command_list(all_commands(row, report.run.directory)), fact_list(facts))
    return element(
        "section",
        heading,
        element("p", fact_text(row), class_="fact"),
        _tile_facts(row, report),
        _figures(row),
        None if row.record.row.tile else charts.figure(charts.history_plot(row, pages)),
        _folded("Commands and facts", details),
    )


def _tile_facts(row: ReportedRow, report: RunReport) -> ET.Element | None:
    """The change of a tile against its peers, and a link to them; nothing for another row."""
    names = [sweep.of_row.row for sweep in report.sweeps]
    if not row.tile:
        return None
    number = names.index(row.record.row.row_id)
    change = row.peers_change
    told = "not compared with its peers: " if change is None else f"{percent(change)} throughput vs its peers: "
    return element("p", told, element("a", report.sweeps[number].title, href=f"../{INDEX}#tiles-{number + 1}"))


def _at_once(row: ReportedRow, ends: Sequence[LogEnd]) -> list[tuple[str, str]]:
    """The nodes of the row, and for an error the advice, or the line of its log that is most like the cause."""
    nodes = nodes_fact(row.record)
    if row.needs is not attention.ERROR:
        return [nodes]
    says = "" if any(end.cause for end in ends) else likely_cause(ends)
    return [nodes, ("advice", advice_of(row.record)), ("its log says", says)]


def _notes(row: ReportedRow) -> list[tuple[str, str]]:
    record = row.record
    comparable = f"{record.not_comparable} makes the figures not comparable" if record.not_comparable else ""
    drift = "" if row.needs is attention.DRIFT else drift_text(row)  # the row's fact has it
    return [
        ("limit", limit_text(row)),
        ("accepted", record.accepted_note or ""),
        ("by the document", accepted_line(record) if hides_loss(record) else ""),
        ("drift", drift),
        ("not judged", comparable),
        ("MFU", record.figures.mfu_note if record.figures.measured else ""),
    ]


# -- figures ---------------------------------------------------------------------------------------


def _figures(row: ReportedRow) -> ET.Element | None:
    figures = row.record.figures
    lines = []
    for one in row_text.figure_cells(row.record, row.record.judged):
        references = (one.documented, one.accepted) if figures.accepted else (one.documented,)
        against = (cell for held, change_of in references for cell in (without_unit(held), _bare(change_of)))
        title = f"{one.title} (%)" if f"{one.measured}{one.documented[0]}".endswith("%") else one.title
        lines.append((title, without_unit(one.measured), *against, _bare(one.allowed)))
    accepted = [">accepted", ">change (%)"] if figures.accepted else []
    caption = "Measured against documented figures" if figures.measured else "Documented figures"
    heads = ["figure", ">measured", ">documented", ">change (%)", *accepted, ">allowed (%)"]
    return table(f"figures-{row.name}", f"{caption} of {row.record.row.id}", heads, lines)


def _bare(change: str) -> str:
    return without_unit(shown_change(change))


# -- runs, steps, jobs ---------------------------------------------------------------------------


def _runs_table(row: ReportedRow, pages: Mapping[str, str], then: Mapping[str, float]) -> ET.Element | None:
    """The newest runs, those with an error among them, against the current reference."""
    runs: list[Point | RowOutcome] = [*row.past.measured, *row.failures]
    runs.sort(key=lambda one: (one.time_s, one.run_id))
    shown = runs[-LISTED_RUNS:][::-1]
    reference, held = current_reference(row)
    which = plural(len(runs), "run")
    if len(shown) < len(runs):
        which = f"The newest {len(shown)} of {which}"
    metric = row.record.judged_metric
    numbers = [f">{metric.change_label} (%)", f">{metric.label} ({metric.unit})", f">against ({metric.unit})"]
    heads = ["when", "verdict", *numbers, "nodes", "job", "run"]
    caption = which if reference is None else f"{which}; {held} figure is {metric.text(reference)}"
    return table("runs", caption, heads, [_run_line(point, row, pages, then) for point in shown])


def _run_line(
    point: Point | RowOutcome, row: ReportedRow, pages: Mapping[str, str], then: Mapping[str, float]
) -> Sequence[Content]:
    address = pages.get(point.run_id)
    run: Content = point.run_id if not address else element("a", point.run_id, href=address)
    when = time_element(point.begin_s)
    if isinstance(point, RowOutcome):
        last = row.record.jobs.last
        job_id = last.id if last is not None and point.run_id == row.record.run.id else ""
        return when, kind_cell(attention.ERROR), "", "", "", "", job_id, run
    known = outcomes.of(point.outcome)
    shown = known.attention.in_report.kind
    verdict = element("td", sign(shown), f" {known.text}", class_=shown)
    reference, metric = reference_at(row, point, then), row.record.judged_metric
    change = None if reference is None else metric.change(point.judged, reference)
    return (
        when,
        verdict,
        "" if change is None else without_unit(percent(change)),
        figure_text(metric, point.judged),
        figure_text(metric, reference),
        several(shown_nodes(point.nodes)),
        several(point.job_id),
        run,
    )


def _jobs_of_row(row: ReportedRow) -> ET.Element | None:
    metric = row.record.judged_metric
    heads = ["job", "state", f">{metric.label} ({metric.unit})", "nodes", "submitted", ">queue", ">ran", "note"]
    return table("jobs", "Every job of the row in this run", heads, [_job_of_row(job, row.record) for job in row.jobs])


def _job_of_row(job: JobFacts, record: Record) -> Sequence[Content]:
    judged = job.judged
    if judged is None and job is record.jobs.last and not record.jobs.repeats:
        judged = record.measured
    notes = (job.why_repeated, "" if job.reason == "None" else job.reason)
    return (
        f"{job.launcher} {job.id}",
        str(job.state) if job.exit_code is None else f"{job.state} {job.exit_code}:{job.signal}",
        figure_text(record.judged_metric, judged),
        job.nodes,
        None if job.submit_s is None else time_element(job.submit_s),
        "" if job.queue_s is None else duration(job.queue_s),
        "" if job.run_s is None else duration(job.run_s),
        element("td", "; ".join(text for text in notes if text) or None, class_="long"),
    )


# -- log and facts ---------------------------------------------------------------------------------


def _log(ends: Sequence[LogEnd]) -> list[Content]:
    parts: list[Content] = []
    for end in ends:
        parts.append(element("h3", element("code", f"{end.path}")))
        if end.cause:
            parts.append(element("p", element("strong", end.cause), class_="fact"))
        parts.append(element("pre", element("code", "\n".join(end.lines)), class_="log"))
    return parts


def _facts(record: Record, run_facts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    image_from = f"({record.run.image_from})" if record.run.image_from else ""
    return [
        *((name, value) for name, value in run_facts if name not in _ELSEWHERE),
        ("run", record.run.id),
        ("cluster", record.run.cluster),
        ("workload", f"{record.row.workload} ({record.row.framework})"),
        (f"{device(record.row.accelerator)}s", f"{record.row.gpus:,} {record.row.accelerator}, {record.row.dtype}"),
        ("image", f"{record.run.image} {image_from}".strip() if record.run.image else ""),
        ("definition", record.row.definition),
        ("log agrees on", compared_text(record)),
        *sorted(record.run.environment.items()),
        ("variables", ", ".join(f"{name}={value}" for name, value in (record.run.variables or {}).items())),
    ]


_RUNS = "list its runs"

#: The purpose of the command that follows from a row's need.
_OF_NEED = {
    attention.REGRESSED: "see whether it stays",
    attention.IMPROVED: "propose the new figure",
    attention.DRIFT: "see the drift",
    attention.INCONCLUSIVE: "run it often enough to decide",
}


#: The purposes of the commands that repeat a row.
_REPEATS = {"again": "run it again", "offline": "judge its log again"}


def all_commands(row: ReportedRow, directory: Path) -> Sequence[tuple[str, str]]:
    """The commands for a row, each after its purpose; the one to type next comes first."""
    record = row.record
    listed = [(_REPEATS[name], text) for name, text in repeat_commands(record, directory)]
    if row.since is not None and row.since.good is not None and row.needs in attention.SLOW:
        runs = (row.since.good.run_id, record.run.id)
        listed.append(("compare with the last good run", command("pytest-gsw", "compare", *runs)))
    its_runs = (_RUNS, history_command(record.run.cluster, record.row.id))
    if row.past.runs:
        listed.append(its_runs)
    first = next_command(record, row.needs, directory)
    known = {text: what for what, text in (*listed, its_runs)}
    too_good = row.needs is attention.INCONCLUSIVE and record.reason == Reason.TOO_GOOD.value
    of_need = "look at what was measured" if too_good else _OF_NEED.get(row.needs, "")
    return [(known.get(first, of_need), first), *(pair for pair in listed if pair[1] != first)]


#: The number of last lines that are shown.
_LINES = 8
#: The part at the end of a log that is searched: a report reads a thousand of them.
_SEARCHED_BYTES = 256 << 10


#: The needs of rows with the end of their logs.
_LOGS_SHOWN = attention.SLOW | {attention.ERROR}


@dataclass(frozen=True)
class LogEnd:
    """The end of one log."""

    path: Path
    lines: tuple[str, ...]
    #: The line with the cause of a failure; empty if it was not found.
    cause: str = ""


def likely_cause(ends: Sequence[LogEnd]) -> str:
    """The line with the cause of a failure, else the last one that is like a cause, in any of the files.

    Empty if there is neither: the last line of a training log may be a progress bar.
    """
    found = (*(end.cause for end in ends), *(informative_line(end.lines) for end in ends))
    return next(filter(None, found), "")


def log_ends_of(row: ReportedRow, directory: Path) -> tuple[LogEnd, ...]:
    """The ends of a row's logs; none for a row that neither failed nor is too slow."""
    if row.needs not in _LOGS_SHOWN:
        return ()
    run, last = row.record.run, row.record.jobs.last
    failed = row.needs is attention.ERROR
    return log_ends(run.log, last.id if last else "", directory, failed=failed, outputs=run.outputs)


def log_ends(
    log: str | None, job_id: str, directory: Path, *, failed: bool, outputs: Sequence[str] = ()
) -> tuple[LogEnd, ...]:
    """The ends of a row's log, and of the other files of a failed job, as far as they exist.

    For a failed job, the line with the cause is searched. A batch shell's output may be in the run's directory, which
    may have been moved since.
    """
    named = [Path(log)] if log else []
    if failed:
        named.extend(map(Path, outputs))
    if failed and job_id.isalnum():
        named.append(directory / "batch" / f"slurm-{job_id}.out")
    ends = (_end(path, failed=failed) for path in dict.fromkeys(path.absolute() for path in named))
    return tuple(end for end in ends if end is not None)


def _end(path: Path, *, failed: bool) -> LogEnd | None:
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        lines = tail_lines(path, _LINES)
        return LogEnd(path, lines, _cause_in(path) if failed else "") if lines else None
    except (OSError, ValueError):  # a name with a zero byte
        return None


def _cause_in(path: Path) -> str:
    try:
        cause = find_cause(path, max(0, path.stat().st_size - _SEARCHED_BYTES))
    except (LogError, OSError):
        return ""
    return "" if cause is None else cause.text


# -- several runs ----------------------------------------------------------------------------------

#: The index, and the folder of earlier runs' pages.
RUN_INDEX, FOLDER = "runs.html", "runs"

#: The number of runs whose first pages are kept, and the number that are listed.
KEPT, _LISTED = 30, 200


def folder_of(run_id: str) -> str:
    """A run's name in addresses."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", run_id)[:100] or "run"


def kept_page(run_id: str) -> str:
    """The address of the kept page of a run."""
    return f"{FOLDER}/{folder_of(run_id)}.html"


def whole_page(run_id: str) -> str:
    """The address of the first page of a run whose pages are all in a folder of its own."""
    return f"{FOLDER}/{folder_of(run_id)}/{INDEX}"


def listed_runs(reports: Iterable[RunReport]) -> tuple[RunListEntry, ...]:
    """The runs of the history and of a report, the oldest first."""
    known = {one.run_id: one for report in reports for one in report.history_runs}
    current_runs = (report.list_entry for report in reports)
    known |= {one.run_id: replace(one, time_s=known.get(one.run_id, one).time_s) for one in current_runs}
    return tuple(sorted(known.values(), key=lambda one: (one.time_s, one.run_id)))


def pages_there(directory: Path, runs: Iterable[RunListEntry], written: Mapping[str, str]) -> Mapping[str, str]:
    """The addresses of the runs' pages, relative to the report's directory: those that exist, or are being written."""
    places = [(run.run_id, address_of(run.run_id)) for run in runs for address_of in (kept_page, whole_page)]
    return {**{run_id: place for run_id, place in places if (directory / place).is_file()}, **written}


def kept_text(root: ET.Element, report: RunReport) -> str:
    """The text of a run's kept page: its rows lead to their workloads' newest pages."""
    shared = {row.address: f"../{address}" for address, rows in _shared_pages(report).items() for row in rows}
    for link in root.iter("a"):
        target = link.get("href", "")
        if target in shared:
            link.set("href", shared[target])
        elif target.startswith(("jobs.html", FOLDER)):
            del link.attrib["href"]
    told = "Rows lead to their workloads' newest pages here; all pages of this run are written by"
    said, folder = element("p", told, class_="run"), f"report-{folder_of(report.run_id)}"
    again = command_line(command("pytest-gsw", "report", report.run_id, "-o", folder))
    next(root.iter("main")).extend([said, again])
    return html_text(root)


def run_index_page(
    runs: Sequence[RunListEntry], pages: Mapping[str, str], cluster: str, links: Sequence[tuple[str, str]]
) -> ET.Element:
    """The index of runs, the newest first."""
    shown = runs[-_LISTED:][::-1]
    kinds = [kind for kind in KINDS if any(kind in by_kind(one.outcomes) for one in shown)]
    # A phone has room for the first ones: outcomes are worth more than the time, which is in the name.
    heads = ["run", *(f">{attention.BY_KIND[kind].word}" for kind in kinds), ">rows", "when"]
    lines = [_line(one, kinds, pages.get(one.run_id)) for one in shown]
    if any(one.had_incident for one in shown):
        heads.insert(1, f">{attention.INCIDENT.kind}")
        for line, one in zip(lines, shown, strict=True):
            line.insert(1, _count_cell(attention.REGRESSED, int(one.had_incident)))
    title = f"Runs on {cluster}"
    caption = f"{plural(len(shown), 'run')}, the newest first; pytest-gsw report RUN writes the pages of one"
    runs_table = section("runs", "All runs", table("runs", caption, heads, lines))
    return page(title, [element("h1", title), runs_table], links, here=RUN_INDEX)


def _line(run: RunListEntry, kinds: Iterable[str], address: str | None) -> list[Content]:
    counts = by_kind(run.outcomes)
    name: Content = run.run_id if address is None else element("a", run.run_id, href=address)
    cells = [_count_cell(attention.BY_KIND[kind], counts.get(kind, 0)) for kind in kinds]
    return [name, *cells, f"{sum(counts.values())}", time_element(run.time_s)]


def _count_cell(needs: Attention, count: int) -> ET.Element:
    return element("td", f"{needs.sign} {count}", class_=needs.kind) if count else element("td")


#: The number of runs in the curve of a row.
_SHOWN = 30

#: The size and margin of a row's curve, in its own units, and its least span, a fraction of throughput.
_CURVE_WIDE, _CURVE_HIGH, _ROOM = 160, 36, 4
_LEAST_SPAN = 0.04


def by_kind(words: Mapping[str, int]) -> dict[str, int]:
    """The number of rows of each kind, the worst first, by the words of their outcomes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[outcomes.of(word).attention.in_report.kind] += count
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


# -- the curve of a row ----------------------------------------------------------------------------


def row_curve(row: ReportedRow) -> ET.Element | None:
    """Throughput of a row's newest runs against the row's reference; those with errors have crosses.

    Unusual runs are squares apart from the line.
    """
    verdict = row.record.judged
    runs = row.past.measured[-_SHOWN:]
    if verdict is None or len(runs) < 2:
        return None
    metric = row.record.judged_metric
    changes = [metric.change(point.judged, verdict.reference) for point in runs]
    failed = [one for one in row.earlier if one.outcome == outcomes.ERROR.word and one.time_s >= runs[0].time_s]
    when = sorted([*(point.time_s for point in runs), *(one.time_s for one in failed)])
    x = charts.Scale(0, max(len(when) - 1, 1), _ROOM, _CURVE_WIDE - _ROOM)
    place = {time_s: x(number) for number, time_s in enumerate(when)}
    low, high = charts.in_view(changes, [0.0], _LEAST_SPAN)
    room = max(0.0, _LEAST_SPAN - (high - low)) / 2
    up = charts.Scale(low - room, high + room, _CURVE_HIGH - _ROOM, _ROOM)
    places = [(place[point.time_s], up(change)) for point, change in zip(runs, changes, strict=True)]
    of_what = f"{metric.change_label.capitalize()} of {len(runs)} runs"
    told = f"{of_what} from {percent(min(changes))} to {percent(max(changes))}"
    told += f", {percent(changes[-1])} in the newest"
    told += f"; {len(failed)} with errors" if failed else ""
    zero = element("line", x1=0, x2=_CURVE_WIDE, y1=up(0.0), y2=up(0.0), class_="reference")
    line = element("polyline", class_="runs")
    drawn = list(zip(places, runs, strict=True))
    usual = [place for place, point in drawn if point.reason not in UNUSUAL]
    line.set("points", " ".join(f"{x:g},{y:g}" for x, y in usual))  # not a text, and longer than texts may be
    marks = [_mark(place, point, row) for place, point in drawn if point.reason in UNUSUAL or point is runs[-1]]
    crosses = [arm for one in failed for arm in _cross(place[one.time_s])]
    return element(
        "svg",
        *(element("title", told), zero, line, *crosses, *marks),
        viewBox=f"0 0 {_CURVE_WIDE} {_CURVE_HIGH}",
        class_="curve",
        role="img",
        aria_label=told,
    )


def _mark(place: tuple[float, float], point: Point, row: ReportedRow) -> ET.Element:
    """The mark of a run by its outcome: a dot, or a square if it is unusual."""
    x, y = place
    kind = row.kind if point.run_id == row.record.run.id else outcomes.of(point.outcome).attention.in_report.kind
    if point.reason in UNUSUAL:
        return element("rect", x=round(x - 3, 1), y=round(y - 3, 1), width=6, height=6, class_=kind)
    return element("circle", cx=x, cy=y, r=3, class_=kind)


def _cross(x: float) -> list[ET.Element]:
    """The mark of a run with an error, at the foot."""
    y, arm = _CURVE_HIGH - _ROOM - 1, 3
    slopes = ((y - arm, y + arm), (y + arm, y - arm))
    return [element("line", x1=x - arm, x2=x + arm, y1=y1, y2=y2, class_="failed") for y1, y2 in slopes]


# -- the files of a report -------------------------------------------------------------------------

#: The folders of the pages of rows and of workloads.
_ROWS, _WORKLOADS = "rows", "workloads"


@collector_paused()
def write_report(reports: Sequence[RunReport], directory: Path, history: History | None = None) -> Path:
    """Write the pages of one run or of several; the newest is on the first page, whose path is returned.

    Args:
        reports: The reports of the runs, the newest first.
        directory: The report's directory; it is made if it is missing.
        history: The runs before; ``None`` if there are none.

    Raises:
        HistoryError: The history could not be read.
        OSError: A file cannot be written.
    """
    then = {} if history is None else past_references((row for report in reports for row in report.rows), history)
    newest, *others = reports
    written = {newest.run_id: INDEX, **{report.run_id: whole_page(report.run_id) for report in others}}
    pages = _pages_of_rows(reports, written)
    for report in others:
        _write_run(report, (directory / written[report.run_id]).parent, pages, then, root="../../")
    links = _write_run(newest, directory, pages, then)
    kept = kept_page(newest.run_id) if newest.history_runs and not newest.replay_of else ""
    if kept:
        own = run_page(newest, [("Newest run", INDEX), ("Runs", RUN_INDEX)], root="../")
        make_directory(directory / FOLDER)
        write_whole(directory / kept, kept_text(own, newest))
        for path in sorted((directory / FOLDER).glob("*.html"))[:-KEPT]:  # names of runs begin with their time
            path.unlink()
    runs = listed_runs(reports)
    there = pages_there(directory, runs, written)
    clusters = ", ".join(sorted({cluster for report in reports for cluster in report.clusters}))
    # A session that goes on leaves the history's runs to its end.
    if history is not None or not newest.goes_on or not (directory / RUN_INDEX).exists():
        _write_page(directory / RUN_INDEX, run_index_page(runs, there, clusters or "no cluster", links))
    _write_page(directory / INDEX, run_page(newest, links, kept))
    return directory / INDEX


def _pages_of_rows(reports: Iterable[RunReport], addresses: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """The address of each row's page, relative to the report's directory, by row and run, the newest first."""
    found: dict[str, dict[str, str]] = {}
    for report in reports:
        home = addresses[report.run_id].removesuffix(INDEX)
        for row in report.rows:
            found.setdefault(row.record.row.node_id, {})[report.run_id] = f"{home}{row.address}"
    return found


def _shared_pages(report: RunReport) -> Mapping[str, Collection[ReportedRow]]:
    """The rows of each workload's page, by its address; the last of rows with one name."""
    found: dict[str, dict[str, ReportedRow]] = {}
    for row in report.rows:
        found.setdefault(f"{_WORKLOADS}/{row.shared_page}.html", {})[row.name] = row
    return {address: rows.values() for address, rows in found.items()}


def _write_run(
    report: RunReport,
    directory: Path,
    pages: Mapping[str, Mapping[str, str]],
    then: Mapping[tuple[str, str], Mapping[str, float]],
    root: str = "",
) -> list[tuple[str, str]]:
    """Write the pages of a run, and return their names with their addresses.

    ``root`` is the path to the report's directory. The first page of the newest run is written later, last of all.
    """
    make_directory(directory / _ROWS)
    make_directory(directory / _WORKLOADS)
    style = resources.files(__package__ or "").joinpath("report.css").read_text(encoding="utf-8")
    write_whole(directory / "report.css", style)
    links = [("This run", INDEX), ("Jobs", JOBS), ("Runs", f"{root}{RUN_INDEX}")]

    def in_runs(row: ReportedRow) -> Mapping[str, str]:
        of_runs = pages[row.record.row.node_id].items()
        # The page itself is among the others, without a link.
        return {run_id: "" if run_id == report.run_id else f"../{root}{address}" for run_id, address in of_runs}

    for row in (one for one in report.rows if not one.is_as_before):
        ends = log_ends_of(row, report.run.directory)
        of_row = then.get((row.record.row.id, cluster_of(row.record)), {})
        _write_page(directory / row.address, row_page(row, report, ends, links, in_runs(row), of_row))
    for address, rows in _shared_pages(report).items():
        _write_page(directory / address, workload_page([(row, in_runs(row)) for row in rows], report, links))
    _write_page(directory / JOBS, jobs_page(report, links))
    if root:
        _write_page(directory / INDEX, run_page(report, links))
    return links


def _write_page(path: Path, root: ET.Element) -> None:
    write_whole(path, html_text(root))
