"""The pages of a night. A page needs its style sheet and its pictures, and nothing from anywhere else.

Jenkins shows reports with ``default-src 'none'; img-src 'self'; style-src 'self'`` in a sandbox: no script runs, no
style stands in an element, and no link opens a window. What is said by a colour is said by a word or a sign as well.
"""

from __future__ import annotations

import math
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pytest_gsw.examine import duration
from pytest_gsw.history.model import Point
from pytest_gsw.report.commands import again, all_commands, next_command
from pytest_gsw.report.elements import Content, element
from pytest_gsw.report.evidence import LogEnd
from pytest_gsw.report.night import Cause, Night, Row, Since
from pytest_gsw.report.plots import Plot
from pytest_gsw.results import terminal
from pytest_gsw.results.record import JobFacts, Record, judged_key
from pytest_gsw.words import counted

#: The sign and the word of each kind of row.
MARKS: Mapping[str, tuple[str, str]] = {
    "regressed": ("▼", "regressed"),
    "error": ("✖", "error"),
    "inconclusive": ("?", "inconclusive"),
    "drift": ("↘", "drifts"),
    "improved": ("▲", "improved"),
    "other": ("○", "not judged"),
    "passed": ("✔", "passed"),
}

_HEADINGS = {
    "regressed": "Regressed",
    "error": "Errors",
    "inconclusive": "Inconclusive",
    "drift": "Passed, and drifting",
    "improved": "Improved",
}

#: Rows of one kind that are shown at length, and rows of one cause that are named; the list of all rows has the others.
_AT_LENGTH = 40
_NAMED = 12
#: Nodes and nights that are named.
_NODES, _NIGHTS = 8, 14
#: A node list in a table.
_LONGEST_NODES = 60

#: Label, key and number format of each figure; a fraction without a format is a percentage.
_FIGURES = (
    ("step time (s)", "step_time_s", "{:,.3f}"),
    ("checkpoint save (s)", "checkpoint_save_time_s", "{:,.3f}"),
    ("throughput (tokens/s)", "tokens_per_s", "{:,.0f}"),
    ("samples/s", "samples_per_s", "{:,.4g}"),
    ("MFU", "mfu", ""),
    ("TFLOP/s per GPU", "tflops_per_gpu", "{:,.1f}"),
    ("days to train 1T tokens", "days_to_train_1t_tokens", "{:,.2f}"),
)


# -- the night -------------------------------------------------------------------------------------


def night_page(night: Night, others: Sequence[tuple[Night, str]], links: Sequence[tuple[str, str]]) -> ET.Element:
    """The first page: the night in one line, what needs attention, all verdicts.

    Args:
        night: The night.
        others: Other nights of the same report, each with the address of its page.
        links: Names and addresses of the night's further pages.
    """
    main = [
        element("h1", f"{_said(night)} on {', '.join(night.clusters) or 'no cluster'}, {day(night.begin_s)}"),
        _counts(night),
        element("p", *_run_facts(night), class_="run"),
        _simulated(row.record for row in night.rows),
        *_attention(night),
        _verdicts(night),
        _all_rows(night),
        _nights(others),
    ]
    return _page(f"{_said(night)}: {', '.join(night.clusters)} {day(night.begin_s)}", main, "", "index.html", links)


def _said(night: Night) -> str:
    """What the night came to, in a few words."""
    counts = night.counts
    bad = {
        "regressed": "regressed",
        "error": "could not be measured",
        "inconclusive": "inconclusive",
        "drift": "drifting",
    }
    parts = [f"{counts[kind]} {words}" for kind, words in bad.items() if kind in counts]
    rows = counted(sum(counts.values()), "row")
    if not counts:
        return "No row"
    return f"{', '.join(parts)} of {rows}" if parts else f"All well: {rows}"


