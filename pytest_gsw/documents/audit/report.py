"""What an audit found as text: for people, as JSON, as workflow commands of GitHub, as JUnit."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from typing import Any

from pytest_gsw.common.words import counted, one_line, workflow_command
from pytest_gsw.documents.audit.findings import Audit, Finding, Severity, Stale, Uses

_STALE = "acknowledged, but not found any more"


def text_report(audit: Audit, *, strict: bool = False) -> str:
    """The findings by file, the most severe first, and a summary as the last line."""
    files: dict[str, list[str]] = {}
    for found in audit.findings:
        files.setdefault(found.file, []).extend(_finding_lines(found))
    for stale in audit.stale:
        files.setdefault(stale.file, []).extend(_stale_lines(stale))
    lines = [line for file, told in files.items() for line in (file, *told, "")]
    lines.append(summary(audit))
    if audit.fails(strict=strict):
        lines.append("next: put it right, or say in the table why it stays: acknowledged: {mfu: reason}")
    return "\n".join(lines)


def summary(audit: Audit) -> str:
    """How much was looked at, and what came of it, in one line."""
    counts = [(severity, audit.new(severity) + audit.known(severity)) for severity in Severity]
    told = [
        counted(count, severity.value, severity.plural) + _known(audit.known(severity))
        for severity, count in counts
        if count
    ]
    found = ", ".join(told) or "nothing found"
    if audit.stale:
        found += f", {len(audit.stale)} {_STALE}"
    rows = counted(len(audit.rows), "row")
    if audit.documents:
        rows += f", the text of {counted(len(audit.documents), 'document')}"
    return f"{rows}, {counted(audit.checked, 'figure')} checked: {found}"


def _known(count: int) -> str:
    return f" ({count} acknowledged)" if count else ""


def _finding_lines(found: Finding) -> Iterator[str]:
    where = f"{found.line}:{found.column}"
    what = found.identity if found.row is None else f"{found.row}  {found.identity}"
    source = f"  ({found.source})" if found.source else ""
    yield f"  {where:<8} {found.severity.value}  {what}{source}"
    yield f"    documented {found.documented}, computed {found.computed}: {found.formula}"
    told = "; or ".join(f"{explanation.kind.value}: {explanation.text}" for explanation in found.explanations)
    yield f"    {told}"
    if found.acknowledged is not None:
        yield f"    acknowledged: {one_line(found.acknowledged)}"
    elif found.row is not None:
        which = "neither" if found.uses is Uses.NEITHER else f"the {found.uses.value} one"
        yield f"    the verdict uses {which}: it rests on {found.verdict}"


def _stale_lines(stale: Stale) -> Iterator[str]:
    yield f"  {f'{stale.line}:{stale.column}':<8} notice  {_rows(stale)}  {stale.identity}"
    yield f"    {_STALE}: {one_line(stale.reason)}"


def _rows(stale: Stale) -> str:
    return stale.rows[0] if len(stale.rows) == 1 else f"{len(stale.rows)} rows"


def json_report(audit: Audit) -> str:
    """One JSON object: counts, findings, and what is acknowledged and not found any more."""
    facts = {
        "rows": len(audit.rows),
        "documents": list(audit.documents),
        "checked": audit.checked,
        "counts": {
            severity.value: {"new": audit.new(severity), "acknowledged": audit.known(severity)} for severity in Severity
        },
        "findings": [_finding_facts(found) for found in audit.findings],
        "stale": [
            {name: getattr(stale, name) for name in ("identity", "rows", "file", "line", "column", "reason")}
            for stale in audit.stale
        ],
    }
    return json.dumps(facts, indent=2, allow_nan=False)


def _finding_facts(found: Finding) -> dict[str, Any]:
    names = ("identity", "severity", "row", "file", "line", "column", "source", "documented", "computed", "formula")
    return {
        **{name: getattr(found, name) for name in names},
        "severity": found.severity.value,
        "explanations": [{"kind": one.kind.value, "text": one.text} for one in found.explanations],
        "verdict_uses": found.uses.value,
        "verdict": found.verdict,
        "acknowledged": found.acknowledged,
    }


def github_report(audit: Audit, *, strict: bool = False) -> str:
    """A workflow command for each finding, and a summary last; with ``strict``, all that is new is an error."""
    lines = [_command(one, _message(one), is_error=_is_failure(one, strict=strict)) for one in audit.findings]
    lines += [_command(one, f"{_STALE}: {one_line(one.reason)}", is_error=strict) for one in audit.stale]
    return "\n".join([*lines, summary(audit)])


def _command(at: Finding | Stale, message: str, *, is_error: bool) -> str:
    place = {"file": at.file, "line": at.line, "col": at.column, "title": f"audit: {at.identity}"}
    return workflow_command("error" if is_error else "notice", place, message)


def _message(found: Finding) -> str:
    figures = f"documented {found.documented}, computed {found.computed} ({found.formula})"
    first = f"{found.row or found.file}: {found.severity.value}, {figures}"
    second = f"{found.explanation.kind.value}: {found.explanation.text}"
    known = "" if found.acknowledged is None else f"\nacknowledged: {one_line(found.acknowledged)}"
    return f"{first}\n{second}{known}"


def _is_failure(found: Finding, *, strict: bool) -> bool:
    return found.acknowledged is None and (strict or found.severity is Severity.CONTRADICTION)


def junit_report(audit: Audit, *, strict: bool = False) -> str:
    """A JUnit file: a test case for each row and for each document's text, and one for each line with a finding."""
    of_rows: dict[tuple[str, str], list[Finding]] = {}
    of_lines: dict[str, dict[str, list[Finding]]] = {document: {} for document in audit.documents}
    for found in audit.findings:
        if found.row is None:
            of_lines[found.file].setdefault(found.identity, []).append(found)
        else:
            of_rows.setdefault((found.file, found.row), []).append(found)
    cases = [_case(row.file, row.id, of_rows.get((row.file, row.id), ()), strict) for row in audit.rows]
    for document, lines in of_lines.items():
        cases += [_case(document, name, found_there, strict) for name, found_there in (lines or {"text": []}).items()]
    cases += [_stale_case(stale, strict) for stale in audit.stale]
    failures = sum(1 for case in cases if case.find("failure") is not None)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0", "time": "0.000"}
    suite = ET.Element("testsuite", {"name": "pytest-gsw audit", **counts})
    suite.extend(cases)
    root = ET.Element("testsuites", {"name": "pytest-gsw audit"})
    root.append(suite)
    # Plain ASCII is right in whatever encoding it is written.
    text: bytes = ET.tostring(root, encoding="us-ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>{text.decode("ascii")}'


def _case(file: str, name: str, findings: Iterable[Finding], strict: bool) -> ET.Element:
    case = _test_case(file, name)
    of_kind: dict[bool, list[Finding]] = {True: [], False: []}
    for found in findings:
        of_kind[_is_failure(found, strict=strict)].append(found)
    if failing := of_kind[True]:
        first = failing[0]
        more = f", and {len(failing) - 1} more" if len(failing) > 1 else ""
        message = f"{first.identity}: documented {first.documented}, computed {first.computed}{more}"
        _add(case, "failure", _lines(failing), message=message)
    if of_kind[False]:
        _add(case, "system-out", _lines(of_kind[False]))
    return case


def _lines(findings: Iterable[Finding]) -> str:
    return "\n".join(line for found in findings for line in _finding_lines(found))


def _add(case: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(case, tag, attributes).text = text


def _stale_case(stale: Stale, strict: bool) -> ET.Element:
    case = _test_case(stale.file, f"acknowledged {stale.identity}")
    text = f"{_rows(stale)}: {_STALE}: {one_line(stale.reason)}"
    _add(case, "failure" if strict else "system-out", text, **({"message": _STALE} if strict else {}))
    return case


def _test_case(file: str, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": file, "name": name, "time": "0.000"})
