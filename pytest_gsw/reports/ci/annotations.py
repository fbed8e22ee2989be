"""What a night found, at the line of its row: workflow commands of GitHub, and GitLab's Code Quality report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_gsw.common.words import one_line, workflow_command
from pytest_gsw.reports.ci.night import Finding, counts_text, findings
from pytest_gsw.reports.night import Night
from pytest_gsw.results.attention import Level

#: What GitLab calls them, of info, minor, major, critical and blocker.
_SEVERITIES: Mapping[Level, str] = {Level.ERROR: "critical", Level.WARNING: "minor", Level.NOTICE: "info"}


def github(night: Night) -> str:
    """A workflow command for each finding, the worst first, and the night's counts as the last line.

    GitHub shows the first ten of each level that a step says; the others stay in its log.
    """
    return "\n".join([*map(_command, findings(night)), one_line(counts_text(night))])


def _command(finding: Finding) -> str:
    path, line = finding.place
    properties = {"file": path, "line": line, "title": finding.title}
    # What somebody looks after already calls nobody; it is told all the same.
    level = Level.NOTICE if finding.acknowledged else finding.level
    return workflow_command(level.value, properties, _message(finding))


def _message(finding: Finding) -> str:
    since = [f"since {finding.since}"] if finding.since else []
    known = [f"acknowledged: {finding.acknowledged}"] if finding.acknowledged else []
    following = [f"next: {finding.next}"] if finding.next else []
    return "\n".join([finding.text, *since, *known, *following])


def gitlab(night: Night) -> str:
    """A Code Quality report: a JSON list with what GitLab asks of each entry.

    A finding keeps its fingerprint from night to night, whatever it measured and wherever in the table its row moves:
    by that GitLab tells new ones from those that are known.
    """
    return json.dumps([_entry(finding) for finding in findings(night)], indent=2)


def _entry(finding: Finding) -> dict[str, Any]:
    path, line = finding.place
    return {
        "description": f"{finding.row}: {one_line(finding.text)}",
        "check_name": f"gsw-{finding.kind.replace(' ', '-')}",
        "fingerprint": fingerprint(finding),
        "severity": _SEVERITIES[finding.level],
        "location": {"path": path.removeprefix("./"), "lines": {"begin": line}},
    }


def fingerprint(finding: Finding) -> str:
    """What is the same for the same kind of finding of the same row on the same cluster."""
    facts = json.dumps([finding.kind, finding.node_id, finding.cluster])
    return hashlib.sha256(facts.encode("ascii")).hexdigest()
