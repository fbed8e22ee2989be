"""The records of runs' directories, for a history that was not there when they ran."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.imported import Imported
from pytest_gsw.results.junit_names import read_noted
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_id import RUNS


def import_runs(directories: Iterable[Path]) -> Imported:
    """The records of runs in their directories, such as ``.gsw/runs/ID``.

    Raises:
        ConfigurationError: One of them is no directory.
    """
    records: list[Record] = []
    left_out: list[str] = []
    for directory in directories:
        if not directory.is_dir():
            raise ConfigurationError(f"there is no directory {directory}\nnext: ls {RUNS}")
        if run := read_noted(directory).replay_of:
            # A job counts once, in the run that it was of.
            left_out.append(quoted(f"{directory} is a replay of {run}", os.environ))
            continue
        of_run, unreadable = read_run(directory)
        records += of_run
        left_out += unreadable.values()
        if not of_run and not unreadable:
            left_out.append(f"{directory} has no records")
    return Imported(tuple(records), tuple(left_out))
