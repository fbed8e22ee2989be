"""Runs and places as options name them: the run that is resumed, and what is replayed; few sessions have either."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import NAME as JOURNAL
from pytest_gsw.jobs.replay import LAST as LAST_JOBS
from pytest_gsw.jobs.replay import RECIPE
from pytest_gsw.results.run_id import LAST, RECORDS, RUNS
from pytest_gsw.results.unjudged import newest_run
from pytest_gsw.session.settings import path_given
from pytest_gsw.tables.fields import nearest


def resumed_run(given: str, results: Path) -> Path:
    """The directory of the run to resume: its id, its path, or the last that has submitted something.

    Raises:
        ConfigurationError: There is none.
    """
    runs = results / RUNS.name
    if given == LAST:
        return _newest(runs, JOURNAL, "resume")
    for directory in (runs / given, path_given(given, "resume")):
        if directory.is_dir():
            return directory.resolve()
    near = nearest(Path(given).name, sorted((path.name for path in runs.glob("*")), reverse=True))
    raise ConfigurationError(f"--gsw-resume: there is no run '{given}' in {runs}{near}")


def replayed_place(given: Path, base: Path, results: Path) -> tuple[Path, bool]:
    """Where logs are, and whether of several jobs of a row the newest that completed is meant.

    Args:
        given: What the option names, below ``base`` where that is no absolute path; a run by its id, too.
        base: What paths are relative to.
        results: The directory of results, whose last run may be meant.

    Raises:
        ConfigurationError: There is no such place.
    """
    if given.exists():
        return given, False
    runs = results / RUNS.name
    if given == base / LAST:
        return _newest(runs, RECORDS, "replay"), False
    if given.parent == base and (runs / given.name).is_dir():
        return runs / given.name, False
    path = Path(str(given).removesuffix(LAST_JOBS))
    before, recipe, _ = str(path).partition(RECIPE)  # the recipe's directory is each row's own
    if not (Path(before).is_dir() if recipe else path.exists()):
        near = nearest(path.name, sorted((run.name for run in runs.glob("*")), reverse=True))
        raise ConfigurationError(f"--gsw-replay: there is no file or directory {path}{near}")
    return path, path != given


def _newest(runs: Path, holding: str, verb: str) -> Path:
    newest = newest_run(runs, holding)
    if newest is None:
        raise ConfigurationError(f"--gsw-{verb}: there is no run to {verb} in {runs}")
    return newest
