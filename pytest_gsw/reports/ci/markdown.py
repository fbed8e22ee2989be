"""A run in Markdown for GitHub and GitLab: its findings, and all rows in a compact table.

Texts of others (rows, nodes, facts) are in code spans, in which nothing is markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_gsw.common.text import named, percent, plural
from pytest_gsw.history.alarms import Alarm
from pytest_gsw.history.comparison import COLUMNS, cells
from pytest_gsw.reports.ci.findings import Finding, counts_text, findings
from pytest_gsw.reports.run_report import RunReport, device
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import hides_loss
from pytest_gsw.results.severity import ACCEPTED, IMPROVED, REGRESSED, Attention
from pytest_gsw.results.summary import OF_CLUSTER

#: GitHub takes 1 MiB from one step, and shows nothing of more; some of it is left for other programs of the step.
LIMIT_BYTES = 900_000

#: The most letters of a fact, of a command, and of a list of nodes in a table.
_LONGEST_FACT = 300
_LONGEST_COMMAND = 600
_LONGEST_NODES = 80
#: The most rows, nodes and clusters in one line.
_NAMED = 8

_HEADERS = ("row", "what", "throughput", "allowed", "nodes", "since", "next")


def markdown(report: RunReport, limit_bytes: int = LIMIT_BYTES) -> str:
    """A summary of a run; lines without room are counted."""
    found = findings(report)
    head = _head(report, found)
    room = limit_bytes - _size(head)
    rows = _overview(report.records, room // 2)
    alarms = _alarms_table(report.alarms, room // 4)
    attention = _findings_table(found, room - _size(rows) - _size(alarms))
    return "\n".join([*head, *attention, *alarms, *rows]).rstrip("\n")


def _head(report: RunReport, found: Sequence[Finding]) -> list[str]:
    title = f"{_attention_text(found)} attention"
    where = ", ".join(map(_code, report.clusters[:10]))
    names = sorted({record.run.id for record in report.records}) or [report.run.directory.name]
    runs = ", ".join(map(_code, names[:10]))
    hours = f"{report.gpu_hours:,.1f} GPU-hours" if report.records else ""
    parts = (where, f"run {runs}" if runs else "", counts_text(report), hours)
    head = [f"### pytest-gsw: {title}", "", ", ".join(filter(None, parts)), ""]
    if any(record.run.simulated for record in report.records):
        head += ["This is a simulation: no GPU was used, and its figures say nothing.", ""]
    return [*head, *_changes_list(report)]


def _changes_list(report: RunReport) -> list[str]:
    """The new, ongoing and fixed alarms; nothing if there are none."""
    lines = []
    for state, alarms in report.alarms_by_state.items():
        names = [_code(_shorten(f"{one.spell.kind.value} of {one.spell.subject}", _LONGEST_FACT)) for one in alarms]
        lines.append(f"- **{state}** ({len(alarms)}){': ' if names else ''}{named(names, _NAMED)}")
    return [*lines, ""] if any(report.alarms_by_state.values()) else []


def _attention_text(found: Sequence[Finding]) -> str:
    """The numbers of what needs attention: ``1 cluster and 2 rows need``."""
    rows = {finding.node_id for finding in found if finding.needs.is_urgent}
    clusters = {name for name in rows if name.startswith(OF_CLUSTER)}
    numbers = {"cluster": len(clusters), "row": len(rows - clusters)}
    parts = [plural(number, what) for what, number in numbers.items() if number]
    return f"{' and '.join(parts)} {'needs' if len(rows) == 1 else 'need'}" if parts else "no row needs"


def _findings_table(found: Sequence[Finding], room_bytes: int) -> list[str]:
    """The findings, a line each, as far as there is room."""
    return _fit_table(_heading(_HEADERS, "llrrlll"), map(_finding_line, found), len(found), room_bytes, "finding")


def _alarms_table(alarms: Sequence[Alarm], room_bytes: int) -> list[str]:
    """The alarms, a line each, as far as there is room."""
    heads = [column.removeprefix(">") for column in COLUMNS]
    align = "".join("r" if column.startswith(">") else "l" for column in COLUMNS)
    lines = (_line(_code(_shorten(cell, _LONGEST_FACT)) for cell in cells(one)) for one in alarms)
    return _fit_table(_heading(heads, align), lines, len(alarms), room_bytes, "alarm")


def _finding_line(finding: Finding) -> str:
    record = finding.record
    verdict = None if record is None else record.judged
    change = "" if verdict is None else percent(verdict.throughput_change)
    allowed = "" if verdict is None else percent(verdict.allowed_throughput_change)
    nodes = "" if record is None else record.nodes
    by_throughput = record is not None and not record.own_outcome
    whole, fact, since = finding.whole, finding.text, finding.since
    if whole is not None:  # the counts above have the rows that are part of it
        change, allowed, fact = percent(whole.change), percent(whole.allowed), whole.fact
        since = finding.text.partition("\n")[0].removeprefix(whole.fact).removeprefix(", since ")
    says_it_all = bool(change) and by_throughput and finding.kind in {REGRESSED.kind, IMPROVED.kind}
    text = "" if says_it_all else f" {_code(_shorten(fact, _LONGEST_FACT))}"
    cells = (
        _code(_shorten(finding.row, _LONGEST_FACT)),
        f"{_bold(finding.kind, finding.needs)}{text}",
        change,
        allowed,
        _code(_shorten(nodes, _LONGEST_NODES)),
        since if whole is None else _code(_shorten(since, _LONGEST_FACT)),
        # A cut command would be another one.
        _code(finding.next) if len(finding.next) <= _LONGEST_COMMAND else "",
    )
    return _line(cells)


def _overview(records: Sequence[Record], room_bytes: int) -> list[str]:
    """The changes of throughput by workload and dtype (down) and GPUs (across)."""
    gpus = sorted({record.row.gpus for record in records})
    lines: dict[tuple[str, str, str], dict[int, list[Record]]] = {}
    for record in sorted(records, key=lambda one: (one.row.workload, one.row.dtype, one.row.accelerator, one.row.id)):
        of_line = lines.setdefault((record.row.workload, record.row.dtype, record.row.accelerator), {})
        of_line.setdefault(record.row.gpus, []).append(record)
    headers = ("workload", "dtype", "accelerator", *(_column(number, records) for number in gpus))
    shown = (
        _line(
            (
                *(_code(_shorten(part, _LONGEST_FACT)) for part in key),
                *(_cell(of_line.get(number, ())) for number in gpus),
            )
        )
        for key, of_line in lines.items()
    )
    return _fit_table(_heading(headers, "lll" + "r" * len(gpus)), shown, len(lines), room_bytes, "workload")


def _cell(records: Sequence[Record]) -> str:
    if not records:
        return ""
    if len(records) > 1:
        return ", ".join(f"{len(alike)} {word or outcomes.PASSED.text}" for word, alike in _by_word(records).items())
    (record,) = records
    change = record.throughput_change
    return " ".join(part for part in ("" if change is None else percent(change), _word(record)) if part)


def _column(gpus: int, records: Iterable[Record]) -> str:
    """``64 GPUs``; ``1 CPU`` if all rows of so many are of a machine without GPUs."""
    nouns = {device(record.row.accelerator) for record in records if record.row.gpus == gpus}
    return plural(gpus, nouns.pop() if len(nouns) == 1 else "GPU")


def _by_word(records: Iterable[Record]) -> Mapping[str, Sequence[Record]]:
    by_word: dict[str, list[Record]] = {}
    for record in records:
        by_word.setdefault(_word(record), []).append(record)
    # The bold ones need attention.
    return dict(sorted(by_word.items(), key=lambda pair: (not pair[0].startswith("**"), pair[0])))


def _word(record: Record) -> str:
    """The outcome's word in a cell; empty for a row that passed by its document."""
    outcome = outcomes.of(record.outcome)
    if outcome is outcomes.PASSED:
        return ACCEPTED.word if hides_loss(record) else ""
    return _bold(outcome.text, outcome.attention)


