"""One running job as its own log shows it: how far it is, and whether it is worth going on.

A log costs Slurm nothing. Three things end a job before its time, each a policy of its own:

* **stall**: no new step for a while that is long against the documented step time;
* **not finite**: a loss or a step time is NaN or infinite, so that the row is an error whatever comes;
* **slow start**: the first steps take a multiple of the documented time, so that the row cannot pass.

Where the cluster has accepted a time of its own for the row, that stands in the documented one's place.

Before a job is ended, its whole log is read again in the way in which it would be judged: what only
looks like a stall to somebody who follows a growing file ends nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.common.text import duration
from pytest_gsw.errors import LogError
from pytest_gsw.executor.limits import Policies
from pytest_gsw.jobs.model import EarlyStop
from pytest_gsw.logs.follow import Follower, Progress
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.logs.reader import read_log
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.validation.measure import step_seconds, timed_steps

#: A job that shows no step for this long is never called stalled, however short its steps are: a checkpoint
#: or an evaluation on a busy file system takes minutes.
LEAST_STALL_S = 600.0
#: Steps that a job may miss, and how many of the longest pauses that it has made so far.
_STALL_STEPS = 20
_STALL_PAUSES = 3
#: Before its first step a job starts containers, compiles and connects its ranks.
START_STALLS = 3
#: How many steps must have been seen before they are compared with the documented time.
_FIRST_STEPS = 10


@dataclass(frozen=True)
class Sample:
    """What one look at a job's log showed."""

    #: Steps done, of how many (``None`` where nobody says), and the newest one's seconds.
    steps: int = 0
    of: int | None = None
    step_time_s: float | None = None
    #: Whether the last step is there, so that the job is about to end.
    finished: bool = False
    #: Why the job should be ended now.
    stop: EarlyStop | None = None


