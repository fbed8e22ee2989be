"""What earlier runs measured: every record, and the series of points that rows have by cluster and definition.

A history is a SQLite file or a PostgreSQL database. Nothing here prints, and nothing imports pytest.
"""

from __future__ import annotations

from pytest_gsw.history.location import open_history

__all__ = ["open_history"]
