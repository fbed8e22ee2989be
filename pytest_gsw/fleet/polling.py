"""Asking about all jobs with one question, and what follows from the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

from pytest_gsw.common.aside import aside
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import JobError
from pytest_gsw.fleet.entry import Live, Seen, StateObserver
from pytest_gsw.fleet.logs import Logs
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.patience import LONGEST_BACK_OFF_S, Patience, is_too_long
from pytest_gsw.fleet.repeating import Repeating
from pytest_gsw.fleet.rows import Count, Rows
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import Attempt, Job, JobState, JobStatus, Launcher
from pytest_gsw.runs.checks import not_alone
from pytest_gsw.runs.run import Run

#: A job whose log shows its last step is given this long to end before the scheduler is asked.
SETTLE_S = 1.0
#: However many batches of jobs end in one interval.
MOST_POLLS_PER_INTERVAL = 5

#: How long a session that ends waits for an answer which it does not need.
_LAST_ANSWER_S = 1.0

#: Slurm's reasons of a job that waits for nodes which nobody can have now.
_NOT_THERE = ("ReqNodeNotAvail", "BadConstraints", "PartitionNodeLimit")

#: Slurm's word for a job whose script has ended; one whose end accounting does not tell yet has it, too.
_COMPLETING = "COMPLETING"

_NO_ANSWER = JobStatus(JobState.UNKNOWN, reason="no answer")


class Turns:
    """When the scheduler is asked; all times are monotonic seconds."""

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self.last_s = -math.inf
        self.due_s = -math.inf
        self._failed = 0
        self._settling = 0

    def begin(self) -> None:
        """A question is asked now; no other one is due before it is answered."""
        self.last_s = self._clock()
        self.due_s = math.inf

    def answered(self, answered: bool) -> None:
        """Whether the scheduler told of any job."""
        self._failed = 0 if answered else self._failed + 1

    def end(self, settling: bool) -> None:
        """A question was asked; out of reach, the scheduler is asked less and less often.

        Args:
            settling: Whether nothing but jobs is left that are about to be over: a moment is worth waiting, not a turn.
        """
        self._settling = self._settling + 1 if settling else 0
        # A failed question has cost it something too.
        interval_s = self._interval_s * 2.0 ** min(self._failed, 10)
        interval_s = min(interval_s, max(self._interval_s, LONGEST_BACK_OFF_S))
        soon_s = self._interval_s / MOST_POLLS_PER_INTERVAL * 2.0 ** min(self._settling - 1, 10)
        # Meanwhile a log may have shown its end.
        self.due_s = min(self.due_s, self._clock() + (min(interval_s, soon_s) if settling else interval_s))

    def soon(self) -> None:
        """Ask before the next turn, once for all jobs that end about now, and never much more often than the budget."""
        soon_s = max(self._clock() + SETTLE_S, self.last_s + self._interval_s / MOST_POLLS_PER_INTERVAL)
        self.due_s = min(self.due_s, soon_s)


class Polling:
    """Asks about jobs that have not ended.

    Args:
        rows: All rows.
        launcher: Who is asked.
        turns: When it is asked.
        notes: The run's journal.
        patience: Told that the scheduler answers, and that there is room in its queue.
        logs: Takes the jobs that have ended.
        repeating: Takes the rows that are submitted anew.
        observer: Told of every change of a job's state.
        environ: The session's environment, whose secrets are not shown.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        rows: Rows,
        launcher: Launcher,
        turns: Turns,
        notes: Notes,
        patience: Patience,
        logs: Logs,
        repeating: Repeating,
        observer: StateObserver,
        environ: Mapping[str, str],
        clock: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._launcher = launcher
        self._turns = turns
        self._notes = notes
        self._patience = patience
        self._logs = logs
        self._repeating = repeating
        self._observer = observer
        self._environ = environ
        self._clock = clock
        #: Whether a thread asks while the session submits and judges, or the session itself.
        self._asks_aside: bool = getattr(launcher, "polls_in_a_thread", False)
        self._asked: list[Live] = []
        #: What the thread is about to be answered, ``None`` while nothing is asked.
        self.answer: Future[tuple[Mapping[str, JobStatus], Count]] | None = None

    @property
    def due_s(self) -> float:
        """When the scheduler is asked next, monotonic seconds; infinity while its answer is awaited."""
        return self._turns.due_s if self.answer is None else math.inf

    def ask_aside(self) -> None:
        """Ask when it is time, if another thread does so; else the session asks where it would wait."""
        if self._asks_aside and self._clock() >= self.due_s:
            self.ask()

    def ask(self) -> None:
        """Ask once about all jobs that have not ended, and where that is due, which jobs there are."""
        self._turns.begin()
        self._asked = list(self._rows.live.values())
        poll = partial(self._poll, [live.seen.job for live in self._asked])
        if self._asked and self._asks_aside:
            self.answer = aside(poll, "gsw-ask")
        else:
            self._end(poll)

    def collect(self) -> None:
        """Take what the thread was answered."""
        if self.answer is not None and self.answer.done():
            answer, self.answer = self.answer, None
            self._end(answer.result)

    def close(self) -> None:
        """Wait a moment for an answer that is under way; a scheduler that hangs keeps no session from ending."""
        if self.answer is not None:
            wait([self.answer], _LAST_ANSWER_S)

    def leave_queue(self, live: Live) -> None:
        """A job has ended, or was given up."""
        self._rows.leave_queue(live)
        self._patience.room()
        self._logs.wait_for(live)

    def _is_settling(self) -> bool:
        """Whether nothing but jobs is left whose scripts have ended."""
        rows = self._rows
        if rows.waiting or rows.submitting or not rows.live:
            return False
        return all(_COMPLETING in live.seen.status.raw_state for live in rows.live.values())

    def _poll(self, jobs: list[Job]) -> tuple[Mapping[str, JobStatus], Count]:
        answers = self._launcher.poll(jobs)
        # A row is handed over only once its jobs are counted.
        return answers, self._rows.count(any(status.state.ended for status in answers.values()))

    def _end(self, answer: Callable[[], tuple[Mapping[str, JobStatus], Count]]) -> None:
        """Take the answer, but for rows that were given up meanwhile, or that an interrupted session does not await."""
        try:
            answers, count = answer() if self._asked else ({}, {})
            asked = [live for live in self._asked if self._rows.live.get(live.row.row_id) is live]
            if asked:
                self._take([(live, self._shown(live, answers)) for live in asked])
            self._rows.hold(count)
        finally:
            self._turns.end(self._is_settling())

    def _shown(self, live: Live, answers: Mapping[str, JobStatus]) -> JobStatus:
        return _fit_to_show(live.seen, answers.get(live.row.row_id, _NO_ANSWER), self._environ)

    def _take(self, told: list[tuple[Live, JobStatus]]) -> None:
        """Write down which jobs have ended, and only then go on with them."""
        ended = [
            (live.seen.job, status) for live, status in told if status is not live.seen.status and status.state.ended
        ]
        if ended:
            self._notes.write(Journal.ended, *ended)
        for live, status in told:
            self._update(live, status)
        for live, status in told:
            if status.siblings:
                self._rows.give_up([live.row.row_id], not_alone(Run(live.seen.job.id, status, None)))
        pending = [live for live, status in told if _waits_for_other_nodes(live, status)]
        self._give_any_nodes([live for live in pending if live.row.row_id in self._rows.live])
        silent = all(status.state is JobState.UNKNOWN for _, status in told)
        self._turns.answered(not silent)
        if not silent:
            self._patience.answered(self._clock())

    def _give_any_nodes(self, without: list[Live]) -> None:
        """Submit jobs anew that wait for other nodes than those before, and will not get them."""
        if not without:
            return
        try:
            self._launcher.cancel([live.seen.job for live in without])
        except JobError:
            return  # they are still there at the next question
        for live in without:
            row, job = live.row, live.seen.job
            status = replace(live.seen.status, state=JobState.CANCELLED)
            attempt = Attempt(job.id, status, "no other node was available")
            self._notes.write(Journal.ended, (job, status))
            self._rows.leave_queue(live)
            self._repeating.again(row, attempt, replace(row.spec.again(), avoided_nodes=()), row.earlier)

    def _update(self, live: Live, status: JobStatus) -> None:
        seen = live.seen
        if status is seen.status:  # nothing new, as of most jobs at most times
            live.unknown_since_s = None
            return
        now_s = self._clock()
        if status.state is JobState.UNKNOWN:
            if live.unknown_since_s is None:
                live.unknown_since_s = now_s
            if not is_too_long(now_s - live.unknown_since_s):
                return  # the scheduler is out of reach for a while; the last known state stands
        else:
            live.unknown_since_s = None
        changed = status.state is not seen.status.state
        seen.status = status
        if changed:
            self._observer(live.row.row_id, seen.job.id, status)
        if status.state.ended or status.state is JobState.UNKNOWN:
            self.leave_queue(live)
        elif status.state is JobState.PENDING:
            live.watch = seen.sample = live.log = None  # put back into the queue: the next start is another run


def _waits_for_other_nodes(live: Live, status: JobStatus) -> bool:
    """Whether a job is to avoid nodes and cannot: the others are down, drained or reserved."""
    return (
        bool(live.row.spec.avoided_nodes) and status.state is JobState.PENDING and status.reason.startswith(_NOT_THERE)
    )


def _fit_to_show(seen: Seen, status: JobStatus, environ: Mapping[str, str]) -> JobStatus:
    """The scheduler's own words go to the screen, the journal and the record; what is no news is what was known."""
    return seen.status if status == seen.status else quoted(status, environ, seen.job.spec.environment)
