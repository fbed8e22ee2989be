"""The pages of a night: the first one, with what needs attention and all verdicts, and the one of its jobs."""

from __future__ import annotations

import statistics
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.common.words import command, counted, duration, named, rounded, share, shortened
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.history.comparison import COLUMNS, cells, failing_text, good_text, sound_text, suspect_text
from pytest_gsw.history.row_history import FAILURES_DAYS, Suspect
from pytest_gsw.reports.html.charts import (
    CURVES,
    MOST,
    Plot,
    Rule,
    Scale,
    figure,
    ground,
    key,
    named_ticks,
    polygon,
    round_numbers,
    scaling_plot,
    workloads,
)
from pytest_gsw.reports.html.layout import (
    Content,
    change,
    command_line,
    element,
    fact_list,
    page,
    row_link,
    section,
    several,
    sign,
    simulated_note,
    table,
    time_element,
)
from pytest_gsw.reports.html.nights import beside, nights_strip, row_curve
from pytest_gsw.reports.html.row_page import likely_cause, log_ends_of
from pytest_gsw.reports.html.texts import (
    WORST_FIRST,
    card_text,
    job_text,
    minute,
    moment,
    night_text,
    nodes_fact,
    percent,
    shown_nodes,
    signed,
    since_facts,
)
from pytest_gsw.reports.run_report import KINDS, Cause, Row, RunJob, RunReport, Unrecorded, device, since_line
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.next_steps import again, next_command, next_commands
from pytest_gsw.results.summary import outcome_texts
from pytest_gsw.results.unjudged import resume_command
from pytest_gsw.tables.metrics import MFU

#: The first page of a night, in its directory.
INDEX = "index.html"

_HEADED = [one for one in attention.ATTENTIONS if one.heading]

#: Rows of one kind that are shown at length, and rows of one cause that are named; the list of all rows has the others.
_AT_LENGTH, _NAMED = 40, 12
#: Causes, and rows without a record, that are named.
_CAUSES, _MISSING = 40, 200


def night_page(
    night: RunReport,
    others: Sequence[tuple[RunReport, str]],
    links: Sequence[tuple[str, str]],
    address_of: Callable[[str], str | None] = lambda _: None,
    places: Mapping[str, str] | None = None,
    root: str = "",
) -> ET.Element:
    """The first page of a run.

    Args:
        night: The run.
        others: Other nights of the same report.
        links: Names of the night's pages, each with its address.
        address_of: Where a run's page is; ``None`` where it has none that stays.
        places: Of the runs whose first pages are kept, this one among them, where these are, the oldest first.
        root: What leads to the report's directory.
    """
    pages = list((places or {}).values())
    kept = (places or {}).get(night.run_id, "")
    title = f"{night_text(night)} on {', '.join(night.clusters) or 'no cluster'}, {minute(night.begin_s)}"
    title += f", replay of {night.replay_of}" if night.replay_of else ""
    main = [
        element("h1", title),
        _counts(night),
        element("p", *_run_facts(night, kept), class_="run"),
        beside(INDEX, pages, pages.index(kept) if kept else 0),
        simulated_note(night.records),
        turned_section(night),
        _strip(night, address_of),
        section("next", "What to type next", _next(night)),
        section("cluster", "The cluster", _incident(night), *_drifting(night), *_nodes(night)),
        _attention(night),
        _improved(night),
        section("alarms", "Alarms", *_alarms(night)),
        section("verdicts", "Verdicts", *verdict_tables([*night.worst_first, *night.unrecorded])),
        section("scaling", "Scaling", *_scaling(night)),
        section("rows", "All rows", _all_rows(night)),
        section("nights", "Other runs", _others(others)),
    ]
    return page(title, main, links, here="" if root else INDEX, root=root)


def _strip(night: RunReport, address_of: Callable[[str], str | None]) -> ET.Element | None:
    """The nights before and this one; nothing where none before is known. What is replayed is in its own column."""
    tonight = night.as_listed
    before = [one for one in night.listed if one.run_id != night.run_id and one.time_s <= tonight.time_s]
    if not before:
        return None
    shown = before if night.replay_of else [*before, tonight]
    return nights_strip(shown, address_of, night.replay_of or night.run_id)


