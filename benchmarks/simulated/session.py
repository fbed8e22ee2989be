"""A session of the package on a simulated cluster: its own functions, from the history to the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.simulated.cluster import NOTHING, Life, Ran, block_nodes
from pytest_gsw.history.model import ExperimentKey, Point, points_of
from pytest_gsw.history.row_history import ClusterAdjustment, ClusterHistory
from pytest_gsw.history.store import TOPOLOGY, Event, Failure, History
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import FigureFacts, JobFacts, Jobs, Record, RowFacts, RunFacts
from pytest_gsw.session.session_history import SessionHistory
from pytest_gsw.stats.cluster_effect import ClusterEffect, CurrentRun
from pytest_gsw.stats.decision import Outcome, is_known
from pytest_gsw.stats.measurement import Measurement, Timing
from pytest_gsw.stats.noise import REFERENCE_JOBS, Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import Verdict, verdict_of
from pytest_gsw.tables.model import Baseline, Batch, Criterion, Figures, Location, Parallelism, Recipe, Source, Workload

CLUSTER = "simulated"
TOLERANCE = 0.05
REPEATS = Repeats(first=1, confirm=4)
#: What rows take while nothing has changed, seconds.
USUAL_S = 1.0
_DEFINITION, _EXPERIMENT = "0123456789ab", "ba9876543210"
#: After any day on which this is run: a node that no job has had for a month is taken to be gone.
_FIRST_S, _DAY_S, _HOUR_S = 4e9, 86400.0, 3600.0

_ROW = Baseline(
    id="row",
    workload=Workload(model="model", framework="maxtext", log_format="maxtext", dtype="bf16", sequence_length=4096),
    accelerator="H100",
    gpus=8,
    gpus_per_node=8,
    batch=Batch(),
    parallelism=Parallelism(),
    documented=Figures(step_time_s=USUAL_S),
    criterion=Criterion(statistic="median", min_steps=1, tolerance=TOLERANCE),
    attributes={},
    recipe=Recipe("maxtext"),
    source=Source("document.md", 1),
    location=Location(Path("rows.yaml"), 1, 1),
)


class Memory(History):
    """A history without a database, of what sessions ask one for."""

    def __init__(self, blocks: int = 0) -> None:
        self._lines: dict[ExperimentKey, list[Point]] = {}
        of_block = {f"block b{number}": nodes_of(block_nodes(number, blocks)) for number in range(blocks)}
        self._topology = Event(TOPOLOGY, CLUSTER, CLUSTER, 0.0, of_block)

    def add(self, records: Iterable[Record]) -> int:
        points = [(record, point) for record in records for point in points_of(record)]
        for record, point in points:
            key = ExperimentKey(record.row.id, record.run.cluster, record.row.experiment)
            self._lines.setdefault(key, []).append(point)
        return len(points)

    def cluster_points(self, cluster: str, since_s: float = 0.0) -> Mapping[ExperimentKey, tuple[Point, ...]]:
        return {key: tuple(points) for key, points in self._lines.items()}

    @property
    def place(self) -> str:
        return "memory"

    def events(self, cluster: str | None = None, kind: str | None = None) -> tuple[Event, ...]:
        return (self._topology,) if self._topology.body and kind in {None, TOPOLOGY} else ()

    def failures(self, cluster: str, since_s: float = 0.0) -> tuple[Failure, ...]:
        """None: no job is failed by the infrastructure here."""
        return ()


@dataclass(frozen=True)
class Judged:
    """One row in one run."""

    verdict: Verdict
    ran: tuple[Ran, ...]

    @property
    def outcome(self) -> Outcome:
        return self.verdict.outcome


class Session:
    """What a session knows of earlier runs, and how it decides a run by that."""

    def __init__(self, history: History, rows: int) -> None:
        self.history, self.rows = history, rows
        self.look()

    def look(self) -> None:
        """Read the history, as a session does when it begins."""
        self._runs = SessionHistory(self.history, Path(), CLUSTER)
        ids = [_id(row) for row in range(self.rows)]
        histories = {row: self._runs.past(row, _DEFINITION, _EXPERIMENT, None, "") for row in ids}
        self.together = ClusterHistory(histories)
        adjustment = ClusterAdjustment(self.together)
        self.histories = {row: replace(past, adjustment=adjustment) for row, past in histories.items()}
        self._noises = {row: past.noise(TOLERANCE) for row, past in self.histories.items()}
        self._effects: dict[int, float] = {}
        self._avoided = frozenset(int(node[1:]) for node in self._runs.slow_nodes)

    def is_young(self, run: int) -> bool:
        """Whether a reference is not complete: runs that regressed, and incidents, are no part of any."""
        of_runs = self.together.before.noise
        jobs = [len(past.reference) for past in self.histories.values()] + [of_runs.jobs if of_runs else 0]
        return run <= REFERENCE_JOBS or min(jobs) < REFERENCE_JOBS

    @property
    def named(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that are known to be slow: one, or several of which one is."""
        return tuple(tuple(int(node[1:]) for node in one.nodes) for one in self._runs.slow if not one.below)

    @property
    def named_blocks(self) -> tuple[str, ...]:
        """The blocks that are known to be slow at times."""
        return tuple(one.name for one in self._runs.slow if one.below)

    def run(
        self,
        life: Life,
        run: int,
        rows: Iterable[int] | None = None,
        before: Mapping[int, Judged] | None = None,
    ) -> dict[int, Judged]:
        """Decide a run, or some rows of it, once the first jobs of all have ended; by what came of the one before."""
        current_run, found = self._current_run(life, run), {}
        for row in range(self.rows) if rows is None else rows:
            if not life.has_run(row, run):
                continue
            failed_s = self.failed_s(row, run - 1, (before or {}).get(row))
            found[row] = self._row(life, row, run, current_run, failed_s)
        return found

    def keep(self, records: Iterable[Record]) -> None:
        """Put what was measured into the history."""
        self.history.add(records)

    def _current_run(self, life: Life, run: int) -> CurrentRun | None:
        """What the rows say of the run; a job that had a slow node says nothing of it."""
        first_s = {}
        for row in range(self.rows):
            if not life.has_run(row, run):
                continue
            ran = life.ran(row, run)
            if not self._runs.slow or not self._runs.had_slow_node(nodes_of(ran.nodes), _end_s(row, run, 0)):
                first_s[_id(row)] = ran.time_s
        return self.together.current_run(first_s) if self.together.before.noise is not None else None

    def failed_s(self, row: int, run: int, judged: Judged | None) -> Sequence[float]:
        """Seconds of each job of a run, where the row failed then."""
        if judged is None or judged.outcome is not Outcome.REGRESSED:
            return ()
        points = points_of(record_of(row, run, judged))
        return replace(self.histories[_id(row)], points=points).previous_failed

    def _with_newest(self, noise: Noise, life: Life, row: int, run: int) -> Noise:
        """The noise of a row with the two runs before: the history is not read anew each run."""
        if noise.level is None:
            return noise
        before = [one for one in range(run) if life.has_run(row, one)][-2:]
        newest = (life.ran(row, one).time_s * math.exp(-max(0.0, self._effect(life, one))) for one in before)
        return replace(noise, level=replace(noise.level, newest=tuple(newest)))

    def _effect(self, life: Life, run: int) -> float:
        if run not in self._effects:
            current_run = self._current_run(replace(life, change=NOTHING), run)
            effect = None if current_run is None else current_run.effect()
            self._effects[run] = 0.0 if effect is None else effect.value
        return self._effects[run]

    def _row(self, life: Life, row: int, run: int, current_run: CurrentRun | None, failed_s: Sequence[float]) -> Judged:
        ran, name = [life.ran(row, run)], _id(row)
        noise, adjustment = self._noises[name], None
        if current_run is not None and current_run.may_have_effect and name in self.together.before.levels:
            adjustment = current_run.effect_on(name, TOLERANCE)
        if adjustment is not None:
            adjustment = replace(adjustment, noise=self._with_newest(adjustment.noise, life, row, run))
        elif noise is not None:
            noise = self._with_newest(noise, life, row, run)
        while True:
            verdict = _verdict([one.time_s for one in ran], life.usual_s, noise, adjustment)
            if not verdict.more or len(ran) == REPEATS.most or _is_known(verdict, failed_s):
                return Judged(verdict, tuple(ran))
            avoided = self._avoided | {node for one in ran for node in one.nodes}
            ran.append(life.ran(row, run, len(ran), avoided))


