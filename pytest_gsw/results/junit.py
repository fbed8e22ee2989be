"""A record as JUnit properties, and the JUnit file of a session that died before pytest could write its own.

A row's test case has there the same name, class name, time, properties and kind of element as in pytest's
``--junitxml``. Its message is the row's fact, its text what the record keeps of the evidence.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timezone
from functools import partial
from pathlib import Path
from typing import Any

from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import at_line, calendar
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.cluster_result import incident_of
from pytest_gsw.results.manifest import (
    CaseBesideRows,
    RunManifest,
    class_of,
    left_text,
    never_judged,
    read_noted,
    suite_properties,
)
from pytest_gsw.results.record import Record, read_record, record_files, record_name
from pytest_gsw.results.row_text import attempt_text, compared_text, doubt_text, repeat_text, reported_status
from pytest_gsw.results.run_progress import RunProgress, read_progress
from pytest_gsw.results.suggested_commands import repeat_commands
from pytest_gsw.results.sweep import lost_tiles, node_cases, read_sweep
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.metrics import MetricLabel
from pytest_gsw.tables.model import tile_of

#: A value that pytest, pytest-xdist and JUnit can all carry.
Property = str | int | float | bool


def properties(record: Record) -> list[tuple[str, Property]]:
    """The known facts of one run as ``(name, value)`` pairs.

    Times are in seconds, MFU and tolerance are fractions; the names carry the units.
    """
    job, verdict = record.jobs.last, record.verdict
    noise, label = verdict and verdict.noise, record.row.label
    facts: dict[str, Any] = {
        "gsw_row": record.row.id,
        "gsw_tile": record.row.tile or None,
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


# -- the file of a session that died ---------------------------------------------------------------


def rebuild_junit(
    directory: Path,
    records: Iterable[Record],
    missing: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
    since: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> ET.Element:
    """The root element of the JUnit file.

    ``missing`` has by node id why a row of the run has no record, which is an error; if it has one, that counts. If
    ``strict``, rows faster than the tolerance allows have failed, as with ``gsw_strict``.
    ``since`` has the lines on when rows became too slow, by node id.
    """
    rows = list(records)
    noted = read_noted(directory)
    if not noted.cluster and rows:
        noted = replace(noted, cluster=rows[0].run.cluster)
    recorded = {record.row.node_id for record in rows}
    begun = since or {}
    by_id = [(record.row.node_id, record) for record in rows]
    sweep = read_sweep(directory)
    cases = [_case_of(record, directory, strict, begun.get(name, ())) for name, record in by_id]
    cases += [_missing(node_id, why, noted) for node_id, why in (missing or {}).items() if node_id not in recorded]
    incident = incident_of(rows)
    lost = {tile: why for name, why in (missing or {}).items() if name not in recorded and (tile := tile_of(name))}
    lost = {**lost_tiles(rows), **lost}
    beside = [*([] if incident is None else [incident.case()]), *node_cases(sweep, lost, noted.cluster)]
    cases += map(_beside_rows, redact(beside, os.environ))
    counts = Counter(element.tag for case in cases for element in case)
    suite = _element(
        "testsuite",
        name="pytest",
        errors=counts["error"],
        failures=counts["failure"],
        skipped=counts["skipped"],
        tests=len(cases),
        **_span(rows),
    )
    run_id = next((record.run.id for record in rows), directory.name)
    suite.append(_properties(suite_properties(noted, run_id, rows)))
    suite.extend(cases)
    root = _element("testsuites", name="pytest tests")
    root.append(suite)
    return root


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
) -> tuple[tuple[Record, ...], dict[str, str], RunProgress | None]:
    """The records of a run's directory, why rows of the run have none, and the rows that its session has yet to judge.

    By node id, or by the path of a record that cannot be read and is of an unknown row. For ``known`` see
    :func:`read_run`; if ``goes_on`` is true, the run's session has not ended, else no row is open.
    """
    records, unreadable = read_run(directory, known)
    missing = never_judged(directory, {record.row.node_id for record in records})
    # A record that cannot be read was judged: one error, and not a second one for a missing record.
    missing |= {name: why for name in missing if (why := unreadable.pop(f"records/{record_name(name)}", ""))}
    missing |= unreadable
    if not goes_on:
        return records, missing, None
    left = left_text(directory)
    errors = {name: why for name, why in missing.items() if why != left}
    unjudged = [name for name in missing if name not in errors]
    progress = read_progress(directory).compared(records, unjudged, errors)
    is_open = {row.node_id for row in progress.rows}
    return tuple(judged for judged in records if judged.row.node_id not in is_open), errors, progress


def junit_text(root: ET.Element) -> str:
    """The file's text in plain ASCII, which is right in any encoding."""
    text: bytes = ET.tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>{text.decode("ascii")}'


