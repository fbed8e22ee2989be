"""How many jobs a row has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repeats:
    """How many jobs a row has in a night."""

    #: Jobs that run in any case.
    first: int = 1
    #: Most jobs that follow where those say that the row is slow.
    confirm: int = 0

    @property
    def most(self) -> int:
        """The most jobs that a row can have."""
        return self.first + self.confirm
