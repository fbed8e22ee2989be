"""The page of one row in one night."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.words import command, counted, duration
from pytest_gsw.errors import LogError
from pytest_gsw.history.model import Point, Told
from pytest_gsw.logs.reader import tail_lines
from pytest_gsw.logs.signatures import find_cause
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.reports.build import LISTED_RUNS, held_then, held_today
from pytest_gsw.reports.html.charts import figure, history_plot, steps_plot
from pytest_gsw.reports.html.layout import (
    Content,
    change,
    command_line,
    element,
    fact_list,
    page,
    section,
    several,
    sign,
    simulated_note,
    table,
    time_element,
)
from pytest_gsw.reports.html.texts import (
    drift_text,
    fact_text,
    limit_text,
    minute,
    nodes_fact,
    percent,
    shown_nodes,
    since_facts,
)
from pytest_gsw.reports.run_report import Row, RunReport, advice_of, device
from pytest_gsw.results import attention, outcomes, row_text
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.next_steps import again, next_command, nights_command, offline
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import telling_line
from pytest_gsw.results.row_text import accepted_line, compared_text, hides_loss
from pytest_gsw.results.summary import cause_of
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Direction, Metric

#: Facts that have a place of their own on the page.
_ELSEWHERE = frozenset({"again", "offline", "steps", "job", "note", "accepted"})


def row_page(
    row: Row,
    night: RunReport,
    ends: Sequence[LogEnd],
    links: Sequence[tuple[str, str]],
    pages: Mapping[str, str],
    then_s: Mapping[str, float],
) -> ET.Element:
    """All that is known of one row in one run.

    Args:
        row: The row.
        night: Its run.
        ends: The ends of its logs.
        links: Names of the run's pages, each with its address.
        pages: By run, the newest first, the addresses of its pages in others.
        then_s: See :func:`~pytest_gsw.reports.build.judged_by`.
    """
    record, word = row.record, row.needs.word
    badge = element("span", sign(row.kind), f" {word}", class_=f"badge {row.kind}")
    log, commands = section("log", "Last lines of the log", *_log(ends)), _commands(row, night)
    # What an error's log says is what to look at first; a slow row's figures are.
    first, last = (log, None) if row.needs is attention.ERROR else (None, log)
    main = [
        element("h1", record.row.id),
        element("p", badge, " ", change(row), class_="headline"),
        element("p", fact_text(row), class_="fact"),
        _beside(row, pages),
        fact_list([*_at_once(row, ends), *since_facts(row), *_notes(row)]),
        simulated_note([record]),
        first,
        section("next", "What to type next", commands),
        section("figures", "Figures", _figures(row)),
        section("nights", "Runs", figure(history_plot(row, pages)), _nights(row, pages, then_s)),
        section("steps", "Steps", figure(steps_plot(record)), _steps(record)),
        section("jobs", "Jobs", _jobs(row)),
        last,
        section("facts", "Facts", fact_list(_facts(record))),
    ]
    return page(f"{record.row.id}: {word} on {record.run.cluster}, {minute(night.begin_s)}", main, links, root="../")


def _beside(row: Row, pages: Mapping[str, str]) -> ET.Element | None:
    """The pages of the row in the runs before and after this one, where the report has them."""
    runs = list(pages)
    if row.record.run.id not in runs or len(runs) < 2:
        return None
    place = runs.index(row.record.run.id)
    named = [
        element("li", element("a", f"{what}: {runs[number]}", href=pages[runs[number]]))
        for what, number in (("run before", place + 1), ("run after", place - 1))
        if 0 <= number < len(runs)
    ]
    return element("nav", element("ul", *named), aria_label="The row in other runs")


def _at_once(row: Row, ends: Sequence[LogEnd]) -> list[tuple[str, str]]:
    """Where the row ran, and of an error what to do, or, where nobody knows, what its log says."""
    nodes = nodes_fact(row.record)
    if row.needs is not attention.ERROR:
        return [nodes]
    says = "" if any(end.cause for end in ends) else likely_cause(ends)
    return [nodes, ("advice", advice_of(cause_of(row.record))), ("its log says", says)]


def _notes(row: Row) -> list[tuple[str, str]]:
    record = row.record
    comparable = f"{record.not_comparable} makes the figures not comparable" if record.not_comparable else ""
    drift = "" if row.needs is attention.DRIFT else drift_text(row)  # whose fact it is
    return [
        ("limit", limit_text(row)),
        ("accepted", record.accepted_note or ""),
        ("by the document", accepted_line(record) if hides_loss(record) else ""),
        ("drift", drift),
        ("not judged", comparable),
        ("MFU", record.figures.mfu_note if record.figures.measured else ""),
    ]


def _commands(row: Row, night: RunReport) -> ET.Element:
    pairs = [
        element("div", element("dt", what), element("dd", command_line(text)))
        for what, text in all_commands(row, night.run.directory)
    ]
    return element("dl", *pairs, class_="commands")


# -- figures ---------------------------------------------------------------------------------------


def _figures(row: Row) -> ET.Element | None:
    record = row.record
    found = (_figure(row, metric) for metric in metrics.METRICS)
    lines = [*(line for line in found if line is not None), *_site_figures(record)]
    accepted = ["accepted", "change"] if record.figures.accepted else []
    caption = "Measured against documented figures" if record.figures.measured else "Documented figures"
    return table("figures", caption, ["figure", "measured", "documented", "change", *accepted, "allowed"], lines)


def _site_figures(record: Record) -> list[Sequence[str]]:
    """A line for each of the site's metrics that the row documents."""
    accepted = ("", "") if record.figures.accepted else ()
    return [
        (
            f"{one.metric.label} ({one.metric.unit})",
            *(f"{one.measured:,.4g}", f"{one.documented:,.4g}", percent(one.change)),
            *(*accepted, percent(one.allowed_change)),
        )
        for one in record.metrics
    ]


