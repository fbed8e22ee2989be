"""From the selected rows to an executor that runs them: launcher, journal, job specs, an earlier session's jobs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.clusters import Cluster, keys_error
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import command, plural
from pytest_gsw.errors import ConfigurationError, InvalidHookResultError, RunError, SubmissionError, TakenOverError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.phases import Finished, StateObserver
from pytest_gsw.executor.progress_monitor import Watch
from pytest_gsw.history.database import SESSION_WAIT_S, WaitBudget
from pytest_gsw.history.location import open_history
from pytest_gsw.hook_checks import hook_error
from pytest_gsw.jobs import layout, scripts
from pytest_gsw.jobs import spec as job_specs
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.journal import Submission as JobSubmission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import Match
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.preflight import release_files
from pytest_gsw.jobs.replay import RECIPE, RecordedRun, ReplayLauncher, left_out_lines
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results.plan_text import plan_text
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.results.run_progress import NAME as PROGRESS
from pytest_gsw.session import hook_results, junit_file, newest_log, preflight, progress, resume, selection, tiles
from pytest_gsw.session.collect import BaselineItem, blank_rows
from pytest_gsw.session.live_file import LiveFile
from pytest_gsw.session.row import EnduranceRow, SessionRow, Shared, TileRow
from pytest_gsw.session.row_plan import RowPlan, plan_for
from pytest_gsw.session.row_source import LiveRow, ReplayedRow, RowSource
from pytest_gsw.session.screen import write
from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.stats.decision import Done
from pytest_gsw.tables.model import Baseline, accepted_to_expect, definition_hash, image_name
from pytest_gsw.tables.value_types import nearest
from pytest_gsw.validation import matching, measure

if TYPE_CHECKING:
    from pytest_gsw.session.node_probes import NodeProbes


@dataclass(frozen=True)
class Start:
    """A session's executor before any submission: it has only the rows that cannot be submitted."""

    executor: Executor
    #: The rows that cannot be submitted, in the order of the session.
    unready: Sequence[BaselineItem]
    #: The jobs of all other rows, in the order of submission, and their submissions by an earlier session.
    ready: dict[str, JobSpec | RunError]
    taken: Mapping[str, JobSubmission]
    #: What the rows share, those of the search, too.
    shared: Shared

    def submit(self, row_ids: Collection[str]) -> None:
        """Submit these rows; a session that has lost the run to another one finds that out by its rows."""
        with suppress(TakenOverError):
            self.executor.submit({row_id: spec for row_id, spec in self.ready.items() if row_id in row_ids}, self.taken)


