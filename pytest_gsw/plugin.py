"""pytest's hooks, each a few lines. The only long-lived object is the session's Fleet."""

from __future__ import annotations

import dataclasses
import glob
import os
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import hookspecs
from pytest_gsw.demo.faults import parse_faults
from pytest_gsw.errors import ConfigurationError, RunError, SubmissionError
from pytest_gsw.fleet import Fleet, StateObserver, Ticker
from pytest_gsw.items import (
    FLEET,
    RECORD,
    SELECTION,
    SETTINGS,
    BaselineFile,
    BaselineItem,
    BaselineTables,
    Selection,
)
from pytest_gsw.jobs.environment import masked_command, masked_environment
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec, JobStatus, Launcher
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.replay import RecordedRun, ReplayLauncher
from pytest_gsw.jobs.slurm import SlurmLauncher
from pytest_gsw.jobs.spec import PROFILING_VARIABLES, expected_run_s, make_job_spec
from pytest_gsw.logs.formats import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.loop import run_session
from pytest_gsw.options import Settings, add_options, read_settings
from pytest_gsw.performance import peaks, verdict
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.results import terminal
from pytest_gsw.results.record import Record, read_records
from pytest_gsw.tables.clusters import Cluster
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.model import Baseline

#: Seconds between two lines that say where a waiting session stands.
HEARTBEAT_S = 240.0

