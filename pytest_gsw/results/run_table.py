"""Every row of a run in a few lines: by case down and GPUs across, and by counts where rows share a place in that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import ByNumber, by_number, counted, percent
from pytest_gsw.results import outcomes
from pytest_gsw.results.accepted_text import hides_loss
from pytest_gsw.results.attention import ACCEPTED
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import line_of, shortened
from pytest_gsw.results.summary import throughput_change

#: What the table's cells need beside the name.
_CELLS = 24
#: Outcomes of rows of which nothing more is to be said than the table says.
_WELL = frozenset({outcomes.PASSED, outcomes.IMPROVED, outcomes.EXPECTED_FAILURE, outcomes.PROFILED})


@dataclass(frozen=True)
class _Case:
    """Rows that differ in their number of GPUs alone."""

    name: str
    by_gpus: Mapping[int, Record]


def run_table(records: Sequence[Record], width: int) -> list[str]:
    """Each row's change of throughput, in so many columns of a screen; no row is behind another.

    A case has a line, and each number of GPUs a column. Rows that share both are counted on lines of their own, with
    the worst and the best of them.
    """
    cases, shared = _cases(records)
    lines: list[str] = []
    gpus = sorted({number for case in cases for number in case.by_gpus})
    while gpus:
        shown, part = _as_many_as_fit(cases, gpus, width)
        lines += ["", *part] if lines else part
        gpus = gpus[shown:]
    more = [line for name, rows in shared.items() for line in _shared_lines(name, rows, width)]
    return [*lines, *([""] if lines and more else []), *more]


def not_passed_lines(records: Iterable[Record], width: int, most: int) -> list[str]:
    """Rows that are not passed, a line each and the worst first; those that are not named are counted.

    Errors are told by their causes. A row that is better than documented has passed.
    """
    listed = [r for r in records if outcomes.of(r.outcome) not in {*_WELL, outcomes.ERROR}]
    listed = [record for record in listed if outcomes.of(record.outcome).known]
    worst_first = sorted(listed, key=_rank)
    ids = max((len(record.row.id) for record in worst_first), default=0)
    lines = [line_of(record).text(width, ids) for record in worst_first[:most]]
    more = len(worst_first) - most
    return [*lines, f"and {counted(more, 'more row')}, each with its line above"] if more > 0 else lines


def _cases(records: Iterable[Record]) -> tuple[list[_Case], dict[str, list[Record]]]:
    """Cases of which each row has a place of its own, and by their names the rows of others."""
    several = len({record.row.accelerator for record in records}) > 1
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda one: (one.row.workload, one.row.dtype, one.row.accelerator, one.row.id)):
        name = f"{record.row.workload} {record.row.dtype}"
        groups.setdefault(f"{name} {record.row.accelerator}" if several else name, []).append(record)
    cases: list[_Case] = []
    shared: dict[str, list[Record]] = {}
    for name, rows in groups.items():
        if _is_one_a_place(rows):
            cases.append(_case(name, rows))
            continue
        for suffix, alike in sorted(_by_suffix(rows).items(), key=lambda one: by_number(one[0])):
            if len(alike) > 1 and _is_one_a_place(alike):
                cases.append(_case(f"{name} {suffix}".rstrip(), alike))
            else:
                shared.setdefault(name, []).extend(alike)
    return cases, shared


def _case(name: str, rows: Iterable[Record]) -> _Case:
    return _Case(name, {record.row.gpus: record for record in rows})


def _is_one_a_place(rows: Sequence[Record]) -> bool:
    return len({record.row.gpus for record in rows}) == len(rows)


def _by_suffix(rows: Iterable[Record]) -> dict[str, list[Record]]:
    """Rows by what stands behind the number of GPUs in their ids: ``mbs2`` of ``llama2_70b_fp8[H100x64-mbs2]``."""
    found: dict[str, list[Record]] = {}
    for record in rows:
        suffix = record.row.id.partition(f"x{record.row.gpus}")[2].removesuffix("]").lstrip("-")
        found.setdefault(suffix, []).append(record)
    return found


def _shared_lines(name: str, rows: Sequence[Record], width: int) -> list[str]:
    """Rows of one case that share their numbers of GPUs: a line for each number."""
    by_gpus: dict[int, list[Record]] = {}
    for record in sorted(rows, key=lambda one: one.row.gpus):
        by_gpus.setdefault(record.row.gpus, []).append(record)
    heads = [f"{shortened(name, max(20, width // 2))} on {counted(number, 'GPU')}" for number in by_gpus]
    long = max(map(len, heads))
    return [
        f"{head.ljust(long)}  {_shared_text(of_number)}"
        for head, of_number in zip(heads, by_gpus.values(), strict=True)
    ]


def _shared_text(rows: Sequence[Record]) -> str:
    """``20 passed, 2 regressed, -43.8 % to +0.4 %``."""
    told = [one.of_rows(count) for one, count in outcomes.counts(record.outcome for record in rows).items()]
    changes = [change for record in rows if (change := throughput_change(record)) is not None]
    if len(changes) > 1:
        told.append(f"worst {percent(min(changes))}, best {percent(max(changes))}")
    elif changes:
        told.append(percent(changes[0]))
    return ", ".join(told)


def _as_many_as_fit(cases: Sequence[_Case], gpus: Sequence[int], width: int) -> tuple[int, list[str]]:
    """How many of the GPU counts a screen has room for, one at least, and the table of these."""
    for shown in range(len(gpus), 1, -1):
        part = _part(cases, gpus[:shown], width)
        if all(len(line) <= width for line in part):
            return shown, part
    return 1, _part(cases, gpus[:1], width)


def _part(cases: Sequence[_Case], gpus: Sequence[int], width: int) -> list[str]:
    rows = [
        (shortened(case.name, width - _CELLS), *(_cell(case.by_gpus.get(number)) for number in gpus))
        for case in cases
        if any(number in case.by_gpus for number in gpus)
    ]
    return [line.rstrip() for line in plain_table(rows, "GPUs", *(f">{number}" for number in gpus)).splitlines()]


def _cell(record: Record | None) -> str:
    """The change of a row, behind the outcome's word where it has not passed by its document."""
    if record is None:
        return ""
    change = throughput_change(record)
    word = outcomes.of(record.outcome).shown
    if record.outcome == outcomes.PASSED.word and change is not None:
        word = ACCEPTED.word.upper() if hides_loss(record) else ""
    return " ".join(part for part in (word, "" if change is None else percent(change)) if part)


def _rank(record: Record) -> tuple[int, float, ByNumber]:
    """The worst first: by outcome, and among equals by throughput."""
    return -outcomes.of(record.outcome).severity, throughput_change(record) or 0.0, by_number(record.row.id)
