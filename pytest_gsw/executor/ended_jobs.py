"""Rows whose job has ended: the wait for its log, until it is whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.errors import IncompleteLogError, LogError, NoLogError
from pytest_gsw.executor.phases import Active, AwaitingLog, Check, Finished, RowTable, is_healthy
from pytest_gsw.executor.repeats import Repeats
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import check_new, open_anew, other_outputs_of, sizes_of
from pytest_gsw.jobs.model import Job
from pytest_gsw.jobs.states import JobState
from pytest_gsw.logs.reader import detect_format
from pytest_gsw.stats.decision import Undecided
from pytest_gsw.validation.log_identity import is_own, read_identity
from pytest_gsw.validation.run import Run

#: Longest interval between two searches for the log of an ended job.
_LONGEST_LOG_LOOK_S = 1.0

#: Longest interval between two decisions on a row that waits for other rows.
_LONGEST_DECISION_S = 60.0


def log_of(launcher: Launcher, job: Job) -> Path:
    """Path of a job's log.

    Raises:
        LogError: It is missing or older than the job, or the search failed.
    """
    try:
        log = launcher.find_log(job)
    except OSError as error:  # a file system that is unavailable for a moment
        raise LogError(f"the log of job {job.id} cannot be looked for: {error.strerror or error}") from error
    check_new(job, log, is_own)
    return log


def batch_output_of(launcher: Launcher, job: Job) -> Path | None:
    """Output file of a job's batch shell; ``None`` if unknown."""
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


