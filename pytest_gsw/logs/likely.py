"""Which line of a log looks like the cause of a failure that no signature knows."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Words of lines that say what went wrong.
_SAYS_WHY = re.compile(
    r"error|exception|fatal|fail|abort|kill|denied|cannot|can't|not found|no such|invalid", re.IGNORECASE
)


def likely_line(lines: Iterable[str]) -> str:
    """The last of some lines that looks like a cause, else the last that is not blank; empty where there is none."""
    known = [line.strip() for line in lines if line.strip()]
    return next((line for line in reversed(known) if _SAYS_WHY.search(line)), known[-1] if known else "")
