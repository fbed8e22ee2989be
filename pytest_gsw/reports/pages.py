"""The first page of a run, and the files of a report.

Each run has a folder of its own, which later runs leave as it is. The pages of workloads and nodes, the index of runs
and the first page of the newest run are written again. Every file is written whole, and the first page last, so that it
never names a page that is missing.
"""

from __future__ import annotations

import statistics
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path

from pytest_gsw.acceptance.sheet import NAME, Sheet, sheet_of, sheet_text
from pytest_gsw.common.files import make_directory, write_whole
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.process import collector_paused
from pytest_gsw.common.text import by_number, calendar, command, duration, enumerated, moment, named, plural, share
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.history.comparison import changed_word, changes_text, line_of
from pytest_gsw.reports import charts, html, texts
from pytest_gsw.reports.html import Content, element
from pytest_gsw.reports.jobs_page import JOBS, gpu_hours_text, jobs_page, node_page, nodes_page
from pytest_gsw.reports.matrix import RUN_INDEX, RunPages, listed_runs, marks, matrix, run_index_page
from pytest_gsw.reports.reported_row import AT_DOCUMENT, ReportedRow, home_of, since_line
from pytest_gsw.reports.row_page import likely_cause, log_ends, row_page, workload_page
from pytest_gsw.reports.run_report import Cause, ReportedSweep, RunListEntry, RunReport
from pytest_gsw.reports.sheet_page import sheet_page
from pytest_gsw.results import attention, outcomes, row_text, run_progress, summary
from pytest_gsw.results.node_facts import why_lines
from pytest_gsw.results.suggested_commands import again, history_command, next_command
from pytest_gsw.results.sweep import next_lines, sweep_facts
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.sweep_finding import NAMED, SweepFinding
from pytest_gsw.tables.metrics import MFU

#: The first page of a run, in its directory, and the name of the link to the report's if that is a sheet.
INDEX, SHEET = "index.html", "Sheet"

_HEADED = [need for need in attention.ATTENTIONS if need.heading]

#: The most rows of one kind that have a card, and the most of one cause that are named; the list of all rows has all.
_AT_LENGTH, _NAMED = 40, 12
#: The most rows of the first page's matrix, and the least noise of tiles.
_MATRIX_ROWS, _LEAST_SIGMA = 80, 0.005
#: The fewest rows of one cause that are folded.
_FOLDED = 4
#: Seconds after which a browser reads the page of a session that goes on again.
_REFRESH_S = 60
#: The most causes, and the most rows without a record, that are listed.
_CAUSES, _MISSING = 40, 200


def run_page(report: RunReport, links: Sequence[tuple[str, str]], pages: RunPages) -> ET.Element:
    """The first page of a run.

    Args:
        report: The run.
        links: Names of the run's pages, each with its address.
        pages: The runs with pages.
    """
    title = (
        f"{texts.report_text(report)} on {', '.join(report.clusters) or 'no cluster'}, {texts.minute(report.begin_s)}"
    )
    title += f", replay of {report.replay_of}" if report.replay_of else ""
    needs = [need for need in _HEADED if not need.is_urgent and need.kind in report.counts]
    faster = [_group(report, need.kind, pages) for need in needs]
    trend = charts.trend_plot([*report.runs_before[::-1], report.list_entry])
    main = [
        element("h1", title),
        _counts(report),
        element("p", *_run_facts(report), class_="run"),
        html.fact_list(_summary_facts(report)),
        html.simulated_note(report.records),
        changes_section(report),
        html.section("next", "What to type next", _next_commands(report)),
        html.section("cluster", "The cluster", _incident(report), _failing_nodes(report)),
        _open_rows(report),
        _attention(report, pages),
        *(_sweep_section(number, sweep, report) for number, sweep in enumerate(report.sweeps, 1)),
        html.section("faster", "Faster than allowed", *faster),
        html.section("matrix", "Rows by run", *_matrix(report, pages)),
        html.section("rows", "All rows", _all_rows(report)),
        html.section("trend", "Trend", html.folded("Rows that need no attention, run by run", trend)),
        html.section("scaling", "Scaling", html.folded("Workloads over numbers of GPUs", *_scaling(report))),
    ]
    made = html.page(title, main, links, here=f"{report.home}{INDEX}")
    if report.goes_on:
        made[0].append(element("meta", http_equiv="refresh", content=_REFRESH_S))
    return made


