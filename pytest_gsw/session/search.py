"""The search after the tiles of a session: slow ones run again beside nodes that are proven fast."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial

import pytest

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import RunError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.layout import slurm_name
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.results.make_record import job_facts
from pytest_gsw.results.sweep import RowSweep, SearchJob, odd_losses, with_row, write_sweep
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.plan_and_submit import Start
from pytest_gsw.session.resume import take_over
from pytest_gsw.session.row import SessionRow, row_on_tile
from pytest_gsw.session.screen import write
from pytest_gsw.session.state import SESSION, Session
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.stats.tile_search import SearchState, TileJob, most_search_jobs, search
from pytest_gsw.tables.model import TILE, on_tile
from pytest_gsw.validation.run import Run

#: Makes a context in which the session may be interrupted.
Wait = Callable[[], AbstractContextManager[None]]


def end_sweep(session: pytest.Session, on_tiles: Sequence[BaselineItem], start: Start, wait: Wait) -> None:
    """Compare the tiles of each row, and with ``--gsw-find`` search among them for what is slow.

    All tiles have ended. A replay takes what the run has found, and so does a session that resumes a part of the tiles.

    Raises:
        KeyboardInterrupt: The session is interrupted: what is not decided stays so.
        TakenOverError: Another session goes on with the run.
    """
    config = session.config
    state = config.stash[SESSION]
    for row_id, items in grouped([(item.baseline.row_id, item) for item in on_tiles]).items():
        assert state.sweep is not None  # there are tiles
        rows = [state.rows[item.baseline.id] for item in items if item.baseline.id in state.rows]
        if state.sweep.result_of(row_id) is not None:
            recorded = {record.row.id: record.jobs.search for record in state.run_records()}
            for row in rows:
                row.source.search = row.source.search or [*recorded.get(row.baseline.id, ())]
            continue
        search = _RowSearch(row_id, rows, start, state)
        try:
            search.run(config, wait)
        finally:
            state.sweep = with_row(state.sweep, search.result())
            try:
                write_sweep(state.settings.run_directory, state.sweep)
            except OSError as error:  # the screen has it still
                write(config, f"gsw: the sweep is missing in the run's report, its file could not be written: {error}")


#: Fewest tiles that are compared with each other.
_FEWEST_TILES = 2


class _RowSearch:
    """The tiles of one row, and further jobs of it."""

    def __init__(self, row_id: str, rows: Sequence[SessionRow], start: Start, state: Session) -> None:
        self._row_id, self._start, self._session = row_id, start, state
        self._switches = {} if state.sweep is None else state.sweep.switch_of
        self._jobs: list[SearchJob] = []
        #: By tile, its row, its ended job, and the measurement of that.
        self._tiles: dict[str, tuple[SessionRow, Run, Measurement]] = {}
        for row in rows:
            with suppress(RunError):  # it is an error of its own
                run = start.executor.result_of(row.baseline.id)
                self._tiles[row.baseline.tile] = (row, run, row.measured(run))
        if len(self._tiles) < _FEWEST_TILES:
            self._tiles = {}

    def run(self, config: pytest.Config, wait: Wait) -> None:
        """Search until nothing more is to be run; without two tiles that were measured, nothing is compared."""
        settings = self._session.settings
        sweep = self._session.sweep
        has_search = sweep is not None and sweep.has_search and self._tiles and not settings.replay
        hours = (settings.find_gpu_hours or 0.0) if has_search else None
        most = 0.0 if hours is None else self._most_jobs(hours)
        while True:
            state = self._state(most - len(self._jobs), begins=hours is not None)
            if not state.next_jobs:
                if hours is not None and most >= 1 and state.findings and not self._jobs:
                    why = f"{plural(len(self._tiles), 'tile')} are too few, or too noisy, to search among"
                    write(config, f"gsw: {self._row_id}: {why}")
                return
            what = f"search among {plural(len(self._tiles), 'tile')}, round {state.round}"
            write(config, f"gsw: {self._row_id}: {what}: {plural(len(state.next_jobs), 'job')}")
            self._run_round(config, wait, state.next_jobs, state.round)

    @property
    def _first(self) -> SessionRow:
        return next(row for row, *_ in self._tiles.values())

    def _cost(self, value: float) -> float:
        return self._first.baseline.judged_by.direction.cost(value)

    def _most_jobs(self, hours: float) -> float:
        """The number of jobs for which GPU-hours last, by those of the tiles; 0 hours are the default."""
        used_s = [self._first.baseline.gpus * (run.status.run_s or 0.0) for _, run, _ in self._tiles.values()]
        each = sum(used_s) / len(used_s) / 3600
        return most_search_jobs(len(used_s)) if not hours or not each else math.floor(hours / each)

    def _state(self, most: float = 0.0, *, begins: bool = False) -> SearchState:
        tiles = [TileJob(name, expand(name), self._cost(of.judged)) for name, (*_, of) in self._tiles.items()]
        further = [
            TileJob(job.nodes, expand(job.nodes), self._cost(job.judged), job.round) for job in self._jobs if job.judged
        ]
        return search(
            [*tiles, *further],
            noise=next((row.noise(run) for row, run, _ in self._tiles.values()), None),
            switches=self._switches,
            most_jobs=max(0.0, most),
            begins=begins,
            rounds=max((job.round for job in self._jobs), default=0),
            # They would fail again: their infrastructure failures were retried.
            failed={tuple(sorted(expand(job.nodes))) for job in self._jobs if job.problem},
        )

    def _run_round(self, config: pytest.Config, wait: Wait, jobs: Sequence[Sequence[str]], number: int) -> None:
        past, executor = self._session.settings.past, self._start.executor
        made = [self._row(config, nodes, number) for nodes in jobs]
        rows = {row.baseline.id: row for row in made}
        self._session.rows.update(rows)
        specs: dict[str, JobSpec | RunError] = {row_id: row.plan.spec for row_id, row in rows.items()}
        taken = take_over(executor, past, specs, partial(write, config))
        executor.submit(specs, taken)
        waiting = dict(rows)
        while waiting:
            with wait():
                row_id = executor.next_finished()
            if row_id in waiting:
                self._add_job(executor, waiting.pop(row_id), number)

    def _add_job(self, executor: Executor, row: SessionRow, number: int) -> None:
        """Add a finished job to those of its tile; one that cannot be measured is no evidence."""
        row_id, nodes = row.baseline.id, row.baseline.tile
        job = SearchJob(number, nodes, "", gpu_hours=0.0)
        if (submitted := executor.rows.submitted(row_id)) is not None:
            hours = row.baseline.gpus * (submitted.status.run_s or 0.0) / 3600
            job = SearchJob(number, nodes, submitted.job.id, gpu_hours=hours)
        try:
            run = executor.result_of(row_id)
            measured = row.measured(run)
        except RunError as error:
            self._jobs.append(replace(job, problem=row.shown(error).fact))
            return
        self._jobs.append(replace(job, judged=measured.judged))
        # Nodes under test run among those of fast tiles: the job shows the slowest of its tiles.
        on_any = (tile for name, tile in self._tiles.items() if not set(expand(name)).isdisjoint(expand(nodes)))
        tile, *_ = max(on_any, key=lambda tile: self._cost(tile[2].judged))
        tile.source.search.append(job_facts(run.job_id, row.source.launcher_name, run.status, run, measured))

    def _row(self, config: pytest.Config, nodes: Sequence[str], number: int) -> SessionRow:
        """The row on other nodes; its id and its job's name are those of this round."""
        own, run_id = self._first, self._session.settings.run_id
        placed = on_tile(replace(own.baseline, id=self._row_id), compressed(nodes))
        name = f"gsw-{run_id}-find{number}-{slurm_name(placed.id)}"
        baseline = replace(placed, id=f"{placed.id}{TILE}{number}")
        return row_on_tile(config, own, baseline, name, self._start.shared, [])

    def result(self) -> RowSweep:
        """The answers by all jobs so far."""
        if not self._tiles:
            return RowSweep(self._row_id)
        state, probes = self._state(), self._session.probes
        ids = [run.job_id for _, run, _ in self._tiles.values()]
        losses = {name: of.loss for name, (*_, of) in self._tiles.items() if of.loss is not None}
        odd = odd_losses(losses)
        doubtful = {node for tile in odd for node in expand(tile.tile)}
        return RowSweep(
            row=self._row_id,
            peers=state.peers,
            findings=tuple(map(self._with_job, state.findings)),
            cleared=compressed(node for node in state.cleared if node not in doubtful),
            once=compressed(node for node in state.once if node not in doubtful),
            once_loss=state.once_loss,
            odd_losses=odd,
            jobs=tuple(self._jobs),
            sigma=state.sigma,
            facts=None if probes is None else redact(probes.facts_of(*ids), os.environ),
            level=statistics.median(of.judged for *_, of in self._tiles.values()),
            tolerance=self._first.tolerance,
        )

    def _with_job(self, finding: SweepFinding) -> SweepFinding:
        """A finding with the slow job of an intermittent node."""
        if finding.kind != "intermittent":
            return finding
        node = expand(finding.nodes)[0]
        return replace(
            finding, job_id=next(run.job_id for name, (_, run, _) in self._tiles.items() if node in expand(name))
        )
