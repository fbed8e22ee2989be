"""A session that only collects rows imports nothing that runs or judges them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget import collect
from tests.budget.budgets import excess, why_not_compared


@pytest.mark.skipif(bool(why_not_compared()), reason=why_not_compared())
def test_what_collecting_imports(tmp_path: Path) -> None:
    assert excess("collect", collect.measure(tmp_path)) == ""