def plan_rows(session: pytest.Session, settings: Settings) -> Start:
    """Check every selected row, or take over an earlier session's jobs; nothing is submitted yet."""
    config = session.config
    state, rows = config.stash[SESSION], selection.runnable(session.items)
    # Other rows of a replayed run are errors: they have no job.
    recorded = {name: one for name, one in (state.recorded or {}).items() if one.jobs.last is not None}
    by_row = state.rows
    launcher = make_launcher(config, settings, recorded, by_row, [item.baseline for item in rows])
    submits = settings.replay is None
    past, journal = resume.own_run(state, partial(write, config))
    state.history = history = _session_history(settings)
    report_delivery(config, history)  # of records that an earlier session could not deliver
    environ = state.environ
    state.probes = probes = _node_probes(config, settings, launcher, environ)
    state.executor = executor = Executor(
        launcher,
        settings.jobs.poll_interval_s or launcher.poll_interval_s,
        _observer(config, by_row),
        journal,
        settings.jobs.limits,
        ticker=progress.make_ticker(config, lambda row_id: by_row[row_id].plan),
        watcher=(lambda row_id: _watch(by_row[row_id], settings, environ)) if submits else None,
        retries=settings.jobs.retries if submits else 0,
        decide=(lambda row_id, run: by_row[row_id].decide(run)) if submits else (lambda *_: Done()),
        check=(lambda row_id, run: by_row[row_id].jobs.check(run)) if submits else None,
        on_repeat=progress.repeat_reporter(config),
        on_look=lambda job, status, sample: (
            by_row[job.spec.row_id].time_over(job, status) or (probes.look(job, status, sample) if probes else None)
        ),
        environ=environ,
    )
    _survey_recipes(rows, settings)
    plans = make_plans(rows, settings)
    if isinstance(launcher, ReplayLauncher) and state.recorded is None and not selection.are_rows_named(config):
        rows = _rows_with_logs(session, rows, plans, launcher)
    state.peers = peers = _cluster_peers(executor, settings, rows, history)
    shared = Shared(settings, executor, history, peers, state.counts.records, state.probes, lambda: state.sweep)
    specs = {item.baseline.id: plans[item.baseline.id].spec for item in rows}
    for item in rows:
        row_id = item.baseline.id
        source: RowSource = LiveRow(item.baseline, settings, launcher, environ)
        if row_id in recorded:
            source = ReplayedRow(item.baseline, settings.cluster, recorded[row_id])
        kind = EnduranceRow if item.for_s is not None else TileRow if item.baseline.tile else SessionRow
        by_row[row_id] = kind(config, plans[row_id], source, item.user_properties, shared)
    _note_rows(config, journal, [*rows, *blank_rows(session.items)])
    if state.left_alone:
        write(config, state.left_alone)
    taken = resume.take_over(executor, past, specs, partial(write, config))
    # A submission whose answer was lost may have a job already, whatever is wrong by now.
    new = [item for item in rows if item.baseline.id not in taken or not taken[item.baseline.id].intended_s]
    unready_rows = preflight.check_rows(new, specs, launcher, settings, environ)
    specs |= {row_id: error.with_texts(_cluster_of(settings).shown) for row_id, error in unready_rows.items()}
    preflight.report_differences(config, new, specs, settings)
    for row_id, row in by_row.items():
        taken_over = executor.rows.row(row_id)
        planned = specs.get(row_id) or (taken_over and taken_over.spec)
        row.source.spec = planned if isinstance(planned, JobSpec) else None
        row.source.submitted = taken.get(row_id)
    bad = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    some = next((spec for spec in specs.values() if isinstance(spec, JobSpec)), None)
    if some is not None and submits:
        history.note_switches(lambda: launcher.switches(some))
    executor.submit(bad, taken)
    ready = _in_order(rows, {row_id: spec for row_id, spec in specs.items() if row_id not in bad})
    unready = [item for item in rows if item.baseline.id in bad]
    return Start(executor, unready, ready, taken, shared)


def _rows_with_logs(
    session: pytest.Session, rows: list[BaselineItem], plans: Mapping[str, RowPlan], launcher: ReplayLauncher
) -> list[BaselineItem]:
    """The rows with a log in the replayed place, and those without a spec; the others are left out, in one line.

    Logs that match no row are named: their rows are among those left out, or have another name.
    """
    config = session.config
    specs = [plan.spec for plan in plans.values() if isinstance(plan.spec, JobSpec)]
    there, unknown = launcher.match(specs)
    left_out = {spec.row_id for spec in specs} - there
    if not left_out:
        return rows
    selection.deselect(config, session.items, [item for item in rows if item.baseline.id in left_out])
    session.testscollected = len(session.items)
    for line in left_out_lines(len(left_out), launcher.source, unknown, judges=bool(session.items)):
        write(config, line)
    return [item for item in rows if item.baseline.id not in left_out]


def _note_rows(config: pytest.Config, journal: Journal | None, items: Sequence[pytest.Item]) -> None:
    """Record the rows of the run before any of them has a job.

    Raises:
        pytest.UsageError: The run's directory cannot be written to.
    """
    state, node_ids = config.stash[SESSION], [item.nodeid for item in items]
    settings = state.settings
    try:
        if journal is not None and settings.cluster is not None:
            now_s = None if state.executor is None else state.executor.launcher.now_s()
            journal.session(settings.cluster.name, node_ids, settings.release, settings.shared, now_s)
        junit_file.note_rows(settings, items)
        on_tiles = [item.baseline for item in items if isinstance(item, BaselineItem) and item.baseline.tile]
        state.sweep = tiles.begin_sweep(settings, state.stages or state.tiling, on_tiles)
        (settings.run_directory / PROGRESS).unlink(missing_ok=True)  # of an earlier session
        state.live = LiveFile(settings.run_directory, partial(write, config))
        config.add_cleanup(state.live.close)
        state.live.begin(NO_CLUSTER if settings.cluster is None else settings.cluster.name, node_ids)
    except OSError as error:
        raise resume.unwritable(settings.run_directory, error) from None


