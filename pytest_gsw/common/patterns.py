r"""Patterns of a table's author that find a number in a line, however hostile the line is.

A pattern is read by its author's colleagues and meets hostile lines, so it is a small part of Python's patterns, in
which no line of a log takes long:

* at most 200 ASCII characters, with one group ``( )`` around the number and no other;
* ``*``, ``+``, ``?`` and ``{m,n}`` behind one character, set or class: no repetition within another one;
* two repetitions match no common character, or there is one between them that one of the two cannot match: they never
  compete for the same text;
* three plain characters in a row, for which the log is searched;
* no alternatives ``|``, anchors, look-around, back references or flags.
"""

from __future__ import annotations

import re
from itertools import combinations

LONGEST_PATTERN = 200
_TOKEN = re.compile(
    r"[()]|(?P<one>\\[dDsSwW]|\\[^\w\s]|\[\^?\]?(?:\\.|[^]\\[])*\]|[^\\\[\]()*+?{}|^$])"
    r"(?P<repeat>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)?"
)
_FIXED = re.compile(r"\{([1-9]\d*)(?:,\1)?\}\??")


class PatternError(ValueError):
    """A pattern that may be slow, or that finds no number; its text says why."""


def number_pattern(read: str) -> tuple[re.Pattern[bytes], bytes]:
    """A pattern, and the plain text in it for which a log is searched.

    Raises:
        PatternError: It is none of the patterns that this module reads.
    """
    if len(read) > LONGEST_PATTERN or not read.isascii() or not read.isprintable():
        raise PatternError(f"a pattern has at most {LONGEST_PATTERN} printable ASCII characters")
    if rest := _TOKEN.sub("", read):
        raise PatternError(f"{rest!r} is no part of a pattern that is read here")
    tokens = [*_TOKEN.finditer(read)]
    if [token[0] for token in tokens if token["one"] is None] != ["(", ")"]:
        raise PatternError("a pattern has one group, for the number")
    try:
        pattern = re.compile(read.encode())
        items = [(_matches(token["one"]), token["repeat"]) for token in tokens if token["one"] is not None]
    except re.error as error:
        raise PatternError(str(error)) from None
    repeated = [at for at, (_, repeat) in enumerate(items) if repeat is not None and not _FIXED.fullmatch(repeat)]
    for first, second in combinations(repeated, 2):
        one, other = items[first][0], items[second][0]
        between = (items[at][0] for at in range(first, second) if at not in repeated)
        if not one.isdisjoint(other) and not any(it.isdisjoint(one) or it.isdisjoint(other) for it in between):
            raise PatternError("two repetitions compete for the same text")
    plain = b"".join(bytes(one) if len(one) == 1 and repeat is None else b"\n" for one, repeat in items)
    marker = max(plain.split(b"\n"), key=len)
    if len(marker) < 3:
        raise PatternError("a pattern holds 3 plain characters in a row, for which the log is searched")
    return pattern, marker


def _matches(one: str) -> frozenset[int]:
    """The bytes that a character, set or class matches."""
    pattern = re.compile(one.encode(), re.DOTALL)
    return frozenset(byte for byte in range(256) if pattern.fullmatch(bytes([byte])))
