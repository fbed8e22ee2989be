"""From bytes of a log to numbers, and to text that is safe to show."""

from __future__ import annotations

import math
import os
import re

from pytest_gsw.common.redact import ESCAPES, UNSAFE, masked_text

#: How Microsoft's C runtime writes a figure that is not finite, without its sign: ``1.#INF``, ``1.#IND00``,
#: ``1.#QNAN``, and where it rounds that to one or two decimals, ``1.#J`` and ``1.#R``.
C_RUNTIME = rb"1\.#[A-Z]{1,4}\d{0,25}"
#: How anybody writes one.
NOT_FINITE = rb"(?:[nN][aA][nN]|[iI][nN][fF]|%b)" % C_RUNTIME
#: A number as logs write it: ``4.31``, ``6,785``, ``2e+3``, ``1.249e+03``, or one that is not finite. Every
#: repetition is bounded, so that no line makes a pattern slow.
NUMBER = rb"(?:[-+]?%b|\d[\d,]{0,20}(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)" % NOT_FINITE
#: Moves of the cursor and clearing of lines: progress bars use them the way they use ``\r``.
_MOVES = re.compile(rb"\x1b\[[0-9;]{0,16}[A-HJKST]")
_ESCAPES = re.compile(ESCAPES.encode())
_BLANKS = str.maketrans("\t\r\n", "   ")

_RANK = re.compile(
    rb" {0,8}(?:(\d{1,7}): "  # srun --label
    rb"|\[(?:default|rank)(\d{1,7})\]:"  # torchrun --tee, torch.distributed
    rb"|\[1,(\d{1,7})\]<std(?:out|err)>:)"  # mpirun --tag-output
)


def number(text: bytes) -> float | None:
    """The number that a log writes as ``text``, which may be NaN or infinite; ``None`` where it is none.

    All that Microsoft's C runtime writes for a figure that is not finite is NaN here.
    """
    try:
        return float(text.strip(b" '\"").replace(b",", b""))
    except ValueError:
        return math.nan if b"1.#" in text else None


def number_of(found: re.Match[bytes] | None) -> float | None:
    """The number in a match's first group; ``None`` where there is no match."""
    return None if found is None else number(found[1])


def without_escapes(raw: bytes) -> bytes:
    """A record without colours and NUL bytes; where the cursor was moved, a carriage return is left."""
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", _MOVES.sub(b"\r", raw))
    return raw.replace(b"\0", b"") if b"\0" in raw else raw


def pieces(head: re.Pattern[bytes], line: bytes) -> list[tuple[re.Match[bytes], bytes]]:
    """The records of a line, which another process may have glued together: a head, and what follows it."""
    found = []
    end = len(line)
    for this in reversed([*head.finditer(line)]):
        found.append((this, line[this.end() : end]))
        end = this.start()
    return found[::-1]


def rank_of(line: bytes) -> int | None:
    """The rank that a launcher wrote before the line, ``None`` where it wrote none."""
    label = _RANK.match(line)
    return None if label is None else int(label[label.lastindex or 0])


def safe_text(raw: bytes) -> str:
    """Bytes of a log as one line of text without escape sequences and control characters.

    Bytes that are no UTF-8 become U+FFFD; line ends and tabs become blanks.
    """
    text = _ESCAPES.sub(b"", raw).decode("utf-8", errors="replace")
    return UNSAFE.sub("", text.translate(_BLANKS)).strip()


def quoted_text(raw: bytes) -> str:
    """Like :func:`safe_text`, and without secrets: those of this environment, and what looks like one.

    Secrets are hidden before a line is shortened: half of one would not be known again.
    """
    return masked_text(safe_text(raw), os.environ)