def _counts(night: RunReport) -> ET.Element:
    """How many rows there are of each outcome: the numbers of the session's last line."""
    told = outcome_texts(night.records, len(night.unrecorded))
    entries = [_badge(one.attention.in_report.kind, told[one]) for one in WORST_FIRST if one in told]
    if night.incident is not None:
        badge = element("a", sign(attention.REGRESSED.kind), " 1 incident", href="#cluster", class_="badge regressed")
        entries.insert(0, element("li", badge))
    if drifting := night.counts.get(attention.DRIFT.kind):
        entries.append(_badge(attention.DRIFT.kind, f"{drifting} of them {'drifts' if drifting == 1 else 'drift'}"))
    return element("ul", *entries, class_="counts", aria_label="Rows by verdict")


def _scaling(night: RunReport) -> Iterator[ET.Element | None]:
    """How each workload scales, beside the document's figures; a picture has as many curves as there are shapes."""
    for workload in workloads(night.rows):
        for curves in map(workload.of, Rule):
            for begin in range(0, len(curves), len(CURVES)):
                yield figure(scaling_plot(workload.name, curves[begin : begin + len(CURVES)]))


def _badge(kind: str, text: str) -> ET.Element:
    target = f"#{kind}" if attention.BY_KIND[kind].heading else "#rows"
    return element("li", element("a", sign(kind), f" {text}", href=target, class_=f"badge {kind}"))


def _next(night: RunReport) -> ET.Element | None:
    """What to type next for the whole run."""
    listed = next_commands(night.records, night.run.directory)
    if left := night.left:
        what = f"go on with {counted(left, 'row')} that the session did not judge"
        listed.insert(0, (what, resume_command(night.run.directory)))
    pairs = [element("div", element("dt", what), element("dd", command_line(text))) for what, text in listed]
    return element("dl", *pairs, class_="commands") if pairs else None


def _nodes(night: RunReport) -> list[ET.Element | None]:
    """That nodes make jobs slow, or fail them."""
    slow = [signed(suspect_text(one)) for of_cluster in night.slow_nodes.values() for one in of_cluster]
    failing = [failing_text(one) for of_cluster in night.blamed_nodes.values() for one in of_cluster]
    return [
        _told("slow: ", slow, attention.REGRESSED.kind, "jobs.html#slow"),
        _told("fails jobs: ", failing, attention.ERROR.kind, "jobs.html#failing"),
    ]


def _told(what: str, nodes: Sequence[str], kind: str, where: str) -> ET.Element | None:
    if not nodes:
        return None
    told = element("a", what, named(nodes, _NAMED), href=where)
    return element("p", sign(kind), " ", told, class_=f"card {kind}")


def _incident(night: RunReport) -> ET.Element | None:
    """That the whole cluster was slower, and the rows that are part of it."""
    incident = night.incident
    if incident is None:
        return None
    pages = {row.record.row.node_id: row for row in night.rows}
    parts = [row_link(pages[name]) for name in incident.parts if name in pages]
    return element(
        "div",
        element("h3", sign(attention.REGRESSED.kind), f" {signed(incident.fact)}{night.incident_since}"),
        fact_list([("canaries that were too slow as well", ", ".join(incident.canaries))]),
        element("p", "These rows are part of it, and inconclusive for that:") if parts else None,
        element("ul", *(element("li", link) for link in parts[:_AT_LENGTH]), class_="rows") if parts else None,
        _more(len(parts) - _AT_LENGTH),
        command_line(command("pytest-gsw", "history", f"--cluster={incident.cluster}")),
        class_=f"card {attention.REGRESSED.kind}",
    )


def _drifting(night: RunReport) -> list[ET.Element]:
    """That clusters have become slower, night by night."""
    kind = attention.DRIFT.kind
    told = [f" cluster {cluster}: {signed(one.drift)}" for cluster, one in night.told.items() if one.drift]
    return [element("p", sign(kind), text, class_=f"card {kind}") for text in told]


def _run_facts(night: RunReport, kept: str) -> list[Content]:
    name = element("code", night.run_id)
    parts: list[Content] = ["run ", element("a", name, href=kept) if kept else name]
    if night.begin_s and night.end_s and moment(night.begin_s) and moment(night.end_s):
        took = duration(night.end_s - night.begin_s)
        parts += [", ", time_element(night.begin_s), " to ", time_element(night.end_s), f" ({took})"]
    return [*parts, f", {night.gpu_hours:,.1f} GPU-hours, {_end_text(night)}"]


