"""Lines of a journal: each has a number and a checksum, so that what was damaged or lost is seen.

A sealed line is a JSON object whose first key is ``n``, counted from 1 over the life of the file, and whose last is
``crc``, the CRC-32 of all that stands before it.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_JSON = json.JSONEncoder(allow_nan=False)
_BEFORE_SUM = b', "crc": "'
_AFTER_SUM = b'"}'
_SEAL_BYTES = len(_BEFORE_SUM) + 8 + len(_AFTER_SUM)


@dataclass(frozen=True)
class Line:
    """One line that can be read."""

    #: Where it is in the file, from 1.
    place: int
    event: Mapping[str, Any]


@dataclass(frozen=True)
class Lines:
    """All lines of a journal."""

    readable: tuple[Line, ...] = ()
    #: What is wrong, each with the number of a line: ``(17, "is not readable")``.
    damage: tuple[tuple[int, str], ...] = ()
    #: The number that the next line is to bear.
    next_number: int = 1
    #: Bytes up to the end of the last whole line.
    whole_bytes: int = 0


def seal(event: Mapping[str, Any], number: int) -> bytes:
    """An event as a line."""
    body = _JSON.encode({"n": number, **event}).encode()[:-1]
    return body + _BEFORE_SUM + b"%08x" % zlib.crc32(body) + _AFTER_SUM + b"\n"


def read_lines(content: bytes) -> Lines:
    """What a journal's bytes hold, however damaged they are."""
    pieces = content.split(b"\n")
    whole_bytes = len(content) - len(pieces[-1])
    readable: list[Line] = []
    damage: list[tuple[int, str]] = []
    number = 0
    for place, piece in enumerate(pieces, 1):
        if not piece:
            continue  # the end
        event = _unsealed(piece)
        if event is None:
            cut = place == len(pieces)
            damage.append((place, "is cut: its session ended while it was written" if cut else "is not readable"))
            continue
        found = event["n"]
        if found <= number:
            damage.append((place, f"is number {found}, and number {number} comes before it"))
            continue
        if found > number + 1:
            one, several = f"number {found - 1}", f"numbers {number + 1} to {found - 1}"
            lost = f"{one} of the journal is" if found == number + 2 else f"{several} of the journal are"
            damage.append((place, f"is number {found}: {lost} lost"))
        number = found
        readable.append(Line(place, event))
        if place == len(pieces):
            whole_bytes = len(content)  # only its line end is missing
    return Lines(tuple(readable), tuple(damage), number + 1, whole_bytes)


def _unsealed(piece: bytes) -> dict[str, Any] | None:
    """The event of a sealed line, ``None`` where the seal is broken or was never there."""
    body, mark = piece[:-_SEAL_BYTES], piece[-_SEAL_BYTES:]
    if mark != _BEFORE_SUM + b"%08x" % zlib.crc32(body) + _AFTER_SUM:
        return None
    event = _object(body + b"}")
    number = None if event is None else event.get("n")
    return event if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# -- fields: what is missing without a default, or has the wrong type, is damage, too: a ValueError ----


def text(event: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text."""
    value = event.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")  # noqa: TRY004 - of a file's content, not of an argument
    return value


def texts(event: Mapping[str, Any], name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
    """A list of texts."""
    value = event.get(name, default)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} is no list of texts")
    return tuple(value)


def number(event: Mapping[str, Any], name: str) -> float:
    """A finite number."""
    value = event.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is no number")
    return value


def maybe_number(event: Mapping[str, Any], name: str) -> float | None:
    """A finite number, or ``None`` where there is none."""
    return None if event.get(name) is None else number(event, name)


def whole(event: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number from 0, or the default where there is none."""
    value = event.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is no whole number")
    return value
