"""The logs of jobs: where they are, and how long an ended job's is waited for."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from pytest_gsw.errors import LogError, NoLogError
from pytest_gsw.fleet.entry import Ended, Live, Over, is_healthy
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.before import check_new
from pytest_gsw.jobs.layout import outputs_beside
from pytest_gsw.jobs.model import Job, JobState, Launcher
from pytest_gsw.logs.reader import detect_format
from pytest_gsw.runs.checks import read_identity
from pytest_gsw.runs.run import Run

#: How often the log of an ended job is looked for at last.
_LONGEST_LOG_LOOK_S = 1.0

#: How often a row that waits for others is asked at least, whatever becomes of them.
_ASKED_S = 60.0


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


def batch_output_of(launcher: Launcher, job: Job) -> Path | None:
    """Where a job's batch shell writes; ``None`` where nobody can tell."""
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


def in_batch_output(error: LogError, job: Job, output: Path | None) -> Path | LogError:
    """The log of a job that left none where its recipe puts it: its batch shell's output, where that holds the log.

    The recipes send the output of their srun to a file by a variable, which not every Slurm knows. Steps alone do not
    tell whose they are: a script may show another log.
    """
    if not isinstance(error, NoLogError) or output is None:
        return error
    try:
        named = read_identity(output, detect_format(output).name).job_id
        check_new(job, output)
    except (LogError, OSError):
        return error
    if named == job.id:
        return output
    whose = "no line says whose they are" if named is None else f"they are those of job {named}"
    return LogError(
        error.fact,
        (*error.evidence, ("steps in", str(output))),
        error.tail,
        f"let the recipe write its log where it is looked for; the batch output has steps, and {whose}",
    )


class Logs:
    """Hands over rows whose job has ended, once its log is there."""

    def __init__(
        self, rows: Rows, launcher: Launcher, repeating: Repeating, awaited: bool, clock: Callable[[], float]
    ) -> None:
        self._rows = rows
        self._launcher = launcher
        self._repeating = repeating
        self._awaited = awaited
        self._clock = clock

    @property
    def due_s(self) -> float:
        """When a log is looked for next, monotonic seconds; infinity where none is awaited."""
        return min((ended.look_s for ended in self._rows.ended.values()), default=math.inf)

    def wait_for(self, live: Live) -> None:
        """A job has ended, or was given up: its log is awaited, as long as that makes sense."""
        now_s = self._clock()
        self._rows.await_log(live, now_s, now_s + (self._launcher.log_wait_s if is_healthy(live.seen.status) else 0.0))

    def wait_no_longer(self) -> None:
        """Let each log that is not there at the next look be missing."""
        self._rows.news += 1  # a row that waits for others waits no longer, either
        for ended in self._rows.ended.values():
            ended.deadline_s = ended.look_s = self._clock()

    def find(self) -> None:
        """Hand over what has ended and has its log, or will not get it any more."""
        now_s = self._clock()
        for ended in [ended for ended in self._rows.ended.values() if now_s >= ended.look_s]:
            row_id = ended.row.row_id
            if row_id not in self._rows.ended:
                continue  # given up for another one's sake
            ended.look_s = min(now_s + ended.pause_s, max(now_s, ended.deadline_s))
            ended.pause_s = min(2 * ended.pause_s, _LONGEST_LOG_LOOK_S)
            if ended.run is not None and self._waits_on(ended, now_s):
                continue
            end = ended.run or self._end_of(ended, now_s)
            self._rows.news += isinstance(end, Run) and ended.run is None
            if isinstance(end, Run) and self._repeating.goes_on(ended, end):
                ended.run, ended.look_s = end, now_s + ended.pause_s  # it may be past its log's deadline
                ended.asked = self._rows.news, now_s
                continue
            if end is not None:
                self._rows.finish(Over(row_id, end, ended.row, ended.seen))
                del self._rows.ended[row_id]

    def _waits_on(self, ended: Ended, now_s: float) -> bool:
        """Whether a row that waits for others need not be asked again: nothing has become of them."""
        news, asked_s = ended.asked
        if news != self._rows.news or now_s >= asked_s + _ASKED_S:
            return False
        ended.look_s = now_s + ended.pause_s
        return True

    def _end_of(self, ended: Ended, now_s: float) -> Run | LogError | None:
        """An ended row's run, or that it has no log; ``None`` where that is awaited, or the row was given up."""
        job = ended.seen.job
        log: Path | None = None
        try:
            log = log_of(self._launcher, job) if self._awaited else None
        except LogError as error:
            if is_healthy(ended.seen.status):
                # A shared file system is given its time.
                if now_s < ended.deadline_s:
                    return None
                found = in_batch_output(error, job, batch_output_of(self._launcher, job))
                if isinstance(found, LogError):
                    return found
                log = found
        if log is not None and self._rows.is_shared(self._rows.claims.log(job, log), ended.row.row_id):
            return None
        row, seen = ended.row, ended.seen
        output = batch_output_of(self._launcher, job)
        # A stop that an earlier session meant to send explains nothing but a cancelled job.
        sent = seen.stop_sent or seen.status.state is JobState.CANCELLED
        beside = outputs_beside(job, log, output)
        return Run(job.id, seen.status, log, output, seen.stopped if sent else None, row.earlier, beside=beside)
