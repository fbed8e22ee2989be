"""A record as JUnit properties, by way of pytest's own ``user_properties``."""

from __future__ import annotations

import os
from typing import Any

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import at_line
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import attempt_text, compared_text, repeat_text

#: What pytest, pytest-xdist and JUnit can all carry.
Property = str | int | float | bool


def properties(record: Record) -> list[tuple[str, Property]]:
    """The facts of one run as ``(name, value)`` pairs; what is not known is left out.

    Times are in seconds, MFU and tolerance are fractions; the names carry the units.
    """
    job, verdict = record.jobs.last, record.verdict
    noise = verdict and verdict.noise
    facts: dict[str, Any] = {
        "gsw_row": record.row.id,
        "gsw_outcome": record.outcome,
        "gsw_fact": record.fact,
        "gsw_cluster": record.run.cluster,
        "gsw_simulated": True if record.run.simulated else None,
        "gsw_not_comparable": record.not_comparable,
        "gsw_reason": record.reason or None,
        "gsw_tolerance": record.row.tolerance,
        "gsw_limit": record.limit,
        "gsw_max_gain": verdict and verdict.max_gain if record.reason == Reason.TOO_GOOD.value else None,
        "gsw_sigma": noise and noise.sigma,
        "gsw_sigma_jobs": (noise and noise.jobs) or None,
        "gsw_drift": record.drift,
        "gsw_slow_nodes": record.slow_nodes,
        "gsw_alarm": record.alarms,
        "gsw_passed_over": record.passed_over,
        "gsw_canary": True if record.row.canary else None,
        "gsw_gpus": record.row.gpus,
        "gsw_reference": record.reference if record.figures.measured else None,
        "gsw_throughput_change": record.throughput_change,
        **_figures("measured", record.figures.measured),
        **_figures("documented", record.figures.documented),
        **_figures("accepted", record.figures.accepted),
        **_site_metrics(record),
        "gsw_accepted": record.accepted_note,
        "gsw_definition": record.row.definition or None,
        "gsw_image": record.run.image,
        "gsw_compared": compared_text(record) or None,
        "gsw_calibration_flops": record.figures.calibration_flops,
        "gsw_mfu_note": record.figures.mfu_note or None,
        "gsw_statistic": record.timing.statistic or None,
        "gsw_steps": record.timing.steps or None,
        "gsw_median_step_s": record.timing.median_s,
        "gsw_mean_step_s": record.timing.mean_s,
        "gsw_p90_step_s": record.timing.p90_s,
        "gsw_spike_fraction": record.timing.spike_fraction,
        "gsw_warm_up_steps": record.timing.warm_up_steps or None,
        "gsw_job_id": job and job.id,
        "gsw_job_state": job and job.state,
        "gsw_job_exit_code": job and job.exit_code,
        "gsw_job_nodes": (job and job.nodes) or None,
        "gsw_job_queue_s": job and job.queue_s,
        "gsw_job_run_s": job and job.run_s,
        "gsw_attempts": len(record.jobs.attempts) + 1 if record.jobs.attempts else None,
        **{f"gsw_attempt_{n}": attempt_text(attempt) for n, attempt in enumerate(record.jobs.attempts, 1)},
        **_repeats(record),
        **{f"gsw_environment_{name}": value for name, value in record.run.environment.items()},
        "gsw_saved_gpu_hours": record.jobs.saved_gpu_hours,
        "gsw_log": record.run.log,
        "gsw_baseline": record.row.baseline,
        "gsw_document": at_line(record.row.document, record.row.document_line),
        "gsw_source": record.row.source or None,
    }
    # What a session records is quoted already; a record of an earlier release may not be.
    shown = quoted({name: value for name, value in facts.items() if value is not None}, os.environ)
    # Microseconds and parts per million; what stands behind is noise of the arithmetic.
    return [(name, round(value, 6) if isinstance(value, float) else value) for name, value in shown.items()]


def took_s(record: Record) -> float:
    """Seconds that the row's last job ran, which JUnit has as the time of its test case; 0 where that is not known."""
    return (record.jobs.last and record.jobs.last.run_s) or 0.0


def _site_metrics(record: Record) -> dict[str, Any]:
    """What was measured of the site's metrics, each by its key."""
    found: dict[str, Any] = {"gsw_own_outcome": record.own_outcome or None}
    for one in record.metrics:
        key = one.metric.key
        found |= {
            f"gsw_measured_{key}": one.measured,
            f"gsw_documented_{key}": one.documented,
            f"gsw_tolerance_{key}": one.tolerance,
            f"gsw_outcome_{key}": one.outcome.value,
        }
    return found


def _repeats(record: Record) -> dict[str, Any]:
    """Each job that the figure is the median of, where there are several."""
    if not record.jobs.repeats:
        return {}
    jobs = record.measured_jobs or record.jobs.repeats
    listed = {f"gsw_job_{n}": repeat_text(job) for n, job in enumerate(jobs, 1)}
    return {"gsw_jobs": len(jobs), **listed}


def _figures(prefix: str, figures: Any) -> dict[str, float]:
    return {f"gsw_{prefix}_{name}": value for name, value in figures.items() if value is not None}
