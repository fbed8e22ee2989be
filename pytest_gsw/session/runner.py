"""A session that runs rows; one that only collects them does not import this module."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Literal

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.process import taking_signals
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import by_number, plural
from pytest_gsw.errors import HookError, RunError, TakenOverError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.phases import Finished, stray_text
from pytest_gsw.hook_checks import hook_error
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.session import failure_text, junit_file, progress, resume
from pytest_gsw.session.collect import BaselineItem, BlankItem, blank_rows, runs_nothing
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.plan_and_submit import Start, plan_rows, print_plan, report_delivery
from pytest_gsw.session.screen import clear_live, write
from pytest_gsw.session.state import SESSION, Session

# -- The rule of a session: every selected row is judged, or the session is not green ---------------
#
# A row is judged if it has a record of this session, and a report that agrees with the record. Rows that a marker or
# the cluster leaves out are skipped, with the reason. Every other row without a record is an error with its name,
# whichever plugin prevented its verdict.


#: Most rows in a line.
_MOST_NAMED = 10
#: The phases in which a row is judged.
_PHASES = frozenset({"setup", "call"})


# -- one row ----------------------------------------------------------------------------------


def hold_to_the_record(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Make an error of the report of a row without a record, and a failure of one that hides its record."""
    state = item.config.stash[SESSION]
    row = state.rows.get(item.baseline.id)
    if report.when not in _PHASES or row is None or is_taken_over(state):
        return
    if row.not_written:
        failure_text.fail_report(item, report, row.not_written)
    elif row.record is None:
        error = _why_not_judged(item, call, report)
        if error is not None:
            failure_text.fail_report(item, report, row.leave_error(error))
    elif report.outcome == "passed" and report.when == "call" and row.judged[0] != "passed":
        failure_text.fail_report(item, report, row.judged[1])
    elif report.outcome == "passed" and call.excinfo is not None:
        failure_text.fail_report(item, report, str(call.excinfo.value))