def _open_rows(report: RunReport) -> ET.Element | None:
    """The rows that the session has yet to judge, those that run first."""
    if report.run.progress is None:
        return None
    lines = report.run.progress.lines
    more = html.command_line(command("pytest-gsw", "rows", "--run", report.run_id)) if len(lines) > _MISSING else None
    return html.section(
        "open", "Open rows", html.table("open", plural(len(lines), "row"), run_progress.COLUMNS, lines[:_MISSING]), more
    )


def _counts(report: RunReport) -> ET.Element:
    """The number of rows of each outcome: the numbers of the session's last line."""
    told = summary.outcome_texts(report.records, len(report.unrecorded))
    slow, nodes, incident = attention.REGRESSED.kind, report.slow_tile_nodes, report.incident
    entries = [_badge(slow, plural(nodes, "slow node"), "#slow-tiles")] if nodes else []
    if incident is not None:
        entries.append(_badge(incident.needs.in_report.kind, f"1 {incident.needs.kind}", "#cluster"))
    entries += [
        _badge(outcome.attention.in_report.kind, told[outcome]) for outcome in texts.WORST_FIRST if outcome in told
    ]
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
                yield charts.scaling_plot(workload, curves[begin : begin + most])


def _badge(kind: str, text: str, target: str = "") -> ET.Element:
    target = target or (f"#{kind}" if attention.BY_KIND[kind].heading else "#rows")
    return element("li", element("a", html.sign(kind), f" {text}", href=target, class_=f"badge {kind}"))


def _failing_nodes(report: RunReport) -> ET.Element | None:
    """The nodes that fail jobs; those that make jobs slow are alarms."""
    if not (nodes := report.failing_texts):
        return None
    link = element("a", "fails jobs: ", named(nodes, _NAMED), href=f"{html.NODES}#failing")
    return element("p", html.sign(attention.ERROR.kind), " ", link, class_=f"card {attention.ERROR.kind}")


def _incident(report: RunReport) -> ET.Element | None:
    """The incident of the whole cluster."""
    incident = report.incident
    if incident is None:
        return None
    kind = incident.needs.in_report.kind
    return element(
        "div",
        element("h3", html.sign(kind), f" {texts.signed(incident.fact)}{report.incident_since}"),
        html.fact_list([("canaries that were too slow as well", ", ".join(incident.canaries))]),
        html.command_line(history_command(incident.cluster)),
        class_=f"card {kind}",
    )


def _run_facts(report: RunReport) -> list[Content]:
    parts: list[Content] = ["run ", element("a", element("code", report.run_id), href=f"{report.home}{INDEX}")]
    if report.begin_s and report.end_s and calendar(report.begin_s) and calendar(report.end_s):
        took = duration(report.end_s - report.begin_s)
        parts += [", ", html.time_element(report.begin_s), " to ", html.time_element(report.end_s), f" ({took})"]
    return [*parts, f", {_end_text(report)}"]


def _summary_facts(report: RunReport) -> list[tuple[str, str]]:
    """The run for readers who are responsible for the cluster: share of good rows, drift of all, and GPU-hours."""
    good, rows = report.at_document
    limit = f"at ≥ {AT_DOCUMENT * 100:g} % of the document"
    return [
        ("rows", f"{good} of {rows} {limit} ({share(good / rows)})" if rows else ""),
        *(
            (f"all rows of {name}", text.drift or "no drift against the first runs")
            for name, text in report.cluster_texts.items()
            if text.drift is not None
        ),
        ("GPU-hours", gpu_hours_text(report)),
    ]


