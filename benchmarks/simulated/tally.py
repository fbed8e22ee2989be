"""Counted figures: how often something was so, of how many, with Wilson's interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: A model, a change and a rule.
Cell = tuple[str, str, str]

_Z = statistics.NormalDist().inv_cdf(0.975)


@dataclass
class Share:
    """How often something was so, or the sum of something, of how many."""

    hits: float = 0
    of: int = 0

    @property
    def value(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval, 95 %."""
        return wilson(self.hits, self.of)


def wilson(hits: float, of: int) -> tuple[float, float]:
    """The interval of a share: E. B. Wilson, Journal of the American Statistical Association 22 (1927), p. 209."""
    share, square = hits / of, _Z**2 / of
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / of + square / of / 4) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass
class Tally:
    """Figures by cell and name; those of several clusters add up."""

    shares: dict[tuple[Cell, str], Share] = field(default_factory=dict)
    #: Runs to a first alarm, ``None`` where there was none.
    waits: dict[tuple[Cell, str], list[int | None]] = field(default_factory=dict)

    def count(self, cell: Cell, name: str, hits: float, of: int = 1) -> None:
        """Add so many of so many."""
        share = self.shares.setdefault((cell, name), Share())
        share.hits += hits
        share.of += of

    def wait(self, cell: Cell, name: str, runs: int | None) -> None:
        """Add how long an alarm took."""
        self.waits.setdefault((cell, name), []).append(runs)

    def add(self, other: Tally) -> None:
        """Add another one's figures."""
        for (cell, name), share in other.shares.items():
            self.count(cell, name, share.hits, share.of)
        for key, waits in other.waits.items():
            self.waits.setdefault(key, []).extend(waits)

    def share(self, cell: Cell, name: str) -> Share | None:
        """One figure, ``None`` where nothing was counted."""
        share = self.shares.get((cell, name))
        return share if share is not None and share.of else None

    def pooled(self, cells: Iterable[Cell], name: str) -> Share | None:
        """One figure of several cells together."""
        found = [share for cell in cells if (share := self.share(cell, name)) is not None]
        return Share(sum(one.hits for one in found), sum(one.of for one in found)) if found else None

    def within(self, cells: Iterable[Cell], name: str, runs: int) -> Share | None:
        """How many alarms came within so many runs."""
        waits = [wait for cell in cells for wait in self.waits.get((cell, name), ())]
        return Share(sum(one is not None and one <= runs for one in waits), len(waits)) if waits else None

    def median(self, cell: Cell, name: str) -> int | None:
        """The median wait, ``None`` where less than half of all had an alarm."""
        waits = self.waits.get((cell, name), [])
        found = sorted(one for one in waits if one is not None)
        return found[(len(waits) - 1) // 2] if 2 * len(found) > len(waits) else None

    def plain(self) -> Mapping[str, object]:
        """The same as JSON has it."""
        return {
            "shares": [[*cell, name, one.hits, one.of] for (cell, name), one in self.shares.items()],
            "waits": [[*cell, name, waits] for (cell, name), waits in self.waits.items()],
        }

    @classmethod
    def of_plain(cls, plain: Mapping[str, list[list[object]]]) -> Tally:
        """The tally that such JSON is of."""
        tally = cls()
        for model, change, rule, name, hits, of in plain["shares"]:
            tally.shares[(str(model), str(change), str(rule)), str(name)] = Share(hits, of)  # type: ignore[arg-type]
        for model, change, rule, name, waits in plain["waits"]:
            tally.waits[(str(model), str(change), str(rule)), str(name)] = waits  # type: ignore[assignment]
        return tally
