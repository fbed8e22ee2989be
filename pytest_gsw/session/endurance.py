"""A row that runs for a time: one job follows another until the time is over, whatever the end of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from pytest_gsw.common.text import duration
from pytest_gsw.errors import RunError, SubmissionError
from pytest_gsw.jobs.model import EarlyStop, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results.record import Record
from pytest_gsw.session.row import SessionRow
from pytest_gsw.stats.decision import Done, Repeat
from pytest_gsw.stats.goodput import INFRASTRUCTURE, PROGRAM, SESSION, Endurance, endurance
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, parse_statistic
from pytest_gsw.validation.attempts import read_attempt
from pytest_gsw.validation.retryable import PROGRAM_FAILED, infrastructure_failure
from pytest_gsw.validation.run import CAUSE_OF_STATE, Run

#: The variable with the number of a simulated job's steps.
SIMULATED_STEPS = "MAX_STEPS"
#: So many jobs in a row that cannot be measured end it: its program fails at once again and again.
MOST_UNMEASURED = 3


def no_goodput(row: Baseline, log_format: LogFormat | None) -> SubmissionError | None:
    """The error of a row whose log cannot show how its time is used; ``None`` if it can."""
    is_numbered = log_format is not None and log_format.first_index is not None
    if is_numbered and row.judged_by.series is Series.STEPS and row.recipe.logged_steps is None:
        return None
    return SubmissionError(
        f"no goodput follows from {row.workload.log_format} logs of the row: not each step has a number and a time",
        (("baseline", str(row.location)),),
        advice="choose a row whose log has all steps for a stage with 'for'",
    )


def long_run(
    row: Baseline, for_s: float, spec: JobSpec, make_spec: Callable[[Baseline], JobSpec], simulated_s: float | None
) -> tuple[Baseline, JobSpec]:
    """A row and its job with steps for this time, however fast they are, judged by all of them.

    They are as they were if the time of its steps is not known, or if its recipe does not take their number: its job
    then runs again and again. ``simulated_s`` are the seconds of a simulated job.
    """
    steps, step_s = row.recipe.steps, row.documented.step_time_s
    step_s = step_s if simulated_s is None or steps is None else simulated_s / steps
    wanted = math.ceil((1 + row.criterion.max_gain) * for_s / step_s) if step_s else 0
    if steps is None or wanted <= steps:
        return row, spec
    statistic = "mean" if parse_statistic(row.criterion.statistic).kind == "mean" else "median"
    criterion = replace(row.criterion, statistic=statistic)
    longer = replace(row, recipe=replace(row.recipe, steps=wanted), criterion=criterion)
    made = replace(spec, environment={**spec.environment, SIMULATED_STEPS: str(wanted)})
    if simulated_s is None:
        made = make_spec(longer)
    is_taken = (made.environment, made.arguments) != (spec.environment, spec.arguments)
    return (longer, made.with_left(for_s)) if is_taken else (row, spec)


class EnduranceRow(SessionRow):
    """A row that runs for a time: no evidence of its row's noise and drift, nor of an effect on all rows."""

    has_cluster_effect = False
    #: The first start of a job, seconds since the epoch; and the number of the newest jobs that cannot be measured.
    _first_s = math.inf
    _unmeasured = 0
    _endurance: Endurance | None = None

    @property
    def _time_s(self) -> float:
        assert self.plan.for_s is not None  # only then is a row of this class
        return self.plan.for_s

    @property
    def _over(self) -> EarlyStop:
        return EarlyStop(f"its time of {duration(self._time_s)} is over")

    def _ends_s(self, status: JobStatus) -> float:
        """The end of the row's time, by the status of its newest job."""
        row = self._shared.executor.rows.row(self.baseline.id)
        known = (status, *(attempt.status for attempt in (() if row is None else row.attempts)))
        # A job that Slurm requeues has another start afterwards.
        self._first_s = min([self._first_s, *(one.start_s for one in known if one.start_s is not None)])
        return self._first_s + self._time_s

    def _is_over(self, run: Run) -> bool:
        return run.stopped == self._over or (run.status.end_s or time.time()) >= self._ends_s(run.status)

    def time_over(self, status: JobStatus) -> EarlyStop | None:
        """Why a running job is ended now; a job that ends by itself in the time of one run is not."""
        spec = self.source.spec
        is_open = spec is None or spec.left_s is None or time.time() < self._ends_s(status)
        return None if is_open else self._over

    def decide(self, run: Run) -> Repeat | Done:
        """Decide if another job follows: until the time is over, or its program fails again and again."""
        if self._is_over(run):
            return Done()
        self._unmeasured = self._unmeasured + 1 if self._measured(run) is None else 0
        if self._unmeasured == MOST_UNMEASURED:
            return Done()
        failure, state = infrastructure_failure(run), run.status.state
        if failure is not None:
            return Repeat(failure.why, failure.nodes)
        if run.is_whole:
            past_s = (run.status.end_s or time.time()) - self._first_s
            return Repeat(f"{duration(past_s)} of {duration(self._time_s)}")
        return Repeat(run.stopped.fact if run.stopped is not None else CAUSE_OF_STATE.get(state, PROGRAM_FAILED))

    def _measured(self, run: Run) -> Measurement | None:
        """The measurement of one job by itself, however it ended; ``None`` if it cannot be measured."""
        try:
            return self.jobs.measure(replace(self.jobs.with_evidence(run), earlier=(), is_part=True))
        except RunError:
            return None

    def _conclude(self, run: Run, *, interrupted: bool) -> tuple[str, str]:
        """Judge the row by all its whole jobs; without one, by its longest."""
        ended = self._shared.executor.runs_of(self.baseline.id)
        jobs = [self.jobs.with_evidence(replace(job, is_part=True)) for job in ended]
        self._endurance = self._use_of_time(jobs)
        if self._is_over(run):
            known = [(found.steps, job) for job in jobs if (found := self._measured(job)) is not None]
            whole = [job for _, job in known if job.is_whole]
            if whole:
                run = replace(whole[-1], earlier=tuple(whole[:-1]))
            elif known:
                run = max(known, key=lambda pair: pair[0])[1]
        return super()._conclude(run, interrupted=interrupted)

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record with the use of the time; drift and alarms are those of rows without one."""
        return replace(record, endurance=self._endurance)

    def _use_of_time(self, jobs: list[Run]) -> Endurance | None:
        """The use of the time by these jobs; ``None`` if none has begun.

        Raises:
            LogError: A log cannot be read.
        """
        log_format = self.plan.log_format
        assert log_format is not None  # a row without one is not submitted
        times = [(job, job.status.start_s, job.status.end_s) for job in jobs]
        attempts = [
            read_attempt(self.baseline, log_format, job.log, start_s, end_s, self._cause(job))
            for job, start_s, end_s in times
            if start_s is not None and end_s is not None
        ]
        return endurance(attempts) if attempts else None

    def _cause(self, job: Run) -> str:
        """Why a job ended before its planned end; empty if it did not."""
        if infrastructure_failure(job) is not None:
            return INFRASTRUCTURE
        if self._is_over(job) or (job.is_whole and self._measured(job) is not None):
            return ""
        return SESSION if job.status.state in {JobState.CANCELLED, JobState.TIMEOUT} else PROGRAM
