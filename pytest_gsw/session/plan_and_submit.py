"""From the selected rows to an executor that runs them: launcher, journal, job specs, an earlier session's jobs."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_gsw.clusters import Cluster, keys_error
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import command, minute, plural
from pytest_gsw.errors import AS_OF, IncompleteLogError, InvalidHookResultError, LogError, RunError, SubmissionError
from pytest_gsw.executor.executor import Executor, too_large
from pytest_gsw.executor.phases import Finished, LookObserver, StateObserver
from pytest_gsw.executor.progress_monitor import Watch
from pytest_gsw.history.database import SESSION_WAIT_S, WaitBudget
from pytest_gsw.history.location import open_history
from pytest_gsw.hook_checks import hook_error, is_own
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import error_files_of, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import FoundLog, JobSpec
from pytest_gsw.jobs.preflight import (
    cluster_problem,
    demands_of,
    environment_problem,
    recipe_problem,
    release_problems,
    stage_problem,
    variables_problem,
)
from pytest_gsw.jobs.replay import RECIPE, RecordedRun, ReplayLauncher, left_out_lines
from pytest_gsw.jobs.scripts import differences, exported_to, scripts_of
from pytest_gsw.jobs.spec import (
    PROFILING_VARIABLES,
    estimate_text,
    expected_run_s,
    job_image,
    kept_variables,
    masked_command,
    masked_environment,
    profiling_in,
    steps_of,
)
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.failure_scan import find_fatal
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.logs.reader import open_log, read_log
from pytest_gsw.results.plan_text import plan_text
from pytest_gsw.results.record import Record
from pytest_gsw.session import hook_results
from pytest_gsw.session.collect import BaselineItem, are_rows_named, blank_rows, deselect, recorded_rows, runnable
from pytest_gsw.session.junit_file import note_rows
from pytest_gsw.session.progress import begin_live, make_ticker, repeat_reporter, write
from pytest_gsw.session.resume import LEFT_ALONE, own_run, take_over, unwritable
from pytest_gsw.session.row import LiveRow, ReplayedRow, RowPlan, SessionRow
from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
from pytest_gsw.session.settings import (
    CANARIES,
    CLUSTER_PEERS,
    EXECUTOR,
    NODE_PROBES,
    NOT_READY,
    SESSION_HISTORY,
    Settings,
    environment_of,
)
from pytest_gsw.session.tiles import begin_sweep
from pytest_gsw.stats.decision import Done
from pytest_gsw.tables.model import Baseline, accepted_to_expect, definition_hash, image_name
from pytest_gsw.tables.value_types import nearest
from pytest_gsw.validation.completeness import check_steps, check_whole, final_step
from pytest_gsw.validation.matching import match_log
from pytest_gsw.validation.measure import impossible_table, timed_steps
from pytest_gsw.validation.run import Run

# -- Known differences between jobs and their rows, reported before submission; their logs decide ---


def report_differences(
    config: pytest.Config, rows: Sequence[BaselineItem], specs: Mapping[str, JobSpec | RunError], settings: Settings
) -> None:
    """Print each difference once, with its rows; a replay and a simulation run no recipe."""
    if settings.replay is not None or settings.cluster is None or settings.cluster.simulated:
        return
    environ = environment_of(config)
    site, where = settings.cluster.environment, f"of {settings.cluster.name} does not count: the table sets it"
    found: list[tuple[str, str]] = []
    for row, spec in _planned(rows, specs):
        unused = [f"{name} {where}" for name, value in row.recipe.environment.items() if site.get(name, value) != value]
        found += [(text, row.id) for text in (*unused, *differences(row, spec, environ))]
    for text, row_ids in grouped(found).items():
        more = f" and {plural(len(row_ids) - 1, 'more row')}" if len(row_ids) > 1 else ""
        write(config, f"gsw: {text} ({row_ids[0]}{more})")


# -- Checks before submission: each recipe, staging area and partition once -------------------------
#
# For ``--gsw-plan`` and every session. A row with a finding is an error; the others run.


class Planned(NamedTuple):
    """A row to be submitted, with the spec of its job."""

    baseline: Baseline
    spec: JobSpec


def _planned(rows: Iterable[BaselineItem], specs: Mapping[str, JobSpec | RunError]) -> list[Planned]:
    """The rows that have a spec."""
    return [Planned(item.baseline, spec) for item in rows if isinstance(spec := specs.get(item.baseline.id), JobSpec)]


class Here(NamedTuple):
    """The place of submissions."""

    cluster: Cluster
    launcher: Launcher
    environ: Mapping[str, str]


#: Errors of rows that cannot be submitted, by the row's id.
Findings = dict[str, SubmissionError]


def check_rows(
    rows: Sequence[BaselineItem],
    specs: Mapping[str, JobSpec | RunError],
    launcher: Launcher,
    settings: Settings,
    environ: Mapping[str, str],
) -> dict[str, RunError]:
    """The errors of rows that have a spec but cannot be submitted, by their ids.

    A simulation needs no checks, a replay submits nothing, and a site's own launcher refuses jobs itself.
    """
    planned, cluster, limits = _planned(rows, specs), settings.cluster, settings.limits
    found = {one.spec.row_id: too_large(one.spec, limits) for one in planned if one.spec.gpus > limits.gpus}
    if cluster is None or settings.replay is not None:
        return dict(found)
    if not cluster.simulated and is_own(launcher):
        here = Here(cluster, launcher, environ)
        for check in _OF_RECIPE:
            found |= check([one for one in planned if one.spec.row_id not in found], here)
            planned = [one for one in planned if check is not _recipes or one.spec.row_id not in found]
        for check in _CHECKS:
            found |= {row_id: _joined(found.get(row_id), one) for row_id, one in check(planned, here).items()}
    ids = (item.baseline.id for item in rows)
    return without_repetition({row_id: found[row_id] for row_id in ids if row_id in found})


def _joined(first: SubmissionError | None, finding: SubmissionError) -> SubmissionError:
    """The first finding of a row, with another one as evidence."""
    if first is None:
        return finding
    also = ("also", f"{finding.fact}; next: {finding.advice}" if finding.advice else finding.fact)
    return type(first)(first.fact, (*first.evidence, also), first.tail, first.advice)


def other_clusters(specs: Sequence[JobSpec], settings: Settings) -> dict[str, RunError]:
    """The errors of rows that may run on another Slurm cluster than the first one: the session polls one only."""
    cluster = settings.cluster
    if cluster is None or cluster.scheduler != "slurm" or settings.replay is not None:
        return {}
    found: Findings = {}
    first: JobSpec | None = None
    for spec in specs:
        problem = cluster_problem(spec, cluster, first or spec)
        if problem is not None:
            found[spec.row_id] = problem
        elif first is None:
            first = spec
    return without_repetition(found)


def without_repetition(found: Mapping[str, SubmissionError]) -> dict[str, RunError]:
    """The findings by row: the first of several rows with the same finding has its details, the others refer to it."""
    shortened: dict[str, RunError] = {}
    for first, *others in grouped([(str(finding), row_id) for row_id, finding in found.items()]).values():
        finding = found[first]
        also = (("rows", f"{first} and {plural(len(others), 'more row')}"),) if others else ()
        shortened[first] = type(finding)(finding.fact, (*finding.evidence, *also), finding.tail, finding.advice)
        shortened |= {row_id: type(finding)(finding.fact, advice=f"{AS_OF}{first}") for row_id in others}
    return {row_id: shortened[row_id] for row_id in found}


def _recipe_key(one: Planned) -> tuple[object, ...]:
    """The key of rows that share one check of their recipe."""
    recipe, spec = one.baseline.recipe, one.spec
    return spec.directory, spec.script, spec.launch.name, one.baseline.location.path, *recipe.environment


def _releases(planned: Sequence[Planned], here: Here) -> Findings:
    """Recipes of another release than the row's figures, which do not apply to their logs."""
    scripts = ((one.baseline, one.spec.script_path) for one in planned)
    return dict(release_problems(scripts, here.cluster))


