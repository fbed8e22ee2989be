"""What the other rows of a session's cluster say of its night, to each of its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from pytest_gsw.history.together import Beside, Together
from pytest_gsw.performance.together import FEWEST_ROWS, Night, Tonight
from pytest_gsw.session.nights import Nights
from pytest_gsw.tables.definition import experiment_hash
from pytest_gsw.tables.model import Accepted, Baseline


class Others:
    """The rows of a session together.

    Args:
        nights: What earlier nights measured.
        rows: The session's rows, each with what its cluster has accepted for it.
        run_id: The session.
        is_over: Whether nothing more is to come of a row.
    """

    def __init__(
        self,
        nights: Nights,
        rows: Collection[tuple[Baseline, Accepted | None]],
        run_id: str,
        is_over: Callable[[str], bool],
    ) -> None:
        self._nights = nights
        self._rows = rows
        self._run_id = run_id
        self._is_over = is_over
        self._first_s: dict[str, float] = {}
        self._left_out: set[str] = set()
        #: Rows that hear what the others say, and say nothing: their first job had a slow node.
        self._listening: set[str] = set()

    @cached_property
    def together(self) -> Together:
        """The earlier nights of all rows; none where nobody asks them."""
        asked = self._rows if self._nights.are_kept and len(self._rows) >= FEWEST_ROWS else ()
        return Together(
            {
                row.id: self._nights.past(row.id, "", experiment_hash(row), accepted, self._run_id)
                for row, accepted in asked
            }
        )

    @property
    def may_speak(self) -> bool:
        """Whether they may come to say something of the night."""
        return self._tonight is not None

    def note(self, row: str, first_s: float | None, *, had_slow_node: bool = False) -> None:
        """Take what a row's first job took; ``None`` where the night and the row say nothing of each other."""
        if first_s is None:
            self._left_out.add(row)
        elif had_slow_node:
            self._listening.add(row)
        else:
            self._first_s.setdefault(row, first_s)

    def now(self, row: str, tolerance: float) -> Night | None:
        """What the others say to a row so far; ``None`` where they say nothing."""
        tonight = self._tonight
        return None if tonight is None or not self._hears(row) else tonight.beside(row, tolerance)

    def beside(self, night: Night | None) -> Beside:
        """What they say together of earlier nights, and of tonight."""
        return Beside(self.together, {} if night is None else {self._run_id: night.effect})

    def bounds(self, row: str, tolerance: float) -> tuple[Night | None, ...]:
        """What the others may come to say to a row whose first job has ended.

        Returns:
            ``None`` alone where they will say nothing; nothing at all where what they say is not to be told yet.
        """
        tonight = self._tonight
        if tonight is None or not self._hears(row):
            return (None,)
        return tonight.bounds(row, tolerance)

    def _hears(self, row: str) -> bool:
        is_there = row in self._first_s or row in self._listening
        return is_there and row not in self._left_out and row in self.together.before.levels

    @property
    def _tonight(self) -> Tonight | None:
        before = self.together.before
        if before.noise is None:
            return None
        silent = self._left_out | self._listening
        first_s: Mapping[str, float] = {row: one for row, one in self._first_s.items() if row not in silent}
        missing = sum(row not in first_s and row not in silent and not self._is_over(row) for row in before.levels)
        tonight = self.together.tonight(first_s, missing)
        return tonight if tonight.says_something else None
