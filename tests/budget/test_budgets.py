"""No part spends more than its budget says, whatever the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget.__main__ import PARTS
from tests.budget.budgets import excess, why_not_compared

#: What the rooms, the arrows between them, and the modules of a session that does not use the plugin may come to,
#: whatever the budgets say.
MOST_ROOMS, MOST_ARROWS, MOST_IDLE_MODULES = 26, 140, 8


@pytest.mark.parametrize("part", PARTS)
def test_a_part_keeps_its_budget(part: str, tmp_path: Path) -> None:
    if part != "house" and why_not_compared():
        pytest.skip(why_not_compared())
    figures = PARTS[part](tmp_path)
    assert excess(part, figures) == ""
    if part == "house":
        assert len(figures["rooms"]) <= MOST_ROOMS
        assert len(figures["arrows"]) <= MOST_ARROWS
    if part == "idle":
        assert len(figures["modules"]) <= MOST_IDLE_MODULES
        assert all(name.partition(".")[0] == "pytest_gsw" for name in figures["modules"])
