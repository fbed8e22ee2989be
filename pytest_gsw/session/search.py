"""The search after the tiles of a session: slow ones run again beside nodes that are proven fast."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import RunError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.layout import slurm_name
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.results.node_facts import NodeFacts
from pytest_gsw.results.record import used_gpu_hours
from pytest_gsw.results.sweep import RowSweep, SearchJob, Sweep, SweepFinding, odd_losses, with_row, write_sweep
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.plan_and_submit import Start
from pytest_gsw.session.progress import write
from pytest_gsw.session.resume import take_over
from pytest_gsw.session.row import LiveRow, SessionRow
from pytest_gsw.session.settings import NODE_PROBES, SESSION_HISTORY, SETTINGS, SWEEP, environment_of
from pytest_gsw.session.tiles import most_jobs
from pytest_gsw.stats.tile_search import SearchState, TileFinding, TileJob, search
from pytest_gsw.tables.model import TILE, on_tile

#: Makes a context in which the session may be interrupted.
Wait = Callable[[], AbstractContextManager[None]]


def end_sweep(session: pytest.Session, start: Start, wait: Wait) -> None:
    """Compare the tiles of each row, and with ``--gsw-find`` search among them for what is slow.

    Raises:
        KeyboardInterrupt: The session is interrupted; the rows have been judged.
    """
    config = session.config
    on_tiles = [item for item in session.items if isinstance(item, BaselineItem) and item.baseline.tile]
    for row_id, items in grouped([(item.baseline.row_id, item) for item in on_tiles]).items():
        found = _RowSearch(row_id, items, start, config.stash[SWEEP]).run(config, wait)
        config.stash[SWEEP] = with_row(config.stash[SWEEP], found)
        try:
            write_sweep(config.stash[SETTINGS].run_directory, config.stash[SWEEP])
        except OSError as error:  # the screen has it still
            write(config, f"gsw: the sweep is missing in the run's report, its file could not be written: {error}")


#: Fewest tiles that are compared with each other.
_FEWEST_TILES = 2


class _RowSearch:
    """The tiles of one row, and further jobs of it."""

    def __init__(self, row_id: str, items: Sequence[BaselineItem], start: Start, sweep: Sweep) -> None:
        self._row_id, self._items, self._start, self._sweep = row_id, items, start, sweep
        self._records = {
            item.baseline.tile: item.row.record
            for item in items
            if item.row is not None and item.row.record is not None
        }
        #: Of a replay, the result that was recorded.
        self._past = next((one for one in sweep.rows if one.row == row_id), RowSweep(row_id))
        self._jobs = [*self._past.jobs]

    def run(self, config: pytest.Config, wait: Wait) -> RowSweep:
        """Search until nothing more is to be run; without two tiles that were measured, nothing is compared."""
        settings = config.stash[SETTINGS]
        measured = [
            TileJob(tile, expand(tile), self._cost(record.verdict.measured))
            for tile, record in self._records.items()
            if record.verdict is not None and record.not_comparable is None
        ]
        if len(measured) < _FEWEST_TILES:
            measured = []
        hours = settings.find_gpu_hours if measured and not settings.replay else None
        most = 0.0 if hours is None else self._most_jobs(hours)
        while True:
            state = self._state(measured, most - len(self._jobs), begins=hours is not None)
            if not state.next_jobs:
                if hours is not None and most >= 1 and state.findings and not self._jobs:
                    why = f"{plural(len(measured), 'tile')} are too few, or too noisy, to search among"
                    write(config, f"gsw: {self._row_id}: {why}")
                probes = config.stash.get(NODE_PROBES, None)
                if probes is None:
                    return self._result(state, self._past.facts)
                ids = [record.jobs.last.id for record in self._records.values() if record.jobs.last is not None]
                return self._result(state, redact(probes.facts_of(*ids), os.environ))
            what = f"search among {plural(len(measured), 'tile')}, round {state.round}"
            write(config, f"gsw: {self._row_id}: {what}: {plural(len(state.next_jobs), 'job')}")
            self._run_round(config, wait, state.next_jobs, state.round)

    def _cost(self, value: float) -> float:
        return self._items[0].baseline.judged_by.direction.cost(value)

    def _most_jobs(self, hours: float) -> float:
        """The number of jobs for which GPU-hours last, by those of the tiles; 0 hours are the default."""
        used = [used_gpu_hours(record) for record in self._records.values()]
        each = sum(used) / len(used)
        return most_jobs(len(used)) if not hours or not each else math.floor(hours / each)

    def _state(self, measured: Sequence[TileJob], most: float, *, begins: bool) -> SearchState:
        further = [
            TileJob(one.nodes, expand(one.nodes), self._cost(one.judged), one.round) for one in self._jobs if one.judged
        ]
        noise = next((one.verdict.noise for one in self._records.values() if one.verdict is not None), None)
        return search(
            [*measured, *further],
            noise=noise,
            switches=self._sweep.switch_of,
            most_jobs=max(0.0, most),
            begins=begins,
            rounds=max((one.round for one in self._jobs), default=0),
            # They would fail again: their infrastructure failures were retried.
            failed={tuple(sorted(expand(one.nodes))) for one in self._jobs if one.problem},
        )

    def _run_round(self, config: pytest.Config, wait: Wait, jobs: Sequence[Sequence[str]], number: int) -> None:
        settings, executor = config.stash[SETTINGS], self._start.executor
        made = [self._row(config, nodes, number) for nodes in jobs]
        rows = {row.baseline.id: row for row in made}
        self._start.rows.update(rows)
        specs: dict[str, JobSpec | RunError] = {row_id: row.plan.spec for row_id, row in rows.items()}
        taken = take_over(executor, settings.past, specs, lambda line: write(config, line))
        executor.submit(specs, taken)
        waiting = dict(rows)
        while waiting:
            with wait():
                row_id = executor.next_finished()
            if row_id in waiting:
                self._jobs.append(_measured(executor, waiting.pop(row_id), number))

    def _row(self, config: pytest.Config, nodes: Sequence[str], number: int) -> SessionRow:
        """The row on other nodes; its id and its job's name are those of this round."""
        settings, environ = config.stash[SETTINGS], environment_of(config)
        own = next(item.row for item in self._items if item.row is not None and item.baseline.tile in self._records)
        assert own is not None
        tile = compressed(nodes)
        placed = on_tile(replace(own.baseline, id=self._row_id), tile)
        baseline = replace(placed, id=f"{placed.id}{TILE}{number}")
        spec = own.source.spec or own.plan.spec
        assert isinstance(spec, JobSpec)  # it was measured
        name = f"gsw-{settings.run_id}-find{number}-{slurm_name(placed.id)}"
        spec = replace(spec, row_id=baseline.id, name=name, node_list=tile, attempt=1, excluded_nodes=())
        plan = replace(own.plan, baseline=baseline, spec=spec)
        launcher, history = self._start.executor.launcher, config.stash[SESSION_HISTORY]
        return SessionRow(config, plan, LiveRow(baseline, settings, launcher, history, environ, spec), [])

    def _result(self, state: SearchState, facts: NodeFacts | None) -> RowSweep:
        losses = {
            tile: last.loss
            for tile, record in self._records.items()
            if (last := record.jobs.last) is not None and last.loss is not None
        }
        odd = odd_losses(losses)
        doubtful = {node for tile in odd for node in expand(tile.tile)}
        return RowSweep(
            row=self._row_id,
            peers=state.peers,
            findings=tuple(self._finding(one) for one in state.findings),
            cleared=compressed(node for node in state.cleared if node not in doubtful),
            once=compressed(node for node in state.once if node not in doubtful),
            once_loss=state.once_loss,
            odd_losses=odd,
            jobs=tuple(self._jobs),
            sigma=state.sigma,
            facts=facts,
        )

    def _finding(self, one: TileFinding) -> SweepFinding:
        record = next(record for tile, record in self._records.items() if one.nodes[0] in expand(tile))
        last = record.jobs.last if one.kind == "intermittent" else None
        return SweepFinding(**{**vars(one), "nodes": compressed(one.nodes)}, job_id="" if last is None else last.id)


def _measured(executor: Executor, row: SessionRow, number: int) -> SearchJob:
    """A finished job of the search; one that cannot be measured is no evidence."""
    row_id, status = row.baseline.id, executor.status(row.baseline.id)
    hours = row.baseline.gpus * (status.run_s or 0.0) / 3600 if status is not None else 0.0
    found = SearchJob(number, row.baseline.tile, executor.job_id(row_id) or "", gpu_hours=hours)
    try:
        return replace(found, judged=row.measured(executor.result_of(row_id)))
    except RunError as error:
        return replace(found, problem=row.source.shown(error).fact)
