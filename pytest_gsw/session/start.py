"""From the selected rows to a fleet that runs them: launcher, journal, job specs, an earlier session's jobs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted
from pytest_gsw.errors import RunError, SubmissionError, WrongAnswerError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.fleet.rows import Over, StateObserver
from pytest_gsw.fleet.watch import Watch
from pytest_gsw.history.place import open_history
from pytest_gsw.hooks.faults import hook_error
from pytest_gsw.jobs.environment import job_image, kept_variables
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.layout import is_nccl_traced
from pytest_gsw.jobs.model import JobSpec, JobStatus, Launcher
from pytest_gsw.jobs.replay import RECIPE, RecordedRun, ReplayLauncher
from pytest_gsw.jobs.scripts import exported_to
from pytest_gsw.jobs.spec import PROFILING_VARIABLES, expected_run_s, profiling_in, steps_of
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.results.record import Record
from pytest_gsw.runs.possible import impossible_table
from pytest_gsw.session import answers
from pytest_gsw.session.checking import Planned, other_clusters, unready
from pytest_gsw.session.chosen import recorded_rows, runnable
from pytest_gsw.session.differences import tell_differences
from pytest_gsw.session.ending import begin_live
from pytest_gsw.session.item import BaselineItem, blank_rows
from pytest_gsw.session.junit_cases import note_rows
from pytest_gsw.session.lost import LEFT_ALONE
from pytest_gsw.session.metrics import site_metrics, unknown_metric
from pytest_gsw.session.nights import Nights
from pytest_gsw.session.others import Others
from pytest_gsw.session.replayed import newest_chooser
from pytest_gsw.session.resume import own_run, take_over, unwritable
from pytest_gsw.session.screen import make_ticker, repeat_teller, write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.sources import LiveRow, ReplayedRow
from pytest_gsw.session.stash import CANARIES, FLEET, NIGHTS, OTHERS, environment_of
from pytest_gsw.tables.definition import accepted_to_expect, definition_hash
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.model import Baseline


@dataclass(frozen=True)
class Start:
    """A session's fleet, which has the rows that cannot be submitted, and no other yet."""

    fleet: Fleet
    #: The rows that cannot be submitted, in the order of the session.
    unready: Sequence[BaselineItem]
    #: How all others are started, and what an earlier session did for some of them.
    specs: Mapping[str, JobSpec | RunError]
    lost: Mapping[str, Submission]

    def submit(self) -> None:
        """Submit the rows that can be."""
        self.fleet.submit(self.specs, self.lost)


def start_fleet(session: pytest.Session, settings: Settings) -> Start:
    """Check every selected row, or take over what an earlier session has submitted; nothing is submitted yet."""
    config = session.config
    rows = runnable(session.items)
    # The others of a replayed run are errors: they have no job.
    recorded = {name: one for name, one in (recorded_rows(config) or {}).items() if one.jobs.last is not None}
    launcher = make_launcher(config, settings, recorded, rows)
    submits = settings.replay is None
    settings, journal = own_run(config, settings, lambda line: write(config, line))
    config.stash[NIGHTS] = nights = _nights(config, settings)
    config.stash[CANARIES] = []
    by_row, environ = {item.baseline.id: item for item in rows}, environment_of(config)
    fleet = Fleet(
        launcher,
        settings.poll_interval_s or launcher.poll_interval_s,
        _observer(config, rows),
        journal,
        settings.limits,
        ticker=make_ticker(config, by_row),
        watcher=(lambda row_id: _watch(by_row[row_id])) if submits else None,
        retries=settings.retries if submits else 0,
        once_more=(lambda row_id, run: by_row[row_id].row.judging.once_more(run)) if submits else (lambda *_: None),
        on_repeat=repeat_teller(config),
        environ=environ,
    )
    config.stash[FLEET] = fleet
    config.stash[OTHERS] = _others(config, settings, rows, nights)
    specs = make_specs(rows, settings)
    _note_rows(config, settings, journal, [*rows, *blank_rows(session.items)])
    if left_alone := config.stash.get(LEFT_ALONE, ""):
        write(config, left_alone)
    lost, attached = take_over(fleet, settings.past, specs, lambda line: write(config, line))
    # Of a submission whose answer was lost there may be a job already, whatever is wrong by now.
    new = [item for item in rows if item.baseline.id not in lost or not lost[item.baseline.id].intended_s]
    specs |= check_rows(new, specs, launcher, settings, environ)
    tell_differences(config, new, specs, settings)
    for item in rows:
        row_id, row = item.baseline.id, item.baseline
        planned = specs.get(row_id) or fleet.spec(row_id)
        spec = planned if isinstance(planned, JobSpec) else None
        if row_id in recorded:
            item.row.source = ReplayedRow(row, settings, spec, recorded[row_id])
        else:
            submitted = attached.get(row_id) or lost.get(row_id)
            item.row.source = LiveRow(row, settings, launcher, nights, environ, spec, submitted)
    bad = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    fleet.submit(bad, lost)
    ready = _in_order(rows, {row_id: spec for row_id, spec in specs.items() if row_id not in bad})
    return Start(fleet, [item for item in rows if item.baseline.id in bad], ready, lost)


