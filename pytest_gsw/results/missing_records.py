"""Rows of a run that were never judged: those of its journal without a record."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from pytest_gsw.common.text import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import COPY, RunState, read_journal, run_state_of
from pytest_gsw.jobs.run_lock import RunLock
from pytest_gsw.results.junit_names import read_noted
from pytest_gsw.results.run_id import RUNS

#: Why a row has no record while its session runs.
WAITS = "this row is not judged yet: its session goes on"


def is_owned(directory: Path) -> bool:
    """True if a session still owns a run; false if that is unknown."""
    try:
        return not RunLock(directory).is_free()
    except OSError:
        return False


def resume_command(directory: Path) -> str:
    """The command that resumes a run whose session ended before all its rows were judged."""
    return command("pytest", f"--gsw-resume={directory.name}")


def left_text(directory: Path) -> str:
    """The reason for a missing record after the end of its session."""
    return f"the session ended before this row was judged; {resume_command(directory)} goes on with it"


def never_judged(directory: Path, judged: Container[str], *, goes_on: bool) -> dict[str, str]:
    """Rows of a run's journal without a record, by node id, with the reason.

    Args:
        directory: The run's.
        judged: The node ids of its records.
        goes_on: True if its session has not ended.
    """
    try:
        past = read_journal(directory)
    except ConfigurationError:
        return {}  # a replay keeps no journal: it submits nothing
    why = WAITS if goes_on else left_text(directory)
    known = read_noted(directory).errors
    return {node_id: known.get(node_id, why) for node_id in past.rows if node_id not in judged}


def begun(directory: Path) -> RunState | None:
    """A run as its first session planned it; ``None`` if unknown."""
    path = directory / COPY
    try:
        return run_state_of(b"", path.read_bytes() if path.is_file() else b"", directory)
    except (ConfigurationError, OSError):
        return None


def newest_begun(runs: Path, last: int) -> tuple[RunState, ...]:
    """The last runs in a directory of runs as planned, the oldest first; none of a directory of another name.

    A run may have been copied to a directory with other contents.
    """
    if runs.name != RUNS.name:
        return ()
    newest = sorted((path.parent for path in runs.glob(f"*/{COPY}")), key=lambda path: path.name)[-last:]
    return tuple(one for directory in newest if (one := begun(directory)) is not None)


def newest_run(runs: Path, *holding: str) -> Path | None:
    """The newest run in a directory of runs with a non-empty file of one of these names; ``None`` if there is none.

    A replay is no run of a cluster and counts only if all are replays. A run without permission to read counts: the
    caller reports it and does not take an older one. A session that fails at its start leaves a directory with an
    empty file, which does not count.
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
