"""The live file of a session's run: the session as JSON lines, for tools that follow it.

The first line describes the session; one line follows for each row as soon as it is judged, one for an incident of the
whole cluster, if any, and the last has the end of the session. A file without that one comes from a session that died,
or still runs. Its open rows are in a file that is written anew each time, :mod:`pytest_gsw.results.run_progress`: it
would grow by each step of each job.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import PRIVATE
from pytest_gsw.results.record import Record

#: The file's name in the run's directory.
_NAME = "live.jsonl"


class LiveFile:
    """The live file, open until it is closed.

    Args:
        directory: The run's.
        report: Writes a line on the screen.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, directory: Path, report: Callable[[str], None]) -> None:
        self._path, self._run_id, self._report = directory / _NAME, directory.name, report
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
        #: The record of each row that has its line, by the row's id.
        self._written: dict[str, Record] = {}

    def begin(self, cluster: str, node_ids: Sequence[str]) -> None:
        """Write the line of the session.

        Raises:
            OSError: It cannot be written.
        """
        os.write(self._file, _line(event="session", run_id=self._run_id, cluster=cluster, rows=node_ids))

    def add_row(self, record: Record) -> None:
        """Write the line of a row that has been judged, once."""
        if self._written.get(record.row.id) is not record:
            self._written[record.row.id] = record
            self._append(f'{{"event":"row","record":{record.text}}}\n'.encode("ascii"))

    def end(self, outcomes: Iterable[str], exit_status: int) -> None:
        """Write the last line."""
        self._append(_line(event="end", run_id=self._run_id, outcomes=Counter(outcomes), exit_status=exit_status))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _append(self, line: bytes) -> None:
        try:
            os.write(self._file, line)
        except OSError as error:
            self._report(f"gsw: a line of {self._path} could not be written: {error.strerror}")


def _line(**content: Any) -> bytes:
    return f"{json.dumps(content, separators=(',', ':'), allow_nan=False)}\n".encode("ascii")
