"""A row of a report takes no more calls than its budget says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget import report
from tests.budget.budgets import excess, why_not_compared


@pytest.mark.skipif(bool(why_not_compared()), reason=why_not_compared())
def test_what_20_rows_of_a_report_take(tmp_path: Path) -> None:
    assert excess("report", report.measure(tmp_path)) == ""
