"""What a cause of a failure is, and how it shows in a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.logs.reader import line_number
from pytest_gsw.logs.text import quoted_text

#: How much of a line is looked at and shown.
LINE_BYTES = 4000
_SHOWN_CHARACTERS = 240

#: How the fact of a run begins that diverged, and what to do about it.
NOT_FINITE = "the loss or a step time is not finite"
DIVERGED = "a run that diverged says nothing of performance: find out why before measuring"


@dataclass(frozen=True)
class Cause:
    """Why a run failed."""

    #: What happened, in a few words: ``CUDA out of memory``.
    name: str
    #: The line that says so, safe to show.
    text: str
    #: Its number, from 1.
    line: int
    #: What to do about it.
    advice: str
    #: Whether a GPU or a host lacked memory.
    out_of_memory: bool = False
    #: Whether machines or the fabric failed, so that the same run may succeed elsewhere.
    infrastructure: bool = False


@dataclass(frozen=True)
class FoundCause:
    """Why a run failed, and the file that says so."""

    cause: Cause
    path: Path

    @property
    def advice(self) -> str:
        """What to do about it."""
        return self.cause.advice


@dataclass(frozen=True)
class Signature:
    """How a cause shows in a log.

    Attributes:
        name: What happened.
        markers: Byte strings of which its lines hold at least one. The file is searched for these: the fewer
            different ones, the faster, so most are just ``Error: `` and ``error: ``.
        pattern: What the line must be like; without nested or unbounded repetition.
        advice: What to do.
        out_of_memory: Whether memory was lacking.
        infrastructure: Whether it is the fault of machines or of the fabric, not of the program or its set-up.
    """

    name: str
    markers: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    advice: str
    out_of_memory: bool = False
    infrastructure: bool = False

    def find(self, line: bytes) -> re.Match[bytes] | None:
        """What in a line is like this cause, ``None`` where nothing is."""
        for mark in self.markers:  # a generator takes three times as long
            if mark in line:
                return self.pattern.search(line)
        return None


class CauseLine(NamedTuple):
    """A line that is like a cause."""

    signature: Signature
    offset: int
    text: bytes
    #: The part of it that is like the cause.
    found: bytes

    def cause(self, path: Path) -> Cause:
        """The cause that the line names, with the line's number in the file, which takes a look at all before it.

        Raises:
            LogError: The file cannot be read.
        """
        one, number = self.signature, line_number(path, self.offset)
        return Cause(one.name, _shown(self.text, self.found), number, one.advice, one.out_of_memory, one.infrastructure)


def cause_line(offset: int, line: bytes, signatures: Iterable[Signature]) -> CauseLine | None:
    """What the first of the signatures that is like a line finds in it."""
    for one in signatures:
        if (match := one.find(line)) is not None:
            return CauseLine(one, offset, line, match[0])
    return None


def signature(
    name: str, markers: str, pattern: str, advice: str, *, out_of_memory: bool = False, infrastructure: bool = False
) -> Signature:
    """A signature whose markers are parted by ``|``."""
    words = tuple(marker.encode() for marker in markers.split("|"))
    return Signature(name, words, re.compile(pattern.encode()), advice, out_of_memory, infrastructure)


def _shown(line: bytes, found: bytes) -> str:
    """The part of a line around what was found in it; secrets are hidden in the whole line, so that none is halved."""
    text = quoted_text(line)
    start = max(0, text.find(quoted_text(found)) - _SHOWN_CHARACTERS // 2)
    return text[start : start + _SHOWN_CHARACTERS].strip()
