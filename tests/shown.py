"""The blocks of commands on a page, and the output that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


def as_pattern(output: str) -> str:
    """A regular expression: a line that is but ``…`` stands for any lines, ``…`` within a line for any text in it."""
    return "".join(
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"[ \t]*\n"
        for line in output.splitlines()
    )


class Block(NamedTuple):
    """Commands of the page."""

    line: int
    commands: str
    exit_status: int
    #: What they print, ``…`` for what differs; ``None`` where the page does not show it.
    output: str | None


def blocks(page: str) -> Iterator[Block]:
    """The page's blocks of commands, each with the output that follows it."""
    found: list[re.Match[str] | None] = [
        *re.finditer(r"^```(\w+)(?: exit=(\d+))?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]
    for block, after in zip(found, [*found[1:], None], strict=True):
        assert block is not None
        assert block[1] in {"sh", "text"}
        if block[1] == "sh":
            output = after[3] if after is not None and after[1] == "text" else None
            yield Block(page.count("\n", 0, block.start()) + 1, block[3], int(block[2] or 0), output)
