"""The rule of a session: a row that was to be judged is judged, or the session is not green.

A row is judged when it has a record of this session, and a report that says what the record says. Rows
that a marker or the cluster leaves out are skipped, and say so. Every other row without a record is an
error that is named, whichever plugin kept it from being judged.
"""

from __future__ import annotations

from typing import Literal

import pytest

from pytest_gsw.common.words import counted
from pytest_gsw.errors import HookError, RunError
from pytest_gsw.hooks.faults import hook_error
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.session.junit_cases import add_case
from pytest_gsw.session.screen import write
from pytest_gsw.session.stash import NOT_READY, RECORD, SETTINGS
from pytest_gsw.session.tally import TALLY, Tally
from pytest_gsw.session.telling import fail_report, failure_of

#: How many rows a line names.
_MOST_NAMED = 10
#: The phases in which a row is judged.
_PHASES = frozenset({"setup", "call"})


# -- one row ----------------------------------------------------------------------------------


def hold_to_the_record(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Make an error of the report of a row that ended without a record, and a failure of one that hides its record."""
    if report.when not in _PHASES or not item.row.is_to_be_judged:
        return
    if item.row.not_written:
        fail_report(item, report, item.row.not_written)
    elif RECORD not in item.stash:
        error = _why_not_judged(item, call, report)
        if error is not None:
            fail_report(item, report, item.row.leave_error(error))
    elif report.outcome == "passed" and report.when == "call" and item.row.judged[0] != "passed":
        fail_report(item, report, item.row.judged[1])
    elif report.outcome == "passed" and call.excinfo is not None:
        fail_report(item, report, str(call.excinfo.value))


def _why_not_judged(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> HookError | None:
    """What ended a row before it had a record; ``None`` while it goes on."""
    if call.excinfo is None:
        return _taken("pytest_runtest_setup") if report.when == "call" else None
    raised = call.excinfo.value
    error = hook_error(raised, item.config.pluginmanager.list_name_plugin())
    if isinstance(raised, pytest.skip.Exception):
        return HookError(
            f"skipped after its job was submitted: {raised}",
            error.evidence,
            advice="to leave the row out, mark it with pytest.mark.skip in pytest_collection_modifyitems: "
            "then no job is submitted",
        )
    return error


def add_record(item: BaselineItem, record: Record, report: pytest.TestReport) -> None:
    """Give a report of one of a row's phases the record that stands behind its outcome."""
    report.gsw_record = record  # type: ignore[attr-defined]
    report.gsw_said = item.row.said  # type: ignore[attr-defined]
    report.gsw_status = outcomes.FAILED if item.row.judged[0] == "failed" else record.status  # type: ignore[attr-defined]


def report_swallowed(item: BaselineItem) -> None:
    """Report a row of which its protocol has left no report, because another plugin took its place."""
    if item.row.is_to_be_judged and item.nodeid not in item.config.stash[TALLY]:
        report_error(item, _taken("pytest_runtest_protocol"), "setup")


def report_error(item: BaselineItem, error: RunError, when: Literal["setup", "teardown"]) -> None:
    """Report a row as an error, and record it, in the place of its protocol or after it."""
    text = item.row.leave_error(error)
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", failure_of(item, text), when)
    report.user_properties = item.user_properties
    report.gsw_row = True  # type: ignore[attr-defined]
    add_case(item, report)
    item.ihook.pytest_runtest_logreport(report=report)


def _taken(hook: str) -> HookError:
    return HookError(
        f"the row was not judged: a plugin took {hook} in place of pytest's own",
        advice="pytest --trace-config lists the plugins; -p no:NAME leaves one out",
    )


# -- the session ------------------------------------------------------------------------------


def exit_status(session: pytest.Session, tally: Tally) -> int:
    """The exit status of a session: 0 only if every row that it was to judge passed by its newest job."""
    config = session.config
    status = int(session.exitstatus)
    if config.stash.get(NOT_READY, False):
        return int(pytest.ExitCode.TESTS_FAILED)
    if status != pytest.ExitCode.OK:
        return status
    if tally.judged_none:
        # A night in which nothing was judged must not look like one in which all went well.
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    left = _left(session, tally)
    if left:
        _tell(config, left)
        return int(pytest.ExitCode.TESTS_FAILED)
    return outcomes.OPEN if tally.is_open else status


def _left(session: pytest.Session, tally: Tally) -> list[str]:
    """The rows that were to be judged and of which no report says anything, or whose report hides its record."""
    config = session.config
    if config.option.collectonly or config.stash[SETTINGS].plan:
        return []
    expected = [item.nodeid for item in session.items if isinstance(item, (BaselineItem, BlankItem))]
    return [node_id for node_id in expected if node_id not in tally or tally.hides(node_id)]


def _tell(config: pytest.Config, left: list[str]) -> None:
    """Name the rows that were not judged."""
    were = "was" if len(left) == 1 else "were"
    write(config, f"gsw: {counted(len(left), 'row')} {were} selected and not judged:")
    for node_id in left[:_MOST_NAMED]:
        write(config, f"  {node_id}")
    if len(left) > _MOST_NAMED:
        write(config, f"  and {len(left) - _MOST_NAMED} more")
