"""What earlier nights measured of the session's rows, and where the records of this one go."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.past import Lines, Past, lines_of
from pytest_gsw.history.spool import DIRECTORY, Delivered, Spool
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Accepted


class Nights:
    """The history as one session uses it; no row's outcome is worth less because it is away.

    Args:
        history: Where all runs are kept, ``None`` for a session that keeps nothing and looks nothing up.
        results: The directory of results, where records wait for their history.
        cluster: Where the session runs.
        rows: The ids of its rows, whose nights are read together.
    """

    def __init__(self, history: History | None, results: Path, cluster: str | None, rows: Collection[str] = ()) -> None:
        self._history = history
        self._rows = rows
        self._cluster = cluster
        #: Where records wait for their history.
        self.waiting = results / DIRECTORY
        self._spool = Spool(self.waiting, "" if history is None else history.place)
        #: Why records do not wait for the history, where that is so.
        self.not_kept = ""
        #: Why the history was not asked any more.
        self.problem = ""
        self._lines: Lines | None = None

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None, run_id: str) -> Past:
        """What is known of a row on this cluster; nothing where the history is away.

        Args:
            row: The row's id.
            definition: What it is now.
            experiment: The same without image and release, empty where that is not known.
            accepted: What its cluster has accepted for it: the nights that count begin with that.
            run_id: The session, whose own jobs do not count: a session that is resumed has some there already.
        """
        lines = self._known_lines()
        return Past() if lines is None else lines.past(row, definition, experiment, accepted).without(run_id)

    def _known_lines(self) -> Lines | None:
        """The nights of all rows of the session, read when they are first asked for."""
        if self._lines is None and self._history is not None and self._cluster is not None and not self.problem:
            try:
                self._lines = lines_of(self._history, self._cluster, self._rows)
            except HistoryError as error:
                self.problem = str(error)
        return self._lines

    def keep(self, record: Record, written: Path) -> None:
        """Put a record where it waits for the history; one that cannot be put there is among the run's all the same."""
        if self._history is None:
            return
        try:
            self._spool.put(record, written)
        except OSError as error:
            self.not_kept = f"{error.strerror}: {error.filename}"

    def deliver(self) -> Delivered | None:
        """Give all records that wait to the history, also those of sessions before; ``None`` without a history."""
        return None if self._history is None else self._spool.deliver(self._history)

    def close(self) -> None:
        """Let go of the history."""
        if self._history is not None:
            self._history.close()
