"""How the steps of a log become one number: ``last``, ``mean[35:44]``, ``median[-10:]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["last", "mean", "median"]

_PATTERN = re.compile(r"(last|mean|median)(?:\[(-?\d+)?:(-?\d+)?\])?")


@dataclass(frozen=True)
class Statistic:
    """A statistic over the steps of one log.

    The window counts steps as the log does and includes both its ends, as the recipes' own
    tools do (``mean[35:44]`` is the mean of ten steps). A negative number counts from the
    last step: ``median[-10:]`` is the median of the last ten.
    """

    kind: Kind
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None and self.last is None:
            return self.kind
        first = "" if self.first is None else self.first
        last = "" if self.last is None else self.last
        return f"{self.kind}[{first}:{last}]"


def parse_statistic(text: str) -> Statistic:
    """Read a statistic as a table writes it; a ValueError says what is wanted."""
    match = _PATTERN.fullmatch(text)
    wanted = "wanted last, mean or median, optionally with a window such as mean[35:44] or median[-10:]"
    if match is None:
        raise ValueError(f"got '{text}', {wanted}")
    first, last = (int(bound) if bound else None for bound in match.group(2, 3))
    has_window = match.group(0) != match.group(1)
    if has_window and match.group(1) == "last":
        raise ValueError(f"got '{text}', but 'last' is one step and takes no window")
    if has_window and first is None and last is None:
        raise ValueError(f"got '{text}', an empty window; {wanted}")
    same_end = first is not None and last is not None and (first < 0) == (last < 0)
    if same_end and cast(int, first) > cast(int, last):
        raise ValueError(f"got '{text}', whose window ends before it starts")
    return Statistic(cast(Kind, match.group(1)), first, last)