def _bold(word: str, needs: Attention) -> str:
    """A word, bold if it needs attention."""
    return f"**{word}**" if needs.is_urgent else word


def _fit_table(table: Sequence[str], lines: Iterable[str], count: int, room_bytes: int, noun: str) -> list[str]:
    """A table with as many lines as there is room for, and the number of those left out; nothing without lines."""
    if not count:
        return []
    room_bytes -= 100  # for the sentence below
    kept = list(table) if _size(table) <= room_bytes else []
    room_bytes -= _size(table)
    shown = 0
    for line in lines:
        room_bytes -= _size([line])
        if room_bytes < 0:
            break
        kept.append(line)
        shown += 1
    left_out = count - shown
    if left_out:
        kept += ["", f"{plural(left_out, noun)} more left out, for which there is no room here."]
    return [*kept, ""]


def _heading(headers: Sequence[str], align: str) -> list[str]:
    return [_line(headers), _line("---:" if one == "r" else "---" for one in align)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _code(text: str) -> str:
    """A text as a code span that is inert everywhere, in the cell of a table too."""
    text = " ".join(text.split())
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    # A table splits its lines at every "|" before anything else: each one is escaped, whatever precedes it.
    cell = re.sub(r"(\\*)\|", r"\1\1\\|", text)
    return f"{fence}{pad}{cell}{pad}{fence}"
