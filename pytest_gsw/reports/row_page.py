"""The pages of a row and of a workload: commands, figures, runs, steps, jobs, the end of the log, and facts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.text import command, duration, plural
from pytest_gsw.errors import LogError
from pytest_gsw.history.model import Point, RowOutcome
from pytest_gsw.logs.reader import tail_lines
from pytest_gsw.logs.signatures import find_cause
from pytest_gsw.reports import charts, html, texts
from pytest_gsw.reports.html import Content, element
from pytest_gsw.reports.matrix import RunPages, address_in, matrix
from pytest_gsw.reports.reported_row import ReportedRow, current_reference, device, reference_at
from pytest_gsw.reports.run_report import LISTED_RUNS, RunReport, advice_of
from pytest_gsw.results import attention, outcomes, row_line, row_text, suggested_commands
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.stats.verdict import Reason

#: Facts with a place of their own on the page.
_ELSEWHERE = frozenset({"steps", "job", "note", "accepted"})


def row_page(
    row: ReportedRow, report: RunReport, ends: Sequence[LogEnd], links: Sequence[tuple[str, str]], pages: RunPages
) -> ET.Element:
    """The page of one row in one run.

    Args:
        row: The row.
        report: Its run.
        ends: The ends of its logs.
        links: Names of the run's pages, each with its address.
        pages: The runs with pages.
    """
    record, word = row.record, row.needs.word
    badge = element("span", html.sign(row.kind), f" {word}", class_=f"badge {row.kind}")
    log = html.section("log", "Last lines of the log", *_log(ends))
    # The log comes first for an error, the figures for a slow row.
    first, last = (log, None) if row.needs is attention.ERROR else (None, log)
    run_facts = row_text.run_facts(record)
    steps = [fact for fact in run_facts if fact[0] == "steps"]
    shared = element("a", f"All rows of {record.row.workload}", href=f"workloads/{row.shared_page}.html")
    addresses = _in_runs(row, pages)
    main = [
        element("h1", record.row.id),
        element("p", badge, " ", html.change(row), class_="headline"),
        element("p", texts.fact_text(row), class_="fact"),
        element("p", shared),
        _tile_facts(row, report),
        html.fact_list([*_at_once(row, ends, report), *texts.since_facts(row), *_notes(row)]),
        html.simulated_note([record]),
        first,
        html.section("next", "What to type next", html.command_list(all_commands(row, report.run.directory))),
        html.section("figures", "Figures", _figures(row)),
        None
        if record.row.tile
        else html.section("runs", "Runs", charts.history_plot(row, addresses), _runs_table(row, addresses, report)),
        html.section("steps", "Steps", charts.steps_plot(record), html.fact_list(steps)),
        html.section("jobs", "Jobs", _jobs_of_row(row, report)),
        last,
        html.section("facts", "Facts", html.fact_list(_facts(record, run_facts))),
    ]
    return html.page(f"{record.row.id}: {word} on {record.run.cluster}, {texts.minute(report.begin_s)}", main, links)


def _in_runs(row: ReportedRow, pages: RunPages) -> Mapping[str, str]:
    """The addresses of the row in other runs."""
    return {run_id: address_in(row, run_id, pages) for run_id in pages if run_id != row.record.run.id}


def workload_page(
    rows: Sequence[tuple[ReportedRow, RunReport]], pages: RunPages, links: Sequence[tuple[str, str]]
) -> ET.Element:
    """The page of a workload: its matrix and its rows, at length those that are as before.

    Args:
        rows: Each with its run, which is the newest one with the row.
        pages: The runs with pages.
        links: Names of the report's pages, each with its address.
    """
    _, newest = rows[0]
    workloads = ", ".join(dict.fromkeys(row.record.row.workload for row, _ in rows))
    title = f"{workloads} on {', '.join(newest.clusters)}: {plural(len(rows), 'row')}"
    main = [
        element("h1", title),
        html.simulated_note(row.record for row, _ in rows),
        html.section(
            "matrix", "Rows by run", matrix("matrix", [row for row, of in rows if of is newest], newest, pages)
        ),
        *(_row_section(row, report, _in_runs(row, pages)) for row, report in rows),
    ]
    return html.page(f"{title}, {texts.minute(newest.begin_s)}", main, links)


def _row_section(row: ReportedRow, report: RunReport, pages: Mapping[str, str]) -> ET.Element:
    name = row.record.row.id
    link = name if row.is_as_before else element("a", name, href=row.address)
    heading = element("h2", html.sign(row.kind), " ", link, id=f"row-{row.name}")
    if not row.is_as_before:
        return element("section", heading, element("p", f"{row.needs.word} ", html.change(row), class_="fact"))
    job = ("job", texts.job_text(row.record))
    facts = [job, *_notes(row), *_facts(row.record, row_text.run_facts(row.record))]
    return element(
        "section",
        heading,
        element("p", texts.fact_text(row), class_="fact"),
        _tile_facts(row, report),
        _figures(row),
        None if row.record.row.tile else charts.history_plot(row, pages),
        html.folded(
            "Commands and facts", html.command_list(all_commands(row, report.run.directory)), html.fact_list(facts)
        ),
    )


def _tile_facts(row: ReportedRow, report: RunReport) -> ET.Element | None:
    """The change of a tile against its peers, and a link to them; nothing for another row."""
    names = [sweep.of_row.row for sweep in report.sweeps]
    if not row.tile:
        return None
    number = names.index(row.record.row.row_id)
    change = row.peers_change
    told = "not compared with its peers: " if change is None else f"{texts.percent(change)} throughput vs its peers: "
    return element(
        "p", told, element("a", report.sweeps[number].title, href=f"{report.home}index.html#tiles-{number + 1}")
    )


def _at_once(row: ReportedRow, ends: Sequence[LogEnd], report: RunReport) -> list[tuple[str, Content]]:
    """The nodes of the row, and for an error the advice, or the line of its log that is most like the cause."""
    what, names = texts.nodes_fact(row.record)
    nodes = (what, html.node_links(names, report))
    if row.needs is not attention.ERROR:
        return [nodes]
    says = "" if any(end.cause for end in ends) else likely_cause(ends)
    return [nodes, ("advice", advice_of(row.record)), ("its log says", says)]


def _notes(row: ReportedRow) -> list[tuple[str, str]]:
    record = row.record
    comparable = f"{record.not_comparable} makes the figures not comparable" if record.not_comparable else ""
    drift = "" if row.needs is attention.DRIFT else texts.drift_text(row)  # the row's fact has it
    return [
        ("limit", texts.limit_text(row)),
        ("accepted", record.accepted_note or ""),
        ("by the document", row_text.accepted_line(record) if row_text.hides_loss(record) else ""),
        ("drift", drift),
        ("not judged", comparable),
        ("MFU", record.figures.mfu_note if record.figures.measured else ""),
    ]


# -- figures ---------------------------------------------------------------------------------------


def _figures(row: ReportedRow) -> ET.Element | None:
    figures = row.record.figures
    lines = []
    for cells in row_text.figure_cells(row.record, row.record.judged):
        references = (cells.documented, cells.accepted) if figures.accepted else (cells.documented,)
        against = (cell for held, change_of in references for cell in (texts.without_unit(held), _bare(change_of)))
        title = f"{cells.title} (%)" if f"{cells.measured}{cells.documented[0]}".endswith("%") else cells.title
        lines.append((title, texts.without_unit(cells.measured), *against, _bare(cells.allowed)))
    accepted = [">accepted", ">change (%)"] if figures.accepted else []
    caption = "Measured against documented figures" if figures.measured else "Documented figures"
    heads = ["figure", ">measured", ">documented", ">change (%)", *accepted, ">allowed (%)"]
    return html.table(f"figures-{row.name}", f"{caption} of {row.record.row.id}", heads, lines)


def _bare(change: str) -> str:
    return texts.without_unit(texts.shown_change(change))


# -- runs, steps, jobs ---------------------------------------------------------------------------


def _runs_table(row: ReportedRow, pages: Mapping[str, str], report: RunReport) -> ET.Element | None:
    """The newest runs, those with an error among them, against the current reference."""
    runs: list[Point | RowOutcome] = [*row.past.measured, *row.failures]
    runs.sort(key=lambda run: (run.time_s, run.run_id))
    shown = runs[-LISTED_RUNS:][::-1]
    reference, held = current_reference(row)
    which = plural(len(runs), "run")
    if len(shown) < len(runs):
        which = f"The newest {len(shown)} of {which}"
    metric = row.record.judged_metric
    numbers = [f">{metric.change_label} (%)", f">{metric.label} ({metric.unit})", f">against ({metric.unit})"]
    heads = ["when", "verdict", *numbers, "nodes", "job", "run"]
    caption = which if reference is None else f"{which}; {held} figure is {metric.text(reference)}"
    return html.table("runs", caption, heads, [_run_line(point, row, pages, report) for point in shown])


def _run_line(
    point: Point | RowOutcome, row: ReportedRow, pages: Mapping[str, str], report: RunReport
) -> Sequence[Content]:
    address = pages.get(point.run_id)
    run: Content = point.run_id if not address else element("a", point.run_id, href=address)
    when = html.time_element(point.begin_s)
    if isinstance(point, RowOutcome):
        last = row.record.jobs.last
        job_id = last.id if last is not None and point.run_id == row.record.run.id else ""
        return when, html.kind_cell(attention.ERROR), "", "", "", "", job_id, run
    known = outcomes.of(point.outcome)
    shown = known.attention.in_report.kind
    verdict = element("td", html.sign(shown), f" {known.text}", class_=shown)
    reference, metric = reference_at(row, point), row.record.judged_metric
    change = None if reference is None else metric.change(point.judged, reference)
    return (
        when,
        verdict,
        "" if change is None else texts.without_unit(texts.percent(change)),
        texts.figure_text(metric, point.judged),
        texts.figure_text(metric, reference),
        html.node_cell(point.nodes, report),
        html.several(point.job_id),
        run,
    )


def _jobs_of_row(row: ReportedRow, report: RunReport) -> ET.Element | None:
    metric = row.record.judged_metric
    heads = ["job", "state", f">{metric.label} ({metric.unit})", "nodes", "submitted", ">queue", ">ran", "note"]
    return html.table(
        "jobs", "Every job of the row in this run", heads, [_job_of_row(job, row.record, report) for job in row.jobs]
    )


def _job_of_row(job: JobFacts, record: Record, report: RunReport) -> Sequence[Content]:
    judged = job.judged
    if judged is None and job is record.jobs.last and not record.jobs.repeats:
        judged = record.measured
    notes = (job.why_repeated, "" if job.reason == "None" else job.reason)
    return (
        f"{job.launcher} {job.id}",
        str(job.state) if job.exit_code is None else f"{job.state} {job.exit_code}:{job.signal}",
        texts.figure_text(record.judged_metric, judged),
        html.node_links(job.nodes, report),
        None if job.submit_s is None else html.time_element(job.submit_s),
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
        ("log agrees on", row_text.compared_text(record)),
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
    listed = [(_REPEATS[name], text) for name, text in suggested_commands.repeat_commands(record, directory)]
    if row.since is not None and row.since.good is not None and row.needs in attention.SLOW:
        runs = (row.since.good.run_id, record.run.id)
        listed.append(("compare with the last good run", command("pytest-gsw", "compare", *runs)))
    its_runs = (_RUNS, suggested_commands.history_command(record.run.cluster, record.row.id))
    if row.past.runs:
        listed.append(its_runs)
    first = suggested_commands.next_command(record, row.needs, directory)
    known = {text: what for what, text in (*listed, its_runs)}
    too_good = row.needs is attention.INCONCLUSIVE and record.reason == Reason.TOO_GOOD.value
    of_need = "look at what was measured" if too_good else _OF_NEED.get(row.needs, "")
    return [(known.get(first, of_need), first), *(pair for pair in listed if pair[1] != first)]


#: The number of last lines that are shown.
_LINES = 8
#: The part at the end of a log that is searched: a report reads a thousand of them.
_SEARCHED_BYTES = 256 << 10


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
    causes = (*(end.cause for end in ends), *(row_line.informative_line(end.lines) for end in ends))
    return next(filter(None, causes), "")


def log_ends(row: ReportedRow, directory: Path) -> tuple[LogEnd, ...]:
    """The ends of a row's logs; none for a row that neither failed nor is too slow.

    For a failed job, other files are shown as well, and the line with the cause is searched. A batch shell's output may
    be in the run's directory, which may have been moved since.
    """
    run, last, failed = row.record.run, row.record.jobs.last, row.needs is attention.ERROR
    if not failed and row.needs not in attention.SLOW:
        return ()
    named = [Path(run.log)] if run.log else []
    if failed:
        named.extend(map(Path, run.outputs))
    if failed and last is not None and last.id.isalnum():
        named.append(directory / "batch" / f"slurm-{last.id}.out")
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