def _counts(night: Night) -> ET.Element:
    entries = []
    for kind, count in night.counts.items():
        sign, word = MARKS[kind]
        target = f"#{kind}" if kind in _HEADINGS else "#rows"
        inner = (element("span", sign, aria_hidden="true"), f" {count} {word}")
        entries.append(element("li", element("a", *inner, href=target, class_=f"badge {kind}")))
    return element("ul", *entries, class_="counts", aria_label="Rows by verdict")


def _run_facts(night: Night) -> list[Content]:
    parts: list[Content] = ["run ", element("code", night.run_id)]
    if night.begin_s and night.end_s:
        parts += [", ", _time(night.begin_s), " to ", _time(night.end_s), f" ({duration(night.end_s - night.begin_s)})"]
    parts.append(f", {night.gpu_hours:,.1f} GPU-hours, exit status {night.exit_status}")
    return parts


def _simulated(records: Iterable[Record]) -> ET.Element | None:
    if not any(record.simulated for record in records):
        return None
    return element("p", "This is a simulation: no GPU was used, the figures are made up.", class_="note")


def _attention(night: Night) -> list[ET.Element | None]:
    groups = [_group(night, kind) for kind in _HEADINGS if night.of(kind) or (kind == "error" and night.run.missing)]
    if not groups:
        return [element("p", element("span", "✔", aria_hidden="true"), " Nothing needs attention.", class_="well")]
    return [element("section", element("h2", "What needs attention"), *groups)]


def _group(night: Night, kind: str) -> ET.Element:
    heading = element("h3", _sign(kind), f" {_HEADINGS[kind]} ({night.counts[kind]})", id=kind)
    if kind == "error":
        causes = [_cause_card(cause, night.run.directory) for cause in night.causes]
        return element("section", heading, *causes, _missing(night), class_="group")
    rows = night.of(kind)
    cards = element("ul", *(_card(row, night) for row in rows[:_AT_LENGTH]), class_="cards")
    return element("section", heading, cards, _more(len(rows) - _AT_LENGTH), class_="group")


def _more(count: int) -> ET.Element | None:
    return (
        element("p", f"and {count} more, ", element("a", "in the list of all rows", href="#rows"))
        if count > 0
        else None
    )


def _card(row: Row, night: Night) -> ET.Element:
    record = row.record
    facts = [("nodes", _job_nodes(record)), *_since_facts(row)]
    return element(
        "li",
        element("h4", element("a", record.row, href=f"rows/{row.name}.html"), " ", _change(row)),
        element("p", _fact(row), class_="fact"),
        _facts(facts),
        _command(next_command(row, night.run.directory)),
        class_=f"card {row.kind}",
    )


def _fact(row: Row) -> str:
    record, verdict = row.record, row.verdict
    if row.kind == "drift":
        return terminal.drift_text(row.drifting) if row.drifting else record.drift or record.fact
    if row.kind == "inconclusive" and verdict is not None:
        return terminal.inconclusive_text(record, verdict).removeprefix("inconclusive: ")
    return record.fact


def _cause_card(cause: Cause, directory: Path) -> ET.Element:
    nodes = [f"{node} ({count})" if count > 1 else node for node, count in cause.nodes]
    rows = [_error_row(row) for row in cause.rows[:_NAMED]]
    return element(
        "div",
        element("h4", cause.fact),
        _facts([("nodes", _listed(nodes, _NODES)), ("advice", cause.advice)]),
        element("ul", *rows, class_="rows"),
        _more(len(cause.rows) - _NAMED),
        _command(again([row.record for row in cause.rows], directory)),
        class_="card error",
    )


def _error_row(row: Row) -> ET.Element:
    said = "; ".join(text for text in (_job_words(row.record), *(value for _, value in _since_facts(row))) if text)
    return element("li", element("a", row.record.row, href=f"rows/{row.name}.html"), f": {said}" if said else None)


def _missing(night: Night) -> ET.Element | None:
    if not night.run.missing:
        return None
    entries = [element("li", element("code", name), f": {why}") for name, why in night.run.missing.items()]
    shown = element("ul", *entries[: 5 * _AT_LENGTH], class_="rows")
    return element("div", element("h4", "Never judged"), shown, class_="card error")


