"""JUnit from the records of a run, for a session that died before pytest could write its own.

A row's test case has the same name, class name, time, properties and kind of element as in pytest's
``--junitxml``. Its message is the row's fact, its text what the record keeps of the evidence.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from pytest_gsw.common.redact import quoted
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.results.incident import WholeNight, incident_of
from pytest_gsw.results.junit_names import (
    INCIDENT,
    Noted,
    class_of,
    class_of_incident,
    read_noted,
    suite_properties,
)
from pytest_gsw.results.next_steps import again, offline
from pytest_gsw.results.record import Record, read_record, record_files, record_name
from pytest_gsw.results.row_line import told
from pytest_gsw.results.unjudged import never_judged


def rebuild_junit(
    directory: Path,
    records: Iterable[Record],
    missing: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
    since: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> ET.Element:
    """The root element of the JUnit file.

    ``missing`` says by node id why a row of the run has no record, which is an error; if it has one, that counts. If
    ``strict``, rows faster than the tolerance allows have failed, as with ``gsw_strict``.
    ``since`` says since when rows are too slow, by node id.
    """
    rows = list(records)
    noted = read_noted(directory)
    if not noted.cluster and rows:
        noted = replace(noted, cluster=rows[0].run.cluster)
    recorded = {record.row.node_id for record in rows}
    begun = since or {}
    by_id = [(record.row.node_id, record) for record in rows]
    cases = [_recorded(record, directory, strict, begun.get(name, ())) for name, record in by_id]
    cases += [_missing(node_id, why, noted) for node_id, why in (missing or {}).items() if node_id not in recorded]
    incident = incident_of(rows)
    cases += [] if incident is None else [_incident(quoted(incident, os.environ))]
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


def read_run(directory: Path, known: Mapping[str, Record] | None = None) -> tuple[tuple[Record, ...], dict[str, str]]:
    """The records of a run's directory, and, by their path in it, why others cannot be read.

    ``known`` are records that need not be read, by the names of their files.
    """
    known = known or {}
    found = {path: known.get(path.name) or _read(path) for path in record_files(directory)}
    records = tuple(record for record in found.values() if isinstance(record, Record))
    # One that cannot be read must not hide the others, nor be lost itself.
    return records, {f"records/{path.name}": why for path, why in found.items() if isinstance(why, str)}


def _read(path: Path) -> Record | str:
    try:
        return read_record(path)
    except ValueError as error:
        return str(error)


def read_whole_run(
    directory: Path, known: Mapping[str, Record] | None = None, *, goes_on: bool = False
) -> tuple[tuple[Record, ...], dict[str, str]]:
    """The records of a run's directory, and why rows of the run have none.

    By node id, or by the path of a record that cannot be read where nobody knows of which row it is. For ``known`` see
    :func:`read_run`; ``goes_on`` says that the run's session has not ended.
    """
    records, unreadable = read_run(directory, known)
    missing = never_judged(directory, {record.row.node_id for record in records}, goes_on=goes_on)
    # What cannot be read was judged: one error, and not a second one of a row that nobody came to.
    missing |= {name: why for name in missing if (why := unreadable.pop(f"records/{record_name(name)}", ""))}
    return records, {**missing, **unreadable}


def junit_text(root: ET.Element) -> str:
    """The file's text, plain ASCII, so that it is right in whatever encoding it is written."""
    text: bytes = ET.tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>{text.decode("ascii")}'


def counts(root: ET.Element) -> dict[str, int]:
    """How many tests, failures, errors and skipped ones a JUnit file has."""
    (suite,) = root.iter("testsuite")
    return {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}


def _recorded(record: Record, directory: Path, strict: bool, since: Sequence[tuple[str, str]]) -> ET.Element:
    case = _case(class_of(record), record.row.id, junit.took_s(record), junit.properties(record))
    element = _outcome(record, strict, partial(_facts, record, directory, since))
    if element is not None:
        case.append(element)
    return case


def _missing(node_id: str, why: str, noted: Noted) -> ET.Element:
    row = node_id.rpartition("::")[2]
    facts = [("gsw_row", row), ("gsw_outcome", outcomes.ERROR.word), ("gsw_fact", why)]
    case = _case(noted.class_of(node_id), row, 0.0, facts)
    case.append(_element(outcomes.ERROR.junit, why, message=why))
    return case


def _incident(incident: WholeNight) -> ET.Element:
    case = _case(class_of_incident(incident.cluster), INCIDENT, 0.0, [])
    case.append(_element(outcomes.REGRESSED.junit, incident.text(), message=incident.fact))
    return case


def _outcome(record: Record, strict: bool, facts: Callable[[], Sequence[tuple[str, str]]]) -> ET.Element | None:
    """The element of an outcome; what is not known is an error, never a pass."""
    row = told(record, facts, strict=strict)
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
    return [*begun, *row_text.run_facts(record, again([record], directory), offline(record, directory))]


def _case(class_name: str, name: str, took_s: float, properties: Iterable[tuple[str, junit.Property]]) -> ET.Element:
    case = _element("testcase", classname=class_name, name=name, time=f"{took_s:.3f}")
    case.append(_properties(properties))
    return case


def _properties(listed: Iterable[tuple[str, junit.Property]]) -> ET.Element:
    element = _element("properties")
    element.extend(_element("property", name=name, value=value) for name, value in listed)
    return element


def _span(records: Iterable[Record]) -> dict[str, str]:
    """When the first job was submitted, and the seconds until the last one ended, as far as is known."""
    jobs = [record.jobs.last for record in records if record.jobs.last is not None]
    starts = [job.submit_s for job in jobs if job.submit_s is not None]
    ends = [job.end_s for job in jobs if job.end_s is not None]
    if not starts:
        return {"time": "0.000"}
    start_s = min(starts)
    took_s = max(0.0, max(ends, default=start_s) - start_s)
    try:
        timestamp = {"timestamp": datetime.fromtimestamp(start_s, timezone.utc).isoformat()}
    except (OverflowError, ValueError, OSError):  # by how far off it is
        timestamp = {}
    return {"time": f"{took_s:.3f}", **timestamp}


def _element(tag: str, text: str | None = None, /, **attributes: object) -> ET.Element:
    element = ET.Element(tag, {name: _safe(value) for name, value in attributes.items()})
    element.text = None if text is None else _safe(text)
    return element


def _safe(value: object) -> str:
    # A session quotes what it records; a record of an earlier release may hold anything.
    return quoted(str(value), os.environ)