def _is_known(verdict: Verdict, failed_s: Sequence[float]) -> bool:
    """Whether it is the loss of the run before, which is not confirmed again."""
    if verdict.outcome is not Outcome.REGRESSED or verdict.noise is None:
        return False
    return is_known(verdict.jobs, verdict.reference, verdict.tolerance, verdict.noise, failed_s)


def _verdict(times_s: list[float], usual_s: float, noise: Noise | None, adjustment: ClusterEffect | None) -> Verdict:
    judged = statistics.median(times_s)
    measurement = Measurement(
        judged=judged,
        figures=Figures(step_time_s=judged),
        timing=Timing("median"),
        jobs=tuple(times_s),
    )
    row = replace(_ROW, documented=Figures(step_time_s=usual_s))
    return verdict_of(row, measurement, TOLERANCE, noise=noise, repeats=REPEATS, cluster_effect=adjustment)


def _id(row: int) -> str:
    return f"row{row}"


def nodes_of(nodes: Iterable[int]) -> str:
    """A node list."""
    return ",".join(f"n{node:03d}" for node in nodes)


def _end_s(row: int, run: int, job: int) -> float:
    return _FIRST_S + run * _DAY_S + job * _HOUR_S + row


def run_id(run: int) -> str:
    """The name of a run's run."""
    return f"night-{run:04d}"


def number_of(run: str) -> int:
    """The run that a run is of."""
    return int(run.rpartition("-")[2])


def record_of(row: int, run: int, judged: Judged) -> Record:
    """The record that a session leaves of a row."""
    jobs = [
        JobFacts(
            id=str(1000 * run + len(judged.ran) * row + number),
            launcher="slurm",
            state=JobState.COMPLETED,
            nodes=nodes_of(one.nodes),
            end_s=_end_s(row, run, number),
            judged=one.time_s,
        )
        for number, one in enumerate(judged.ran)
    ]
    return Record(
        judged.outcome.value,
        "",
        row=RowFacts(
            id=_id(row),
            node_id=f"rows.yaml::{_id(row)}",
            baseline="rows.yaml:1",
            document="document.md",
            document_line=1,
            workload="model",
            framework="maxtext",
            dtype="bf16",
            accelerator="H100",
            gpus=8,
            tolerance=TOLERANCE,
            definition=_DEFINITION,
            metric="step_time",
            experiment=_EXPERIMENT,
        ),
        run=RunFacts(run_id(run), CLUSTER, simulated=False, recorded_s=_FIRST_S + (run + 0.5) * _DAY_S),
        figures=FigureFacts({"step_time_s": judged.verdict.reference}, {}, {"step_time_s": judged.verdict.measured}),
        jobs=Jobs(jobs[-1], repeats=tuple(jobs[:-1])),
        verdict=judged.verdict,
    )