#: Set once all rows have run.
FINISHED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gsw-*`` and their ini twins."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of docs/hooks.md."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Check every option before anything is collected, and point pytest at the tables."""
    config.addinivalue_line(
        "markers",
        "gsw(workload, model, size, framework, dtype, accelerator, gpus, nodes, …): the facts of a documented "
        "row, to select by: -m \"gsw(gpus=64, dtype='fp8')\"",
    )
    config.addinivalue_line("markers", "proxy: the row is a smaller stand-in for the full model")
    try:
        settings = read_settings(config)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SETTINGS] = settings
    if settings.judges:
        _point_at_tables(config, settings.baselines)
        if config.getoption("verbose", None) == 0:
            # One line a row with its figures, as soon as it is judged; -q goes back to dots.
            config.option.verbose = 1


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Where rows run and where their records go."""
    settings = config.stash[SETTINGS]
    if not settings.judges:
        return []
    return [f"gsw: {_place(settings)}, run {settings.run_id}, results {settings.run_directory}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> BaselineTables | None:
    """Collect the tables instead of the rootdir where they are what was asked for."""
    if SELECTION not in parent.config.stash or path != parent.config.rootpath:
        return None
    tables: BaselineTables = BaselineTables.from_parent(parent, path=path)
    return tables


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> BaselineFile | None:
    """Collect baseline tables: YAML files below the baselines' directories, or named on the command line."""
    if file_path.suffix not in {".yaml", ".yml"}:
        return None
    node_id = _node_id(file_path, parent.config)
    if node_id is None:
        return None
    file: BaselineFile = BaselineFile.from_parent(parent, path=file_path, nodeid=node_id)
    return file


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a run that is replayed or resumed, keep the rows that it had."""
    settings = config.stash[SETTINGS]
    recorded = _recorded(settings)
    rows = [item for item in items if isinstance(item, BaselineItem)]
    if recorded is not None:
        dropped = [item for item in rows if item.baseline.id not in recorded]
    elif settings.past is not None:
        dropped = [item for item in rows if item.nodeid not in settings.past.rows]
    else:
        return
    if dropped:
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """How much is about to run."""
    settings = config.stash[SETTINGS]
    rows = _runnable(items, settings)
    if not settings.judges or config.getoption("verbose") < 0 or not any(isinstance(i, BaselineItem) for i in items):
        return []
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    if settings.replay is not None:
        return [f"gsw: {count} to replay from {settings.replay}"]
    times_s = [(item.baseline.gpus, expected_run_s(item.baseline)) for item in rows]
    hours = sum(gpus * run_s for gpus, run_s in times_s if run_s is not None) / 3600
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


def _check_faults(items: list[BaselineItem], settings: Settings) -> None:
    """Make sure that every fault of ``--gsw-demo`` is some row's: a row that is not broken looks healthy."""
    for fault in parse_faults(settings.demo):
        if not any(fault.matches(item.baseline.id) for item in items):
            raise pytest.UsageError(f"--gsw-demo: no selected row matches '{fault.pattern}'")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Submit every selected row, run other tests meanwhile, then judge rows in the order in which their jobs end."""
    config = session.config
    settings = config.stash[SETTINGS]
    broken = session.testsfailed and not config.option.continue_on_collection_errors
    dry = config.option.collectonly or config.option.setuponly or config.option.setupplan
    items = [item for item in session.items if isinstance(item, BaselineItem)]
    if not settings.judges or not items or broken:
        return None
    _check_faults(items, settings)
    rows = _runnable(items, settings)
    recorded = _recorded(settings) or {}
    launcher = _launcher(config, settings, recorded)
    submits = not dry and not settings.plan and settings.replay is None
    try:
        if not dry and not settings.plan:
            settings.run_directory.mkdir(parents=True, exist_ok=True)
        journal = Journal(settings.run_directory) if submits else None
    except OSError as error:
        raise pytest.UsageError(
            f"the results cannot be written to {settings.run_directory}: {error.strerror}\n"
            "next: give another directory with --gsw-results=DIR"
        ) from None
    poll_interval_s = settings.poll_interval_s or launcher.poll_interval_s
    fleet = Fleet(
        launcher, poll_interval_s, _observer(config, rows), journal, settings.limits, ticker=_heartbeat(config)
    )
    config.stash[FLEET] = fleet
    if dry:
        return None
    specs = {item.baseline.id: _spec(item, settings) for item in rows}
    for item in rows:
        spec = specs[item.baseline.id]
        item.spec = spec if isinstance(spec, JobSpec) else None
        item.recorded = recorded.get(item.baseline.id)
    if settings.plan:
        _print_plan(session, rows, specs, launcher)
        return True
    if journal is not None and settings.cluster is not None:
        journal.session(settings.cluster.name, [item.nodeid for item in rows])
    _attach(fleet, settings, specs)
    weights = {item.baseline.id: _gpu_seconds(item.baseline) for item in rows}
    fleet.submit(dict(sorted(specs.items(), key=lambda pair: weights[pair[0]], reverse=True)))
    run_session(session, fleet, detach=settings.detach)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End whatever still runs: after -x, after Ctrl-C, after an internal error."""
    config = session.config
    config.stash[FINISHED] = True
    fleet = config.stash.get(FLEET, None)
    if fleet is None:
        return
    try:
        cancelled = fleet.close(detach=config.stash[SETTINGS].detach)
    except RunError as error:
        # Jobs that may still burn GPU-hours are worth a red session, whatever its rows were.
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        _write(config, f"gsw: {error}")
    else:
        if cancelled:
            jobs = "1 job was" if cancelled == 1 else f"{cancelled} jobs were"
            _write(config, f"gsw: {jobs} still pending or running, and cancelled")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report of a row the figures that stand behind its outcome on the screen."""
    report = yield
    record = item.stash.get(RECORD, None)
    if record is not None:
        report.gsw_outcome = record.outcome  # type: ignore[attr-defined]
        report.gsw_headline = terminal.headline(record)  # type: ignore[attr-defined]
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
    """Say what stands out among the rows that passed, and that a simulation is one."""
    settings = config.stash[SETTINGS]
    improved = [r for r in terminalreporter.getreports("passed") if getattr(r, "gsw_outcome", "") == "improved"]
    if improved:
        terminalreporter.section("faster than documented")
        for report in improved:
            terminalreporter.write_line(f"{report.nodeid}  {report.gsw_headline}")
        terminalreporter.write_line(
            "These rows passed. If the gain stays, a tighter baseline keeps it; --gsw-strict makes such rows fail."
        )
    if settings.cluster is not None and settings.cluster.simulated and config.getoption("verbose") >= 0:
        terminalreporter.section("simulation")
        terminalreporter.write_line("The cluster 'demo' is simulated: no GPU was used, and its figures say nothing.")


@pytest.hookimpl(trylast=True)
def pytest_gsw_make_launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """The launchers that come with pytest-gsw."""
    if cluster.scheduler == "slurm":
        return SlurmLauncher(lock=SubmissionLock(run_directory.name))
    if cluster.scheduler == "local":
        slots = cluster.gpus or len(glob.glob("/dev/nvidia[0-9]*"))
        return LocalLauncher(slots, work_directory=run_directory / "batch", real_gpus=not cluster.simulated)
    return None


@pytest.hookimpl(trylast=True)
def pytest_gsw_make_job_spec(config: pytest.Config, baseline: Baseline, cluster: Cluster) -> JobSpec:
    """The recipe's own launch contract."""
    settings = config.stash[SETTINGS]
    return make_job_spec(
        baseline, cluster, run_id=settings.run_id, profile=settings.profile, time_limit_s=settings.time_limit_s
    )


@pytest.hookimpl(trylast=True)
def pytest_gsw_log_format(config: pytest.Config, baseline: Baseline) -> LogFormat | None:
    """The log formats that come with pytest-gsw."""
    return FORMATS.get(baseline.log_format)


@pytest.hookimpl(trylast=True)
def pytest_gsw_peak_flops(config: pytest.Config, accelerator: str, dtype: str) -> float | None:
    """The table of peaks in :mod:`pytest_gsw.performance.peaks`."""
    return peaks.peak_flops(accelerator, dtype)


@pytest.hookimpl(trylast=True)
def pytest_gsw_judge(
    config: pytest.Config, baseline: Baseline, measurement: Measurement, tolerance: float
) -> verdict.Verdict:
    """A fixed tolerance on throughput."""
    return verdict.judge(baseline, measurement, tolerance)


def _point_at_tables(config: pytest.Config, roots: tuple[Path, ...]) -> None:
    """Let pytest collect the tables: all without a path, else those that node ids such as ``baselines/…`` name."""
    tables = _tables(config, roots)
    given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    named = [argument.partition("::") for argument in given]
    if any(_is_path(name, config) for name, _, _ in named):
        # Real paths are among them: pytest's own way, with the tables' real places.
        config.args = [f"{tables.get(name, name)}{separator}{row}" for name, separator, row in named]
        return
    files = tables
    if given:
        chosen = [_tables_named(name, tables) for name, _, _ in named]
        files = {node_id: path for found in chosen for node_id, path in found.items()}
    rows = {name: frozenset(row for other, _, row in named if other == name) for name, _, row in named if row}
    whole = {name for name, _, row in named if not row}
    selection = Selection(files, {name: ids for name, ids in rows.items() if name not in whole})
    _check_rows(selection)
    config.stash[SELECTION] = selection
    config.args = [str(config.rootpath)]


def _is_path(name: str, config: pytest.Config) -> bool:
    return (config.invocation_params.dir / name).exists()


def _tables(config: pytest.Config, roots: tuple[Path, ...]) -> dict[str, Path]:
    """Every table below the baselines' directories, by node id."""
    tables: dict[str, Path] = {}
    for root in roots:
        for path in table_files(root):
            node_id = _node_id_below(path, root, config.rootpath)
            if node_id in tables:
                raise pytest.UsageError(
                    f"--gsw-baselines: {tables[node_id]} and {path} have the same name, {node_id}; rename one directory"
                )
            tables[node_id] = path
    return tables


def _tables_named(name: str, tables: dict[str, Path]) -> dict[str, Path]:
    """The tables that an argument names: one of them, or all below a directory such as ``baselines/nemo``."""
    prefix = name.rstrip("/") + "/"
    found = {node_id: path for node_id, path in tables.items() if node_id == name or node_id.startswith(prefix)}
    if not found:
        raise pytest.UsageError(f"file or directory not found: {name}{nearest(name, tables)}")
    return found


def _check_rows(selection: Selection) -> None:
    """Make sure that every row that was named is there, as pytest does for other node ids."""
    for node_id, wanted in selection.rows.items():
        try:
            there = {row.id for row in load_table(selection.files[node_id])}
        except ConfigurationError:
            continue  # the collection reports the file's faults
        for row in sorted(wanted - there):
            raise pytest.UsageError(f"not found: {node_id}::{row}{nearest(row, there)}")


def _node_id_below(path: Path, root: Path, rootpath: Path) -> str:
    """A table's node id: its path from the rootdir, as everywhere in pytest.

    Tables that stand elsewhere (the bundled ones of an installed package) are named from
    their own directory, so that ids are the same on every machine.
    """
    inside = path.is_relative_to(rootpath) and "site-packages" not in path.parts
    return path.relative_to(rootpath if inside else root.parent).as_posix()


def _node_id(path: Path, config: pytest.Config) -> str | None:
    """The node id of a baseline file that pytest comes across, or ``None`` for any other YAML file."""
    for root in config.stash[SETTINGS].baselines:
        if path == root or root in path.parents:
            return _node_id_below(path, root, config.rootpath)
    named = {argument.partition("::")[0] for argument in config.args}
    if any((config.invocation_params.dir / name) == path for name in named):
        return _node_id_below(path, path, config.rootpath)
    return None


def _place(settings: Settings) -> str:
    """Cluster and scheduler in a few words."""
    cluster = settings.cluster
    if settings.replay is not None or cluster is None:
        return f"replay of {settings.replay}"
    facts = [cluster.scheduler, cluster.accelerator, f"{cluster.gpus} GPUs" if cluster.gpus else None]
    kind = "simulated" if cluster.simulated else ", ".join(fact for fact in facts if fact)
    return f"{cluster.name} ({kind})"


def _runnable(items: Iterable[pytest.Item], settings: Settings) -> list[BaselineItem]:
    """The rows that are to run: neither this plugin nor anybody else has marked them as skipped."""
    rows = [item for item in items if isinstance(item, BaselineItem)]
    return [row for row in rows if row.get_closest_marker("skip") is None]


def _recorded(settings: Settings) -> dict[str, Record] | None:
    """What a replayed run's directory recorded, by row; ``None`` if it is no such directory."""
    if settings.replay is None or not (settings.replay / "records").is_dir():
        return None
    try:
        records = read_records(settings.replay)
    except ValueError as error:
        raise pytest.UsageError(f"--gsw-replay: {error}") from None
    return {record.row: record for record in records if record.job is not None}


def _launcher(config: pytest.Config, settings: Settings, recorded: dict[str, Record]) -> Launcher:
    if settings.replay is not None:
        runs = {
            row: RecordedRun(Path(record.log) if record.log else None, record.job.id, record.job.status)
            for row, record in recorded.items()
            if record.job is not None
        }
        return ReplayLauncher(settings.replay, recorded=runs)
    launcher: Launcher | None = config.hook.pytest_gsw_make_launcher(
        config=config, cluster=settings.cluster, run_directory=settings.run_directory
    )
    if launcher is None:
        assert settings.cluster is not None
        raise pytest.UsageError(
            f"nobody launches jobs for the scheduler '{settings.cluster.scheduler}' of cluster "
            f"'{settings.cluster.name}' ({settings.cluster.path}); known: slurm, local"
        )
    return launcher


def _observer(config: pytest.Config, rows: list[BaselineItem]) -> StateObserver:
    baselines = {row.baseline.id: row.baseline for row in rows}

    def observe(row_id: str, job_id: str, status: JobStatus) -> None:
        config.hook.pytest_gsw_job_state_changed(
            config=config, baseline=baselines[row_id], job_id=job_id, status=status
        )

    return observe


def _gpu_seconds(baseline: Baseline) -> float:
    """What a row is expected to take, for the order of submission; one whose time nobody knows counts its GPUs."""
    return baseline.gpus * (expected_run_s(baseline) or 1.0)


def _attach(fleet: Fleet, settings: Settings, specs: dict[str, JobSpec | RunError]) -> None:
    """Of a session that is resumed: take its jobs over, so that only the rest is submitted."""
    submissions = settings.past.submissions if settings.past else {}
    for row_id, submission in submissions.items():
        spec = specs.get(row_id)
        if not isinstance(spec, JobSpec):
            continue
        if submission.job_id is None:
            # The answer of this submission was never read. The job may be there all the same.
            try:
                job = fleet.launcher.find(spec, submission.intended_s)
            except RunError as error:
                specs[row_id] = error
                continue
        else:
            job = Job(submission.job_id, spec, submission.intended_s)
        if job is not None and (submission.ended is not None or fleet.launcher.jobs_outlive_session):
            fleet.attach(job, submission.ended)
            del specs[row_id]


def _heartbeat(config: pytest.Config) -> Ticker:
    """A line every few minutes, because CI servers end builds that are silent; none with -q or without a terminal."""
    last_s = time.monotonic()

    def beat(fleet: Fleet) -> None:
        nonlocal last_s
        if config.getoption("verbose", -1) >= 0 and time.monotonic() - last_s >= HEARTBEAT_S:
            last_s = time.monotonic()
            _write(config, terminal.heartbeat(fleet.statuses()))

    return beat


def _spec(item: BaselineItem, settings: Settings) -> JobSpec | RunError:
    """How a row is started, or why it cannot be."""
    try:
        spec: JobSpec | None = item.config.hook.pytest_gsw_make_job_spec(
            config=item.config, baseline=item.baseline, cluster=settings.cluster or Cluster("replay", "replay")
        )
    except RunError as error:
        return error
    if not isinstance(spec, JobSpec):
        return SubmissionError(f"an implementation of pytest_gsw_make_job_spec returned {spec!r}, which is no JobSpec")
    if item.config.hook.pytest_gsw_log_format(config=item.config, baseline=item.baseline) is None:
        return SubmissionError(
            f"nobody reads logs of the format '{item.baseline.log_format}'{nearest(item.baseline.log_format, FORMATS)}",
            evidence=(("baseline", str(item.baseline.location)), ("known", ", ".join(sorted(FORMATS)))),
            advice="correct log_format (or framework) there, or install the plugin that provides it",
        )
    # What the session's environment hands on is part of how the job is started.
    handed_on = {name: os.environ[name] for name in PROFILING_VARIABLES if name in os.environ}
    return dataclasses.replace(spec, environment={**handed_on, **spec.environment})


def _print_plan(
    session: pytest.Session, rows: list[BaselineItem], specs: dict[str, JobSpec | RunError], launcher: Launcher
) -> None:
    planned = []
    skipped = [
        (item.nodeid, str(marker.kwargs.get("reason", "marked as skipped")))
        for item in session.items
        if (marker := item.get_closest_marker("skip")) is not None and isinstance(item, BaselineItem)
    ]
    for item in rows:
        spec = specs[item.baseline.id]
        if isinstance(spec, RunError):
            skipped.append((item.nodeid, spec.fact))
            continue
        run_s = expected_run_s(item.baseline)
        planned.append(
            {
                "node_id": item.nodeid,
                "gpus": spec.gpus,
                "nodes": spec.nodes,
                "minutes": None if run_s is None else run_s / 60,
                "directory": spec.directory,
                "command": terminal.command(*masked_command(launcher.command(spec))),
                "environment": masked_environment(spec.environment),
                "log": spec.stage / spec.log_glob,
            }
        )
    for line in terminal.plan_text(planned, skipped):
        _write(session.config, line)


def _write(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(line)
    else:
        sys.stdout.write(f"{line}\n")
