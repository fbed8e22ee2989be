"""The logs of running jobs: their progress, and early stops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.executor.ended_jobs import log_of
from pytest_gsw.executor.phases import Active, ExecutorPart, LookObserver, Watcher
from pytest_gsw.executor.polls import Polls
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.states import STANDING_STILL, JobState

#: Interval between two reads of running jobs' logs; each costs the file system one ``stat`` a job.
LOG_LOOK_S = 2.0


@dataclass(eq=False, repr=False)
class RunningLogs(ExecutorPart):
    """Reads the progress of running jobs from their logs, and ends those that cannot succeed."""

    #: Ends jobs, and polls them soon if a log shows their end.
    polls: Polls
    #: Makes the watch of each running job's log; ``None`` if none is watched.
    watcher: Watcher | None
    #: Called at every look at a running job; may return a reason to end it.
    on_look: LookObserver
    #: Time of the next look at all logs; monotonic seconds.
    look_s: float = -math.inf

    @property
    def due_s(self) -> float:
        """Time of the next read of logs, monotonic seconds; infinity if there is none to read."""
        return self.look_s if self.rows.active and self.watcher is not None else math.inf

    def look_when_due(self) -> None:
        """Read the progress of running jobs from their logs if that is due, and end those that cannot succeed."""
        now_s = self.clock()
        if now_s < self.due_s:
            return
        self.look_s = now_s + LOG_LOOK_S
        stopped = []
        for active in self.rows.active.values():
            submitted = active.submitted
            if submitted.status.state is JobState.PENDING:
                active.log = None  # a restarted job may write to another file
            if submitted.status.state is not JobState.RUNNING or submitted.stop_sent:
                continue
            finished = submitted.sample is not None and submitted.sample.finished
            submitted.sample = self._sample_of(active, now_s)
            stop = self.on_look(submitted.job, submitted.status, submitted.sample)
            if stop is not None:
                stopped.append((submitted, stop))
            if submitted.sample is None:
                continue
            if submitted.sample.finished and not finished:
                self.polls.schedule.soon()  # its log shows the end before the next regular poll does
            if submitted.sample.stop is not None and stop is None:
                stopped.append((submitted, submitted.sample.stop))
        if stopped:
            self.polls.end_early(stopped)

    def _sample_of(self, active: Active, now_s: float) -> Sample | None:
        """Progress of a running job by its log; ``None`` if unknown, or if Slurm's state explains the standstill."""
        if active.status.raw_state.upper().partition("+")[0] in STANDING_STILL:
            active.watch = None
            return None
        if active.unwatched or self.watcher is None:
            return None
        try:
            active.watch = active.watch or self.watcher(active.row.row_id)
            active.unwatched = active.watch is None
            return None if active.watch is None else active.watch.look(self._running_log(active), now_s)
        except Exception:
            # In a site's own log format: the error concerns this row alone, and is reported when it is measured.
            active.unwatched = True
            return None

    def _running_log(self, active: Active) -> Path | None:
        """A running job's log; it is looked for once after each poll until it exists."""
        if active.log is None and active.looked_s <= self.polls.schedule.last_s:
            active.looked_s = self.clock()
            try:
                active.log = log_of(self.launcher, active.job)
            except LogError:
                active.log = None
        return active.log
