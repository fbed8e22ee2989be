"""pytest's hooks in a session that judges or collects rows; no other session imports this module.

The only long-lived object is the session's Fleet.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters.local import uses_gpus
from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import record_name
from pytest_gsw.session import judged, workers, xdist
from pytest_gsw.session.collect import BaselineFile, BaselineTables
from pytest_gsw.session.ending import add_json, leave_files, tell_summary
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.loop import handling_signals, interrupt_session, run_session
from pytest_gsw.session.lost import find_lost, not_taken_over, row_of
from pytest_gsw.session.node_ids import node_id_of
from pytest_gsw.session.resume import check_owner, leave_run
from pytest_gsw.session.screen import TALLY, Tally, clear_live, write
from pytest_gsw.session.selection import SELECTION, point_at_tables, table_of
from pytest_gsw.session.settings import Settings, read_settings
from pytest_gsw.session.start import (
    check_faults,
    make_launcher,
    make_spec,
    print_plan,
    recorded_rows,
    runnable,
    start_fleet,
    tell_delivery,
)
from pytest_gsw.session.stash import FLEET, NIGHTS, RECORD, SETTINGS

#: Set once all rows have run.
FINISHED = pytest.StashKey[bool]()
#: What ``--gsw-update-baseline`` has to say at the end.
PROPOSED = pytest.StashKey["tuple[str, ...]"]()


def begin(config: pytest.Config) -> None:
    """Check every option before anything is collected, and point pytest at the tables; once a session.

    Raises:
        pytest.UsageError: An option, the ini file or the cluster file is wrong.
    """
    if SETTINGS in config.stash:
        return
    try:
        settings = read_settings(config)
        check_owner(config, settings)
    except ConfigurationError as error:
        raise pytest.UsageError(quoted(str(error), os.environ)) from None
    config.stash[SETTINGS] = settings
    if settings.judges:
        config.stash[TALLY] = Tally(profiled_on_purpose=settings.profile is not None)
        config.pluginmanager.register(config.stash[TALLY], "gsw-tally")
        point_at_tables(config, settings.baselines)
        if config.getoption("verbose", None) == 0:
            # One line a row with its figures, as soon as it is judged; -q goes back to dots.
            config.option.verbose = 1


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Where rows run and where their records go."""
    settings = config.stash[SETTINGS]
    if not settings.judges:
        return []
    return [f"gsw: {_place(settings)}, run {settings.run_id}, results {settings.run_directory}"]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Under pytest-xdist, take signals before the first worker starts."""
    workers.take_signals(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Pause the garbage collector while tables alone are collected: it looks through all rows, and none is garbage."""
    if SELECTION not in session.config.stash or not gc.isenabled():
        return (yield)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> BaselineTables | None:
    """Collect the tables instead of the rootdir where they are what was asked for."""
    if SELECTION not in parent.config.stash or path != parent.config.rootpath:
        return None
    tables: BaselineTables = BaselineTables.from_parent(parent, path=path)
    return tables


