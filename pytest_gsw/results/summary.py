"""What a run came to: how many rows there are of each outcome, and errors by cause."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_gsw.common.words import counted
from pytest_gsw.performance.verdict import Outcome, compare
from pytest_gsw.results import outcomes
from pytest_gsw.results.accepted_text import hides_loss
from pytest_gsw.results.incident import incident_of
from pytest_gsw.results.nodes import expand, named_nodes
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import TOLERANCE

_ROWS_SHOWN = 10

#: A job's id has a figure; the words behind "its job" have none.
_JOB = re.compile(r"\bjob (?=[\w.;:-]{0,79}\d)[\w.;:-]{1,80}")


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
    listed = ((record, outcomes.of(record.outcome)) for record in records)
    errors = [record for record, outcome in listed if outcome is outcomes.ERROR or not outcome.known]
    by_cause: dict[str, list[Record]] = {}
    for record in errors:
        by_cause.setdefault(cause_of(record), []).append(record)
    rows = {cause: [record.row.id for record in of_cause] for cause, of_cause in by_cause.items()}
    for node_id, why in (missing or {}).items():
        rows.setdefault(why, []).append(node_id.rpartition("::")[2])
    ordered = sorted(rows.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return [f"{why}: {_rows(ids)}{_on_nodes(by_cause.get(why, ()))}" for why, ids in ordered]


def cause_of(record: Record) -> str:
    """Why a row could not be measured, without the job that it happened to: ``job failed: ECC error``."""
    known = outcomes.of(record.outcome).known
    return without_job(record.fact) if known else outcomes.unknown_text(record.outcome)


def error_nodes(records: Iterable[Record]) -> str:
    """The nodes on which rows of one cause failed, those of most rows first: ``n2 (4), n[1,3]``; empty for none."""
    return named_nodes(
        Counter(node for record in records if record.jobs.last for node in expand(record.jobs.last.nodes))
    )


def without_job(fact: str) -> str:
    """A fact without the id of the job that it is of."""
    return _JOB.sub("job", fact)


def _rows(names: Sequence[str]) -> str:
    more = f" and {len(names) - _ROWS_SHOWN} more" if len(names) > _ROWS_SHOWN else ""
    return f"{counted(len(names), 'row')} ({', '.join(names[:_ROWS_SHOWN])}{more})"


def _on_nodes(records: Iterable[Record]) -> str:
    nodes = error_nodes(records)
    return f" on {nodes}" if nodes else ""
