"""No part spends more than its budget says, whatever the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget.__main__ import PARTS
from tests.budget.budgets import excess, why_not_compared

#: The most modules that a session imports which does not use the plugin, whatever the budget says.
MOST_IDLE_MODULES = 8


@pytest.mark.skipif(bool(why_not_compared()), reason=why_not_compared())
@pytest.mark.parametrize("part", PARTS)
def test_a_part_keeps_its_budget(part: str, tmp_path: Path) -> None:
    figures = PARTS[part](tmp_path)
    assert excess(part, figures) == ""
    if part == "idle":
        assert len(figures["modules"]) <= MOST_IDLE_MODULES
        assert all(name.partition(".")[0] == "pytest_gsw" for name in figures["modules"])
