"""Which line of a log looks like the cause of a failure that no signature knows."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Words of lines that say what went wrong.
_SAYS_WHY = re.compile(
    r"error|exception|fatal|fail|abort|kill|denied|cannot|can't|unable|refused|not found|no such|invalid|panic|\bfault",
    re.IGNORECASE,
)


def likely_line(lines: Iterable[str]) -> str:
    """The last of some lines that looks like a cause; empty where there is none."""
    return next((line.strip() for line in reversed(tuple(lines)) if _SAYS_WHY.search(line)), "")
