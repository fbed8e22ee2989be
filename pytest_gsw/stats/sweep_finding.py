"""A finding of a sweep, as its search computes it and records and reports have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_gsw.common.text import percent

Kind = Literal["slow", "between", "intermittent", "not decided"]
#: Kinds of findings that name nodes.
NAMED = frozenset({"slow", "between", "intermittent"})


@dataclass(frozen=True)
class SweepFinding:
    """A slow node, nodes that are slow together or now and then, or suspects that are not decided.

    Changes are those of throughput, as fractions: -0.1 is a tenth less.
    """

    #: A :data:`Kind`.
    kind: str
    #: The slow nodes, as a node list; of ``between`` those of the tile or switch, of which none explains the loss by
    #: itself; of ``intermittent`` those of a tile that was slow in the sweep beyond doubt, and is fast since.
    nodes: str
    #: The switch if the nodes are slow together and are all of one; else empty.
    switch: str
    change: float
    #: Bounds of its 95 % interval. Of a finding without jobs of the search, it is an interval for all tiles together.
    low: float
    high: float
    #: Jobs behind it; of ``intermittent`` the fast ones since.
    jobs: int
    #: Of ``not decided`` about how many more jobs decide it; ``None`` if no such number does.
    more_jobs: int | None = None
    #: The slow job of an intermittent node; empty if not known.
    job_id: str = ""

    @property
    def is_named(self) -> bool:
        """True if it names nodes: another one is not decided."""
        return self.kind in NAMED

    @property
    def short(self) -> str:
        """``slow n017 -9.8 %``."""
        return f"{self.kind} {self.nodes} {percent(self.change)}"
