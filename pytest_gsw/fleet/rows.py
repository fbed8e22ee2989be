"""Where each row is on its way, what the rows take of the cluster, and whose each job and log is."""

from __future__ import annotations

import math
from collections import deque

from pytest_gsw.errors import JobError, RunError
from pytest_gsw.fleet.entry import Entry, Limits
from pytest_gsw.jobs.claims import Claims
from pytest_gsw.jobs.model import Job, JobState, Launcher


class Rows:
    """All rows, and the rows by where they are on their way.

    Args:
        launcher: How jobs are ended.
        limits: How many jobs and GPUs may be taken at once, and how many jobs may be pending.
    """

    def __init__(self, launcher: Launcher, limits: Limits) -> None:
        self.entries: dict[str, Entry] = {}
        self.waiting: deque[Entry] = deque()
        self.submitting: dict[str, Entry] = {}
        self.live: dict[str, Entry] = {}
        self.ended: dict[str, Entry] = {}
        self.over: dict[str, Entry] = {}
        self.limits = limits
        self.claims = Claims()
        self._launcher = launcher
        #: What rows that are being submitted or live take.
        self._taken_jobs = 0
        self._taken_gpus = 0

    def fits(self, entry: Entry) -> bool:
        """Whether a row may be submitted beside those that have a place."""
        limits = self.limits
        if self._taken_jobs + 1 > limits.jobs or self._taken_gpus + entry.gpus > limits.gpus:
            return False
        if limits.pending == math.inf:
            return True
        pending = sum(live.status.state is JobState.PENDING for live in self.live.values())
        return pending + len(self.submitting) + 1 <= limits.pending

    def take_place(self, entry: Entry) -> None:
        """Count what a row takes that is submitted."""
        self._taken_jobs += 1
        self._taken_gpus += entry.gpus

    def free_place(self, entry: Entry) -> None:
        """Count no longer what a row took."""
        self._taken_jobs -= 1
        self._taken_gpus -= entry.gpus

    def leave_queue(self, entry: Entry) -> None:
        """A row's job is no longer live."""
        del self.live[entry.row_id]
        self.free_place(entry)

    def fail(self, entry: Entry, error: RunError) -> None:
        """Let a row be over with an error."""
        entry.error = error
        self.over[entry.row_id] = entry

    def is_shared(self, clash: tuple[Job, RunError] | None, entry: Entry) -> bool:
        """Give up both rows where another one has the same job or log; one that was handed out keeps its end."""
        if clash is None:
            return False
        other, error = clash
        rival = self.entries[other.spec.row_id]
        self.give_up([entry] if rival is entry or rival.job is not other else [rival, entry], error)
        return True

    def give_up(self, entries: list[Entry], error: RunError) -> None:
        """Let rows be over with an error whatever becomes of their jobs, and end those."""
        over = [one for one in entries if one.error is None and (one.run is None or one.row_id in self.over)]
        for entry in over:
            if self.live.pop(entry.row_id, None) is not None:
                self.free_place(entry)
            self.ended.pop(entry.row_id, None)
            self.fail(entry, error)
        try:
            self.cancel(over)
        except JobError:
            return  # they are ended with the session

    def cancel(self, entries: list[Entry]) -> None:
        """End these rows' jobs with one request; one that fails leaves them to the session's end.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._launcher.cancel([entry.job for entry in entries if entry.job is not None])
        for entry in entries:
            entry.cancelled = True

    def running(self) -> list[Entry]:
        """Rows whose job may still run: also those that were given up, of which nothing is known."""
        return [
            entry
            for entry in self.entries.values()
            if entry.job is not None and not entry.status.state.ended and not entry.cancelled
        ]
