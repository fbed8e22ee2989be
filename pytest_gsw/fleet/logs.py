"""The logs of jobs: where they are, and how long an ended job's is waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.fleet.entry import Entry, is_healthy
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.before import check_new
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, Launcher
from pytest_gsw.runs.run import Run

#: How often the log of an ended job is looked for at last.
_LONGEST_LOG_LOOK_S = 1.0


def log_of(launcher: Launcher, job: Job) -> Path:
    """A job's log.

    Raises:
        LogError: There is none, it is older than the job, or it cannot be looked for.
    """
    try:
        log = launcher.find_log(job)
    except OSError as error:  # a file system that is away for a moment
        raise LogError(f"the log of job {job.id} cannot be looked for: {error.strerror or error}") from error
    check_new(job, log)
    return log


def _batch_output(launcher: Launcher, job: Job) -> Path | None:
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


class Logs:
    """Hands over rows whose job has ended, once its log is there.

    Args:
        rows: All rows.
        launcher: Knows where logs are.
        repeating: Knows which rows have another job.
        clock: Monotonic seconds.
    """

    def __init__(self, rows: Rows, launcher: Launcher, repeating: Repeating, clock: Callable[[], float]) -> None:
        self._rows = rows
        self._launcher = launcher
        self._repeating = repeating
        self._clock = clock

    def take_over(self, entry: Entry, spec: JobSpec, attempts: tuple[Attempt, ...]) -> None:
        """What an earlier session knew of the row's jobs so far; what was measured must still be there."""
        entry.attempts = attempts
        numbered = [(replace(spec, attempt=number), one) for number, one in enumerate(attempts, start=1)]
        for its, attempt in numbered:
            self._rows.claims.job(Job(attempt.job_id, its, 0.0, cluster=attempt.cluster))
        try:
            entry.earlier = tuple(self._measured_before(its, attempt) for its, attempt in numbered if attempt.measured)
        except LogError as error:
            self._rows.fail(entry, error)

    def _measured_before(self, spec: JobSpec, attempt: Attempt) -> Run:
        """A job that an earlier session has measured.

        Raises:
            LogError: Its log is gone, or another job's of this session.
        """
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0, cluster=attempt.cluster)
        log = log_of(self._launcher, job)
        clash = self._rows.claims.log(job, log)
        if clash is not None:
            raise clash[1]
        return Run(job.id, attempt.status, log, _batch_output(self._launcher, job))

    def wait_for(self, entry: Entry) -> None:
        """A job has ended, or was given up: its log is awaited, as long as that makes sense."""
        entry.watch = None
        entry.log_look_s = self._clock()
        entry.log_deadline_s = entry.log_look_s + (self._launcher.log_wait_s if is_healthy(entry.status) else 0.0)
        self._rows.ended[entry.row_id] = entry

    def wait_no_longer(self) -> None:
        """Let each log that is not there at the next look be missing."""
        for entry in self._rows.ended.values():
            entry.log_deadline_s = entry.log_look_s = self._clock()

    def find(self) -> None:
        """Hand over what has ended and has its log, or will not get it any more."""
        now_s = self._clock()
        ended = self._rows.ended
        for entry in [entry for entry in ended.values() if now_s >= entry.log_look_s]:
            if entry.row_id not in ended:
                continue  # given up for another one's sake
            entry.log_look_s = min(now_s + entry.log_pause_s, max(now_s, entry.log_deadline_s))
            entry.log_pause_s = min(2 * entry.log_pause_s, _LONGEST_LOG_LOOK_S)
            if self._concludes(entry, now_s):
                self._rows.over[entry.row_id] = entry
                del ended[entry.row_id]

    def _concludes(self, entry: Entry, now_s: float) -> bool:
        """Look for an ended job's log; whether the row has its end, and neither waits on nor is run again."""
        job = entry.job
        assert job is not None  # only a job can end
        log: Path | None = None
        try:
            log = log_of(self._launcher, job)
        except LogError as error:
            if is_healthy(entry.status):
                if now_s < entry.log_deadline_s:
                    return False
                entry.error = error  # a shared file system was given its time
        if log is not None and self._rows.is_shared(self._rows.claims.log(job, log), entry):
            return False
        return entry.error is not None or self._makes_run(entry, job, log)

    def _makes_run(self, entry: Entry, job: Job, log: Path | None) -> bool:
        """Make the row's run of its ended job; whether that job is the row's last."""
        output = _batch_output(self._launcher, job)
        if output is not None and self._rows.is_shared(self._rows.claims.output(job, output), entry):
            return False
        # A stop that an earlier session meant to send explains nothing but a cancelled job.
        sent = entry.stop_sent or entry.status.state is JobState.CANCELLED
        entry.run = Run(job.id, entry.status, log, output, entry.stopped if sent else None, entry.earlier)
        return not self._repeating.repeats(entry, entry.run)
