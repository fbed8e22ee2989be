"""Which container image a run used, by its log's own word; what environments and tables say is in ``tables``."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import safe_text
from pytest_gsw.tables.images import image_name

#: Every rank says at the log's beginning who it is.
_SEARCHED_BYTES = 4 << 20
_IMAGE = re.compile(rb"\bGSW: MODEL=.{1,4000}? IMAGE=(?:'([^']{1,400})'|([^\s']{1,400}))")


def image_in(log: Path) -> str | None:
    """The image that a recipe's own line in a log names; of several runs in one file, the last one's.

    Raises:
        OSError: The log cannot be read.
    """
    named = None
    for _, record in matching_records(log, (RECIPE_MARKER,), stop=_SEARCHED_BYTES):
        match = _IMAGE.search(record)
        # A shell that traces its commands shows the one that is to print the line, variables and all.
        if match is not None and b"$" not in match[0]:
            named = match[1] or match[2]
    return None if named is None else image_name(safe_text(named)) or None