def _end_text(report: RunReport) -> str:
    if (progress := report.run.progress) is not None:
        when = f", as of {moment(progress.time_s)}" if progress.time_s else ""
        return f"its session goes on{when}: {progress.text}"
    if report.unjudged and report.run.exit_status is None:
        return "its session was ended before all rows were judged"
    return f"exit status {report.exit_status}"


# -- rows that need attention ----------------------------------------------------------------------


def _attention(report: RunReport, pages: RunPages) -> ET.Element | None:
    groups = [_findings_group(report)] if any(sweep.of_row.findings for sweep in report.sweeps) else []
    groups += [_group(report, need.kind, pages) for need in _HEADED if need.is_urgent and need.kind in report.counts]
    if groups:
        return html.section("attention", "What needs attention", *groups)
    if not report.rows:
        return None
    told: list[Content] = [f" Nothing needs attention{' so far' if report.goes_on else ''}."]
    if alarms := report.active_alarms:
        told = [" No row needs attention; ", element("a", plural(alarms, "active alarm"), href="#lately"), "."]
    return element("p", html.sign(attention.PASSED.kind), *told, class_="well")


def _group(report: RunReport, kind: str, pages: RunPages) -> ET.Element:
    heading = element("h3", html.sign(kind), f" {_heading(report, kind)}", id=kind)
    if kind == attention.ERROR.kind:
        causes = [_cause_card(number, cause, report) for number, cause in enumerate(report.causes[:_CAUSES], 1)]
        left = sum(len(cause.rows) for cause in report.causes[_CAUSES:])
        cards = element("ul", *causes, _unrecorded_card(report), class_="cards")
        return element("div", heading, cards, _more(left))
    parts = frozenset(() if report.incident is None else report.incident.parts)
    rows = [row for row in report.of(kind) if row.record.row.node_id not in parts]
    told = len(report.of(kind)) - len(rows)
    alone = [row for row in rows if not row.tile]
    shown = [(row.since is not None and row.since.runs > 1, row) for row in alone[:_AT_LENGTH]]
    new, ongoing = ([_card(row, report, pages) for is_old, row in shown if is_old is of] for of in (False, True))
    since = html.folded(f"{len(ongoing)} since earlier runs", html.listing(ongoing, "cards"))
    under = element("p", f"{told} of them are part of what the whole cluster has, above.") if told else None
    link = element("a", f"{plural(len(rows) - len(alone), 'tile')} in the list of all rows", href="#rows")
    tiles = element("p", link) if len(rows) > len(alone) else None
    return element("div", heading, html.listing(new, "cards"), since, _more(len(alone) - _AT_LENGTH), under, tiles)


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


def _card(row: ReportedRow, report: RunReport, pages: RunPages) -> ET.Element:
    what, nodes = texts.nodes_fact(row.record)
    strip = [mark for mark in marks(row, report.matrix_runs, pages) if mark is not None]
    return element(
        "li",
        element("h4", html.row_link(row), " ", html.change(row)),
        element("p", "before: ", *strip, class_="strip") if strip else None,
        element("p", texts.card_text(row), class_="fact"),
        html.fact_list([(what, html.node_links(nodes, report)), *texts.since_facts(row)]),
        html.command_line(next_command(row.record, row.needs, report.run.directory)),
        class_=f"card {row.kind}",
    )


def _cause_card(number: int, cause: Cause, report: RunReport) -> ET.Element:
    directory = report.run.directory
    # Another job of a row with advice of its own would meet the error again.
    repeated = [row.record for row in cause.rows if not row.record.advice]
    rows = element("ul", *(_error_row(row, report) for row in cause.rows[:_NAMED]), class_="rows")
    parts = [rows, _more(len(cause.rows) - _NAMED), html.command_line(again(repeated, directory)) if repeated else None]
    return element(
        "li",
        element("h4", f"{plural(len(cause.rows), 'row')}: {cause.fact}", id=f"cause-{number}"),
        html.fact_list(
            [("nodes", cause.nodes), ("advice", cause.advice), ("its log says", _log_line(cause, directory))]
        ),
        *(parts if len(cause.rows) < _FOLDED else [html.folded("its rows, and what runs them again", *parts)]),
        class_=f"card {attention.ERROR.kind}",
    )