def _why_not_judged(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> HookError | None:
    """The event that ended a row before it had a record; ``None`` while it continues."""
    if call.excinfo is None:
        return _replaced_hook_error("pytest_runtest_setup") if report.when == "call" else None
    raised = call.excinfo.value
    error = hook_error(raised, item.config.pluginmanager)
    if isinstance(raised, pytest.skip.Exception):
        return HookError(
            f"skipped after its job was submitted: {raised}",
            error.evidence,
            advice="to leave the row out, mark it with pytest.mark.skip in pytest_collection_modifyitems: "
            "then no job is submitted",
        )
    return error


def report_error(item: BaselineItem, error: RunError, when: Literal["setup", "teardown"]) -> None:
    """Report and record an error of a row that the session runs, in place of its protocol or after it."""
    row = item.config.stash[SESSION].rows[item.baseline.id]
    shown = failure_text.failure_of(row.leave_error(error), *item.location[:2])
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", shown, when)
    report.user_properties = item.user_properties
    report.duration = 0.0 if row.record is None else junit.run_seconds(row.record)
    report.gsw_row = True  # type: ignore[attr-defined]
    junit_file.name_case(item, report)
    item.ihook.pytest_runtest_logreport(report=report)


def _replaced_hook_error(hook: str) -> HookError:
    return HookError(
        f"the row was not judged: a plugin took {hook} in place of pytest's own",
        advice="pytest --trace-config lists the plugins; -p no:NAME leaves one out",
    )


# -- the session ------------------------------------------------------------------------------


def is_taken_over(state: Session) -> bool:
    """True if another session goes on with the run."""
    return state.executor is not None and bool(state.executor.journal.taken_over)


def exit_status(session: pytest.Session, tally: OutcomeCounts) -> int:
    """The exit status of a session: 0 only if every row that it had to judge passed by its newest job."""
    config = session.config
    state, status = config.stash[SESSION], int(session.exitstatus)
    if state.is_unready:
        return int(pytest.ExitCode.TESTS_FAILED)
    if status != pytest.ExitCode.OK:
        return status
    if is_taken_over(state):
        return outcomes.OPEN
    if tally.judged_none:
        # A run without any verdict must not look like a successful one.
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    left = _unjudged_rows(session, tally)
    if left:
        were = "was" if len(left) == 1 else "were"
        write(config, f"gsw: {plural(len(left), 'row')} {were} selected and not judged:")
        for node_id in left[:_MOST_NAMED]:
            write(config, f"  {node_id}")
        if len(left) > _MOST_NAMED:
            write(config, f"  and {len(left) - _MOST_NAMED} more")
        return int(pytest.ExitCode.TESTS_FAILED)
    return outcomes.OPEN if tally.is_open else status


def _unjudged_rows(session: pytest.Session, tally: OutcomeCounts) -> list[str]:
    """The selected rows without a report, or with one that hides their record."""
    config = session.config
    if config.option.collectonly or config.stash[SESSION].settings.plan:
        return []
    expected = [item.nodeid for item in session.items if isinstance(item, (BaselineItem, BlankItem))]
    return [node_id for node_id in expected if node_id not in tally or tally.hides(node_id)]


# -- The order in which a session's items run: other tests first, then rows as their jobs end -------


#: Signals that end a session in order: Ctrl-C, a CI server's request, a closed terminal.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP while rows are submitted and run.

    While the session submits rows, runs other tests or waits for jobs, they raise KeyboardInterrupt at once. While a
    row is measured and reported, which takes little time, they are deferred until it is complete.
    """

    def __init__(self) -> None:
        self.waiting = True
        self.seen = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self.seen = True
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt(signal.Signals(number).name)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """A context that may be interrupted."""
        if self.seen:
            raise KeyboardInterrupt
        self.waiting = True
        try:
            yield
        finally:
            self.waiting = False


def run_unready(session: pytest.Session, start: Start, ran: list[pytest.Item]) -> None:
    """Run the items of rows that cannot be submitted: they are reported before anything is submitted.

    Args:
        session: The session.
        start: Its rows, none of which is submitted yet.
        ran: The items that ran are added here.

    Raises:
        pytest.Session.Failed: ``-x`` or ``--maxfail`` ends the session.
        pytest.Session.Interrupted: Another plugin stops the session.
    """
    items = [*blank_rows(session.items), *start.unready]
    for position, item in enumerate(items):
        is_last = len(items) == len(session.items) == position + 1
        ran.append(item)
        _run(session, item, items[position + 1] if position + 1 < len(items) else None if is_last else session)


def _parts(session: pytest.Session, start: Start) -> Iterator[Sequence[pytest.Item]]:
    """The items of a session, or of each stage of its acceptance, once the rows among them are submitted."""
    if session.config.stash[SESSION].stages is None:
        return iter([session.items])
    from pytest_gsw.session.acceptance import run_stages  # few sessions have a plan

    return run_stages(session, start)


def run_items(
    session: pytest.Session, start: Start, interrupts: Interrupts, items: Sequence[pytest.Item], detach: bool
) -> None:
    """Run items of the session: other tests first, then rows as their jobs end.

    The rows of tiles follow a search among these: their outcomes are those of all its jobs.

    Raises:
        KeyboardInterrupt: After an interruption, once every row has been reported.
        pytest.Session.Failed: ``-x`` or ``--maxfail`` ends the session.
        pytest.Session.Interrupted: Another plugin stops the session.
    """
    executor = start.executor
    waiting = _waiting(items, executor)
    first = [item for item in items if not (isinstance(item, BaselineItem) and item.baseline.id in waiting)]
    first.sort(key=lambda item: isinstance(item, BaselineItem))  # rows that are skipped come after other tests
    last = None if session.config.stash[SESSION].stages is None else session
    for position, item in enumerate(first):
        _run(session, item, first[position + 1] if position + 1 < len(first) else session)
    interrupts.waiting = False
    try:
        for row_id in _in_order(session, start, waiting, interrupts):
            item = waiting.pop(row_id)
            _run(session, item, session if waiting else last)
    except TakenOverError:
        for row_id in list(waiting):  # each is left open
            _run(session, waiting.pop(row_id), session if waiting else last)
    except session.Interrupted:
        raise  # --stepwise and the like end a session in order; pytest raises KeyboardInterrupts for them too
    except KeyboardInterrupt:
        _interrupt(session, executor, waiting, detach)
        raise


def _waiting(items: Iterable[pytest.Item], executor: Executor) -> dict[str, BaselineItem]:
    """The rows with a current or future job, by id."""
    rows = (item for item in items if isinstance(item, BaselineItem))
    return {item.baseline.id: item for item in rows if item.baseline.id in executor.rows.phases}


def _in_order(
    session: pytest.Session, start: Start, waiting: Mapping[str, BaselineItem], interrupts: Interrupts
) -> Iterator[str]:
    """The rows in the order of their jobs' ends, canaries first, since they may excuse others; tiles after all."""
    sweep = session.config.stash[SESSION].sweep
    on_tiles = [item for item in waiting.values() if item.baseline.tile]
    deferred: deque[str] = deque()
    tiles: list[str] = []
    canaries = sum(item.baseline.canary for item in waiting.values())
    rows = start.executor.rows
    # Rows of a resumed run that finished while an earlier stage was run.
    finished = deque(row for row in waiting if row not in rows.finished and isinstance(rows.phases[row], Finished))
    while len(waiting) > len(tiles):
        if deferred and not canaries:
            yield deferred.popleft()
            continue
        with interrupts.wait():
            row_id = finished.popleft() if finished else start.executor.next_finished()
        if row_id not in waiting:
            continue  # it was reported before anything was submitted, or is a row of a later stage
        if waiting[row_id].baseline.canary:
            canaries -= 1
            yield row_id
        elif sweep is not None and waiting[row_id].baseline.tile:
            tiles.append(row_id)
        else:
            deferred.append(row_id)
    if sweep is not None and on_tiles:
        from pytest_gsw.session.search import end_sweep  # few sessions have tiles

        end_sweep(session, on_tiles, start, interrupts.wait)
        yield from sorted(tiles, key=by_number)


def _interrupt(session: pytest.Session, executor: Executor, waiting: dict[str, BaselineItem], detach: bool) -> None:
    """Report the rows that have ended by now, and the rest as interrupted."""
    problem: RunError | TakenOverError | None = None
    try:
        executor.interrupt(detach)
    except (RunError, TakenOverError) as error:
        problem = error  # the session's end tries again, and reports it
    for row_id in list(waiting):
        item = waiting.pop(row_id)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=session if waiting else None)
    if problem is not None:
        raise KeyboardInterrupt from problem


