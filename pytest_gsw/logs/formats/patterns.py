r"""A figure that a pattern of the table finds: ``read: 'tokens/s: (\S+)'``; see :mod:`~pytest_gsw.common.patterns`.

The number is a positive one: ``18400``, ``18,400``, ``1.84e4``. A line in which the pattern occurs twice, one of more
than 8 KiB, or with another text in the group makes the run invalid: none is skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial

from pytest_gsw.common.patterns import number_pattern
from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import number, quoted_text

_LONGEST_LINE_BYTES = 1 << 13
#: Thousands by commas alone: "1,5" is 1.5 in half of the world.
_PLAIN = re.compile(rb"\+?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?[,;]?")


def pattern_format(read: str, key: str) -> BuiltIn:
    """The log format of a table's own pattern.

    Args:
        read: The pattern.
        key: The metric's key, which its numbers get.

    Raises:
        PatternError: It is none of the patterns that this module reads.
    """
    pattern, marker = number_pattern(read)
    parser = partial(_Parser, pattern, key)
    return BuiltIn("pattern", ((marker,),), parser, shows_progress=False, wraps=True, content="figure")


class _Parser(FigureParser):
    def __init__(self, pattern: re.Pattern[bytes], key: str) -> None:
        super().__init__("pattern")
        self._pattern, self._key = pattern, key
        self._values: list[float] = []
        self._fault: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        is_long = len(record) > _LONGEST_LINE_BYTES
        found = [b"a line of more than 8 KiB"] if is_long else self._pattern.findall(record)
        if not found:
            return
        self.attempts = 1
        value = number(found[0].rstrip(b",;")) if _PLAIN.fullmatch(found[0]) else None
        if len(found) == 1 and value is not None and 0 < value < math.inf:
            self._values.append(value)
        elif self._fault is None:
            self._fault = f"no single positive number: {quoted_text(b', '.join(found)[:200])}"

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        return {self._key: self._values}, self._fault
