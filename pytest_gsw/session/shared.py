"""What a session that goes on with another one has of that one's command line: where its rows and its cluster are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_gsw.jobs.journal import Past

#: The options whose paths the sessions of a run share.
_NAMES = ("baselines", "suite", "clusters")


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


def _paths(value: Any) -> tuple[Path, ...]:
    paths = value if isinstance(value, tuple) else (value,)
    return tuple(Path(os.path.normpath(path)) for path in paths if path is not None)
