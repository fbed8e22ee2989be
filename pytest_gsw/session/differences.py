"""What is known of how jobs will differ from their rows, told before anything is submitted; their logs decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_gsw.common.words import counted
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import differences
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import environment_of


def tell_differences(
    config: pytest.Config, rows: Sequence[BaselineItem], specs: Mapping[str, JobSpec | RunError], settings: Settings
) -> None:
    """Print each difference once, with its rows; a replay and a simulation run no recipe."""
    if settings.replay is not None or settings.cluster is None or settings.cluster.simulated:
        return
    environ = environment_of(config)
    told: dict[str, list[str]] = {}
    for item in rows:
        spec = specs.get(item.baseline.id)
        if isinstance(spec, JobSpec):
            own, site = item.baseline.recipe.environment, settings.cluster.environment
            where = f"of {settings.cluster.name} does not count: the table sets it"
            unused = [f"{name} {where}" for name, value in own.items() if site.get(name, value) != value]
            for text in (*unused, *differences(item.baseline, spec, environ)):
                told.setdefault(text, []).append(item.baseline.id)
    for text, row_ids in told.items():
        more = f" and {counted(len(row_ids) - 1, 'more row')}" if len(row_ids) > 1 else ""
        write(config, f"gsw: {text} ({row_ids[0]}{more})")