def counts(root: ET.Element) -> dict[str, int]:
    """Counts of tests, failures, errors and skipped tests in a JUnit file."""
    (suite,) = root.iter("testsuite")
    return {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}


def _case_of(
    record: Record,
    directory: Path,
    strict: bool,
    since: Sequence[tuple[str, str]],
) -> ET.Element:
    case = _case(class_of(record), record.row.id, run_seconds(record), properties(record))
    element = _outcome(record, strict, partial(_facts, record, directory, since))
    if element is not None:
        case.append(element)
    return case


def _missing(node_id: str, why: str, noted: RunManifest) -> ET.Element:
    row = node_id.rpartition("::")[2]
    facts = [("gsw_row", row), ("gsw_outcome", outcomes.ERROR.word), ("gsw_fact", why)]
    case = _case(noted.class_of(node_id), row, 0.0, facts)
    case.append(_element(outcomes.ERROR.junit, why, message=why))
    return case


def _beside_rows(found: CaseBesideRows) -> ET.Element:
    case, text = _case(found.class_name, found.name, 0.0, [(found.property_name, found.fact)]), found.text or found.fact
    if found.outcome == "failed":
        case.append(_element(outcomes.REGRESSED.junit, text, message=found.fact))
    elif found.outcome == "skipped":
        case.append(_element("skipped", f"{found.node_id}: {text}", type="pytest.skip", message=found.fact))
    return case


def _outcome(record: Record, strict: bool, facts: Callable[[], Sequence[tuple[str, str]]]) -> ET.Element | None:
    """The element of an outcome; an unknown one is an error, never a pass."""
    row = reported_status(record, facts, strict=strict)
    match row.outcome.pytest:
        case "passed":
            return None
        case "xfailed":
            return _element(row.outcome.junit, type="pytest.xfail", message=row.message)
        case "skipped":
            return _element(
                row.outcome.junit, f"{record.row.baseline}: {row.text}", type="pytest.skip", message=row.message
            )
        case _:
            return _element(row.outcome.junit, row.text, message=row.message)


def _facts(record: Record, directory: Path, since: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    # As a session does: of rows that are too slow by their own metric.
    begun = since if record.by_own_metric == outcomes.REGRESSED.word else ()
    return [*begun, *row_text.run_facts(record), *repeat_commands(record, directory)]


def _case(class_name: str, name: str, took_s: float, properties: Iterable[tuple[str, Property]]) -> ET.Element:
    case = _element("testcase", classname=class_name, name=name, time=f"{took_s:.3f}")
    case.append(_properties(properties))
    return case


def _properties(listed: Iterable[tuple[str, Property]]) -> ET.Element:
    element = _element("properties")
    element.extend(_element("property", name=name, value=value) for name, value in listed)
    return element


def _span(records: Iterable[Record]) -> dict[str, str]:
    """Time of the first submission, and seconds until the last job's end, as far as is known."""
    jobs = [record.jobs.last for record in records if record.jobs.last is not None]
    starts = [job.submit_s for job in jobs if job.submit_s is not None]
    ends = [job.end_s for job in jobs if job.end_s is not None]
    if not starts:
        return {"time": "0.000"}
    start_s = min(starts)
    took_s = max(0.0, max(ends, default=start_s) - start_s)
    begun = calendar(start_s, timezone.utc)
    return {"time": f"{took_s:.3f}", **({} if begun is None else {"timestamp": begun.isoformat()})}


def _element(tag: str, text: str | None = None, /, **attributes: object) -> ET.Element:
    element = ET.Element(tag, {name: _safe(value) for name, value in attributes.items()})
    element.text = None if text is None else _safe(text)
    return element


def _safe(value: object) -> str:
    # A session redacts what it records; a record from elsewhere may hold anything.
    return redact(str(value), os.environ)
