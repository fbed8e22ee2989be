"""A row's record is made, written, and told: to observers, to the history, to JUnit."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import pytest

from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import HookError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.hooks.faults import hook_error
from pytest_gsw.jobs.model import JobStatus
from pytest_gsw.results import next_steps, outcomes, row_text
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.record import Record, write_record
from pytest_gsw.results.recording import Ran, job_facts
from pytest_gsw.runs.run import Run
from pytest_gsw.session.measuring import Measuring
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.sources import RowSource
from pytest_gsw.session.stash import NIGHTS, SETTINGS
from pytest_gsw.session.tally import TALLY


class NotWrittenError(Exception):
    """A record could not be written; the text is the row's report."""


def ran(run: Run | None, fleet: Fleet, source: RowSource, jobs: Measuring) -> Ran:
    """What is known of a row's jobs; without a run its last one has not ended."""

    def facts(job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
        return job_facts(job_id, source.launcher, status, run, jobs.of_job(job_id, status))

    row_id, launcher = source.baseline.id, fleet.launcher.name
    job_id, status = (run.job_id, run.status) if run else (fleet.job_id(row_id), fleet.status(row_id))
    earlier = fleet.earlier(row_id) if run is None else run.earlier
    image, image_from = source.image(run)
    written = (source.environment(run), source.variables(run), image, jobs.agreed(run))
    environment, variables, image, compared = quoted(written, os.environ)
    return Ran(
        run=run,
        job=None if job_id is None or status is None else facts(job_id, status, run),
        attempts=tuple(JobFacts.of(one.job_id, launcher, one.status, one.why) for one in fleet.attempts(row_id)),
        repeats=tuple(facts(job.job_id, job.status, job) for job in earlier),
        simulated=source.is_simulated(run),
        definition=source.definition(run),
        experiment=source.experiment(run),
        image=image,
        image_from=image_from,
        environment=environment,
        variables=variables,
        compared=compared,
    )


def keep(config: pytest.Config, record: Record, source: RowSource) -> tuple[Record, HookError | None]:
    """Write a record, hand it to observers, and put it where it waits for the history.

    Returns:
        The record, which is an error where an observer has raised one, and that error.

    Raises:
        NotWrittenError: There is no room for it, or no leave.
    """
    settings = config.stash[SETTINGS]
    try:
        written = write_record(settings.run_directory, record)
        failure = _tell_observers(config, record, source)
        if failure is not None:
            record = dataclasses.replace(record, outcome=outcomes.ERROR.word, fact=failure.fact)
            written = write_record(settings.run_directory, record)
        if settings.replay is None:  # a replayed run is in the history already
            config.stash[NIGHTS].keep(record, written)
        config.stash[TALLY].records[written.name] = record
    except OSError as error:
        # A result that cannot be read again is not one.
        raise NotWrittenError(
            f"the record cannot be written: {error.strerror}: {error.filename or settings.run_directory}\n"
            f"it would have said: {record.outcome}: {record.fact}\n"
            "next       make room there, or give another directory with --gsw-results=DIR"
        ) from None
    return record, failure


def _tell_observers(config: pytest.Config, record: Record, source: RowSource) -> HookError | None:
    """What one of them raises is told, once they are done."""
    try:
        config.hook.pytest_gsw_run_recorded(config=config, record=record)
    except Exception as error:
        return source.shown(hook_error(error, config.pluginmanager.list_name_plugin()))
    return None


def facts_of(record: Record, settings: Settings, since: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    """Since when a row is so where that is known, where its things are and how it is repeated, each with its name."""
    directory = from_here(settings.run_directory)
    replayed = [f"--gsw-replay={settings.replay}"] if settings.replay and settings.cluster else []
    again = next_steps.again([record], directory, *replayed)
    return [*since, *row_text.run_facts(record, again, next_steps.offline(record, directory))]