def check_rows(
    rows: Sequence[BaselineItem],
    specs: Mapping[str, JobSpec | RunError],
    launcher: Launcher,
    settings: Settings,
    environ: Mapping[str, str],
) -> dict[str, RunError]:
    """Why rows cannot be submitted although it is known how, by their ids."""
    planned = [
        Planned(item.baseline, spec) for item in rows if isinstance(spec := specs.get(item.baseline.id), JobSpec)
    ]
    return unready(planned, launcher, settings, environ)


def _note_rows(
    config: pytest.Config, settings: Settings, journal: Journal | None, items: Sequence[pytest.Item]
) -> None:
    """Write down which rows the run has, before any of them has a job.

    Raises:
        pytest.UsageError: Nothing can be written there.
    """
    node_ids = [item.nodeid for item in items]
    try:
        if journal is not None and settings.cluster is not None:
            journal.session(settings.cluster.name, node_ids, settings.release, settings.shared)
        note_rows(settings, items)
        begin_live(config, items)
    except OSError as error:
        raise unwritable(settings.run_directory, error) from None


def _in_order(rows: list[BaselineItem], specs: dict[str, JobSpec | RunError]) -> dict[str, JobSpec | RunError]:
    """Canaries first: the rows that are too slow wait for what they say. Then those that take the longest."""
    weights = {item.baseline.id: (item.baseline.canary, _gpu_seconds(item.baseline)) for item in rows}
    return dict(sorted(specs.items(), key=lambda pair: weights[pair[0]], reverse=True))


def _watch(item: BaselineItem) -> Watch | None:
    """What watches a row's job by its log; ``None`` where no plugin reads such logs."""
    log_format, source = item.row.jobs.log_format(), item.row.source
    spec, settings, row = source.spec, source.settings, item.baseline
    if log_format is None or spec is None:
        return None
    profiled = settings.profile is not None or profiling_in(spec.environment) is not None
    image = job_image(environment_of(item.config), spec)
    return Watch(
        row,
        log_format,
        settings.policies,
        steps=steps_of(row, traced=is_nccl_traced(spec.environment)),
        time_limit_s=spec.time_limit_s,
        judged=not profiled,
        accepted=None if source.cluster is None else accepted_to_expect(row, source.cluster, image),
    )


def _nights(config: pytest.Config, settings: Settings) -> Nights:
    """The history as this session uses it; what a session before could not deliver goes there first."""
    if settings.history is None or settings.replay is not None or settings.cluster is None:
        return Nights(None, settings.results, None)
    nights = Nights(open_history(settings.history), settings.results, settings.cluster.name)
    tell_delivery(config, nights)
    return nights


def _others(config: pytest.Config, settings: Settings, rows: Sequence[BaselineItem], nights: Nights) -> Others:
    """The rows together, each with the figure that its cluster has accepted, as far as that is known by now."""
    cluster = "" if settings.cluster is None else settings.cluster.name
    expected = [(item.baseline, accepted_to_expect(item.baseline, cluster, None)) for item in rows]
    fleet = config.stash[FLEET]
    return Others(nights, expected, settings.run_id, lambda row_id: isinstance(fleet.phase(row_id), Over | None))


def tell_delivery(config: pytest.Config, nights: Nights) -> None:
    """Give all records that wait to the history, and say what stays behind."""
    delivered = nights.deliver()
    if delivered is None:
        return
    if delivered.why is not None:
        records = f"{counted(delivered.left, 'record')} {'waits' if delivered.left == 1 else 'wait'}"
        write(config, f"gsw: {delivered.why}")
        write(config, f"gsw: {records} in {from_here(nights.waiting)}; the next session delivers what waits")
    for why in delivered.unreadable:
        write(config, f"gsw: not delivered to the history: {why}")


