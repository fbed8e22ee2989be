"""A run's report as texts for CI servers and Prometheus: findings, Markdown, OpenMetrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeVar

from pytest_gsw.common.text import ByNumber, by_number, enumerated, named, one_line, percent, plural, workflow_command
from pytest_gsw.history import comparison, node_search
from pytest_gsw.history.alarms import OF_ROWS, Alarm, Kind
from pytest_gsw.history.model import cluster_of
from pytest_gsw.reports.reported_row import ReportedRow, is_slow, since_facts
from pytest_gsw.reports.run_report import ReportedSweep, RunReport
from pytest_gsw.results import attention, outcomes, row_text, suggested_commands, summary
from pytest_gsw.results.cluster_result import ClusterResult
from pytest_gsw.results.manifest import OF_CLUSTER, OF_NODES
from pytest_gsw.results.record import Record
from pytest_gsw.results.runs_directory import RUNS
from pytest_gsw.results.sweep import next_lines, sweep_facts
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.metrics import METRICS, TOKENS_PER_S, VALUE, common_change_label
from pytest_gsw.tables.model import tile_of, without_tile

# -- The findings of a run: all that needs attention, the worst first ------------------------------


#: The kind of a finding's alarm.
_ALARMS = {attention.REGRESSED.kind: Kind.REGRESSION, attention.DRIFT.kind: Kind.DRIFT}

#: The kinds of findings, the worst first.
KINDS = tuple(need.kind for need in attention.ATTENTIONS if need.level is not None)


@dataclass(frozen=True)
class Finding:
    """One thing that needs attention; a row may have several."""

    #: One of :data:`KINDS`.
    kind: str
    row: str
    node_id: str
    #: The fact.
    text: str
    #: The command or advice for the next step; empty if the text has it.
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
    def needs(self) -> attention.Attention:
        """The kind with its urgency."""
        return attention.BY_KIND[self.kind]

    @property
    def level(self) -> attention.Level:
        """The urgency, as GitHub has it."""
        return self.needs.level or attention.Level.NOTICE

    @property
    def acknowledged(self) -> str:
        """The acknowledgement of its alarm; empty if it has none, or the alarm pages all the same."""
        alarm = self.alarm
        return "" if alarm is None or alarm.pages or alarm.acknowledged is None else comparison.acknowledged_text(alarm)

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
    known = {(one.period.kind, one.period.subject, one.period.cluster): one for one in report.alarms if one.is_active}
    of_nodes = [*_node_findings(report, known)]
    shown = {bool(of_nodes) and Reason.SLOW_NODE.value, report.incident is not None and Reason.INCIDENT.value}
    of_rows = (row for row in report.rows if row.record.reason not in shown)
    listed = [*_cluster_findings(report), *of_nodes]
    listed += [*(_with_alarm(finding, known) for row in of_rows for finding in _row_findings(row))]
    listed += [Finding(attention.ERROR.kind, one.id, one.node_id, one.why) for one in report.unrecorded]
    return tuple(sorted(listed, key=_rank))


def regressed_metrics(record: Record) -> tuple[str, ...]:
    """The keys of the site's metrics by which a row has regressed."""
    return tuple(verdict.metric.key for verdict in record.metrics if verdict.outcome.value == outcomes.REGRESSED.word)


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
        name, following = incident.cluster, suggested_commands.history_command(incident.cluster)
        text = incident.text(report.incident_since)
        kind = incident.needs.kind
        yield Finding(kind, f"cluster {name}", incident.case().node_id, text, following, table=table, whole=incident)
    for name, text_of in report.cluster_texts.items():
        if text_of.drift:
            kind, following = attention.DRIFT.kind, suggested_commands.history_command(name, drift=True)
            yield Finding(kind, f"cluster {name}", f"{OF_CLUSTER}{name}", text_of.drift, following, table=table)


