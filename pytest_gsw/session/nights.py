"""What earlier nights measured of the session's rows, and where the records of this one go."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.history.drifting import Drifting, drifting, nights_of, since, without_spells
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.model import Point, SeriesKey
from pytest_gsw.history.spool import DIRECTORY, Delivered, Spool
from pytest_gsw.history.store import History
from pytest_gsw.performance.noise import Noise, noise_of, reference
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Accepted


class Nights:
    """The history as one session uses it; no row's outcome is worth less because it is away.

    Args:
        history: Where all runs are kept, ``None`` for a session that keeps nothing and looks nothing up.
        results: The directory of results, where records wait for their history.
        cluster: Where the session runs.
    """

    def __init__(self, history: History | None, results: Path, cluster: str | None) -> None:
        self._history = history
        self._cluster = cluster
        #: Where records wait for their history.
        self.waiting = results / DIRECTORY
        self._spool = Spool(self.waiting, "" if history is None else history.place)
        #: Why records do not wait for the history, where that is so.
        self.not_kept = ""
        #: Why the history was not asked any more.
        self.problem = ""
        self._known: dict[SeriesKey, tuple[Point, ...]] = {}

    def noise(self, row: str, definition: str, accepted: Accepted | None, run_id: str) -> Noise | None:
        """By how much jobs of a row differ, ``None`` where none is known.

        Args:
            row: The row's id.
            definition: What it is now.
            accepted: What its cluster has accepted for it: the nights that count begin with that.
            run_id: The session, whose own jobs do not count: a session that is resumed has some there already.
        """
        nights = [night for night in nights_of(since(self.points(row, definition), accepted)) if night.run_id != run_id]
        frozen = reference([night.judged_s for night in without_spells(nights)])
        return noise_of(frozen) if frozen else None

    def drifting(self, row: str, definition: str, accepted: Accepted | None, tonight: Point) -> Drifting | None:
        """Whether the newest nights of a row, with this one, are slower than its first ones."""
        nights = nights_of(since(self.points(row, definition), accepted))
        return drifting((*(night for night in nights if night.run_id != tonight.run_id), tonight))

    def points(self, row: str, definition: str) -> tuple[Point, ...]:
        """The jobs of a row that were measured on this cluster, the oldest first."""
        if self._history is None or self._cluster is None or self.problem:
            return ()
        key = SeriesKey(row, self._cluster, definition)
        if key not in self._known:
            try:
                self._known[key] = self._history.points(key)
            except HistoryError as error:
                self.problem = str(error)
                return ()
        return self._known[key]

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
