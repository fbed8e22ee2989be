"""What earlier runs measured on the cluster, and where the records of this one go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.history.database import HistoryError
from pytest_gsw.history.location import open_history
from pytest_gsw.history.row_history import (
    GONE_DAYS,
    ClusterAdjustment,
    ClusterHistory,
    ClusterSeries,
    RowHistory,
    series_of_cluster,
)
from pytest_gsw.history.spool import DIRECTORY, Delivered, Spool
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record
from pytest_gsw.stats.cluster_effect import FEWEST_ROWS, ClusterEffect, CurrentRun
from pytest_gsw.tables.model import Accepted, Baseline, experiment_hash

if TYPE_CHECKING:
    from pytest_gsw.history.alarms import Acknowledgement
    from pytest_gsw.history.row_history import FailingNode, KnownGoodNodes, SlowNode

_time_s = attrgetter("time_s")


@contextlib.contextmanager
def history_at(place: str | Path | None) -> Iterator[History | None]:
    """The history at a place, as far as there is one: a run can be told without others."""
    if place is None or (isinstance(place, Path) and not place.exists()):
        yield None
        return
    with open_history(place) as opened:
        yield opened


class SessionHistory:
    """The history as one session uses it; no row's outcome is worth less because it is away.

    Args:
        history: Where all runs are kept, ``None`` for a session that keeps nothing and looks nothing up.
        results: The directory of results, where records wait for their history.
        cluster: Where the session runs.
    """

    def __init__(self, history: History | None, results: Path, cluster: str | None) -> None:
        self._history = history
        self._cluster = cluster
        #: Where records wait for their history.
        self.waiting = results / DIRECTORY
        self._spool = Spool(self.waiting, "" if history is None else history.place)
        #: Why records do not wait for the history, where that is so.
        self.not_kept = ""
        #: Why the history was not asked any more.
        self.problem = ""
        self._lines: ClusterSeries | None = None
        #: The nodes that make jobs slow, once the history was asked.
        self.known_slow: tuple[SlowNode, ...] = ()

    @property
    def has_runs(self) -> bool:
        """Whether a run before this one is known of the cluster."""
        lines = self._known_lines()
        return lines is not None and bool(lines.runs)

    def past(self, row: str, definition: str, experiment: str, accepted: Accepted | None, run_id: str) -> RowHistory:
        """What is known of a row on this cluster; nothing where the history is away.

        Args:
            row: The row's id.
            definition: What it is now.
            experiment: The same without image and release, empty where that is not known.
            accepted: What its cluster has accepted for it: the runs that count begin with that.
            run_id: The session, whose own jobs do not count: a session that is resumed has some there already.
        """
        lines = self._known_lines()
        return RowHistory() if lines is None else lines.past(row, definition, experiment, accepted).without(run_id)

    @property
    def slow(self) -> tuple[SlowNode, ...]:
        """The nodes that make jobs slow; nothing where the history is away."""
        self._known_lines()
        return self.known_slow

    @property
    def slow_before(self) -> tuple[SlowNode, ...] | None:
        """The same as it was before the session, ``None`` where no row has asked the history."""
        return None if self._lines is None else self.known_slow

    @cached_property
    def acknowledged(self) -> tuple[Acknowledgement, ...]:
        """What alarms of the cluster somebody looks after; nothing where the history is away."""
        from pytest_gsw.history.alarms import acknowledgements  # only a session with an alarm asks

        if self._history is None or self._cluster is None or self.problem:
            return ()
        try:
            return acknowledgements(self._history.events(self._cluster))
        except HistoryError as error:
            self.problem = str(error)
            return ()

    @property
    def slow_nodes(self) -> tuple[str, ...]:
        """The same by their names: what a confirming job is to do without.

        A node that no job has had for a month may be gone, and Slurm refuses a list with a name that it does not know.
        """
        since_s = time.time() - GONE_DAYS * 86400.0
        there = (one for one in self.slow if max(map(_time_s, (*one.accusing, *one.clearing))) >= since_s)
        return tuple(dict.fromkeys(node for one in there for node in one.nodes))

    def had_slow_node(self, nodes: str, time_s: float) -> bool:
        """Whether a job of these nodes had one that makes jobs slow."""
        return any(one.ran_in(nodes, time_s) for one in self.slow)

    @property
    def failing(self) -> tuple[FailingNode, ...]:
        """The nodes of which more jobs fail than by chance; nothing where the history was not asked."""
        return () if self._lines is None or self._lines.nodes is None else self._lines.nodes.failing

    @property
    def sound(self) -> KnownGoodNodes | None:
        """What is known of the other nodes; ``None`` where the history was not asked."""
        return None if self._lines is None or self._lines.nodes is None else self._lines.nodes.sound

    def _known_lines(self) -> ClusterSeries | None:
        """The runs of the cluster, read when they are first asked for."""
        if self._lines is None and self._history is not None and self._cluster is not None and not self.problem:
            try:
                self._lines = series_of_cluster(self._history, self._cluster)
                self.known_slow = tuple(one for one in self._lines.slow if not one.mended)
            except HistoryError as error:
                self.problem = str(error)
        return self._lines

    def keep(self, record: Record, written: Path) -> None:
        """Put a record where it waits for the history; one that cannot be put there is among the run's all the same."""
        if self._history is None:
            return
        try:
            self._spool.put(record, written)
        except OSError as error:
            self.not_kept = f"{error.strerror}: {error.filename}"

    def deliver(self) -> Delivered | None:
        """Give all records that wait to the history, also those of sessions before; ``None`` without a history."""
        return None if self._history is None else self._spool.deliver(self._history)

    def close(self) -> None:
        """Let go of the history."""
        if self._history is not None:
            self._history.close()


