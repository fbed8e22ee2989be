"""A run as metrics: one text for OpenMetrics and for the textfile collector of Prometheus' node_exporter.

The collector reads Prometheus' text format 0.0.4, to which OpenMetrics' last line is a comment; it refuses a whole file
with times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_gsw.history.alarms import OF_ROWS, Kind
from pytest_gsw.history.model import cluster_of
from pytest_gsw.history.row_history import FailingNode, SlowNode
from pytest_gsw.reports.ci.findings import regressed_metrics
from pytest_gsw.reports.run_report import RunReport
from pytest_gsw.results.junit_names import facts_of
from pytest_gsw.results.outcomes import ERROR, OUTCOMES
from pytest_gsw.results.record import Record
from pytest_gsw.tables.metrics import METRICS

#: The outcomes of records; each is 0 or 1 for each row, so that a recovered row is 0.
_OUTCOMES = tuple(outcome.word for outcome in OUTCOMES)

_Labels = Mapping[str, str]
_Sample = tuple[_Labels, float]
_Found = TypeVar("_Found", SlowNode, FailingNode)


@dataclass(frozen=True)
class _Metric:
    name: str
    help: str
    #: The value for a record, ``None`` if it has none.
    value: Callable[[Record], float | None]


def _figure(of: str, name: str) -> Callable[[Record], float | None]:
    return lambda record: getattr(record.figures, of).get(name)


def _of_job(name: str) -> Callable[[Record], float | None]:
    return lambda record: None if record.jobs.last is None else getattr(record.jobs.last, name)


def _of_figures() -> Iterator[_Metric]:
    """The measured figures, and the references of those that rows are judged by."""
    for metric in (one for one in METRICS if one.exported):
        yield _Metric(f"gsw_{metric.exported}", f"Measured {metric.help}.", _figure("measured", metric.key))
        if metric.series is None:
            continue
        documented, accepted = f"gsw_documented_{metric.exported}", f"gsw_accepted_{metric.exported}"
        counts = f"{metric.help.capitalize()} that the cluster has accepted, where the outcome rests on it."
        yield _Metric(documented, f"Documented {metric.help}.", _figure("documented", metric.key))
        yield _Metric(accepted, counts, _figure("accepted", metric.key))


#: The families of every run, but for outcomes and times.
FAMILIES = (
    *_of_figures(),
    _Metric(
        "gsw_calibration_flops",
        "FLOP/s of a matrix product that the MFU is of.",
        lambda one: one.figures.calibration_flops,
    ),
    _Metric(
        "gsw_throughput_change_ratio",
        "Measured throughput against what the outcome rests on, less one.",
        lambda record: record.throughput_change,
    ),
    _Metric(
        "gsw_allowed_loss_ratio",
        "Loss of throughput beyond which the row is a regression.",
        lambda record: record.row.tolerance if record.limit is None else record.limit,
    ),
    _Metric("gsw_drift", "Whether the newest runs differ from the first ones.", lambda record: bool(record.drift)),
    _Metric("gsw_queue_seconds", "Time that the last job waited.", _of_job("queue_s")),
    _Metric("gsw_run_seconds", "Time that the last job ran.", _of_job("run_s")),
)


def openmetrics(report: RunReport) -> str:
    """Gauges of each row, and when the run was recorded."""
    records = {tuple(_labels(record).items()): record for record in report.records}  # no series twice
    lines: list[str] = []
    for metric in (*FAMILIES, *_of_sites(report)):
        values = ((dict(labels), metric.value(record)) for labels, record in records.items())
        lines += _gauge(metric.name, metric.help, ((of, value) for of, value in values if value is not None))
    for name, text, samples in _of_run(records, report):
        lines += _gauge(name, text, samples)
    lines.append("# EOF")
    return "\n".join(lines)


def _gauge(name: str, text: str, samples: Iterable[_Sample]) -> list[str]:
    """A family: its help and type, its labels with their values; nothing if it has none."""
    # One format escapes a quote, and the other does not.
    escaped = _escape(text.replace('"', "'"))
    lines = []
    for labels, value in samples:
        listed = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{listed}}} {float(value)!r}")
    return [f"# HELP {name} {escaped}", f"# TYPE {name} gauge", *lines] if lines else []


def _of_sites(report: RunReport) -> Iterator[_Metric]:
    """Families of the site's metrics, in the order of their keys."""
    found = {one.metric.key: one.metric for record in report.records for one in record.metrics}
    for key, one in sorted(found.items()):
        what = f"{one.label} in {one.unit}, {one.direction.value}."
        yield _Metric(f"gsw_metric_{key}", f"Measured {what}", _site_figure("measured", key))
        yield _Metric(f"gsw_documented_metric_{key}", f"Documented {what}", _site_figure("documented", key))


