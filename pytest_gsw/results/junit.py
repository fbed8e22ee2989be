"""A record as JUnit properties, by way of pytest's own ``user_properties``."""

from __future__ import annotations

import os
from typing import Any

from pytest_gsw.common.redact import quoted
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results.record import Record, attempt_text, compared_text, measured_jobs, repeat_text

#: What pytest, pytest-xdist and JUnit can all carry.
Property = str | int | float | bool


def properties(record: Record) -> list[tuple[str, Property]]:
    """The facts of one run as ``(name, value)`` pairs; what is not known is left out.

    Times are in seconds, MFU and tolerance are fractions; the names carry the units.
    """
    job = record.job
    facts: dict[str, Any] = {
        "gsw_row": record.row,
        "gsw_outcome": record.outcome,
        "gsw_fact": record.fact,
        "gsw_cluster": record.cluster,
        "gsw_simulated": True if record.simulated else None,
        "gsw_not_comparable": record.not_comparable,
        "gsw_reason": record.reason or None,
        "gsw_tolerance": record.tolerance,
        "gsw_limit": record.limit,
        "gsw_max_gain": record.max_gain if record.reason == Reason.TOO_GOOD.value else None,
        "gsw_sigma": record.sigma,
        "gsw_sigma_jobs": record.sigma_jobs or None,
        "gsw_drift": record.drift,
        "gsw_canary": True if record.canary else None,
        "gsw_gpus": record.gpus,
        "gsw_reference": record.reference if record.measured else None,
        **_figures("measured", record.measured),
        **_figures("documented", record.documented),
        **_figures("accepted", record.accepted),
        **_site_metrics(record),
        "gsw_accepted": record.accepted_note,
        "gsw_definition": record.definition or None,
        "gsw_image": record.image,
        "gsw_compared": compared_text(record) or None,
        "gsw_calibration_flops": record.calibration_flops,
        "gsw_statistic": record.statistic or None,
        "gsw_steps": record.steps or None,
        "gsw_median_step_s": record.median_s,
        "gsw_mean_step_s": record.mean_s,
        "gsw_p90_step_s": record.p90_s,
        "gsw_spike_fraction": record.spike_fraction,
        "gsw_warm_up_steps": record.warm_up_steps or None,
        "gsw_job_id": job and job.id,
        "gsw_job_state": job and job.state,
        "gsw_job_exit_code": job and job.exit_code,
        "gsw_job_nodes": (job and job.nodes) or None,
        "gsw_job_queue_s": job and job.queue_s,
        "gsw_job_run_s": job and job.run_s,
        "gsw_attempts": len(record.attempts) + 1 if record.attempts else None,
        **{f"gsw_attempt_{n}": attempt_text(attempt) for n, attempt in enumerate(record.attempts, 1)},
        **_repeats(record),
        **{f"gsw_environment_{name}": value for name, value in record.environment.items()},
        "gsw_saved_gpu_hours": record.saved_gpu_hours,
        "gsw_log": record.log,
        "gsw_baseline": record.baseline,
        "gsw_document": f"{record.document}:{record.document_line}",
    }
    # What a session records is quoted already; a record of an earlier release may not be.
    return [(name, _rounded(value)) for name, value in quoted(facts, os.environ).items() if value is not None]


def _site_metrics(record: Record) -> dict[str, Any]:
    """What was measured of the site's metrics, each by its key."""
    found: dict[str, Any] = {"gsw_own_outcome": record.own_outcome or None}
    for one in record.metrics:
        found |= {
            f"gsw_measured_{one.key}": one.measured,
            f"gsw_documented_{one.key}": one.documented,
            f"gsw_tolerance_{one.key}": one.tolerance,
            f"gsw_outcome_{one.key}": one.outcome,
        }
    return found


def _repeats(record: Record) -> dict[str, Any]:
    """Each job that the figure is the median of, where there are several."""
    if not record.repeats:
        return {}
    jobs = measured_jobs(record) or record.repeats
    listed = {f"gsw_job_{n}": repeat_text(job) for n, job in enumerate(jobs, 1)}
    return {"gsw_jobs": len(jobs), **listed}


def _rounded(value: Property) -> Property:
    # Microseconds and parts per million; what stands behind is noise of the arithmetic.
    return round(value, 6) if isinstance(value, float) else value


def _figures(prefix: str, figures: Any) -> dict[str, float]:
    return {f"gsw_{prefix}_{name}": value for name, value in figures.items() if value is not None}