def _node_findings(report: RunReport, known: Mapping[tuple[Kind, str, str], Alarm]) -> Iterator[Finding]:
    """The findings of nodes that a search names; those that were not covered are in the sections of their tiles."""
    table = report.records[0].row.node_id.partition("::")[0] if report.records else ""
    for case in (case for case in report.node_cases if case.outcome != "skipped"):
        needs = attention.SLOW_NODE if case.outcome == "failed" else attention.SLOW_NODE_WARNING
        subjects = (case.name, case.subject)  # of a node, of a switch
        alarm = next((other for name in subjects if (other := known.get((Kind.NODE, name, case.cluster)))), None)
        text = case.fact.removeprefix(f"{case.subject}: ")
        yield Finding(needs.kind, case.subject, case.node_id, text, alarm=alarm, table=table)


def _rank(finding: Finding) -> tuple[int, float, ByNumber]:
    change = None if finding.record is None else finding.record.gain
    return KINDS.index(finding.kind), change or 0.0, by_number(finding.node_id)


def _row_findings(row: ReportedRow) -> Iterator[Finding]:
    record, since = row.record, "; changed: ".join(value for _, value in since_facts(row.since))
    outcome = outcomes.of(record.outcome)
    if outcome.attention.level is not None:
        text = row_text.inconclusive_line(record) or record.fact
        yield _finding(outcome.attention, record, text, since if is_slow(record) or outcome is outcomes.ERROR else "")
    if record.drift:
        yield _finding(attention.DRIFT, record, record.drift)
    accepted = row_text.accepted_line(record)
    if accepted and outcome is outcomes.PASSED:
        yield _finding(attention.ACCEPTED, record, accepted)


def _finding(needs: attention.Attention, record: Record, text: str, since: str = "") -> Finding:
    following = record.advice or suggested_commands.next_command(record, needs.in_report, RUNS / record.run.id)
    return Finding(needs.kind, record.row.id, record.row.node_id, text, following, since, record)


def counts_text(report: RunReport) -> str:
    """The number of rows and their outcomes: ``12 rows: 9 passed, 2 regressed, 1 error, 1 of them drifts``.

    While the session goes on: ``3 of 8 done, 5 running (step 12 of 50), about 4m02s left: 2 passed, 1 regressed``.
    """
    counts = summary.counts_line(report.records, len(report.unrecorded), report.incident, report.run.progress)
    return counts if report.goes_on else f"{report.rows_text}: {counts}".removesuffix(": ")


def github(report: RunReport) -> str:
    """A workflow command for each finding, the worst first, and the run's counts as the last line.

    GitHub shows the first ten of each level in a step; the others stay in its log.
    """
    return "\n".join([*map(_command, findings(report)), one_line(counts_text(report))])


def _command(finding: Finding) -> str:
    path, line = finding.place
    properties = {"file": path, "line": line, "title": finding.title}
    # An acknowledged finding does not page, but it is listed.
    level = attention.Level.NOTICE if finding.acknowledged else finding.level
    return workflow_command(level.value, properties, _message(finding))


def _message(finding: Finding) -> str:
    since = [f"since {finding.since}"] if finding.since else []
    known = [f"acknowledged: {finding.acknowledged}"] if finding.acknowledged else []
    following = [f"next: {finding.next}"] if finding.next else []
    return "\n".join([finding.text, *since, *known, *following])


# -- A run in Markdown for GitHub and GitLab: its findings, and all rows in a compact table --------
#
# Texts of others (rows, nodes, facts) are in code spans, in which nothing is markup, a link or a mention.


#: GitHub takes 1 MiB from one step, and shows nothing of more; some of it is left for other programs of the step.
LIMIT_BYTES = 900_000

#: The most letters of a fact, of a command, and of a list of nodes in a table.
_LONGEST_FACT = 300
_LONGEST_COMMAND = 600
_LONGEST_NODES = 80
#: The most rows, nodes and clusters in one line, and the most findings of one sweep.
_NAMED = 8
_FINDINGS = 20