def _launchers(planned: Sequence[Planned], _here: Here) -> Findings:
    """Recipes that need another launcher; checked after the release, for which this advice would be wrong.

    Then rows whose table sets a variable that no script reads: the script's own value would be used.
    """
    return _once(
        planned,
        _recipe_key,
        lambda one: one.spec.launch.problem(one.spec) or environment_problem(one.spec, one.baseline),
    )


def _stages(planned: Sequence[Planned], here: Here) -> Findings:
    """Staging areas that cannot be written to."""

    def of_stage(one: Planned) -> tuple[object, ...]:
        spec = one.spec
        return spec.stage, spec.log_glob.partition("/")[0], spec.environment.get(spec.launch.home)

    return _once(planned, of_stage, lambda one: stage_problem(one.spec, here.cluster))


def _variables(planned: Sequence[Planned], here: Here) -> Findings:
    """Launch scripts whose required variables are not set."""
    demands = cache(demands_of)
    checked = [(one, variables_problem(one.spec, here.environ, demands(one.spec.script_path))) for one in planned]
    return {one.spec.row_id: problem for one, problem in checked if problem is not None}


def _submissions(planned: Sequence[Planned], here: Here) -> Findings:
    """The launcher's own checks."""
    return here.launcher.unready([one.spec for one in planned])


