"""The run of an acceptance: its stages one after another, and the nodes that each leaves out of what follows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from pytest_gsw.acceptance import state as acceptance
from pytest_gsw.acceptance.plan import Stage
from pytest_gsw.acceptance.state import DECIDED, NOT_GIVEN, NOT_RUN, RUNS, WAITS, NodeException
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import hours_text, plural
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.spec import job_name
from pytest_gsw.results.record import Record
from pytest_gsw.results.sweep import write_sweep
from pytest_gsw.session import junit_file, tiles
from pytest_gsw.session.collect import BaselineFile, BaselineItem
from pytest_gsw.session.plan_and_submit import Start
from pytest_gsw.session.row import row_on_tile
from pytest_gsw.session.screen import write
from pytest_gsw.session.stages import Stages
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.model import on_tile, rows_text


def run_stages(session: pytest.Session, start: Start) -> Iterator[Sequence[pytest.Item]]:
    """The items of each stage in order, whose rows are submitted by then, or skipped with the reason.

    A stage is decided when its items have run; nodes that it excepts are left out of the next ones. At the end, the
    nodes that Slurm did not give run the stages of tiles, if it gives them by then.
    """
    yield [item for item in session.items if not isinstance(item, BaselineItem)]
    stages = session.config.stash[SESSION].stages
    assert stages is not None  # only then is this called
    run = _Run(session, start, stages)
    unready = [run.rows[item.baseline.id].record for item in start.unready]
    run.end_if_missed(None, [record for record in unready if record is not None])
    for stage in stages.plan.stages:
        yield run.begin(stage, stages.left)
        if start.executor.journal.taken_over:  # what is decided is the new owner's
            yield run.waiting
            return
        run.decide(stage)
    back = run.nodes_back()
    for stage in stages.plan.stages if back else ():
        if stage.tile:
            yield run.begin(stage, back)
            back = run.decide_again(stage, back)
    run.cover(back)
    yield run.leave_out(run.waiting, "its nodes were not given until the end")


class _Run:
    def __init__(self, session: pytest.Session, start: Start, stages: Stages) -> None:
        self._session, self._start, self._stages = session, start, stages
        self._config, self._state = session.config, session.config.stash[SESSION]
        #: The items that no stage has taken yet, each with its row.
        self.waiting = [item for item in session.items if isinstance(item, BaselineItem)]
        self.rows = dict(self._state.rows)
        #: By stage and row, the items on the tiles that it had at the begin.
        self._placed = grouped([((item.stage.name, item.baseline.row_id), item) for item in self.waiting if item.stage])
        if not stages.is_resumed:
            self._tell_costs()
        self._write()

    def _tell_costs(self) -> None:
        """Keep the cost of each stage, as far as it is known, with its state."""
        assert self._state.history is not None  # its run has begun
        placed = [(item.stage, item.baseline) for item in self.waiting if item.stage]
        costs, _ = self._stages.costs(placed, self._state.history, self._state.settings)
        for name, cost in costs.items():
            if not cost.unknown:
                state = self._stages.states[name]
                self._stages.states[name] = replace(state, told_gpu_hours=cost.gpu_hours, told_hours=cost.hours)

    # -- a stage begins

    def begin(self, stage: Stage, nodes: Sequence[str]) -> list[BaselineItem]:
        """Submit the rows of a stage on these nodes; return all of its items that are to run now."""
        items = [item for item in self.waiting if item.stage is stage]
        if not items and not (stage.tile and set(nodes) - set(self._stages.left)):
            return []  # -k or --lf has left it out
        if self._stages.stopped:
            self._note(stage, NOT_RUN)
            return self.leave_out(items, f"not run: {self._stages.stopped}")
        wanted = [*self._stages.rows[stage.name]]
        if stage.tile:
            ready, gone, wanted = self._on_tiles(stage, items, nodes)
        else:
            gone = [item for item in items if self._stages.nodes_of(item.baseline) > len(nodes)]
            self.leave_out(gone, f"not run: {self._too_few(gone)}" if gone else "")
            ready = [item for item in items if item not in gone]
            self._exclude(ready)
        self.waiting = [item for item in self.waiting if item not in ready]
        self._note(stage, RUNS, rows=[*wanted, *self._stages.blanks[stage.name]], nodes=compressed(nodes))
        if self._state.sweep is not None:
            self._state.sweep = replace(self._state.sweep, has_search=stage.find)
        number, of = self._stages.plan.stages.index(stage) + 1, len(self._stages.plan.stages)
        what = rows_text([item.baseline.id for item in ready])
        write(self._config, f"gsw: stage {number} of {of}, {stage.name}: {what} on {plural(len(nodes), 'node')}")
        self._start.submit({item.baseline.id for item in ready})
        return [*gone, *ready]

    def _on_tiles(
        self, stage: Stage, items: list[BaselineItem], nodes: Sequence[str]
    ) -> tuple[list[BaselineItem], list[BaselineItem], list[str]]:
        """The items of a stage on the tiles of these nodes, others that are left out, and the ids of all these tiles.

        New tiles get items, unless the command line chooses among those of the begin.
        """
        stages, tiling = self._stages, self._stages.tiling(stage, nodes)
        kept, gone, ids = list[BaselineItem](), list[BaselineItem](), list[str]()
        waits = {one.node for one in stages.exceptions.values() if one.kind == NOT_GIVEN} - {*nodes}
        for row_id, row in stages.rows[stage.name].items():
            there = {item.baseline.tile: item for item in items if item.baseline.row_id == row_id}
            wanted = tiling.of_row(row)
            ids += (on_tile(row, tile).id for tile in wanted)
            kept += [item for tile, item in there.items() if tile in wanted]
            for tile, item in there.items():
                if tile not in wanted and not waits.issuperset(expand(tile)):
                    gone += self.leave_out([item], stages.why_left_out(tile))
            placed = self._placed.get((stage.name, row_id), [])
            if placed and {item.baseline.tile for item in placed}.issuperset(stages.placed[stage.name, row_id]):
                kept += self._new_items(placed[0], [tile for tile in wanted if tile not in there])
        return kept, gone, ids

    def _new_items(self, like: BaselineItem, names: Sequence[str]) -> list[BaselineItem]:
        own, file = self.rows[like.baseline.id], like.parent
        assert isinstance(file, BaselineFile)
        bare = replace(like.baseline, id=like.baseline.row_id)
        items, settings = [file.item_of(on_tile(bare, name), like.stage) for name in names], self._state.settings
        for item in items:
            name = job_name(item.baseline, settings.run_id)
            row = row_on_tile(self._config, own, item.baseline, name, self._start.shared, item.user_properties)
            self._state.rows[item.baseline.id] = row
            self._start.ready[item.baseline.id] = row.plan.spec
        self._session.items += items
        self._session.testscollected += len(items)
        if items:
            name, node_ids = self._stages.cluster.name, [item.nodeid for item in items]
            journal = self._start.executor.journal
            journal.write(Journal.session, name, node_ids, settings.release, settings.shared)
            junit_file.note_rows(settings, items)
        return items

    def _exclude(self, items: Iterable[BaselineItem]) -> None:
        """Keep the jobs of rows without a tile on the nodes that are left."""
        others, ready = compressed(self._stages.others), self._start.ready
        for row_id in (item.baseline.id for item in items if item.baseline.id in ready):
            spec = ready[row_id]
            assert isinstance(spec, JobSpec)  # others are not ready
            ready[row_id] = replace(spec, excluded_nodes=(others,) if others else ())

    def leave_out(self, items: Sequence[BaselineItem], why: str) -> list[BaselineItem]:
        """Skip items, with the reason, and note that for files that are made of the run's records."""
        for item in items:
            item.user_properties.append(("gsw_stage", item.stage.name if item.stage else ""))
            item.add_marker(pytest.mark.skip(reason=redact(why, os.environ)))
            self._state.rows.pop(item.baseline.id, None)
            self._start.ready.pop(item.baseline.id, None)
        self.waiting = [item for item in self.waiting if item not in items]
        if items:
            junit_file.note_rows(self._state.settings, (), left_out={item.nodeid: why for item in items})
        return list(items)

    # -- a stage is decided

    def decide(self, stage: Stage) -> None:
        """Take the nodes that a stage excepts out of what follows, and end the plan if nothing can be met any more."""
        stages = self._stages
        if stages.states[stage.name].state != RUNS:
            return
        before = set(stages.exceptions)
        for found in (*acceptance.exceptions_of(stage.name, self._records_of(stage)), *self._lost_nodes(stage)):
            if found.node in stages.plan.nodes:
                stages.exceptions.setdefault(found.node, found)
        self._note(stage, DECIDED)
        new = [stages.exceptions[node] for node in stages.exceptions if node not in before]
        write(self._config, f"gsw: stage {stage.name} is decided: {plural(len(stages.left), 'node')} left")
        for (kind, why), nodes in grouped([((one.kind, one.why), one.node) for one in new]).items():
            write(self._config, f"gsw: left out from now on: {compressed(nodes)}  {kind}: {why}")
        self.end_if_missed(stage, self._state.run_records())
        self._write()

    def end_if_missed(self, stage: Stage | None, records: Sequence[Record]) -> None:
        """End the plan after a stage, or before the first one, if a criterion cannot be met by these records."""
        stages = self._stages
        stages.stopped = self._why_stop(stage, records)
        if not stages.stopped:
            return
        waiting = [one for one in stages.states.values() if one.state == WAITS]
        stages.saved_gpu_hours = sum(one.told_gpu_hours or 0.0 for one in waiting)
        when = "before its first stage" if stage is None else f"after the stage {stage.name}"
        saved = f"{hours_text(stages.saved_gpu_hours)} GPU-hours are not spent"
        write(self._config, f"gsw: the plan ends {when}: {stages.stopped}; {saved}")

    def _records_of(self, stage: Stage) -> list[Record]:
        ids = self._stages.states[stage.name].rows
        rows = (self._state.rows.get(row_id) for row_id in ids)
        return [row.record for row in rows if row is not None and row.record is not None]

    def _lost_nodes(self, stage: Stage) -> Iterator[NodeException]:
        """Nodes that fail each job at once, and those to which the failure of a job is traced."""
        rows = self._start.executor.rows
        for node in rows.left_out:
            yield NodeException(node, "failed", stage.name, "failed each of its jobs at once")
        for row_id in self._stages.states[stage.name].rows:
            row = rows.row(row_id)
            for job in () if row is None else row.attempts:
                if not job.measured and len(job.excluded_nodes) < len(expand(job.status.nodes)):
                    where = (row_id, job.job_id)
                    yield from (NodeException(one, "failed", stage.name, job.why, *where) for one in job.excluded_nodes)

    def _why_stop(self, stage: Stage | None, records: Sequence[Record]) -> str:
        stages, all_stages = self._stages, self._stages.plan.stages
        at = 0 if stage is None else all_stages.index(stage) + 1
        following = next((one for one in all_stages[at:] if any(i.stage is one for i in self.waiting)), None)
        if (stage or all_stages[0]).goes_on or following is None:
            return ""
        results = acceptance.criteria_of(stages.state(), records)
        missed = next((one for one in results if one.verdict == acceptance.NOT_MET), None)
        if missed is not None:
            return f"criterion {missed.name} cannot be met any more: {missed.why}"
        items = [item for item in self.waiting if item.stage is following]
        if not following.tile:
            large = [item for item in items if stages.nodes_of(item.baseline) > len(stages.left)]
            return self._too_few(large) if large else ""
        tiling = stages.tiling(following, stages.left)
        rows = stages.rows[following.name].values()
        return "" if any(tiling.of_row(row) for row in rows) else f"no tile is left for the stage {following.name}"

    def _too_few(self, items: Sequence[BaselineItem]) -> str:
        wanted = {self._stages.nodes_of(item.baseline): item for item in items}
        most = max(wanted)
        return f"{plural(len(self._stages.left), 'node')} left, {most} wanted by {wanted[most].baseline.id}"

    # -- the end: nodes that were not given

    def nodes_back(self) -> tuple[str, ...]:
        """The nodes that were not given at the begin, and are by now."""
        stages = self._stages
        wanted = [one.node for one in stages.exceptions.values() if one.kind == NOT_GIVEN]
        if stages.stopped or not wanted:
            return ()
        try:
            there = tiles.ask_there(stages.cluster, self._state.environ)
        except ConfigurationError as error:
            write(self._config, f"gsw: not tried once more: {compressed(wanted)}: {error}")
            return ()
        back = tuple(node for node in wanted if node in there.usable)
        if back:
            write(self._config, f"gsw: tried once more, given by now: {compressed(back)}")
        return back

    def decide_again(self, stage: Stage, back: Sequence[str]) -> tuple[str, ...]:
        """Except the nodes that have not passed a stage after all; return the others."""
        for found in acceptance.exceptions_of(stage.name, self._records_of(stage)):
            self._stages.exceptions[found.node] = found
        self._note(stage, DECIDED)
        return tuple(node for node in back if self._stages.exceptions[node].kind == NOT_GIVEN)

    def cover(self, back: Sequence[str]) -> None:
        """Take back the exceptions of nodes that have passed in the end, and note the others as not covered."""
        stages = self._stages
        passed = {node for one in self._state.run_records() if one.row.tile for node in expand(one.row.tile)}
        for node in passed.intersection(back):
            del stages.exceptions[node]
        left = {one.node: one.why for one in stages.exceptions.values() if one.kind == NOT_GIVEN}
        if self._state.sweep is not None:
            self._state.sweep = replace(self._state.sweep, not_covered=left)
            write_sweep(self._state.settings.run_directory, self._state.sweep)
        self._write()

    # -- what is written

    def _note(self, stage: Stage, state: str, *, rows: Sequence[str] = (), nodes: str = "") -> None:
        before = self._stages.states[stage.name]
        all_rows = tuple(dict.fromkeys((*before.rows, *rows)))
        self._stages.states[stage.name] = replace(before, state=state, rows=all_rows, nodes=before.nodes or nodes)
        self._write()

    def _write(self) -> None:
        try:
            acceptance.write_state(self._state.settings.run_directory, redact(self._stages.state(), os.environ))
        except OSError as error:  # the screen has it still
            write(self._config, f"gsw: the sheet will lack it, acceptance.json could not be written: {error}")