def _end_text(night: RunReport) -> str:
    if night.goes_on:
        return "its session goes on"
    if night.left and night.run.exit_status is None:
        return "its session was ended before all rows were judged"
    return f"exit status {night.exit_status}"


# -- what needs attention --------------------------------------------------------------------------


def _attention(night: RunReport) -> ET.Element | None:
    groups = [_group(night, one.kind) for one in _HEADED if one.is_urgent and one.kind in night.counts]
    if groups:
        return section("attention", "What needs attention", *groups)
    if not night.rows:
        return None
    paging = sum(one.pages and one.stands for one in night.alarms)
    told: list[Content] = [" Nothing needs attention."]
    if paging:
        stand = f"{counted(paging, 'alarm')} {'stands' if paging == 1 else 'stand'}"
        told = [" No row needs attention; ", element("a", stand, href="#alarms"), "."]
    return element("p", sign(attention.PASSED.kind), *told, class_="well")


def _improved(night: RunReport) -> ET.Element | None:
    """Rows that need nobody, and whose documents are behind."""
    groups = [_group(night, one.kind) for one in _HEADED if not one.is_urgent and one.kind in night.counts]
    return section("faster", "Faster than allowed", *groups)


def _group(night: RunReport, kind: str) -> ET.Element:
    heading = element("h3", sign(kind), f" {_heading(night, kind)}", id=kind)
    if kind == attention.ERROR.kind:
        shown = enumerate(night.causes[:_CAUSES], 1)
        causes = [_cause_card(number, cause, night.run.directory) for number, cause in shown]
        left = sum(len(cause.rows) for cause in night.causes[_CAUSES:])
        return element("div", heading, *causes, _more(left), _missing(night), class_="group")
    parts = frozenset(() if night.incident is None else night.incident.parts)
    rows = [row for row in night.of(kind) if row.record.row.node_id not in parts]
    told = len(night.of(kind)) - len(rows)
    cards = element("ul", *(_card(row, night.run.directory) for row in rows[:_AT_LENGTH]), class_="cards")
    under = element("p", f"{told} of them are part of what the whole cluster has, above.") if told else None
    return element("div", heading, cards if rows else None, _more(len(rows) - _AT_LENGTH), under, class_="group")


def _heading(night: RunReport, kind: str) -> str:
    count = night.counts[kind]
    ran = night.outcomes.get(outcomes.UNEXPECTED_SUCCESS.word, 0) if kind == attention.REGRESSED.kind else 0
    parts = [f"{attention.BY_KIND[kind].heading} ({count - ran})"] if count > ran else []
    parts += [f"Ran although documented to fail ({ran})"] if ran else []
    return ", ".join(parts)


def _more(count: int) -> ET.Element | None:
    """That some are not named here, and where they are."""
    if count <= 0:
        return None
    return element("p", f"and {count} more, ", element("a", "in the list of all rows", href="#rows"))


def _card(row: Row, directory: Path) -> ET.Element:
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
    return element(
        "div",
        element("h4", f"{counted(len(cause.rows), 'row')}: {cause.fact}", id=f"cause-{number}"),
        fact_list([("nodes", cause.nodes), ("advice", cause.advice), ("its log says", _log_line(cause, directory))]),
        element("ul", *(_error_row(row) for row in cause.rows[:_NAMED]), class_="rows"),
        _more(len(cause.rows) - _NAMED),
        command_line(again([row.record for row in cause.rows], directory)),
        class_=f"card {attention.ERROR.kind}",
    )


def _log_line(cause: Cause, directory: Path) -> str:
    """The line that looks like the cause where none is known, of the first of its rows that has one."""
    if cause.advice:
        return ""
    lines = (likely_cause(log_ends_of(row, directory)) for row in cause.rows[:_NAMED])
    return next(filter(None, lines), "")


def _error_row(row: Row) -> ET.Element:
    said = [job_text(row.record), *(f"{name} {value}" for name, value in since_facts(row))]
    words = "; ".join(text for text in said if text)
    return element("li", row_link(row), f": {words}" if words else None)


