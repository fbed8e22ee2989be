"""Progress of a running job by its own log, and early stops of jobs that cannot succeed.

Reading a log costs Slurm nothing. Three policies end a job early:

* **stall**: no new step for a time that is long compared with the documented step time;
* **not finite**: a loss or a step time is NaN or infinite: the row is an error in any case;
* **slow start**: the first steps take a multiple of the documented time: the row cannot pass.

If the cluster has an accepted time for the row, it replaces the documented one.

Before a job is ended, its whole log is read again as for the verdict: a reader of a growing file may
see a stall that is none.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
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

#: Shortest time without a step that counts as a stall: a checkpoint or an evaluation on a busy file system
#: takes minutes.
LEAST_STALL_S = 600.0
#: A stall is longer than this many steps, and than this many times the job's longest pause so far.
_STALL_STEPS = 20
_STALL_PAUSES = 3
#: Before its first step a job starts containers, compiles and connects its ranks.
START_STALLS = 3
#: Fewest steps that are compared with the documented time.
_FIRST_STEPS = 10


@dataclass(frozen=True)
class Sample:
    """Progress of a job at one look at its log."""

    #: Steps done, their total (``None`` if unknown), and the newest one's seconds.
    steps: int = 0
    of: int | None = None
    step_time_s: float | None = None
    #: True if the log shows the last step: the job is about to end.
    finished: bool = False
    #: The reason to end the job now.
    stop: EarlyStop | None = None


@dataclass(eq=False)
class Watch:
    """Monitor of one job's log."""

    #: The job's row.
    baseline: Baseline
    #: The format of its log.
    log_format: LogFormat
    #: Conditions of an early stop.
    policies: Policies
    _: KW_ONLY
    #: Steps that the run will do; ``None`` if unknown.
    steps: int | None
    #: Limit on its run time, which a stalled job would use up; ``None`` if unknown.
    time_limit_s: float | None = None
    #: True if its step times are compared with the documented ones; a profiled run's are not.
    judged: bool = True
    #: The time that the job's cluster accepted for the row, if it will count.
    accepted: Accepted | None = None

    def __post_init__(self) -> None:
        #: Expected seconds a step, and the source of that time.
        self._step_time_s, self._by = self.baseline.documented.step_time_s, "documented"
        is_step_time = self.baseline.judged_by is STEP_TIME
        if self.accepted is not None and is_step_time:
            self._step_time_s, self._by = self.accepted.judged, "accepted"
        self._is_compared = self.judged and is_step_time and not self.baseline.criterion.expected_failure
        self._follower: Follower | None = None
        self._progress = Progress()
        self._sample = Sample()
        self._begin_s = math.nan
        #: Time of the last new step, and the longest time between two.
        self._news_s = 0.0
        self._longest_pause_s = 0.0
        #: Steps that the newest line covers, by its number.
        self._interval = 1.0

    def look(self, log: Path | None, now_s: float) -> Sample:
        """Read the log's new lines since the last look.

        Args:
            log: The job's log; ``None`` while it is missing.
            now_s: Monotonic seconds; the first look counts as the job's start.
        """
        if math.isnan(self._begin_s):
            self._begin_s = self._news_s = now_s
        if log is not None and (self._follower is None or self._follower.path != log):
            self._follower = Follower(log, self.log_format)
        try:
            progress = self._follower.advance() if self._follower else Progress()
        except LogError:
            # The verdict will report this error. There may have been new steps.
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
            step_time_s=None if progress.last is None else step_seconds(progress.last, self.baseline),
            finished=self._is_finished(progress),
        )
        # A decision remains until the log changes: reading the whole log takes long.
        stop = None if progress.changed or sample.finished else self._sample.stop
        if stop is None and not sample.finished:
            stop = self._stop(progress, sample, now_s)
        self._sample = replace(sample, stop=stop)
        return self._sample

    def _steps_each_line(self, before: Progress, now: Progress) -> float:
        """Steps that the newest line covers: many frameworks log only every Nth step."""
        first = self.log_format.first_index
        if first is None or now.last_index is None:
            return 1.0
        lines, index = now.steps, now.last_index - first + 1
        if before.last_index is not None and lines > before.steps:
            lines, index = lines - before.steps, now.last_index - before.last_index
        return max(1.0, index / lines)

    def _steps_done(self, progress: Progress) -> int:
        """The newest step's number if steps are numbered from the run's first; else the number of lines with a step."""
        first, last = self.log_format.first_index, progress.last_index
        if first is None or last is None or self.baseline.recipe.logged_steps is not None:
            return progress.steps
        return max(progress.steps, last - first + 1)

    def _expected_lines(self) -> int | None:
        """Number of steps that the log will show."""
        return self.baseline.recipe.logged_steps or self.steps

    def _is_finished(self, progress: Progress) -> bool:
        if self.steps is None:
            return False
        first, last = self.log_format.first_index, progress.last_index
        if first is not None and last is not None and self.baseline.recipe.logged_steps is None:
            return last >= first + self.steps - 1
        return progress.steps >= (self._expected_lines() or math.inf)

    def _stop(self, progress: Progress, sample: Sample, now_s: float) -> EarlyStop | None:
        stop = None
        if progress.changed:  # else the result is the same as before
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
            _remaining_s(sample, self.steps, sample.step_time_s or self._step_time_s),
        )

    def _slow_start(self, progress: Progress, sample: Sample) -> EarlyStop | None:
        expected_s = self._step_time_s
        if not self._is_compared or expected_s is None or progress.median is None or progress.steps < _FIRST_STEPS:
            return None
        limit_s = self.policies.slow_start * expected_s
        median_s = step_seconds(progress.median, self.baseline)
        if median_s is None or not median_s > limit_s:
            return None
        whole = self._read()
        seconds = sorted(step.seconds for step in timed_steps(self.baseline, whole)) if whole is not None else []
        # Half of all steps are this slow, not only the last ten after a pause.
        if len(seconds) < _FIRST_STEPS or not seconds[len(seconds) // 2] > limit_s:
            return None
        return EarlyStop(
            f"slow start: {median_s:.4g} s a step over the last {_FIRST_STEPS} of {progress.steps} steps "
            f"is {median_s / expected_s:.1f} times the {self._by} {expected_s:.4g} s "
            f"(ended early from {self.policies.slow_start:g} times on)",
            "the nodes or the fabric are at fault rather than the row; slow_start: 0 in clusters.yaml lets them go on",
            _remaining_s(sample, self.steps, median_s),
        )

    def _stall(self, progress: Progress, sample: Sample, now_s: float) -> EarlyStop | None:
        limit_s = self._stall_limit_s(sample)
        waited_s = now_s - self._news_s
        if not getattr(self.log_format, "shows_progress", True) or waited_s < limit_s:
            return None
        whole = self._read()
        if self._is_still_active(progress, whole):
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
            None if self.time_limit_s is None else max(0.0, self.time_limit_s - (now_s - self._begin_s)),
        )

    def _is_still_active(self, progress: Progress, whole: StepLog | None) -> bool:
        """True if the whole log shows no silence: it has more steps, has the run's last one, or cannot be read."""
        if whole is None:
            return progress.steps > 0
        return len(whole.steps) > progress.steps or self._is_over(whole)

    def _is_over(self, whole: StepLog) -> bool:
        """True if the log shows the run's last line: a checkpoint or an evaluation may follow and take long."""
        first, last, total = self.log_format.first_index, whole.steps[-1].index, self.steps or whole.total_steps
        if first is None or last is None or total is None or self.baseline.recipe.logged_steps is not None:
            return False
        return last + self._interval > first + total - 1

    def _stall_limit_s(self, sample: Sample) -> float:
        limit_s = self.policies.stall_s
        if limit_s is None:
            steps, lines = self.steps or 1, self._expected_lines() or 1
            line_s = (self._step_time_s or 0.0) * max(self._interval, steps / lines)
            limit_s = max(LEAST_STALL_S, _STALL_STEPS * line_s, _STALL_PAUSES * self._longest_pause_s)
        return limit_s if sample.steps else START_STALLS * limit_s

    def _read(self) -> StepLog | None:
        """The log as the verdict will read it; ``None`` if it has no steps or cannot be read."""
        try:
            return None if self._follower is None else read_log(self._follower.path, self.log_format)
        except LogError:
            return None


def _remaining_s(sample: Sample, steps: int | None, step_time_s: float | None) -> float | None:
    """Expected seconds of the remaining steps."""
    if steps is None or sample.of is None or step_time_s is None or not math.isfinite(step_time_s):
        return None
    left_s = max(0, sample.of - sample.steps) * steps / sample.of * step_time_s
    return left_s if math.isfinite(left_s) else None