# -- What the other rows of a session's cluster say of its run, to each of its rows ---------------


class ClusterPeers:
    """The rows of a session together.

    Args:
        runs: What earlier runs measured.
        rows: The session's rows, each with what its cluster has accepted for it.
        run_id: The session.
        is_over: Whether nothing more is to come of a row.
    """

    def __init__(
        self,
        session_history: SessionHistory,
        rows: Collection[tuple[Baseline, Accepted | None]],
        run_id: str,
        is_over: Callable[[str], bool],
    ) -> None:
        self._session_history = session_history
        self._rows = rows
        self._run_id = run_id
        self._is_over = is_over
        self._first_s: dict[str, float] = {}
        self._left_out: set[str] = set()
        #: Rows that hear what the others say, and say nothing: their first job had a slow node.
        self._listening: set[str] = set()

    @cached_property
    def together(self) -> ClusterHistory:
        """The earlier runs of all rows; none where nobody asks them."""
        asked = self._rows if len(self._rows) >= FEWEST_ROWS and self._session_history.has_runs else ()
        return ClusterHistory(
            {
                row.id: self._session_history.past(row.id, "", experiment_hash(row), accepted, self._run_id)
                for row, accepted in asked
            }
        )

    @property
    def may_speak(self) -> bool:
        """Whether they may come to say something of the run."""
        return self._current_run is not None

    def note(self, row: str, first_s: float | None, *, had_slow_node: bool = False) -> None:
        """Take what a row's first job took; ``None`` where the run and the row say nothing of each other."""
        if first_s is None:
            self._left_out.add(row)
        elif had_slow_node:
            self._listening.add(row)
        else:
            self._first_s.setdefault(row, first_s)

    def now(self, row: str, tolerance: float) -> ClusterEffect | None:
        """What the others say to a row so far; ``None`` where they say nothing."""
        current_run = self._current_run
        return None if current_run is None or not self._hears(row) else current_run.beside(row, tolerance)

    def beside(self, cluster_effect: ClusterEffect | None) -> ClusterAdjustment:
        """What they say together of earlier runs, and of in this run."""
        return ClusterAdjustment(self.together, {} if cluster_effect is None else {self._run_id: cluster_effect.effect})

    def bounds(self, row: str, tolerance: float) -> tuple[ClusterEffect | None, ...]:
        """What the others may come to say to a row whose first job has ended.

        Returns:
            ``None`` alone where they will say nothing; nothing at all where what they say is not to be told yet.
        """
        current_run = self._current_run
        if current_run is None or not self._hears(row):
            return (None,)
        return current_run.bounds(row, tolerance)

    def _hears(self, row: str) -> bool:
        is_there = row in self._first_s or row in self._listening
        return is_there and row not in self._left_out and row in self.together.before.levels

    @property
    def _current_run(self) -> CurrentRun | None:
        before = self.together.before
        if before.noise is None:
            return None
        silent = self._left_out | self._listening
        first_s: Mapping[str, float] = {row: one for row, one in self._first_s.items() if row not in silent}
        missing = sum(row not in first_s and row not in silent and not self._is_over(row) for row in before.levels)
        current_run = self.together.current_run(first_s, missing)
        return current_run if current_run.says_something else None
