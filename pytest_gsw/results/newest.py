"""The newest run of a directory of runs: what "last" names."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_gsw.results.junit_names import read_noted


def newest_run(runs: Path, *holding: str) -> Path | None:
    """The newest run in a directory of runs that has a file, not empty, of one of these names; ``None`` where none has.

    A replay is no run of a cluster: one is the answer only where all are replays.

    One that may not be read counts: what is asked of it is told then, and not of an older one.

    A session that ended before it began leaves a directory as well, and an empty file in it.
    """
    newest_replay = None
    for run in sorted(runs.glob("*"), key=lambda path: path.name, reverse=True):
        if any(_is_filled(run, name) for name in holding):
            if not read_noted(run).replay_of:
                return run
            newest_replay = newest_replay or run
    return newest_replay


def _is_filled(run: Path, name: str) -> bool:
    if not os.access(run, os.R_OK | os.X_OK):
        return True
    return any(path.is_file() and path.stat().st_size for path in run.glob(name))