def _missing(night: RunReport) -> ET.Element | None:
    missing = night.unrecorded
    if not missing:
        return None
    entries = [element("li", element("code", one.node_id), f": {one.why}") for one in missing[:_MISSING]]
    more = f"and {len(missing) - _MISSING} more" if len(missing) > _MISSING else None
    return element(
        "div",
        element("h4", f"{counted(len(missing), 'row')}: no record", id="missing"),
        element("ul", *entries, class_="rows"),
        element("p", more) if more else None,
        class_=f"card {attention.ERROR.kind}",
    )


def _alarms(night: RunReport) -> list[ET.Element | None]:
    """Those that stand, and behind a line those that are over."""
    if not night.alarms:
        return []
    heads = [column.removeprefix(">") for column in COLUMNS]
    standing = [one for one in night.alarms if one.stands]
    paging = sum(one.pages for one in standing)
    over = len(night.alarms) - len(standing)
    caption = f"{counted(len(standing), 'alarm')}, {paging} to look at{f', {over} over' if over else ''}"
    caption += "; throughput of the newest run against those before"
    stand = table("alarms", caption, heads, map(_alarm, standing)) if standing else element("p", caption)
    if not over:
        return [stand]
    ended = (one for one in night.alarms if not one.stands)
    summary = element("summary", f"{counted(over, 'alarm')} of the last days, over or gone")
    return [stand, element("details", summary, table("over", "Alarms that are over", heads, map(_alarm, ended)))]


def _alarm(alarm: Alarm) -> list[Content]:
    return [signed(cell) for cell in cells(alarm)]


# -- all verdicts ----------------------------------------------------------------------------------


def _all_rows(night: RunReport) -> ET.Element | None:
    if not night.rows and not night.unrecorded:
        return None
    heads = ["row", "verdict", "throughput", "measured", "against", "MFU", "since", "nodes", "job", "ran"]
    caption = f"{counted(len(night.rows) + len(night.unrecorded), 'row')}, the worst first"
    places = {kind: place for place, kind in enumerate(KINDS)}
    lines = [(places[row.kind], _list_line(row)) for row in night.worst_first]
    lines += [(places[attention.ERROR.kind], _missing_line(one, len(heads))) for one in night.unrecorded]
    return table("all", caption, heads, [line for _, line in sorted(lines, key=lambda one: one[0])])


def _missing_line(one: Unrecorded, cells: int) -> list[Content]:
    kind = attention.ERROR.kind
    name = element("a", one.id, href="#missing")
    return [name, element("td", sign(kind), f" {attention.ERROR.word}", class_=kind), *[""] * (cells - 2)]


def _list_line(row: Row) -> list[Content]:
    record, verdict, jobs = row.record, row.verdict, row.record.told_jobs
    runs_s = [job.run_s for job in jobs if job.run_s is not None]
    mfu, measured_s = record.figures.measured.get(MFU.key), record.judged_s
    return [
        row_link(row),
        element("td", sign(row.kind), f" {row.needs.word}", class_=row.kind),
        "" if row.change is None else percent(row.change),
        "" if measured_s is None else f"{measured_s:.4g} s",
        "" if verdict is None else f"{verdict.reference_s:.4g} s",
        "" if mfu is None else share(mfu),
        minute(row.since.time_s) if row.since is not None and since_line(row.since) else "",
        several(shown_nodes(record.nodes)),
        several(", ".join(job.id for job in jobs)),
        duration(sum(runs_s)) if runs_s else "",
    ]


def _others(others: Sequence[tuple[RunReport, str]]) -> ET.Element | None:
    if not others:
        return None
    entries = [
        element("li", element("a", f"{minute(night.begin_s)} {night.run_id}", href=address), f": {night_text(night)}")
        for night, address in others
    ]
    return element("ul", *entries, class_="rows")


#: Entries of one list; the table of alarms has the others.
_TURNED = 8

#: Where more is said of an alarm, and as what it is said here.
_OF_ALARMS = {
    Kind.INCIDENT: ("#alarms", "the whole cluster was slower", attention.REGRESSED.kind),
    Kind.NODE: ("jobs.html#slow", "slow node", attention.REGRESSED.kind),
    Kind.DRIFT: ("#alarms", "drifts", attention.DRIFT.kind),
    Kind.REGRESSION: ("#alarms", outcomes.REGRESSED.word, attention.REGRESSED.kind),
}


