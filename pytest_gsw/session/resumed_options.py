"""Options of an earlier run: its values that a resumed session has, and the places of runs and logs in options.

All rows of a run are judged by the same rules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.clusters import SiteSettings
from pytest_gsw.common.files import at_home
from pytest_gsw.errors import ConfigurationError, refuse_empty
from pytest_gsw.history.location import VARIABLE, history_place, open_history
from pytest_gsw.results.runs_directory import LAST, RECORDS, RUNS, no_run
from pytest_gsw.session.options import is_typed

if TYPE_CHECKING:
    from pytest_gsw.jobs.journal import RunState


#: The options whose paths the sessions of a run share.
_NAMES = ("baselines", "suite", "clusters")
#: The options that a run keeps: of stages, tiles, verdicts, reruns, profiles, and faults of simulated rows.
KEPT = ("acceptance", "tile", "find", "tolerance", "repeat", "confirm", "retries", "profile", "demo")
#: The settings of a site that a run keeps: of verdicts and early stops.
SITE = ("max_gain", "strict", "timeout", "stall", "slow_start")
#: The recorded place of a session without a history.
_NO_HISTORY = "none"


def shared_paths(
    config: pytest.Config, values: Mapping[str, Any], past: RunState | None
) -> dict[str, tuple[Path, ...]]:
    """The paths of the command line by option; those of a resumed run count as given.

    Paths of the ini file apply to each session by themselves, and are not recorded.

    Raises:
        ConfigurationError: The command line gives others than that run's.
    """
    named = {name: _each_path(values[name]) for name in _NAMES if config.getoption(f"gsw_{name}") is not None}
    given = {name: paths for name, paths in named.items() if paths}
    of_run = {} if past is None else past.paths
    known = {name: tuple(map(Path, of_run[name])) for name in _NAMES if of_run.get(name)}
    for name, paths in known.items():
        # A run that began on another machine has paths that are not here.
        if name in given and given[name] != paths and any(map(_is_here, paths)):
            was = " ".join(str(path) for path in paths)
            raise ConfigurationError(f"--gsw-resume: --gsw-{name} of that run is {was}\nnext: leave the option out")
    return {**known, **given}


def _is_here(path: Path) -> bool:
    """True if a file or directory, or the file of one of several suites, is there."""
    return path.exists() or Path(str(path).rpartition("@")[0] or path).exists()


def kept_of_run(config: pytest.Config, values: Mapping[str, Any], past: RunState | None) -> dict[str, Any]:
    """The values that the resumed run has kept, by option, whatever their source.

    The command line overrides them; the ini file and the cluster do not: they may have changed.
    """
    of_run = {} if past is None else past.paths
    names = (name for name in KEPT if name in of_run and not is_typed(config, name))
    return {name: _parse_texts(values[name], of_run[name]) for name in names}


def site_of_run(site: SiteSettings, past: RunState | None) -> SiteSettings:
    """The settings of a site with those of the resumed run."""
    of_run = {} if past is None else past.paths
    return site.with_texts({name: next(iter(of_run[name]), None) for name in SITE if name in of_run})


def changed_since(
    own: Mapping[str, Any], of_run: Mapping[str, Any], own_site: SiteSettings, site: SiteSettings
) -> tuple[str, ...]:
    """The values of the resumed run that differ from the session's own, a line each."""
    shown = {f"--gsw-{name}": (of_run[name], own[name]) for name in of_run}
    shown |= {name: (site.text(name), own_site.text(name)) for name in SITE}
    texts = {name: [" ".join(recorded_texts(value)) or "left out" for value in both] for name, both in shown.items()}
    return tuple(
        f"{name} is {was}, as when the run began; it is {now} now" for name, (was, now) in texts.items() if was != now
    )


def recorded_texts(value: Any) -> tuple[str, ...]:
    """A value in the journal's form; empty if not set."""
    return tuple(map(str, value)) if isinstance(value, tuple) else () if value is None else (str(value),)


def _parse_texts(default: Any, texts: tuple[str, ...]) -> Any:
    """The value of recorded texts, of the same type as the option's default."""
    if isinstance(default, bool):
        return texts == (str(True),)
    return texts if isinstance(default, tuple) else next(iter(texts), None)


