"""pytest's hooks in a session that judges or collects rows; no other session imports this module.

:mod:`pytest_gsw.session.runner`, which needs the executor, is imported only if rows run, not for collection.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from pytest_gsw.clusters import uses_gpus
from pytest_gsw.common.process import collector_paused
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session import collect, failure_text, node_ids, pytest_private, release_choice, selection, tiles
from pytest_gsw.session.settings import Settings, read_settings
from pytest_gsw.session.state import SESSION, Session
from pytest_gsw.tables import bundled, release_rows
from pytest_gsw.tables.model import rows_text

#: The name of the plugin that receives reports; a session that only collects rows has none.
_REPORTS = "gsw-reports"


def begin(config: pytest.Config) -> None:
    """Check every option before anything is collected, and give pytest the tables; once a session.

    Raises:
        pytest.UsageError: An option, the ini file or the cluster file is invalid.
    """
    if SESSION in config.stash:
        return
    try:
        settings = read_settings(config)
        suite = None
        if settings.suite is not None:
            from pytest_gsw.session.hook_results import ask_for_suite  # few sessions have a suite

            tables = settings.baselines if settings.are_tables_named else ()
            suite = ask_for_suite(config, settings.suite, settings.cluster, tables)
    except ConfigurationError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
    config.stash[SESSION] = Session(settings, suite)
    if not config.option.collectonly or settings.past is not None:
        from pytest_gsw.session.reports import Reports

        config.pluginmanager.register(Reports(config), _REPORTS)
    if settings.judges:
        if pytest_private.turn_off_xdist(config):  # all jobs run in parallel in any case
            line = "gsw: -n is left out: one process submits all rows, whose jobs run side by side"
            config.stash[SESSION].notes.append(line)
        if getattr(config.option, "allure_report_dir", None) or getattr(config.option, "htmlpath", None):
            from pytest_gsw.session.junit_file import add_reporters

            add_reporters(config)
        collect.point_at_tables(config, settings.baselines)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The place of rows and of their records."""
    settings = config.stash[SESSION].settings
    if not settings.judges:
        return []
    lines = [f"gsw: {_place(settings)}, run {settings.run_id}, results {settings.run_directory}"]
    cluster, is_bundled = settings.cluster, settings.baselines[0].is_relative_to(bundled.bundled_baselines())
    if cluster is not None and cluster.accelerator is not None and is_bundled and not config.option.file_or_dir:
        figures = f"release {settings.release}" if settings.release else "the documents' own"
        has_some = settings.release or "" in release_rows.releases_for(cluster.accelerator)
        lines += [f"gsw: figures: {figures}"] if has_some else []
        lines.append(f"gsw: {release_choice.bundled_rows(cluster, None)[0]}")
    history = settings.output.history
    if isinstance(history, Path) and not history.parent.exists() and history.parent != settings.output.results:
        lines.append(f"gsw: the history {history} is a new one: its directory is not there, and is made")
    if settings.past is not None:
        from pytest_gsw.session.resume import resume_summary

        lines.append(resume_summary(settings.run_directory, settings.past))
        lines += [f"gsw: {line}" for line in settings.changed_since]
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Find the tiles of rows; pause the garbage collector while only tables are collected: it takes a quarter."""
    state = session.config.stash[SESSION]
    settings = state.settings
    if settings.tile is not None and settings.past is None and settings.replay is None:
        state.tiling = tiles.ask_tiling(settings.cluster, *settings.tile, state.environ)
    if settings.acceptance is not None and settings.cluster is not None:
        from pytest_gsw.session.stages import stages_of  # few sessions have a plan

        state.stages = stages_of(settings.acceptance, settings.cluster, settings.run_directory, state.environ)
    if state.tables is None:
        return (yield)
    with collector_paused():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> collect.BaselineTables | None:
    """Collect the tables instead of the rootdir if only they are requested."""
    if parent.config.stash[SESSION].tables is None or path != parent.config.rootpath:
        return None
    tables: collect.BaselineTables = collect.BaselineTables.from_parent(parent, path=path)
    return tables


def collect_table(file_path: Path, parent: pytest.Collector) -> collect.BaselineFile | None:
    """Collect a YAML file that is a baseline table: below the baselines' directories, or named on the command line."""
    node_id = node_ids.node_id_of(file_path, parent.config, parent.config.stash[SESSION].settings.baselines)
    if node_id is None:
        return None
    file: collect.BaselineFile = collect.BaselineFile.from_parent(parent, path=file_path, nodeid=node_id)
    return file


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Keep the rows of the run that is replayed or resumed; rows that are gone become errors."""
    state = config.stash[SESSION]
    past = state.run_before
    if state.stages is not None and not session.testsfailed:  # else a table's fault is the reason
        try:
            state.stages.check()
        except ConfigurationError as error:
            raise pytest.UsageError(redact(str(error), os.environ)) from None
    if past is not None:
        had = set(past.row_ids)
        rows = (item for item in items if isinstance(item, (collect.BaselineItem, collect.BlankItem)))
        selection.deselect(config, items, [item for item in rows if item.name not in had])
    there = items[:]
    try:
        yield
    except pytest.UsageError as error:
        step = "close, join by and, or, not, and quote it: -k 'llama2_70b and (fp8 or bf16)'"
        if "'-m'" in str(error):
            step = "compare by = with texts in quotes: -m \"gsw(gpus=64, dtype='fp8')\""
        raise pytest.UsageError(f"{error}\nnext: {step}" if "Wrong expression" in str(error) else str(error)) from None
    if not items:
        state.notes += selection.none_selected(session, there)
    selection.leave_out_others(config, items)
    selection.leave_out_unfit(config, items)
    if state.settings.judges:
        state.notes += _reruns_text(config, items)
    if past is not None:
        from pytest_gsw.session.resume import find_lost

        ids = [item.name for item in (*selection.runnable(items), *collect.blank_rows(items))]
        lost = find_lost(session, past, ids)
        gone = {item.nodeid for item in lost}
        items[:] = [*(item for item in items if item.nodeid not in gone), *lost]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """The number of rows to run, and the selection of a suite."""
    state = config.stash[SESSION]
    suite = state.suite
    lines = [] if suite is None or config.getoption("verbose") < 0 else [f"gsw: {line}" for line in suite.heading()]
    return [*lines, *state.notes, *_rows_text(config, items)]


def _rows_text(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    settings = config.stash[SESSION].settings
    blanks = collect.blank_rows(items)
    there = blanks or any(isinstance(i, collect.BaselineItem) for i in items)
    if not settings.judges or config.getoption("verbose") < 0 or not there:
        return []
    rows = selection.runnable(items)
    count = rows_text([item.baseline.id for item in rows])
    it = "it" if len(blanks) == 1 else "them"
    more = f"; {plural(len(blanks), 'more row')} cannot run: something of {it} is blank" if blanks else ""
    if settings.replay is not None:
        which = ", of each the newest job that completed" if settings.replay.takes_newest else ""
        return [f"gsw: {count} to replay from {settings.replay.place}{which}{more}"]
    from pytest_gsw.jobs.spec import estimate_text

    assert settings.cluster is not None  # else nothing is judged
    on_tiles = tiles.tiles_text(settings, config.stash[SESSION].tiling, [item.baseline for item in rows])
    cost = (
        "simulated on this machine"
        if settings.cluster.simulated
        else estimate_text((item.baseline, settings.judging.repeats.first) for item in rows)
    )
    return [*on_tiles, f"gsw: {count}, {cost}{more}"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check that a row's id is unique: jobs, logs and records are found by it; freeze a session of rows alone."""
    seen: dict[str, collect.BaselineItem] = {}
    for item in session.items:
        if isinstance(item, collect.BaselineItem):
            other = seen.setdefault(item.baseline.id, item)
            if other is not item:
                raise pytest.UsageError(
                    f"two rows are called {item.baseline.id}:\n"
                    f"  {other.baseline.location}\n  {item.baseline.location}\n"
                    "next: give one of them a 'case' of its own, or select one of the files"
                )
    # A session of rows alone leaves no garbage, nor does what it makes until its end: it is a quarter faster without a
    # search for it. Frozen objects are of an earlier session in this process, or of code that relies on it.
    if seen and len(seen) == len(session.items) and not gc.get_freeze_count():
        gc.freeze()
        session.config.add_cleanup(gc.freeze)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the rows in the order in which their jobs end."""
    config = session.config
    settings = config.stash[SESSION].settings
    broken = session.testsfailed and not config.option.continue_on_collection_errors
    items = [item for item in session.items if isinstance(item, collect.BaselineItem)]
    is_plan = settings.plan and bool(collect.blank_rows(session.items))
    if not settings.judges or not (items or is_plan) or broken:
        return None
    selection.check_faults(items, settings)
    selection.check_release(items, settings)
    if config.option.collectonly or collect.runs_nothing(config):
        return None
    from pytest_gsw.session.runner import run_rows

    run_rows(session)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Clear the screen for a row's line, and ensure that it is reported."""
    if not _runs(item.config):
        return (yield)
    from pytest_gsw.session.runner import run_item

    return (yield from run_item(item))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Cancel all jobs that still run: after -x, after Ctrl-C, after an internal error."""
    if _runs(session.config) or session.config.stash[SESSION].settings.past is not None:
        from pytest_gsw.session.runner import finish

        finish(session)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Ensure that a row's report agrees with its record."""
    report = yield
    if _runs(item.config):
        _match_record(item, call, report)
    if getattr(item.config.option, "xmlpath", None) and isinstance(item, failure_text.OneLineFailure):
        from pytest_gsw.session.junit_file import name_case

        name_case(item, report)
    return report


