"""Where each row is on its way, what the rows take of the cluster, and whose each job and log is."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from pytest_gsw.common.words import counted, enumerated
from pytest_gsw.errors import JobError, RunError
from pytest_gsw.fleet.entry import Ended, Live, Over, Phase, Row, Seen, Submitting, Waiting, seen_of, unanswered_s
from pytest_gsw.fleet.limits import Limits
from pytest_gsw.jobs.claims import Claims
from pytest_gsw.jobs.model import Job, JobSpec, JobState, Launcher, Named
from pytest_gsw.jobs.resume import by_row

#: The jobs that the scheduler has, by the row whose name they bear; why that is not known.
Count = Mapping[str, Sequence[Named]] | RunError


class Rows:
    """All rows, and the rows by where they are on their way.

    Args:
        launcher: How jobs are ended.
        limits: How many jobs and GPUs may be taken at once, and how many jobs may be pending.
    """

    def __init__(self, launcher: Launcher, limits: Limits) -> None:
        self.phases: dict[str, Phase] = {}
        self.waiting: deque[Waiting] = deque()
        self.submitting: dict[str, Submitting] = {}
        self.live: dict[str, Live] = {}
        self.ended: dict[str, Ended] = {}
        #: Those that were not handed out yet.
        self.over: dict[str, Over] = {}
        #: How often something became known that other rows may wait for: a job with its log, or that a row is over.
        self.news = 0
        #: Of how many claimed jobs it is known which others there are.
        self._counted = 0
        self._since_s = time.time()
        #: How the newest job of each row was started that may have one, in this session or in one before it.
        self.started: dict[str, JobSpec] = {}
        #: The jobs of the run that no row owns, and why a row that was handed out before is an error by now.
        self.strays: dict[str, Seen] = {}
        self.late: dict[str, JobError] = {}
        self.limits = limits
        self.claims = Claims()
        self._launcher = launcher
        #: What rows that are being submitted or live take.
        self._taken_jobs = 0
        self._taken_gpus = 0

    def row(self, row_id: str) -> Row | None:
        """A row; ``None`` where it is not known, or cannot be submitted at all."""
        phase = self.phases.get(row_id)
        return None if phase is None else phase.row

    def seen(self, row_id: str) -> Seen | None:
        """A row's job; ``None`` where it has none that is known."""
        phase = self.phases.get(row_id)
        return None if phase is None else seen_of(phase)

    # -- what a row takes ---------------------------------------------------------------------

    def fits(self, row: Row) -> bool:
        """Whether a row may be submitted beside those that have a place."""
        limits = self.limits
        if self._taken_jobs + 1 > limits.jobs or self._taken_gpus + row.spec.gpus > limits.gpus:
            return False
        if limits.pending == math.inf:
            return True
        pending = sum(live.seen.status.state is JobState.PENDING for live in self.live.values())
        return pending + len(self.submitting) + 1 <= limits.pending

    def take_place(self, row: Row) -> None:
        """Count what a row takes that is submitted."""
        self.started[row.row_id] = row.spec
        self._taken_jobs += 1
        self._taken_gpus += row.spec.gpus

    def free_place(self, row: Row) -> None:
        """Count no longer what a row took."""
        self._taken_jobs -= 1
        self._taken_gpus -= row.spec.gpus

    # -- where a row goes ---------------------------------------------------------------------

    def wait(self, waiting: Waiting, *, first: bool) -> None:
        """Let a row wait to be submitted, before all others or after them."""
        self.phases[waiting.row.row_id] = waiting
        if first:
            self.waiting.appendleft(waiting)
        else:
            self.waiting.append(waiting)

    def begin(self, waiting: Waiting) -> Submitting:
        """Let a row be submitted that waits no more."""
        submitting = self.phases[waiting.row.row_id] = Submitting(waiting)
        self.take_place(waiting.row)
        return submitting

    def go_live(self, row: Row, seen: Seen) -> Live:
        """A row that has its place has a job now."""
        live = self.phases[row.row_id] = self.live[row.row_id] = Live(row, seen)
        return live

    def leave_queue(self, live: Live) -> None:
        """A row's job is no longer live."""
        del self.live[live.row.row_id]
        self.free_place(live.row)

    def await_log(self, live: Live, look_s: float, deadline_s: float) -> None:
        """Await the log of a job that is no longer live; monotonic seconds."""
        row = live.row
        self.phases[row.row_id] = self.ended[row.row_id] = Ended(row, live.seen, deadline_s, look_s)

    def finish(self, over: Over) -> None:
        """Let a row be over."""
        self.phases[over.row_id] = self.over[over.row_id] = over
        self.news += 1

    # -- whose the jobs of the run are --------------------------------------------------------

    def count(self, has_reason: bool) -> Count:
        """Ask by name which jobs there are, in whichever thread: once after submissions were answered, or for a reason.

        Names that other sessions' jobs have as well tell nothing, nor does a launcher that cannot be asked so.
        """
        named = getattr(self._launcher, "named", None)
        claimed, started = len(self.claims.jobs), [spec for spec in list(self.started.values()) if spec.unique_name]
        # A launch script that has yet to answer may name some of its jobs by then.
        specs = [spec for spec in started if not isinstance(self.phases[spec.row_id], Submitting)]
        if named is None or not specs or (claimed == self._counted and not has_reason):
            return {}
        self._counted = claimed
        try:
            return by_row(specs, named(specs, self._since_s))
        except RunError as error:
            self._counted = -1  # asked again
            return error

    def hold(self, count: Count) -> None:
        """Hold the jobs that there are against the rows' own, and end with its row each that none of them owns."""
        for row_id, jobs in {} if isinstance(count, RunError) else count.items():
            phase, spec = self.phases[row_id], self.started[row_id]
            new = [job for job in jobs if job.id not in self.claims.jobs and job.id not in self.strays]
            # A submission whose answer is awaited may own one of them; they are counted once more then.
            if not new or isinstance(phase, Submitting) or unanswered_s(phase) is not None:
                continue
            strays = [Seen(Job(one.id, spec, 0.0, other_name=one.name), one.status) for one in new]
            self.strays |= {seen.job.id: seen for seen in strays}
            error = _not_owned(strays)
            self.give_up([row_id], error, strays)
            if not isinstance(getattr(self.phases[row_id], "end", None), RunError):
                self.late[row_id] = error

    # -- jobs that are given up ---------------------------------------------------------------

    def is_shared(self, clash: tuple[Job, RunError] | None, row_id: str) -> bool:
        """Give up both rows where another one has the same job or log; one that was handed out keeps its end."""
        if clash is None:
            return False
        other, error = clash
        rival = seen_of(self.phases[other.spec.row_id])
        is_other = other.spec.row_id != row_id and rival is not None and rival.job is other
        self.give_up([other.spec.row_id, row_id] if is_other else [row_id], error)
        return True

    def give_up(self, row_ids: list[str], error: RunError, others: Sequence[Seen] = ()) -> None:
        """Let rows be over with an error whatever becomes of their jobs, and end those, and others with them."""
        given_up = [over for row_id in row_ids if (over := self._give_up(row_id, error)) is not None]
        jobs = [*others, *(over.seen for over in given_up if over.seen is not None)]
        try:
            self.cancel([seen for seen in jobs if seen.may_run])
        except JobError:
            return  # they are ended with the session

    def _give_up(self, row_id: str, error: RunError) -> Over | None:
        """Let a row be over with an error; ``None`` where it has one, or was handed out."""
        phase = self.phases[row_id]
        if isinstance(phase, Over) and (isinstance(phase.end, RunError) or row_id not in self.over):
            return None
        if self.live.pop(row_id, None) is not None and phase.row is not None:
            self.free_place(phase.row)
        self.ended.pop(row_id, None)
        if isinstance(phase, Waiting):
            self.waiting.remove(phase)
        over = Over(row_id, error, phase.row, seen_of(phase), unanswered_s(phase))
        self.finish(over)
        return over

    def interrupt(self, error: Callable[[Phase], RunError]) -> None:
        """Let all rows whose job has not ended be over, each with its error."""
        for row_id, phase in self.phases.items():
            if isinstance(phase, Ended):
                self.ended[row_id] = phase  # Ctrl-C may have hit while it was to be handed over or repeated
            elif not isinstance(phase, Over):
                self.phases[row_id] = Over(row_id, error(phase), phase.row, seen_of(phase), unanswered_s(phase))
        self.waiting.clear()
        self.live.clear()
        self.news += 1

    def cancel(self, jobs: list[Seen]) -> None:
        """End jobs with one request; one that fails leaves them to the session's end.

        Raises:
            JobError: The launcher could not cancel them.
        """
        self._launcher.cancel([seen.job for seen in jobs])
        for seen in jobs:
            seen.cancelled = True

    def running(self) -> list[Seen]:
        """Jobs that may still run; first those that wait, which would start on the nodes that others leave."""
        of_rows = map(seen_of, self.phases.values())
        jobs = (seen for seen in (*of_rows, *self.strays.values()) if seen is not None and seen.may_run)
        return sorted(jobs, key=lambda seen: seen.status.state is not JobState.PENDING)


def stray_text(stray: Seen) -> str:
    """A job that no row owns, in one line: ``12 gsw-a FAILED on n001``."""
    state = "cancelled" if stray.cancelled else stray.status.state.value
    return f"{stray.job.id} {stray.job.name} {state}{stray.status.nodes and f' on {stray.status.nodes}'}"


def _not_owned(strays: Sequence[Seen]) -> JobError:
    ids = enumerated([stray.job.id for stray in strays])
    return JobError(
        f"the row has {counted(len(strays), 'job')} that no submission of it named: {ids}",
        tuple(("no row's", stray_text(stray)) for stray in strays),
        advice="let the recipe submit one job for a row, and name it; then run the row again",
    )
