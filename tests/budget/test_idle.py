"""A pytest session that does not use the plugin pays next to nothing for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget import idle
from tests.budget.budgets import excess, why_not_compared

#: Modules of pytest-gsw that such a session may import.
MOST_MODULES = 8


@pytest.mark.skipif(why_not_compared() != "", reason=why_not_compared())
def test_an_idle_session_keeps_its_budget(tmp_path: Path) -> None:
    figures = idle.measure(tmp_path)
    assert excess("idle", figures) == ""
    assert len(figures["modules"]) <= MOST_MODULES


def test_an_idle_session_imports_nothing_but_a_few_modules_of_ours(tmp_path: Path) -> None:
    assert all(name.partition(".")[0] == "pytest_gsw" for name in idle.measure(tmp_path)["modules"])
