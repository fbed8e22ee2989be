"""Rows as values."""

from __future__ import annotations

import pytest

from pytest_gsw.tables.model import row_matches

ROW = "tiny_1b_bf16[H100x8]"


@pytest.mark.parametrize(
    ("pattern", "row", "is_selected"),
    [
        (None, ROW, True),
        (ROW, ROW, True),
        (f"site/tiny.yaml::{ROW}", ROW, True),
        ("tiny*", ROW, True),
        ("*[H100x8]", ROW, True),
        ("*x?]", ROW, True),
        ("tiny_1b_bf16[H100x16]", ROW, False),
        ("tiny_1b_bf16H", ROW, False),
        ("", ROW, False),
    ],
)
def test_the_brackets_of_ids_are_not_special(pattern: str | None, row: str, is_selected: bool) -> None:
    assert row_matches(pattern, row) is is_selected
