"""All selected rows at once: submit them, poll all their jobs with one question, hand each ended job over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pytest_gsw.errors import LogError, RunError
from pytest_gsw.examine import Run
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher

#: How long a job may stay unknown before its row is given up: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0

#: Called with the row's id, the job's id and the job's new status.
StateObserver = Callable[[str, str, JobStatus], None]


@dataclass
class _Entry:
    """One row's job as the fleet sees it."""

    job: Job | None = None
    error: RunError | None = None
    status: JobStatus = field(default_factory=lambda: JobStatus(JobState.PENDING))
    #: Since when nothing is known of the job, by the monotonic clock.
    unknown_since_s: float | None = None
    given_up: bool = False

    @property
    def over(self) -> bool:
        return self.error is not None or self.status.state.ended or self.given_up


class Fleet:
    """The session's jobs.

    Args:
        launcher: How jobs are started and asked about.
        poll_interval_s: Seconds between two questions to the launcher.
        observer: Told of every change of a job's state.
        clock: Monotonic seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        launcher: Launcher,
        poll_interval_s: float,
        observer: StateObserver = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = launcher
        self._poll_interval_s = poll_interval_s
        self._observer = observer
        self._clock = clock
        self._sleep = sleep
        self._entries: dict[str, _Entry] = {}

    def submit(self, specs: Mapping[str, JobSpec | RunError]) -> None:
        """Submit one job for each row; a row that cannot be submitted keeps its error for :meth:`wait`."""
        for row_id, spec in specs.items():
            entry = self._entries.setdefault(row_id, _Entry())
            if isinstance(spec, RunError):
                entry.error = spec
                continue
            try:
                entry.job = self.launcher.submit(spec)
            except RunError as error:
                entry.error = error

    def wait(self, row_id: str) -> Run:
        """Wait until this row's job has ended, and hand it over with its log.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        entry = self._entries[row_id]
        while not entry.over:
            self._poll()
            if not entry.over:
                self._sleep(self._poll_interval_s)
        if entry.error is not None:
            raise entry.error
        assert entry.job is not None  # an entry without a job has an error
        return self._run(entry.job, entry.status)

    def knows(self, row_id: str) -> bool:
        """Whether this row was handed over for submission."""
        return row_id in self._entries

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job, if it was submitted."""
        entry = self._entries.get(row_id)
        return entry.job.id if entry and entry.job else None

    def status(self, row_id: str) -> JobStatus | None:
        """What was last known of this row's job."""
        entry = self._entries.get(row_id)
        return entry.status if entry and entry.job else None

    def close(self) -> int:
        """Cancel whatever still runs, with one request, and let go of the launcher.

        Returns:
            How many jobs were cancelled.
        """
        running = [
            entry.job for entry in self._entries.values() if entry.job is not None and not entry.status.state.ended
        ]
        try:
            if running:
                self.launcher.cancel(running)
        finally:
            self.launcher.close()
        return len(running)

    def _poll(self) -> None:
        """Ask once about all jobs that have not ended."""
        open_entries = {
            e.job.id: (row_id, e) for row_id, e in self._entries.items() if e.job is not None and not e.over
        }
        jobs = [entry.job for _, entry in open_entries.values() if entry.job is not None]
        answers = self.launcher.poll(jobs)
        for job_id, (row_id, entry) in open_entries.items():
            self._update(row_id, entry, answers.get(job_id, JobStatus(JobState.UNKNOWN, reason="no answer")))

    def _update(self, row_id: str, entry: _Entry, status: JobStatus) -> None:
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if entry.unknown_since_s is None:
                entry.unknown_since_s = now_s
            if now_s - entry.unknown_since_s < UNKNOWN_LIMIT_S:
                return  # the scheduler is out of reach for a while; the last known state stands
            entry.given_up = True
        else:
            entry.unknown_since_s = None
        changed = status.state is not entry.status.state
        entry.status = status
        if changed and entry.job is not None:
            self._observer(row_id, entry.job.id, status)

    def _run(self, job: Job, status: JobStatus) -> Run:
        """The ended job with its log; a healthy job's log may take a while to appear on a shared file system."""
        healthy = status.state in {JobState.COMPLETED, JobState.REPLAYED} and not status.exit_code
        deadline_s = self._clock() + (self.launcher.log_wait_s if healthy else 0.0)
        batch_output = self.launcher.batch_output(job)
        while True:
            try:
                return Run(job.id, status, self.launcher.find_log(job), batch_output)
            except LogError:
                if not healthy:
                    return Run(job.id, status, None, batch_output)
                if self._clock() >= deadline_s:
                    raise
            self._sleep(min(1.0, max(0.05, deadline_s - self._clock())))