def _recipes(planned: Sequence[Planned], here: Here) -> Findings:
    """Recipes whose launch script cannot be submitted."""
    return _once(planned, _recipe_key, lambda one: recipe_problem(one.spec, one.baseline, here.cluster))


def _once(
    planned: Iterable[Planned], key: Callable[[Planned], object], check: Callable[[Planned], SubmissionError | None]
) -> Findings:
    """The finding of each row; rows with the same key are checked once."""
    checked = [(check(some[0]), some) for some in grouped([(key(one), one) for one in planned]).values()]
    return {one.spec.row_id: finding for finding, some in checked if finding is not None for one in some}


_Check = Callable[[Sequence[Planned], Here], Findings]
#: Checks of recipes; each covers the rows without a finding so far.
_OF_RECIPE: tuple[_Check, ...] = (_recipes, _releases, _launchers)
#: Checks of all rows whose launch script is there.
_CHECKS: tuple[_Check, ...] = (_stages, _variables, _submissions)


# -- A replay's log of a row with several jobs: the newest that completed ---------------------------


def newest_chooser(
    config: pytest.Config, rows: Mapping[str, SessionRow]
) -> Callable[[JobSpec, Sequence[FoundLog]], FoundLog]:
    """A function that chooses a row's newest completed job, and reports newer incomplete ones."""

    def choose(spec: JobSpec, found: Sequence[FoundLog]) -> FoundLog:
        row = rows[spec.row_id]
        log_format = row.plan.log_format
        assert log_format is not None  # a row without a log format is not submitted
        traced = is_nccl_traced(spec.environment) or any(in_traced_results(log.path) for log in found)
        newest = newest_complete(found, row.baseline, log_format, steps_of(row.baseline, traced=traced))
        if newest.passed_over:
            passed_over = "; ".join(f"job {log.job_id} ({why})" for log, why in newest.passed_over)
            written_s = newest.log.path.stat().st_mtime
            age = f"{plural(int((time.time() - written_s) // 86400), 'day')} old ({minute(written_s)})"
            text = f"job {newest.log.job_id} is judged; passed over: {passed_over}; the log that is judged is {age}"
            row.passed_over = redact(text, os.environ)  # a log is arbitrary text
            write(config, f"gsw: {spec.row_id}: {row.passed_over}")
        return newest.log

    return choose


#: A copy of a log may have the time of the copy.
_LATER_ID = "its id is later, though its log was written earlier"


@dataclass(frozen=True)
class Newest:
    """The log that is judged."""

    log: FoundLog
    #: Newer logs that are incomplete, and logs that may be newer, each with the reason, the newest first.
    passed_over: tuple[tuple[FoundLog, str], ...] = ()


