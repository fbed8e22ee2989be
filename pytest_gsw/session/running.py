"""What a session does that runs rows; one that only collects them imports nothing of it."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import RunError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.fleet.rows import stray_text
from pytest_gsw.results import outcomes
from pytest_gsw.session import judged
from pytest_gsw.session.chosen import runs_nothing
from pytest_gsw.session.ending import add_row, leave_files
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.loop import handling_signals, interrupt_session, run_session, run_unready
from pytest_gsw.session.lost import left_over
from pytest_gsw.session.resume import leave_run
from pytest_gsw.session.screen import clear_live, write
from pytest_gsw.session.start import start_fleet, tell_delivery
from pytest_gsw.session.stash import ALARMS, CRITERION, FINISHED, FLEET, NIGHTS, RECORD, SETTINGS
from pytest_gsw.session.tally import TALLY


def run_rows(session: pytest.Session) -> None:
    """Submit every selected row, run other tests meanwhile, then judge rows in the order in which their jobs end.

    Rows that cannot be submitted are told before any other is: with ``-x`` the session ends there.
    """
    config = session.config
    settings = config.stash[SETTINGS]
    if settings.plan:
        from pytest_gsw.session.plan import print_plan

        print_plan(session, settings)
        return
    told: list[pytest.Item] = []
    with handling_signals() as interrupts:
        try:
            start = start_fleet(session, settings)
            run_unready(session, start, told)
            start.submit()
        except session.Interrupted:
            raise
        except KeyboardInterrupt:
            if FLEET in config.stash:
                interrupt_session(session, config.stash[FLEET], told, detach=settings.detach)
            raise
        run_session(session, start.fleet, interrupts, told, detach=settings.detach)
        start.fleet.count()
        _report_late(session, start.fleet)  # before JUnit's file is written


def run_item(item: pytest.Item) -> Generator[None, object, object]:
    """Make room for the row's line, and see that it is reported."""
    clear_live(item.config)
    done = yield
    if isinstance(item, BaselineItem):
        judged.report_swallowed(item)
    return done


def make_report(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """See that a row's report says what its record says, and give it the figures that stand behind its outcome."""
    report.gsw_row = True  # type: ignore[attr-defined]
    judged.hold_to_the_record(item, call, report)
    record = item.stash.get(RECORD, None)
    if record is not None:
        add_row(item, record)
        judged.add_record(item, record, report)


def finish(session: pytest.Session) -> None:
    """End whatever still runs: after -x, after Ctrl-C, after an internal error."""
    try:
        _finish(session)
    finally:
        leave_run(session.config)


def _finish(session: pytest.Session) -> None:
    config = session.config
    config.stash[FINISHED] = True
    clear_live(config)
    fleet = config.stash.get(FLEET, None)
    if fleet is not None:
        _close(session, fleet)
    for line in left_over(session, fleet):
        write(config, line)
    _remember(config)
    _note_alarms(config)
    tally = config.stash.get(TALLY, None)
    if tally is not None:
        session.exitstatus = judged.exit_status(session, tally)
    _conclude_suite(session)
    if not leave_files(config, int(session.exitstatus)):
        _fail(session)


def _fail(session: pytest.Session) -> None:
    """Let a session fail whatever its rows came to; that it was interrupted is worse."""
    if session.exitstatus in {outcomes.GREEN, outcomes.OPEN}:
        session.exitstatus = outcomes.FAILED


def _remember(config: pytest.Config) -> None:
    """Give the session's records to the history."""
    nights = config.stash.get(NIGHTS, None)
    if nights is None:
        return
    if nights.problem:
        write(config, f"gsw: rows were judged by their tolerance alone: {nights.problem}")
    if nights.not_kept:
        run = from_here(config.stash[SETTINGS].run_directory)
        write(config, f"gsw: records could not be kept for the history: {nights.not_kept}")
        write(config, f"next: pytest-gsw history --add {run}")
    tell_delivery(config, nights)
    nights.close()


def _note_alarms(config: pytest.Config) -> None:
    """Find the alarms of the night; a replay is of no night of its own."""
    settings, tally = config.stash[SETTINGS], config.stash.get(TALLY, None)
    has_nights = settings.history is not None and settings.replay is None
    if tally is None or not tally.outcomes or not has_nights:
        return
    # Only a session that has run rows has a night.
    from pytest_gsw.results.rebuild import read_run
    from pytest_gsw.session.alarming import session_alarms

    records, _ = read_run(settings.run_directory, tally.records)
    nights = config.stash.get(NIGHTS, None)
    config.stash[ALARMS] = session_alarms(settings, records, None if nights is None else nights.slow_before)


def _conclude_suite(session: pytest.Session) -> None:
    """With ``--gsw-suite``: keep what the session comes to by it; one that does not meet it is not green."""
    config = session.config
    settings = config.stash[SETTINGS]
    if settings.suite is None or settings.plan or config.option.collectonly or runs_nothing(config):
        return
    from pytest_gsw.results.rebuild import read_run

    records, _ = read_run(settings.run_directory, config.stash[TALLY].records)
    concluded = settings.suite.conclude(records)
    config.stash[CRITERION] = tuple(quoted(concluded.lines, os.environ))
    if session.exitstatus in {outcomes.GREEN, outcomes.OPEN} and not concluded.is_met:
        session.exitstatus = outcomes.FAILED if concluded.is_missed else outcomes.OPEN


def _close(session: pytest.Session, fleet: Fleet) -> None:
    config = session.config
    try:
        cancelled = fleet.close(detach=config.stash[SETTINGS].detach)
    except RunError as error:
        # Jobs that may still burn GPU-hours are worth a red session, whatever its rows were.
        _fail(session)
        write(config, f"gsw: {error}")
    else:
        if cancelled:
            jobs = "1 job was" if cancelled == 1 else f"{cancelled} jobs were"
            write(config, f"gsw: {jobs} still pending or running, and cancelled")
    for stray in fleet.strays.values():
        _fail(session)
        write(config, f"gsw: a job of the run belongs to no row: {stray_text(stray)}")
    _report_late(session, fleet)
    if fleet.journal_problem:
        why = f"the run's journal could not be written: {fleet.journal_problem}"
        write(config, f"gsw: {why}; a session that resumes this run would not know all of its jobs")


def _report_late(session: pytest.Session, fleet: Fleet) -> None:
    """Report the rows that were told, and that are errors by now."""
    for item in session.items:
        if isinstance(item, BaselineItem) and item.baseline.id in fleet.late:
            judged.report_error(item, fleet.late.pop(item.baseline.id), "teardown")