def turned_section(night: RunReport) -> ET.Element | None:
    """Short lists with their counts; nothing where no alarm is known."""
    if not any(night.turned.values()):
        return None
    cards = [_turned_card(state, alarms, night) for state, alarms in night.turned.items()]
    return section("lately", "New, ongoing and fixed", element("div", *cards, class_="turned"))


def _turned_card(state: str, alarms: Sequence[Alarm], night: RunReport) -> ET.Element:
    left = len(alarms) - _TURNED
    more = element("li", f"and {left} more, ", element("a", "in the list of alarms", href="#alarms"))
    shown = [*(_turned_alarm(one, night) for one in alarms[:_TURNED]), *([more] if left > 0 else [])]
    return element(
        "div",
        element("h3", f"{state.capitalize()} ({len(alarms)})"),
        element("ul", *shown, class_="rows") if shown else element("p", "nothing"),
        class_=f"card {state}",
    )


def _turned_alarm(alarm: Alarm, night: RunReport) -> ET.Element:
    address, what, kind = _OF_ALARMS[alarm.spell.kind]
    spell = alarm.spell
    name = "" if spell.kind is Kind.INCIDENT else f"{spell.subject}: "
    figure = alarm.change
    if spell.kind is Kind.INCIDENT and night.incident is not None and alarm.stands:
        # Of an incident of this night there is one figure, the night's own.
        address, what, figure = "#cluster", "the whole cluster is slower", night.incident.change
    change = "" if figure is None else f" {percent(figure)}"
    change += " against its first runs" if change and spell.kind is Kind.DRIFT else ""
    good = good_text(spell) if alarm.stands else ""
    told = f"{change}, since {minute(alarm.since_s)}{f' ({good})' if good else ''}"
    return element("li", sign(kind), " ", element("a", f"{name}{what}", href=address), told)


#: Numbers of GPUs beside each other: a screen of 1,024 pixels has room for as many.
_COLUMNS = 10
#: Workloads that are named above a table.
_NAMED = 4
#: What follows from other settings of a row.
_FOLLOWS = frozenset({"dp", "fsdp"})


#: A row of a night, with or without a record.
_Any = Row | Unrecorded


@dataclass
class _Table:
    """Workloads that share their numbers of GPUs."""

    accelerator: str
    gpus: set[int] = field(default_factory=set)
    lines: dict[tuple[str, str], dict[int, _Any]] = field(default_factory=dict)


def verdict_tables(rows: Iterable[_Any]) -> list[ET.Element | None]:
    """The tables of rows that come the worst first, and so do tables and lines.

    Rows without a record are in them where it is known what they are.
    """
    groups: dict[tuple[str, str, str], list[_Any]] = {}
    for row in rows:
        if isinstance(row, Row):
            facts = row.record.row
            groups.setdefault((facts.workload, facts.dtype, facts.accelerator), []).append(row)
        elif row.facts:
            noted = row.facts
            groups.setdefault((noted["workload"], noted["dtype"], noted["accelerator"]), []).append(row)
    tables: list[_Table | tuple[str, Sequence[_Any]]] = []
    for (workload, dtype, accelerator), of_group in groups.items():
        by_gpus = {_gpus(row): row for row in of_group}
        if len(by_gpus) < len(of_group):
            tables.append((f"{workload} {dtype} on {accelerator}", of_group))
            continue
        found = _table_for(workload, accelerator, by_gpus, tables)
        found.gpus.update(by_gpus)
        found.lines[workload, dtype] = by_gpus
    return [
        _by_gpus(f"verdicts-{number}", one) if isinstance(one, _Table) else _by_case(f"verdicts-{number}", *one)
        for number, one in enumerate(tables, 1)
    ]


def _table_for(
    workload: str, accelerator: str, gpus: Iterable[int], tables: list[_Table | tuple[str, Sequence[_Any]]]
) -> _Table:
    """The table that has the workload already, else the first one with room for its numbers of GPUs, or a new one."""
    known = [one for one in tables if isinstance(one, _Table) and one.accelerator == accelerator]
    of_workload = [one for one in known if any(name == workload for name, _ in one.lines)]
    for one in of_workload or known:
        if len(one.gpus.union(gpus)) <= _COLUMNS:
            return one
    made = _Table(accelerator)
    tables.append(made)
    return made


