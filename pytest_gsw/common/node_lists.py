"""Node lists as Slurm writes them, ``pool0-[0017-0019],m3``."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import by_number

#: No run has more nodes; a longer list is not taken apart.
MOST_NODES = 20_000
#: Longer numbers are no nodes'.
_MOST_DIGITS = 200
#: A message names nodes in so many letters; of more nodes, so many.
_LONGEST_NAMED = 60
_NAMED = 6
#: A prefix and one bracket; a list with other brackets stays as it is.
_RANGED = re.compile(r"([^\[\],]{0,200})\[([0-9,-]{1,20000})\]([^\[\],]{0,200})")
#: A name that ends with a number.
_NUMBERED = re.compile(r"([^\[\],]*?)([0-9]{1,18})")
_PART = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")


def expand(nodes: str) -> tuple[str, ...]:
    """The names in a node list of Slurm, ``n[1-3,7],m2``; other text is one name."""
    names: list[str] = []
    for part in _PART.findall(nodes):
        match = _RANGED.fullmatch(part)
        own = [part] if match is None else _expand(match[1], match[2], match[3], MOST_NODES)
        names.extend(islice(own, max(0, MOST_NODES - len(names))))
    return tuple(names)


def compressed(names: Iterable[str]) -> str:
    """Names as a node list of Slurm, ``m2,n[1-3,7]``: the inverse of :func:`expand`."""
    numbers: dict[tuple[str, bool], list[str]] = {}
    for name in sorted(set(names), key=by_number):
        match = _NUMBERED.fullmatch(name)
        prefix, number = match.groups() if match else (name, "")
        numbers.setdefault((prefix, match is None), []).append(number)
    return ",".join(f"{prefix}{_format_numbers(of_prefix)}" for (prefix, _), of_prefix in numbers.items())


def _format_numbers(numbers: Sequence[str]) -> str:
    ranges: list[list[str]] = []
    for number in numbers:
        last = ranges[-1][-1] if ranges else ""
        is_next = last and number and int(number) == int(last) + 1
        if is_next and (len(number) == len(last) or not last.startswith("0")):
            ranges[-1].append(number)
        else:
            ranges.append([number])
    texts = [one[0] if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges]
    return f"[{','.join(texts)}]" if len(numbers) > 1 else numbers[0]


def named_nodes(counts: Mapping[str, int]) -> str:
    """Nodes as a message names them, those with the highest count first: ``n7 (3), n[1-2]``.

    Where that is long, the first ones, and how many more there are.
    """
    whole = _with_counts(counts)
    if len(whole) <= _LONGEST_NAMED:
        return whole
    first = sorted(counts, key=lambda name: (-counts[name], by_number(name)))[:_NAMED]
    return f"{_with_counts({name: counts[name] for name in first})} and {len(counts) - len(first)} more"


def _with_counts(counts: Mapping[str, int]) -> str:
    names = grouped((count, name) for name, count in counts.items())
    each = {count: f" ({count}{' each' if len(names[count]) > 1 else ''})" if count > 1 else "" for count in names}
    return ", ".join(f"{compressed(names[count])}{each[count]}" for count in sorted(names, reverse=True))


class NodeSets:
    """Node lists as sets: bit i is the same node in each.

    A history has thousands of lists, of mostly the same ranges: each range is taken apart once.
    """

    def __init__(self) -> None:
        #: The bit of each node, in their order.
        self.bits: dict[str, int] = {}
        self._lists: dict[str, int] = {}
        #: By prefix, range and suffix.
        self._ranges: dict[tuple[str, str, str], int] = {}

    def of(self, nodes: str) -> int:
        """The nodes of a list."""
        known = self._lists.get(nodes)
        if known is None:
            known = self._lists[nodes] = functools.reduce(operator.or_, map(self._of_part, _PART.findall(nodes)), 0)
        return known

    def _of_part(self, part: str) -> int:
        match = _RANGED.fullmatch(part)
        if match is None:
            return self._bit(part)
        found, left = 0, MOST_NODES
        for piece in match[2].split(","):
            key = (match[1], piece, match[3])
            if key not in self._ranges:
                names = [*_expand(*key, left)]
                self._ranges[key] = functools.reduce(operator.or_, map(self._bit, names), 0)
                left -= len(names)
            found |= self._ranges[key]
        return found

    def _bit(self, name: str) -> int:
        """The bit of one node, which is the next one of a node that is new."""
        return self.bits.setdefault(name, 1 << len(self.bits))


def number_of(nodes: str) -> int | None:
    """Number of nodes in a list; ``None`` if the list is ambiguous."""
    names = expand(nodes)
    return None if not names or len(names) >= MOST_NODES or any("[" in name for name in names) else len(names)


def _expand(prefix: str, ranges: str, suffix: str, most: int) -> Iterator[str]:
    for piece in ranges.split(","):
        numbers = _numbers_of(piece, most)
        if numbers is None:
            yield f"{prefix}[{piece}]{suffix}"
            continue
        digits = len(piece.partition("-")[0])
        for number in numbers:
            yield prefix + str(number).zfill(digits) + suffix  # a history has millions of these


def _numbers_of(piece: str, most: int) -> range | None:
    """The numbers of ``17`` or ``17-19``; ``None`` for other text."""
    first, _, last = piece.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or len(piece) > _MOST_DIGITS:
        return None
    return range(int(first), min(int(last or first), int(first) + most - 1) + 1)