def newest_complete(logs: Sequence[FoundLog], baseline: Baseline, log_format: LogFormat, steps: int | None) -> Newest:
    """The newest complete log of several jobs of one row, or the newest of all if none is complete.

    The verdict reports the faults of the latter.

    Args:
        logs: The logs, at least one.
        baseline: The row.
        log_format: The format of its logs.
        steps: Steps of a run of the row; ``None`` if unknown.
    """
    # Of two with the same age, the later job's id is greater.
    newest_first = sorted(logs, key=lambda log: (log.path.stat().st_mtime, _number(log)), reverse=True)
    passed_over: list[tuple[FoundLog, str]] = []
    for place, log in enumerate(newest_first):
        why = _why_incomplete(log, baseline, log_format, steps)
        if why is None:
            later = ((one, _LATER_ID) for one in newest_first[place + 1 :] if _number(one) > _number(log))
            return Newest(log, (*passed_over, *later))
        passed_over.append((log, why))
    return Newest(newest_first[0])


def _number(log: FoundLog) -> int:
    return int(log.job_id) if log.job_id.isdecimal() else 0


def _why_incomplete(found: FoundLog, baseline: Baseline, log_format: LogFormat, steps: int | None) -> str | None:
    """The reason why a log's job failed or has not ended; ``None`` for a complete log.

    A complete log may have other faults, which the verdict reports: an older log must not hide them.
    """
    try:
        with open_log(found.path) as file:
            log = read_log(file, log_format)
            fatal = find_fatal(file, log, log_format, error_files_of(found.path))
    except (LogError, OSError) as error:
        return error.fact if isinstance(error, LogError) else str(error)
    if fatal is not None:
        return f"{'the log' if fatal.path == found.path else 'its stderr'} shows a failure: {fatal.name}"
    first_index = log_format.first_index
    is_numbered = final_step(baseline, log, steps, first_index) is not None
    # If the last step is unknown, the log must end like that of a successful job.
    state = JobState.REPLAYED if is_numbered else JobState.COMPLETED
    run = Run(found.job_id, JobStatus(state, state.value), found.path)
    try:
        check_steps(baseline, run, log, timed_steps(baseline, log), steps, first_index)
    except IncompleteLogError as error:
        return error.fact
    except LogError:
        return None
    try:
        if not is_numbered:
            check_whole(baseline, run, log)
    except LogError as error:
        return error.fact
    return None


# -- Starting


@dataclass(frozen=True)
class Start:
    """A session's executor before any submission: it has only the rows that cannot be submitted."""

    executor: Executor
    #: The rows that cannot be submitted, in the order of the session.
    unready: Sequence[BaselineItem]
    #: The specs of all other rows, and the submissions of an earlier session for some of them.
    specs: Mapping[str, JobSpec | RunError]
    taken: Mapping[str, Submission]
    #: All rows by their ids; the executor's callbacks find those of the search in it, too.
    rows: dict[str, SessionRow]

    def submit(self) -> None:
        """Submit the rows that can be submitted."""
        self.executor.submit(self.specs, self.taken)


