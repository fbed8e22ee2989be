"""The outcomes of a session's rows, by the reports that pytest gets of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.results import outcomes
from pytest_gsw.results.manifest import CaseBesideRows
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.screen import NO_CLUSTER
from tests.unit.results.records import SLOW, varied

PASSED = varied(SLOW, outcome="passed", measured={"step_time_s": 4.5})
PROFILED = varied(SLOW, outcome="profiled", not_comparable="a profile")


def report(outcome: str = "passed", when: str = "call", node_id: str = "t.yaml::a", **facts: Any) -> Any:
    """A report of a row's phase."""
    found = SimpleNamespace(nodeid=node_id, outcome=outcome, when=when, longrepr="a fact\nmore", gsw_row=True)
    for name in ("passed", "failed", "skipped"):
        setattr(found, name, name == outcome)
    for name, value in facts.items():
        setattr(found, name, value)
    return found


def judged(record: Any, outcome: str = "passed", status: int = outcomes.GREEN, node_id: str = "t.yaml::a") -> Any:
    """The report of a row with a record."""
    return report(outcome, node_id=node_id, gsw_record=record, gsw_status=status)


def counted(*reports: Any, profiled_on_purpose: bool = False) -> OutcomeCounts:
    counts = OutcomeCounts(profiled_on_purpose=profiled_on_purpose)
    for one in reports:
        counts.add(one)
    return counts


def test_a_row_that_passed() -> None:
    counts = counted(report(when="setup"), judged(PASSED), report(when="teardown"))
    assert (counts.rows, counts.outcomes, counts.is_open, counts.judged_none) == (1, ["passed"], False, False)
    assert "t.yaml::a" in counts
    assert counts.reported == {"t.yaml::a": PASSED}


def test_an_error_without_a_record_is_known_by_its_first_line() -> None:
    counts = counted(report("failed", when="setup"))
    assert counts.outcomes == ["error"]
    assert counts.errors_without([]) == {"t.yaml::a": "a fact"}
    assert counts.errors_without(["t.yaml::a"]) == {}


def test_rows_that_were_all_skipped() -> None:
    counts = counted(report("skipped", when="setup"))
    assert (counts.rows, counts.outcomes, counts.judged_none) == (1, [], True)


@pytest.mark.parametrize(("on_purpose", "none"), [(False, True), (True, False)])
def test_a_profile_judges_nothing_unless_it_was_asked_for(on_purpose: bool, none: bool) -> None:
    counts = counted(judged(PROFILED, "skipped", outcomes.OPEN), profiled_on_purpose=on_purpose)
    assert (counts.judged_none, counts.is_open) == (none, not on_purpose)


def test_a_row_that_failed_by_its_record_and_passed_by_its_reports() -> None:
    assert counted(judged(SLOW, "passed", outcomes.FAILED)).hides("t.yaml::a")
    assert not counted(judged(SLOW, "failed", outcomes.FAILED)).hides("t.yaml::a")
    assert not counted(judged(PASSED)).hides("t.yaml::a")


def test_rows_without_a_cluster_are_no_rows_that_were_judged() -> None:
    skip = report("skipped", when="setup", gsw_row=False, longrepr=("t.yaml", 1, f"Skipped: {NO_CLUSTER}"))
    counts = counted(skip)
    assert (counts.without_cluster, counts.ran_nothing, counts.rows) == (1, True, 0)
    other = report(gsw_row=False)
    assert not counted(skip, other).ran_nothing


def test_a_case_beside_rows_may_leave_a_session_open() -> None:
    case = CaseBesideRows(
        "nodes::n1", "eos", "n1", "node n1", "SKIPPED", "skipped", outcomes.OPEN, "drained", "gsw_nodes"
    )
    counts = counted(report("skipped", node_id="nodes::n1", gsw_row=False, gsw_case=case))
    assert (counts.rows, counts.is_open) == (0, True)
