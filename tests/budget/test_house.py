"""The rooms do not knot together unseen."""

from __future__ import annotations

from pathlib import Path

from tests.budget import house
from tests.budget.budgets import excess

#: What the rooms and the arrows between them may come to, whatever the budget says.
MOST_ROOMS, MOST_ARROWS = 26, 140


def test_the_house_keeps_its_budget(tmp_path: Path) -> None:
    figures = house.measure(tmp_path)
    assert excess("house", figures) == ""
    assert len(figures["rooms"]) <= MOST_ROOMS
    assert len(figures["arrows"]) <= MOST_ARROWS
