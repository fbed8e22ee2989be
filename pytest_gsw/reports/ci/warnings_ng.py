"""Drift and inconclusive rows in the native format of Jenkins' warnings-ng plugin, ``issues(pattern: '*.json')``.

What fails is in JUnit; these rows do not fail, and a quality gate lets them make the build unstable.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping

from pytest_gsw.reports.ci.annotations import fingerprint
from pytest_gsw.reports.ci.night import Finding, findings
from pytest_gsw.reports.night import Night
from pytest_gsw.results.attention import DRIFT, INCONCLUSIVE

#: By kind, what the plugin calls it, of ERROR, HIGH, NORMAL and LOW. A row that drifts will fail one night.
_SEVERITIES: Mapping[str, str] = {DRIFT.kind: "NORMAL", INCONCLUSIVE.kind: "LOW"}


def warnings_ng(night: Night) -> str:
    """An object with a list of issues, each with the same keys."""
    issues = [_issue(finding) for finding in findings(night) if finding.kind in _SEVERITIES]
    return json.dumps({"issues": issues}, indent=2)


def _issue(finding: Finding) -> Mapping[str, str | int]:
    path, line = finding.place
    return {
        "fileName": path,
        "lineStart": line,
        "severity": _SEVERITIES[finding.kind],
        "category": finding.kind,
        "type": "" if finding.record is None else finding.record.row.workload,
        "message": _html(f"{finding.row}: {finding.text}"),
        "description": f"next: <code>{_html(finding.next)}</code>",
        "fingerprint": fingerprint(finding),
    }


def _html(text: str) -> str:
    # The plugin shows messages and descriptions as HTML.
    return html.escape(" ".join(text.split()), quote=False)
