"""What a run came to: how many rows there are of each outcome, and errors by cause."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import ByNumber, by_number, counted, named, percent
from pytest_gsw.performance.verdict import Outcome, compare
from pytest_gsw.results import outcomes
from pytest_gsw.results.attention import ACCEPTED
from pytest_gsw.results.incident import incident_of
from pytest_gsw.results.nodes import expand, named_nodes
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import line_of, shortened
from pytest_gsw.results.row_text import hides_loss
from pytest_gsw.tables.model import TOLERANCE

_ROWS_SHOWN = 10

#: A job's id has a figure; the words behind "its job" have none.
_JOB = re.compile(r"\bjob (?=[\w.;:-]{0,79}\d)[\w.;:-]{1,80}")


def counts_line(records: Sequence[Record], missing: int = 0) -> str:
    """``24 passed, 2 regressed, 1 inconclusive, 1 error``, behind ``1 incident`` where the whole cluster is slower.

    The screen, the summaries for CI and the report's pages have this line, and no other numbers.

    Args:
        records: A run's.
        missing: How many rows of it have no record, such as one with a blank: each is an error.
    """
    told = outcome_texts(records, missing)
    drifting = sum(bool(record.drift) for record in records)
    last = [f"{drifting} of them {'drifts' if drifting == 1 else 'drift'}"] if drifting else []
    return ", ".join([*(["1 incident"] if incident_of(records) else []), *told.values(), *last])


def outcome_texts(records: Sequence[Record], missing: int = 0) -> dict[outcomes.Outcome, str]:
    """How many rows there are of each outcome that occurs: ``2 passed (1 by an accepted figure)``.

    Args:
        records: A run's.
        missing: How many rows of it have no record: each is an error.
    """
    counts = outcomes.counts((record.outcome for record in records), missing)
    told = {one: one.of_rows(count) for one, count in counts.items()}
    if hidden := sum(map(hides_loss, records)):
        better = outcomes.PASSED if outcomes.PASSED in told else outcomes.IMPROVED
        told[better] = f"{told[better]} ({hidden} by an accepted figure)"
    if beyond := sum(map(_is_beyond_usual, records)):
        told[outcomes.PASSED] += f", {beyond} of them beyond {TOLERANCE * 100:g} %"
    return told


def _is_beyond_usual(record: Record) -> bool:
    """True if a row passed by a tolerance of its own, or of a metric's: the usual one would have made it regress."""
    verdict = record.judged if record.outcome == outcomes.PASSED.word else None
    if verdict is None:
        return False
    found = [compare(verdict.measured_s, verdict.reference_s, TOLERANCE)]
    found += [compare(one.measured, one.documented, TOLERANCE, one.metric.direction) for one in verdict.metrics]
    return Outcome.REGRESSED in found


def error_lines(records: Iterable[Record], missing: Mapping[str, str] | None = None) -> list[str]:
    """What kept rows from being measured: a line for each cause, with its rows and nodes, the most frequent first.

    Args:
        records: A run's.
        missing: By node id, why rows of it have no record.
    """
    by_cause: dict[str, list[Record]] = {}
    for record in (record for record in records if record.outcome == outcomes.ERROR.word):
        by_cause.setdefault(cause_of(record), []).append(record)
    rows = {cause: [record.row.id for record in of_cause] for cause, of_cause in by_cause.items()}
    for node_id, why in (missing or {}).items():
        rows.setdefault(why, []).append(node_id.rpartition("::")[2])
    ordered = sorted(rows.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [
        f"{why}: {counted(len(ids), 'row')} ({named(ids, _ROWS_SHOWN)}){_on_nodes(by_cause.get(why, ()))}"
        for why, ids in ordered
    ]


def cause_of(record: Record) -> str:
    """Why a row could not be measured, without the job that it happened to: ``job failed: ECC error``."""
    return without_job(record.fact)


def error_nodes(records: Iterable[Record]) -> str:
    """The nodes on which rows of one cause failed, those of most rows first: ``n2 (4), n[1,3]``; empty for none."""
    return named_nodes(
        Counter(node for record in records if record.jobs.last for node in expand(record.jobs.last.nodes))
    )


def without_job(fact: str) -> str:
    """A fact without the id of the job that it is of."""
    return _JOB.sub("job", fact)


def _on_nodes(records: Iterable[Record]) -> str:
    nodes = error_nodes(records)
    return f" on {nodes}" if nodes else ""


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
    changes = [change for record in rows if (change := record.throughput_change) is not None]
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
    change = record.throughput_change
    word = outcomes.of(record.outcome).shown
    if record.outcome == outcomes.PASSED.word and change is not None:
        word = ACCEPTED.word.upper() if hides_loss(record) else ""
    return " ".join(part for part in (word, "" if change is None else percent(change)) if part)


def _rank(record: Record) -> tuple[int, float, ByNumber]:
    """The worst first: by outcome, and among equals by throughput."""
    return -outcomes.of(record.outcome).severity, record.throughput_change or 0.0, by_number(record.row.id)


@dataclass(frozen=True)
class Crowd:
    """What ran on one node at once, and took more than the node has."""

    node: str
    jobs: int
    gpus: int


@dataclass(frozen=True)
class _Part:
    """One job's part on one of its nodes; times are seconds since the epoch."""

    start_s: float
    end_s: float
    gpus: int


def worst_crowd(records: Iterable[Record], gpus_per_node: int) -> tuple[Crowd, int] | None:
    """Where the most GPUs were in use at once, and on how many nodes there were too many; ``None`` where on none.

    Jobs that fill a node together are no crowd: that is how small rows may be meant.
    """
    parts: dict[str, list[_Part]] = {}
    for node, part in _parts(records):
        parts.setdefault(node, []).append(part)
    crowds = [crowd for node in sorted(parts) if (crowd := _crowd(node, parts[node])).gpus > gpus_per_node]
    return (max(crowds, key=lambda crowd: crowd.gpus), len(crowds)) if crowds else None


def _parts(records: Iterable[Record]) -> Iterator[tuple[str, _Part]]:
    for record in records:
        for job in record.jobs.all:
            nodes = expand(job.nodes)
            if job.start_s is None or job.end_s is None or job.end_s <= job.start_s or not nodes:
                continue
            part = _Part(job.start_s, job.end_s, -(-record.row.gpus // len(nodes)))
            yield from ((node, part) for node in nodes)


def _crowd(node: str, parts: Sequence[_Part]) -> Crowd:
    """The most that ran at once; a job that ends as another one starts is no neighbour."""
    ends = ((one.end_s, -one.gpus, -1) for one in parts)
    starts = ((one.start_s, one.gpus, 1) for one in parts)
    gpus = jobs = 0
    most = (0, 0)
    for _, more_gpus, more_jobs in sorted((*ends, *starts)):  # of one time, ends come first
        gpus, jobs = gpus + more_gpus, jobs + more_jobs
        most = max(most, (gpus, jobs))
    return Crowd(node, most[1], most[0])
