"""The stages of an acceptance: which rows each selects, on which nodes of the bill, and which nodes are left."""

from __future__ import annotations

import getpass
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_gsw.acceptance.plan import Plan, Stage
from pytest_gsw.acceptance.plan_cost import RunTimes, StageCost, run_times, stage_cost
from pytest_gsw.acceptance.state import NOT_GIVEN, WAITS, AcceptanceState, NodeException, StageState, read_state
from pytest_gsw.clusters import Cluster, why_it_does_not_fit
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import named, plural
from pytest_gsw.errors import ConfigurationError, Fault, FileError, SubmissionError
from pytest_gsw.jobs.slurm.nodes import ClusterNodes
from pytest_gsw.jobs.spec import nodes_for
from pytest_gsw.results.sweep import Sweep, read_sweep
from pytest_gsw.session import progress
from pytest_gsw.session.session_history import SessionHistory
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.tiles import Tiling, ask_there
from pytest_gsw.tables.model import Baseline, on_tile
from pytest_gsw.tables.value_types import nearest

_SHOWN = 6

#: True if ``-k`` and ``-m`` of a stage select a row.
Selects = Callable[[str, str], bool]


@dataclass
class Stages:
    """The plan of a session with what it has found so far.

    Raises:
        FileError: The bill has nodes that the partition does not have.
    """

    plan: Plan
    cluster: Cluster
    there: ClusterNodes
    #: The run's directory.
    directory: Path
    #: The rows of each stage by their ids, without a tile.
    rows: dict[str, dict[str, Baseline]] = field(default_factory=dict)
    #: By stage and row, its tiles on the nodes that were given when the run began.
    placed: dict[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    #: Rows that a stage selects and that cannot run in it, each with the reason.
    unfit: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The ids of rows of each stage that cannot run because a value is missing.
    blanks: dict[str, list[str]] = field(default_factory=dict)
    exceptions: dict[str, NodeException] = field(default_factory=dict)
    #: The state of each stage, by its name.
    states: dict[str, StageState] = field(default_factory=dict)
    #: Why no further stage runs; empty while they do.
    stopped: str = ""
    saved_gpu_hours: float = 0.0
    #: True if an earlier session has begun the run, and told its costs.
    is_resumed: bool = False
    _twice: list[Fault] = field(default_factory=list)
    _tilings: dict[str, Tiling] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {*self.there.usable, *self.there.unusable}
        unknown = [node for node in self.plan.nodes if node not in known]
        if unknown:
            problem = f"no node '{unknown[0]}' in the partition {self.there.partition}{nearest(unknown[0], known)}"
            raise FileError(self.plan.path, (Fault(self.plan.lines["nodes"], 1, "nodes", problem),))
        for node in self.plan.nodes:
            if node in self.there.unusable:
                self.exceptions[node] = NodeException(node, NOT_GIVEN, "", self.there.unusable[node])
        # The tiles of a run that is resumed are without those that Slurm did not give when it began.
        before = read_state(self.directory)
        if before is not None:
            self.exceptions = {one.node: one for one in before.exceptions if one.kind == NOT_GIVEN}
            self.states = {one.name: replace(one, state=WAITS, rows=(), nodes="") for one in before.stages}
        self.is_resumed = before is not None
        for stage in self.plan.stages:
            self.rows[stage.name], self.unfit[stage.name], self.blanks[stage.name] = {}, {}, []
            self.states.setdefault(stage.name, StageState(stage.name, WAITS, stage.tile, stage.for_s))
            self._tilings[stage.name] = self.tiling(stage, self.left)

    @property
    def left(self) -> tuple[str, ...]:
        """The nodes of the bill that are no exceptions."""
        return tuple(node for node in self.plan.nodes if node not in self.exceptions)

    @property
    def others(self) -> tuple[str, ...]:
        """The nodes of the partition on which no row of a stage without tiles may run."""
        left = set(self.left)
        return tuple(node for node in (*self.there.usable, *self.there.unusable) if node not in left)

    def tiling(self, stage: Stage, nodes: Sequence[str]) -> Tiling:
        """The tiles of a stage on these nodes."""
        return Tiling(self.cluster, stage.tile, "", replace(self.there, usable=tuple(nodes), unusable={}))

    def place(
        self, row: Baseline, selects: Selects, past: Mapping[str, Collection[str]]
    ) -> Iterable[tuple[Stage, Baseline]]:
        """The stages of a row, with the row or each of its tiles; ``past`` are its tiles in the run that is resumed."""
        for stage in self.plan.stages:
            if not selects(stage.rows, stage.marks):
                continue
            own = self._tilings[stage.name].of_row(row) if stage.tile else ()
            tiles = past.get(row.id, own) if stage.tile else ()
            why = "" if tiles else self._why_unfit(stage, row)
            alike = (one for one in self.plan.stages if bool(one.tile) == bool(stage.tile) and one is not stage)
            other = next((one for one in alike if row.id in self.rows[one.name]), None)
            if why:
                self.unfit[stage.name][row.id] = why
            elif other is not None:
                problem = f"{row.id} is a row of the stage '{other.name}' (line {other.line}), too: let one select it"
                self._twice.append(Fault(stage.line, 1, f"stages.{stage.name}", problem))
            else:
                self.rows[stage.name][row.id] = row
                self.placed[stage.name, row.id] = own
                yield from ((stage, on_tile(row, tile)) for tile in tiles) if stage.tile else [(stage, row)]

    def _why_unfit(self, stage: Stage, row: Baseline) -> str:
        """The reason why a stage cannot run a row without tiles, or has no tile for it; empty for none."""
        if why := why_it_does_not_fit(row.accelerator, row.gpus, self.cluster):
            return why
        if stage.tile:
            return f"no tile ({stage.tile}) of the bill holds it"
        wanted = self.nodes_of(row)
        left = len(self.left)
        return f"{plural(left, 'node')} left, {wanted} wanted" if wanted > left else ""

    def nodes_of(self, row: Baseline) -> int:
        """The nodes of a row; 0 if its GPUs do not fill whole nodes, which is an error of the row."""
        try:
            return nodes_for(row, self.cluster)
        except SubmissionError:
            return 0

    def check(self) -> None:
        """Refuse a plan with a stage that selects nothing, or with a row in two stages.

        Raises:
            FileError: It is one.
        """
        faults = list(self._twice)
        for stage in self.plan.stages:
            if self.rows[stage.name] or any(fault.line == stage.line for fault in faults):
                continue
            given = [f"{key}: {text}" for key, text in (("rows", stage.rows), ("marks", stage.marks)) if text]
            unfit = [f"{row_id} ({why})" for row_id, why in self.unfit[stage.name].items()]
            problem = f"no row of {self.cluster.name} for {', '.join(given) or 'the stage'}"
            problem += f": {named(unfit, _SHOWN)}" if unfit else ""
            faults.append(Fault(stage.line, 1, f"stages.{stage.name}", problem))
        if faults:
            raise FileError(self.plan.path, tuple(faults))

    def costs(
        self, placed: Iterable[tuple[Stage, Baseline]], history: SessionHistory, settings: Settings
    ) -> tuple[dict[str, StageCost], RunTimes]:
        """The cost of each stage with these rows and tiles, by the cluster's earlier runs."""
        known = {row_id: row for of_stage in self.rows.values() for row_id, row in of_stage.items()}
        records = history.newest_records(known.keys())
        times = run_times(known.values(), records, progress.simulated_s(settings))
        counts = Counter((stage.name, row.row_id) for stage, row in placed)
        first, nodes = settings.judging.repeats.first, len(self.left)
        costs = {}
        for stage in self.plan.stages:
            rows = [(known[row_id], count) for (name, row_id), count in counts.items() if name == stage.name]
            if rows:
                costs[stage.name] = stage_cost(stage, rows, nodes, times, self.cluster, first)
        return costs, times

    def state(self) -> AcceptanceState:
        """The acceptance so far, as its run keeps it."""
        return AcceptanceState(
            name=self.plan.name,
            file=str(relative_path(self.plan.path)),
            sha256=self.plan.sha256,
            text=self.plan.text,
            nodes=compressed(self.plan.nodes),
            user=getpass.getuser(),
            criteria=self.plan.criteria,
            stages=tuple(self.states.values()),
            exceptions=tuple(self.exceptions[node] for node in self.plan.nodes if node in self.exceptions),
            stopped=self.stopped,
            saved_gpu_hours=self.saved_gpu_hours,
        )

    def sweep(self, _sizes: Collection[int]) -> Sweep:
        """The facts of the sweeps of all stages, with their results so far if the run is resumed."""
        where = {name: compressed(nodes) for name, nodes in self.there.switches.items()}
        return read_sweep(self.directory) or Sweep("", self.there.partition, len(self.plan.nodes), switches=where)

    def why_left_out(self, tile: str) -> str:
        """Why a tile has no job: its nodes that are exceptions, or that its nodes are in other tiles."""
        found = [self.exceptions[node] for node in expand(tile) if node in self.exceptions]
        texts = [f"{one.node} ({one.where}: {one.why})" for one in found]
        return f"left out: {named(texts, _SHOWN)}" if texts else "its nodes are in other tiles now"


def stages_of(plan: Plan, cluster: Cluster, directory: Path, environ: Mapping[str, str]) -> Stages:
    """The stages of a session's plan on a cluster, whose run has this directory.

    Raises:
        pytest.UsageError: Slurm does not know the nodes, or the bill has others.
    """
    try:
        return Stages(plan, cluster, ask_there(cluster, environ), directory)
    except ConfigurationError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
