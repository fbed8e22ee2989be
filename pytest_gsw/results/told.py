"""As what pytest and JUnit are told a row, and with which text: one function of its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_gsw.performance.verdict import Reason, Verdict
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.outcomes import Outcome
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_line import figures


@dataclass(frozen=True)
class Told:
    """What is told of a row."""

    #: The outcome as which it is told: with ``gsw_strict`` a row that is too fast has failed.
    outcome: Outcome
    #: One line, and the whole text; empty where there is nothing to say.
    message: str
    text: str


def told(
    record: Record,
    facts: Callable[[], Sequence[tuple[str, str]]],
    *,
    strict: bool,
    verdict: Verdict | None = None,
    canaries: Sequence[str] = (),
) -> Told:
    """What pytest and JUnit are told of a row, by its verdict as it was judged, or else by that of its record.

    The facts say where its things are and how it is repeated; they are not asked for of most rows. If ``strict``, rows
    faster than the tolerance allows have failed. The canaries are those that were too slow, where that is known.
    """
    verdict = verdict or record.judged
    outcome = outcomes.of(record.outcome)
    if not outcome.known:
        why = outcomes.unknown_text(record.outcome)
        return Told(outcome, why, why)
    if has_failed(record.outcome, record.reason, strict=strict):
        outcome = outcomes.REGRESSED if outcome.pytest != "failed" else outcome
    match outcome.pytest:
        case "passed":
            return Told(outcome, "", "")
        case "xfailed":
            return Told(outcome, record.fact, "")
        case "skipped" if outcome is outcomes.PROFILED:
            judged = "  ".join(figures(record))
            why = f"not judged, because {record.not_comparable} makes the figures not comparable: {judged}"
            return Told(outcome, why, why)
        case "skipped" if verdict is None:
            return Told(outcome, record.fact, f"inconclusive: {record.fact}")
        case "skipped" if verdict is not None:
            return Told(outcome, record.fact, row_text.inconclusive_text(record, verdict, canaries))
        case "failed" if verdict is not None:
            return Told(outcome, record.fact, row_text.failure_text(record, verdict, facts()))
        case _:
            return Told(outcome, record.fact, "\n".join([record.fact, "", *row_text.fact_lines(facts())]))


def has_failed(outcome: str, reason: str, *, strict: bool) -> bool:
    """Whether a judged row of this outcome and reason is told as failed; strictly, also one that is too fast."""
    is_too_fast = outcome == outcomes.IMPROVED.word or reason == Reason.TOO_GOOD.value
    return outcomes.of(outcome).pytest == "failed" or (strict and is_too_fast and outcome in outcomes.JUDGED)
