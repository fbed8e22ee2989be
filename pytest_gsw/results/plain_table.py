"""Columns of text: the only door to tabulate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain_table(rows: Iterable[Sequence[object]], *columns: str, style: str = "plain") -> str:
    """Cells as lines of text.

    A column is given by its heading; one that begins with ``>`` is aligned to the right. With the style ``simple``
    there is a line below the headers.
    """
    from tabulate import tabulate  # a session that only collects writes no table

    headers = [column.removeprefix(">") for column in columns]
    align = ["right" if column.startswith(">") else "left" for column in columns]
    return tabulate(rows, headers=headers, colalign=align, tablefmt=style, disable_numparse=True)
