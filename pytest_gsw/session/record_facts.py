"""The facts of a row's run and of its jobs, for its record."""

from __future__ import annotations

import os
import time

from pytest_gsw.common.redact import redact
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.results.make_record import job_facts, saved_gpu_hours
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Jobs, RunFacts
from pytest_gsw.session.measured_jobs import MeasuredJobs
from pytest_gsw.session.row_source import Circumstances, RowSource
from pytest_gsw.session.settings import Settings
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.run import Run


def jobs_facts(
    baseline: Baseline, source: RowSource, measured: MeasuredJobs, executor: Executor, run: Run | None
) -> Jobs:
    """Facts of the row's jobs; without a run its last one has not ended."""
    row_id = baseline.id

    def facts(job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
        return job_facts(job_id, source.launcher_name, status, run, measured.measurement_of(job_id, status))

    job_id, status = (run.job_id, run.status) if run else (executor.job_id(row_id), executor.status(row_id))
    earlier, attempts = executor.earlier(row_id) if run is None else run.earlier, executor.attempts(row_id)
    return Jobs(
        last=None if job_id is None or status is None else facts(job_id, status, run),
        attempts=tuple(
            JobFacts.of(job.job_id, executor.launcher.name, job.status, why_repeated=job.why) for job in attempts
        ),
        repeats=tuple(facts(job.job_id, job.status, job) for job in earlier),
        first_jobs=source.repeats.first,
        confirm_jobs=source.repeats.confirm,
        search=tuple(source.search),
        saved_gpu_hours=saved_gpu_hours(run, baseline),
    )


def run_facts(settings: Settings, ran: Circumstances, run: Run | None, agreed: dict[str, str]) -> RunFacts:
    """Facts of the run, except its log; ``agreed`` are the settings in it that match the row."""
    written = (dict(ran.environment), ran.variables, ran.image, agreed)
    environment, variables, image, compared = redact(written, os.environ)
    return RunFacts(
        id=settings.run_id,
        cluster=NO_CLUSTER if settings.cluster is None else settings.cluster.name,
        clusters_file=None if settings.cluster is None else settings.cluster.given_file,
        options=settings.row_options,
        tile_options=settings.tile_options,
        simulated_faults=settings.faults,
        replay=None if settings.replay is None else settings.replay.option,
        simulated=ran.is_simulated,
        recorded_s=time.time(),
        outputs=() if run is None else tuple([str(path) for name, path in run.outputs if name != "log"]),
        image=image,
        image_from=ran.image_from,
        environment=environment,
        variables=variables,
        compared=compared,
    )
