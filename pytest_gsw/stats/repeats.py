"""The number of jobs by which a row is decided."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repeats:
    """The number of jobs of a row in a run."""

    #: Jobs that run in any case.
    first: int = 1
    #: Most jobs that follow if those show that the row is slow.
    confirm: int = 0

    @property
    def most(self) -> int:
        """The most jobs that a row can have."""
        return self.first + self.confirm
