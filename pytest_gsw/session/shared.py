"""What a session has of the command line of the one that it goes on with.

Where rows, cluster and history are, and how rows are judged: all rows of a run are held to the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.common.files import at_home
from pytest_gsw.common.redact import MASK
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.place import history_place, open_history

if TYPE_CHECKING:
    from pytest_gsw.jobs.journal import Past

#: The options whose paths the sessions of a run share.
_NAMES = ("baselines", "suite", "clusters")
#: The options by which rows are judged, their jobs ended early or run again, and simulated rows broken.
_JUDGING = ("tolerance", "max-gain", "strict", "timeout", "retries", "stall", "slow-start", "demo")
#: What is kept of a session that has no history.
_NO_HISTORY = "none"


def shared_paths(config: pytest.Config, values: Mapping[str, Any], past: Past | None) -> dict[str, tuple[Path, ...]]:
    """By option, the paths that the command line gives; those of the run that is resumed count as given.

    What the ini file names is there for each session, and is not kept.

    Raises:
        ConfigurationError: The command line gives others than that run's.
    """
    named = {name: _paths(values[name]) for name in _NAMES if config.getoption(f"gsw_{name}") is not None}
    given = {name: paths for name, paths in named.items() if paths}
    of_run = {} if past is None else past.paths
    known = {name: tuple(map(Path, of_run[name])) for name in _NAMES if of_run.get(name)}
    for name, paths in known.items():
        if name in given and given[name] != paths:
            was = " ".join(str(path) for path in paths)
            raise ConfigurationError(f"--gsw-resume: --gsw-{name} of that run is {was}\nnext: leave the option out")
    return {**given, **known}


def shared_judging(
    config: pytest.Config, values: Mapping[str, Any], past: Past | None
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """By option, the values by which the run that is resumed judges, and what of the command line is kept of them.

    What the command line gives counts before what that run was given.
    """
    given = {name for name in _JUDGING if config.getoption(f"gsw_{name.replace('-', '_')}") is not None}
    of_run = {} if past is None else {name: past.paths[name] for name in _JUDGING if name in past.paths}
    kept = of_run | {name: _texts(values[name]) for name in given}
    taken = {name: _value(values[name], texts) for name, texts in of_run.items() if name not in given}
    return taken, kept


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def _value(default: Any, texts: tuple[str, ...]) -> Any:
    """What an option is by the texts that were kept of it, of the kind that it has where nobody gives it."""
    if isinstance(default, bool):
        return texts == (str(True),)
    return texts if isinstance(default, tuple) else texts[0]


def shared_history(
    config: pytest.Config, place: str | Path | None, past: Past | None
) -> tuple[str | Path | None, dict[str, tuple[str, ...]]]:
    """Where the history is, and what of the command line is kept of that for a session that goes on with this one.

    A user and a password are not kept.

    Args:
        config: The session's.
        place: What its options, or its environment, say.
        past: The run that is resumed, whose command line counts before those.

    Raises:
        ConfigurationError: The command line gives another than that run's, or that one's user was not kept.
    """
    of_run = None if past is None else next(iter(past.paths.get("history", ())), None)
    is_given = config.getoption("gsw_history") is not None
    kept = _shown(place) if is_given else of_run
    if of_run is None:
        return place, {} if kept is None else {"history": (kept,)}
    if kept != of_run:
        raise ConfigurationError(f"--gsw-resume: --gsw-history of that run is {of_run}\nnext: leave the option out")
    if is_given or of_run == _NO_HISTORY:
        return place if is_given else None, {"history": (of_run,)}
    if MASK in of_run:
        raise ConfigurationError(
            f"--gsw-resume: --gsw-history of that run is {of_run}, of which the user and secrets are not kept\n"
            "next: give the option again"
        )
    return history_place(of_run, Path()), {"history": (of_run,)}


def _shown(place: str | Path | None) -> str:
    if place is None:
        return _NO_HISTORY
    return str(Path(os.path.normpath(place))) if isinstance(place, Path) else open_history(place).place


def path_given(text: str, option: str) -> Path:
    """A path as an option gives it, with ``~`` filled in; a ConfigurationError where nobody knows that home."""
    try:
        return at_home(text)
    except ValueError as error:
        raise ConfigurationError(f"--gsw-{option}: {error}") from None


def _paths(value: Any) -> tuple[Path, ...]:
    paths = value if isinstance(value, tuple) else (value,)
    return tuple(Path(os.path.normpath(path)) for path in paths if path is not None)
