"""Texts of pages: of rows, runs, jobs, times and figures."""

from __future__ import annotations

import re

from pytest_gsw.common import text
from pytest_gsw.common.text import plural, shortened
from pytest_gsw.history import comparison
from pytest_gsw.history.comparison import changes_text
from pytest_gsw.history.model import Point
from pytest_gsw.history.since import Since
from pytest_gsw.reports.reported_row import ReportedRow, since_line
from pytest_gsw.reports.run_report import RunReport
from pytest_gsw.results import attention, outcomes, row_text
from pytest_gsw.results.record import Record
from pytest_gsw.stats.verdict import UNUSUAL, Reason
from pytest_gsw.tables.metrics import Metric

#: The short reason of an inconclusive row on its card; its page has the long one.
_SHORT = {
    Reason.WITHIN_NOISE.value: "jobs of this row differ by as much",
    Reason.TOO_GOOD.value: "that is too good to be true",
    Reason.NOT_DECIDED.value: "further jobs have not decided it",
}
#: Every outcome, the worst first.
WORST_FIRST = sorted(outcomes.OUTCOMES, key=lambda outcome: attention.ATTENTIONS.index(outcome.attention))

#: The sign of a number, not the hyphen of a date or a name.
_NEGATIVE = re.compile(r"(?<![\w.\]])-(?=\d)")

#: The longest node list in a table.
_LONGEST_NODES = 60


def report_text(report: RunReport) -> str:
    """The outcome of a run in a few words: the same numbers as everywhere."""
    counts = report.outcomes
    bad = [one.of_rows(counts[one.word]) for one in WORST_FIRST if one.word in counts and one.attention.is_urgent]
    parts = [f"1 {report.incident.needs.kind}"] if report.incident else []
    parts += [plural(report.slow_tile_nodes, "slow node")] if report.slow_tile_nodes else []
    parts += bad
    if drifting := report.counts.get(attention.DRIFT.kind):
        parts.append(f"{drifting} drifting")
    rows = report.rows_text
    if not counts:
        return "No row judged yet" if report.goes_on else "No row"
    if parts:
        return f"{', '.join(parts)} of {rows}"
    alarms = report.active_alarms
    return f"{plural(alarms, 'active alarm')}, no row needs attention: {rows}" if alarms else f"All well: {rows}"


def card_text(row: ReportedRow) -> str:
    """The fact of a row, shorter than on its page."""
    if row.needs is attention.INCONCLUSIVE and row.record.reason in _SHORT:
        return f"{row.record.fact}; {_SHORT[row.record.reason]}"
    return fact_text(row)


def fact_text(row: ReportedRow) -> str:
    """The fact of a row, in one line."""
    record, verdict = row.record, row.record.judged
    if row.needs is attention.DRIFT:
        return drift_text(row) or record.fact
    if row.needs is attention.INCONCLUSIVE and verdict is not None:
        return signed(row_text.inconclusive_text(record, verdict).removeprefix("inconclusive: "))
    return record.fact if verdict is None else signed(record.fact)


def drift_text(row: ReportedRow) -> str:
    """The drift of a row, in one line; empty if it does not drift."""
    drift, record = row.drifting, row.record
    return signed(comparison.drift_text(drift) if drift else record.drift or "")


def since_text(since: Since, reference: float | None = None) -> str:
    """The onset of a row's state: ``2026-11-18 22:04, 3 runs; before that throughput -0.2 % at 2026-11-17 22:01``.

    The figure before is against the row's current reference.
    """
    good = since.good
    if good is None:
        return since_line(since) or "the first known run"
    before = "measured"
    if isinstance(good, Point) and reference:
        before = f"{good.metric.change_label} {percent(good.metric.change(good.judged, reference))}"
    return f"{since_line(since)}; before that {before} at {minute(good.begin_s)}"


def since_facts(row: ReportedRow) -> list[tuple[str, str]]:
    """The onset of a row's state and the changes at that time, each with its name."""
    since, verdict = row.since, row.record.judged
    if since is None:
        unlike_others = row.record.reason in UNUSUAL or row.record.own_outcome
        is_slow = row.needs in attention.SLOW and not unlike_others
        return [("since", "the first known run")] if is_slow and not row.record.row.tile else []
    if row.needs is attention.ERROR and not since_line(since):
        return []
    is_told = row.needs is attention.DRIFT  # by its text
    changed = [] if is_told or not since.changes else [(comparison.changed_word(since), changes_text(since.changes))]
    return [("since", since_text(since, verdict.reference if verdict else None)), *changed]


def limit_text(row: ReportedRow) -> str:
    """The allowed loss, and the limit with its reason if that is another."""
    verdict = row.record.judged
    if verdict is None:
        return ""
    metric = row.record.judged_metric
    allowed = f"a loss of {row_text.shown_limit(verdict.tolerance, metric) * 100:g} % of {metric.change_label}"
    return "; ".join(filter(None, (f"{allowed}{row_text.beyond_text(verdict)}", row.record.reason)))


def job_text(record: Record) -> str:
    """A row's last job in a few words: ``job 481220 NODE_FAIL on pool0-0017, attempt 2``."""
    if record.jobs.last is None:
        return ""
    tries = f", attempt {len(record.jobs.attempts) + 1}" if record.jobs.attempts else ""
    where = f" on {shown_nodes(record.jobs.last.nodes)}" if record.jobs.last.nodes else ""
    return f"job {record.jobs.last.id} {record.jobs.last.state}{where}{tries}"


def nodes_fact(record: Record) -> tuple[str, str]:
    """The nodes of a row, after their name: one figure may be of several jobs."""
    jobs = len(record.reported_jobs)
    return "nodes" if jobs < 2 else f"nodes of {jobs} jobs", record.nodes


def shown_nodes(nodes: str) -> str:
    """A node list for a cell of a table."""
    return shortened(nodes, _LONGEST_NODES)


def signed(text: str) -> str:
    """A text of the screen with real minus signs."""
    return _NEGATIVE.sub("\N{MINUS SIGN}", text)


def percent(fraction: float | None) -> str:
    """A change with a real minus sign, on one line: ``+12.2 %``; empty if unknown."""
    return "" if fraction is None else shown_change(text.percent(fraction))


def shown_change(text: str) -> str:
    """A change of the screen with a real minus sign, on one line."""
    return text.replace("-", "\N{MINUS SIGN}").replace(" ", "\N{NO-BREAK SPACE}")


def without_unit(text: str) -> str:
    """A percentage for a column that has the unit in its heading: ``−13.7``."""
    return text.removesuffix("%").rstrip()


def figure_text(metric: Metric, value: float | None) -> str:
    """A figure for a column, whose heading has the unit; empty if unknown."""
    return "" if value is None else metric.in_column(value)


def minute(time_s: float | None) -> str:
    """A time, ``2026-11-20 21:23``; empty if the calendar does not have it."""
    return "" if time_s is None else text.minute(time_s)
