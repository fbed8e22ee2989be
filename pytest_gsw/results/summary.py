"""A run in short: rows by outcome, errors by cause, an incident; and its plan and progress while it waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import expand, named_nodes
from pytest_gsw.common.text import by_number, hours_text, named, percent, plain_table, plural, rounded
from pytest_gsw.jobs.model import AT_ONCE
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import attention, cluster_result, outcomes, row_line, row_text, run_progress
from pytest_gsw.results.record import Record
from pytest_gsw.stats.black_holes import BlackHole, black_holes
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import compare
from pytest_gsw.tables.metrics import TOLERANCE, MetricLabel, usual_tolerance
from pytest_gsw.validation.retryable import node_use

_ROWS_SHOWN = 10
_JOBS_NAMED = 6

#: A job's id has a figure; the words after "its job" have none.
_JOB = re.compile(r"\bjob (?=[\w.;:-]{0,79}\d)[\w.;:-]{1,80}")


def counts_line(
    records: Sequence[Record],
    missing: int = 0,
    incident: cluster_result.ClusterResult | None = None,
    progress: run_progress.RunProgress | None = None,
) -> str:
    """``24 passed, 2 regressed, 1 inconclusive, 1 error``, after ``1 incident`` if the whole cluster is slower.

    The screen, the summaries for CI and the report's pages have this line, and no other numbers.

    Args:
        records: A run's.
        missing: The number of its rows without a record, such as one with a blank: each is an error.
        incident: The run's incident.
        progress: What a session that goes on has yet to judge; the line begins with it.
    """
    told = outcome_texts(records, missing)
    drifting = sum(bool(record.drift) for record in records)
    last = [f"{drifting} of them {'drifts' if drifting == 1 else 'drift'}"] if drifting else []
    counts = ", ".join([*([f"1 {incident.needs.kind}"] if incident else []), *told.values(), *last])
    return counts if progress is None else f"{progress.text}: {counts}".removesuffix(": ")


def outcome_texts(records: Sequence[Record], missing: int = 0) -> dict[outcomes.OutcomeKind, str]:
    """The number of rows of each outcome that occurs: ``2 passed (1 by an accepted figure)``.

    Args:
        records: A run's.
        missing: The number of its rows without a record: each is an error.
    """
    counts = outcomes.counts((record.outcome for record in records), missing)
    told = {outcome: outcome.of_rows(count) for outcome, count in counts.items()}
    if hidden := sum(map(row_text.hides_loss, records)):
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
    found: list[tuple[float, float, MetricLabel]] = [(verdict.measured, verdict.reference, verdict.metric)]
    stated = (further for further in verdict.metrics if further.tolerance > usual_tolerance(further.metric))
    found += [(metric_verdict.measured, metric_verdict.documented, metric_verdict.metric) for metric_verdict in stated]
    return Outcome.REGRESSED in [
        compare(measured, reference, usual_tolerance(metric), metric.direction) for measured, reference, metric in found
    ]


def error_lines(records: Iterable[Record], missing: Mapping[str, str] | None = None, *, fewest: int = 1) -> list[str]:
    """The causes of errors, a line each with its rows and nodes, the most frequent first.

    Args:
        records: A run's.
        missing: By node id, why rows of it have no record.
        fewest: Causes of fewer rows are left out.
    """
    by_cause = grouped([(cause_of(record), record) for record in records if record.outcome == outcomes.ERROR.word])
    rows = {cause: [record.row.id for record in of_cause] for cause, of_cause in by_cause.items()}
    for node_id, why in (missing or {}).items():
        row = node_id.rpartition("::")[2]
        rows.setdefault(_without_row(why, row), []).append(row)
    ordered = sorted(rows.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    lines = []
    for why, ids in (cause_rows for cause_rows in ordered if len(cause_rows[1]) >= fewest):
        nodes = error_nodes(by_cause.get(why, ()))
        where = f" on {nodes}" if nodes else ""
        lines.append(f"{why}: {plural(len(ids), 'row')} ({named(ids, _ROWS_SHOWN)}){where}")
    return lines


def cause_of(record: Record) -> str:
    """The cause of an error without the id of its job and row: ``job failed: ECC error``."""
    return _JOB.sub("job", _without_row(record.fact, record.row.id))


def _without_row(fact: str, row_id: str) -> str:
    """A fact that is the same for all rows: ``no log of the row below DIR``."""
    return fact.replace(row_id, "the row")


def error_nodes(records: Iterable[Record]) -> str:
    """The nodes on which rows failed, those of most rows first: ``n2 (4), n[1,3]``; empty for none."""
    return named_nodes(
        Counter(node for record in records if record.jobs.last for node in expand(record.jobs.last.nodes))
    )


def black_holes_of(records: Sequence[Record]) -> tuple[BlackHole, ...]:
    """The nodes that failed jobs of several rows at once, which then worked on other nodes."""
    if not [1 for record in records if record.jobs.attempts or record.outcome == outcomes.ERROR.word]:
        return ()
    jobs = [(record.row.id, job) for record in records for job in record.jobs.all]
    has_failed = [job.why_repeated == AT_ONCE or job.state is JobState.FAILED for _, job in jobs]
    uses = (node_use(row_id, job.id, job, failed) for (row_id, job), failed in zip(jobs, has_failed, strict=True))
    return tuple(hole for hole in black_holes(filter(None, uses)) if hole.is_proven)


def black_hole_text(hole: BlackHole) -> str:
    """A node with its evidence: ``node n1: 2 jobs ended within a minute of their start (7, 9): their rows …``."""
    jobs, moved = plural(len(hole.job_ids), "job"), f"{len(hole.moved)} of {plural(len(hole.rows), 'row')}"
    return f"node {hole.node}: {jobs} {AT_ONCE} ({named(hole.job_ids, _JOBS_NAMED)}); {moved} then worked elsewhere"


#: The width of the table's cells next to the name.
_CELLS = 24


#: Rows that differ in their number of GPUs alone, by the name of their case.
_Cases = Mapping[str, Mapping[int, Record]]


def run_table(records: Sequence[Record], width: int) -> list[str]:
    """The change of throughput of each row, in a table that fits a width.

    A case has a line, and each number of GPUs a column. Rows that share both would hide each other: they are counted
    on lines of their own, with the worst and the best of them.
    """
    cases, shared = _cases(records)
    lines: list[str] = []
    gpus = sorted({number for by_gpus in cases.values() for number in by_gpus})
    while gpus:
        shown, part = _as_many_as_fit(cases, gpus, width)
        lines += ["", *part] if lines else part
        gpus = gpus[shown:]
    more = [line for name, rows in shared.items() for line in _shared_lines(name, rows, width)]
    return [*lines, *([""] if lines and more else []), *more]


def _cases(records: Iterable[Record]) -> tuple[_Cases, dict[str, list[Record]]]:
    """Cases with at most one row for each number of GPUs, and by their names the rows of other cases."""
    several = len({record.row.accelerator for record in records}) > 1
    ordered = sorted(records, key=lambda one: (one.row.workload, one.row.dtype, one.row.accelerator, one.row.id))
    named_rows = [(f"{record.row.workload} {record.row.dtype}", record) for record in ordered]
    groups = grouped([(f"{name} {of_row.row.accelerator}" if several else name, of_row) for name, of_row in named_rows])
    cases: dict[str, dict[int, Record]] = {}
    shared: dict[str, list[Record]] = {}
    for name, rows in groups.items():
        if _is_one_a_place(rows):
            cases[name] = {record.row.gpus: record for record in rows}
            continue
        # By the end of their ids, after the number of GPUs: ``mbs2`` of ``llama2_70b_fp8[H100x64-mbs2]``.
        ends = [(row.row.id.partition(f"x{row.row.gpus}")[2].removesuffix("]").lstrip("-"), row) for row in rows]
        for suffix, alike in sorted(grouped(ends).items(), key=lambda group: by_number(group[0])):
            if len(alike) > 1 and _is_one_a_place(alike):
                cases[f"{name} {suffix}".rstrip()] = {record.row.gpus: record for record in alike}
            else:
                shared.setdefault(name, []).extend(alike)
    return cases, shared


def _is_one_a_place(rows: Sequence[Record]) -> bool:
    return len({record.row.gpus for record in rows}) == len(rows)


def _shared_lines(name: str, rows: Sequence[Record], width: int) -> list[str]:
    """Rows of one case that share their numbers of GPUs: a line for each number."""
    by_gpus = grouped([(record.row.gpus, record) for record in sorted(rows, key=lambda other: other.row.gpus)])
    short = row_line.without_middle(name, max(20, width // 2))
    lines = {f"{short} on {plural(number, 'GPU')}": of_number for number, of_number in by_gpus.items()}
    long = max(map(len, lines))
    return [f"{head.ljust(long)}  {_shared_text(of_number)}" for head, of_number in lines.items()]


def _shared_text(rows: Sequence[Record]) -> str:
    """``20 passed, 2 regressed, -43.8 % to +0.4 %``."""
    told = [outcome.of_rows(count) for outcome, count in outcomes.counts(record.outcome for record in rows).items()]
    judged = sorted((row for row in rows if row.judged is not None), key=lambda row: row.gain or 0.0)
    changes = [percent(row.change or 0.0) for row in judged]
    told += [f"worst {changes[0]}, best {changes[-1]}"] if len(changes) > 1 else changes
    return ", ".join(told)


def _as_many_as_fit(cases: _Cases, gpus: Sequence[int], width: int) -> tuple[int, list[str]]:
    """The number of GPU counts that fit a screen, one at least, and the table of these."""
    for shown in range(len(gpus), 1, -1):
        part = _part(cases, gpus[:shown], width)
        if all(len(line) <= width for line in part):
            return shown, part
    return 1, _part(cases, gpus[:1], width)


def _part(cases: _Cases, gpus: Sequence[int], width: int) -> list[str]:
    rows = [
        (row_line.without_middle(name, width - _CELLS), *(_cell(by_gpus.get(number)) for number in gpus))
        for name, by_gpus in cases.items()
        if any(number in by_gpus for number in gpus)
    ]
    return [line.rstrip() for line in plain_table(rows, "GPUs", *(f">{number}" for number in gpus)).splitlines()]


def _cell(record: Record | None) -> str:
    """The change of a row, after the outcome's word if it has not passed by its document."""
    if record is None:
        return ""
    change = record.change
    word = outcomes.of(record.outcome).shown
    if record.outcome == outcomes.PASSED.word and change is not None:
        word = attention.ACCEPTED.word.upper() if row_text.hides_loss(record) else ""
    return " ".join(part for part in (word, "" if change is None else percent(change)) if part)


