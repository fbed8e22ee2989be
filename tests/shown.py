"""What a page shows of what is printed."""

from __future__ import annotations

import re


def as_pattern(output: str) -> str:
    """A regular expression: a line that is but ``…`` stands for any lines, ``…`` within a line for any text in it."""
    return "".join(
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"[ \t]*\n"
        for line in output.splitlines()
    )
