"""Further jobs of a row: after an infrastructure failure or a cancellation, or to measure once more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap

from pytest_gsw.common.node_lists import expand
from pytest_gsw.executor.journal_writer import JournalWriter
from pytest_gsw.executor.phases import AwaitingLog, Decide, Queued, RepeatObserver, RowJobs, RowTable, is_healthy
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import AT_ONCE, Attempt, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.stats.black_holes import AT_ONCE_S, BlackHole, black_holes
from pytest_gsw.stats.decision import Repeat, Undecided
from pytest_gsw.validation.retryable import failed_at_once, infrastructure_failure, node_use
from pytest_gsw.validation.run import Run, ran_out_of_memory

#: Reason for the next job of a row whose job an earlier session of the run cancelled.
SESSION_ENDED = "its session ended early"

#: Wait of a row whose job failed at once for other rows to show that its node is the cause: a job that began with it
#: has shown by then that it works, and was polled.
HOLD_S = 1.5 * AT_ONCE_S
#: Least time between two decisions on all nodes of the session.
_NODES_DECIDED_S = 1.0


@dataclass(eq=False)
class Repeats:
    """Decides if another job follows an ended one, and queues it."""

    rows: RowTable
    launcher: Launcher
    journal: JournalWriter
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: Most reruns of a row after infrastructure failures.
    retries: int
    #: Decides after each job that ended well if its row needs another one.
    decide: Decide
    #: Called for every job that is not its row's last.
    on_repeat: RepeatObserver

    def __post_init__(self) -> None:
        #: Ended jobs as evidence on nodes: row, id, status, and true if it failed at once.
        self._ends: list[tuple[str, str, JobStatus, bool]] = []
        #: Nodes that may be, or are, black holes; the time of that decision, and the number of jobs that it rests on.
        self._suspects: Mapping[str, BlackHole] = {}
        self._suspects_s, self._decided = -math.inf, 0

    def restore(self, row: RowJobs) -> None:
        """Note the jobs of an earlier session that were not measured."""
        self._ends += [(row.row_id, past.job_id, past.status, past.why == AT_ONCE) for past in row.failures]

    def may_retry(self, row: RowJobs) -> bool:
        """True if a row may run again after one more infrastructure failure."""
        return row.retried < self.retries

    def requeue(self, row: RowJobs, attempt: Attempt, spec: JobSpec, earlier: tuple[Run, ...]) -> None:
        """Put a row at the head of the queue, after an attempt that is not its last."""
        self.journal.write(Journal.repeated, row.row_id, attempt)
        self.on_repeat(row.row_id, attempt)
        self.rows.queue(Queued(RowJobs(row.row_id, spec, (*row.attempts, attempt), earlier)), first=True)

    def attempt_of(self, ended: AwaitingLog, run: Run) -> Attempt | Undecided | None:
        """The attempt that another job follows; ``None`` if the job is its row's last."""
        row, is_cancelled = ended.row, run.status.state is JobState.CANCELLED
        if is_cancelled and ended.submitted.cancelled_before and run.stopped is None:
            return Attempt(run.job_id, run.status, SESSION_ENDED)
        is_on_tile = bool(row.spec.node_list)  # it has no other nodes
        if ended.run is None:
            has_failed = self.launcher.jobs_outlive_session and failed_at_once(run)  # else there is one machine
            self._ends.append((row.row_id, run.job_id, run.status, has_failed))
            ended.held_until_s = self.clock() + HOLD_S if has_failed else -math.inf
            failure = infrastructure_failure(run) if self.may_retry(row) else None
            if failure is not None:
                return Attempt(run.job_id, run.status, failure.why, () if is_on_tile else failure.nodes)
        if ended.held_until_s > -math.inf:
            return self._after_failure_at_once(ended, run)
        if not is_healthy(run.status) or run.log is None:
            return None
        try:
            decided = self.decide(row.row_id, run)
        except Exception:  # in a site's own rule: reported when the row is judged
            return None
        if isinstance(decided, Repeat):
            nodes = () if is_on_tile else decided.avoiding
            return Attempt(run.job_id, run.status, decided.why, nodes, measured=True)
        return decided if isinstance(decided, Undecided) else None

    def _after_failure_at_once(self, ended: AwaitingLog, run: Run) -> Attempt | Undecided | None:
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
            uses = starmap(node_use, [*self._ends, *running])
            self._suspects = {suspect.node: suspect for suspect in black_holes(filter(None, uses))}
            self.rows.left_out = tuple(node for node, suspect in self._suspects.items() if suspect.elsewhere)
        return self._suspects
