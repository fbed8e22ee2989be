"""A row takes no more calls, and no more syncs of the journal, than its budget says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget import rows
from tests.budget.budgets import excess, why_not_compared


@pytest.mark.skipif(bool(why_not_compared()), reason=why_not_compared())
def test_what_200_rows_take(tmp_path: Path) -> None:
    assert excess("rows", rows.measure(tmp_path)) == ""