def plan_rows(session: pytest.Session, settings: Settings) -> Start:
    """Check every selected row, or take over an earlier session's jobs; nothing is submitted yet."""
    config = session.config
    rows = runnable(session.items)
    # Other rows of a replayed run are errors: they have no job.
    recorded = {name: one for name, one in (recorded_rows(config) or {}).items() if one.jobs.last is not None}
    by_row: dict[str, SessionRow] = {}
    launcher = make_launcher(config, settings, recorded, by_row, [item.baseline for item in rows])
    submits = settings.replay is None
    settings, journal = own_run(config, settings, lambda line: write(config, line))
    config.stash[SESSION_HISTORY] = session_history = _session_history(config, settings)
    config.stash[CANARIES] = []
    environ = environment_of(config)
    executor = Executor(
        launcher,
        settings.poll_interval_s or launcher.poll_interval_s,
        _observer(config, by_row),
        journal,
        settings.limits,
        ticker=make_ticker(config, by_row),
        watcher=(lambda row_id: _watch(by_row[row_id], environ)) if submits else None,
        retries=settings.retries if submits else 0,
        decide=(lambda row_id, run: by_row[row_id].decide(run)) if submits else (lambda *_: Done()),
        check=(lambda row_id, run: by_row[row_id].check(run)) if submits else None,
        on_repeat=repeat_reporter(config),
        on_look=_node_probes(config, settings, launcher, environ) or (lambda *_: None),
        environ=environ,
    )
    config.stash[EXECUTOR] = executor
    plans = make_plans(rows, settings)
    if isinstance(launcher, ReplayLauncher) and recorded_rows(config) is None and not are_rows_named(config):
        rows = _rows_with_logs(session, rows, plans, launcher)
    config.stash[CLUSTER_PEERS] = _cluster_peers(config, settings, rows, session_history)
    specs = {item.baseline.id: plans[item.baseline.id].spec for item in rows}
    for item in rows:
        row_id, facts = item.baseline.id, (item.baseline, settings, launcher, session_history, environ)
        source = ReplayedRow(*facts, record=recorded[row_id]) if row_id in recorded else LiveRow(*facts)
        item.row = by_row[row_id] = SessionRow(config, plans[row_id], source, item.user_properties)
    _note_rows(config, settings, journal, [*rows, *blank_rows(session.items)])
    if left_alone := config.stash.get(LEFT_ALONE, ""):
        write(config, left_alone)
    taken = take_over(executor, settings.past, specs, lambda line: write(config, line))
    # A submission whose answer was lost may have a job already, whatever is wrong by now.
    new = [item for item in rows if item.baseline.id not in taken or not taken[item.baseline.id].intended_s]
    specs |= check_rows(new, specs, launcher, settings, environ)
    report_differences(config, new, specs, settings)
    for row_id, row in by_row.items():
        planned = specs.get(row_id) or executor.spec(row_id)
        row.source.spec = planned if isinstance(planned, JobSpec) else None
        row.source.submitted = taken.get(row_id)
    bad = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    some = next((spec for spec in specs.values() if isinstance(spec, JobSpec)), None)
    if some is not None and submits:
        session_history.note_switches(lambda: launcher.switches(some))
    executor.submit(bad, taken)
    ready = _in_order(rows, {row_id: spec for row_id, spec in specs.items() if row_id not in bad})
    return Start(executor, [item for item in rows if item.baseline.id in bad], ready, taken, by_row)


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
    deselect(config, session.items, [item for item in rows if item.baseline.id in left_out])
    session.testscollected = len(session.items)
    for line in left_out_lines(len(left_out), launcher.source, unknown, judges=bool(session.items)):
        write(config, line)
    return [item for item in rows if item.baseline.id not in left_out]


def _note_rows(
    config: pytest.Config, settings: Settings, journal: Journal | None, items: Sequence[pytest.Item]
) -> None:
    """Record the rows of the run before any of them has a job.

    Raises:
        pytest.UsageError: The run's directory cannot be written to.
    """
    node_ids = [item.nodeid for item in items]
    try:
        if journal is not None and settings.cluster is not None:
            journal.session(settings.cluster.name, node_ids, settings.release, settings.shared)
        note_rows(settings, items)
        begin_sweep(config, [item.baseline for item in items if isinstance(item, BaselineItem) and item.baseline.tile])
        begin_live(config, items)
    except OSError as error:
        raise unwritable(settings.run_directory, error) from None


def _in_order(rows: list[BaselineItem], specs: dict[str, JobSpec | RunError]) -> dict[str, JobSpec | RunError]:
    """Canaries first, since rows that are too slow wait for their verdict; then the rows that take longest."""
    # A row with an unknown time counts its GPUs.
    weights = {
        row.id: (row.canary, row.gpus * (expected_run_s(row) or 1.0)) for row in (item.baseline for item in rows)
    }
    return dict(sorted(specs.items(), key=lambda pair: weights[pair[0]], reverse=True))


def _node_probes(
    config: pytest.Config, settings: Settings, launcher: Launcher, environ: Mapping[str, str]
) -> LookObserver | None:
    """The probes of running jobs' nodes; ``None`` if the cluster asks for none."""
    cluster = settings.cluster
    if cluster is None or cluster.scheduler != "slurm" or settings.replay is not None:
        return None
    if cluster.facts in {None, "none"} and not cluster.smoke:
        return None
    from pytest_gsw.session.node_probes import NodeProbes  # few sessions probe

    probes = config.stash[NODE_PROBES] = NodeProbes(cluster, environ, launcher.version)
    config.add_cleanup(probes.close)
    return probes.look


