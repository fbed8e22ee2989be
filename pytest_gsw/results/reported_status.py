"""A row as pytest and JUnit report it: its outcome, and its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import figures
from pytest_gsw.results.row_text import fact_lines, failure_text, inconclusive_text
from pytest_gsw.stats.verdict import Reason, Verdict


@dataclass(frozen=True)
class ReportedStatus:
    """A row as pytest and JUnit report it."""

    #: The reported outcome: with ``strict`` a row that is too fast has failed.
    outcome: outcomes.OutcomeKind
    #: One line, and the whole text; empty for a row that has passed.
    message: str
    text: str


def reported_status(
    record: Record,
    facts: Callable[[], Sequence[tuple[str, str]]],
    *,
    strict: bool,
    verdict: Verdict | None = None,
    canaries: Sequence[str] = (),
) -> ReportedStatus:
    """A row as pytest and JUnit report it, by its verdict as it was judged, or else by that of its record.

    The facts are its files and commands; most rows do not need them. If ``strict``, rows faster than the tolerance
    allows have failed. The canaries are those that were too slow, if known.
    """
    verdict = verdict or record.judged
    outcome = outcomes.of(record.outcome)
    if has_failed(record.outcome, record.reason, strict=strict):
        outcome = outcomes.REGRESSED if outcome.pytest != "failed" else outcome
    match outcome.pytest:
        case "passed":
            return ReportedStatus(outcome, "", "")
        case "xfailed":
            return ReportedStatus(outcome, record.fact, "")
        case "skipped" if outcome is outcomes.PROFILED:
            judged = "  ".join(figures(record))
            why = f"not judged, because {record.not_comparable} makes the figures not comparable: {judged}"
            return ReportedStatus(outcome, why, why)
        case "skipped" if outcome is outcomes.INCONCLUSIVE:
            text = f"inconclusive: {record.fact}" if verdict is None else inconclusive_text(record, verdict, canaries)
            return ReportedStatus(outcome, record.fact, text)
        case "failed" if verdict is not None:
            return ReportedStatus(outcome, record.fact, failure_text(record, verdict, facts()))
        case _:
            return ReportedStatus(outcome, record.fact, "\n".join([record.fact, "", *fact_lines(facts())]))


def has_failed(outcome: str, reason: str, *, strict: bool) -> bool:
    """True if a judged row is reported as failed; if ``strict``, also one that is too fast."""
    is_too_fast = outcome == outcomes.IMPROVED.word or reason == Reason.TOO_GOOD.value
    return outcomes.of(outcome).pytest == "failed" or (strict and is_too_fast and outcome in outcomes.JUDGED)
