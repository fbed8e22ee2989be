"""The text of a recipe's script, or of another short file of a job, for all who look into it."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from pathlib import Path

#: Scripts are shorter by far.
_MOST_BYTES = 256 << 10


def script_text(script: Path) -> str | None:
    """A file's text as it is now; ``None`` of one that is not there, or cannot be read: who runs it says it better.

    Many rows have one script, which is read again only where it has changed.
    """
    place = str(script)
    try:
        facts = os.stat(place)  # noqa: PTH116 - Path costs more than the look
        if not stat.S_ISREG(facts.st_mode):
            return None  # a pipe would be waited for
        return _read(place, facts.st_mtime_ns, facts.st_size)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _read(script: str, _mtime_ns: int, _size: int) -> str:
    with Path(script).open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")
