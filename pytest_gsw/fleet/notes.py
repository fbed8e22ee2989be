"""What a session writes to its run's journal, as far as the disk allows."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import JobSpec


class Notes:
    """The run's journal; a replay, which submits nothing, needs none.

    Args:
        journal: Told of every submission, before and after it.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        #: Why the journal lacks something, where it does.
        self.problem = ""

    @property
    def kept(self) -> bool:
        """Whether a later session will read them."""
        return self._journal is not None

    def intents(self, specs: list[JobSpec], now_s: float) -> str | None:
        """Why the journal cannot tell of these rows, so that none of them may be submitted; ``None`` where it does."""
        if self._journal is None:
            return None
        try:
            self._journal.intents(specs, now_s)
        except OSError as error:
            return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def write(self, event: Callable[..., None], *facts: object) -> None:
        """Write what has happened; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()