def _log_line(cause: Cause, directory: Path) -> str:
    """The line most like the cause of an unknown error, in the log of the first row that has one."""
    if cause.advice:
        return ""
    lines = (likely_cause(log_ends(row, directory)) for row in cause.rows[:_NAMED])
    return next(filter(None, lines), "")


def _error_row(row: ReportedRow, report: RunReport) -> ET.Element:
    since, last = since_line(row.since), row.record.jobs.last
    job = (
        None
        if last is None
        else element("span", f": job {last.id} {last.state} on ", html.node_links(last.nodes, report))
    )
    tries = f", attempt {len(row.record.jobs.attempts) + 1}" if row.record.jobs.attempts else None
    return element("li", html.row_link(row), job, tries, f"; since {since}" if since else None)


def _unrecorded_card(report: RunReport) -> ET.Element | None:
    missing = report.unrecorded
    if not missing:
        return None
    entries = [element("li", element("code", row.node_id), f": {row.why}") for row in missing[:_MISSING]]
    more = f"and {len(missing) - _MISSING} more" if len(missing) > _MISSING else None
    return element(
        "li",
        element("h4", f"{plural(len(missing), 'row')}: no record", id="missing"),
        element("ul", *entries, class_="rows"),
        element("p", more) if more else None,
        class_=f"card {attention.ERROR.kind}",
    )


# -- tiles -----------------------------------------------------------------------------------------

#: Facts of a sweep with a place of their own.
_ELSEWHERE = NAMED | {"not decided", "not covered"}


def _finding_kind(finding: SweepFinding) -> attention.Attention:
    return attention.REGRESSED if finding.is_named else attention.INCONCLUSIVE


def _without_tiles(rows: Iterable[ReportedRow]) -> list[ReportedRow]:
    return [row for row in rows if not row.tile]


def _findings_group(report: RunReport) -> ET.Element:
    """Findings of tiles: a card each, with its command."""
    cards = [
        element(
            "li",
            element(
                *("h4", html.sign(needs.kind), " ", html.node_links(finding.nodes, report), ": "),
                element("a", finding.kind, href=f"#tiles-{number}"),
            ),
            element("p", texts.signed(row_text.finding_text(finding)), class_="fact"),
            html.fact_list([("row", sweep.of_row.row), ("why", _why_text(sweep, finding.nodes))]),
            *_finding_commands(finding, sweep, report.run_id),
            class_=f"card {needs.kind}",
        )
        for number, sweep in enumerate(report.sweeps, 1)
        for finding in sweep.of_row.findings
        for needs in [_finding_kind(finding)]
    ]
    heading = element("h3", "Slower than their peers", id="slow-tiles")
    return element("div", heading, element("ul", *cards[:_AT_LENGTH], class_="cards"))


def _finding_commands(finding: SweepFinding, sweep: ReportedSweep, run_id: str) -> Iterator[ET.Element]:
    """The drain of a finding's own nodes, or the command that goes on with the search."""
    wanted = ("go on", "") if finding.more_jobs else ("drain it", f"nodename={finding.nodes} ")
    for what, text in next_lines(sweep.of_row, run_id):
        if what == wanted[0] and wanted[1] in text:
            yield html.command_line(text)


def _why_text(sweep: ReportedSweep, nodes: str) -> str:
    """Differences of nodes from others, or how to learn of them."""
    if sweep.of_row.facts is None:
        return "not read: with 'facts: nvidia', 'amd' or 'host' of the cluster in clusters.yaml, its next job says it"
    return "; ".join(texts.signed(text) for _, text in why_lines(sweep.of_row.facts.of_nodes(set(expand(nodes)))))


