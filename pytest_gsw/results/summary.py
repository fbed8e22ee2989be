"""What a night came to, on one screen: a table by workload and GPUs, errors by cause."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_gsw.common.words import counted, percent
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results import outcomes
from pytest_gsw.results.incident import incident_of
from pytest_gsw.results.nodes import expand
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.results.record import Record

#: The words of reasons in a cell, in place of their outcome's.
_OF_REASON = {
    Reason.CANARY.value: "CANARY",
    Reason.INCIDENT.value: "INCIDENT",
    Reason.TOO_GOOD.value: "TOO GOOD",
    Reason.RANKS_DIFFER.value: "RANKS",
    Reason.LAST_STEP.value: "LAST STEP",
}

#: Nodes that are named for one cause.
_NODES_SHOWN = 6
_ROWS_SHOWN = 3

_JOB = re.compile(r"\bjob [\w.;:-]{1,80}")


def throughput_change(record: Record) -> float | None:
    """What was measured against what the outcome rests on, as a fraction of throughput; ``None`` for no figure."""
    verdict = record.judged
    return None if verdict is None else verdict.throughput_change


def counts_line(records: Sequence[Record], missing: int = 0) -> str:
    """``24 passed, 2 regressed, 1 inconclusive, 1 error``, behind ``1 incident`` where the whole cluster is slower.

    The screen, the summaries for CI and the report's pages have this line, and no other numbers.

    Args:
        records: A run's.
        missing: How many rows of it have no record, such as one with a blank: each is an error.
    """
    found = (outcomes.of(record.outcome) for record in records)
    counts = Counter(outcome.word if outcome.known else outcomes.ERROR.word for outcome in found)
    counts[outcomes.ERROR.word] += missing
    told = [outcome.of_rows(counts[outcome.word]) for outcome in outcomes.OUTCOMES if counts[outcome.word]]
    drifting = sum(bool(record.drift) for record in records)
    last = [f"{drifting} of them {'drifts' if drifting == 1 else 'drift'}"] if drifting else []
    return ", ".join([*(["1 incident"] if incident_of(records) else []), *told, *last])


def night_table(records: Sequence[Record], width: int) -> list[str]:
    """Each row's change of throughput, by workload and dtype down and GPUs across, in so many columns of the screen."""
    if not records:
        return []
    gpus = sorted({record.row.gpus for record in records})
    cells: dict[str, dict[int, Record]] = {}
    accelerators = {record.row.accelerator for record in records}
    for record in sorted(records, key=lambda one: (one.row.workload, one.row.dtype, one.row.accelerator)):
        name = f"{record.row.workload} {record.row.dtype}"
        of_line = cells.setdefault(f"{name} {record.row.accelerator}" if len(accelerators) > 1 else name, {})
        other = of_line.get(record.row.gpus)
        of_line[record.row.gpus] = record if other is None else min(other, record, key=_rank)
    lines: list[str] = []
    while gpus:
        shown, part = _as_many_as_fit(cells, gpus, width)
        lines += ["", *part] if lines else part
        gpus = gpus[shown:]
    return lines


def _as_many_as_fit(
    cells: Mapping[str, Mapping[int, Record]], gpus: Sequence[int], width: int
) -> tuple[int, list[str]]:
    """How many of the GPU counts a screen has room for, one at least, and the table of these."""
    for shown in range(len(gpus), 1, -1):
        part = _part(cells, gpus[:shown], width)
        if all(len(line) <= width for line in part):
            return shown, part
    return 1, _part(cells, gpus[:1], width)


def _part(cells: Mapping[str, Mapping[int, Record]], gpus: Sequence[int], width: int) -> list[str]:
    rows = [
        (_fit(name, width - 24), *(_cell(of_line.get(number)) for number in gpus))
        for name, of_line in cells.items()
        if any(number in of_line for number in gpus)
    ]
    return [line.rstrip() for line in plain_table(rows, "GPUs", *(f">{number}" for number in gpus)).splitlines()]


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    change = throughput_change(record)
    outcome = outcomes.of(record.outcome)
    # "SLOW" is said of what the column shows, and not of a site's own metric.
    word = outcome.text.upper() if record.own_outcome else _OF_REASON.get(record.reason) or outcome.short
    return " ".join(part for part in (word, "" if change is None else percent(change)) if part)


def _rank(record: Record) -> tuple[int, float, str]:
    """The worst first: by outcome, and among equals by throughput."""
    return -outcomes.of(record.outcome).severity, throughput_change(record) or 0.0, record.row.id


def _fit(text: str, width: int) -> str:
    """A text with its middle left out where it is too long."""
    if len(text) <= max(width, 8):
        return text
    kept = max(width, 8) - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"


def error_lines(records: Sequence[Record]) -> list[str]:
    """What kept rows from being measured: a line for each cause, with its rows and nodes, the most frequent first."""
    by_cause: dict[str, list[Record]] = {}
    for record in records:
        if outcomes.of(record.outcome) is outcomes.ERROR:
            by_cause.setdefault(cause_of(record), []).append(record)
    ordered = sorted(by_cause.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [f"{cause}: {_rows(of_cause)}{_nodes(of_cause)}" for cause, of_cause in ordered]


def cause_of(record: Record) -> str:
    """Why a row could not be measured, without the job that it happened to: ``job failed: ECC error``."""
    return _JOB.sub("job", record.fact)


def _rows(records: Sequence[Record]) -> str:
    names = [record.row.id for record in records]
    more = f" and {len(names) - _ROWS_SHOWN} more" if len(names) > _ROWS_SHOWN else ""
    return f"{counted(len(names), 'row')} ({', '.join(names[:_ROWS_SHOWN])}{more})"


def _nodes(records: Iterable[Record]) -> str:
    counts = Counter(node for record in records if record.jobs.last for node in expand(record.jobs.last.nodes))
    if not counts:
        return ""
    common = [f"{node} ({times})" if times > 1 else node for node, times in counts.most_common(_NODES_SHOWN)]
    more = f" and {len(counts) - _NODES_SHOWN} more" if len(counts) > _NODES_SHOWN else ""
    return f" on {', '.join(common)}{more}"
