"""Columns of text: the one place where results know of tabulate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain_table(rows: Iterable[Sequence[str]], headers: Sequence[str], align: Sequence[str]) -> str:
    """Cells as lines of text, column by column.

    Args:
        rows: The cells.
        headers: What stands above the columns.
        align: ``left`` or ``right`` for each column.
    """
    from tabulate import tabulate  # a session that only collects writes no table

    return tabulate(rows, headers=headers, colalign=align, tablefmt="plain", disable_numparse=True)
