"""The run's journal as the executor writes it: a full disk costs later sessions, not this one's results."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gsw.errors import TakenOverError
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import JobSpec


class JournalWriter:
    """Writes the run's journal; does nothing for a replay, which submits nothing.

    Args:
        journal: Records every submission, before and after it.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        #: Why the journal is incomplete; empty if it is complete.
        self.problem = ""
        #: Who has taken the run over; empty if this session owns it.
        self.taken_over = ""

    def check(self) -> None:
        """Raise a TakenOverError if the run belongs to another session by now: its jobs are that one's."""
        if self._journal is not None:
            try:
                self._journal.check()
            except TakenOverError as error:
                self.taken_over = str(error)
                raise

    @property
    def kept(self) -> bool:
        """True if there is a journal for a later session to read."""
        return self._journal is not None

    def intents(self, specs: list[JobSpec], now_s: float) -> str | None:
        """Record that these rows are about to be submitted.

        Returns:
            The reason why none of them may be submitted; ``None`` if they are recorded.
        """
        if self._journal is not None:
            try:
                self._journal.intents(specs, now_s)
            except OSError as error:
                return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def write(self, event: Callable[..., None], *facts: object) -> None:
        """Record an event; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()
