"""The file of ``--gsw-acceptance``: the bill of nodes, ordered stages, and criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.errors import Fault, FileError


@dataclass(frozen=True)
class Stage:
    """One stage of a plan: rows that are submitted once the stage before is decided."""

    name: str
    #: The line of the stage in the file.
    line: int
    #: The selection of its rows, in the language of ``-k`` and of ``-m``; empty for all.
    rows: str = ""
    marks: str = ""
    #: ``node``, ``switch``, ``block`` or a number of nodes; empty for jobs on any nodes of the bill.
    tile: str = ""
    #: True if a search among its tiles names what is slow.
    find: bool = False
    #: Duration of each row, seconds; ``None`` for a run of the recipe.
    for_s: float | None = None
    #: True if a criterion that cannot be met any more does not end the plan.
    goes_on: bool = False


@dataclass(frozen=True)
class Criteria:
    """What a cluster has to reach, as fractions; ``None`` if the plan does not ask for it."""

    #: Least share of the bill's nodes that have passed.
    covered: float | None = None
    #: Largest loss of throughput of a row on any nodes against its document.
    within: float | None = None
    #: Least share of productive time of each row with a duration.
    goodput: float | None = None


@dataclass(frozen=True)
class Plan:
    """A plan of acceptance."""

    path: Path
    name: str
    #: The bill: each of these nodes is covered, or an exception.
    nodes: tuple[str, ...]
    stages: tuple[Stage, ...]
    criteria: Criteria
    #: The line of each key of the file's first level and of each criterion.
    lines: Mapping[str, int] = field(default_factory=dict)

    def fault(self, line: int, key: str, problem: str) -> FileError:
        """The error of a fault in the file."""
        return FileError(self.path, (Fault(line, 1, key, problem),))