def _node_map(name: str, sweep: ReportedSweep, report: RunReport) -> ET.Element | None:
    """The nodes of a sweep by switch or block, each with the change of its tile against its peers."""
    changes = {node: (tile, change) for tile, change in sweep.of_row.peers.items() for node in expand(tile)}
    kinds = {node: _finding_kind(finding) for finding in sweep.of_row.findings for node in expand(finding.nodes)}
    left = {node: why for why, nodes in sweep.not_covered.items() for node in expand(nodes)}
    nodes = {*changes, *left}
    blocks = {block: expand(listed) for block, listed in sweep.whole.switches.items()}
    apart = nodes.difference(*blocks.values())
    sigma = sweep.of_row.sigma or _LEAST_SIGMA

    def mark(node: str) -> ET.Element:
        tile, change = changes.get(node, ("", 0.0))
        needs = attention.NOT_JUDGED if node in left else kinds.get(node, attention.PASSED)
        odd = "slower" if change < -2 * sigma else "faster" if change > 2 * sigma else "usual"
        told = left.get(node) or f"{texts.percent(change)} vs peers{f' as {tile}' if tile != node else ''}"
        is_usual = needs is attention.PASSED and odd == "usual"
        shown = f"{100 * change:+.0f}".replace("-", "\N{MINUS SIGN}") if node in changes else needs.sign
        shown = "\N{MIDDLE DOT}" if is_usual else shown
        kind = odd if needs is attention.PASSED else needs.kind
        return element("a", shown, href=report.nodes.get(node), title=f"{node}: {told}", class_=kind)

    lines: list[Sequence[Content]] = [
        [block, compressed(of_block), element("td", *map(mark, of_block), class_="strip")]
        for block, listed in [*blocks.items(), ("not known", sorted(apart, key=by_number))]
        if (of_block := [node for node in listed if node in nodes])
    ]
    caption = "Nodes by switch or block, per cent against peers; a dot is within the noise"
    return html.table(f"{name}-map", caption, ["switch or block", "nodes", "each"], lines)


def _sweep_section(number: int, sweep: ReportedSweep, report: RunReport) -> ET.Element | None:
    """The tiles of one row: how they compare, what is slow, what was not covered, and the commands."""
    row_sweep, name = sweep.of_row, f"tiles-{number}"
    left = [element("li", element("code", nodes), f": {why}") for why, nodes in sweep.not_covered.items()]
    changes = [change for row in sweep.tiles if (change := row.record.change) is not None]
    spread = f"{texts.percent(min(changes))} to {texts.percent(max(changes))}" if changes else ""
    median = f"median {texts.percent(statistics.median(changes))}, {spread}" if changes else ""
    covered = f"{sweep.covered_nodes} of {plural(sweep.whole.nodes, 'node')} of the partition {sweep.whole.partition}"
    return html.section(
        name,
        sweep.title,
        _node_map(name, sweep, report),
        html.fact_list(
            [
                ("covered", covered if sweep.whole.nodes else ""),
                ("vs reference", median),
                *((head, texts.signed(text)) for head, text in sweep_facts(row_sweep, {}) if head not in _ELSEWHERE),
            ]
        ),
        element("h3", f"Not covered ({sweep.not_covered_nodes})") if left else None,
        html.listing(left[:_MISSING]),
        html.command_list(next_lines(sweep.of_row, report.run_id)),
    )


# -- all rows --------------------------------------------------------------------------------------


def _next_commands(report: RunReport) -> ET.Element | None:
    """The commands for the whole run; the first one is not folded."""
    listed = report.next_commands
    more = html.folded(plural(len(listed) - 1, "more command"), html.command_list(listed[1:])) if listed[1:] else None
    return element("div", html.command_list(listed[:1]), more) if listed else None


def _matrix(report: RunReport, pages: RunPages) -> Iterator[ET.Element | None]:
    """The matrix of the rows, of many rows those that need attention, and links to that of each workload."""
    rows = sorted(_without_tiles(report.rows), key=lambda row: (row.record.row.workload, by_number(row.id)))
    shown = rows if len(rows) <= _MATRIX_ROWS else [row for row in rows if row.needs.is_urgent][:_AT_LENGTH]
    links = {f"workloads/{row.shared_page}.html": row.record.row.workload for row in rows}
    listed = [element("li", element("a", name, href=address)) for address, name in links.items()]
    yield element("ul", *listed, class_="nodes", aria_label="Matrix of each workload") if rows else None
    yield matrix("matrix", shown, report, pages)