@dataclass(frozen=True)
class Crowd:
    """Jobs on one node at once that use more GPUs than the node has."""

    node: str
    jobs: int
    gpus: int


def worst_crowd(records: Iterable[Record], gpus_per_node: int) -> tuple[Crowd, int] | None:
    """The node with the most GPUs in use at once, and the number of nodes with too many; ``None`` if there is none.

    Jobs that fill a node together are no crowd: small rows may be meant to share one.
    """
    changes: dict[str, list[tuple[float, int, int]]] = {}
    for record in records:
        for job in record.jobs.all:
            nodes = expand(job.nodes)
            if job.start_s is None or job.end_s is None or job.end_s <= job.start_s or not nodes:
                continue
            gpus = -(-record.row.gpus // len(nodes))
            for node in nodes:
                changes.setdefault(node, []).extend([(job.start_s, gpus, 1), (job.end_s, -gpus, -1)])
    crowds = [crowd for node in sorted(changes) if (crowd := _crowd(node, changes[node])).gpus > gpus_per_node]
    return (max(crowds, key=lambda crowd: crowd.gpus), len(crowds)) if crowds else None


def _crowd(node: str, changes: Iterable[tuple[float, int, int]]) -> Crowd:
    """The most GPUs and jobs at once, by the times at which they become more or fewer.

    A job that ends as another one starts is no neighbour.
    """
    gpus = jobs = 0
    most = (0, 0)
    for _, more_gpus, more_jobs in sorted(changes):  # of one time, ends come first
        gpus, jobs = gpus + more_gpus, jobs + more_jobs
        most = max(most, (gpus, jobs))
    return Crowd(node, most[1], most[0])


def gpu_hours(used: float, saved: float, stopped: int) -> str:
    """The GPU-hours of a session, and those saved by ending jobs early."""
    text = f"gsw: {hours_text(used)} GPU-hours used"
    if not stopped:
        return text
    return f"{text}, about {hours_text(saved)} saved by ending {rounded(stopped, 'job')} early"
