"""Values that a session has from the one that it goes on with.

Where rows, cluster and history are, and how rows are judged: all rows of a run are judged by the same.
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
from pytest_gsw.history.place import VARIABLE, history_place, open_history
from pytest_gsw.session.options import OPTIONS, SHOWN

if TYPE_CHECKING:
    from pytest_gsw.clusters.model import Cluster
    from pytest_gsw.jobs.journal import Past

#: The options whose paths the sessions of a run share.
_NAMES = ("baselines", "suite", "clusters")
#: The options by which rows are judged, their jobs ended early or run again, and simulated rows broken.
_JUDGING = ("tolerance", "max-gain", "repeat", "confirm", "strict", "timeout", "retries", "stall", "slow-start", "demo")
#: Of those that a cluster may give, which are asked of it where neither command line nor ini file gives them.
_OF_CLUSTER = ("tolerance", *(option.name for option in OPTIONS if option.of_site))
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


def judging_of_run(config: pytest.Config, values: Mapping[str, Any], past: Past | None) -> dict[str, Any]:
    """By option, the values by which the run that is resumed judges, wherever they came from.

    What the command line gives counts before them; the ini file and the cluster do not: they may have changed.
    """
    of_run = {} if past is None else past.paths
    names = (name for name in _JUDGING if name in of_run and not is_typed(config, name))
    return {name: _value(values[name], of_run[name]) for name in names}


def is_typed(config: pytest.Config, name: str) -> bool:
    """Whether the command line itself gives an option; ``addopts`` and ``PYTEST_ADDOPTS`` are not it."""
    return any(str(one).partition("=")[0] == f"--gsw-{name}" for one in config.invocation_params.args)


def of_cluster(config: pytest.Config, values: Mapping[str, Any], cluster: Cluster | None) -> dict[str, Any]:
    """By option, what a cluster says where neither command line nor ini file does."""
    said = {} if cluster is None else {name: getattr(cluster, name.replace("-", "_")) for name in _OF_CLUSTER}
    open_ = {name for name in said if not values[name] and config.getini(f"gsw_{name.replace('-', '_')}") is not False}
    of_both = {name: said[name] for name in open_ if said[name] is not None}
    shares = {name: f"{100 * of_both[name]:.12g}%" for name in ("tolerance", "max-gain") if name in of_both}
    return {name: value if isinstance(value, bool) else str(value) for name, value in of_both.items()} | shares


def shared_judging(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By option, the values by which the session judges, for one that goes on with it."""
    return {name: _texts(values[name]) for name in _JUDGING}


def changed_since(own: Mapping[str, Any], of_run: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the run that is resumed which the session would not have by itself, a line each."""
    shown = {name: [" ".join(_texts(value)) or "left out" for value in (of_run[name], own[name])] for name in of_run}
    changed = {name: (then, now) for name, (then, now) in shown.items() if then != now}
    return tuple(
        f"{SHOWN[name]} is {was}, as when the run began; it is {now} now" for name, (was, now) in changed.items()
    )


def _texts(value: Any) -> tuple[str, ...]:
    """A value as the journal keeps it; nothing of one that nobody gives."""
    return tuple(map(str, value)) if isinstance(value, tuple) else () if value is None else (str(value),)


def _value(default: Any, texts: tuple[str, ...]) -> Any:
    """What an option is by the texts that were kept of it, of the kind that it has where nobody gives it."""
    if isinstance(default, bool):
        return texts == (str(True),)
    return texts if isinstance(default, tuple) else next(iter(texts), None)


def shared_history(
    config: pytest.Config, place: str | Path | None, past: Past | None
) -> tuple[str | Path | None, dict[str, tuple[str, ...]]]:
    """Where the history is, and what is kept of that for a session that goes on with this one, if it is named.

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
    is_named = is_given or config.getini("gsw_history") or os.environ.get(VARIABLE)
    own = _shown(place) if is_named else None
    if of_run is None:
        return place, {} if own is None else {"history": (own,)}
    if is_given and own != of_run:
        raise ConfigurationError(f"--gsw-resume: --gsw-history of that run is {of_run}\nnext: leave the option out")
    if of_run in {own, _NO_HISTORY}:
        return place if own == of_run else None, {"history": (of_run,)}
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
