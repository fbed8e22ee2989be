"""Active rows: polls of all their jobs with one request, and the ends of waits in the queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pytest_gsw.common.process import run_in_background
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import duration
from pytest_gsw.errors import JobError, LogError, RunError
from pytest_gsw.executor.ended_jobs import EndedJobs
from pytest_gsw.executor.phases import Active, Count, ExecutorPart, StateObserver, SubmittedJob
from pytest_gsw.executor.submitter import LONGEST_BACK_OFF_S, Backoff
from pytest_gsw.jobs.journal import Journal, by_row
from pytest_gsw.jobs.layout import other_outputs_of
from pytest_gsw.jobs.model import LOST_AT_START, NO_OTHER_NODE, Attempt, EarlyStop, Job
from pytest_gsw.jobs.pending import begins_after, reason_of
from pytest_gsw.jobs.states import COMPLETING, NODE_LOST, NOT_LAUNCHED, JobState, JobStatus
from pytest_gsw.validation.job_end import not_alone
from pytest_gsw.validation.run import CAUSE_OF_STATE, Run, cause_of

#: A job whose log shows its last step gets this long to end before the next poll.
SETTLE_S = 1.0
#: Upper limit on polls in one interval.
MOST_POLLS_PER_INTERVAL = 5

#: Slurm's reasons for a job that waits for unavailable nodes.
_NODES_UNAVAILABLE = ("ReqNodeNotAvail", "BadConstraints", "PartitionNodeLimit")
#: Of these, those for nodes that never become available.
_NEVER_FITS = _NODES_UNAVAILABLE[1:]

#: A reason that does not end by itself ends the row once all polls have returned it for this long: a site may hold jobs
#: for a moment, and a user release them.
STUCK_S = 120.0
_NOT_STARTED = (JobState.PENDING, JobState.UNKNOWN)

_NO_ANSWER = JobStatus(JobState.UNKNOWN, reason="no answer")


class PollSchedule:
    """Times of the polls, in monotonic seconds."""

    def __init__(self, interval_s: float, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self.last_s = -math.inf
        self.due_s = -math.inf
        self._failed = 0
        self._settling = 0

    def begin(self) -> None:
        """Note that a poll begins; no other is due until it is answered."""
        self.last_s = self._clock()
        self.due_s = math.inf

    def answered(self, answered: bool) -> None:
        """Note the outcome of a poll: true if the scheduler returned the state of any job."""
        self._failed = 0 if answered else self._failed + 1

    @property
    def is_unanswered(self) -> bool:
        """True if the last poll learnt the state of no job."""
        return self._failed > 0

    def end(self, settling: bool) -> None:
        """Schedule the next poll; the interval grows while the scheduler is unreachable.

        Args:
            settling: All jobs are about to end: the next poll follows soon, not after a full interval.
        """
        self._settling = self._settling + 1 if settling else 0
        # A failed poll has cost the scheduler something too.
        interval_s = self._interval_s * 2.0 ** min(self._failed, 10)
        interval_s = min(interval_s, max(self._interval_s, LONGEST_BACK_OFF_S))
        soon_s = self._interval_s / MOST_POLLS_PER_INTERVAL * 2.0 ** min(self._settling - 1, 10)
        # An earlier poll may have been scheduled meanwhile because a log shows its end.
        self.due_s = min(self.due_s, self._clock() + (min(interval_s, soon_s) if settling else interval_s))

    def soon(self) -> None:
        """Schedule one early poll for all jobs that end about now, within the limit of polls in an interval."""
        soon_s = max(self._clock() + SETTLE_S, self.last_s + self._interval_s / MOST_POLLS_PER_INTERVAL)
        self.due_s = min(self.due_s, soon_s)


@dataclass(eq=False, repr=False)
class Polls(ExecutorPart):
    """Polls the jobs of active rows, in a thread if the launcher allows it, and acts on the answers."""

    #: Awaits the logs of jobs that have ended, and queues rows again.
    ended_jobs: EndedJobs
    #: The waits of submissions.
    backoff: Backoff
    schedule: PollSchedule
    #: Called at every change of a job's state.
    observer: StateObserver
    #: The session's environment, whose secrets are redacted.
    environ: Mapping[str, str]

    def __post_init__(self) -> None:
        #: The jobs of the poll that is under way.
        self._polled: list[Active] = []
        #: The answer of the poll in the thread; ``None`` if none is under way.
        self.answer: Future[tuple[Mapping[str, JobStatus], Count]] | None = None

    @property
    def due_s(self) -> float:
        """Time of the next poll, monotonic seconds; infinity while one is under way."""
        return self.schedule.due_s if self.answer is None else math.inf

    def poll(self) -> None:
        """Poll all active jobs and, if that is due, count the run's jobs."""
        self.schedule.begin()
        self._polled = list(self.rows.active.values())
        request = partial(self._request, [active.job for active in self._polled])
        if self._polled and self.launcher.polls_in_a_thread:
            self.answer = run_in_background(request, "gsw-ask")
        else:
            self._finish_poll(request)

    def collect(self) -> None:
        """Process the answer of a poll in the thread."""
        if self.answer is not None and self.answer.done():
            answer, self.answer = self.answer, None
            self._finish_poll(answer.result)

    def _is_settling(self) -> bool:
        """True if all remaining jobs have ended their scripts."""
        rows = self.rows
        if rows.queued or rows.submitting or not rows.active:
            return False
        return all(COMPLETING in active.status.raw_state for active in rows.active.values())

    def _request(self, jobs: list[Job]) -> tuple[Mapping[str, JobStatus], Count]:
        # A row is finished only after its jobs are counted, by the poll's own answer if that lists all of them.
        specs, answers = self.rows.to_count(), self.launcher.poll(jobs)
        if (named := self.launcher.named_in_poll(specs)) is not None:
            return answers, by_row(specs, named)
        return answers, self.rows.count(any(status.state.ended for status in answers.values()))

    def _finish_poll(self, answer: Callable[[], tuple[Mapping[str, JobStatus], Count]]) -> None:
        """Process a poll's answer, except for rows that were given up or interrupted meanwhile."""
        try:
            answers, count = answer() if self._polled else ({}, {})
            polled = [active for active in self._polled if self.rows.active.get(active.row.row_id) is active]
            if polled:
                self._apply_answers([(active, self._redacted_status(active, answers)) for active in polled])
            self.rows.hold(count)
            if self._polled and not self.rows.active:
                self.rows.is_counted = not isinstance(count, RunError) and self.rows.have_ended()
        finally:
            self.schedule.end(self._is_settling())

    def _redacted_status(self, active: Active, answers: Mapping[str, JobStatus]) -> JobStatus:
        """The new status, with secrets redacted for screen, journal and record; the last one itself if unchanged."""
        status = answers.get(active.row.row_id, _NO_ANSWER)
        return active.status if status == active.status else redact(status, self.environ, active.job.spec.environment)

    def _apply_answers(self, answers: list[tuple[Active, JobStatus]]) -> None:
        """Record which jobs have ended, and only then act on the answers."""
        ended = [
            (active.job, status) for active, status in answers if status is not active.status and status.state.ended
        ]
        if ended:
            self.journal.write(Journal.ended, *ended)
        for active, status in answers:
            self._update(active, status)
        for active, status in answers:
            if status.siblings:
                self.rows.give_up([active.row.row_id], not_alone(Run(active.job.id, status, None)))
        # Jobs that avoid nodes and cannot start: the other nodes are down, drained or reserved.
        avoiding = [
            active
            for active, status in answers
            if status.state is JobState.PENDING
            and active.row.spec.avoided_nodes
            and status.reason.startswith(_NODES_UNAVAILABLE)
        ]
        if not self.rows.is_interrupted:
            self._resubmit([active for active in avoiding if active.row.row_id in self.rows.active], NO_OTHER_NODE)
            for active in [active for active, _ in answers if self._was_not_launched(active)]:
                self._resubmit([active], active.status.reason.replace(NOT_LAUNCHED, LOST_AT_START))
            self._end_waits(answers)
        silent = all(status.state is JobState.UNKNOWN for _, status in answers)
        self.schedule.answered(not silent)
        if not silent:
            self.backoff.answered(self.clock())

    def _was_not_launched(self, active: Active) -> bool:
        """True if a job is held because a node was lost at its start, and its row may run again elsewhere."""
        row, status = active.row, active.status
        is_lost = status.state is JobState.PENDING and status.reason.startswith(f"{NOT_LAUNCHED}: ")
        return is_lost and not row.spec.node_list and self.ended_jobs.may_retry(row) and row.row_id in self.rows.active

    def _resubmit(self, pending: list[Active], why: str) -> None:
        """Cancel jobs that cannot start, and submit them again: anywhere if they avoid all nodes that there are."""
        if not pending:
            return
        try:
            self.launcher.cancel([active.job for active in pending])
        except JobError:
            return  # tried again after the next poll
        for active in pending:
            row, status = active.row, replace(active.status, state=JobState.CANCELLED)
            spec = row.spec.again()
            if why == NO_OTHER_NODE:
                spec = replace(spec, avoided_nodes=())
            self.journal.write(Journal.ended, (active.job, status))
            self.rows.leave_queue(active)
            self.ended_jobs.requeue(row, Attempt(active.job.id, status, why), spec, row.earlier)

    def _end_waits(self, answers: list[tuple[Active, JobStatus]]) -> None:
        """End pending jobs that do not start by themselves, or have waited for too long."""
        rows, now_s = self.rows, self.clock()
        if [active for active, status in answers if status.state not in _NOT_STARTED]:
            rows.ran_s = now_s
        stops = [
            (active.submitted, stop)
            for active, status in answers
            if status.state is JobState.PENDING
            and not active.submitted.stop_sent
            and rows.active.get(active.row.row_id) is active
            if (stop := self._end_of_wait(active, status, now_s)) is not None
        ]
        if stops:
            self.end_early(stops)

    def _end_of_wait(self, active: Active, status: JobStatus, now_s: float) -> EarlyStop | None:
        """Why a job that a poll has found pending is not awaited any longer; ``None`` if it is."""
        job, reason, limit_s = active.job, status.reason, self.rows.limits.queue_s
        tile = job.spec.node_list
        if tile and reason.startswith((NODE_LOST, *_NEVER_FITS)):
            why = reason.removeprefix(f"{NODE_LOST}: ")
            return EarlyStop(f"not covered: {why}", f"sinfo -N -R -n {tile} shows more")
        if active.queued_s is None:
            # Of an earlier session. A job of the run that starts soon must still be able to prolong the wait.
            waited_s = self.launcher.now_s() - max(job.submitted_s, status.submit_s or 0.0)
            active.queued_s = now_s - max(0.0, min(waited_s, limit_s - STUCK_S))
        kind = reason_of(reason)
        if kind.advice is None or (
            kind.is_dated and not begins_after(reason, (status.submit_s or self.launcher.now_s()) + limit_s)
        ):
            active.stuck_s = None
        else:
            active.stuck_s = now_s if active.stuck_s is None else active.stuck_s
            if kind.is_final or now_s - active.stuck_s >= STUCK_S:
                if kind.is_final:
                    return _never_starts(job, status, kind.advice)
                return EarlyStop(f"job {job.id} does not start by itself: {reason}", kind.advice)
        waited_s = now_s - max(active.queued_s, self.rows.ran_s)
        if waited_s >= limit_s:
            return EarlyStop(
                f"job {job.id} waited {duration(waited_s)} in the queue: {reason or 'no reason is known'}",
                "raise max_queue of the cluster (hours; 0: no limit), or run the row when there is room",
            )
        return None

    def _update(self, active: Active, status: JobStatus) -> None:
        submitted = active.submitted
        if status is submitted.status:  # unchanged, as most jobs are in most polls
            active.unknown_since_s = None
            return
        now_s = self.clock()
        if status.state is JobState.UNKNOWN:
            if active.unknown_since_s is None:
                active.unknown_since_s = now_s
            if now_s - active.unknown_since_s < self.launcher.unknown_limit_s:
                return  # the scheduler is unreachable for a while; the last known state remains
        else:
            active.unknown_since_s = None
        changed = status.state is not submitted.status.state
        submitted.status = status
        if changed:
            self.observer(active.row.row_id, submitted.job.id, status)
        if status.state.ended or status.state is JobState.UNKNOWN:
            self.leave_queue(active)
        elif status.state is JobState.PENDING:
            active.watch = submitted.sample = active.log = None  # requeued: the next start is another run
            if changed:
                active.queued_s, active.stuck_s = now_s, None

    def leave_queue(self, active: Active) -> None:
        """Release the place of a job that has ended or was given up, and await its log."""
        self.rows.leave_queue(active)
        self.backoff.room()
        self.ended_jobs.await_log(active)

    def end_early(self, stops: list[tuple[SubmittedJob, EarlyStop]]) -> None:
        """End jobs early with one request; if that fails, the next look tries again."""
        for submitted, why in stops:
            stop = redact(why, self.environ, submitted.job.spec.environment)  # it may quote the log
            if submitted.stopped is None:
                self.journal.write(Journal.stopped, submitted.job, stop)
            submitted.stopped = stop
        try:
            self.launcher.cancel([submitted.job for submitted, _ in stops])
        except JobError:
            return
        for submitted, _ in stops:
            submitted.stop_sent = True
        self.schedule.soon()


def _never_starts(job: Job, status: JobStatus, advice: str) -> EarlyStop:
    """The stop of a job that waits for a failed one, with the cause in that one's files as if it were a row's own."""
    fact, first, cause = f"job {job.id} can never start: ", status.failed_first, None
    if first is not None:
        with suppress(LogError, OSError):
            outputs = other_outputs_of(replace(job, id=first.id), Path(first.log), None)
            cause = cause_of(Run(first.id, JobStatus(first.state), Path(first.log), other_files=outputs))
        if cause is not None and cause.name != CAUSE_OF_STATE.get(first.state):
            place = f"{cause.path}:{cause.line}"
            return EarlyStop(f"{fact}{first.why}: {cause.name}", cause.advice, None, cause.text, place)
    return EarlyStop(f"{fact}{status.reason}", advice)