def _since_facts(row: Row) -> list[tuple[str, str]]:
    if row.since is None:
        return [("since", "no night before is known")] if row.kind in {"regressed", "inconclusive"} else []
    facts = [("since", since_text(row.since))]
    if row.since.changes:
        facts.append(("changed then", terminal.changes_text(row.since.changes)))
    return facts


def since_text(since: Since) -> str:
    """Since when a row is what it is, in one line: ``2026-11-18, 3 nights; 4.556 s on 2026-11-17``."""
    if not since.good_run_id:
        return (
            "no night before is known" if since.nights == 1 else f"{day(since.time_s)} or before, {since.nights} nights"
        )
    good = (
        f"{since.good_s:.4g} s on {day(since.good_time_s)}" if since.good_s else f"measured on {day(since.good_time_s)}"
    )
    begin = "tonight" if since.nights == 1 else f"{day(since.time_s)}, {since.nights} nights"
    return f"{begin}; {good}"


def _verdicts(night: Night) -> ET.Element | None:
    """The table by workload, dtype and number of GPUs; the workload with the worst row comes first."""
    if not night.rows:
        return None
    gpus = sorted({row.record.gpus for row in night.rows})
    several = len({row.record.accelerator for row in night.rows}) > 1
    lines: dict[tuple[str, ...], dict[int, list[Row]]] = {}
    for row in night.rows:  # the worst first, and so are the lines
        record = row.record
        name = (record.workload, record.dtype, *([record.accelerator] if several else []))
        lines.setdefault(name, {}).setdefault(record.gpus, []).append(row)
    heads = ["workload", "dtype", *(["accelerator"] if several else []), *(f"{number:,} GPUs" for number in gpus)]
    body = [
        element(
            "tr",
            element("th", name[0], scope="row"),
            *(element("td", part) for part in name[1:]),
            *(_cell(cells.get(number, [])) for number in gpus),
        )
        for name, cells in lines.items()
    ]
    table = _table("verdicts", "Change of throughput of each row, by workload and number of GPUs", heads, body)
    return element("section", element("h2", "Verdicts", id="verdicts-heading"), table)


def _cell(rows: Sequence[Row]) -> ET.Element:
    if not rows:
        return element("td")
    marks = [element("a", *_mark(row), href=f"rows/{row.name}.html", class_=row.kind) for row in rows]
    return element("td", *marks, class_="verdict")


def _mark(row: Row) -> list[Content]:
    """A row's sign, word and change of throughput."""
    sign, word = MARKS[row.kind]
    hidden = "vh" if row.kind == "passed" else None
    change = "" if row.change is None else f" {percent(row.change)}"
    return [element("span", sign, aria_hidden="true"), " ", element("span", word, class_=hidden), change]


def _all_rows(night: Night) -> ET.Element | None:
    if not night.rows:
        return None
    heads = ["row", "verdict", "throughput", "measured", "against", "MFU", "since", "nodes", "job", "ran"]
    body = [_list_line(row) for row in night.rows]
    table = _table("rows-table", f"All {counted(len(body), 'row')}, the worst first", heads, body)
    return element("section", element("h2", "All rows", id="rows"), table)


def _list_line(row: Row) -> ET.Element:
    record, verdict = row.record, row.verdict
    sign, word = MARKS[row.kind]
    job = record.job
    mfu = record.measured.get("mfu")
    measured_s = record.measured.get(judged_key(record))
    cells = (
        "" if row.change is None else percent(row.change),
        "" if measured_s is None else f"{measured_s:.4g} s",
        "" if verdict is None else f"{verdict.reference_s:.4g} s",
        "" if mfu is None else terminal.share(mfu),
        day(row.since.time_s) if row.since is not None else "",
        _shortened(job.nodes) if job else "",
        job.id if job else "",
        duration(job.run_s) if job and job.run_s else "",
    )
    return element(
        "tr",
        element("th", element("a", record.row, href=f"rows/{row.name}.html"), scope="row"),
        element("td", element("span", sign, aria_hidden="true"), f" {word}", class_=row.kind),
        *(element("td", text or None) for text in cells),
    )


