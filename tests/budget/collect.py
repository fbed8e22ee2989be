"""What a session imports that only collects rows: what reads tables, and nothing that submits or judges."""

from __future__ import annotations

from pathlib import Path

from tests.budget import rows
from tests.budget.budgets import Figures
from tests.budget.counting import count


def measure(directory: Path) -> Figures:
    """The modules of pytest-gsw that such a session imports."""
    done = count([*rows.prepare(directory, rows.FEW), "--collect-only", "-q"], directory)
    assert done.status == 0, done.output
    assert f"{rows.FEW} tests collected" in done.output, done.output
    return {"modules": dict.fromkeys(sorted(done.own_modules), 1)}