def _watch(planned: SessionRow, environ: Mapping[str, str]) -> Watch | None:
    """The monitor of a row's job by its log; ``None`` if no plugin reads the format."""
    log_format, source, row = planned.plan.log_format, planned.source, planned.baseline
    spec, settings = source.spec, source.settings
    if log_format is None or spec is None:
        return None
    profiled = settings.profile is not None or profiling_in(spec.environment) is not None
    image = job_image(environ, spec)
    return Watch(
        row,
        log_format,
        settings.policies,
        steps=steps_of(row, traced=is_nccl_traced(spec.environment)),
        time_limit_s=spec.time_limit_s,
        judged=not profiled,
        accepted=None if source.cluster is None else accepted_to_expect(row, source.cluster, image),
    )


def _session_history(config: pytest.Config, settings: Settings) -> SessionHistory:
    """The history for this session; records that an earlier session could not deliver are delivered first."""
    if settings.history is None or settings.replay is not None or settings.cluster is None:
        return SessionHistory(None, settings.results, None)
    budget = WaitBudget(SESSION_WAIT_S)
    history = open_history(settings.history, budget)
    session_history = SessionHistory(history, settings.results, settings.cluster.name, budget)
    report_delivery(config, session_history)
    return session_history


def _cluster_peers(
    config: pytest.Config, settings: Settings, rows: Sequence[BaselineItem], session_history: SessionHistory
) -> ClusterPeers:
    """The effect of the cluster on all rows, with the accepted figures known by now."""
    cluster = "" if settings.cluster is None else settings.cluster.name
    alone = (item.baseline for item in rows if not item.baseline.tile)
    expected = [(row, accepted_to_expect(row, cluster, None)) for row in alone]
    executor = config.stash[EXECUTOR]
    return ClusterPeers(
        session_history, expected, settings.run_id, lambda row_id: isinstance(executor.phase(row_id), Finished | None)
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
        choose = newest_chooser(config, rows) if settings.replay_last else None
        return ReplayLauncher(settings.replay, runs, choose, lambda path: match_log(path, baselines))
    launcher = hook_results.ask_for_launcher(config, settings)
    if launcher is None:
        assert settings.cluster is not None
        name = settings.cluster.scheduler
        problem = f"no launcher is installed for '{name}'{nearest(name, ['slurm', 'local'])}; known: slurm, local"
        raise pytest.UsageError(str(keys_error(settings.cluster, ["scheduler"], problem)))
    launcher.report_by(lambda line: write(config, line))
    return launcher


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


def make_plans(rows: Sequence[BaselineItem], settings: Settings) -> dict[str, RowPlan]:
    """The plan of each row by its id; the hooks of plans are called here, once for each row."""
    plans = {item.baseline.id: _make_plan(item.config, item.baseline, item.nodeid, settings) for item in rows}
    specs = [plan.spec for plan in plans.values() if isinstance(plan.spec, JobSpec)]
    refused = other_clusters(specs, settings)
    return plans | {row_id: dataclasses.replace(plans[row_id], spec=error) for row_id, error in refused.items()}


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
        _log_error(row, log_format) or hook_results.unknown_metric(row, metrics) or impossible_table(row, peak_flops)
    )
    made = refused or _complete_spec(config, row, spec, settings)
    return RowPlan(row, node_id, made, log_format, peak_flops, metrics)


def _log_error(row: Baseline, log_format: LogFormat | None) -> SubmissionError | None:
    """The error of a row whose logs no plugin reads; ``None`` if one does."""
    if log_format is not None:
        return None
    return SubmissionError(
        f"unknown log format '{row.log_format}'{nearest(row.log_format, FORMATS)}",
        evidence=(("baseline", str(row.location)), ("known", ", ".join(sorted(FORMATS)))),
        advice="correct log_format (or framework) there, or install the plugin that provides it",
    )