def _match_record(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    if isinstance(item, failure_text.OneLineFailure):
        failure_text.show_fact(item, call, report)
        report.duration = 0.0  # the time of a row is that of its job
    if type(item) is collect.BlankItem:
        report.gsw_row = True  # type: ignore[attr-defined]
    if isinstance(item, collect.BaselineItem):
        from pytest_gsw.session.runner import make_report

        make_report(item, call, report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the outcome of the run and its anomalies, and mark a simulation."""
    if config.pluginmanager.has_plugin(_REPORTS):
        from pytest_gsw.session.terminal import report_summary

        report_summary(terminalreporter, config)


def _runs(config: pytest.Config) -> bool:
    """True if the session runs or replays rows, if it finds any."""
    return config.stash[SESSION].settings.judges and not config.option.collectonly


def _place(settings: Settings) -> str:
    """Cluster and scheduler in a few words."""
    cluster = settings.cluster
    if settings.replay is not None:
        return f"replay of {settings.replay.place}"
    assert cluster is not None  # else nothing is judged
    units = "GPU" if uses_gpus(cluster) else "core"
    host = cluster.submission.host
    scheduler = f"{cluster.scheduler} by way of {host}" if host else cluster.scheduler
    facts = [scheduler, cluster.accelerator, plural(cluster.gpus, units) if cluster.gpus else None]
    kind = "simulated" if cluster.simulated else ", ".join(fact for fact in facts if fact)
    return f"{cluster.name} ({kind})"


_RUN_ONCE = (
    "gsw: pytest-rerunfailures runs no row again, which would judge the same job once more; "
    "--gsw-confirm=N runs further jobs of a row that is too slow"
)


def _reruns_text(config: pytest.Config, items: Iterable[pytest.Item]) -> list[str]:
    """A line that no row is rerun, if the user requests reruns."""
    rows = [item for item in items if isinstance(item, (collect.BaselineItem, collect.BlankItem))]
    if not rows or not config.pluginmanager.has_plugin(collect.RERUNS):
        return []
    wanted = any(getattr(config.option, name, None) for name in ("reruns", "force_reruns")) or config.getini("reruns")
    return [_RUN_ONCE] if wanted or any(row.get_closest_marker("flaky") for row in rows) else []
