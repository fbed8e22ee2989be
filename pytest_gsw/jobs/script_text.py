"""The text of a recipe's script, for all who look into it before a job is submitted."""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

#: Scripts are shorter by far.
_MOST_BYTES = 256 << 10
#: ``export GSW_VERSION=25.01``, a constant of the launch scripts of v24.11.1 to v25.10; later ones have none.
_VERSION = re.compile(
    r"^[ \t]{0,40}(?:export[ \t]{1,8})?GSW_VERSION="
    r"['\"]?([A-Za-z0-9][\w.-]{0,40})['\"]?(?:[ \t]{1,40}#.*)?[ \t]{0,40}$",
    re.MULTILINE,
)


def script_text(script: Path) -> str | None:
    """A script's text as it is now; ``None`` of one that is not there, or cannot be read: who runs it says it better.

    Many rows have one script, which is read again only where it has changed.
    """
    place = str(script)
    try:
        facts = os.stat(place)  # noqa: PTH116 - Path costs more than the look
        if not stat.S_ISREG(facts.st_mode):
            return None  # a pipe would be waited for
        return _read(place, facts.st_ino, facts.st_ctime_ns, facts.st_size)
    except OSError:
        return None


def versions_in(text: str) -> list[re.Match[str]]:
    """The lines of a launch script that fix its GSW_VERSION, each with the value as its first group."""
    return list(_VERSION.finditer(text))


@lru_cache(maxsize=64)
def _read(script: str, _inode: int, _changed_ns: int, _size: int) -> str:
    with Path(script).open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")