def _in_order(rows: list[BaselineItem], specs: dict[str, JobSpec | RunError]) -> dict[str, JobSpec | RunError]:
    """Canaries first, since rows that are too slow wait for their verdict; then the rows that take longest."""
    # A row with an unknown time counts its GPUs.
    weights = {
        row.id: (row.canary, row.gpus * (job_specs.expected_run_s(row) or 1.0))
        for row in (item.baseline for item in rows)
    }
    return dict(sorted(specs.items(), key=lambda pair: weights[pair[0]], reverse=True))


def _node_probes(
    config: pytest.Config, settings: Settings, launcher: Launcher, environ: Mapping[str, str]
) -> NodeProbes | None:
    """The probes of running jobs' nodes; ``None`` if the cluster asks for none."""
    cluster = settings.cluster
    if cluster is None or cluster.scheduler != "slurm" or settings.replay is not None:
        return None
    if cluster.node_checks.facts in {None, "none"} and not cluster.node_checks.smoke:
        return None
    from pytest_gsw.jobs.slurm.probing import Probe
    from pytest_gsw.jobs.ssh.launcher import SshLauncher
    from pytest_gsw.session.node_probes import NodeProbes  # few sessions probe

    make_probe = launcher.make_probe if isinstance(launcher, SshLauncher) else Probe
    probes = NodeProbes(cluster, environ, launcher.version, make_probe)
    config.add_cleanup(probes.close)
    return probes


def _watch(planned: SessionRow, settings: Settings, environ: Mapping[str, str]) -> Watch | None:
    """The monitor of a row's job by its log; ``None`` if no plugin reads the format."""
    log_format, spec, row = planned.plan.log_format, planned.source.spec, planned.baseline
    if log_format is None or spec is None:
        return None
    profiled = settings.profile is not None or job_specs.profiling_in(spec.environment) is not None
    image = job_specs.job_image(environ, spec)
    return Watch(
        row,
        log_format,
        settings.jobs.policies,
        steps=job_specs.steps_of(row, traced=layout.is_nccl_traced(spec.environment)),
        time_limit_s=spec.time_limit_s,
        judged=not profiled,
        accepted=None if settings.cluster is None else accepted_to_expect(row, settings.cluster.name, image),
    )


def _session_history(settings: Settings) -> SessionHistory:
    """The history for this session."""
    if settings.output.history is None or settings.replay is not None or settings.cluster is None:
        return SessionHistory(None, settings.output.results, None)
    budget = WaitBudget(SESSION_WAIT_S)
    history = open_history(settings.output.history, budget)
    return SessionHistory(history, settings.output.results, settings.cluster.name, budget)


def _cluster_peers(
    executor: Executor, settings: Settings, rows: Sequence[BaselineItem], session_history: SessionHistory
) -> ClusterPeers:
    """The effect of the cluster on all rows, with the accepted figures known by now."""
    cluster = "" if settings.cluster is None else settings.cluster.name
    alone = (item.baseline for item in rows if not item.baseline.tile and item.for_s is None)
    expected = [(row, accepted_to_expect(row, cluster, None)) for row in alone]
    return ClusterPeers(
        session_history,
        expected,
        settings.run_id,
        lambda row_id: isinstance(executor.rows.phases.get(row_id), Finished | None),
    )