def markdown(report: RunReport, limit_bytes: int = LIMIT_BYTES) -> str:
    """A summary of a run; lines without room are counted."""
    listed = findings(report)
    head = _head(report, listed)
    room = limit_bytes - _size(head)
    rows = _all_rows(report.records, room // 2)
    alarms = _alarms_table(report.alarms, room // 4)
    attention = _findings_table(listed, room - _size(rows) - _size(alarms))
    return "\n".join([*head, *attention, *alarms, *rows]).rstrip("\n")


def _head(report: RunReport, found: Sequence[Finding]) -> list[str]:
    title = f"{_attention_text(found, report.slow_tile_nodes)} attention"
    title += " so far" if report.goes_on else ""
    where = ", ".join(map(_code, report.clusters[:10]))
    names = sorted({record.run.id for record in report.records}) or [report.run.directory.name]
    runs = ", ".join(map(_code, names[:10]))
    hours = f"{report.gpu_hours:,.1f} GPU-hours" if report.records else ""
    parts = (where, f"run {runs}" if runs else "", counts_text(report), hours)
    head = [f"### pytest-gsw: {title}", "", ", ".join(filter(None, parts)), ""]
    if any(record.run.simulated for record in report.records):
        head += ["This is a simulation: no GPU was used, and its figures are made up.", ""]
    return [*head, *(line for sweep in report.sweeps for line in _sweep_list(sweep, report)), *_changes_list(report)]


def _sweep_list(sweep: ReportedSweep, report: RunReport) -> list[str]:
    """The tiles of a row: findings, nodes that were not covered, and the command that drains slow ones."""
    facts = sweep_facts(sweep.of_row, {})
    lines = [f"- **{name}** {_code(_shorten(text, _LONGEST_FACT))}" for name, text in facts[:_FINDINGS]]
    lines += [f"- and {len(facts) - _FINDINGS} more"] if len(facts) > _FINDINGS else []
    left = [_code(_shorten(f"{nodes} ({why})", _LONGEST_FACT)) for why, nodes in sweep.not_covered.items()]
    lines += [f"- **not covered** ({plural(sweep.not_covered_nodes, 'node')}): {named(left, _NAMED)}"] if left else []
    steps = [text for _, text in next_lines(sweep.of_row, report.run_id)][:_FINDINGS]
    lines += [f"- next: {_code(text)}" for text in steps if len(text) <= _LONGEST_COMMAND]
    return [f"Tiles of {_code(sweep.of_row.row)}:", "", *lines, ""] if lines else []


def _changes_list(report: RunReport) -> list[str]:
    """The new, ongoing and fixed alarms; nothing if there are none."""
    lines = []
    for state, alarms in report.alarms_by_state.items():
        names = [_code(_shorten(f"{one.period.kind.value} of {one.period.subject}", _LONGEST_FACT)) for one in alarms]
        lines.append(f"- **{state}** ({len(alarms)}){': ' if names else ''}{named(names, _NAMED)}")
    return [*lines, ""] if any(report.alarms_by_state.values()) else []


def _attention_text(found: Sequence[Finding], slow_nodes: int) -> str:
    """The numbers of what needs attention: ``1 cluster and 2 rows need``."""
    rows = {finding.node_id for finding in found if finding.needs.is_urgent}
    clusters = {name for name in rows if name.startswith(OF_CLUSTER)}
    rows = {name for name in rows if not name.startswith(OF_NODES)}
    tiles = {name for name in rows - clusters if tile_of(name)}
    numbers = {
        "cluster": len(clusters),
        "slow node": slow_nodes,
        "row": len(rows - clusters - tiles),
        "tile": len(tiles),
    }
    parts = [plural(number, what) for what, number in numbers.items() if number]
    return (
        f"{enumerated(parts, 'and')} {'needs' if sum(numbers.values()) == 1 else 'need'}" if parts else "no row needs"
    )


def _findings_table(found: Sequence[Finding], room_bytes: int) -> list[str]:
    """The findings, a line each, as far as there is room."""
    judged = (finding.record.judged_metric for finding in found if finding.record is not None)
    heads = ("row", "what", common_change_label(judged) or "change", "allowed", "nodes", "since", "next")
    return _fit_table(_heading(heads, "llrrlll"), map(_finding_line, found), len(found), room_bytes, "finding")


def _alarms_table(alarms: Sequence[Alarm], room_bytes: int) -> list[str]:
    """The alarms, a line each, as far as there is room."""
    heads = [column.removeprefix(">") for column in comparison.COLUMNS]
    align = "".join("r" if column.startswith(">") else "l" for column in comparison.COLUMNS)
    lines = (_line(_code(_shorten(cell, _LONGEST_FACT)) for cell in comparison.cells(alarm)) for alarm in alarms)
    return _fit_table(_heading(heads, align), lines, len(alarms), room_bytes, "alarm")


def _finding_line(finding: Finding) -> str:
    record = finding.record
    verdict = None if record is None else record.judged
    change = "" if verdict is None else percent(verdict.change)
    allowed = "" if verdict is None else percent(verdict.metric.change_by(verdict.allowed_gain))
    nodes = "" if record is None else record.nodes
    by_throughput = (
        record is not None and not record.own_outcome and record.judged_metric.change_label == TOKENS_PER_S.label
    )
    whole, fact, since = finding.whole, finding.text, finding.since
    if whole is not None:  # the counts above have the rows that are part of it
        change, allowed, fact = percent(whole.change), percent(whole.allowed), whole.fact
        since = finding.text.partition("\n")[0].removeprefix(whole.fact).removeprefix(", since ")
    says_it_all = bool(change) and by_throughput and finding.kind in {attention.REGRESSED.kind, attention.IMPROVED.kind}
    text = "" if says_it_all else f" {_code(_shorten(fact, _LONGEST_FACT))}"
    cells = (
        _code(_shorten(finding.row, _LONGEST_FACT)),
        f"{_bold(finding.kind, finding.needs)}{text}",
        change,
        allowed,
        _code(_shorten(nodes, _LONGEST_NODES)),
        _code(_shorten(since, _LONGEST_FACT)),
        # A cut command would be another one.
        _code(finding.next) if len(finding.next) <= _LONGEST_COMMAND else "",
    )
    return _line(cells)


def _all_rows(records: Sequence[Record], room_bytes: int) -> list[str]:
    """All rows but tiles that passed, those of one workload together, each with its own figure and unit."""
    shown = [record for record in records if not record.row.tile or outcomes.of(record.outcome).attention.is_urgent]
    shown.sort(key=lambda record: (record.row.workload, record.row.dtype, record.row.gpus, by_number(record.row.id)))
    heads = _heading(("row", "verdict", "change", "measured", "against"), "llrrr")
    return _fit_table(heads, map(_row_line, shown), len(shown), room_bytes, "row")


def _row_line(record: Record) -> str:
    reference = record.judged.reference if record.judged is not None else None
    figures = ("" if one is None else _code(record.judged_metric.text(one)) for one in (record.measured, reference))
    change, outcome = "" if record.change is None else percent(record.change), outcomes.of(record.outcome)
    is_accepted = outcome is outcomes.PASSED and row_text.hides_loss(record)
    word = attention.ACCEPTED.word if is_accepted else _bold(outcome.text, outcome.attention)
    return _line((_code(_shorten(record.row.id, _LONGEST_FACT)), word, change, *figures))


def _bold(word: str, needs: attention.Attention) -> str:
    """A word, bold if it needs attention."""
    return f"**{word}**" if needs.is_urgent else word


def _fit_table(table: Sequence[str], lines: Iterable[str], count: int, room_bytes: int, noun: str) -> list[str]:
    """A table with as many lines as there is room for, and the number of those left out; nothing without lines."""
    if not count:
        return []
    room_bytes -= 100  # for the sentence below
    kept = list(table) if _size(table) <= room_bytes else []
    room_bytes -= _size(table)
    shown = 0
    for line in lines:
        room_bytes -= _size([line])
        if room_bytes < 0:
            break
        kept.append(line)
        shown += 1
    left_out = count - shown
    if left_out:
        kept += ["", f"{plural(left_out, noun)} more left out, for which there is no room here."]
    return [*kept, ""]


def _heading(headers: Sequence[str], align: str) -> list[str]:
    return [_line(headers), _line("---:" if side == "r" else "---" for side in align)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _code(text: str) -> str:
    """A text as a code span that is inert everywhere, in the cell of a table too."""
    text = " ".join(text.split())
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    # A table splits its lines at every "|" before anything else: each one is escaped, whatever precedes it.
    cell = re.sub(r"(\\*)\|", r"\1\1\\|", text)
    return f"{fence}{pad}{cell}{pad}{fence}"


# -- A run as metrics: one text for OpenMetrics and for the textfile collector of Prometheus' node_exporter ---
#
# The collector reads Prometheus' text format 0.0.4, to which OpenMetrics' last line is a comment; it refuses a whole
# file with times.


_Labels = Mapping[str, str]
_Sample = tuple[_Labels, float]
#: A family: its name, its help, and its samples.
_Family = tuple[str, str, Iterable[_Sample]]
#: The records of a run, each with its labels.
_Records = Sequence[tuple[_Labels, Record]]
_Found = TypeVar("_Found", node_search.SlowNode, node_search.FailingNode)


def openmetrics(report: RunReport) -> str:
    """Gauges of each row, and when the run was recorded."""
    return "\n".join([*(line for family in families(report) for line in _gauge(*family)), "# EOF"])


def families(report: RunReport) -> Iterator[_Family]:
    """The families of a run: those of its records' figures and jobs first."""
    labelled = [(_labels(record), record) for record in report.records]
    records = [*{tuple(labels.items()): (labels, record) for labels, record in labelled}.values()]  # no series twice
    for metric in (known for known in METRICS if known.exported):
        yield f"gsw_{metric.exported}", f"Measured {metric.help}.", _figures(records, "measured", metric.key)
        if metric.series is None:
            continue
        documented, accepted = (_figures(records, of, metric.key) for of in ("documented", "accepted"))
        yield f"gsw_documented_{metric.exported}", f"Documented {metric.help}.", documented
        counts = f"{metric.help.capitalize()} that the cluster has accepted, where the outcome rests on it."
        yield f"gsw_accepted_{metric.exported}", counts, accepted
    calibrated = _samples(records, lambda record: record.figures.calibration_flops)
    yield "gsw_calibration_flops", "FLOP/s of a matrix product that the MFU is of.", calibrated
    for key, what in {"throughput_change": "throughput", "change": "figure"}.items():
        judged = [(labels, record) for labels, record in records if record.judged_metric.change_key == key]
        text = f"Measured {what} against what the outcome rests on, less one."
        yield f"gsw_{key}_ratio", text, _samples(judged, lambda record: record.change)
    limits = _samples(records, lambda record: record.row.tolerance if record.limit is None else record.limit)
    yield "gsw_allowed_loss_ratio", "Loss of speed beyond which the row is a regression.", limits
    drifts = _samples(records, lambda record: bool(record.drift))
    yield "gsw_drift", "Whether the newest runs differ from the first ones.", drifts
    waits = _samples(records, lambda record: record.jobs.last.queue_s if record.jobs.last else None)
    yield "gsw_queue_seconds", "Time that the last job waited.", waits
    ran = _samples(records, lambda record: record.jobs.last.run_s if record.jobs.last else None)
    yield "gsw_run_seconds", "Time that the last job ran.", ran
    yield from _of_run(records, report)


def _figures(records: _Records, of: str, key: str) -> list[_Sample]:
    return _samples(records, lambda record: getattr(record.figures, of).get(key))


def _samples(records: _Records, value: Callable[[Record], float | None]) -> list[_Sample]:
    """The value of each record that has one."""
    return [(labels, number) for labels, record in records if (number := value(record)) is not None]


def _gauge(name: str, text: str, samples: Iterable[_Sample]) -> list[str]:
    """A family: its help and type, its labels with their values; nothing if it has none."""
    # One format escapes a quote, and the other does not.
    escaped = _escape(text.replace('"', "'"))
    lines = []
    for labels, value in samples:
        listed = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{listed}}} {float(f'{value:.12g}')!r}")
    return [f"# HELP {name} {escaped}", f"# TYPE {name} gauge", *lines] if lines else []


def _further_figures(records: _Records, of: str) -> Iterator[_Sample]:
    """Figures without a family of their own, benchmarks' and further ones, by the label ``metric``."""
    for labels, record in records:
        own: Mapping[str, float | None] = getattr(record.figures, of)
        figures = [(verdict.metric, getattr(verdict, of)) for verdict in record.metrics]
        figures += [(record.row.label, own.get(VALUE))] if record.row.label is not None else []
        for metric, value in figures:
            if value is not None:
                facts = {"metric": metric.key, "unit": metric.unit, "better": metric.direction.value}
                yield {**labels, **facts}, value


def _labels(record: Record) -> _Labels:
    return {
        **_row_labels(record.row.id, record.row.tile),
        "table": record.row.node_id.partition("::")[0],
        "cluster": cluster_of(record),
        "workload": record.row.workload,
        "framework": record.row.framework,
        "dtype": record.row.dtype,
        "accelerator": record.row.accelerator,
        "gpus": str(record.row.gpus),
    }


def _row_labels(row_id: str, tile: str) -> _Labels:
    """The row, by which alerts and dashboards select; of a tile its nodes as well."""
    return {"row": without_tile(row_id), "tile": tile} if tile else {"row": row_id}


def _of_run(records: _Records, report: RunReport) -> Iterator[_Family]:
    """The families that are not of a record's figures: name, help, samples."""
    yield "gsw_metric", "Measured figure of a benchmark or of a site.", _further_figures(records, "measured")
    what = "Documented figure of a benchmark or of a site."
    yield "gsw_documented_metric", what, _further_figures(records, "documented")
    yield "gsw_outcome", "Whether the row has this outcome.", _outcomes(records, report)
    slow, failing = _each_node(report.slow_nodes), _each_node(report.nodes_failing_jobs)
    what = "What a slow node does to the throughput of jobs."
    yield "gsw_slow_node_throughput_change_ratio", what, ((labels, node.change) for labels, node in slow)
    what = "Share of a node's jobs that fail, where that is beyond chance."
    yield "gsw_failing_node_ratio", what, ((labels, node.failed / node.of) for labels, node in failing)
    yield from _of_sweeps(report)
    pages = chain(_alarms(report, lambda alarm: alarm.pages), _by_site_metrics(report))
    yield "gsw_alarm_pages", "Whether an active alarm is not acknowledged.", pages
    began = _alarms(report, lambda alarm: alarm.since.time_s)
    yield "gsw_alarm_since_timestamp_seconds", "When the first run with an active alarm began.", began
    whole = report.whole
    if whole is not None:
        of = {"cluster": cluster_of(report.records[0])}
        what = "Throughput of all rows together against usual runs, less one."
        yield "gsw_cluster_effect_ratio", what, [(of, whole.change)]
        what = "Whether the whole cluster is slower than its runs differ by."
        yield "gsw_cluster_incident", what, [(of, whole.is_incident)]
    texts = report.cluster_texts.items()
    drifts = (({"cluster": name}, bool(of.drift)) for name, of in texts if of.drift is not None)
    yield "gsw_cluster_drift", "Whether the cluster's newest runs are slower than the first ones.", drifts
    newest: dict[str, float] = {}
    for record in report.records:
        ended_s = record.run.recorded_s or (record.jobs.last and record.jobs.last.end_s)
        if ended_s:
            cluster = cluster_of(record)
            newest[cluster] = max(newest.get(cluster, 0.0), ended_s)
    times = (({"cluster": cluster}, time_s) for cluster, time_s in newest.items())
    yield "gsw_run_timestamp_seconds", "When the run's newest record was written.", times


def _of_sweeps(report: RunReport) -> Iterator[_Family]:
    """The families of tiles: each against its peers, slow nodes, and the number of nodes that were not covered."""
    sweeps = [({"row": sweep.of_row.row, "cluster": _cluster(report)}, sweep) for sweep in report.sweeps]
    what = "Throughput of a tile against the median of the others, less one."
    peers = (({**of, "tile": tile}, value) for of, sweep in sweeps for tile, value in sweep.of_row.peers.items())
    yield "gsw_tile_peers_change_ratio", what, peers
    named = ((of, node, finding) for of, sweep in sweeps for node, finding in sweep.slow_nodes.items())
    slow = (({**of, "node": node, "finding": finding.kind}, finding.change) for of, node, finding in named)
    yield "gsw_sweep_node_slow_change_ratio", "What a node that tiles show to be slow does to throughput.", slow
    left = ((of, sweep.not_covered_nodes) for of, sweep in sweeps)
    yield "gsw_sweep_nodes_not_covered", "Nodes of the partition that no tile has measured.", left


def _cluster(report: RunReport) -> str:
    return next((cluster_of(record) for record in report.records), report.run.noted.cluster)


def _outcomes(records: _Records, report: RunReport) -> Iterator[_Sample]:
    """A state set: one sample for each outcome, 1 for the row's own."""
    for labels, record in records:
        for outcome in outcomes.OUTCOMES:
            yield {**labels, "outcome": outcome.word}, record.outcome == outcome.word
    of_run = _cluster(report)
    for row in report.unrecorded:
        where = {"cluster": of_run} if of_run else {}
        known = {**_row_labels(row.id, row.tile), "table": row.node_id.partition("::")[0], **where, **row.facts}
        yield {**known, "outcome": outcomes.ERROR.word}, 1


def _alarms(report: RunReport, value: Callable[[Alarm], float]) -> Iterator[_Sample]:
    """One sample for each active alarm."""
    for period, alarm in ((alarm.period, alarm) for alarm in report.alarms if alarm.is_active):
        # By its row, an alert can leave out acknowledged outcomes.
        name = "row" if period.kind in OF_ROWS else "subject"
        labels = {"alarm": alarm.id, "kind": period.kind.value, name: period.subject, "cluster": period.cluster}
        yield labels, value(alarm)


def _by_site_metrics(report: RunReport) -> Iterator[_Sample]:
    """A sample of no alarm for each row that regresses by a site's metric: there is none to acknowledge."""
    for record in report.records if any(alarm.is_active for alarm in report.alarms) else ():
        labels = _row_labels(record.row.id, record.row.tile)
        of_row = {"kind": Kind.REGRESSION.value, **labels, "cluster": cluster_of(record)}
        yield from (({"alarm": "", **of_row, "metric": key}, 1) for key in regressed_metrics(record))


def _each_node(found: Mapping[str, Sequence[_Found]]) -> Iterator[tuple[dict[str, str], _Found]]:
    """Each node's labels, with the worst finding of it: no series comes twice.

    If nodes cannot be distinguished, the labels have their number.
    """
    for cluster, worst_first in found.items():
        worst = {node: suspect for suspect in worst_first[::-1] for node in suspect.nodes}
        for node, found_node in worst.items():
            yield {"cluster": cluster, "node": node, "one_of": str(len(found_node.nodes))}, found_node


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Text(NamedTuple):
    """A format of one run's report as a text."""

    #: The name of its file among the report's pages.
    file: str
    of: Callable[[RunReport], str]


#: The formats by their names.
TEXTS: Mapping[str, Text] = {"markdown": Text("summary.md", markdown), "openmetrics": Text("gsw.prom", openmetrics)}
