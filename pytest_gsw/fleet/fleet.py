"""All selected rows at once: submit them, poll all their jobs with one question, hand over what has ended.

A row goes one way through the fleet: it *waits*, is being *submitted*, is *live* (its job is in the
queue or runs), has *ended* (its log is awaited), and is *over*. Each of these is a type, which has
what is known by then, and a dictionary in which a row is found at once, so that a poll costs what
the jobs cost that it asks about, and not what the session has done so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from pytest_gsw.errors import RunError
from pytest_gsw.fleet.entry import OnceMore, Over, Phase, RepeatObserver, RowStatus, StateObserver, Watcher, status_of
from pytest_gsw.fleet.finish import Finish
from pytest_gsw.fleet.intake import Intake
from pytest_gsw.fleet.limits import Limits
from pytest_gsw.fleet.logs import Logs
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.polling import Polling, Turns
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.fleet.submitting import Submitter
from pytest_gsw.fleet.watching import Watching
from pytest_gsw.jobs.environment import session_environment
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobStatus, Launcher
from pytest_gsw.runs.run import Run

#: Called each time before the session waits.
Ticker = Callable[["Fleet"], None]


class Fleet:
    """The session's jobs.

    Args:
        launcher: How jobs are started and asked about.
        poll_interval_s: Seconds between two questions to the launcher.
        observer: Told of every change of a job's state.
        ticker: Told each time before the session waits.
        journal: Told of every submission, before and after it; a replay, which submits nothing, needs none.
        limits: How many jobs and GPUs may be taken at once, and how many jobs may be pending.
        watcher: Makes the watch of each running job's log; by default none is watched.
        retries: How often a row is run again when the infrastructure failed.
        once_more: Asked of each job that ended well whether its row wants another one.
        on_repeat: Told of every job that is not its row's last.
        await_logs: Whether a job that ended well must have left a log.
        environ: The session's environment, whose secrets are not shown; by default that of this process now.
        clock: Monotonic seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        launcher: Launcher,
        poll_interval_s: float,
        observer: StateObserver = lambda *_: None,
        journal: Journal | None = None,
        limits: Limits | None = None,
        ticker: Ticker = lambda _: None,
        watcher: Watcher | None = None,
        retries: int = 0,
        once_more: OnceMore = lambda *_: None,
        on_repeat: RepeatObserver = lambda *_: None,
        await_logs: bool = True,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.launcher = launcher
        #: Set when nothing more will be submitted: rows may have had fewer jobs than they were to have.
        self.interrupted = False
        environ = session_environment(environ)
        self._ticker = ticker
        self._clock = clock
        self._sleep = sleep
        self._rows = rows = Rows(launcher, limits or Limits())
        self._notes = notes = Notes(journal)
        #: The jobs of the run that no row owns; and why rows that were handed out before that was known are errors.
        self.strays, self.late = rows.strays, rows.late
        #: By row, how its newest job was started: of a row whose jobs cannot be taken over, none is owned.
        self.started = rows.started
        turns = Turns(poll_interval_s, clock)
        self._submitting = submitting = Submitter(rows, launcher, notes, clock)
        repeating = Repeating(rows, notes, retries, once_more, on_repeat)
        self._logs = logs = Logs(rows, launcher, repeating, await_logs, clock)
        self._polling = Polling(
            rows, launcher, turns, notes, submitting.patience, logs, repeating, observer, environ, clock
        )
        self._intake = Intake(rows, launcher, self._polling)
        self._watching = Watching(rows, launcher, turns, notes, watcher, environ, clock)
        self._finish = Finish(rows, launcher, notes, submitting, self._polling, repeating, logs)

    @property
    def full(self) -> str:
        """Why nothing more is submitted for now: the queue is full. Empty where it is not."""
        return self._submitting.patience.full

    @property
    def journal_problem(self) -> str:
        """Why the journal lacks something, where it does."""
        return self._notes.problem

    # -- what goes in -------------------------------------------------------------------------

    def submit(self, specs: Mapping[str, JobSpec | RunError], past: Mapping[str, Submission] | None = None) -> None:
        """Take over these rows, to be submitted in this order as far as the limits allow.

        A row that cannot be submitted keeps its error for :meth:`take`.

        Args:
            specs: How each row is started, or why it cannot be.
            past: What an earlier session did for some of them: earlier attempts, and submissions whose
                answer was lost, which are looked for before anything is submitted again.
        """
        self._intake.submit(specs, past or {})
        self._pump()

    def attach(self, job: Job, past: Submission | None = None) -> None:
        """Take over a job that an earlier session has submitted, and how it ended if that is known."""
        self._intake.attach(job, past)

    # -- what comes out -----------------------------------------------------------------------

    def next_over(self) -> str:
        """Wait until a row that was not named before can be measured or has failed, and name it."""
        while True:
            self._pump()
            if self._rows.over:
                return self._rows.over.pop(next(iter(self._rows.over))).row_id
            self._wait()

    def take(self, row_id: str) -> Run:
        """The ended job of this row with its log; waits for it if need be.

        Raises:
            RunError: The row could not be submitted, or its log cannot be found.
        """
        end = self._end_of(row_id)
        self._rows.over.pop(row_id, None)
        if isinstance(end, RunError):
            raise end
        return end

    def wait_for(self, row_id: str) -> None:
        """Wait until this row can be measured or has failed."""
        self._end_of(row_id)

    def _end_of(self, row_id: str) -> Run | RunError:
        while True:
            self._pump()
            phase = self._rows.phases[row_id]
            if isinstance(phase, Over):
                return phase.end
            self._wait()

    def phase(self, row_id: str) -> Phase | None:
        """Where this row is on its way; ``None`` where it was not handed over for submission."""
        return self._rows.phases.get(row_id)

    def spec(self, row_id: str) -> JobSpec | None:
        """How this row's last job was started, or is to be."""
        row = self._rows.row(row_id)
        return None if row is None else row.spec

    def job_id(self, row_id: str) -> str | None:
        """The id of this row's job, if it was submitted."""
        seen = self._rows.seen(row_id)
        return None if seen is None else seen.job.id

    def status(self, row_id: str) -> JobStatus | None:
        """What was last known of this row's job."""
        seen = self._rows.seen(row_id)
        return None if seen is None else seen.status

    def attempts(self, row_id: str) -> tuple[Attempt, ...]:
        """The row's jobs before its last one that were not measured."""
        row = self._rows.row(row_id)
        return () if row is None else row.failures

    def earlier(self, row_id: str) -> tuple[Run, ...]:
        """The row's jobs before its last one that were measured as well."""
        row = self._rows.row(row_id)
        return () if row is None else row.earlier

    def row_statuses(self) -> Iterator[RowStatus]:
        """Where every row stands, in the order of submission."""
        return map(status_of, self._rows.phases.items())

    def count(self) -> None:
        """Hold all jobs of the run that the scheduler has against the rows' own once more."""
        self._rows.hold(self._rows.count(has_reason=True))

    # -- the end ------------------------------------------------------------------------------

    def interrupt(self, detach: bool) -> int:
        """End the session's wait: what has not ended is an error that says so, and is cancelled unless detached.

        Returns:
            How many jobs are being cancelled, or were left to run; :meth:`close` waits for the launcher's answer.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self.interrupted = True
        return self._finish.interrupt(detach)

    def close(self, detach: bool = False) -> int:
        """Cancel whatever still runs, with one request, unless detached, and let go of the launcher.

        Returns:
            How many jobs were cancelled, besides those of :meth:`interrupt`.

        Raises:
            JobError: The launcher could not cancel them.
        """
        return self._finish.close(detach)

    # -- waiting ------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Take what is there: answers, logs of ended jobs; and submit what waits, as far as the limits allow."""
        self._submitting.collect()
        self._polling.collect()
        self._logs.find()
        self._submitting.submit()
        self._polling.ask_aside()

    def _wait(self) -> None:
        """Let time pass until there may be news, and ask about all jobs when their turn has come."""
        self._ticker(self)
        self._watching.look_when_due()
        if self._clock() >= self._polling.due_s:
            self._watching.look_next()
            self._polling.ask()
            return
        dues_s = (part.due_s for part in (self._polling, self._watching, self._submitting, self._logs))
        due_s = min(dues_s) - self._clock()
        if due_s > 0 and not self._submitting.wait(due_s, self._polling.answer):
            self._sleep(due_s)