def collect_table(file_path: Path, parent: pytest.Collector) -> BaselineFile | None:
    """Collect a YAML file that is a baseline table: below the baselines' directories, or named on the command line."""
    node_id = node_id_of(file_path, parent.config, parent.config.stash[SETTINGS].baselines)
    if node_id is None:
        return None
    file: BaselineFile = BaselineFile.from_parent(parent, path=file_path, nodeid=node_id)
    return file


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Of a run that is replayed or resumed, keep the rows that it had; those that are gone are errors."""
    _keep_rows_of_run(config, items)
    yield
    past = config.stash[SETTINGS].past
    if past is not None:
        lost = find_lost(session, past, [item.baseline.id for item in runnable(items)])
        gone = {item.nodeid for item in lost}
        items[:] = [*(item for item in items if item.nodeid not in gone), *lost]


def _keep_rows_of_run(config: pytest.Config, items: list[pytest.Item]) -> None:
    settings = config.stash[SETTINGS]
    recorded = recorded_rows(config)
    rows = [item for item in items if isinstance(item, BaselineItem)]
    if xdist.is_worker(config):
        # Its loop runs items in this order, not in that in which jobs end: the shortest first comes near it.
        items.sort(key=_expected_order)
    if recorded is not None:
        dropped = [item for item in rows if item.baseline.id not in recorded]
    elif settings.past is not None:
        rows_then = {row_of(node_id) for node_id in settings.past.rows}
        dropped = [item for item in rows if item.baseline.id not in rows_then]
    else:
        return
    if dropped:
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)


def _expected_order(item: pytest.Item) -> tuple[bool, float]:
    """Other tests first, in their order, then rows by the time that they are expected to take."""
    if not isinstance(item, BaselineItem):
        return False, 0.0
    return True, -1.0 if item.baseline.canary else expected_run_s(item.baseline) or math.inf


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """How much is about to run."""
    settings = config.stash[SETTINGS]
    if not settings.judges or config.getoption("verbose") < 0 or not any(isinstance(i, BaselineItem) for i in items):
        return []
    rows = runnable(items)
    count = counted(len(rows), "row")
    if settings.replay is not None:
        return [f"gsw: {count} to replay from {settings.replay}"]
    times_s = [(item.baseline.gpus, expected_run_s(item.baseline)) for item in rows]
    hours = settings.repeats.first * sum(gpus * run_s for gpus, run_s in times_s if run_s is not None) / 3600
    if settings.cluster is not None and settings.cluster.simulated:
        return [f"gsw: {count}, simulated on this machine"]
    return [f"gsw: {count}, about {hours:,.0f} GPU-hours by the documented step times"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make sure that a row's id means one row: jobs, logs and records are found by it."""
    seen: dict[str, BaselineItem] = {}
    for item in session.items:
        if isinstance(item, BaselineItem):
            other = seen.setdefault(item.baseline.id, item)
            if other is not item:
                raise pytest.UsageError(
                    f"two rows are called {item.baseline.id}:\n"
                    f"  {other.baseline.location}\n  {item.baseline.location}\n"
                    "next: give one of them a 'case' of its own, or select one of the files"
                )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Submit every selected row, run other tests meanwhile, then judge rows in the order in which their jobs end."""
    config = session.config
    settings = config.stash[SETTINGS]
    broken = session.testsfailed and not config.option.continue_on_collection_errors
    items = [item for item in session.items if isinstance(item, BaselineItem)]
    if not settings.judges or not items or broken or xdist.is_worker(config):
        return None
    check_faults(items, settings)
    if config.option.collectonly or judged.runs_nothing(config):
        return None
    if settings.plan:
        launcher = make_launcher(config, settings, {})
        rows = runnable(items)
        print_plan(session, rows, {item.baseline.id: make_spec(item, settings) for item in rows}, launcher)
        return True
    with handling_signals() as interrupts:
        try:
            fleet = start_fleet(session, settings)
        except KeyboardInterrupt:
            if FLEET in config.stash:
                interrupt_session(session, config.stash[FLEET], detach=settings.detach)
            raise
        run_session(session, fleet, interrupts, detach=settings.detach)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Make room for the row's line, and see that it is reported; where the loop is not ours, submit all rows first.

    A worker of pytest-xdist runs its items by a loop of its own, and so may another plugin.
    """
    clear_live(item.config)
    if not isinstance(item, BaselineItem):
        done = yield
    else:
        if FLEET not in item.config.stash and not judged.runs_nothing(item.config):
            _submit_in_a_foreign_loop(item.session)
        workers.wait_for(item)
        done = yield
        judged.report_swallowed(item)
    workers.stop_if_interrupted(item, nextitem)
    return done