def _nights(others: Sequence[tuple[Night, str]]) -> ET.Element | None:
    if not others:
        return None
    entries = [
        element("li", element("a", f"{day(night.begin_s)} {night.run_id}", href=address), f": {_said(night)}")
        for night, address in others
    ]
    return element("section", element("h2", "Other nights"), element("ul", *entries, class_="rows"))


# -- one row ---------------------------------------------------------------------------------------


def row_page(
    row: Row,
    night: Night,
    pictures: Mapping[str, tuple[str, Plot]],
    ends: Sequence[LogEnd],
    links: Sequence[tuple[str, str]],
) -> ET.Element:
    """All that is known of one row in one night.

    Args:
        row: The row.
        night: Its night.
        pictures: Its pictures by what they show, ``steps`` and ``nights``, each with its address.
        ends: The ends of its logs.
        links: Names and addresses of the night's further pages.
    """
    record = row.record
    sign, word = MARKS[row.kind]
    log = _log(ends)
    main = [
        element("h1", record.row),
        element(
            "p",
            element("span", element("span", sign, aria_hidden="true"), f" {word}", class_=f"badge {row.kind}"),
            " ",
            _change(row),
            class_="headline",
        ),
        element("p", _fact(row), class_="fact"),
        _facts([("nodes", _job_nodes(record)), *_since_facts(row), *_row_notes(row)]),
        _simulated([record]),
        log if row.kind == "error" else None,
        _commands(row, night),
        _figures(row),
        _nights_section(row, pictures.get("nights")),
        _steps_section(record, pictures.get("steps")),
        _jobs(row),
        log if row.kind != "error" else None,
        _all_facts(record),
    ]
    return _page(f"{record.row}: {word} on {record.cluster}, {day(night.begin_s)}", main, "../", "", links)


def _row_notes(row: Row) -> list[tuple[str, str]]:
    record = row.record
    notes = [("limit", _limit_text(row)), ("accepted", record.accepted_note or "")]
    if row.kind != "drift" and (row.drifting or record.drift):
        notes.append(("drift", terminal.drift_text(row.drifting) if row.drifting else record.drift or ""))
    if record.not_comparable:
        notes.append(("not judged", f"{record.not_comparable} makes the figures not comparable"))
    return notes


def _limit_text(row: Row) -> str:
    """What was allowed, and why it is not the tolerance where it is not."""
    verdict = row.verdict
    if verdict is None:
        return ""
    allowed = f"{verdict.tolerance * 100:g} % of throughput"
    if verdict.limit is not None and verdict.noise is not None:
        allowed = (
            f"{verdict.limit * 100:.3g} %, because {terminal.noise_text(verdict.noise)}; the tolerance is {allowed}"
        )
    return f"{allowed}; {row.record.reason}" if row.record.reason else allowed


def _commands(row: Row, night: Night) -> ET.Element:
    listed = [
        element("div", element("dt", what), element("dd", _command(text)))
        for what, text in all_commands(row, night.run.directory)
    ]
    return element("section", element("h2", "What to type next"), element("dl", *listed, class_="commands"))


def _figures(row: Row) -> ET.Element | None:
    record, verdict = row.record, row.verdict
    body = [line for label, key, form in _FIGURES if (line := _figure_line(row, label, key, form)) is not None]
    if not body:
        return None
    heads = [
        "figure",
        "measured",
        "documented",
        "change",
        *(["accepted", "change"] if record.accepted else []),
        "allowed",
    ]
    what = "Measured against documented figures" if record.measured else "Documented figures"
    table = _table("figures", what if verdict is None else f"{what}: {verdict.outcome.value}", heads, body)
    return element("section", element("h2", "Figures"), table)