def _run(session: pytest.Session, item: pytest.Item, nextitem: Any) -> None:
    """Run one item as pytest's own loop does.

    ``nextitem`` determines the fixtures that are still needed. The next row is unknown until its job has ended;
    the session itself takes its place, as a sign that more items follow.
    """
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


def run_rows(session: pytest.Session) -> None:
    """Submit every selected row, run other tests meanwhile, then judge rows in the order in which their jobs end.

    Rows that cannot be submitted are reported before any submission: with ``-x`` the session ends there.
    """
    config = session.config
    settings = config.stash[SESSION].settings
    if settings.plan:
        print_plan(session, settings)
        return
    ran: list[pytest.Item] = []
    interrupts = Interrupts()
    # By default, it would end the session; a handler of another plugin's stays.
    asks = [signal.SIGUSR1] if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL else []
    with taking_signals(interrupts, SIGNALS), taking_signals(partial(progress.ask_for_table, config), asks):
        try:
            start = plan_rows(session, settings)
            run_unready(session, start, ran)
            if config.stash[SESSION].stages is None:
                start.submit(start.ready.keys())
        except session.Interrupted:
            raise
        except KeyboardInterrupt:
            executor = config.stash[SESSION].executor
            if executor is not None:
                # A row that is not in the executor yet has no job, and is not reported.
                left = dict.fromkeys(session.items).keys() - set(ran)
                _interrupt(session, executor, _waiting(left, executor), settings.jobs.detach)
            raise
        done = set(ran)
        for items in _parts(session, start):
            run_items(session, start, interrupts, [item for item in items if item not in done], settings.jobs.detach)
        with suppress(TakenOverError):  # reported at the session's end
            start.executor.count()
            _report_late(session, start.executor)  # before JUnit's file is written


def run_item(item: pytest.Item) -> Generator[None, object, object]:
    """Clear the screen for the row's line, and ensure that the row is reported."""
    clear_live(item.config)
    done = yield
    # There is no report if another plugin replaced its protocol.
    state = item.config.stash[SESSION]
    if isinstance(item, BaselineItem) and item.baseline.id in state.rows and item.nodeid not in state.counts:
        report_error(item, _replaced_hook_error("pytest_runtest_protocol"), "setup")
    return done


