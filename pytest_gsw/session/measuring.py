"""What the jobs of one row measured: each log is read once, by what the session's hooks say of the row."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_gsw.errors import HookError, LogError, RunError
from pytest_gsw.hooks.checks import peak_problem
from pytest_gsw.hooks.faults import hook_error, wrong_answer
from pytest_gsw.jobs.model import JobStatus
from pytest_gsw.jobs.spec import steps_of
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.runs.agreement import Evidence
from pytest_gsw.runs.checks import agreed_with_row, read_steps
from pytest_gsw.runs.measure import measure, of_all_jobs
from pytest_gsw.runs.metrics import read_metrics
from pytest_gsw.runs.run import Run
from pytest_gsw.session.metrics import site_metrics
from pytest_gsw.session.sources import RowSource
from pytest_gsw.tables.model import Baseline

#: A job: its cluster and id, and its times, because a scheduler that lost its state gives ids out again.
_JobKey = tuple[str, float | None, float | None, float | None]


@dataclass(frozen=True)
class Measured:
    """What was read of an ended row; without a measurement where it is documented to fail."""

    run: Run
    log: StepLog
    measurement: Measurement | None = None


class Measuring:
    """The measurements of one row.

    Args:
        config: The pytest config.
        baseline: The row.
    """

    def __init__(self, config: pytest.Config, baseline: Baseline) -> None:
        self._config = config
        self._baseline = baseline
        self._jobs: dict[_JobKey, Measured] = {}
        #: The peak of the row's accelerator, or why a hook does not tell it, once it was asked for.
        self._peak: float | HookError | None = None
        self._peak_asked = False

    def log_format(self) -> LogFormat | None:
        """How the row's logs are read; ``None`` where no plugin can."""
        log_format: LogFormat | None = self._config.hook.pytest_gsw_log_format(
            config=self._config, baseline=self._baseline
        )
        return log_format

    def peak_flops(self) -> float | None:
        """The peak of the row's accelerator, as the hook has it.

        Raises:
            HookError: The hook raised, or returned no number above 0.
        """
        if not self._peak_asked:
            self._peak, self._peak_asked = self._ask_peak(), True
        if isinstance(self._peak, HookError):
            raise self._peak
        return self._peak

    def known_peak_flops(self) -> float | None:
        """The same, ``None`` where the hook does not tell it: that is told where the row is judged."""
        try:
            return self.peak_flops()
        except HookError:
            return None

    def measure(self, run: Run, source: RowSource) -> Measured:
        """What the row's jobs measured: this one and those before it.

        Raises:
            RunError: One of them cannot be measured.
        """
        jobs = [self._measure_job(job, source) for job in run.jobs]
        measurements = [job.measurement for job in jobs if job.measurement is not None]
        if len(measurements) < 2:
            return jobs[-1]
        return Measured(run, jobs[-1].log, of_all_jobs(self._baseline, measurements, self.peak_flops()))

    def of_job(self, job_id: str, status: JobStatus) -> Measurement | None:
        """What one job measured by itself, if it was measured."""
        measured = self._jobs.get(_job_key(job_id, status))
        return None if measured is None else measured.measurement

    def agreed(self, run: Run | None) -> dict[str, str]:
        """What the log of the row's last job states as the row does."""
        measured = self._jobs.get(_job_key(run.job_id, run.status)) if run else None
        return {} if measured is None else agreed_with_row(self._baseline, measured.run, measured.log)

    def with_evidence(self, run: Run) -> Run:
        """A run, and the jobs before it, with what else was written of each beside its log, as hooks have it.

        Raises:
            HookError: One raised, or returned something else.
        """
        found: list[Any] = []
        hook = self._config.hook.pytest_gsw_evidence
        if run.log is not None:
            try:
                found += (one for some in hook(config=self._config, log=run.log, job_id=run.job_id) for one in some)
            except Exception as error:
                raise self._raised(error) from None
        wrong = [type(one).__name__ for one in found if not isinstance(one, Evidence)]
        if wrong:
            raise wrong_answer(hook, f"{wrong[0]}, wanted Evidence")
        return dataclasses.replace(run, evidence=tuple(found), earlier=tuple(map(self.with_evidence, run.earlier)))

    def _ask_peak(self) -> float | HookError | None:
        accelerator, dtype = self._baseline.accelerator, self._baseline.dtype
        hook = self._config.hook.pytest_gsw_peak_flops
        try:
            peak: float | None = hook(config=self._config, accelerator=accelerator, dtype=dtype)
        except Exception as error:
            return self._raised(error)
        problem = peak_problem(peak)
        return peak if problem is None else wrong_answer(hook, f"{problem}, for {accelerator} and {dtype}")

    def _measure_job(self, run: Run, source: RowSource) -> Measured:
        key = _job_key(run.job_id, run.status)
        if key not in self._jobs:
            self._jobs[key] = self._read(run, source)
        return self._jobs[key]

    def _read(self, run: Run, source: RowSource) -> Measured:
        baseline, log_format = self._baseline, self.log_format()
        if log_format is None:
            raise LogError(
                f"nobody reads logs of the format '{baseline.log_format}'",
                evidence=(("baseline", str(baseline.location)),),
                advice="correct log_format there, or install the plugin that provides it",
            )
        run = dataclasses.replace(run, image_was_chosen=source.image_was_chosen(run))
        log = read_steps(baseline, run, log_format)
        if baseline.expected_failure:
            return Measured(run, log)
        steps = steps_of(baseline, traced=source.is_traced(run))
        peak_flops, first_index = self.peak_flops(), log_format.first_index
        found = measure(baseline, run, log, peak_flops=peak_flops, steps=steps, first_index=first_index)
        return Measured(run, log, dataclasses.replace(found, metrics=self._site_metrics(run, log)))

    def _site_metrics(self, run: Run, log: StepLog) -> dict[str, tuple[float, ...]]:
        """What the site's metrics that the row documents read of a log.

        Raises:
            RunError: One is not there, is no figure, or its plugin raised.
        """
        assert run.log is not None  # it was read
        try:
            found = read_metrics(self._baseline, run.log, log, site_metrics(self._config))
        except RunError:
            raise
        except Exception as error:
            raise self._raised(error) from None
        return {key: (value,) for key, value in found.items()}

    def _raised(self, error: Exception) -> HookError:
        return hook_error(error, self._config.pluginmanager.list_name_plugin())


def _job_key(job_id: str, status: JobStatus) -> _JobKey:
    return job_id, status.submit_s, status.start_s, status.end_s
