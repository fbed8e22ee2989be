"""The session's end: what becomes of rows that have not ended, and of jobs that still run."""

from __future__ import annotations

from concurrent.futures import Future

from pytest_gsw.errors import JobError, RunError, SchedulerAwayError
from pytest_gsw.fleet.logs import Logs
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.fleet.submitting import Submitting
from pytest_gsw.jobs.model import Job, Launcher


class Ending:
    """Ends the session's wait, its jobs, and what it holds.

    Args:
        rows: All rows.
        launcher: How jobs are ended.
        notes: The run's journal.
        submitting: Knows what is under way, and has the threads.
        repeating: Told that each row's job is its last.
        logs: Told that nobody waits for logs any more.
    """

    def __init__(
        self, rows: Rows, launcher: Launcher, notes: Notes, submitting: Submitting, repeating: Repeating, logs: Logs
    ) -> None:
        self._rows = rows
        self._launcher = launcher
        self._notes = notes
        self._submitting = submitting
        self._repeating = repeating
        self._logs = logs
        self._cancelling: Future[None] | None = None

    def interrupt(self, detach: bool) -> int:
        """End the session's wait; see :meth:`pytest_gsw.fleet.fleet.Fleet.interrupt`."""
        rows = self._rows
        self._repeating.stop()
        self._submitting.collect(wait=True)
        running = rows.running()
        how = "left running" if detach else "cancelled"
        for entry in rows.entries.values():
            if entry.error is None and entry.run is None and entry.row_id not in rows.ended:
                fate = f"job {entry.job.id} was {how}" if entry.job else "it was never submitted"
                if entry.job is None and entry.since_s is not None:
                    fate = "whether it was submitted is not known"
                entry.error = JobError(f"interrupted: {fate}", advice="pytest --gsw-resume" if detach else "")
        rows.waiting.clear()
        self._logs.wait_no_longer()
        if running and not detach:
            # Slurm takes its time for hundreds of jobs; rows are reported meanwhile.
            self._cancelling = self._submitting.aside(rows.cancel, running)
        return len(running)

    def close(self, detach: bool) -> int:
        """Cancel whatever still runs, and let go; see :meth:`pytest_gsw.fleet.fleet.Fleet.close`."""
        self._submitting.collect(wait=True)
        if self._cancelling is not None:
            self._cancelling.exception()  # once it has ended, it is known which jobs are left
        running = [entry.job for entry in self._rows.running() if entry.job is not None and not detach]
        try:
            if not detach:
                running += self._found_again()
            if running:
                self._launcher.cancel(running)
        finally:
            self._submitting.close()
            self._launcher.close()
            self._notes.close()
        return len(running)

    def _found_again(self) -> list[Job]:
        """Jobs whose submission's answer was lost: nobody but this session would end them."""
        found = []
        for entry in self._rows.entries.values():
            if entry.job is None and entry.since_s is not None and entry.spec is not None:
                try:
                    job = self._launcher.find(entry.spec, entry.since_s)
                except SchedulerAwayError:
                    break  # nor will it tell of the others
                except RunError:
                    continue
                found += [job] if job is not None else []
        return found
