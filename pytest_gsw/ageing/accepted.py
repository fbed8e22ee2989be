"""The file of accepted figures beside a table: it is written whole, so that its diff is what there is to review."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pytest_gsw.common.words import ByNumber, by_number
from pytest_gsw.tables.keys import (
    ACCEPTED_FIELDS,
    ACCEPTED_FIGURES,
    Key,
    accepted_beside,
    entry_key,
    read_spread,
)
from pytest_gsw.tables.model import Accepted, Baseline

_HEAD = "# Written whole by pytest-gsw baseline propose, by row and cluster: what else is written here is lost.\n"
#: A text that YAML takes as it stands, whatever stands around it; row ids have brackets behind their first letter.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._+/-]*(\[[A-Za-z0-9._-]*\])?")
#: Words that YAML takes for something else.
_NOT_PLAIN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def accepted_text(table: Path, new: Iterable[tuple[Baseline, Accepted]], without: Collection[Key] = ()) -> str:
    """The text of the file beside a table once it has these figures, "" where none is left.

    Args:
        table: The table's file.
        new: Figures, each in place of that of the same row and cluster.
        without: Rows and clusters whose figures are taken out.

    Raises:
        FileError: The file that is there is wrong.
    """
    there = (entry.value for entry in accepted_beside(table))
    figures = {entry_key(entry): {key: value.value for key, value in entry.items()} for entry in there}
    for row, accepted in new:
        judged = {ACCEPTED_FIGURES[row.metric]: accepted.judged_s}
        figures[row.id, accepted.cluster] = {"row": row.id, **judged, **vars(accepted)}
    entries = [_entry(values) for key, values in sorted(figures.items(), key=_place) if key not in without]
    return "".join([_HEAD, "accepted:\n", *entries]) if entries else ""


def _place(figure: tuple[Key, Mapping[str, Any]]) -> tuple[ByNumber, str]:
    (row, cluster), _ = figure
    return by_number(row), cluster


def _entry(values: Mapping[str, Any]) -> str:
    keys = [key for key in ACCEPTED_FIELDS if values.get(key) is not None]
    lines = "\n    ".join(f"{key}: {_written(key, values[key])}" for key in keys)
    return f"  - {lines}\n"


def _written(key: str, value: Any) -> str:
    """A value so that it is read as what it is, to the last digit."""
    if key in {"row", "cluster", "image"} and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return str(value)
    if key == "spread":
        short = f"{value * 100:.2f}%"
        return short if read_spread(short) == value else f"{(Decimal(repr(value)) * 100).normalize():f}%"
    if isinstance(value, float):
        short = f"{value:.6g}"
        return short if float(short) == value else repr(value)
    # Twelve digits, or digits around an "e", would be a number to other readers of YAML.
    return str(value) if key in {"jobs", "date"} else json.dumps(value, ensure_ascii=False)
