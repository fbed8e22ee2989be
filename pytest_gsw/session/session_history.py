"""The history as a session uses it: earlier runs of the cluster's rows, and the spool of its records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.history.cluster_series import ClusterSeries, series_of_cluster
from pytest_gsw.history.database import SESSION_WAIT_S, HistoryError, WaitBudget
from pytest_gsw.history.location import open_history
from pytest_gsw.history.node_search import FailingNode, KnownGoodNodes, SlowNode
from pytest_gsw.history.row_history import GONE_DAYS, ClusterAdjustment, ClusterHistory, RowHistory
from pytest_gsw.history.spool import DIRECTORY, Delivered, Spool
from pytest_gsw.history.store import TOPOLOGY, Event, History
from pytest_gsw.results.record import Record
from pytest_gsw.stats.cluster_effect import FEWEST_ROWS, ClusterEffect, CurrentRun
from pytest_gsw.tables.model import TILE, Accepted, Baseline, experiment_hash

if TYPE_CHECKING:
    from pytest_gsw.history.alarms import Acknowledgement

#: Time after which a cluster's switches are asked for again.
_SWITCHES_S = 7 * 86400.0

#: Tiles of a row that show how long its jobs take.
_TILES = 9

_time_s = attrgetter("time_s")


@contextlib.contextmanager
def history_at(place: str | Path | None, budget: WaitBudget | None = None) -> Iterator[History | None]:
    """The history at a place, if there is one, with what is left of the session's time for waits."""
    if place is None or (isinstance(place, Path) and not place.exists()):
        yield None
        return
    with open_history(place, budget or WaitBudget(SESSION_WAIT_S)) as opened:
        yield opened


class SessionHistory:
    """The history as one session uses it; rows are judged without it if it is unavailable.

    Args:
        history: All runs; ``None`` for a session that neither reads nor adds any.
        results: The directory of results, where records wait for their history.
        cluster: The session's.
        budget: The time for all waits of the session for its history.
    """

    def __init__(
        self, history: History | None, results: Path, cluster: str | None, budget: WaitBudget | None = None
    ) -> None:
        self.budget, self._history = budget, history
        self._cluster = cluster
        #: The directory in which records wait for their history.
        self.waiting = results / DIRECTORY
        self._spool = Spool(self.waiting, "" if history is None else history.place)
        #: Why records could not be kept for the history; empty if they were.
        self.not_kept = ""
        #: Why the history is unavailable; empty if it is not.
        self.problem = ""
        self._series: ClusterSeries | None = None
        self._pasts: dict[tuple[str, str, str, Accepted | None, str], RowHistory] = {}
        #: The nodes that make jobs slow, once the history was read.
        self.known_slow: tuple[SlowNode, ...] = ()

    @property
    def has_runs(self) -> bool:
        """True if the cluster has an earlier run."""
        series = self._read_series()
        return series is not None and bool(series.runs)

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None, run_id: str) -> RowHistory:
        """The history of a row on this cluster; empty if the history is unavailable.

        Args:
            row: The row's id.
            definition: Its definition.
            experiment: The same without image and release; empty if unknown.
            accepted: Its accepted figure: the runs that count begin with it.
            run_id: The session's run, whose jobs are left out: a resumed session has some there already.
        """
        lines, key = self._read_series(), (row, definition, experiment, accepted, run_id)
        if lines is None:
            return RowHistory()
        if key not in self._pasts:  # all tiles of a row have the same
            self._pasts[key] = lines.past(row, definition, experiment, accepted).without(run_id)
        return self._pasts[key]

    def newest_records(self, rows: Collection[str]) -> list[Record]:
        """The records of these rows' newest runs on this cluster, of a few tiles each; none if unavailable."""
        series, wanted = self._read_series(), dict[str, set[str]]()
        for key, points in () if series is None else series.runs.items():
            if key.row in rows:
                of_run = [point for point in points if point.run_id == points[-1].run_id]
                tiles = {f"{key.row}{TILE}{point.nodes}" for point in of_run[:_TILES]}
                wanted.setdefault(points[-1].run_id, set()).update(tiles, [key.row])
        try:
            return [one for run, ids in wanted.items() if self._history for one in self._history.records(run, ids)]
        except HistoryError as error:
            self.problem = str(error)
            return []

    @property
    def slow(self) -> tuple[SlowNode, ...]:
        """The nodes that make jobs slow; none if the history is unavailable."""
        self._read_series()
        return self.known_slow

    @property
    def slow_before(self) -> tuple[SlowNode, ...] | None:
        """The slow nodes before the session; ``None`` if the history was not read."""
        return None if self._series is None else self.known_slow

    @cached_property
    def acknowledged(self) -> tuple[Acknowledgement, ...]:
        """The acknowledgements of the cluster's alarms; none if the history is unavailable."""
        from pytest_gsw.history.alarms import acknowledgements  # only a session with an alarm needs it

        if self._history is None or self._cluster is None or self.problem:
            return ()
        try:
            return acknowledgements(self._history.events(self._cluster))
        except HistoryError as error:
            self.problem = str(error)
            return ()

    @property
    def slow_nodes(self) -> tuple[str, ...]:
        """The names of slow nodes, which a confirming job avoids if possible.

        A node without a job for a month may be gone, and Slurm refuses a list with an unknown name.
        """
        since_s = time.time() - GONE_DAYS * 86400.0
        there = (slow for slow in self.slow if max(map(_time_s, (*slow.slow_jobs, *slow.fast_jobs))) >= since_s)
        return tuple(dict.fromkeys(node for slow in there if not slow.below for node in slow.nodes))

    def had_slow_node(self, nodes: str, time_s: float) -> bool:
        """True if a job on these nodes had a slow one."""
        return any(slow.ran_in(nodes, time_s) for slow in self.slow)

    @property
    def failing(self) -> tuple[FailingNode, ...]:
        """The nodes on which more jobs fail than by chance; none if the history was not read."""
        return () if self._series is None else self._series.nodes.failing

    @property
    def sound(self) -> KnownGoodNodes | None:
        """The nodes known good, and those without enough data; ``None`` if the history was not read."""
        return None if self._series is None else self._series.nodes.sound

    def note_switches(self, ask: Callable[[], Mapping[str, str] | None]) -> None:
        """Store the cluster's switches for later sessions, if those that are known are older than a week."""
        series, now_s = self._read_series(), time.time()
        asked_s = 0.0 if series is None or series.topology is None else series.topology.time_s
        if self._history is None or self._cluster is None or self.problem or asked_s > now_s - _SWITCHES_S:
            return
        if (found := ask()) is not None:
            with contextlib.suppress(HistoryError):  # the next session asks again
                self._history.decide(Event(TOPOLOGY, self._cluster, self._cluster, now_s, found))

    def _read_series(self) -> ClusterSeries | None:
        """The runs of the cluster, read when they are first needed."""
        if self._series is None and self._history is not None and self._cluster is not None and not self.problem:
            try:
                self.update(series_of_cluster(self._history, self._cluster))
            except HistoryError as error:
                self.problem = str(error)
        return self._series

    def update(self, series: ClusterSeries) -> None:
        """Replace the runs of the cluster."""
        self._series = series
        self.known_slow = tuple(node for node in series.slow if not node.recovered)

    def keep(self, record: Record, written: Path) -> None:
        """Put a record into the spool; if that fails, the run's directory still has it."""
        if self._history is None:
            return
        try:
            self._spool.put(record, written)
        except OSError as error:
            self.not_kept = f"{error.strerror}: {error.filename}"

    def deliver(self) -> Delivered | None:
        """Add all waiting records to the history, those of earlier sessions too; ``None`` without a history."""
        return None if self._history is None else self._spool.deliver(self._history)

    def close(self) -> None:
        """Close the history."""
        if self._history is not None:
            self._history.close()