def _figure_line(row: Row, label: str, key: str, form: str) -> ET.Element | None:
    record, verdict = row.record, row.verdict
    measured, stated = record.measured.get(key), record.documented.get(key)
    documented = stated or record.implied.get(key)
    if measured is None and stated is None:
        return None
    show = form.format if form else terminal.share

    def pair(held: float | None) -> tuple[str, str]:
        if not held:
            return "", ""
        return show(held), percent(measured / held - 1) if measured is not None else ""

    allowed = ""
    if verdict is not None and key == judged_key(record):
        allowed = percent(verdict.allowed_time_change) if verdict.allowed_time_change < math.inf else "any"
    elif verdict is not None and key == "tokens_per_s":
        allowed = percent(verdict.allowed_throughput_change)
    cells = (
        "" if measured is None else show(measured),
        *pair(documented),
        *(pair(record.accepted.get(key)) if record.accepted else ()),
        allowed,
    )
    return element("tr", element("th", label, scope="row"), *(element("td", text or None) for text in cells))


def _nights_section(row: Row, picture: tuple[str, Plot] | None) -> ET.Element | None:
    if not row.nights:
        return None
    shown = row.nights[-_NIGHTS:][::-1]
    median_s = statistics.median(night.judged_s for night in row.nights[row.start :] or row.nights)
    heads = ["night", "seconds", "throughput", "verdict", "nodes", "job", "run"]
    body = [_night_line(night, median_s) for night in shown]
    caption = f"The newest {len(shown)} of {counted(len(row.nights), 'night')}, throughput against their median"
    table = _table("nights", caption, heads, body)
    return element("section", element("h2", "Nights"), _picture(picture), table)


def _night_line(night: Point, median_s: float) -> ET.Element:
    cells = (
        f"{night.judged_s:.4g}",
        percent(median_s / night.judged_s - 1),
        night.outcome,
        _shortened(night.nodes),
        night.job_id,
        night.run_id,
    )
    return element(
        "tr", element("th", _time(night.time_s), scope="row"), *(element("td", text or None) for text in cells)
    )


def _steps_section(record: Record, picture: tuple[str, Plot] | None) -> ET.Element | None:
    if not record.steps:
        return None
    facts = [(name, value) for name, value in terminal.run_facts(record, "", "") if name == "steps"]
    return element("section", element("h2", "Steps"), _picture(picture), _facts(facts))


def _jobs(row: Row) -> ET.Element | None:
    if not row.jobs:
        return None
    heads = ["job", "state", "seconds", "nodes", "submitted", "queue", "ran", "note"]
    body = [_job_line(job, row.record) for job in row.jobs]
    return element("section", element("h2", "Jobs"), _table("jobs", "Every job of the row in this night", heads, body))


def _job_line(job: JobFacts, record: Record) -> ET.Element:
    code = "" if job.exit_code is None else f" {job.exit_code}:{job.signal}"
    judged_s = job.judged_s
    if judged_s is None and job is record.job and not record.repeats:
        judged_s = record.measured.get(judged_key(record))
    reason = job.reason if job.reason != "None" else ""
    cells: tuple[Content, ...] = (
        f"{job.state}{code}",
        None if judged_s is None else f"{judged_s:.4g}",
        job.nodes or None,
        None if job.submit_s is None else _time(job.submit_s),
        None if job.queue_s is None else duration(job.queue_s),
        None if job.run_s is None else duration(job.run_s),
        "; ".join(text for text in (job.why_repeated, reason) if text) or None,
    )
    return element(
        "tr", element("th", f"{job.launcher} {job.id}", scope="row"), *(element("td", cell) for cell in cells)
    )


def _log(ends: Sequence[LogEnd]) -> ET.Element | None:
    if not ends:
        return None
    parts: list[Content] = []
    for end in ends:
        parts.append(element("h3", element("code", f"{end.path}")))
        if end.cause:
            parts.append(element("p", element("strong", end.cause), class_="fact"))
        parts.append(element("pre", element("code", "\n".join(end.lines)), class_="log"))
    return element("section", element("h2", "Last lines of the log"), *parts)


