"""What a run found, at the line of its row: workflow commands of GitHub."""

from __future__ import annotations

from pytest_gsw.common.words import one_line, workflow_command
from pytest_gsw.reports.ci.night import Finding, counts_text, findings
from pytest_gsw.reports.run_report import Night
from pytest_gsw.results.attention import Level


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