# -- The effect of a run on its whole cluster, by the rows of the session -------------------------


@dataclass(eq=False)
class ClusterPeers:
    """The rows of a session together."""

    #: Earlier runs.
    session_history: SessionHistory
    #: The session's rows, each with its accepted figure.
    rows: Collection[tuple[Baseline, Accepted | None]]
    run_id: str
    #: True for a row that has finished.
    is_over: Callable[[str], bool]
    #: Ids of the canary rows that were too slow in this session.
    canaries: list[str] = field(default_factory=list, init=False)
    #: The cost of the first job of each row.
    _first: dict[str, float] = field(default_factory=dict, init=False)
    _left_out: set[str] = field(default_factory=set, init=False)
    #: Rows that are adjusted, and do not count themselves: their first job had a slow node.
    _only_adjusted: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._directions = {row.id: row.judged_by.direction for row, _ in self.rows}

    @cached_property
    def together(self) -> ClusterHistory:
        """The earlier runs of all rows; none if the session has too few rows or no earlier run."""
        rows = self.rows if len(self.rows) >= FEWEST_ROWS and self.session_history.has_runs else ()
        return ClusterHistory(
            {
                row.id: self.session_history.past(row.id, "", experiment_hash(row), accepted, self.run_id)
                for row, accepted in rows
            }
        )

    @property
    def effect_may_change(self) -> bool:
        """True if the session's rows show, or may still show, an effect of the run on the whole cluster."""
        return self._current_run is not None

    def add_first_job(self, row: str, first: float | None, *, had_slow_node: bool = False) -> None:
        """Record the figure of a row's first job; ``None`` leaves the row out."""
        if first is None:
            self._left_out.add(row)
        elif had_slow_node:
            self._only_adjusted.add(row)
        else:
            self._first.setdefault(row, self._directions[row].cost(first))

    def effect_so_far(self, row: str, tolerance: float) -> ClusterEffect | None:
        """The effect on a row by the jobs so far; ``None`` if there is none."""
        current_run = self._current_run
        if current_run is None or not self._is_adjusted(row):
            return None
        return current_run.effect_on(row, tolerance, direction=self._directions[row])

    def adjustment_for(self, cluster_effect: ClusterEffect | None) -> ClusterAdjustment:
        """The adjustment of earlier runs and of this one."""
        return ClusterAdjustment(self.together, {} if cluster_effect is None else {self.run_id: cluster_effect.effect})

    def possible_effects(self, row: str, tolerance: float) -> tuple[ClusterEffect | None, ...]:
        """The effects that are still possible for a row whose first job has ended.

        Returns:
            ``None`` alone if there will be no effect; nothing at all if it is too early to compute any.
        """
        current_run = self._current_run
        if current_run is None or not self._is_adjusted(row):
            return (None,)
        return current_run.bounds(row, tolerance, direction=self._directions[row])

    def _is_adjusted(self, row: str) -> bool:
        is_there = row in self._first or row in self._only_adjusted
        return is_there and row not in self._left_out and row in self.together.before.levels

    @property
    def _current_run(self) -> CurrentRun | None:
        before = self.together.before
        if before.noise is None:
            return None
        silent = self._left_out | self._only_adjusted
        first = {row: cost for row, cost in self._first.items() if row not in silent}
        missing = sum(row not in first and row not in silent and not self.is_over(row) for row in before.levels)
        current_run = self.together.current_run(first, missing)
        return current_run if current_run.may_have_effect else None