def report_delivery(config: pytest.Config, session_history: SessionHistory) -> None:
    """Deliver all waiting records to the history, and report those that remain."""
    delivered = session_history.deliver()
    if delivered is None:
        return
    if delivered.why is not None:
        records = f"{plural(delivered.left, 'record')} {'waits' if delivered.left == 1 else 'wait'}"
        if delivered.why != session_history.problem:  # which has a line of its own
            write(config, f"gsw: {delivered.why}")
        write(
            config, f"gsw: {records} in {relative_path(session_history.waiting)}; the next session delivers what waits"
        )
    for why in delivered.unreadable:
        write(config, f"gsw: not delivered to the history: {why}")


def make_launcher(
    config: pytest.Config,
    settings: Settings,
    recorded: Mapping[str, Record],
    rows: Mapping[str, SessionRow],
    baselines: Sequence[Baseline],
) -> Launcher:
    """The launcher of this session's jobs; a replay's only finds logs, which may be of these baselines' rows.

    Raises:
        pytest.UsageError: No plugin has a launcher for the cluster's scheduler.
    """
    if settings.replay is not None:
        runs = {
            row: RecordedRun(Path(record.run.log) if record.run.log else None, job.id, job.status)
            for row, record in recorded.items()
            if (job := record.jobs.last) is not None
        }
        choose = newest_log.newest_chooser(config, rows) if settings.replay.takes_newest else None
        place = settings.replay.place
        found = _found_logs(config, place, baselines) if place.is_dir() and not runs else []
        return ReplayLauncher(place, runs, choose, lambda path: matching.match_log(path, baselines), found)
    assert settings.cluster is not None  # else nothing is submitted
    _ = config.stash[SESSION].environ  # a login node that is out of reach is no fault of a plugin
    launcher = hook_results.ask_for_launcher(config, settings.cluster, settings.run_directory)
    if launcher is None:
        name = settings.cluster.scheduler
        problem = f"no launcher is installed for '{name}'{nearest(name, ['slurm', 'local'])}; known: slurm, local"
        raise pytest.UsageError(str(keys_error(settings.cluster, ["scheduler"], problem)))
    launcher.report_by(lambda line: write(config, line))
    return launcher


def _found_logs(config: pytest.Config, place: Path, baselines: Sequence[Baseline]) -> list[Match]:
    """The logs that plugins find in a replayed directory, with their rows."""
    try:
        logs = hook_results.found_logs(config, place, baselines)
    except ConfigurationError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
    return [matching.match_found(log, baselines) for log in logs]


def _observer(config: pytest.Config, rows: Mapping[str, SessionRow]) -> StateObserver:
    is_reported = False

    def observe(row_id: str, job_id: str, status: JobStatus) -> None:
        nonlocal is_reported
        if status.unchecked and not is_reported:
            is_reported = True  # once: it applies to all jobs
            write(config, f"gsw: of job {job_id}, {status.unchecked}")
        row = rows[row_id]
        try:
            config.hook.pytest_gsw_job_state_changed(config=config, baseline=row.baseline, job_id=job_id, status=status)
        except Exception as error:  # an error of this row alone: the other rows' jobs still need the session
            row.hook_failure = row.hook_failure or hook_error(error, config.pluginmanager)

    return observe


def _survey_recipes(rows: Sequence[BaselineItem], settings: Settings) -> None:
    """Copy the recipes' directories of a login node, with what states their release, and the staging areas.

    Raises:
        pytest.UsageError: They are out of reach.
    """
    cluster = _cluster_of(settings)
    if cluster.mirror is None:
        return
    from pytest_gsw.jobs.ssh.login import login_to  # few clusters have a login node

    stages = {item.baseline.id: job_specs.stage_of(cluster, item.baseline) for item in rows}
    scripts = [
        job_specs.launch_script(cluster, row, job_specs.recipe_directory(cluster, row, stages[row.id]))
        for row in (item.baseline for item in rows)
    ]
    files = [path for script in dict.fromkeys(scripts) for path in (script, *release_files(script))]
    try:
        homes = [Path(cluster.here(home)) for name, home in cluster.environment.items() if name == "LLMB_INSTALL"]
        login_to(cluster).survey([*homes, *(script.parent for script in scripts)], [*files, *stages.values()])
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None