def _all_facts(record: Record) -> ET.Element:
    facts = [
        (name, value)
        for name, value in terminal.run_facts(record, "", "")
        if name not in {"again", "offline", "steps", "job", "note", "accepted"}
    ]
    facts += [
        ("run", record.run_id),
        ("cluster", record.cluster),
        ("workload", f"{record.workload} ({record.framework})"),
        ("accelerator", f"{counted(record.gpus, 'GPU')} ({record.accelerator}), {record.dtype}"),
        (
            "image",
            " ".join(part for part in (record.image, f"({record.image_from})" if record.image_from else "") if part),
        ),
        ("definition", record.definition),
        *((name, value) for name, value in sorted(record.environment.items())),
    ]
    return element("section", element("h2", "Facts"), _facts(facts))


# -- what pages share ------------------------------------------------------------------------------


def _page(title: str, main: Iterable[Content], root: str, here: str, links: Sequence[tuple[str, str]]) -> ET.Element:
    named = [
        element("li", element("a", name, href=f"{root}{address}", aria_current="page" if address == here else None))
        for name, address in links
    ]
    return element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            element("link", rel="stylesheet", href=f"{root}report.css"),
        ),
        element(
            "body",
            element("a", "Skip to the content", href="#main", class_="skip"),
            element("header", element("nav", element("ul", *named), aria_label="Report")),
            element("main", *main, id="main"),
            element("footer", element("p", "pytest-gsw")),
        ),
        lang="en",
    )


def _table(name: str, caption: str, heads: Sequence[str], body: Sequence[ET.Element]) -> ET.Element:
    """A table that is scrolled by itself where it is wider than the page."""
    return element(
        "div",
        element(
            "table",
            element("caption", caption, id=f"{name}-caption"),
            element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
            element("tbody", *body),
        ),
        class_="scroll",
        role="region",
        aria_labelledby=f"{name}-caption",
        tabindex=0,
    )


def _facts(facts: Iterable[tuple[str, str]]) -> ET.Element | None:
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts if value]
    return element("dl", *pairs, class_="facts") if pairs else None


def _command(text: str) -> ET.Element:
    return element("pre", element("code", text), class_="command")


def _picture(picture: tuple[str, Plot] | None) -> ET.Element | None:
    if picture is None:
        return None
    address, plot = picture
    return element("p", element("img", src=address, alt=plot.alt, class_="plot"))


def _sign(kind: str) -> ET.Element:
    return element("span", MARKS[kind][0], aria_hidden="true")


def _change(row: Row) -> ET.Element | None:
    return None if row.change is None else element("strong", f"{percent(row.change)} throughput")


def _job_nodes(record: Record) -> str:
    return record.job.nodes if record.job else ""


def _job_words(record: Record) -> str:
    if record.job is None:
        return ""
    tries = f", attempt {len(record.attempts) + 1}" if record.attempts else ""
    where = f" on {_shortened(record.job.nodes)}" if record.job.nodes else ""
    return f"job {record.job.id} {record.job.state}{where}{tries}"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _shortened(nodes: str) -> str:
    return nodes if len(nodes) <= _LONGEST_NODES else f"{nodes[: _LONGEST_NODES - 1]}…"


def percent(fraction: float) -> str:
    """A change with a real minus sign, on one line: ``-10.8 %``."""
    return terminal.percent(fraction).replace("-", "\N{MINUS SIGN}").replace(" ", "\u00a0")


def day(time_s: float | None) -> str:
    """A day, ``2026-11-20``; empty where the calendar has none."""
    moment = _moment(time_s)
    return "" if moment is None else moment.strftime("%Y-%m-%d")


def _time(time_s: float) -> ET.Element:
    moment = _moment(time_s)
    if moment is None:
        return element("span", "at a time that is not known")
    text = moment.isoformat(" ", "minutes")[:16]
    return element("time", text, datetime=moment.isoformat(timespec="seconds"))


def _moment(time_s: float | None) -> datetime | None:
    try:
        return None if time_s is None else datetime.fromtimestamp(time_s).astimezone()
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return None