def _site_figure(of: str, key: str) -> Callable[[Record], float | None]:
    return lambda record: next((getattr(one, of) for one in record.metrics if one.metric.key == key), None)


def _labels(record: Record) -> _Labels:
    return {
        "row": record.row.id,
        "table": record.row.node_id.partition("::")[0],
        "cluster": cluster_of(record),
        **facts_of(record.row),
    }


def _of_run(
    records: Mapping[tuple[tuple[str, str], ...], Record], report: RunReport
) -> Iterator[tuple[str, str, Iterable[_Sample]]]:
    """The families that are not of a record's figures: name, help, samples."""
    yield "gsw_outcome", "Whether the row has this outcome.", _outcomes(records, report)
    slow, failing = _each_node(report.slow_nodes), _each_node(report.nodes_failing_jobs)
    what = "What a slow node does to the throughput of jobs."
    yield "gsw_slow_node_throughput_change_ratio", what, ((labels, one.change) for labels, one in slow)
    what = "Share of a node's jobs that fail, where that is beyond chance."
    yield "gsw_failing_node_ratio", what, ((labels, one.failed / one.of) for labels, one in failing)
    yield "gsw_alarm_pages", "Whether an active alarm is not acknowledged.", _alarms(report)
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


def _outcomes(records: Mapping[tuple[tuple[str, str], ...], Record], report: RunReport) -> Iterator[_Sample]:
    """A state set: one sample for each outcome, 1 for the row's own."""
    for labels, record in records.items():
        for outcome in _OUTCOMES:
            yield {**dict(labels), "outcome": outcome}, record.outcome == outcome
    of_run = next((cluster_of(record) for record in report.records), report.run.noted.cluster)
    for one in report.unrecorded:
        where = {"cluster": of_run} if of_run else {}
        known = {"row": one.id, "table": one.node_id.partition("::")[0], **where, **one.facts}
        yield {**known, "outcome": ERROR.word}, 1


def _alarms(report: RunReport) -> Iterator[_Sample]:
    """One sample for each active alarm, 0 if it is acknowledged; an alert is for those that are 1.

    A row that regresses by a site's metric has a sample of no alarm: there is none that could be acknowledged.
    """
    standing = [one for one in report.alarms if one.stands]
    for one in standing:
        spell = one.spell
        # By its row, an alert can leave out acknowledged outcomes.
        name = "row" if spell.kind in OF_ROWS else "subject"
        yield {"alarm": one.id, "kind": spell.kind.value, name: spell.subject, "cluster": spell.cluster}, one.pages
    for record in report.records if standing else ():
        of_row = {"kind": Kind.REGRESSION.value, "row": record.row.id, "cluster": cluster_of(record)}
        yield from (({"alarm": "", **of_row, "metric": key}, 1) for key in regressed_metrics(record))


def _each_node(found: Mapping[str, Sequence[_Found]]) -> Iterator[tuple[dict[str, str], _Found]]:
    """Each node's labels, with the worst finding of it: no series comes twice.

    If nodes cannot be distinguished, the labels have their number.
    """
    for cluster, worst_first in found.items():
        worst = {node: one for one in worst_first[::-1] for node in one.nodes}
        for node, one in worst.items():
            yield {"cluster": cluster, "node": node, "one_of": str(len(one.nodes))}, one


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