def _all_rows(report: RunReport) -> ET.Element | None:
    """All rows but tiles that passed, folded: a table for each metric, of benchmarks one for each workload."""
    shown = [row for row in report.worst_first if not row.tile or row.needs.is_urgent]
    groups = grouped([(_figures_of(row), row) for row in shown])
    passed = len(report.rows) - len(shown)
    missing = [[element("a", one.id, href="#missing"), html.kind_cell(attention.ERROR)] for one in report.unrecorded]
    what = plural(len(shown) + len(missing), "tile" if shown and all(row.tile for row in shown) else "row")
    return html.folded(
        f"{what}, the worst first",
        html.table("unrecorded", "Rows without a record", ["row", "verdict"], missing),
        *(_rows_table(f"all-{number}", *group, report) for number, group in enumerate(groups.items(), 1)),
        element("p", f"and {passed} tiles that passed, in the map above") if passed else None,
    )


def _figures_of(row: ReportedRow) -> str:
    """The figure that a row is judged by, of benchmarks with the workload: rows of one table have the same."""
    metric, facts = row.record.judged_metric, row.record.row
    return metric.title if facts.label is None else f"{facts.workload}: {metric.title}"


def _rows_table(name: str, title: str, rows: Sequence[ReportedRow], report: RunReport) -> ET.Element | None:
    metric = rows[0].record.judged_metric
    varies = charts.varying_names([row.settings for row in rows]) if rows[0].record.row.label else []
    heads = ["row", "verdict", *([">vs peers (%)"] if report.sweeps else []), f">{metric.change_label} (%)"]
    heads += [f">measured ({metric.unit})", f">against ({metric.unit})"]
    heads += ["differs in"] if varies else [] if rows[0].record.row.label else [">MFU (%)"]
    heads += ["since", "nodes", "job", ">ran"]
    return html.table(
        name, f"{title}: {plural(len(rows), 'row')}", heads, [_list_line(row, report, varies) for row in rows]
    )


def _list_line(row: ReportedRow, report: RunReport, varies: Sequence[str]) -> list[Content]:
    record, jobs = row.record, row.record.reported_jobs
    runs_s = [job.run_s for job in jobs if job.run_s is not None]
    mfu, reference = record.figures.measured.get(MFU.key), record.judged.reference if record.judged else None
    differs = ", ".join(f"{name} {row.settings[name]}" for name in varies if name in row.settings)
    return [
        html.row_link(row),
        html.kind_cell(row.needs),
        *([texts.without_unit(texts.percent(row.peers_change))] if report.sweeps else []),
        texts.without_unit(texts.percent(record.change)),
        *(texts.figure_text(record.judged_metric, figure) for figure in (record.measured, reference)),
        *([differs] if varies else [] if record.row.label else ["" if mfu is None else texts.without_unit(share(mfu))]),
        texts.minute(row.since.time_s) if row.since is not None and since_line(row.since) else "",
        html.node_cell(record.nodes, report),
        html.several(", ".join(job.id for job in jobs)),
        duration(sum(runs_s)) if runs_s else "",
    ]


# -- alarms ----------------------------------------------------------------------------------------

#: The most entries that are not folded.
_CHANGES = 6


def changes_section(report: RunReport) -> ET.Element | None:
    """The new, ongoing and fixed alarms, each with those that it explains."""
    known = report.alarms_by_state
    listed = {id(alarm) for alarms in known.values() for alarm in alarms}
    over = [alarm for alarm in report.alarms if not alarm.is_active and id(alarm) not in listed]
    causes = {alarm.id for alarm in report.alarms if alarm.is_active}
    apart = {state: [alarm for alarm in alarms if alarm.part_of not in causes] for state, alarms in known.items()}
    cards = [_changes_card(state, alarms, report) for state, alarms in apart.items() if alarms]
    entries = [_alarm_entry(alarm, report) for alarm in over]
    ended = html.folded(f"{plural(len(over), 'alarm')} of the last days, fixed or gone", html.listing(entries))
    empty = [state for state, alarms in apart.items() if not alarms] if cards else []
    none = element("p", f"No alarm is {enumerated(empty, 'or')}.") if empty else None
    shown = element("div", *cards, class_="changes") if cards else None
    return html.section("lately", "New, ongoing and fixed", _new_errors(report), shown, none, ended)


