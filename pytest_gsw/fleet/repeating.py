"""Which rows have another job: one was failed by the infrastructure or cancelled, or one more is to be measured."""

from __future__ import annotations

from pytest_gsw.fleet.entry import Ended, Later, OnceMore, RepeatObserver, RepeatRequest, Row, Waiting, is_healthy
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import Attempt, JobSpec, JobState
from pytest_gsw.runs.infrastructure import infrastructure_failure
from pytest_gsw.runs.run import Run

#: Why a job is not its row's last that an earlier session of the run cancelled.
SESSION_ENDED = "its session ended early"


class Repeating:
    """Puts rows back at the head of the queue.

    Args:
        rows: All rows.
        notes: The run's journal.
        retries: How often a row is run again when the infrastructure failed.
        once_more: Asked of each job that ended well whether its row wants another one.
        on_repeat: Told of every job that is not its row's last.
    """

    def __init__(self, rows: Rows, notes: Notes, retries: int, once_more: OnceMore, on_repeat: RepeatObserver) -> None:
        self._rows = rows
        self._notes = notes
        self._retries = retries
        self._stopped = False
        self._once_more = once_more
        self._on_repeat = on_repeat

    def stop(self) -> None:
        """From now on each row's job is its last."""
        self._stopped = True

    def goes_on(self, ended: Ended, run: Run) -> bool:
        """Whether a row is not over: it waits for others, or is put back into the queue.

        That is where the infrastructure failed it, an earlier session cancelled it, or one more job of it is wanted.
        """
        row = ended.row
        attempt = None if self._stopped else self._attempt(ended, run)
        if attempt is None:
            return False
        if isinstance(attempt, Later):
            return True
        del self._rows.ended[row.row_id]
        self.again(row, attempt, attempt.after(row.spec), run.jobs if attempt.measured else row.earlier)
        return True

    def again(self, row: Row, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row back at the head of the queue, after an attempt that is not its last."""
        self._notes.write(Journal.repeated, row.row_id, attempt)
        self._on_repeat(row.row_id, attempt)
        self._rows.wait(Waiting(Row(row.row_id, spec, (*row.attempts, attempt), earlier)), first=True)

    def _attempt(self, ended: Ended, run: Run) -> Attempt | Later | None:
        """What a job was that is not its row's last; ``None`` where it is the last."""
        row, is_cancelled = ended.row, run.status.state is JobState.CANCELLED
        if is_cancelled and ended.seen.cancelled_before and run.stopped is None:
            return Attempt(run.job_id, run.status, SESSION_ENDED)
        failure = infrastructure_failure(run) if row.retried < self._retries else None
        if failure is not None:
            return Attempt(run.job_id, run.status, failure.why, failure.nodes)
        wanted: RepeatRequest | Later | None = None
        if is_healthy(run.status):
            try:
                wanted = self._once_more(row.row_id, run)
            except Exception:  # of a site's own rule: told when the row is judged
                return None
        if wanted is None or isinstance(wanted, Later):
            return wanted
        return Attempt(run.job_id, run.status, wanted.why, wanted.avoiding, measured=True)
