"""The findings of a run: all that needs attention, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_gsw.common.text import ByNumber, by_number, one_line, plural, workflow_command
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.history.comparison import acknowledged_text
from pytest_gsw.history.model import cluster_of
from pytest_gsw.reports.run_report import Row, RunReport, is_slow, since_line
from pytest_gsw.results import outcomes, severity
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import accepted_line, inconclusive_line
from pytest_gsw.results.run_id import RUNS
from pytest_gsw.results.severity import Attention, Level
from pytest_gsw.results.suggested_commands import history_command, next_command
from pytest_gsw.results.summary import OF_CLUSTER, ClusterResult, counts_line
from pytest_gsw.stats.verdict import Reason

#: The kind of a finding's alarm.
_ALARMS = {severity.REGRESSED.kind: Kind.REGRESSION, severity.DRIFT.kind: Kind.DRIFT}

#: The kinds of findings, the worst first.
KINDS = tuple(one.kind for one in severity.ATTENTIONS if one.level is not None)


@dataclass(frozen=True)
class Finding:
    """One thing that needs attention; a row may have several."""

    #: One of :data:`KINDS`.
    kind: str
    row: str
    node_id: str
    #: The fact.
    text: str
    #: The command to type next; empty if the text has it.
    next: str = ""
    since: str = ""
    record: Record | None = None
    #: Its alarm; ``None`` if it has none.
    alarm: Alarm | None = None
    #: The table of a finding without a row or a record: of a whole cluster, that of its first row.
    table: str = ""
    #: The incident; ``None`` for other findings.
    whole: ClusterResult | None = None

    @property
    def needs(self) -> Attention:
        """The kind with its urgency."""
        return severity.BY_KIND[self.kind]

    @property
    def level(self) -> Level:
        """The urgency, as GitHub has it."""
        return self.needs.level or Level.NOTICE

    @property
    def acknowledged(self) -> str:
        """The acknowledgement of its alarm; empty if it has none, or the alarm pages all the same."""
        alarm = self.alarm
        return "" if alarm is None or alarm.pages or alarm.acknowledged is None else acknowledged_text(alarm)

    @property
    def title(self) -> str:
        """The kind and the row."""
        return f"{self.kind}: {self.row}"

    @property
    def place(self) -> tuple[str, int]:
        """The table and the line in it; the first line if it is unknown."""
        path, _, line = ("" if self.record is None else self.record.row.baseline).rpartition(":")
        if path and line.isascii() and line.isdigit():
            return path, int(line) or 1
        return self.table or self.node_id.partition("::")[0], 1


def findings(report: RunReport) -> tuple[Finding, ...]:
    """All that needs attention, the worst first, and among equals the greatest loss."""
    known = {(one.spell.kind, one.spell.subject, one.spell.cluster): one for one in report.alarms if one.stands}
    of_rows = (row for row in report.rows if report.incident is None or row.record.reason != Reason.INCIDENT.value)
    found = [*_cluster_findings(report), *(_with_alarm(one, known) for row in of_rows for one in _row_findings(row))]
    found += [Finding(severity.ERROR.kind, one.id, one.node_id, one.why) for one in report.unrecorded]
    return tuple(sorted(found, key=_rank))


def regressed_metrics(record: Record) -> tuple[str, ...]:
    """The keys of the site's metrics by which a row has regressed."""
    return tuple(one.metric.key for one in record.metrics if one.outcome.value == outcomes.REGRESSED.word)


def _with_alarm(finding: Finding, known: Mapping[tuple[Kind, str, str], Alarm]) -> Finding:
    kind = _ALARMS.get(finding.kind)
    if kind is None or finding.record is None:
        return finding
    if kind is Kind.REGRESSION and regressed_metrics(finding.record):
        return finding  # alarms are by a row's own metric: this one cannot be acknowledged
    return replace(finding, alarm=known.get((kind, finding.row, cluster_of(finding.record))))


def _cluster_findings(report: RunReport) -> Iterator[Finding]:
    """The findings of whole clusters; rows that are part of an incident are no findings of their own."""
    incident = report.incident
    table = report.records[0].row.node_id.partition("::")[0] if report.records else ""
    if incident is not None:
        name, following = incident.cluster, history_command(incident.cluster)
        text = incident.text(report.incident_since)
        kind = severity.INCIDENT.kind
        yield Finding(kind, f"cluster {name}", incident.node_id, text, following, table=table, whole=incident)
    for name, text_of in report.cluster_texts.items():
        if text_of.drift:
            kind, following = severity.DRIFT.kind, history_command(name, drift=True)
            yield Finding(kind, f"cluster {name}", f"{OF_CLUSTER}{name}", text_of.drift, following, table=table)


def _rank(finding: Finding) -> tuple[int, float, ByNumber]:
    change = None if finding.record is None else finding.record.throughput_change
    return KINDS.index(finding.kind), change or 0.0, by_number(finding.node_id)


def _row_findings(row: Row) -> Iterator[Finding]:
    record, since = row.record, since_line(row.since)
    outcome = outcomes.of(record.outcome)
    if outcome.attention.level is not None:
        text = inconclusive_line(record) or record.fact
        yield _finding(outcome.attention, record, text, since if is_slow(record) or outcome is outcomes.ERROR else "")
    if record.drift:
        yield _finding(severity.DRIFT, record, record.drift)
    accepted = accepted_line(record)
    if accepted and outcome is outcomes.PASSED:
        yield _finding(severity.ACCEPTED, record, accepted)


def _finding(needs: Attention, record: Record, text: str, since: str = "") -> Finding:
    following = next_command(record, needs.in_report, RUNS / record.run.id)
    return Finding(needs.kind, record.row.id, record.row.node_id, text, following, since, record)


def counts_text(report: RunReport) -> str:
    """The number of rows and their outcomes: ``12 rows: 9 passed, 2 regressed, 1 error, 1 of them drifts``."""
    missing = len(report.unrecorded)
    counts = counts_line(report.records, missing, report.incident)
    return f"{plural(len(report.records) + missing, 'row')}: {counts}".removesuffix(": ")


def github(report: RunReport) -> str:
    """A workflow command for each finding, the worst first, and the run's counts as the last line.

    GitHub shows the first ten of each level in a step; the others stay in its log.
    """
    return "\n".join([*map(_command, findings(report)), one_line(counts_text(report))])


def _command(finding: Finding) -> str:
    path, line = finding.place
    properties = {"file": path, "line": line, "title": finding.title}
    # An acknowledged finding pages no more, but it is listed.
    level = Level.NOTICE if finding.acknowledged else finding.level
    return workflow_command(level.value, properties, _message(finding))


def _message(finding: Finding) -> str:
    since = [f"since {finding.since}"] if finding.since else []
    known = [f"acknowledged: {finding.acknowledged}"] if finding.acknowledged else []
    following = [f"next: {finding.next}"] if finding.next else []
    return "\n".join([finding.text, *since, *known, *following])
