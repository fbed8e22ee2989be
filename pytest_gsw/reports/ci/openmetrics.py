"""A night as metrics: one text for whoever reads OpenMetrics, and for textfile collectors of Prometheus' node_exporter.

A collector reads Prometheus' text format 0.0.4, to which OpenMetrics' last line is a comment; it refuses a whole file
that has times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_gsw.history.alarms import OF_ROWS, Kind
from pytest_gsw.history.model import cluster_of
from pytest_gsw.history.suspects import Failing, Suspect
from pytest_gsw.reports.ci.findings import regressed_metrics
from pytest_gsw.reports.run_report import RunReport
from pytest_gsw.results.outcomes import ERROR, OUTCOMES
from pytest_gsw.results.record import Record
from pytest_gsw.tables.metrics import METRICS

#: Outcomes that a record can have; each is 0 or 1 for each row, so that a row that recovers is seen to.
_OUTCOMES = tuple(outcome.word for outcome in OUTCOMES)

_Labels = Mapping[str, str]
_Found = TypeVar("_Found", Suspect, Failing)


@dataclass(frozen=True)
class _Metric:
    name: str
    help: str
    #: The value for a record, ``None`` where it has none.
    value: Callable[[Record], float | None]


def _figure(of: str, name: str) -> Callable[[Record], float | None]:
    return lambda record: getattr(record.figures, of).get(name)


def _of_job(name: str) -> Callable[[Record], float | None]:
    return lambda record: None if record.jobs.last is None else getattr(record.jobs.last, name)


def _allowed(record: Record) -> float:
    return record.row.tolerance if record.limit is None else record.limit


def _of_figures() -> Iterator[_Metric]:
    """What was measured of each figure, and what those that rows are judged by are held against."""
    for metric in (one for one in METRICS if one.exported):
        yield _Metric(f"gsw_{metric.exported}", f"Measured {metric.help}.", _figure("measured", metric.key))
        if metric.series is None:
            continue
        documented, accepted = f"gsw_documented_{metric.exported}", f"gsw_accepted_{metric.exported}"
        counts = f"{metric.help.capitalize()} that the cluster has accepted, where the outcome rests on it."
        yield _Metric(documented, f"Documented {metric.help}.", _figure("documented", metric.key))
        yield _Metric(accepted, counts, _figure("accepted", metric.key))


#: The families of every night, but for outcomes and times.
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
    _Metric("gsw_allowed_loss_ratio", "Loss of throughput beyond which the row is a regression.", _allowed),
    _Metric("gsw_drift", "Whether the newest runs differ from the first ones.", lambda record: bool(record.drift)),
    _Metric("gsw_queue_seconds", "Time that the last job waited.", _of_job("queue_s")),
    _Metric("gsw_run_seconds", "Time that the last job ran.", _of_job("run_s")),
)


def openmetrics(night: RunReport) -> str:
    """Gauges of each row, and when the run was recorded."""
    records = {tuple(_labels(record).items()): record for record in night.records}  # no series twice
    lines = [line for metric in FAMILIES for line in _family(metric, records)]
    lines += [line for metric in _of_sites(night) for line in _family(metric, records)]
    lines += _outcomes(records, night)
    lines += _slow_nodes(night)
    lines += _blamed_nodes(night)
    lines += _alarms(night)
    lines += _clusters(night)
    lines += _times(night)
    lines.append("# EOF")
    return "\n".join(lines)


def _of_sites(night: RunReport) -> Iterator[_Metric]:
    """Families of the site's metrics, in the order of their keys."""
    found = {one.metric.key: one.metric for record in night.records for one in record.metrics}
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
        "workload": record.row.workload,
        "framework": record.row.framework,
        "dtype": record.row.dtype,
        "accelerator": record.row.accelerator,
        "gpus": str(record.row.gpus),
    }


def _family(metric: _Metric, records: Mapping[tuple[tuple[str, str], ...], Record]) -> Iterator[str]:
    values = {labels: value for labels, record in records.items() if (value := metric.value(record)) is not None}
    if values:
        yield from _head(metric.name, metric.help)
    for labels, value in values.items():
        yield _sample(metric.name, dict(labels), value)


def _outcomes(records: Mapping[tuple[tuple[str, str], ...], Record], night: RunReport) -> Iterator[str]:
    """A state set: one sample for each outcome that a row can have, 1 for the one that it has."""
    if records or night.unrecorded:
        yield from _head("gsw_outcome", "Whether the row has this outcome.")
    for labels, record in records.items():
        for outcome in (*_OUTCOMES, *({record.outcome} - set(_OUTCOMES))):
            yield _sample("gsw_outcome", {**dict(labels), "outcome": outcome}, record.outcome == outcome)
    of_run = next((cluster_of(record) for record in night.records), night.run.noted.cluster)
    for one in night.unrecorded:
        where = {"cluster": of_run} if of_run else {}
        known = {"row": one.id, "table": one.node_id.partition("::")[0], **where, **one.facts}
        yield _sample("gsw_outcome", {**known, "outcome": ERROR.word}, 1)