def _submit_in_a_foreign_loop(session: pytest.Session) -> None:
    settings = session.config.stash[SETTINGS]
    if not settings.judges or settings.plan:
        return
    check_faults([row for row in session.items if isinstance(row, BaselineItem)], settings)
    start_fleet(session, settings)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Remember the rows that the workers of pytest-xdist have to judge."""
    xdist.note_rows(node.config, ids)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which run it is part of."""
    workers.add_worker(node)
    xdist.tell_worker(node, node.config.stash[SETTINGS].run_id)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All rows to one worker, so that each is submitted once."""
    return xdist.make_scheduler(config, log) if config.stash[SETTINGS].judges else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Say what a worker of pytest-xdist had to say at its end."""
    workers.drop_worker(node)
    for line in xdist.messages_of(node):
        write(node.config, line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End whatever still runs: after -x, after Ctrl-C, after an internal error."""
    try:
        _finish(session)
    finally:
        leave_run(session.config)
        workers.leave_signals(session.config)


def _finish(session: pytest.Session) -> None:
    config = session.config
    config.stash[FINISHED] = True
    clear_live(config)
    fleet = config.stash.get(FLEET, None)
    if fleet is not None:
        _close(session, fleet)
    for line in not_taken_over(session, fleet):
        write(config, line)
    _remember(config)
    _propose(config)
    tally = config.stash.get(TALLY, None)
    if tally is not None:
        session.exitstatus = judged.exit_status(session, tally)
    if not leave_files(config, int(session.exitstatus)):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


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


def _propose(config: pytest.Config) -> None:
    """With ``--gsw-update-baseline``: write the diff, once, from the records of all workers."""
    settings = config.stash[SETTINGS]
    ran = settings.judges and not (settings.plan or config.option.collectonly or judged.runs_nothing(config))
    if settings.update_baseline is None or not ran or xdist.is_worker(config):
        return
    # Few sessions ask for it.
    from pytest_gsw.session.update import update_baseline

    config.stash[PROPOSED] = update_baseline(
        settings.update_baseline,
        settings.run_directory,
        lambda name: table_of(name, config, settings.baselines),
        settings.max_gain,
    )


def _close(session: pytest.Session, fleet: Fleet) -> None:
    config = session.config
    try:
        cancelled = fleet.close(detach=config.stash[SETTINGS].detach)
    except RunError as error:
        # Jobs that may still burn GPU-hours are worth a red session, whatever its rows were.
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        write(config, f"gsw: {error}")
    else:
        if cancelled:
            jobs = "1 job was" if cancelled == 1 else f"{cancelled} jobs were"
            write(config, f"gsw: {jobs} still pending or running, and cancelled")
    if fleet.journal_problem:
        why = f"the run's journal could not be written: {fleet.journal_problem}"
        write(config, f"gsw: {why}; a session that resumes this run would not know all of its jobs")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See that a row's report says what its record says, and give it the figures that stand behind its outcome."""
    report = yield
    if not isinstance(item, BaselineItem):
        return report
    report.gsw_row = True  # type: ignore[attr-defined]
    judged.hold_to_the_record(item, call, report)
    record = item.stash.get(RECORD, None)
    if record is not None:
        add_json(item, record)
        report.gsw_fails = item.judged[0] == "failed" or record.outcome == ERROR.word  # type: ignore[attr-defined]
        # pytest-xdist hands these to the session that has the screen.
        vars(report).update(judged.facts_of(item, record))
        item.config.stash[TALLY].records[record_name(record.row.node_id)] = record
    return report


def pytest_report_teststatus(report: Any, config: pytest.Config) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """``PASSED`` and ``FAILED`` with the row's figures behind them, while the rows run."""
    headline = getattr(report, "gsw_headline", "")
    # pytest's short summary puts the same word in front of each id: there it is to be the bare outcome.
    if (
        not headline
        or config.stash.get(FINISHED, False)
        or report.when != "call"
        or report.outcome not in {"passed", "failed"}
    ):
        return None
    passed = report.outcome == "passed"
    word = f"{report.outcome.upper()} {headline}"
    return report.outcome, "." if passed else "F", (word, {"green" if passed else "red": True})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the night came to, what stands out, and that a simulation is one."""
    proposed: tuple[str, ...] = config.stash.get(PROPOSED, ())
    tell_summary(terminalreporter, config, proposed)


def _place(settings: Settings) -> str:
    """Cluster and scheduler in a few words."""
    cluster = settings.cluster
    if settings.replay is not None or cluster is None:
        return f"replay of {settings.replay}"
    units = "GPU" if uses_gpus(cluster) else "core"
    facts = [cluster.scheduler, cluster.accelerator, counted(cluster.gpus, units) if cluster.gpus else None]
    kind = "simulated" if cluster.simulated else ", ".join(fact for fact in facts if fact)
    return f"{cluster.name} ({kind})"