def make_launcher(
    config: pytest.Config,
    settings: Settings,
    recorded: Mapping[str, Record],
    rows: Sequence[BaselineItem],
) -> Launcher:
    """How this session's jobs are started; a replay's are only looked up.

    Raises:
        pytest.UsageError: No plugin knows the cluster's scheduler.
    """
    if settings.replay is not None:
        runs = {
            row: RecordedRun(Path(record.run.log) if record.run.log else None, job.id, job.status)
            for row, record in recorded.items()
            if (job := record.jobs.last) is not None
        }
        choose = newest_chooser(config, rows) if settings.replay_last else None
        return ReplayLauncher(settings.replay, runs, choose)
    launcher = answers.ask_for_launcher(config, settings)
    if launcher is None:
        assert settings.cluster is not None
        raise pytest.UsageError(
            f"nobody launches jobs for the scheduler '{settings.cluster.scheduler}' of cluster "
            f"'{settings.cluster.name}' ({settings.cluster.path}); known: slurm, local"
        )
    return launcher


def _observer(config: pytest.Config, rows: list[BaselineItem]) -> StateObserver:
    by_row = {row.baseline.id: row for row in rows}

    told = False

    def observe(row_id: str, job_id: str, status: JobStatus) -> None:
        nonlocal told
        if status.unchecked and not told:
            told = True  # once: it is so of all jobs
            write(config, f"gsw: of job {job_id}, {status.unchecked}")
        row = by_row[row_id].row
        try:
            config.hook.pytest_gsw_job_state_changed(config=config, baseline=row.baseline, job_id=job_id, status=status)
        except Exception as error:  # the row's alone: the other rows' jobs are still to be looked after
            row.hook_failure = row.hook_failure or hook_error(error, config.pluginmanager.list_name_plugin())

    return observe


def _gpu_seconds(baseline: Baseline) -> float:
    """What a row is expected to take, for the order of submission; one whose time is not known counts its GPUs."""
    return baseline.gpus * (expected_run_s(baseline) or 1.0)


def make_specs(rows: Sequence[BaselineItem], settings: Settings) -> dict[str, JobSpec | RunError]:
    """How each row is started, or why it cannot be, by its id."""
    specs = {item.baseline.id: _make_spec(item, settings) for item in rows}
    specs |= other_clusters([spec for spec in specs.values() if isinstance(spec, JobSpec)], settings)
    return specs


def _make_spec(item: BaselineItem, settings: Settings) -> JobSpec | RunError:
    """How a row is started, or why it cannot be."""
    try:
        spec: JobSpec | None = item.config.hook.pytest_gsw_make_job_spec(
            config=item.config, baseline=item.baseline, cluster=_where(settings)
        )
        log_format = item.row.jobs.log_format()
        unread = unknown_metric(item.baseline, site_metrics(item.config))
        peak_flops = item.row.jobs.peak_flops()
    except WrongAnswerError as error:
        raise pytest.UsageError(quoted(str(error), os.environ)) from None
    except pytest.UsageError:
        raise
    except RunError as error:
        return error
    except Exception as error:
        return hook_error(error, item.config.pluginmanager.list_name_plugin())
    answers.check_answers(item, spec, log_format)
    assert isinstance(spec, JobSpec)  # it was checked
    if log_format is None:
        return SubmissionError(
            f"nobody reads logs of the format '{item.baseline.log_format}'{nearest(item.baseline.log_format, FORMATS)}",
            evidence=(("baseline", str(item.baseline.location)), ("known", ", ".join(sorted(FORMATS)))),
            advice="correct log_format (or framework) there, or install the plugin that provides it",
        )
    refused = unread or impossible_table(item.baseline, peak_flops)
    if refused is not None:
        return refused
    environ = environment_of(item.config)
    # What the session's environment hands on is part of how the job is started.
    handed_on = {name: environ[name] for name in PROFILING_VARIABLES if name in environ}
    spec = dataclasses.replace(spec, environment={**handed_on, **spec.environment})
    runs_recipe = settings.replay is None and not _where(settings).simulated
    variables = kept_variables(environ, spec, exported_to(spec, environ) if runs_recipe else ())
    return _defined(item.baseline, dataclasses.replace(spec, variables=variables), environ)


def _where(settings: Settings) -> Cluster:
    """The session's cluster; a replay's staging area is what is replayed, with a recipe's own in it."""
    cluster = settings.cluster or Cluster("replay", "replay")
    if settings.replay is None or cluster.simulated:
        return cluster
    stage = str(settings.replay)
    return dataclasses.replace(cluster, stage=stage if RECIPE in stage else f"{stage}/{RECIPE}")


def _defined(baseline: Baseline, spec: JobSpec, environ: Mapping[str, str]) -> JobSpec:
    """A job with what its row is now: the table may be another one when the job has ended."""
    image = job_image(environ, spec) or baseline.recipe.image
    named = None if image is None else quoted(image_name(image), environ)
    documented = {name: figure for name, figure in vars(baseline.documented).items() if figure is not None}
    return dataclasses.replace(spec, definition=definition_hash(baseline, image), image=named, documented=documented)