def _slow_nodes(night: RunReport) -> Iterator[str]:
    """What each slow node costs, with the number of nodes of which it is one where these cannot be told apart."""
    if night.slow_nodes:
        yield from _head("gsw_slow_node_throughput_change_ratio", "What a slow node does to the throughput of jobs.")
    for labels, one in _each_node(night.slow_nodes):
        yield _sample("gsw_slow_node_throughput_change_ratio", labels, one.change)


def _alarms(night: RunReport) -> Iterator[str]:
    """One sample for each alarm that stands, 0 where somebody looks after it; an alert is for those that are 1.

    A row that regresses by a site's metric has one for that, of no alarm: there is none that could be acknowledged.
    """
    standing = [one for one in night.alarms if one.stands]
    by_metric = [(record, key) for record in night.records for key in regressed_metrics(record)] if standing else []
    if standing:
        yield from _head("gsw_alarm_pages", "Whether an alarm that stands is acknowledged by nobody.")
    for one in standing:
        spell = one.spell
        # By its row, an outcome that is acknowledged is told from one that is not.
        name = "row" if spell.kind in OF_ROWS else "subject"
        labels = {"alarm": one.id, "kind": spell.kind.value, name: spell.subject, "cluster": spell.cluster}
        yield _sample("gsw_alarm_pages", labels, one.pages)
    for record, key in by_metric:
        of_row = {"kind": Kind.REGRESSION.value, "row": record.row.id, "cluster": cluster_of(record)}
        yield _sample("gsw_alarm_pages", {"alarm": "", **of_row, "metric": key}, 1)


def _blamed_nodes(night: RunReport) -> Iterator[str]:
    """How often nodes fail jobs, where that is beyond chance."""
    if night.blamed_nodes:
        yield from _head("gsw_failing_node_ratio", "Share of a node's jobs that fail, where that is beyond chance.")
    for labels, one in _each_node(night.blamed_nodes):
        yield _sample("gsw_failing_node_ratio", labels, one.failed / one.of)


def _each_node(found: Mapping[str, Sequence[_Found]]) -> Iterator[tuple[dict[str, str], _Found]]:
    """The labels of each node, with the worst that is found of it: no series comes twice."""
    for cluster, worst_first in found.items():
        worst = {node: one for one in worst_first[::-1] for node in one.nodes}
        for node, one in worst.items():
            yield {"cluster": cluster, "node": node, "one_of": str(len(one.nodes))}, one


def _clusters(night: RunReport) -> Iterator[str]:
    """What the night was for all rows of the cluster together."""
    whole = night.whole
    if whole is not None:
        labels = {"cluster": cluster_of(night.records[0])}
        yield from _head("gsw_cluster_effect_ratio", "Throughput of all rows together against usual runs, less one.")
        yield _sample("gsw_cluster_effect_ratio", labels, whole.change)
        yield from _head("gsw_cluster_incident", "Whether the whole cluster is slower than its runs differ by.")
        yield _sample("gsw_cluster_incident", labels, whole.is_incident)
    drifts = {cluster: bool(told.drift) for cluster, told in night.told.items() if told.drift is not None}
    if drifts:
        yield from _head("gsw_cluster_drift", "Whether the cluster's newest runs are slower than the first ones.")
    for cluster, value in drifts.items():
        yield _sample("gsw_cluster_drift", {"cluster": cluster}, value)


def _times(night: RunReport) -> Iterator[str]:
    newest: dict[str, float] = {}
    for record in night.records:
        ended_s = record.run.recorded_s or (record.jobs.last and record.jobs.last.end_s)
        if ended_s:
            cluster = cluster_of(record)
            newest[cluster] = max(newest.get(cluster, 0.0), ended_s)
    if newest:
        yield from _head("gsw_run_timestamp_seconds", "When the run's newest record was written.")
    for cluster, time_s in newest.items():
        yield _sample("gsw_run_timestamp_seconds", {"cluster": cluster}, time_s)


def _head(name: str, text: str) -> tuple[str, str]:
    # Of a quote, one format says that it is escaped, and the other that it is not.
    escaped = _escaped(text.replace('"', "'"))
    return f"# HELP {name} {escaped}", f"# TYPE {name} gauge"


def _sample(name: str, labels: _Labels, value: float) -> str:
    listed = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{listed}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
