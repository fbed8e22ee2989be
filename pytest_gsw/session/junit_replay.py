"""The JUnit file of a run by its records, for a session that died before pytest could write its own.

pytest writes this file, too, from reports as the session would have made them. A row's test case has the same name,
class name, time, properties and kind of element; its text is what the record keeps of the evidence.
"""

from __future__ import annotations

import os
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from datetime import timezone
from functools import partial
from pathlib import Path

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import calendar
from pytest_gsw.results import cluster_result, outcomes, row_text, suggested_commands
from pytest_gsw.results.junit import properties, run_seconds
from pytest_gsw.results.manifest import class_of, read_noted, suite_properties
from pytest_gsw.results.record import Record
from pytest_gsw.results.reported_status import reported_status
from pytest_gsw.results.sweep import lost_tiles, node_cases, read_sweep
from pytest_gsw.session.failure_text import failure_of
from pytest_gsw.session.junit_file import case_reports, reports_of_case
from pytest_gsw.session.pytest_private import JunitCase, write_junit
from pytest_gsw.tables.model import tile_of

#: Facts of a row by name: lines below its text.
_Facts = Sequence[tuple[str, str]]


def junit_of_run(
    directory: Path,
    records: Sequence[Record],
    missing: Mapping[str, str],
    *,
    strict: bool,
    since: Mapping[str, _Facts],
) -> str:
    """The text of the JUnit file in plain ASCII, which is right in any encoding.

    Args:
        directory: The run's.
        records: Its records.
        missing: By node id, why rows have no record, each of which is an error.
        strict: Rows faster than the tolerance allows have failed, as with ``strict`` of a cluster.
        since: By node id, lines on when rows became too slow.
    """
    # A session redacts what it records; records from elsewhere may hold anything.
    records, missing, since = redact((records, missing, since), os.environ)
    noted = read_noted(directory)
    cases: list[JunitCase] = []
    for record in records:
        begun = since.get(record.row.node_id, ())
        cases.append((class_of(record), record.row.id, _reports_of(record, directory, strict, begun)))
    for node_id, why in missing.items():
        row = node_id.rpartition("::")[2]
        facts = [("gsw_row", row), ("gsw_outcome", outcomes.ERROR.word), ("gsw_fact", why)]
        reports = case_reports(node_id, "failed", failure_of(why, node_id), facts, when="setup")
        cases.append((noted.class_of(node_id), row, reports))
    for node_id, why in noted.left_out.items():
        reports = case_reports(node_id, "skipped", (node_id.partition("::")[0], 0, f"Skipped: {why}"), [])
        cases.append((noted.class_of(node_id), node_id.rpartition("::")[2], reports))
    incident = cluster_result.incident_of(records)
    lost = {**lost_tiles(records), **{tile: why for name, why in missing.items() if (tile := tile_of(name))}}
    beside = [*([] if incident is None else [incident.case()]), *node_cases(read_sweep(directory), lost, noted.cluster)]
    cases += [(case.class_name, case.name, reports_of_case(case)) for case in beside]
    run_id = next((record.run.id for record in records), directory.name)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "junit.xml"
        write_junit(path, suite_properties(noted, run_id, records), cases)
        root = ET.parse(path).getroot()  # noqa: S314 - it was written a moment ago
    root[0].attrib |= _span(records)
    text: bytes = ET.tostring(root, "us-ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>{text.decode("ascii")}'


def _span(records: Sequence[Record]) -> dict[str, str]:
    """Time of the first submission, and seconds until the last job's end, as far as is known."""
    jobs = [record.jobs.last for record in records if record.jobs.last is not None]
    starts = [job.submit_s for job in jobs if job.submit_s is not None]
    begun = calendar(min(starts, default=None), timezone.utc)
    took_s = max((job.end_s - min(starts) for job in jobs if starts and job.end_s is not None), default=0.0)
    return {"time": f"{max(0.0, took_s):.3f}", "timestamp": "" if begun is None else begun.isoformat()}


def _reports_of(record: Record, directory: Path, strict: bool, begun: _Facts) -> Iterator[pytest.TestReport]:
    """The reports of a row; that of an unknown outcome is an error, never a pass."""

    def facts() -> _Facts:
        # As a session does: of rows that are too slow by their own metric.
        since = begun if record.by_own_metric == outcomes.REGRESSED.word else ()
        return [*since, *row_text.run_facts(record), *suggested_commands.repeat_commands(record, directory)]

    row = reported_status(record, facts, strict=strict)
    path, _, line = record.row.baseline.rpartition(":")
    reports = partial(case_reports, record.row.node_id, properties=properties(record), took_s=run_seconds(record))
    match row.outcome.pytest:
        case "passed":
            return reports("passed", None)
        case "xfailed":
            return reports("skipped", None, wasxfail=row.message)
        case "skipped":
            return reports("skipped", (path, line, row.text))
        case kind:
            shown = failure_of(row.text, path, int(line) - 1, row_text.short_fact(record))
            return reports("failed", shown, when="call" if kind == "failed" else "setup")