def _by_gpus(name: str, one: _Table) -> ET.Element | None:
    gpus = sorted(one.gpus)
    workloads = list(dict.fromkeys(workload for workload, _ in one.lines))
    what = ", ".join(workloads) if len(workloads) <= _NAMED else counted(len(workloads), "workload")
    noun = device(one.accelerator)
    span = f"{f'{gpus[0]:,} to ' if len(gpus) > 1 else ''}{rounded(gpus[-1], noun)}"
    heads: list[Content] = ["workload", "dtype", *(_head(number, noun) for number in gpus)]
    lines: list[list[Content]] = [
        [workload, dtype, *(_cell(cells.get(number)) for number in gpus)]
        for (workload, dtype), cells in one.lines.items()
    ]
    return table(name, f"{what} on {one.accelerator}, change of throughput on {span}", heads, lines)


def _head(number: int, noun: str) -> ET.Element:
    """A number of GPUs, whose noun is for those alone who do not see what the caption says."""
    shown, _, unit = rounded(number, noun).partition(" ")
    return element("span", shown, element("span", f" {unit}", class_="vh"))


def _by_case(name: str, group: str, rows: Sequence[_Any]) -> ET.Element | None:
    """A line for each row of a workload that has several on as many GPUs, with what they differ in."""
    settings = [_settings(row) for row in rows]
    varies = {name for one in settings for name in one if len({other.get(name) for other in settings}) > 1}
    lines: list[list[Content]] = [
        [
            element("span", _case(row, one, varies), class_="case"),
            _cell(row),
            f"{_gpus(row):,}",
            _id(row).partition("[")[2].rstrip("]"),
        ]
        for row, one in zip(rows, settings, strict=True)
    ]
    return table(
        name,
        f"{group}: {counted(len(rows), 'row')}, change of throughput",
        ["differs in", "verdict", f"{device(_accelerator(rows[0]))}s", "name"],
        lines,
    )


def _accelerator(row: _Any) -> str:
    return row.record.row.accelerator if isinstance(row, Row) else row.facts["accelerator"]


def _gpus(row: _Any) -> int:
    return row.record.row.gpus if isinstance(row, Row) else int(row.facts["gpus"])


def _id(row: _Any) -> str:
    return row.record.row.id if isinstance(row, Row) else row.id


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
    return ", ".join(told) or _id(row)


def _cell(row: _Any | None) -> ET.Element:
    """A row's sign, word and change of throughput; that it passed is said to those alone who do not see the sign."""
    if row is None:
        return element("td")
    if isinstance(row, Unrecorded):
        kind = attention.ERROR.kind
        mark = element("a", sign(kind), " ", element("span", attention.ERROR.word), href="#missing", class_=kind)
        return element("td", mark, class_=f"verdict {kind}")
    word = element("span", row.needs.word, class_="vh" if row.needs is attention.PASSED else None)
    change = "" if row.change is None else f" {percent(row.change)}"
    mark = element("a", sign(row.kind), " ", word, change, href=f"rows/{row.name}.html", class_=row.kind)
    return element("td", mark, class_=f"verdict {row.kind}")


# -- the page of all jobs --------------------------------------------------------------------------


#: Its address.
JOBS = "jobs.html"

#: Nodes, causes and jobs that are listed.
_NODES, _CAUSES, _JOBS = 40, 100, 1500


def jobs_page(night: RunReport, shown: Plot | None, links: Sequence[tuple[str, str]]) -> ET.Element:
    """The night's jobs: GPU-hours, the time line, failures by cause and by node, and nodes that make jobs slow."""
    title = f"Jobs of the run, {minute(night.begin_s)}"
    main = [
        element("h1", title),
        simulated_note(night.records),
        fact_list(_sums(night)),
        section("line", "Time line", figure(shown)),
        section("causes", "Failures by cause", _causes(night)),
        section("failing", "Failures by node", _failing(night), _blamed(night)),
        section("slow", "Slow nodes", _slow(night), *_sound(night)),
        section("jobs", "All jobs", _jobs(night)),
    ]
    return page(title, main, links, here=JOBS)


