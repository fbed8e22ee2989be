"""From what is known of an ended row to its record: values in, a :class:`Record` out.

To write it down and to tell it are later steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.performance.decision import Repeats
from pytest_gsw.performance.figures import documented_peak_flops, figures, figures_of, mfu_note
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.performance.verdict import Verdict
from pytest_gsw.results.facts import Conclusion, FigureFacts, JobFacts, Jobs, RowFacts, RunFacts, Timing
from pytest_gsw.results.record import Record
from pytest_gsw.runs.run import Run
from pytest_gsw.tables.model import Baseline


@dataclass(frozen=True)
class Asked:
    """What a session asks of a row, whatever comes of it."""

    run_id: str
    node_id: str
    baseline: Baseline
    #: The cluster's name; ``replay`` where none was given.
    cluster: str
    tolerance: float
    #: How many jobs the row may have.
    repeats: Repeats
    #: Peak FLOP/s of the row's accelerator, ``None`` where it is not known.
    peak_flops: float | None
    #: The cluster's file, where that was named on the command line.
    clusters_file: str | None = None
    #: Options without which the row is another, and the faults of simulated rows, see RunFacts.
    options: tuple[str, ...] = ()
    simulated_faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ran:
    """What is known of the row's jobs, and of what they ran."""

    #: The last one, ``None`` where it has not ended.
    run: Run | None
    job: JobFacts | None
    #: Its jobs before that: those that were failed or cancelled, and those that were measured as well.
    attempts: tuple[JobFacts, ...]
    repeats: tuple[JobFacts, ...]
    #: Whether its figures are made up.
    simulated: bool
    #: The row's definition when it was started.
    definition: str
    #: The same without image and release; empty where that is not known any more.
    experiment: str
    image: str | None
    image_from: str
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] | None = None
    #: What the log states as the row does.
    compared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Found(Conclusion):
    """What came of a row; without a measurement it was not measured, and without a verdict not judged."""

    measurement: Measurement | None = None
    verdict: Verdict | None = None


def record_of(asked: Asked, ran: Ran, found: Found, recorded_s: float | None) -> Record:
    """The record of a row.

    Args:
        asked: What is asked of the row.
        ran: Its jobs.
        found: What came of them.
        recorded_s: When that was, seconds since the epoch; ``None`` where nobody watched, and the job's end counts.
    """
    baseline, measurement = asked.baseline, found.measurement
    peak_flops = documented_peak_flops(baseline, asked.peak_flops)
    accepted_s = None if found.verdict is None else found.verdict.accepted_s
    return Record(
        row=_row_facts(baseline, asked, ran),
        run=RunFacts(
            id=asked.run_id,
            cluster=asked.cluster,
            clusters_file=asked.clusters_file,
            options=asked.options,
            simulated_faults=asked.simulated_faults,
            simulated=ran.simulated,
            recorded_s=recorded_s,
            log=ran.job.log if ran.job else None,
            log_bytes=ran.job.log_bytes if ran.job else None,
            outputs=tuple(map(str, ran.run.others)) if ran.run else (),
            image=ran.image,
            image_from=ran.image_from,
            environment=ran.environment,
            variables=ran.variables,
            compared=ran.compared,
        ),
        **{name: getattr(found, name) for name in Conclusion.__dataclass_fields__},
        figures=FigureFacts(
            documented=dict(vars(baseline.documented)),
            implied=dict(vars(figures(baseline, baseline.documented.step_time_s, peak_flops))),
            measured=dict(vars(measurement.figures)) if measurement else {},
            accepted={} if accepted_s is None else dict(vars(figures_of(baseline, accepted_s, peak_flops))),
            calibration_flops=measurement.calibration_flops if measurement else None,
            mfu_note=mfu_note(baseline, (measurement and measurement.calibration_flops) or peak_flops),
        ),
        jobs=Jobs(
            last=ran.job,
            attempts=ran.attempts,
            repeats=ran.repeats,
            first_jobs=asked.repeats.first,
            confirm_jobs=asked.repeats.confirm,
            saved_gpu_hours=_saved_gpu_hours(ran.run, baseline),
        ),
        timing=_timing(measurement) if measurement else Timing(),
        verdict=found.verdict,
    )


def _row_facts(baseline: Baseline, asked: Asked, ran: Ran) -> RowFacts:
    return RowFacts(
        id=baseline.id,
        node_id=asked.node_id,
        baseline=f"{asked.node_id.partition('::')[0]}:{baseline.location.line}",
        document=baseline.source.document,
        document_line=baseline.source.line,
        workload=baseline.workload,
        framework=baseline.framework,
        dtype=baseline.dtype,
        accelerator=baseline.accelerator,
        gpus=baseline.gpus,
        tolerance=asked.tolerance,
        definition=ran.definition,
        experiment=ran.experiment,
        batch=baseline.global_batch_size,
        layers=baseline.all_layers,
        proxy=baseline.proxy,
        settings=baseline.settings,
        metric=baseline.metric,
        canary=baseline.canary,
        source="; ".join(filter(None, (baseline.source.in_words, baseline.notes and f"noted there: {baseline.notes}"))),
    )


def _timing(measurement: Measurement) -> Timing:
    if not measurement.series_s:
        return Timing(measurement.statistic)
    steady = measurement.steady
    return Timing(
        statistic=measurement.statistic,
        steps=measurement.steps,
        first_s=measurement.first_s,
        last_s=measurement.last_s,
        median_s=steady.median_s,
        mean_s=steady.mean_s,
        p90_s=steady.p90_s,
        spike_fraction=steady.spike_fraction,
        steady_steps=steady.steps,
        warm_up_steps=steady.warm_up_steps,
        series_s=measurement.series_s,
    )


def job_facts(job_id: str, launcher: str, status: JobStatus, run: Run | None, found: Measurement | None) -> JobFacts:
    """A job of a row, with what was measured of it by itself."""
    judged_s = found.judged_s if found else None
    metrics = {key: values[-1] for key, values in found.metrics.items()} if found else {}
    return JobFacts.of(job_id, launcher, status, judged_s=judged_s, log=run.log if run else None, metrics=metrics)


def _saved_gpu_hours(run: Run | None, baseline: Baseline) -> float | None:
    if run is None or run.stopped is None or run.status.state is JobState.COMPLETED:
        return None  # one that completed all the same was not ended by us
    return baseline.gpus * (run.stopped.saved_s or 0.0) / 3600
