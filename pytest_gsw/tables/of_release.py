"""Which bundled table has a row's figures for another release of the recipes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import load_table


def table_with(row_id: str, releases: Iterable[str]) -> tuple[str, Path] | None:
    """The first of these releases for which a bundled table has the row, and that table; ``None`` where none has."""
    known = bundled_releases()
    return next(
        ((release, path) for release in releases for path in known.get(release, ()) if _has(path, row_id, release)),
        None,
    )


def _has(path: Path, row_id: str, release: str) -> bool:
    try:
        rows = load_table(path)
    except ConfigurationError:  # it is not what the session is about
        return False
    return any(row.id == row_id and release in row.source.releases for row in rows)
