"""Rows whose job has ended: the wait for its log, until it is whole, and further jobs of the row.

Another job follows after an infrastructure failure or a cancellation, or to measure once more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path

from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import IncompleteLogError, LogError, NoLogError, NotFetchedError
from pytest_gsw.executor import phases
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import check_new, open_anew, other_outputs_of, sizes_of
from pytest_gsw.jobs.model import AT_ONCE, Attempt, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.reader import detect_format
from pytest_gsw.stats.black_holes import AT_ONCE_S, BlackHole, black_holes
from pytest_gsw.stats.decision import Repeat, Undecided
from pytest_gsw.validation import log_identity, retryable
from pytest_gsw.validation.run import Run, ran_out_of_memory

#: Reason for the next job of a row whose job an earlier session of the run cancelled.
SESSION_ENDED = "its session ended early"

#: Wait of a row whose job failed at once for other rows to show that its node is the cause: a job that began with it
#: has shown by then that it works, and was polled.
HOLD_S = 1.5 * AT_ONCE_S
#: Least time between two decisions on all nodes of the session.
_NODES_DECIDED_S = 1.0

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
    check_new(job, log, log_identity.is_own, launcher.file_facts)
    return log


def batch_output_of(launcher: Launcher, job: Job) -> Path | None:
    """Output file of a job's batch shell; ``None`` if unknown."""
    try:
        return launcher.batch_output(job)
    except OSError:
        return None


def in_batch_output(error: LogError, launcher: Launcher, job: Job, output: Path | None) -> Path | LogError:
    """The batch shell's output, if it is the job's log and there is none in the recipe's place; else the error.

    The recipes redirect the output of their srun by a variable that some versions of Slurm ignore. Steps alone do not
    identify the job: a script may print another log.
    """
    if not isinstance(error, NoLogError) or output is None:
        return error
    try:
        named = log_identity.read_identity(output, detect_format(output).name).job_id
        check_new(job, output, facts_of=launcher.file_facts)
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


