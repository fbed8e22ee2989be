"""The session's end: what becomes of rows that have not ended, and of jobs that still run."""

from __future__ import annotations

from concurrent.futures import Future

from pytest_gsw.errors import INTERRUPTED, JobError, RunError, SchedulerAwayError
from pytest_gsw.fleet.entry import Over, Phase, Seen, seen_of, unanswered_s
from pytest_gsw.fleet.logs import Logs
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.polling import Polling
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.fleet.submitting import Submitter
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import Job, JobState, JobStatus, Launcher


class Finish:
    """Ends the session's wait, its jobs, and what it holds."""

    def __init__(
        self,
        rows: Rows,
        launcher: Launcher,
        notes: Notes,
        submitting: Submitter,
        polling: Polling,
        repeating: Repeating,
        logs: Logs,
    ) -> None:
        self._rows = rows
        self._launcher = launcher
        self._notes = notes
        self._submitting = submitting
        self._polling = polling
        self._repeating = repeating
        self._logs = logs
        self._cancelling: Future[None] | None = None

    def interrupt(self, detach: bool) -> int:
        """End the session's wait; see :meth:`pytest_gsw.fleet.fleet.Fleet.interrupt`."""
        rows = self._rows
        self._repeating.stop()
        self._submitting.collect(wait=True)
        running = rows.running()
        rows.interrupt(lambda phase: _interrupted(phase, detach))
        self._logs.wait_no_longer()
        if running and not detach:
            self._notes.write(Journal.cancelled, *(seen.job for seen in running))
            # Slurm takes its time for hundreds of jobs; rows are reported meanwhile.
            self._cancelling = self._submitting.aside(rows.cancel, running)
        return len(running)

    def close(self, detach: bool) -> int:
        """Cancel whatever still runs, and let go; see :meth:`pytest_gsw.fleet.fleet.Fleet.close`."""
        self._submitting.collect(wait=True)
        if self._cancelling is not None:
            self._cancelling.exception()  # once it has ended, it is known which jobs are left
        try:
            count = self._rows.count(has_reason=True)
            self._rows.hold(count)
            running = [seen.job for seen in self._rows.running() if not detach]
            if not detach:
                running += self._found_again()
            if running:
                self._notes.write(Journal.cancelled, *running)
                self._launcher.cancel(running)
            if isinstance(count, RunError):
                fact = f"whether the run has jobs that are no row's is not known: {count.fact}"
                raise JobError(fact, count.evidence, advice=count.advice)
        finally:
            self._submitting.close()
            self._polling.close()
            self._launcher.close()
            self._notes.close()
        return len(running)

    def _found_again(self) -> list[Job]:
        """Jobs whose submission's answer was lost: nobody but this session would end them."""
        found = []
        for phase in self._rows.phases.values():
            since_s = unanswered_s(phase)
            if since_s is not None and phase.row is not None:
                try:
                    job = self._launcher.find(phase.row.spec, since_s)
                except SchedulerAwayError:
                    break  # nor will it tell of the others
                except RunError:
                    continue
                if isinstance(phase, Over):
                    phase.seen, phase.since_s = None if job is None else Seen(job), None
                found += [job] if job is not None else []
        if found:
            self._notes.write(Journal.submitted, *found)
        return found


def _interrupted(phase: Phase, detach: bool) -> JobError:
    """That a row's end was not waited for, and what became of its job."""
    seen = seen_of(phase)
    fate = "it was never submitted"
    if seen is not None:
        fate = f"job {seen.job.id} was {'left running' if detach else 'cancelled'}{_waited_for(seen.status)}"
    elif unanswered_s(phase) is not None:
        fate = "whether it was submitted is not known"
    return JobError(f"{INTERRUPTED}: {fate}")


def _waited_for(status: JobStatus) -> str:
    """What a job that had not begun waited for, as Slurm says it; empty where nothing is said."""
    waits = status.state is JobState.PENDING and status.reason not in {"", "None"}
    return f"; it was pending ({status.reason})" if waits else ""