def _new_errors(report: RunReport) -> ET.Element | None:
    """The number of rows with an error that the run before did not have: errors are no alarms."""
    since = [row.since for row in report.of(attention.ERROR.kind)]
    new = sum(onset is not None and onset.runs == 1 and onset.good is not None for onset in since)
    link = element("a", f"{plural(new, 'error')} new in this run", href=f"#{attention.ERROR.kind}")
    return element("p", html.sign(attention.ERROR.kind), " ", link) if new else None


def _changes_card(state: str, alarms: Sequence[Alarm], report: RunReport) -> ET.Element:
    entries = [_alarm_entry(alarm, report) for alarm in alarms]
    shown, left = (entries[:_CHANGES], entries[_CHANGES:]) if state != "fixed" else ([], entries)
    more = html.folded(f"{len(left)} more" if shown else plural(len(left), "alarm"), html.listing(left))
    heading = element("h3", f"{state.capitalize()} ({len(alarms)})")
    return element("div", heading, html.listing(shown), more, class_=f"card {state}")


def _alarm_entry(alarm: Alarm, report: RunReport) -> ET.Element:
    """An alarm as on the screen, with a link, its length and what changed then; folded those that it explains."""
    period, row = alarm.period, report.by_id.get(alarm.period.subject)
    address = row.address if row is not None else None
    if period.kind is Kind.NODE:
        address = report.nodes.get(min(period.things), html.NODES)
    elif period.kind is Kind.INCIDENT and report.incident is not None:
        address = "#cluster"
    name, _, rest = texts.signed(line_of(alarm)).partition(": ")
    days = ((report.begin_s or 0.0) - alarm.since.time_s) / SECONDS_PER_DAY
    if alarm.is_active:
        rest += f" ({days:.0f} days)" if days >= 1 else ""
        changes = alarm.since.changes
        rest += f"; {changed_word(alarm.since)}: {changes_text(changes)}" if changes else ""
    parts = [_alarm_entry(other, report) for other in report.alarms if other.part_of == alarm.id and other.is_active]
    needs = attention.DRIFT if period.kind is Kind.DRIFT else attention.REGRESSED
    return element(
        "li",
        html.sign((needs if alarm.is_active else attention.PASSED).kind),
        " ",
        element("a", name, href=address),
        f": {rest}",
        html.folded(f"{plural(len(parts), 'alarm')} for the same cause", html.listing(parts)),
    )


# -- the files of a report -------------------------------------------------------------------------

#: The number of runs whose pages are kept.
KEPT = 30