def _figure(row: Row, metric: Metric) -> Sequence[str] | None:
    """One figure's line; ``None`` where it is neither measured nor documented."""
    record, key = row.record, metric.key
    measured, stated = record.figures.measured.get(key), record.figures.documented.get(key)
    if measured is None and stated is None:
        return None
    show = row_text.shown_by(metric)

    def against(held: float | None) -> tuple[str, str]:
        if not held:
            return "", ""
        return show(held), "" if measured is None else percent(measured / held - 1)

    return (
        row_text.title(metric, record),
        "" if measured is None else show(measured),
        *against(record.figures.stated(key)),
        *(against(record.figures.accepted.get(key)) if record.figures.accepted else ()),
        _allowed(row, metric),
    )


def _allowed(row: Row, metric: Metric) -> str:
    verdict, judged = row.verdict, row.record.judged_metric.key
    # What follows from what was measured, and not from what is judged, has no limit.
    limited = {judged, metrics.TOKENS_PER_S.key} if judged == metrics.STEP_TIME.key else {judged}
    if verdict is None or metric.key not in limited:
        return ""
    higher = metric.direction is Direction.HIGHER_IS_BETTER
    allowed = verdict.allowed_throughput_change if higher else verdict.allowed_time_change
    return percent(allowed) if allowed < math.inf else "any"


# -- nights, steps, jobs ---------------------------------------------------------------------------


def _nights(row: Row, pages: Mapping[str, str], then_s: Mapping[str, float]) -> ET.Element | None:
    """The newest nights, those with an error among them, against what tonight is held against."""
    nights: list[Point | Told] = [*row.past.measured, *row.failures]
    nights.sort(key=lambda one: (one.time_s, one.run_id))
    shown = nights[-LISTED_RUNS:][::-1]
    held_s, held = held_today(row)
    which = counted(len(nights), "run")
    if len(shown) < len(nights):
        which = f"The newest {len(shown)} of {which}"
    heads = ["when", "verdict", "throughput", f"{row.record.judged_metric.label} (s)", "nodes", "job", "run"]
    caption = which if held_s is None else f"{which}; throughput against {held}, {held_s:.4g} s"
    others = {one for one in then_s.values() if held_s is not None and f"{one:.4g}" != f"{held_s:.4g}"}
    caption += ", where no other figure is named" if others else ""
    return table("nights", caption, heads, [_night(night, row, pages, then_s) for night in shown])


def _night(night: Point | Told, row: Row, pages: Mapping[str, str], then_s: Mapping[str, float]) -> Sequence[Content]:
    address = pages.get(night.run_id)
    run: Content = night.run_id if not address else element("a", night.run_id, href=address)
    when = time_element(night.begin_s)
    if isinstance(night, Told):
        kind, last = attention.ERROR, row.record.jobs.last
        job_id = last.id if last is not None and night.run_id == row.record.run.id else ""
        return when, element("td", sign(kind.kind), f" {kind.word}", class_=kind.kind), "", "", "", job_id, run
    known = outcomes.of(night.outcome)
    shown = known.attention.in_report.kind
    verdict = element("td", sign(shown), f" {known.text}", class_=shown)
    return (
        when,
        verdict,
        _change(night, row, then_s),
        f"{night.judged_s:.4g}",
        several(shown_nodes(night.nodes)),
        several(night.job_id),
        run,
    )


def _change(night: Point, row: Row, then_s: Mapping[str, float]) -> str:
    """The change that a run's verdict is of, and against what, where that is not what the table's caption says."""
    (today_s, _), held_s = held_today(row), held_then(row, night, then_s)
    if held_s is None:
        return ""
    change, against = percent(held_s / night.judged_s - 1), f"{held_s:.4g} s"
    return change if today_s is None or against == f"{today_s:.4g} s" else f"{change} against {against}"


