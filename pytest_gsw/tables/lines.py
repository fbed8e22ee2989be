"""Tables whose rows stand on one line each, ``- {gpus: 8, step_time_s: 4.3, line: 12}``, as the importer writes them.

A YAML parser takes most of the time of collecting ten thousand rows. A line of bare words needs none: here the parser
gets such lines without their keys, and says where in the file they stand. Whatever is not plain, and every file in
which anything is wrong, is :mod:`pytest_gsw.tables.yamlfile`'s.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from pytest_gsw.errors import FileError
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.nodes import NULLS, read_text
from pytest_gsw.tables.yamlfile import NOWHERE, Value, Values, mapping_of

_PAIR = r"[a-z_0-9]+: [A-Za-z0-9][A-Za-z0-9_.+%-]*"
_ROW = re.compile(rf"( *- )\{{({_PAIR}(?:, {_PAIR})*)\}}")


def read_by_line(path: Path) -> Values | None:
    """The values of a baseline file in which all is right; ``None`` where that takes a closer look.

    The values of a row know no places of their own.

    Raises:
        FileError: It cannot be read.
    """
    content = read_text(path)
    # An alias, a backslash, or a letter that YAML may count as the end of a line.
    if "*" in content or "\\" in content or not content.isascii() or not content.replace("\n", "").isprintable():
        return None
    lines = content.split("\n")
    rows = {number: match for number, line in enumerate(lines) if (match := _ROW.fullmatch(line))}
    for number, match in rows.items():
        lines[number] = match[1] + "{}"
    try:
        values = mapping_of(path, "\n".join(lines), FILE_FIELDS)
        for table in values["tables"].value:
            for row in table.value["rows"].value:
                match = rows.pop(row.mark.line, None)
                if match is not None:
                    row.value.update(_pairs(match[2]))
    except (FileError, ValueError):
        return None
    return None if rows else values  # what is left looks like a row, in a text or where no row may stand


def _pairs(text: str) -> dict[str, Value]:
    """The values of one row; a ValueError where a key or a value is wrong."""
    pairs = text.split(", ")
    values = dict(map(_pair, pairs))
    if len(values) < len(pairs):
        raise ValueError(text)
    return values


@lru_cache(1024)  # the rows of a table have most of them in common
def _pair(text: str) -> tuple[str, Value]:
    key, _, raw = text.partition(": ")
    field = ROW_FIELDS.get(key)
    if not isinstance(field, Field) or raw in NULLS:
        raise ValueError(text)
    return key, Value(field.read(raw), NOWHERE)