@dataclass(eq=False, repr=False)
class EndedJobs(phases.ExecutorPart):
    """Finds the logs of ended jobs, decides if another job of the row follows, and finishes the row or queues it."""

    #: Most reruns of a row after infrastructure failures.
    retries: int
    #: Decides after each job if its row needs another one, unless a failure is retried.
    decide: phases.Decide
    #: Called for every job that is not its row's last.
    on_repeat: phases.RepeatObserver
    #: Measures each job that ended well, once its log is there and whenever its files have grown.
    check: phases.Check | None

    def __post_init__(self) -> None:
        #: The ended jobs that were measured, with the sizes of their files then, by row and job.
        self._measured: dict[tuple[str, str], tuple[Job, Run, Mapping[str, int]]] = {}
        #: Ended jobs as evidence on nodes: row, id, status, and true if it failed at once.
        self._ends: list[tuple[str, str, JobStatus, bool]] = []
        #: Nodes that may be, or are, black holes; the time of that decision, and the number of jobs that it rests on.
        self._suspects: Mapping[str, BlackHole] = {}
        self._suspects_s, self._decided = -math.inf, 0

    def await_log(self, active: phases.Active) -> None:
        """Await the log of a job that has ended or was given up, if it should have one."""
        row, now_s = active.row, self.clock()
        deadline_s = now_s + (self.launcher.log_wait_s if active.status.ended_well else 0.0)
        ended = phases.AwaitingLog(row, active.submitted, deadline_s, now_s)
        self.rows.phases[row.row_id] = self.rows.awaiting_log[row.row_id] = ended

    def find_logs(self) -> None:
        """Finish rows with an ended job whose log is found or overdue, or queue them for another job."""
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
            attempt = self._attempt(ended, run) if isinstance(run, Run) and not self.rows.is_interrupted else None
            if isinstance(attempt, Undecided):
                ended.run, ended.look_s = end, now_s + ended.pause_s  # it may be past its log's deadline
                ended.asked = self.rows.news, now_s
            elif isinstance(run, Run) and attempt is not None:
                del self.rows.awaiting_log[row_id]
                earlier = (*ended.row.earlier, replace(run, earlier=())) if attempt.measured else ended.row.earlier
                self.requeue(ended.row, attempt, attempt.after(ended.row.spec), earlier)
            elif end is not None:
                self.rows.finish(phases.Finished(row_id, end, ended.row, ended.submitted))
                del self.rows.awaiting_log[row_id]

    def _has_no_news(self, ended: phases.AwaitingLog, now_s: float) -> bool:
        """True if a row that waits for others need not be decided again: nothing has changed for them."""
        news, asked_s = ended.asked
        if news != self.rows.news or ended.held_until_s > -math.inf or now_s >= asked_s + _LONGEST_DECISION_S:
            return False
        ended.look_s = now_s + ended.pause_s
        return True

    def _run_of(self, ended: phases.AwaitingLog, now_s: float) -> Run | LogError | None:
        """An ended row's run or its log's error; ``None`` if the log is awaited or the row was given up."""
        job = ended.submitted.job
        log: Path | None = None
        try:
            log = log_of(self.launcher, job)
        except LogError as error:
            if ended.submitted.status.ended_well:
                # A shared file system may show the log late; a lost connection is awaited as unknown states are.
                late_s = self.launcher.unknown_limit_s if isinstance(error, NotFetchedError) else 0.0
                if now_s < ended.deadline_s + late_s:
                    ended.sizes = {}
                    return None
                log_or_error = in_batch_output(error, self.launcher, job, batch_output_of(self.launcher, job))
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

    def _is_whole(self, ended: phases.AwaitingLog, run: Run, now_s: float) -> bool:
        """True if nothing more of an ended job's log is awaited.

        A log that lacks something is awaited as a missing one is. If its end came late, more may follow: it is
        measured once its files are the same at two looks.
        """
        if self.check is None or not run.status.ended_well:
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
        self.launcher.refresh([job for job, _, _ in self._measured.values()])
        for (row_id, _), (job, run, before) in self._measured.items():
            others = run.other_files or other_outputs_of(job, run.log, run.batch_output)
            sizes = sizes_of((run.log, run.batch_output, *others))
            if sizes == before or self.check is None or not any(sizes[file] > before.get(file, 0) for file in sizes):
                continue
            phase, error = self.rows.phases[row_id], self.check(row_id, replace(run, other_files=others, earlier=()))
            if error is not None and isinstance(phase, phases.Finished) and isinstance(phase.end, Run):
                self.rows.late[row_id] = error

    # -- further jobs of a row ----------------------------------------------------------------

    def restore(self, row: phases.RowJobs) -> None:
        """Note the jobs of an earlier session that were not measured."""
        self._ends += [(row.row_id, past.job_id, past.status, past.why == AT_ONCE) for past in row.failures]

    def may_retry(self, row: phases.RowJobs) -> bool:
        """True if a row may run again after one more infrastructure failure."""
        return row.retried < self.retries

    def requeue(self, row: phases.RowJobs, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row at the head of the queue, after an attempt that is not its last."""
        self.journal.write(Journal.repeated, row.row_id, attempt)
        self.on_repeat(row.row_id, attempt)
        self.rows.queue(phases.Queued(phases.RowJobs(row.row_id, spec, (*row.attempts, attempt), earlier)), first=True)

    def _attempt(self, ended: phases.AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """The attempt that another job follows; ``None`` if the job is its row's last."""
        row, is_cancelled = ended.row, run.status.state is JobState.CANCELLED
        if is_cancelled and ended.submitted.cancelled_before and run.stopped is None:
            return Attempt(run.job_id, run.status, SESSION_ENDED)
        is_on_tile = bool(row.spec.node_list)  # it has no other nodes
        if ended.run is None:
            has_failed = self.launcher.jobs_outlive_session and retryable.failed_at_once(
                run
            )  # else there is one machine
            self._ends.append((row.row_id, run.job_id, run.status, has_failed))
            ended.held_until_s = self.clock() + HOLD_S if has_failed else -math.inf
            failure = retryable.infrastructure_failure(run) if self.may_retry(row) else None
            if failure is not None:
                return Attempt(run.job_id, run.status, failure.why, () if is_on_tile else failure.nodes)
        if ended.held_until_s > -math.inf and (held := self._after_failure_at_once(ended, run)) is not None:
            return held
        try:
            decided = self.decide(row.row_id, run)
        except Exception:  # in a site's own rule: reported when the row is judged
            return None
        if isinstance(decided, Repeat):
            nodes = () if is_on_tile else decided.avoiding
            return Attempt(run.job_id, run.status, decided.why, nodes, measured=run.is_whole)
        return decided if isinstance(decided, Undecided) else None

    def _after_failure_at_once(self, ended: phases.AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """The attempt of a job that failed at once; it is its row's last if the row is to blame.

        Jobs on a black hole cost the row no retry. Any other one is repeated once on other nodes if there are retries:
        a recipe that is broken fails there, too. One that ran out of memory is not: its row may need too much of it.
        """
        row, rows, nodes = ended.row, self.rows, set(expand(run.status.nodes))
        if not nodes or row.spec.node_list:
            return None  # it has no other nodes
        suspects = self._find_suspects()
        holes, before = set(rows.left_out), [set(past.excluded_nodes) for past in row.failures if past.why == AT_ONCE]
        avoidable = nodes.difference(*before)  # the others could not be avoided
        blamed, may_retry = avoidable & holes, self.may_retry(row) and all(excluded & holes for excluded in before)
        if avoidable and (blamed or (may_retry and not ran_out_of_memory(run))):
            return Attempt(run.job_id, run.status, AT_ONCE, tuple(sorted(blamed or nodes)))
        may_get_it = rows.queued or any(active.status.state is JobState.PENDING for active in rows.active.values())
        has_news = len(self._ends) > self._decided or any(
            other.run is None and other is not ended for other in rows.awaiting_log.values()
        )
        may_be_shown = may_get_it or rows.submitting or has_news or (rows.active and not nodes.isdisjoint(suspects))
        return Undecided() if may_be_shown and self.clock() < ended.held_until_s else None

    def _find_suspects(self) -> Mapping[str, BlackHole]:
        """The nodes that fail each job at once; those that are found to do so get no further job of the session."""
        if self.clock() >= self._suspects_s + _NODES_DECIDED_S:
            self._suspects_s, self._decided = self.clock(), len(self._ends)
            running = [(row, active.job.id, active.status, False) for row, active in self.rows.active.items()]
            uses = starmap(retryable.node_use, [*self._ends, *running])
            self._suspects = {suspect.node: suspect for suspect in black_holes(filter(None, uses))}
            self.rows.left_out = tuple(node for node, suspect in self._suspects.items() if suspect.elsewhere)
        return self._suspects
