"""Looking at the logs of running jobs: how far they are, and which are not worth going on with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import JobError, LogError
from pytest_gsw.fleet.entry import Live, Seen, Watcher
from pytest_gsw.fleet.logs import log_of
from pytest_gsw.fleet.notes import Notes
from pytest_gsw.fleet.polling import Turns
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.fleet.watch import Sample
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import NEVER_STARTS, JobState, Launcher, Stop

#: How often running jobs' logs are looked at; it costs the file system one ``stat`` a job.
LOG_LOOK_S = 2.0

#: Slurm's words for jobs that are not over, and do not run either.
_STANDING_STILL = frozenset({"SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING", "COMPLETING"})


class Watching:
    """Watches running jobs by their logs.

    Args:
        rows: All rows.
        launcher: Knows where logs are, and ends jobs.
        turns: When the scheduler is asked, which is sooner where a log shows its end.
        notes: The run's journal.
        watcher: Makes the watch of each running job's log; by default none is watched.
        environ: The session's environment, whose secrets are not shown.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        rows: Rows,
        launcher: Launcher,
        turns: Turns,
        notes: Notes,
        watcher: Watcher | None,
        environ: Mapping[str, str],
        clock: Callable[[], float],
    ) -> None:
        self._rows = rows
        self._launcher = launcher
        self._turns = turns
        self._notes = notes
        self._watcher = watcher
        self._environ = environ
        self._clock = clock
        self._due_s = -math.inf

    @property
    def due_s(self) -> float:
        """When logs are looked at next, monotonic seconds; infinity where there is none to look at."""
        return self._due_s if self._rows.live and self._watcher is not None else math.inf

    def look_next(self) -> None:
        """The scheduler is asked now: what runs by then is looked at next."""
        self._due_s = self._clock()

    def look_when_due(self) -> None:
        """See how far running jobs are, when the turn of their logs has come."""
        now_s = self._clock()
        if now_s >= self.due_s:
            self._due_s = now_s + LOG_LOOK_S
            self._look()

    def _look(self) -> None:
        """See how far running jobs are, by their logs; end those that are not worth going on with."""
        now_s = self._clock()
        stopped = []
        for live in self._rows.live.values():
            seen = live.seen
            if seen.status.state is JobState.PENDING:
                live.log = None  # a job that is started again may write to another
                if seen.status.reason.startswith(NEVER_STARTS) and not seen.stop_sent:
                    fact = f"job {seen.job.id} can never start: {seen.status.reason}"
                    stopped.append((seen, Stop(fact, "find out why the job that it waits for has failed")))
            if seen.status.state is not JobState.RUNNING or seen.stop_sent:
                continue
            finished = seen.sample is not None and seen.sample.finished
            seen.sample = self._sample_of(live, now_s)
            if seen.sample is None:
                continue
            if seen.sample.finished and not finished:
                self._turns.soon()  # its log is the cheaper signal: no need to wait for the next turn
            if seen.sample.stop is not None:
                stopped.append((seen, seen.sample.stop))
        if stopped:
            self._stop(stopped)

    def _sample_of(self, live: Live, now_s: float) -> Sample | None:
        """What a running job's log shows; ``None`` where nobody can tell, or where it is known why it stands still."""
        if live.seen.status.raw_state.upper().partition("+")[0] in _STANDING_STILL:
            live.watch = None
            return None
        if live.unwatched or self._watcher is None:
            return None
        try:
            live.watch = live.watch or self._watcher(live.row.row_id)
            live.unwatched = live.watch is None
            return None if live.watch is None else live.watch.look(self._running_log(live), now_s)
        except Exception:
            # Of a site's own log format: its fault is this row's alone, and told when that is measured.
            live.unwatched = True
            return None

    def _running_log(self, live: Live) -> Path | None:
        """A running job's log, looked for once after each poll until it is there."""
        if live.log is None and live.looked_s <= self._turns.last_s:
            live.looked_s = self._clock()
            try:
                live.log = log_of(self._launcher, live.seen.job)
            except LogError:
                live.log = None
        return live.log

    def _stop(self, stops: list[tuple[Seen, Stop]]) -> None:
        """End jobs early, with one request; a job that could not be ended is tried again at the next look."""
        for seen, why in stops:
            stop = quoted(why, self._environ, seen.job.spec.environment)  # it may have words of the log
            if seen.stopped is None:
                self._notes.write(Journal.stopped, seen.job, stop)
            seen.stopped = stop
        try:
            self._launcher.cancel([seen.job for seen, _ in stops])
        except JobError:
            return
        for seen, _ in stops:
            seen.stop_sent = True
        self._turns.soon()
