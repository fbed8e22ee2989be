"""What the tests of the history share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