def make_plans(rows: Sequence[BaselineItem], settings: Settings) -> dict[str, RowPlan]:
    """The plan of each row by its id; the hooks of plans are called here, once for each row."""
    plans = {item.baseline.id: _plan_of(item, settings) for item in rows}
    specs = [plan.spec for plan in plans.values() if isinstance(plan.spec, JobSpec)]
    refused = preflight.other_clusters(specs, settings)
    return plans | {row_id: dataclasses.replace(plans[row_id], spec=error) for row_id, error in refused.items()}


def _plan_of(item: BaselineItem, settings: Settings) -> RowPlan:
    def make(row: Baseline) -> RowPlan:
        return _make_plan(item.config, row, item.nodeid, settings)

    plan, for_s = make(item.baseline), item.for_s
    made = plan if for_s is None else plan_for(for_s, plan, make, progress.simulated_s(settings))
    return dataclasses.replace(made, stage=item.stage)


def _make_plan(config: pytest.Config, row: Baseline, node_id: str, settings: Settings) -> RowPlan:
    """The plan of a row; an exception in a hook is the row's error."""
    hook = config.hook
    try:
        spec: JobSpec | None = hook.pytest_gsw_make_job_spec(config=config, baseline=row, cluster=_cluster_of(settings))
        log_format: LogFormat | None = hook.pytest_gsw_log_format(config=config, baseline=row)
        metrics = hook_results.site_metrics(config)
        peak_flops = hook_results.ask_for_peak(config, row)
    except InvalidHookResultError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
    except pytest.UsageError:
        raise
    except RunError as error:
        return RowPlan(row, node_id, error)
    except Exception as error:
        return RowPlan(row, node_id, hook_error(error, config.pluginmanager))
    hook_results.check_answers(config, row, spec, log_format)
    assert isinstance(spec, JobSpec)  # it was checked
    refused = (
        _log_error(row, log_format)
        or hook_results.unknown_metric(row, metrics)
        or measure.impossible_table(row, peak_flops)
    )
    made = refused or _complete_spec(config, row, spec, settings)
    return RowPlan(row, node_id, made, log_format, peak_flops, metrics)


def _log_error(row: Baseline, log_format: LogFormat | None) -> SubmissionError | None:
    """The error of a row whose logs no plugin reads; ``None`` if one does."""
    if log_format is not None:
        return None
    return SubmissionError(
        f"unknown log format '{row.workload.log_format}'{nearest(row.workload.log_format, FORMATS)}",
        evidence=(("baseline", str(row.location)), ("known", ", ".join(sorted(FORMATS)))),
        advice="correct log_format (or framework) there, or install the plugin that provides it",
    )


def _complete_spec(config: pytest.Config, row: Baseline, spec: JobSpec, settings: Settings) -> JobSpec:
    """A hook's spec with variables of the session's environment, and with the row's current definition."""
    environ = config.stash[SESSION].environ
    # Inherited variables are part of the job's settings.
    if handed_on := {name: environ[name] for name in job_specs.PROFILING_VARIABLES if name in environ}:
        spec = dataclasses.replace(spec, environment={**handed_on, **spec.environment})
    runs_recipe = settings.replay is None and not _cluster_of(settings).simulated
    exported = scripts.exported_to(spec, environ, scripts.scripts_of(spec.script)) if runs_recipe else ()
    image = job_specs.job_image(environ, spec) or row.recipe.image
    return dataclasses.replace(
        spec,
        variables=job_specs.kept_variables(environ, spec, exported),
        definition=definition_hash(row, image),  # the current one: the table may change before the job ends
        image=None if image is None else redact(image_name(image), environ),
        documented={name: figure for name, figure in vars(row.documented).items() if figure is not None},
    )


def _cluster_of(settings: Settings) -> Cluster:
    """The session's cluster; in a replay its staging area is the replayed place, with each recipe's own in it."""
    cluster = settings.cluster or Cluster("replay", "replay")
    if settings.replay is None or cluster.simulated:
        return cluster
    stage = str(settings.replay.place)
    return dataclasses.replace(cluster, stage=stage if RECIPE in stage else f"{stage}/{RECIPE}")


