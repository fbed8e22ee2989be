"""Make the :class:`Record` of an ended row; it is written and reported elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_gsw.common.typed_json import facts
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results.record import AmongTiles, FigureFacts, JobFacts, Jobs, Record, ResultText, RowFacts, RunFacts
from pytest_gsw.stats.figures import documented_peak_flops, figures, figures_of, mfu_note
from pytest_gsw.stats.measurement import Measurement, Timing
from pytest_gsw.stats.verdict import Verdict
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.run import Run


@dataclass(frozen=True, kw_only=True)
class RowResult(ResultText):
    """The result of a row; without a measurement it was not measured, and without a verdict not judged."""

    measurement: Measurement | None = None
    verdict: Verdict | None = None
    among_tiles: AmongTiles | None = None


def record_of(
    baseline: Baseline, row: RowFacts, run: RunFacts, jobs: Jobs, found: RowResult, peak_flops: float | None
) -> Record:
    """The record of a row.

    Args:
        baseline: The row.
        row: Its recorded facts, see :func:`row_facts`.
        run: Its run, but for the log, which is that of its last job.
        jobs: Its jobs.
        found: Their result.
        peak_flops: Peak FLOP/s of the row's accelerator, ``None`` if unknown.
    """
    measurement, last = found.measurement, jobs.last
    peak_flops = documented_peak_flops(baseline, peak_flops)
    accepted = None if found.verdict is None else found.verdict.accepted
    return Record(
        row=row,
        run=run if last is None else replace(run, log=last.log, log_bytes=last.log_bytes),
        **facts(ResultText, found),
        figures=FigureFacts(
            documented=dict(vars(baseline.documented)),
            implied=dict(vars(figures(baseline, baseline.documented.step_time_s, peak_flops))),
            measured=dict(vars(measurement.figures)) if measurement else {},
            accepted={} if accepted is None else dict(vars(figures_of(baseline, accepted, peak_flops))),
            calibration_flops=measurement.calibration_flops if measurement else None,
            mfu_note=mfu_note(baseline, (measurement and measurement.calibration_flops) or peak_flops),
        ),
        jobs=jobs,
        timing=measurement.timing if measurement else Timing(),
        verdict=found.verdict,
        among_tiles=found.among_tiles,
    )


def row_facts(baseline: Baseline, node_id: str, tolerance: float, definition: str, experiment: str) -> RowFacts:
    """The recorded facts of a row; ``definition`` and ``experiment`` are the hashes at its start."""
    source, metric = baseline.source, baseline.judged_by
    return RowFacts(
        id=baseline.id,
        node_id=node_id,
        baseline=f"{node_id.partition('::')[0]}:{baseline.location.line}",
        document=source.document,
        document_line=source.line,
        workload=baseline.workload.name,
        framework=baseline.workload.framework,
        dtype=baseline.workload.dtype,
        accelerator=baseline.accelerator,
        gpus=baseline.gpus,
        tolerance=tolerance,
        definition=definition,
        experiment=experiment,
        batch=baseline.batch.global_batch_size,
        layers=baseline.workload.all_layers,
        # Every release knows the metrics of training by their names.
        metric=baseline.criterion.metric,
        label=metric.as_label if metric.series is Series.FIGURES else None,
        at=baseline.criterion.at,
        canary=baseline.canary,
        proxy=baseline.workload.proxy,
        settings=baseline.settings,
        tile=baseline.tile,
        source="; ".join(filter(None, (source.in_words, baseline.notes and f"noted there: {baseline.notes}"))),
    )


def job_facts(job_id: str, launcher: str, status: JobStatus, run: Run | None, found: Measurement | None) -> JobFacts:
    """A job of a row with its own measurement."""
    judged = found.judged if found else None
    metrics = {key: values[-1] for key, values in found.metrics.items()} if found else {}
    log, loss = run.log if run else None, found.loss if found else None
    return JobFacts.of(job_id, launcher, status, log, judged=judged, metrics=metrics, loss=loss)


def saved_gpu_hours(run: Run | None, baseline: Baseline) -> float | None:
    """GPU-hours saved because a row's last job was ended early; ``None`` if it was not, or unknown."""
    if run is None or run.stopped is None or run.is_part or run.status.state is JobState.COMPLETED:
        return None  # one that completed all the same was not ended by us
    return baseline.gpus * (run.stopped.saved_s or 0.0) / 3600
