"""Node lists as Slurm writes them, ``pool0-[0017-0019],m3``, and which nodes stand out."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

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


def _ranged(prefix: str, ranges: str, suffix: str, most: int) -> Iterator[str]:
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            yield f"{prefix}[{piece}]{suffix}"
            continue
        for number in range(int(first), min(int(last or first), int(first) + most - 1) + 1):
            yield f"{prefix}{number:0{len(first)}d}{suffix}"


def changes_by_node(changes: Iterable[tuple[str, float]]) -> Mapping[str, Sequence[float]]:
    """The changes of throughput, as fractions, of all jobs that ran on each node, from those of each node list."""
    found: dict[str, list[float]] = {}
    for nodes, change in changes:
        for node in expand(nodes):
            found.setdefault(node, []).append(change)
    return found


def slowest(changes: Iterable[tuple[str, float]], *, most: int, by: float) -> list[tuple[str, float, int]]:
    """Nodes whose jobs were slower than others', the slowest first: name, median change, number of jobs.

    A node must have had two jobs, or a slow row would name all of its nodes. Their median must be ``by`` below that of
    all jobs. Each job is its node list and its change of throughput; changes and ``by`` are fractions.
    """
    listed = list(changes)
    if len(listed) < 3:
        return []
    usual = statistics.median(change for _, change in listed)
    medians = [
        (node, statistics.median(of_node), len(of_node))
        for node, of_node in changes_by_node(listed).items()
        if len(of_node) > 1
    ]
    slow = sorted((one for one in medians if one[1] < usual - by), key=lambda one: (one[1], one[0]))
    return slow[:most]