def _sums(night: RunReport) -> list[tuple[str, str]]:
    jobs = night.jobs
    failed = sum(job.failed for job in jobs)
    waits_s = [job.facts.queue_s for job in jobs if job.facts.queue_s is not None]
    runs_s = [job.facts.run_s for job in jobs if job.facts.run_s is not None]
    saved = sum(record.jobs.saved_gpu_hours or 0.0 for record in night.records)
    return [
        ("jobs", f"{counted(len(jobs), 'job')}, {failed} failed"),
        (
            "GPU-hours",
            f"{night.gpu_hours:,.1f}" + (f", about {saved:,.1f} saved by ending jobs early" if saved else ""),
        ),
        ("queue", _spread(waits_s)),
        ("run", _spread(runs_s)),
    ]


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return ""
    return f"median {duration(statistics.median(times_s))}, longest {duration(max(times_s))}"


def _causes(night: RunReport) -> ET.Element | None:
    lines = [_cause(cause) for cause in night.causes[:_CAUSES]]
    return table("causes", "Why rows could not be measured", ["cause", "rows", "nodes", "advice"], lines)


def _cause(cause: Cause) -> Sequence[Content]:
    nodes, advice = (element("td", text or None, class_="long") for text in (cause.nodes, cause.advice))
    return cause.fact, f"{len(cause.rows)}", nodes, advice


def _failing(night: RunReport) -> ET.Element | None:
    nodes = night.failing_nodes
    lines = [[node, f"{failed}", f"{ran}"] for node, failed, ran in nodes[:_NODES]]
    caption = f"{counted(len(nodes), 'node')} with failed jobs, the most failures among its jobs first"
    return table("failing", caption, ["node", "failed jobs", "of jobs"], lines)


def _blamed(night: RunReport) -> ET.Element | None:
    """The nodes that fail jobs, by all jobs of the history."""
    lines = [
        [one.name, cluster, f"{one.failed}", f"{one.of}", share(one.usual)]
        for cluster, failing in night.blamed_nodes.items()
        for one in failing
    ]
    heads = ["node", "cluster", "failed jobs", "of jobs", "usual"]
    caption = f"Nodes of which more jobs fail than by chance, by the history's last {FAILURES_DAYS} days"
    return table("blamed", caption, heads, lines[:_NODES])


def _slow(night: RunReport) -> ET.Element | None:
    """The nodes that make jobs slow, by all jobs of the history."""
    lines = [_slow_line(cluster, one) for cluster, slow in night.slow_nodes.items() for one in slow]
    heads = ["node", "cluster", "throughput", "since", "jobs that accuse", "that clear"]
    return table("slow", "Nodes that make jobs slow, by all jobs of the history", heads, lines[:_NODES])


def _sound(night: RunReport) -> Iterator[ET.Element]:
    """How many nodes are known to be sound: that nobody is slow is not known before."""
    for cluster, sound in night.sound_nodes.items():
        slow = "" if cluster in night.slow_nodes else "no node is known to make jobs slow; "
        yield element("p", f"{cluster}: {slow}{sound_text(sound)}")


def _slow_line(cluster: str, one: Suspect) -> Sequence[Content]:
    since = time_element(one.accusing[0].begin_s)
    return one.name, cluster, percent(one.change), since, f"{len(one.accusing)}", f"{len(one.clearing)}"


def _jobs(night: RunReport) -> ET.Element | None:
    jobs = night.jobs[:_JOBS]
    heads = ["row", "job", "state", "nodes", "submitted", "queue", "ran", "GPU-hours"]
    caption = f"{counted(len(jobs), 'job')} in the order of their submission"
    return table("jobs", caption, heads, map(_job, jobs))


def _job(job: RunJob) -> list[Content]:
    facts = job.facts
    return [
        row_link(job.row),
        facts.id,
        element("td", f"{_failed_text(job)}{facts.state}", class_=attention.ERROR.kind if job.failed else None),
        shown_nodes(facts.nodes),
        time_element(job.begin_s) if job.begin_s else None,
        "" if facts.queue_s is None else duration(facts.queue_s),
        "" if facts.run_s is None else duration(facts.run_s),
        "" if facts.run_s is None else f"{job.row.record.row.gpus * facts.run_s / 3600:,.1f}",
    ]


def _failed_text(job: RunJob) -> str:
    """What stands before the state of a job that failed, although a state may say COMPLETED."""
    return "failed: " if job.failed else ""


#: Jobs of a night that are drawn, how high each is, and how many may bear their names.
_MOST_JOBS, _NAMED_JOBS = 200, 60
_BAR, _NAMED_BAR, _NAME = 7, 25, 14
#: Letters of a name there, with its job: a phone has room for as many; and of the job.
_LONGEST_NAME, _LONGEST_JOB = 44, 20
#: Units of time, and their seconds; three hundred of one are better told in the next.
_TIME_UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3600))


