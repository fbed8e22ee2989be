"""What the tests of the history share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.unit.history.behaviour")

from tests.unit.history.behaviour import without_waiting_for_the_disk  # noqa: E402 - its asserts are rewritten first


@pytest.fixture(scope="module", autouse=True)
def _power_that_never_fails() -> Iterator[None]:
    """Files and SQLite that do not wait for the disk, which takes most of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        without_waiting_for_the_disk(patch)
        yield


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The path of a history that is not there yet."""
    return str(tmp_path / "results" / "history.sqlite")


@pytest.fixture
def read_only() -> AbstractContextManager[None]:
    """A time in which no file of SQLite can be written."""
    connect = sqlite3.connect

    def read(path: Path, **named: Any) -> sqlite3.Connection:
        return connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, **named)

    @contextmanager
    def patched() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite3, "connect", read)
            yield

    return patched()