class Watch:
    """Watches one job.

    Args:
        baseline: The job's row.
        log_format: How its log is read.
        policies: When it is ended early.
        steps: Steps that the run is to do, ``None`` where nobody says.
        time_limit_s: Limit on its run time, to which a stalled job would go on; ``None`` where nobody says.
        judged: Whether its step times are compared with the documented ones: a profiled run's are not.
        accepted: What the job's cluster has accepted for the row, where that will count.
    """

    def __init__(
        self,
        baseline: Baseline,
        log_format: LogFormat,
        policies: Policies,
        *,
        steps: int | None,
        time_limit_s: float | None = None,
        judged: bool = True,
        accepted: Accepted | None = None,
    ) -> None:
        self._baseline = baseline
        #: Seconds that a step is expected to take, and who says so.
        self._step_time_s, self._by = baseline.documented.step_time_s, "documented"
        if accepted is not None and baseline.judged_by is STEP_TIME:
            self._step_time_s, self._by = accepted.judged_s, "accepted"
        self._format = log_format
        self._policies = policies
        self._steps = steps
        self._time_limit_s = time_limit_s
        self._judged = judged and baseline.judged_by is STEP_TIME and not baseline.expected_failure
        self._follower: Follower | None = None
        self._progress = Progress()
        self._sample = Sample()
        self._begin_s = math.nan
        #: When the last new step was seen, and the longest time between two.
        self._news_s = 0.0
        self._longest_pause_s = 0.0
        #: How many steps the newest line stands for, by its number.
        self._interval = 1.0

    def look(self, log: Path | None, now_s: float) -> Sample:
        """Read what the log has got since the last look.

        Args:
            log: The job's log, ``None`` while it is not there.
            now_s: Monotonic seconds; the first look is taken for the job's start.
        """
        if math.isnan(self._begin_s):
            self._begin_s = self._news_s = now_s
        if log is not None and (self._follower is None or self._follower.path != log):
            self._follower = Follower(log, self._format)
        try:
            progress = self._follower.advance() if self._follower else Progress()
        except LogError:
            # Whoever judges the run will say so. Nobody can tell whether there were new steps.
            self._news_s = now_s
            return replace(self._sample, stop=None)
        if progress.changed:
            self._interval = self._steps_each_line(self._progress, progress)
            if progress.steps > 1:
                self._longest_pause_s = max(self._longest_pause_s, now_s - self._news_s)
            self._news_s = now_s
        self._progress = progress
        sample = Sample(
            steps=self._steps_done(progress),
            of=self._expected_lines(),
            step_time_s=None if progress.last is None else step_seconds(progress.last, self._baseline),
            finished=self._is_finished(progress),
        )
        # What was decided stands until there is news: to read the whole log takes its time.
        stop = None if progress.changed or sample.finished else self._sample.stop
        if stop is None and not sample.finished:
            stop = self._stop(progress, sample, now_s)
        self._sample = replace(sample, stop=stop)
        return self._sample

    def _steps_each_line(self, before: Progress, now: Progress) -> float:
        """How many steps the newest line stands for: many frameworks log only every Nth."""
        first = self._format.first_index
        if first is None or now.last_index is None:
            return 1.0
        lines, index = now.steps, now.last_index - first + 1
        if before.last_index is not None and lines > before.steps:
            lines, index = lines - before.steps, now.last_index - before.last_index
        return max(1.0, index / lines)

    def _steps_done(self, progress: Progress) -> int:
        """Steps by their number where that counts from the run's first; else the lines that show one."""
        first, last = self._format.first_index, progress.last_index
        if first is None or last is None or self._baseline.recipe.logged_steps is not None:
            return progress.steps
        return max(progress.steps, last - first + 1)

    def _expected_lines(self) -> int | None:
        """How many steps the log will show."""
        return self._baseline.recipe.logged_steps or self._steps

    def _is_finished(self, progress: Progress) -> bool:
        if self._steps is None:
            return False
        first, last = self._format.first_index, progress.last_index
        if first is not None and last is not None and self._baseline.recipe.logged_steps is None:
            return last >= first + self._steps - 1
        return progress.steps >= (self._expected_lines() or math.inf)

    def _stop(self, progress: Progress, sample: Sample, now_s: float) -> EarlyStop | None:
        stop = None
        if progress.changed:  # else they were asked already
            stop = self._not_finite(progress, sample) or self._slow_start(progress, sample)
        return stop or self._stall(progress, sample, now_s)

    # -- the policies -------------------------------------------------------------------------

    def _not_finite(self, progress: Progress, sample: Sample) -> EarlyStop | None:
        whole = self._read() if progress.not_finite is not None else None
        if whole is None or whole.not_finite is None:
            return None
        index, text = whole.not_finite
        where = "" if index is None else f" at step {index}"
        return EarlyStop(
            f"{NOT_FINITE}{where}: {text}",
            DIVERGED,
            _left_s(sample, self._steps, sample.step_time_s or self._step_time_s),
        )

    def _slow_start(self, progress: Progress, sample: Sample) -> EarlyStop | None:
        expected_s = self._step_time_s
        if not self._judged or expected_s is None or progress.median is None or progress.steps < _FIRST_STEPS:
            return None
        limit_s = self._policies.slow_start * expected_s
        median_s = step_seconds(progress.median, self._baseline)
        if median_s is None or not median_s > limit_s:
            return None
        whole = self._read()
        seconds = sorted(step.seconds for step in timed_steps(self._baseline, whole)) if whole is not None else []
        # Half of all steps are as slow, not a pause of the last ten alone.
        if len(seconds) < _FIRST_STEPS or not seconds[len(seconds) // 2] > limit_s:
            return None
        return EarlyStop(
            f"slow start: {median_s:.4g} s a step over the last {_FIRST_STEPS} of {progress.steps} steps "
            f"is {median_s / expected_s:.1f} times the {self._by} {expected_s:.4g} s "
            f"(ended early from {self._policies.slow_start:g} times on)",
            "the nodes or the fabric are at fault rather than the row; slow_start: 0 in clusters.yaml lets them go on",
            _left_s(sample, self._steps, median_s),
        )

    def _stall(self, progress: Progress, sample: Sample, now_s: float) -> EarlyStop | None:
        limit_s = self._stall_limit_s(sample)
        waited_s = now_s - self._news_s
        if not getattr(self._format, "shows_progress", True) or waited_s < limit_s:
            return None
        whole = self._read()
        if self._goes_on(progress, whole):
            self._news_s = now_s
            return None
        of = "" if sample.of is None else f" of {sample.of}"
        fact = f"stalled at step {sample.steps}{of}: no new step for {duration(waited_s)}"
        if not sample.steps:
            fact = f"hung at start: no step within {duration(waited_s)}"
        return EarlyStop(
            fact,
            "look for the rank that printed last, and rerun with NCCL_DEBUG=INFO; "
            "stall: MINUTES in clusters.yaml if the run does pause for so long",
            None if self._time_limit_s is None else max(0.0, self._time_limit_s - (now_s - self._begin_s)),
        )

    def _goes_on(self, progress: Progress, whole: StepLog | None) -> bool:
        """Whether the whole log says otherwise than silence: more steps, the run's own last one, or nothing at all."""
        if whole is None:
            return progress.steps > 0
        return len(whole.steps) > progress.steps or self._is_over(whole)

    def _is_over(self, whole: StepLog) -> bool:
        """Whether the run's last line is there: what follows takes as long as it takes, a checkpoint, an evaluation."""
        first, last, total = self._format.first_index, whole.steps[-1].index, self._steps or whole.total_steps
        if first is None or last is None or total is None or self._baseline.recipe.logged_steps is not None:
            return False
        return last + self._interval > first + total - 1

    def _stall_limit_s(self, sample: Sample) -> float:
        limit_s = self._policies.stall_s
        if limit_s is None:
            steps, lines = self._steps or 1, self._expected_lines() or 1
            line_s = (self._step_time_s or 0.0) * max(self._interval, steps / lines)
            limit_s = max(LEAST_STALL_S, _STALL_STEPS * line_s, _STALL_PAUSES * self._longest_pause_s)
        return limit_s if sample.steps else START_STALLS * limit_s

    def _read(self) -> StepLog | None:
        """The log as it will be judged, ``None`` where it holds no steps or cannot be read."""
        try:
            return None if self._follower is None else read_log(self._follower.path, self._format)
        except LogError:
            return None


def _left_s(sample: Sample, steps: int | None, step_time_s: float | None) -> float | None:
    """Run time that the steps to come would take."""
    if steps is None or sample.of is None or step_time_s is None or not math.isfinite(step_time_s):
        return None
    left_s = max(0, sample.of - sample.steps) * steps / sample.of * step_time_s
    return left_s if math.isfinite(left_s) else None