def jobs_plot(night: RunReport) -> Plot | None:
    """The night's jobs over time: how long each waited, and how long it ran. The one that ended last comes last."""
    jobs = sorted((job for job in night.jobs if _is_timed(job)), key=lambda one: one.facts.end_s or 0.0)
    if not jobs:
        return None
    begin_s = min(job.begin_s for job in jobs)
    span_s = max((jobs[-1].facts.end_s or 0.0) - begin_s, 1.0)
    unit, unit_s = next(one for one in _TIME_UNITS if span_s < one[1] * 300 or one is _TIME_UNITS[-1])
    shown = jobs[-_MOST_JOBS:]
    each = _NAMED_BAR if len(shown) <= _NAMED_JOBS else _BAR
    bottom = each * len(shown) + 4
    x = Scale(0.0, span_s / unit_s, 0.0, 100.0)
    title = (
        f"{counted(len(shown), 'job')} of the run"
        if len(shown) == len(jobs)
        else f"The {len(shown)} jobs that ended last"
    )
    svg = ground(bottom + 40)
    svg.set("class", "jobs")
    places = [(x(value), f"{value:,.10g}") for value in round_numbers(0.0, span_s / unit_s)]
    svg.extend(element("line", x1=f"{at:g}%", x2=f"{at:g}%", y1=0, y2=bottom, class_="grid") for at, _ in places)
    svg.extend(named_ticks(places, y=bottom + 16))
    svg.append(element("text", f"{unit} since the first job was submitted", x="50%", y=bottom + 34, class_="x"))
    for number, job in enumerate(shown):
        svg.append(_bar(job, lambda time_s: x((time_s - begin_s) / unit_s), 2 + each * number, each))
    legend = (
        key("in the queue", "queue", "band"),
        key("ran", "ran", "band"),
        key("failed", "failed", "cross"),
    )
    return Plot(title, svg, f"{title}; pale bars are time in the queue, others run time, crosses failed", legend)


def _bar(job: RunJob, x: Callable[[float], float], top: float, height: float) -> ET.Element:
    """One job: whose it is, where bars are high enough for that, and below its time in the queue and its run."""
    facts = job.facts
    submitted, started, ended = x(job.begin_s), x(facts.start_s or job.begin_s), x(facts.end_s or 0.0)
    name, queue_s, run_s = job.row.record.row.id, facts.queue_s, facts.run_s
    told = [
        f"{name}: job {facts.id}, {'failed: ' if job.failed else ''}{facts.state}",
        "" if queue_s is None else f"{duration(queue_s)} in the queue",
        "" if run_s is None else f"ran {duration(run_s)}",
    ]
    named = height == _NAMED_BAR
    bar, high = (top + _NAME, height - _NAME - 3) if named else (top, height - 2)
    cross = polygon("cross", size=1 if named else 0.6)
    return element(
        "a",
        element("title", ", ".join(part for part in told if part)),
        element("text", _name(job), x=0, y=top + 10, class_="name") if named else None,
        _part(submitted, started - submitted, bar, high, "queue"),
        _part(started, max(ended - started, 0.2), bar, high, "failed" if job.failed else "ran"),
        element("svg", cross, x=f"{ended:g}%", y=bar + high / 2, class_="failed") if job.failed else None,
        href=f"rows/{job.row.name}.html",
        aria_label=f"{name}, job {facts.id}",
    )


def _name(job: RunJob) -> str:
    """The row and the job: of a row several jobs may be drawn."""
    which = f", job {shortened(job.facts.id, _LONGEST_JOB)}"
    return f"{shortened(job.row.record.row.id, _LONGEST_NAME - len(which))}{which}"


def _part(begin: float, wide: float, top: float, high: float, kind: str) -> ET.Element | None:
    """A stretch of a job from one percentage on."""
    if wide <= 0:
        return None
    return element("rect", x=f"{begin:g}%", y=top, width=f"{wide:.1f}%", height=high, class_=kind)


def _is_timed(job: RunJob) -> bool:
    return bool(job.facts.end_s and 0 < job.begin_s <= job.facts.end_s < MOST)