# -- The output of ``--gsw-plan``: submissions, and rows that cannot be submitted -------------------


#: The most rows of a plan with a block each, without ``-v``.
_MOST_PLANNED = 20


def print_plan(session: pytest.Session, settings: Settings) -> None:
    """Print the plan; a row that cannot be submitted fails the session."""
    config, rows = session.config, selection.runnable(session.items)
    launcher = make_launcher(config, settings, {}, {}, ())
    _survey_recipes(rows, settings)
    specs = {row_id: plan.spec for row_id, plan in make_plans(rows, settings).items()}
    specs_of = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, JobSpec)}
    problems = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    environ = config.stash[SESSION].environ
    problems |= preflight.check_rows(rows, specs, launcher, settings, environ)
    preflight.report_differences(config, rows, specs, settings)
    skipped = [
        (item.nodeid, str(marker.kwargs.get("reason", "marked as skipped")))
        for item in session.items
        if (marker := item.get_closest_marker("skip")) is not None and isinstance(item, BaselineItem)
    ]
    problems = {row_id: problem.with_texts(_cluster_of(settings).shown) for row_id, problem in problems.items()}
    planned = [
        _entry(item, specs_of[item.baseline.id], settings, launcher) for item in rows if item.baseline.id in specs_of
    ]
    errors = {item.nodeid: problems[item.baseline.id] for item in rows if item.baseline.id in problems}
    errors |= {item.nodeid: item.error for item in blank_rows(session.items)}
    config.stash[SESSION].is_unready = bool(errors)
    has_gpus = settings.cluster.gpus if settings.cluster is not None else None
    ready = [item for item in rows if item.nodeid not in errors and item.baseline.id in specs_of]
    cost = job_specs.estimate_text((item.baseline, settings.judging.repeats.first) for item in ready)
    most = None if config.getoption("verbose", 0) > 0 else _MOST_PLANNED
    for line in plan_text(planned, skipped, redact(errors, environ), has_gpus, cost, most):
        write(config, line)
    if (stages := config.stash[SESSION].stages) is not None:
        from pytest_gsw.acceptance.plan_cost import plan_lines  # few sessions have a plan

        history = _session_history(settings)
        costs, times = stages.costs([(item.stage, item.baseline) for item in rows if item.stage], history, settings)
        history.close()
        for line in plan_lines(stages.plan, costs, times):
            write(config, line)
    cluster = _cluster_of(settings)
    probes = [f"facts ({cluster.node_checks.facts})"] if cluster.node_checks.facts not in {None, "none"} else []
    probes += [f"{cluster.node_checks.smoke} before the first step"] if cluster.node_checks.smoke else []
    if planned and probes:
        write(config, f"each job's nodes are probed: {redact('; '.join(probes), environ)}")
    if planned and not cluster.simulated:
        limit_s = settings.jobs.limits.queue_s
        limit = "no limit" if limit_s == math.inf else f"{limit_s / 3600:g} hours while none of the session runs"
        write(config, f"a job's wait in the queue: {limit} (max_queue)")


def _entry(item: BaselineItem, spec: JobSpec, settings: Settings, launcher: Launcher) -> dict[str, Any]:
    """The plan's entry of a row that can be submitted."""
    run_s, cluster = job_specs.expected_run_s(item.baseline), _cluster_of(settings)
    variables = {**spec.environment, **spec.launch.variables(spec)}
    return {
        "node_id": item.nodeid,
        "source": item.baseline.source.in_words,
        "gpus": spec.gpus,
        "nodes": spec.nodes,
        "minutes": None if run_s is None else run_s / 60,
        "jobs": settings.judging.repeats.first,
        "directory": cluster.shown(str(spec.directory)),
        "command": cluster.there(command(*job_specs.masked_command(launcher.command(spec)))),
        "environment": {name: cluster.there(value) for name, value in job_specs.masked_environment(variables).items()},
        "log": "in the directory of its experiment"
        if spec.launch.has_directory
        else cluster.there(str(spec.stage / spec.log_glob)),
    }
