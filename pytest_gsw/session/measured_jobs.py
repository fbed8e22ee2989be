"""The measurements of a row's jobs: each log is read once."""

from __future__ import annotations

from dataclasses import replace

from pytest_gsw.errors import IncompleteLogError, LogError, RunError
from pytest_gsw.hook_checks import hook_error
from pytest_gsw.jobs.spec import steps_of
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.logs.reader import read_log
from pytest_gsw.session.judging import Judge
from pytest_gsw.session.row_source import RowSource, is_traced
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.validation.agreement import Evidence
from pytest_gsw.validation.completeness import check_steps
from pytest_gsw.validation.job_end import check_job, check_tile
from pytest_gsw.validation.measure import of_all_jobs, timed_steps
from pytest_gsw.validation.run import Run

#: A job's id and its times, because a scheduler that lost its state assigns ids again.
_JobKey = tuple[str, float | None, float | None, float | None]


def _job_key(job_id: str, status: JobStatus) -> _JobKey:
    return job_id, status.submit_s, status.start_s, status.end_s


class MeasuredJobs:
    """The jobs of one row that have ended.

    Args:
        judge: The row, and the hooks that measure it.
        source: The row's facts, which get the software of each job.
    """

    def __init__(self, judge: Judge, source: RowSource) -> None:
        self._judge, self._source, self._baseline = judge, source, judge.baseline
        #: Evidence from files next to each job's log.
        self._evidence: dict[_JobKey, tuple[Evidence, ...]] = {}
        #: Each job's measurement, and the settings in its log that match the row; no measurement if it should fail.
        self._jobs: dict[_JobKey, tuple[Measurement | None, dict[str, str]]] = {}

    def check(self, run: Run) -> RunError | None:
        """Measure a job that ended well by its files as they are now; return its error, ``None`` if it has none."""
        key = _job_key(run.job_id, run.status)
        self._jobs.pop(key, None)
        self._evidence.pop(key, None)
        try:
            run = self.with_evidence(run)
            self.measure(run)
        except IncompleteLogError as error:
            return error
        except LogError as error:
            return self._incompleteness(run) or error
        except RunError as error:
            return error
        except Exception as error:  # in a site's own format
            return hook_error(error, self._judge.config.pluginmanager)
        return None

    def _incompleteness(self, run: Run) -> IncompleteLogError | None:
        """The missing end of a log with another error: later steps may show that a failure was none."""
        baseline, log_format = self._baseline, self._judge.log_format
        if run.log is None or log_format is None:
            return None
        try:
            log = read_log(run.log, log_format)
            steps = steps_of(baseline, traced=is_traced(run, self._source.spec))
            check_steps(baseline, run, log, timed_steps(baseline, log), steps, log_format.first_index)
        except RunError as error:
            return error if isinstance(error, IncompleteLogError) else None
        return None

    def with_evidence(self, run: Run) -> Run:
        """A run and its earlier jobs, with the evidence of hooks from files next to their logs.

        Raises:
            HookError: A hook raised, or returned an invalid result.
        """
        key = _job_key(run.job_id, run.status)
        if key not in self._evidence:
            self._evidence[key] = self._judge.evidence_of(run)
        evidence, earlier = self._evidence[key], tuple(map(self.with_evidence, run.earlier))
        return replace(run, evidence=evidence, earlier=earlier) if evidence or earlier else run

    def measure(self, run: Run) -> Measurement | None:
        """The measurement of the row's jobs so far; ``None`` if it is documented to fail.

        Raises:
            RunError: The last one did not end well, or on other nodes than its tile's, or one cannot be measured.
        """
        keys = [_job_key(job.job_id, job.status) for job in run.jobs]
        if keys[-1] not in self._jobs:
            check_job(run, self._baseline.recipe.may_fail)
            check_tile(run, self._baseline.tile)
        for key, job in zip(keys, run.jobs, strict=True):
            if key not in self._jobs:
                self._jobs[key] = self._read(job)
        measured = [self._jobs[key][0] for key in keys]
        known = [measurement for measurement in measured if measurement is not None]
        return measured[-1] if len(known) < 2 else of_all_jobs(self._baseline, known, self._judge.peak_flops)

    def measurement_of(self, job_id: str, status: JobStatus) -> Measurement | None:
        """The measurement of one job by itself, if it was measured."""
        return self._jobs.get(_job_key(job_id, status), (None, {}))[0]

    def agreed(self, run: Run) -> dict[str, str]:
        """The settings in the log of a run's last job that match the row; none if it was not measured."""
        return self._jobs.get(_job_key(run.job_id, run.status), (None, {}))[1]

    def _read(self, run: Run) -> tuple[Measurement | None, dict[str, str]]:
        run = replace(run, image_was_chosen=self._source.image_was_chosen(run))
        _, measurement, agreed, provenance = self._judge.read(run, traced=is_traced(run, self._source.spec))
        self._source.provenance[run.job_id] = provenance
        return measurement, agreed
