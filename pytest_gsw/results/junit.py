"""A record as JUnit properties, and the records of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import at_line
from pytest_gsw.results import manifest, run_progress
from pytest_gsw.results.record import Record, read_record, record_files, record_name
from pytest_gsw.results.row_text import attempt_text, compared_text, doubt_text, repeat_text
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.metrics import MetricLabel

#: A value that pytest, pytest-xdist and JUnit can all carry.
Property = str | int | float | bool


def properties(record: Record) -> list[tuple[str, Property]]:
    """The known facts of one run as ``(name, value)`` pairs.

    Times are in seconds, MFU and tolerance are fractions; the names carry the units.
    """
    job, verdict = record.jobs.last, record.verdict
    noise, label, endured = verdict and verdict.noise, record.row.label, record.endurance
    facts: dict[str, Any] = {
        "gsw_row": record.row.id,
        "gsw_tile": record.row.tile or None,
        "gsw_stage": record.row.stage or None,
        "gsw_peers_change": record.among_tiles and record.among_tiles.peers_change,
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
        f"gsw_{record.judged_metric.change_key}": record.change,
        **({} if label is None else {"gsw_metric": label.key, "gsw_unit": label.unit, "gsw_at": record.row.at}),
        **_figures("measured", record.figures.measured, label),
        **_figures("documented", record.figures.documented, label),
        **_figures("accepted", record.figures.accepted, label),
        **_site_metrics(record),
        "gsw_accepted": record.accepted_note,
        "gsw_definition": record.row.definition or None,
        "gsw_image": record.run.image,
        "gsw_doubt": doubt_text(record) or None,
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
        "gsw_goodput": endured and endured.goodput,
        "gsw_lost_s": endured and endured.lost_s,
        "gsw_restarts": endured and endured.restarts,
        "gsw_mtbf_h": endured and endured.mtbf_s and endured.mtbf_s / 3600,
        "gsw_job_id": job and job.id,
        "gsw_job_state": job and job.state.value,
        "gsw_job_exit_code": job and job.exit_code,
        "gsw_job_nodes": (job and job.nodes) or None,
        "gsw_job_queue_s": job and job.queue_s,
        "gsw_job_run_s": job and job.run_s,
        "gsw_loss": job and job.loss,
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
    # A session redacts what it records; a record from elsewhere may hold anything.
    shown = redact({name: value for name, value in facts.items() if value is not None}, os.environ)
    # Microseconds and parts per million; further digits are noise of the arithmetic.
    return [(name, round(value, 6) if isinstance(value, float) else value) for name, value in shown.items()]


def run_seconds(record: Record) -> float:
    """Run time of the row's last job, JUnit's time of the test case; 0 if unknown."""
    return (record.jobs.last and record.jobs.last.run_s) or 0.0


def _site_metrics(record: Record) -> dict[str, Any]:
    """The site's metrics of a record, by key."""
    facts: dict[str, Any] = {"gsw_own_outcome": record.own_outcome or None}
    for verdict in record.metrics:
        key = verdict.metric.key
        facts |= {
            f"gsw_measured_{key}": verdict.measured,
            f"gsw_documented_{key}": verdict.documented,
            f"gsw_tolerance_{key}": verdict.tolerance,
            f"gsw_outcome_{key}": verdict.outcome.value,
        }
    return facts


def _repeats(record: Record) -> dict[str, Any]:
    """The jobs whose median the figure is, if there are several, and those of a search."""
    search = {f"gsw_search_{n}": repeat_text(job, record.judged_metric) for n, job in enumerate(record.jobs.search, 1)}
    if not record.jobs.repeats:
        return search
    jobs = record.measured_jobs or record.jobs.repeats
    listed = {f"gsw_job_{n}": repeat_text(job, record.judged_metric) for n, job in enumerate(jobs, 1)}
    return {"gsw_jobs": len(jobs), **listed, **search}


def _figures(prefix: str, figures: Any, label: MetricLabel | None) -> dict[str, float]:
    """Figures by name; the value of a metric by its key."""
    known = {name if label is None else label.key: value for name, value in figures.items() if value is not None}
    return {f"gsw_{prefix}_{name}": value for name, value in known.items()}


# -- The records of a run ------------------------------------------------------------------------------


def read_run(directory: Path, known: dict[str, Record] | None = None) -> tuple[tuple[Record, ...], dict[str, str]]:
    """The records of a run's directory, and, by their path in it, why others cannot be read.

    ``known`` are records that need not be read, by the names of their files; those that are read are added to it.
    """
    known = {} if known is None else known
    records_by_name = {name: known.get(name) or _read(directory / "records" / name) for name in record_files(directory)}
    known |= {name: record for name, record in records_by_name.items() if isinstance(record, Record)}
    records = tuple(record for record in records_by_name.values() if isinstance(record, Record))
    # One that cannot be read must not hide the others, nor be lost itself.
    return records, {f"records/{name}": why for name, why in records_by_name.items() if isinstance(why, str)}


def _read(path: Path) -> Record | str:
    try:
        return read_record(path)
    except ValueError as error:
        return str(error)


def read_whole_run(
    directory: Path, known: dict[str, Record] | None = None, *, goes_on: bool = False
) -> tuple[tuple[Record, ...], dict[str, str], run_progress.RunProgress | None]:
    """The records of a run's directory, why rows of the run have none, and the rows that its session has yet to judge.

    By node id, or by the path of a record that cannot be read and is of an unknown row. For ``known`` see
    :func:`read_run`; if ``goes_on`` is true, the run's session has not ended, else no row is open.
    """
    records, unreadable = read_run(directory, known)
    missing = manifest.never_judged(directory, {record.row.node_id for record in records})
    # A record that cannot be read was judged: one error, and not a second one for a missing record.
    missing |= {name: why for name in missing if (why := unreadable.pop(f"records/{record_name(name)}", ""))}
    missing |= unreadable
    if not goes_on:
        return records, missing, None
    left = manifest.left_text(directory)
    errors = {name: why for name, why in missing.items() if why != left}
    unjudged = [name for name in missing if name not in errors]
    progress = run_progress.read_progress(directory).compared(records, unjudged, errors)
    is_open = {row.node_id for row in progress.rows}
    return tuple(one for one in records if one.row.node_id not in is_open), errors, progress