def shared_history(
    config: pytest.Config, place: str | Path | None, past: RunState | None
) -> tuple[str | Path | None, dict[str, tuple[str, ...]]]:
    """The place of the history, and its recorded form for a session that resumes this one, if it is named.

    A user and a password are not recorded.

    Args:
        config: The session's config.
        place: The place by its options or its environment.
        past: The run that is resumed, whose command line takes precedence.

    Raises:
        ConfigurationError: The command line gives another than that run's, or that one's user was not recorded.
    """
    of_run = None if past is None else next(iter(past.paths.get("history", ())), None)
    is_given = config.getoption("gsw_history") is not None
    is_named = is_given or config.getini("gsw_history") is not None or VARIABLE in os.environ
    own = _recorded_place(place) if is_named else None
    if of_run is None:
        return place, {} if own is None else {"history": (own,)}
    if is_given and own != of_run:
        raise ConfigurationError(f"--gsw-resume: --gsw-history of that run is {of_run}\nnext: leave the option out")
    if of_run in {own, _NO_HISTORY}:
        return place if own == of_run else None, {"history": (of_run,)}
    from pytest_gsw.common.masks import MASK

    if MASK in of_run:
        raise ConfigurationError(
            f"--gsw-resume: --gsw-history of that run is {of_run}, of which the user and secrets are not kept\n"
            "next: give the option again"
        )
    return history_place(of_run, Path()), {"history": (of_run,)}


def _recorded_place(place: str | Path | None) -> str:
    if place is None:
        return _NO_HISTORY
    return str(Path(os.path.normpath(place))) if isinstance(place, Path) else open_history(place).place


def path_given(text: str, option: str) -> Path:
    """The path in an option, with ``~`` expanded; a ConfigurationError if the home directory is unknown."""
    try:
        return at_home(text)
    except ValueError as error:
        raise ConfigurationError(f"--gsw-{option}: {error}") from None


def _each_path(value: Any) -> tuple[Path, ...]:
    paths = value if isinstance(value, tuple) else (value,)
    return tuple(Path(os.path.normpath(path)) for path in paths if path is not None)


def resumed_run(given: str, results: Path) -> Path:
    """The directory of the run to resume: by its id, its path, or the last one with a submission.

    Raises:
        ConfigurationError: There is none.
    """
    from pytest_gsw.jobs.journal import NAME as JOURNAL  # few sessions resume or replay anything

    runs = results / RUNS.name
    if given == LAST:
        return _newest(runs, JOURNAL, "resume")
    for directory in (runs / given, path_given(given, "resume")):
        if directory.is_dir():
            return directory.resolve()
    raise no_run(f"--gsw-resume: there is no run '{given}' in {runs}", Path(given).name, runs)


def replayed_place(given: Path, base: Path, results: Path) -> tuple[Path, bool]:
    """The place of logs, and true if the newest completed one of several jobs of a row is requested.

    Args:
        given: The option's value, relative to ``base``, or a run's id.
        base: Base of relative paths.
        results: The directory of results, for the last run or one by its id.

    Raises:
        ConfigurationError: There is no such place.
    """
    if given.exists():
        return given, False
    from pytest_gsw.jobs.replay import LAST as LAST_JOBS
    from pytest_gsw.jobs.replay import RECIPE

    refuse_empty("--gsw-replay", "" if given == base / LAST_JOBS else str(given))
    runs = results / RUNS.name
    if given == base / LAST:
        return _newest(runs, RECORDS, "replay"), False
    if given.parent == base and (runs / given.name).is_dir():
        return runs / given.name, False
    path = Path(str(given).removesuffix(LAST_JOBS))
    before, recipe, _ = str(path).partition(RECIPE)  # the recipe's directory is each row's own
    if not (Path(before).is_dir() if recipe else path.exists()):
        raise no_run(f"--gsw-replay: there is no file or directory {path}", path.name, runs)
    return path, path != given


def _newest(runs: Path, holding: str, verb: str) -> Path:
    from pytest_gsw.results.manifest import newest_run

    newest = newest_run(runs, holding)
    if newest is None:
        raise ConfigurationError(f"--gsw-{verb}: there is no run to {verb} in {runs}")
    return newest
