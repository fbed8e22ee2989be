"""Node lists as Slurm writes them, ``pool0-[0017-0019],m3``."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: No night has more nodes; a longer list is not taken apart.
_MOST_NODES = 20_000
#: A prefix and one bracket; a list in which brackets stand elsewhere stays as it is.
_RANGED = re.compile(r"([^\[\],]{0,200})\[([0-9,-]{1,20000})\]([^\[\],]{0,200})")
_PART = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")


def expand(nodes: str) -> tuple[str, ...]:
    """The names in a node list as Slurm writes it, ``n[1-3,7],m2``; what is no list is one name."""
    names: list[str] = []
    for part in _PART.findall(nodes):
        match = _RANGED.fullmatch(part)
        names.extend([part] if match is None else _ranged(match[1], match[2], match[3], _MOST_NODES - len(names)))
    return tuple(names)


def number_of(nodes: str) -> int | None:
    """How many nodes a list names; ``None`` of one that cannot be taken apart without a doubt."""
    names = expand(nodes)
    return None if not names or len(names) >= _MOST_NODES or any("[" in name for name in names) else len(names)


def _ranged(prefix: str, ranges: str, suffix: str, most: int) -> Iterator[str]:
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            yield f"{prefix}[{piece}]{suffix}"
            continue
        digits = len(first)
        for number in range(int(first), min(int(last or first), int(first) + most - 1) + 1):
            yield prefix + str(number).zfill(digits) + suffix  # a history has millions of these
