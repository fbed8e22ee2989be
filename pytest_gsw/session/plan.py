"""What ``--gsw-plan`` prints in place of running: what would be submitted, and what would not and why."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import command
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.environment import masked_command, masked_environment
from pytest_gsw.jobs.model import JobSpec, Launcher
from pytest_gsw.jobs.spec import expected_run_s
from pytest_gsw.results import progress_text
from pytest_gsw.session.chosen import runnable
from pytest_gsw.session.differences import tell_differences
from pytest_gsw.session.item import BaselineItem, blank_rows
from pytest_gsw.session.screen import write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.start import check_rows, make_launcher, make_specs
from pytest_gsw.session.stash import NOT_READY, environment_of


def print_plan(session: pytest.Session, settings: Settings) -> None:
    """Print it; that some row cannot be submitted is the session's failure."""
    config, rows = session.config, runnable(session.items)
    launcher = make_launcher(config, settings, {}, ())
    specs = make_specs(rows, settings)
    specs_of = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, JobSpec)}
    problems = {row_id: spec for row_id, spec in specs.items() if isinstance(spec, RunError)}
    environ = environment_of(config)
    problems |= check_rows(rows, specs, launcher, settings, environ)
    tell_differences(config, rows, specs, settings)
    skipped = [
        (item.nodeid, str(marker.kwargs.get("reason", "marked as skipped")))
        for item in session.items
        if (marker := item.get_closest_marker("skip")) is not None and isinstance(item, BaselineItem)
    ]
    planned = [
        _of_row(item, specs_of[item.baseline.id], settings, launcher) for item in rows if item.baseline.id in specs_of
    ]
    errors = {item.nodeid: problems[item.baseline.id] for item in rows if item.baseline.id in problems}
    errors |= {item.nodeid: item.error for item in blank_rows(session.items)}
    config.stash[NOT_READY] = bool(errors)
    has_gpus = settings.cluster.gpus if settings.cluster is not None else None
    for line in progress_text.plan_text(planned, skipped, quoted(errors, environ), has_gpus):
        write(config, line)


def _of_row(item: BaselineItem, spec: JobSpec, settings: Settings, launcher: Launcher) -> dict[str, Any]:
    """What the plan shows of a row of which it is known how it is started."""
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
