"""What JUnit is to say of a session's rows: their reports say it of each, and a file of the run of all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version
from platform import python_version

import pytest

from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.results import junit, outcomes
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.junit_names import Noted, class_name, class_of, read_noted, write_noted
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.session.lost import LostRow
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import RECORD, SETTINGS
from pytest_gsw.tables.model import Baseline

#: In the place of a cluster's name, where rows are skipped because none is given.
_NOWHERE = "none"


def add_case(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let the report of a row say which test case it is; one that has no record is one, too."""
    if not isinstance(item, BaselineItem | BlankItem | LostRow):
        return
    record = item.stash.get(RECORD, None)
    if record is None:
        case = (class_of_item(item), item.name, 0.0, "")
    else:
        message = "" if record.outcome == outcomes.PROFILED.word else record.fact
        case = (class_of(record), record.row.id, junit.took_s(record), message)
    report.gsw_junit = case  # type: ignore[attr-defined]


def note_rows(settings: Settings, items: Iterable[pytest.Item]) -> None:
    """Note beside the run's records what a JUnit file that is rebuilt of them needs.

    Raises:
        OSError: Nothing can be written there.
    """
    rows = [item for item in items if isinstance(item, BaselineItem | BlankItem)]
    versions = {"pytest-gsw": version("pytest-gsw"), "pytest": pytest.__version__, "python": python_version()}
    classes = {item.nodeid: class_of_item(item) for item in rows}
    release = "" if settings.release is None else settings.release
    errors = {item.nodeid: item.error.fact for item in rows if isinstance(item, BlankItem)}
    known = {item.nodeid: _row_of(item.baseline) for item in rows if isinstance(item, BaselineItem)}
    noted = Noted(cluster_of(settings), release, versions, classes, errors, _replayed(settings), known)
    write_noted(settings.run_directory, quoted(noted, os.environ))


def _replayed(settings: Settings) -> str:
    """The run that is replayed, or the place of the logs that are; empty where none is."""
    if settings.replay is None:
        return ""
    is_run = (settings.replay / "records").is_dir()
    return settings.replay.resolve().name if is_run else str(from_here(settings.replay))


def _row_of(row: Baseline) -> dict[str, str]:
    """What a row is, as metrics and the report are to say of one without a record."""
    return {
        "workload": row.workload,
        "framework": row.framework,
        "dtype": row.dtype,
        "accelerator": row.accelerator,
        "gpus": str(row.gpus),
    }


def class_of_item(item: pytest.Item) -> str:
    """The class name of a row that has no record yet."""
    settings = item.config.stash[SETTINGS]
    cluster = cluster_of(settings)
    if isinstance(item, BaselineItem):
        return class_name(cluster, item.baseline.framework, item.baseline.workload)
    if isinstance(item, BlankItem):
        known = item.blank.known
        model, size = known.get("model") or "", known.get("size")
        return class_name(cluster, known.get("framework") or "", f"{model}_{size}" if size else model)
    return read_noted(settings.run_directory).class_of(item.nodeid)


def cluster_of(settings: Settings) -> str:
    """The cluster as the class names of test cases have it."""
    if settings.cluster is not None:
        return settings.cluster.name
    return NO_CLUSTER if settings.judges else _NOWHERE
