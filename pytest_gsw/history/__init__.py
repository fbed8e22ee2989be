"""What earlier runs measured: every record, and the series of points that rows have by cluster and definition.

A history is a SQLite file or a PostgreSQL database. Nothing here prints, and nothing imports pytest.
"""

from __future__ import annotations

from pytest_gsw.history.errors import HistoryAwayError, HistoryError, HistoryUnusableError
from pytest_gsw.history.model import Point, RunSummary, SeriesKey
from pytest_gsw.history.place import open_history
from pytest_gsw.history.spool import Delivered, Spool
from pytest_gsw.history.store import History

__all__ = [
    "Delivered",
    "History",
    "HistoryAwayError",
    "HistoryError",
    "HistoryUnusableError",
    "Point",
    "RunSummary",
    "SeriesKey",
    "Spool",
    "open_history",
]
