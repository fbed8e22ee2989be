"""Every outcome has one entry."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_gsw.baseline_updates import Rules, _not_a_point
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.record import of_content
from pytest_gsw.results.reported_status import reported_status
from pytest_gsw.results.row_text import INCONCLUSIVE_TEXTS
from pytest_gsw.stats import decision
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import DOUBTS, FORBIDS, Reason
from tests.messages import wording
from tests.unit.results.records import SLOW, varied


def test_each_outcome_of_a_verdict_has_an_entry_and_a_place_among_the_worst() -> None:
    assert {one.value for one in decision.Outcome} <= outcomes.BY_WORD.keys()
    assert set(decision.WORST_FIRST) == set(decision.Outcome)


@pytest.mark.parametrize("outcome", outcomes.OUTCOMES, ids=lambda one: one.word)
def test_junit_has_what_pytest_makes_of_an_outcome(outcome: outcomes.OutcomeKind) -> None:
    made = {"passed": "", "failed": "failure", "skipped": "skipped", "xfailed": "skipped", "error": "error"}
    assert outcome.junit == made[outcome.pytest]
    assert outcome.attention in attention.ATTENTIONS
    assert outcome.attention.in_report.sign


def test_only_a_row_that_pytest_reports_as_failed_or_as_an_error_is_an_error_of_the_run() -> None:
    red = {one.word for one in outcomes.OUTCOMES if one.attention.level is attention.Level.ERROR}
    assert red == {one.word for one in outcomes.OUTCOMES if one.pytest in {"failed", "error"}}


def test_a_session_is_green_only_if_each_of_its_rows_is() -> None:
    assert {one.word: one.status for one in outcomes.OUTCOMES} == {
        **dict.fromkeys(("passed", "improved", "expected_failure"), 0),
        **dict.fromkeys(("regressed", "unexpected_success", "error"), 1),
        **dict.fromkeys(("inconclusive", "profiled"), 6),
    }
    assert [outcomes.exit_status(found) for found in ((), (0, 0), (0, 6, 0), (6, 1, 0))] == [0, 0, 6, 1]


@pytest.mark.parametrize(("outcome", "status"), [("passed", 6), ("improved", 6), ("inconclusive", 6), ("error", 1)])
def test_a_row_that_was_not_judged_by_its_newest_job_is_not_green(outcome: str, status: int) -> None:
    assert varied(SLOW, outcome=outcome, passed_over=wording("newer passed over", job=7, jobs="job 8")).status == status


def test_severities_are_an_order() -> None:
    worst_first = sorted(outcomes.OUTCOMES, key=lambda one: -one.severity)
    assert [one.word for one in worst_first] == [
        *("error", "regressed", "unexpected_success", "inconclusive", "improved", "profiled", "passed"),
        "expected_failure",
    ]
    assert len({one.severity for one in outcomes.OUTCOMES}) == len(outcomes.OUTCOMES)


def test_a_record_of_an_outcome_that_nobody_knows_is_none() -> None:
    with pytest.raises(ValueError, match=r"^'outcome' is \"splendid\""):
        of_content({**json.loads(SLOW.text), "outcome": "splendid"})


@pytest.mark.parametrize(
    ("outcome", "reason", "strict", "as_what"),
    [
        ("improved", "faster than allowed", False, "passed"),
        ("improved", "faster than allowed", True, "failed"),
        ("inconclusive", "too good to be true", False, "skipped"),
        ("inconclusive", "too good to be true", True, "failed"),
        ("inconclusive", "within noise", True, "skipped"),
        ("passed", "within tolerance", True, "passed"),
        ("regressed", "slower than allowed", False, "failed"),
        ("unexpected_success", "", False, "failed"),
        ("expected_failure", "", True, "xfailed"),
        ("error", "", False, "error"),
    ],
)
def test_strict_sessions_fail_rows_that_are_too_fast(outcome: str, reason: str, strict: bool, as_what: str) -> None:
    assert reported_status(varied(SLOW, outcome=outcome, reason=reason), list, strict=strict).outcome.pytest == as_what


def test_the_tables_of_reasons_are_whole() -> None:
    """A reason that one of them lacks, or a line of the page without a reason, fails."""
    inconclusive = {reason for reason in Reason if reason.outcome is Outcome.INCONCLUSIVE}
    assert INCONCLUSIVE_TEXTS.keys() == inconclusive
    page = (Path(__file__).parents[3] / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("| reason | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"\n\| `([^`]+)` \| ", table)) == {reason.value for reason in inconclusive}
    of_cluster_and_tiles = {Reason.CANARY, Reason.SLOW_NODE, Reason.OTHER_LOSS, Reason.TILE}
    assert FORBIDS.keys() == {*DOUBTS, *(reason.value for reason in of_cluster_and_tiles)}


#: The reason of an outcome that states none is the first one that has it.
USUAL = {reason.outcome: reason for reason in reversed(Reason)}.values()


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in USUAL], ids=lambda reason: reason.name)
def test_every_other_reason_is_given(reason: Reason) -> None:
    """It stands elsewhere than among the doubts and the texts."""
    given, package = re.compile(rf"\bReason\.{reason.name}\b(?!:)"), Path(outcomes.__file__).parents[1]
    sources = (path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    assert any(given.search(line) for source in sources for line in source.splitlines() if "DOUBTS" not in line)


@pytest.mark.parametrize("word", FORBIDS)
def test_a_reason_that_forbids_proposes_no_accepted_figure(word: str) -> None:
    record = varied(SLOW, reason=word, outcome="inconclusive", measured={"step_time_s": 0.5})
    assert _not_a_point(record, Rules()) == FORBIDS[word]
