"""The runs of a cluster as its history has them, by row and experiment.

Sessions, the report and every command use this module, and therefore agree on a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.process import collector_paused
from pytest_gsw.history.model import ExperimentKey, Point, SeriesKey, series_key, time_order
from pytest_gsw.history.node_search import Nodes
from pytest_gsw.history.row_history import ClusterAdjustment, ClusterHistory, RowHistory
from pytest_gsw.history.store import EXCLUDE, TOPOLOGY, Event, Failure, History
from pytest_gsw.results.record import Record
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.model import Accepted


class ClusterSeries:
    """The runs of rows on one cluster, by their experiments; ``accepted`` has the cluster's figures by row."""

    def __init__(
        self,
        runs: Mapping[ExperimentKey, Sequence[Point]],
        excluded: Collection[str] = frozenset(),
        failures: Sequence[Failure] = (),
        accepted: Mapping[str, Accepted] | None = None,
        topology: Event | None = None,
        searched: Sequence[Record] = (),
    ) -> None:
        self.searched = searched
        self._by_row = grouped([(key.row, (key.experiment, points)) for key, points in runs.items()])
        self.runs = runs
        self.excluded = excluded
        #: The newest known switches or blocks.
        self.topology = topology
        #: All nodes of the cluster.
        self.nodes = self.nodes_of(runs, failures)
        #: Nodes and switches that make, or made, jobs of the cluster slow; the jobs of switches count for their rows.
        self.slow = self.nodes.slow
        self._accepted = accepted or {}
        of_rows: dict[str, RowHistory] = {}  # filled below: rows are adjusted for what all of them have in common
        #: The adjustment of rows for the cluster.
        self.adjustment = ClusterAdjustment(ClusterHistory(of_rows))
        #: The adjusted histories of the experiments of each row's newest run, by row, definition and experiment.
        self.newest: dict[tuple[str, str, str], RowHistory] = {}
        for row, lines in self._by_row.items():
            ends = [(time_order(points[-1]), experiment, points[-1]) for experiment, points in lines if points]
            newest_run = max(ends, default=None, key=lambda end: end[:2])
            for _, experiment, point in ends:
                if newest_run is not None and point.run_id == newest_run[2].run_id:
                    past = self.adjusted(row, point.definition, experiment)
                    self.newest[row, point.definition, experiment] = of_rows[row] = past

    def nodes_of(self, runs: Mapping[ExperimentKey, Sequence[Point]], failures: Sequence[Failure] = ()) -> Nodes:
        """The nodes of the cluster, by some runs of it."""
        switches = None if self.topology is None else self.topology.body
        return Nodes(runs, self.excluded, failures, switches, self.searched)

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None = None) -> RowHistory:
        """The history of a row: of its experiment, and of its definition, whose series may not name the experiment."""
        lines = [
            points
            for name, points in self._by_row.get(row, ())
            if (experiment and name == experiment) or any(point.definition == definition for point in points)
        ]
        points = lines[0] if len(lines) == 1 else sorted((job for line in lines for job in line), key=time_order)
        slow = tuple(node for node in self.slow if not node.below)
        return RowHistory(tuple(points), accepted, self.excluded, slow)

    def adjusted(self, row: str, definition: str, experiment: str) -> RowHistory:
        """The same since the accepted figure of its definition, adjusted for the cluster."""
        if (known := self.newest.get((row, definition, experiment))) is not None:
            return known
        figure = self._accepted.get(row)
        figure = figure if figure is not None and figure.definition == definition else None
        return replace(self.past(row, definition, experiment, figure), adjustment=self.adjustment)

    def until(self, time_s: float) -> ClusterSeries:
        """The runs up to a time; the same object if there are no later ones."""
        if all(point.time_s <= time_s for points in self.runs.values() for point in points):
            return self
        runs = {key: [point for point in points if point.time_s <= time_s] for key, points in self.runs.items()}
        searched = self.searched
        return ClusterSeries(runs, self.excluded, accepted=self._accepted, topology=self.topology, searched=searched)


#: Accepted figures by row and cluster.
AllAccepted = Mapping[str, Mapping[str, Accepted]]


@collector_paused()  # it would take a third of the time
def series_of_cluster(
    history: History, cluster: str, since_s: float = 0.0, accepted: AllAccepted | None = None
) -> ClusterSeries:
    """The runs of a cluster from a time on; a HistoryError if the history did not answer.

    All of its rows are read, whichever are needed: the analysis of nodes uses the jobs of all.
    """
    events = history.events(cluster)
    excluded = frozenset(event.subject for event in events if event.kind == EXCLUDE)
    topology = next((event for event in reversed(events) if event.kind == TOPOLOGY), None)
    by_row = {row: of_row[cluster] for row, of_row in (accepted or {}).items() if cluster in of_row}
    points, failed = history.cluster_points(cluster, since_s), history.failures(cluster, since_s)
    is_searched = any(point.reason == Reason.SLOW_NODE.value for of_row in points.values() for point in of_row)
    searched = history.named_nodes(cluster, since_s) if is_searched else ()
    return ClusterSeries(points, excluded, failed, by_row, topology, searched)


def histories_of(
    series: Mapping[SeriesKey, str], read: Callable[[str], ClusterSeries]
) -> Mapping[SeriesKey, RowHistory]:
    """Row histories, adjusted for the cluster effect.

    Args:
        series: The experiment of each series, empty if the history may name it.
        read: Returns a cluster's runs.

    Raises:
        HistoryError: The history did not answer.
    """
    lines = {cluster: read(cluster) for cluster in dict.fromkeys(key.cluster for key in series)}
    return {key: lines[key.cluster].adjusted(key.row, key.definition, experiment) for key, experiment in series.items()}


def histories_of_records(
    history: History, records: Iterable[Record], read: Callable[[str], ClusterSeries] | None = None
) -> Mapping[SeriesKey, RowHistory]:
    """The histories of the rows of these records; a HistoryError if the history did not answer."""
    known = {key: record.row.experiment for record in records if (key := series_key(record)) is not None}
    return histories_of(known, read or partial(series_of_cluster, history))


def newest_histories(
    history: History, series: Iterable[SeriesKey], accepted: AllAccepted | None = None
) -> Mapping[SeriesKey, RowHistory]:
    """One history for each experiment, the one with the newest point of a row first."""
    histories: dict[SeriesKey, RowHistory] = {}
    covered: set[SeriesKey] = set()
    read = partial(series_of_cluster, history, accepted=accepted)
    for key, past in histories_of(dict.fromkeys(series, ""), read).items():
        if key not in covered:
            histories[key] = past
            covered |= {replace(key, definition=point.definition) for point in past.points}
    return histories