@collector_paused()
def write_report(reports: Sequence[RunReport], directory: Path) -> Path:
    """Write the pages of one run or of several; the newest is on the first page, whose path is returned.

    Args:
        reports: The reports of the runs, the newest first.
        directory: The report's directory; it is made if it is missing.

    Raises:
        OSError: A file cannot be written.
    """
    style = resources.files(__package__ or "").joinpath("report.css").read_text(encoding="utf-8")
    make_directory(directory)
    write_whole(directory / "report.css", style)
    runs = listed_runs(reports)
    _remove_old(directory, reports)
    pages = _runs_with_pages(directory, reports, runs)
    newest = reports[0]
    sheet = None if newest.goes_on else sheet_of(newest.run.directory)
    leads_to = "Newest run" if sheet is None else SHEET
    links = _links(newest.home, leads_to)
    nodes = {address: (node, report) for report in reversed(reports) for node, address in report.nodes.items()}
    for address, (node, report) in nodes.items():
        _write_page(directory, address, node_page(node, report, pages, links))
    for address, rows in _shared_pages(reports).items():
        _write_page(directory, address, workload_page(rows, pages, links))
    # A page of a run leads to as many runs before it as stay half as long as itself.
    linked = dict([*pages.items()][-max(KEPT // 2, len(reports)) :])
    for report in reports[:0:-1]:
        _write_run(report, directory, linked, leads_to)
    first = _write_run(newest, directory, linked, leads_to)
    clusters = ", ".join(sorted({cluster for report in reports for cluster in report.clusters}))
    _write_page(directory, html.NODES, nodes_page(newest, links))
    # A session that goes on leaves the history's runs to its end.
    if newest.history_runs or not newest.goes_on or not (directory / RUN_INDEX).exists():
        _write_page(directory, RUN_INDEX, run_index_page(runs, pages, clusters or "no cluster", links))
    if sheet is not None:
        write_whole(directory / NAME, sheet_text(sheet))
        first = first_page_of(sheet)
    write_whole(directory / INDEX, first)
    return directory / INDEX


def first_page_of(sheet: Sheet) -> str:
    """The first page of a report with a sheet, by the sheet alone."""
    return html.html_text(sheet_page(sheet, _links(home_of(sheet.run), SHEET)))


def _links(home: str, first: str) -> list[tuple[str, str]]:
    of_run = [("This run", f"{home}{INDEX}"), ("Jobs", f"{home}{JOBS}")]
    return [(first, INDEX), *of_run, ("Nodes", html.NODES), ("Runs", RUN_INDEX)]


def _runs_with_pages(
    directory: Path, reports: Sequence[RunReport], runs: Sequence[RunListEntry]
) -> dict[str, Collection[str]]:
    """The names of each run's rows with a page, the oldest run first: of kept runs, and of those being written."""
    kept = {run.run_id: directory / home_of(run.run_id) for run in runs}
    known = {
        run_id: frozenset(path.stem for path in home.glob("rows/*.html"))
        for run_id, home in kept.items()
        if (home / INDEX).is_file()
    }
    written = {one.run_id: frozenset(row.name for row in one.rows if not row.is_as_before) for one in reports[::-1]}
    return {**{run_id: names for run_id, names in known.items() if run_id not in written}, **written}


def _shared_pages(reports: Iterable[RunReport]) -> Mapping[str, Sequence[tuple[ReportedRow, RunReport]]]:
    """The rows of each workload's page, by its address, each with the newest run that has it."""
    pages: dict[str, dict[str, tuple[ReportedRow, RunReport]]] = {}
    for report in reports:
        for row in report.rows:
            pages.setdefault(f"workloads/{row.shared_page}.html", {}).setdefault(row.name, (row, report))
    return {address: [*rows.values()] for address, rows in pages.items()}


def _write_run(report: RunReport, directory: Path, pages: RunPages, leads_to: str) -> str:
    """Write the pages of a run; its first page for the report's own directory is returned."""
    links = _links(report.home, leads_to)
    for row in (reported for reported in report.rows if not reported.is_as_before):
        ends = log_ends(row, report.run.directory)
        _write_page(directory, row.address, row_page(row, report, ends, links, pages))
    _write_page(directory, f"{report.home}{JOBS}", jobs_page(report, links))
    first = run_page(report, links, pages)
    text = html.html_text(first)
    _write_page(directory, f"{report.home}{INDEX}", first)
    return text


def _remove_old(directory: Path, reports: Sequence[RunReport]) -> None:
    """Remove the pages of the oldest runs; other files stay. Names of runs begin with their time."""
    written = {directory / report.home / INDEX for report in reports}
    kept = [first for first in sorted(directory.glob(f"runs/*/{INDEX}")) if first not in written]
    for first in kept[: max(0, len(kept) + len(written) - KEPT)]:
        for page_file in (*first.parent.glob("rows/*.html"), first.parent / JOBS, first):
            page_file.unlink(missing_ok=True)
        for folder in (first.parent / "rows", first.parent):
            with suppress(OSError):  # it has other files
                folder.rmdir()


def _write_page(directory: Path, address: str, root: ET.Element) -> None:
    path = directory / address
    make_directory(path.parent)
    write_whole(path, html.html_text(root, "../" * address.count("/")))