def _steps(record: Record) -> ET.Element | None:
    return fact_list((name, value) for name, value in row_text.run_facts(record, "", "") if name == "steps")


def _jobs(row: Row) -> ET.Element | None:
    heads = ["job", "state", f"{row.record.judged_metric.label} (s)", "nodes", "submitted", "queue", "ran", "note"]
    return table("jobs", "Every job of the row in this run", heads, [_job(job, row.record) for job in row.jobs])


def _job(job: JobFacts, record: Record) -> Sequence[Content]:
    judged_s = job.judged_s
    if judged_s is None and job is record.jobs.last and not record.jobs.repeats:
        judged_s = record.judged_s
    notes = (job.why_repeated, "" if job.reason == "None" else job.reason)
    return (
        f"{job.launcher} {job.id}",
        job.state if job.exit_code is None else f"{job.state} {job.exit_code}:{job.signal}",
        "" if judged_s is None else f"{judged_s:.4g}",
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


def _facts(record: Record) -> list[tuple[str, str]]:
    image_from = f"({record.run.image_from})" if record.run.image_from else ""
    return [
        *((name, value) for name, value in row_text.run_facts(record, "", "") if name not in _ELSEWHERE),
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


_NIGHTS = "list its runs"

#: What the one command does that is of what a row needs alone.
_OF_NEED = {
    attention.REGRESSED: "see whether it stays",
    attention.IMPROVED: "propose the new figure",
    attention.DRIFT: "see the drift",
    attention.INCONCLUSIVE: "run it often enough to tell",
}


def all_commands(row: Row, directory: Path) -> Sequence[tuple[str, str]]:
    """Everything that can be typed for a row, each with what it does; the one to type next comes first."""
    record = row.record
    listed = [("run it again", again([record], directory))]
    if record.run.log:
        listed.append(("judge its log again", offline(record, directory)))
    if row.since is not None and row.since.good_run_id and row.needs in attention.SLOW:
        runs = (row.since.good_run_id, record.run.id)
        listed.append(("compare with the last good run", command("pytest-gsw", "compare", *runs)))
    if row.past.nights:
        listed.append((_NIGHTS, nights_command(record)))
    first = next_command(record, row.needs, directory)
    known = {text: what for what, text in (*listed, (_NIGHTS, nights_command(record)))}
    too_good = row.needs is attention.INCONCLUSIVE and record.reason == Reason.TOO_GOOD.value
    of_need = "look at what was measured" if too_good else _OF_NEED.get(row.needs, "")
    return [(known.get(first, of_need), first), *(pair for pair in listed if pair[1] != first)]


#: Last lines that are shown.
_LINES = 8
#: Of a longer log only so much at its end is searched: a report reads a thousand of them.
_SEARCHED_BYTES = 256 << 10


#: What a row needs whose log's end is shown.
_LOGS_SHOWN = attention.SLOW | {attention.ERROR}


@dataclass(frozen=True)
class LogEnd:
    """The end of one log."""

    path: Path
    lines: tuple[str, ...]
    #: The line that says why the run failed, where it is in what was read.
    cause: str = ""


def likely_cause(ends: Sequence[LogEnd]) -> str:
    """The line that says why a run failed, else the last one that looks like it, in any of its files.

    Empty where there is neither: the last line of a training log may be a progress bar.
    """
    found = (*(end.cause for end in ends), *(telling_line(end.lines) for end in ends))
    return next(filter(None, found), "")


def log_ends_of(row: Row, directory: Path) -> tuple[LogEnd, ...]:
    """The ends of a row's logs, where that tells something: of one that failed or is too slow."""
    if row.needs not in _LOGS_SHOWN:
        return ()
    run, last = row.record.run, row.record.jobs.last
    failed = row.needs is attention.ERROR
    return log_ends(run.log, last.id if last else "", directory, failed=failed, outputs=run.outputs)


def log_ends(
    log: str | None, job_id: str, directory: Path, *, failed: bool, outputs: Sequence[str] = ()
) -> tuple[LogEnd, ...]:
    """The ends of a row's log, and of the other files of a job that failed, of those that are there.

    Of a row that could not be measured, the line is looked for that says why. A batch shell's output may be in the
    run's directory, which may have been moved since.
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
        if not path.is_file():  # a pipe would never answer
            return None
        lines = tail_lines(path, _LINES)
        return LogEnd(path, lines, _cause(path) if failed else "") if lines else None
    except (OSError, ValueError):  # a name with a zero byte
        return None


def _cause(path: Path) -> str:
    try:
        cause = find_cause(path, max(0, path.stat().st_size - _SEARCHED_BYTES))
    except (LogError, OSError):
        return ""
    return "" if cause is None else cause.text