def in_batch_output(error: LogError, job: Job, output: Path | None) -> Path | LogError:
    """The batch shell's output, if it is the job's log and there is none in the recipe's place; else the error.

    The recipes redirect the output of their srun by a variable that some versions of Slurm ignore. Steps alone do not
    identify the job: a script may print another log.
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
    whose = "no line names their job" if named is None else f"they are those of job {named}"
    return LogError(
        error.fact,
        (*error.evidence, ("steps in", str(output))),
        error.tail,
        f"let the recipe write its log where it is looked for; the batch output has steps, and {whose}",
    )


@dataclass(eq=False)
class EndedJobs:
    """Finds the logs of ended jobs, and finishes their rows or repeats them."""

    rows: RowTable
    #: Finds logs.
    launcher: Launcher
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: Decides if another job follows.
    repeats: Repeats
    #: Measures each job that ended well, once its log is there and whenever its files have grown.
    check: Check | None

    def __post_init__(self) -> None:
        #: The ended jobs that were measured, with the sizes of their files then, by row and job.
        self._measured: dict[tuple[str, str], tuple[Job, Run, Mapping[str, int]]] = {}

    def await_log(self, active: Active) -> None:
        """Await the log of a job that has ended or was given up, if it should have one."""
        row, now_s = active.row, self.clock()
        deadline_s = now_s + (self.launcher.log_wait_s if is_healthy(active.status) else 0.0)
        ended = AwaitingLog(row, active.submitted, deadline_s, now_s)
        self.rows.phases[row.row_id] = self.rows.awaiting_log[row.row_id] = ended

    def find_logs(self) -> None:
        """Finish rows with an ended job whose log is found or overdue."""
        now_s = self.clock()
        for ended in [ended for ended in self.rows.awaiting_log.values() if now_s >= ended.look_s]:
            row_id = ended.row.row_id
            if row_id not in self.rows.awaiting_log:
                continue  # given up because of another row
            ended.look_s = min(now_s + ended.pause_s, max(now_s, ended.deadline_s))
            ended.pause_s = min(2 * ended.pause_s, _LONGEST_LOG_LOOK_S)
            if ended.run is not None and self._has_no_news(ended, now_s):
                continue
            end = ended.run or self._run_of(ended, now_s)
            self.rows.news += isinstance(end, Run) and ended.run is None
            run = Run(ended.submitted.job.id, ended.submitted.status, None) if isinstance(end, NoLogError) else end
            if isinstance(run, Run) and self._continue_row(ended, run):
                ended.run, ended.look_s = end, now_s + ended.pause_s  # it may be past its log's deadline
                ended.asked = self.rows.news, now_s
                continue
            if end is not None:
                self.rows.finish(Finished(row_id, end, ended.row, ended.submitted))
                del self.rows.awaiting_log[row_id]

    def _continue_row(self, ended: AwaitingLog, run: Run) -> bool:
        """Return a row to the queue if it needs another job; true if it is not finished.

        It is if the infrastructure failed it, an earlier session cancelled it, or one more job is wanted; or it waits
        for other rows.
        """
        row = ended.row
        attempt = None if self.rows.is_interrupted else self.repeats.attempt_of(ended, run)
        if attempt is None:
            return False
        if isinstance(attempt, Undecided):
            return True
        del self.rows.awaiting_log[row.row_id]
        self.repeats.requeue(row, attempt, attempt.after(row.spec), run.jobs if attempt.measured else row.earlier)
        return True

    def _has_no_news(self, ended: AwaitingLog, now_s: float) -> bool:
        """True if a row that waits for others need not be decided again: nothing has changed for them."""
        news, asked_s = ended.asked
        if news != self.rows.news or ended.held_until_s > -math.inf or now_s >= asked_s + _LONGEST_DECISION_S:
            return False
        ended.look_s = now_s + ended.pause_s
        return True

    def _run_of(self, ended: AwaitingLog, now_s: float) -> Run | LogError | None:
        """An ended row's run or its log's error; ``None`` if the log is awaited or the row was given up."""
        job = ended.submitted.job
        log: Path | None = None
        try:
            log = log_of(self.launcher, job)
        except LogError as error:
            if is_healthy(ended.submitted.status):
                # A shared file system may show the log late.
                if now_s < ended.deadline_s:
                    ended.sizes = {}
                    return None
                log_or_error = in_batch_output(error, job, batch_output_of(self.launcher, job))
                if isinstance(log_or_error, LogError):
                    return log_or_error
                log = log_or_error
        if log is not None and self.rows.is_shared(self.rows.claims.log(job, log), ended.row.row_id):
            return None
        row, submitted = ended.row, ended.submitted
        output = batch_output_of(self.launcher, job)
        # An early stop that an earlier session recorded but may not have sent explains only a cancelled job.
        is_sent = submitted.stop_sent or submitted.status.state is JobState.CANCELLED
        stop, others = submitted.stopped if is_sent else None, other_outputs_of(job, log, output)
        run = Run(job.id, submitted.status, log, output, stop, row.earlier, other_files=others)
        return run if self._is_whole(ended, run, now_s) else None

    def _is_whole(self, ended: AwaitingLog, run: Run, now_s: float) -> bool:
        """True if nothing more of an ended job's log is awaited.

        A log that lacks something is awaited as a missing one is. If its end came late, more may follow: it is
        measured once its files are the same at two looks.
        """
        if self.check is None or not is_healthy(run.status):
            return True
        is_late = ended.sizes is not None
        files = (run.log, run.batch_output, *run.other_files)
        if is_late:
            open_anew(files)
        sizes = sizes_of(files)
        if sizes != ended.sizes:
            ended.sizes, row_id = sizes, ended.row.row_id
            error = self.check(row_id, run)
            ended.is_incomplete = isinstance(error, IncompleteLogError)
            if error is None:
                self._measured[row_id, run.job_id] = ended.submitted.job, run, sizes
            # A log that is read for long must not keep the session from its other rows.
            ended.look_s = max(ended.look_s, min(2 * self.clock() - now_s, ended.deadline_s))
        elif not ended.is_incomplete:
            return True
        return now_s >= ended.deadline_s or not (is_late or ended.is_incomplete)

    def look_again(self) -> None:
        """Measure jobs anew whose files have grown since: last words may come late, behind a log that was whole."""
        for (row_id, _), (job, run, before) in self._measured.items():
            others = run.other_files or other_outputs_of(job, run.log, run.batch_output)
            sizes = sizes_of((run.log, run.batch_output, *others))
            if sizes == before or self.check is None or not any(sizes[file] > before.get(file, 0) for file in sizes):
                continue
            phase, error = self.rows.phases[row_id], self.check(row_id, replace(run, other_files=others, earlier=()))
            if error is not None and isinstance(phase, Finished) and isinstance(phase.end, Run):
                self.rows.late[row_id] = error
