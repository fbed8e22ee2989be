"""Submit all selected rows, poll all their jobs with one request, and return those that finished.

A row passes through these phases: *queued*, *being submitted*, *active* (its job is pending or runs),
*awaiting log* (its job has ended) and *finished*. Each phase is a type with the data available by then.
The rows of each phase are in a dictionary: a poll costs what its jobs cost, not what the session has done so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace

from pytest_gsw import errors
from pytest_gsw.executor import phases
from pytest_gsw.executor.ended_jobs import EndedJobs, batch_output_of, log_of
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.polls import SETTLE_S, Polls, PollSchedule
from pytest_gsw.executor.running_logs import RunningLogs
from pytest_gsw.executor.submitter import Submitter
from pytest_gsw.jobs.journal import Journal, JournalWriter, Submission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import other_outputs_of
from pytest_gsw.jobs.model import Attempt, Job, JobSpec
from pytest_gsw.jobs.spec import session_environment
from pytest_gsw.jobs.states import COMPLETING, JobState
from pytest_gsw.stats.decision import Done
from pytest_gsw.validation.run import Run

#: Wait of a finishing session for the answer of a poll, which it does not need.
_LAST_ANSWER_S = 1.0
#: Wait of an interrupted session for a poll's answer, and for the ends of jobs that the answer shows as COMPLETING.
_LAST_POLL_S = 5.0


def too_large(spec: JobSpec, limits: Limits) -> errors.SubmissionError:
    """The error of a row that needs more GPUs than all rows together may use."""
    return errors.SubmissionError(
        f"the row needs {spec.gpus} GPUs, and no more than {limits.gpus:g} may be taken",
        advice="raise max_gpus in clusters.yaml, or leave the row out",
    )


def _interruption_error(phase: phases.Phase, detach: bool, is_unanswered: bool) -> errors.JobError:
    """The error of a row that was interrupted, with the fate of its job."""
    submitted = phase.submitted
    fate = "it was never submitted"
    if submitted is not None:
        status = submitted.status
        fate = f"job {submitted.job.id} was {'left running' if detach else 'cancelled'}"
        if is_unanswered and not detach:
            fate = f"job {submitted.job.id} may run on: the scheduler does not answer"
        if status.state is JobState.PENDING and status.reason not in {"", "None"}:
            fate += f"; it was pending ({status.reason})"
    elif phase.since_s is not None:
        fate = "whether it was submitted is not known"
    return errors.JobError(f"{errors.INTERRUPTED}: {fate}")


#: Called each time before the session waits.
Ticker = Callable[["Executor"], None]


class Executor:
    """The session's jobs.

    Args:
        launcher: Starts and polls jobs.
        poll_interval_s: Seconds between two polls.
        observer: Called at every change of a job's state.
        ticker: Called each time before the session waits.
        journal: Records every submission, before and after it; a replay, which submits nothing, needs none.
        limits: Most jobs and GPUs at once, and most pending jobs.
        watcher: Makes the watch of each running job's log; by default none is watched.
        retries: Most reruns of a row after infrastructure failures.
        decide: Decides after each job if its row needs another one, unless a failure is retried.
        on_repeat: Called for every job that is not its row's last.
        on_look: Called at every look at a running job; may return a reason to end it.
        check: Measures each job that ended well, once its log is there and whenever its files have grown.
        environ: The session's environment, whose secrets are redacted; by default that of this process now.
        clock: Monotonic seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        launcher: Launcher,
        poll_interval_s: float,
        observer: phases.StateObserver = lambda *_: None,
        journal: Journal | None = None,
        limits: Limits | None = None,
        ticker: Ticker = lambda _: None,
        watcher: phases.Watcher | None = None,
        retries: int = 0,
        decide: phases.Decide = lambda *_: Done(),
        on_repeat: phases.RepeatObserver = lambda *_: None,
        check: phases.Check | None = None,
        on_look: phases.LookObserver = lambda *_: None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = launcher
        #: All rows, with their phases and jobs.
        rows = self.rows = phases.RowTable(launcher, limits or Limits())
        self.journal = JournalWriter(journal)
        self._ticker, self._clock, self._sleep = ticker, clock, sleep
        shared = (rows, launcher, self.journal, clock)
        self._submitter = Submitter(*shared)
        self._ended_jobs = EndedJobs(*shared, retries, decide, on_repeat, check)
        self._polls = Polls(
            *shared,
            self._ended_jobs,
            self._submitter.backoff,
            PollSchedule(poll_interval_s, clock),
            observer,
            session_environment(environ),
        )
        self._running_logs = RunningLogs(*shared, self._polls, watcher, on_look)
        self._cancelling: Future[None] | None = None

    @property
    def full(self) -> str:
        """The scheduler's message that the queue is full; empty if it is not."""
        return self._submitter.backoff.full

    # -- rows and jobs to run -----------------------------------------------------------------

    def submit(
        self, specs: Mapping[str, JobSpec | errors.RunError], past: Mapping[str, Submission] | None = None
    ) -> None:
        """Queue these rows, to be submitted in this order as far as the limits allow.

        The error of a row that cannot be submitted is raised by :meth:`result_of`.

        Args:
            specs: The spec of each row's job, or the error that prevents it.
            past: Earlier attempts of an earlier session, and its submissions without an answer. The jobs of
                these are looked for before anything is submitted again.
        """
        for row_id, spec in specs.items():
            if isinstance(spec, errors.RunError):
                self.rows.finish(phases.Finished(row_id, spec))
            elif spec.gpus > self.rows.limits.gpus:
                self.rows.finish(phases.Finished(row_id, too_large(spec, self.rows.limits)))
            else:
                before = (past or {}).get(row_id, Submission(0.0))
                row, since_s = phases.RowJobs(row_id, spec, before.attempts), before.intended_s or None
                try:
                    self.rows.queue(phases.Queued(self._restore_runs(row), since_s), first=False)
                except errors.LogError as error:  # a log that an earlier session measured is missing
                    self.rows.finish(phases.Finished(row_id, error, row, since_s=since_s))
        self._pump()

    def attach(self, job: Job, past: Submission) -> None:
        """Take over an earlier session's job, with its end if that is recorded."""
        rows, row_id, submitted = self.rows, job.spec.row_id, phases.SubmittedJob(job)
        row = phases.RowJobs(row_id, job.spec, past.attempts)
        submitted.status = past.ended or submitted.status
        submitted.stopped, submitted.cancelled_before = past.stopped, past.cancelled
        try:
            row = self._restore_runs(row)
        except errors.LogError as error:
            rows.finish(phases.Finished(row_id, error, row, submitted))
            return
        rows.take_place(row)
        active = rows.activate(row, submitted)
        if not rows.is_shared(rows.claims.job(job), row_id) and submitted.status.state.ended:
            self._polls.leave_queue(active)

    def _restore_runs(self, row: phases.RowJobs) -> phases.RowJobs:
        """A row with the jobs that an earlier session measured.

        Raises:
            LogError: A log of these jobs is missing, or belongs to another job of this session.
        """
        self._ended_jobs.restore(row)
        for spec, attempt in row.numbered:
            self.rows.claims.job(Job(attempt.job_id, spec, 0.0))
        earlier = tuple(self._restore_run(spec, attempt) for spec, attempt in row.numbered if attempt.measured)
        return replace(row, earlier=earlier)

    def _restore_run(self, spec: JobSpec, attempt: Attempt) -> Run:
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0)
        log = log_of(self.launcher, job)
        clash = self.rows.claims.log(job, log)
        if clash is not None:
            raise clash[1]
        output = batch_output_of(self.launcher, job)
        return Run(job.id, attempt.status, log, output, other_files=other_outputs_of(job, log, output))

    # -- results ------------------------------------------------------------------------------

    def next_finished(self) -> str:
        """Wait for a finished row that was not returned before, and return its id."""
        while True:
            self._pump()
            if self.rows.finished:
                return self.rows.finished.pop(next(iter(self.rows.finished))).row_id
            self._wait()

    def result_of(self, row_id: str) -> Run:
        """The ended jobs of this row with their logs; waits for them if needed.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        while not isinstance(phase := self.rows.phases[row_id], phases.Finished):
            self._pump()
            if phase is self.rows.phases[row_id]:
                self._wait()
        self.rows.finished.pop(row_id, None)
        if isinstance(phase.end, errors.RunError):
            raise phase.end
        return phase.end

    def runs_of(self, row_id: str) -> tuple[Run, ...]:
        """All jobs of a row that have ended, in order, however they did; without a log if that is not found."""
        phase, runs = self.rows.phases.get(row_id), list[Run]()
        for spec, attempt in () if phase is None or phase.row is None else phase.row.numbered:
            try:
                runs.append(self._restore_run(spec, attempt))
            except errors.LogError:
                runs.append(Run(attempt.job_id, attempt.status, None))
        last = getattr(phase, "end", None)
        return (*runs, replace(last, earlier=())) if isinstance(last, Run) else tuple(runs)

    def count(self) -> None:
        """Compare the scheduler's jobs of the run with those of the rows, and files with their sizes, once more."""
        self.journal.check()
        self.rows.count_last()
        self._ended_jobs.look_again()

    # -- shutdown -----------------------------------------------------------------------------

    def interrupt(self, detach: bool) -> int:
        """Stop waiting: rows that have not ended become errors, and their jobs are cancelled unless detached.

        Returns:
            Number of jobs being cancelled or left running; :meth:`close` waits for the launcher's answer.

        Raises:
            JobError: The launcher could not cancel them.
            TakenOverError: They are another session's by now.
        """
        self.journal.check()
        self.rows.is_interrupted = True
        self.launcher.end_waits()
        rows = self.rows
        self._submitter.collect(until_all_done=True)
        self._poll_once_more()
        running = rows.running()
        is_unanswered = self._polls.schedule.is_unanswered
        rows.interrupt(lambda phase: _interruption_error(phase, detach, is_unanswered))
        # The next look decides: a log that is not there is missing, and a row waits for no other row.
        rows.news += 1
        for ended in rows.awaiting_log.values():
            ended.deadline_s = ended.look_s = self._clock()
        if running and not detach:
            self.journal.write(Journal.cancelled, *(submitted.job for submitted in running))
            # Slurm needs long to cancel hundreds of jobs; rows are reported meanwhile.
            self._cancelling = self._submitter.in_thread(rows.cancel, running)
        return len(running)

    def _poll_once_more(self) -> None:
        """Learn which jobs had ended before the signal: they are judged.

        An answer on its way may be older than a job's end, and accounting may record the end a little later.
        """
        deadline_s, is_new = self._clock() + _LAST_POLL_S, False
        # A site's launcher may fail, and a second Ctrl-C may come; all jobs have to be cancelled nevertheless.
        with suppress(Exception, KeyboardInterrupt):
            while True:
                if is_new and self._polls.answer is None:
                    self._polls.poll()
                if self._polls.answer is not None:
                    wait([self._polls.answer], _LAST_POLL_S)
                    self._polls.collect()
                if self._polls.answer is not None:  # a scheduler that hangs must not keep the session from ending
                    return
                if is_new:
                    is_ending = any(COMPLETING in active.status.raw_state for active in self.rows.active.values())
                    if not is_ending or self._clock() >= deadline_s:
                        return
                    self._sleep(SETTLE_S)
                is_new = True

    def close(self, detach: bool = False) -> int:
        """Cancel all jobs that still run with one request, unless detached, and close the launcher.

        Returns:
            Number of jobs cancelled, besides those of :meth:`interrupt`.

        Raises:
            JobError: The launcher could not cancel them.
            TakenOverError: They are another session's by now.
        """
        try:
            self.journal.check()
            self._submitter.collect(until_all_done=True)
            if self._cancelling is not None:
                self._cancelling.exception()  # only after it are the remaining jobs known
            count = self.rows.count_last()
            running = [submitted.job for submitted in self.rows.running() if not detach]
            if not detach:
                running += self._find_lost_jobs()
            if running:
                self.journal.write(Journal.cancelled, *running)
                self.launcher.cancel(running)
            if isinstance(count, errors.RunError):
                fact = f"whether the run has jobs that are no row's is not known: {count.fact}"
                raise errors.JobError(fact, count.evidence, advice=count.advice)
        finally:
            self._submitter.close()
            if self._polls.answer is not None:  # a scheduler that hangs must not keep the session from ending
                wait([self._polls.answer], _LAST_ANSWER_S)
            self.launcher.close()
            self.journal.close()
        return len(running)

    def _find_lost_jobs(self) -> list[Job]:
        """Jobs whose submission's answer was lost: no other session would cancel them."""
        lost_jobs = []
        for phase in self.rows.phases.values():
            since_s = phase.since_s
            if since_s is not None and phase.row is not None:
                try:
                    job = self.launcher.find(phase.row.spec, since_s)
                except errors.NotListedError:
                    continue
                except errors.SchedulerUnreachableError:
                    break  # nor can it find the others
                except errors.RunError:
                    continue
                if isinstance(phase, phases.Finished):
                    phase.submitted, phase.since_s = None if job is None else phases.SubmittedJob(job), None
                lost_jobs += [job] if job is not None else []
        if lost_jobs:
            self.journal.write(Journal.submitted, *lost_jobs)
        return lost_jobs

    # -- waiting ------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Process available answers and logs of ended jobs, and submit queued rows as far as the limits allow."""
        self.journal.check()
        self._submitter.collect()
        self._polls.collect()
        self._ended_jobs.find_logs()
        self._submitter.submit()
        if self.launcher.polls_in_a_thread and self._clock() >= self._polls.due_s:
            self._polls.poll()

    def _wait(self) -> None:
        """Wait until there may be news, and poll all jobs if that is due."""
        self._ticker(self)
        self._running_logs.look_when_due()
        if self._clock() >= self._polls.due_s:
            self._running_logs.look_s = self._clock()  # jobs that run after this poll are looked at next
            self._polls.poll()
            return
        logs_s = min((ended.look_s for ended in self.rows.awaiting_log.values()), default=math.inf)
        due_s = min(self._polls.due_s, self._running_logs.due_s, self._submitter.due_s, logs_s) - self._clock()
        if due_s > 0 and not self._submitter.wait(due_s, self._polls.answer):
            self._sleep(due_s)
