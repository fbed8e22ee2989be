"""What the tests of the history share."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.unit.history.behaviour")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """The path of a history that is not there yet."""
    return str(tmp_path / "results" / "history.sqlite")
