"""What pages say of rows, nights and jobs, as text."""

from __future__ import annotations

import re
from datetime import datetime

from pytest_gsw.common import words
from pytest_gsw.common.words import counted, shortened
from pytest_gsw.history import comparison
from pytest_gsw.history.comparison import changes_text
from pytest_gsw.history.model import Point
from pytest_gsw.performance.verdict import UNUSUAL, Reason
from pytest_gsw.reports.run_report import Row, RunReport, Since, since_line
from pytest_gsw.results import attention, outcomes, row_text
from pytest_gsw.results.record import Record

#: What of an inconclusive row stands on its card in place of what its page explains.
_SHORT = {
    Reason.TOO_GOOD.value: "that is too good to be true",
    Reason.WITHIN_NOISE.value: "jobs of this row differ by as much",
}
#: Every outcome, the worst first.
WORST_FIRST = sorted(outcomes.OUTCOMES, key=lambda one: attention.ATTENTIONS.index(one.attention))

#: A sign of a number, and no hyphen of a date or a name.
_NEGATIVE = re.compile(r"(?<![\w.\]])-(?=\d)")

#: A node list in a table.
_LONGEST_NODES = 60


def night_text(night: RunReport) -> str:
    """What a night came to, in a few words: the same numbers as everywhere."""
    counts = night.outcomes
    bad = [one.of_rows(counts[one.word]) for one in WORST_FIRST if one.word in counts and one.attention.is_urgent]
    parts = ["1 incident"] if night.incident else []
    parts += bad
    if drifting := night.counts.get(attention.DRIFT.kind):
        parts.append(f"{drifting} drifting")
    rows = counted(sum(counts.values()), "row")
    if not counts:
        return "No row"
    return f"{', '.join(parts)} of {rows}" if parts else f"All well: {rows}"


def card_text(row: Row) -> str:
    """What happened to a row, shorter than on its page."""
    if row.needs is attention.INCONCLUSIVE and row.record.reason in _SHORT:
        return f"{row.record.fact}; {_SHORT[row.record.reason]}"
    return fact_text(row)


def fact_text(row: Row) -> str:
    """What happened to a row, in one line."""
    record, verdict = row.record, row.verdict
    if row.needs is attention.DRIFT:
        return drift_text(row) or record.fact
    if row.needs is attention.INCONCLUSIVE and verdict is not None:
        return signed(row_text.inconclusive_text(record, verdict).removeprefix("inconclusive: "))
    return record.fact if verdict is None else signed(record.fact)


def drift_text(row: Row) -> str:
    """That a row drifts, in one line; empty where it does not."""
    return signed(comparison.drift_text(row.drifting) if row.drifting else row.record.drift or "")


def since_text(since: Since, reference_s: float | None = None) -> str:
    """Since when a row is what it is: ``2026-11-18 22:04, 3 runs; before that throughput -0.2 % at 2026-11-17 22:01``.

    The throughput before is held against what the row itself is held against.
    """
    if not since.good_run_id:
        return since_line(since) or "no run before is known"
    before = f"throughput {percent(reference_s / since.good_s - 1)}" if since.good_s and reference_s else "measured"
    return f"{since_line(since)}; before that {before} at {minute(since.good_time_s)}"


def since_facts(row: Row) -> list[tuple[str, str]]:
    """Since when a row is what it is, and what changed then, each with its name."""
    if row.since is None:
        unlike_others = row.record.reason in UNUSUAL or row.record.own_outcome
        is_slow = row.needs in attention.SLOW and not unlike_others
        return [("since", "no run before is known")] if is_slow else []
    if row.needs is attention.ERROR and not since_line(row.since):
        return []
    facts = [("since", since_text(row.since, row.verdict.reference_s if row.verdict else None))]
    if row.since.changes and row.needs is not attention.DRIFT:  # whose text has it
        facts.append(("changed then", changes_text(row.since.changes)))
    return facts


def limit_text(row: Row) -> str:
    """What was allowed, and why it is not the tolerance where it is not."""
    verdict = row.verdict
    if verdict is None:
        return ""
    allowed = f"a loss of {verdict.tolerance * 100:g} % of throughput"
    if verdict.limit is not None and verdict.noise is not None:
        limit = f"a regression beyond {verdict.limit * 100:.3g} %, because {row_text.noise_text(verdict.noise)}"
        allowed = f"{allowed}; {limit}"
    return f"{allowed}; {row.record.reason}" if row.record.reason else allowed


def job_text(record: Record) -> str:
    """A row's last job in a few words: ``job 481220 NODE_FAIL on pool0-0017, attempt 2``."""
    if record.jobs.last is None:
        return ""
    tries = f", attempt {len(record.jobs.attempts) + 1}" if record.jobs.attempts else ""
    where = f" on {shown_nodes(record.jobs.last.nodes)}" if record.jobs.last.nodes else ""
    return f"job {record.jobs.last.id} {record.jobs.last.state}{where}{tries}"


def nodes_fact(record: Record) -> tuple[str, str]:
    """Where a row ran, behind what it is: one figure may be of several jobs."""
    jobs = len(record.told_jobs)
    return "nodes" if jobs < 2 else f"nodes of {jobs} jobs", record.nodes


def jobs_text(night: Point) -> str:
    """The jobs of a night: ``job 481220``, ``median of jobs 481220, 481221, 481222``."""
    return f"job {night.job_id}" if night.jobs == 1 else f"median of jobs {night.job_id}"


def shown_nodes(nodes: str) -> str:
    """A node list for a cell of a table."""
    return shortened(nodes, _LONGEST_NODES)


def signed(text: str) -> str:
    """A text of the screen with real minus signs, as all others on the pages are."""
    return _NEGATIVE.sub("\N{MINUS SIGN}", text)


def percent(fraction: float) -> str:
    """A change with a real minus sign, on one line: ``+12.2 %``."""
    return words.percent(fraction).replace("-", "\N{MINUS SIGN}").replace(" ", "\N{NO-BREAK SPACE}")


def minute(time_s: float | None) -> str:
    """When a run was, ``2026-11-20 21:23``; empty where the calendar has no such time."""
    return "" if time_s is None else words.minute(time_s)


def moment(time_s: float | None) -> datetime | None:
    """A time in this machine's zone; ``None`` where the calendar has none."""
    try:
        return None if time_s is None else datetime.fromtimestamp(time_s).astimezone()
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return None
