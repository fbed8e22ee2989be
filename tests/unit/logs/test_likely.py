"""Which line of a log looks like a cause."""

from __future__ import annotations

import pytest

from pytest_gsw.logs.likely import likely_line


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], ""),
        (["", "  "], ""),
        (["step 1", "step 2 "], ""),
        (["Epoch 0: 100%|###| 50/50 [18:11<00:00]"], ""),
        (["Segmentation fault (core dumped)", "step 1 by default"], "Segmentation fault (core dumped)"),
        (["slurmstepd: Unable to create step", "bye"], "slurmstepd: Unable to create step"),
        (["step 1", "ValueError: no such shape", "cleaning up"], "ValueError: no such shape"),
        (["Error: first", "srun: error: second", ""], "srun: error: second"),
    ],
)
def test_the_last_line_that_looks_like_a_cause(lines: list[str], found: str) -> None:
    assert likely_line(lines) == found