def make_report(item: BaselineItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Ensure that a row's report agrees with its record, and add the figures behind its outcome."""
    report.gsw_row = True  # type: ignore[attr-defined]
    hold_to_the_record(item, call, report)
    state = item.config.stash[SESSION]
    row = state.rows.get(item.baseline.id)
    if row is not None and row.record is not None:
        if report.when != "teardown" and not (report.when == "setup" and report.passed):
            report.duration = junit.run_seconds(row.record)
        if state.live is not None:
            state.live.add_row(row.record)
        failure_text.shorten_failure(report, row.judged[1], row_text.short_fact(row.record))
        report.gsw_record = row.record  # type: ignore[attr-defined]
        report.gsw_error_line = row.error_line  # type: ignore[attr-defined]
        report.gsw_status = outcomes.FAILED if row.judged[0] == "failed" else row.record.status  # type: ignore[attr-defined]


def finish(session: pytest.Session) -> None:
    """Cancel all jobs that still run: after -x, after Ctrl-C, after an internal error."""
    try:
        _finish(session)
    finally:
        if (lock := session.config.stash[SESSION].lock) is not None:
            lock.release()


def _finish(session: pytest.Session) -> None:
    config = session.config
    state = config.stash[SESSION]
    clear_live(config)
    if state.executor is not None:
        _close(session, state.executor)
    is_left = is_taken_over(state)
    for line in () if is_left else reversed(resume.left_over(session, state.executor)):
        config.add_cleanup(partial(write, config, line))  # below all that pytest writes
    _deliver_history(config)
    session.exitstatus = exit_status(session, state.counts)
    if is_left:
        return  # the report, the criterion and the end of the live file are the new owner's
    _conclude(session)
    if state.counts.rows:
        status = int(session.exitstatus)
        if not _report(config, status):
            _fail(session)
        if state.live is not None:
            state.live.end(state.counts.outcomes, status)


def _fail(session: pytest.Session) -> None:
    """Fail the session whatever its rows' outcomes; an interruption takes precedence."""
    if session.exitstatus in {outcomes.GREEN, outcomes.OPEN}:
        session.exitstatus = outcomes.FAILED


def _deliver_history(config: pytest.Config) -> None:
    """Deliver the session's records to the history."""
    session_history = config.stash[SESSION].history
    if session_history is None:
        return
    if session_history.problem:
        write(config, f"gsw: history unavailable, only tolerances were applied: {session_history.problem}")
    if session_history.not_kept:
        run = relative_path(config.stash[SESSION].settings.run_directory)
        write(config, f"gsw: records could not be kept for the history: {session_history.not_kept}")
        write(config, f"next: pytest-gsw history --add {run}")
    report_delivery(config, session_history)
    session_history.close()


def _report(config: pytest.Config, exit_status: int) -> bool:
    """Find the alarms of the run and write its report; True if all files were written."""
    settings = config.stash[SESSION].settings
    # A replay adds no run to the history.
    has_alarms = (
        settings.output.history is not None and settings.replay is None and bool(config.stash[SESSION].counts.outcomes)
    )
    is_on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    if not has_alarms and not is_on_github and settings.output.report is None:
        return True
    from pytest_gsw.session.session_report import report_run  # few sessions have a history or a report

    return report_run(config, exit_status, has_alarms=has_alarms, is_on_github=is_on_github)


def _conclude(session: pytest.Session) -> None:
    """With a suite or a plan of acceptance: apply its criteria; a session that misses one is not green."""
    config = session.config
    state = config.stash[SESSION]
    if state.settings.plan or config.option.collectonly or runs_nothing(config):
        return
    if state.suite is not None:
        concluded = state.suite.conclude(state.run_records())
    elif state.stages is not None and state.executor is not None:
        from pytest_gsw.acceptance.state import conclude  # few sessions have a plan

        concluded = conclude(state.stages.state(), state.run_records())
    else:
        return
    state.criterion = tuple(redact(concluded.lines, os.environ))
    if session.exitstatus in {outcomes.GREEN, outcomes.OPEN} and not concluded.is_met:
        session.exitstatus = outcomes.FAILED if concluded.is_missed else outcomes.OPEN


def _close(session: pytest.Session, executor: Executor) -> None:
    config = session.config
    try:
        cancelled = executor.close(detach=config.stash[SESSION].settings.jobs.detach)
    except TakenOverError as error:
        write(config, f"gsw: {error}")
        return
    except RunError as error:
        # Jobs that may still use GPU-hours make the session red, whatever its rows' outcomes.
        _fail(session)
        write(config, f"gsw: {error}")
    else:
        if cancelled:
            jobs = "1 job was" if cancelled == 1 else f"{cancelled} jobs were"
            write(config, f"gsw: {jobs} still pending or running, and cancelled")
    for stray in executor.rows.strays.values():
        _fail(session)
        write(config, f"gsw: a job of the run belongs to no row: {stray_text(stray)}")
    _report_late(session, executor)
    if executor.journal.problem:
        why = f"the run's journal could not be written: {executor.journal.problem}"
        write(config, f"gsw: {why}; a session that resumes this run would miss some of its jobs")


def _report_late(session: pytest.Session, executor: Executor) -> None:
    """Report rows that were reported before, and are errors by now."""
    for item in session.items:
        if isinstance(item, BaselineItem) and item.baseline.id in executor.rows.late:
            report_error(item, executor.rows.late.pop(item.baseline.id), "teardown")