def _complete_spec(config: pytest.Config, row: Baseline, spec: JobSpec, settings: Settings) -> JobSpec:
    """A hook's spec with variables of the session's environment, and with the row's current definition."""
    environ = environment_of(config)
    # Inherited variables are part of the job's settings.
    if handed_on := {name: environ[name] for name in PROFILING_VARIABLES if name in environ}:
        spec = dataclasses.replace(spec, environment={**handed_on, **spec.environment})
    runs_recipe = settings.replay is None and not _cluster_of(settings).simulated
    exported = exported_to(spec, environ, scripts_of(spec.script)) if runs_recipe else ()
    image = job_image(environ, spec) or row.recipe.image
    return dataclasses.replace(
        spec,
        variables=kept_variables(environ, spec, exported),
        definition=definition_hash(row, image),  # the current one: the table may change before the job ends
        image=None if image is None else redact(image_name(image), environ),
        documented={name: figure for name, figure in vars(row.documented).items() if figure is not None},
    )


def _cluster_of(settings: Settings) -> Cluster:
    """The session's cluster; in a replay its staging area is the replayed place, with each recipe's own in it."""
    cluster = settings.cluster or Cluster("replay", "replay")
    if settings.replay is None or cluster.simulated:
        return cluster
    stage = str(settings.replay)
    return dataclasses.replace(cluster, stage=stage if RECIPE in stage else f"{stage}/{RECIPE}")


# -- The output of ``--gsw-plan``: submissions, and rows that cannot be submitted -------------------


#: The most rows of a plan with a block each, without ``-v``.
_MOST_PLANNED = 20


def print_plan(session: pytest.Session, settings: Settings) -> None:
    """Print the plan; a row that cannot be submitted fails the session."""
    config, rows = session.config, runnable(session.items)
    launcher = make_launcher(config, settings, {}, {}, ())
    specs = {row_id: plan.spec for row_id, plan in make_plans(rows, settings).items()}
    specs_of = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, JobSpec)}
    problems = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    environ = environment_of(config)
    problems |= check_rows(rows, specs, launcher, settings, environ)
    report_differences(config, rows, specs, settings)
    skipped = [
        (item.nodeid, str(marker.kwargs.get("reason", "marked as skipped")))
        for item in session.items
        if (marker := item.get_closest_marker("skip")) is not None and isinstance(item, BaselineItem)
    ]
    planned = [
        _entry(item, specs_of[item.baseline.id], settings, launcher) for item in rows if item.baseline.id in specs_of
    ]
    errors = {item.nodeid: problems[item.baseline.id] for item in rows if item.baseline.id in problems}
    errors |= {item.nodeid: item.error for item in blank_rows(session.items)}
    config.stash[NOT_READY] = bool(errors)
    has_gpus = settings.cluster.gpus if settings.cluster is not None else None
    ready = [item for item in rows if item.nodeid not in errors and item.baseline.id in specs_of]
    cost = estimate_text((item.baseline, settings.repeats.first) for item in ready)
    most = None if config.getoption("verbose", 0) > 0 else _MOST_PLANNED
    for line in plan_text(planned, skipped, redact(errors, environ), has_gpus, cost, most):
        write(config, line)
    cluster = _cluster_of(settings)
    probes = [f"facts ({cluster.facts})"] if cluster.facts not in {None, "none"} else []
    probes += [f"{cluster.smoke} before the first step"] if cluster.smoke else []
    if planned and probes:
        write(config, f"each job's nodes are probed: {redact('; '.join(probes), environ)}")
    if planned and not cluster.simulated:
        limit_s = settings.limits.queue_s
        limit = "no limit" if limit_s == math.inf else f"{limit_s / 3600:g} hours while none of the session runs"
        write(config, f"a job's wait in the queue: {limit} (max_queue)")


def _entry(item: BaselineItem, spec: JobSpec, settings: Settings, launcher: Launcher) -> dict[str, Any]:
    """The plan's entry of a row that can be submitted."""
    run_s = expected_run_s(item.baseline)
    return {
        "node_id": item.nodeid,
        "source": item.baseline.source.in_words,
        "gpus": spec.gpus,
        "nodes": spec.nodes,
        "minutes": None if run_s is None else run_s / 60,
        "jobs": settings.repeats.first,
        "directory": spec.directory,
        "command": command(*masked_command(launcher.command(spec))),
        "environment": masked_environment({**spec.environment, **spec.launch.variables(spec)}),
        "log": "in the directory of its experiment" if spec.launch.has_directory else spec.stage / spec.log_glob,
    }
