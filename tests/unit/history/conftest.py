"""What the tests of the history share."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.unit.history.behaviour")


@pytest.fixture(scope="module", autouse=True)
def _power_that_never_fails() -> Iterator[None]:
    """Files and SQLite that do not wait for the disk, which takes most of the time of these tests."""
    connect = sqlite3.connect

    def quick(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        with contextlib.suppress(sqlite3.Error):  # of what is no database
            connection.execute("PRAGMA synchronous = OFF")
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(sqlite3, "connect", quick)
        yield


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The path of a history that is not there yet."""
    return str(tmp_path / "results" / "history.sqlite")
