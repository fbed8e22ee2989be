"""The state of an acceptance in its run's directory: stages, exceptions, and what the criteria say so far."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.acceptance.plan import Criteria
from pytest_gsw.common import files, typed_json
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.text import named, plural, share
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.record import Record
from pytest_gsw.results.suites import Concluded
from pytest_gsw.stats.noise import PRIOR, interval

#: The file in a run's directory.
NAME = "acceptance.json"
#: States of a stage, the verdicts of a criterion, and the kind of an exception that may end by itself.
WAITS, RUNS, DECIDED, NOT_RUN = "waits", "runs", "decided", "not run"
MET, NOT_MET, OPEN = "met", "not met", "open"
NOT_GIVEN = "not given"
#: The most rows or stages that a criterion names.
_NAMED = 3
#: A tolerance is read from a text in percent.
_ROUNDED = 1e-9


@dataclass(frozen=True)
class NodeException:
    """A node of the bill that is not covered, with the reason and the evidence."""

    node: str
    #: ``not given``, ``failed``, ``slow``, ``intermittent``, ``not decided`` or ``other loss``.
    kind: str
    #: The stage that found it; empty for a node that Slurm did not give.
    stage: str
    #: The fact in one line.
    why: str
    #: The row on its tile, the job, the log: as far as there are any.
    row: str = ""
    job_id: str = ""
    log: str = ""

    @property
    def where(self) -> str:
        """The kind, and the stage that found it."""
        return f"{self.kind} in the stage {self.stage}" if self.stage else self.kind


@dataclass(frozen=True)
class StageState:
    """A stage in a run."""

    name: str
    #: ``waits``, ``runs``, ``decided``, or ``not run`` after a stop.
    state: str
    #: Its tiles and the duration of its rows, as :class:`~pytest_gsw.acceptance.plan.Stage` has them.
    tile: str = ""
    for_s: float | None = None
    #: The ids of its rows, or tiles, on the nodes at its begin; also of those that the command line leaves out.
    rows: tuple[str, ...] = ()
    #: The nodes of the bill at its begin, as a node list.
    nodes: str = ""
    #: Told by the plan: GPU-hours and hours; ``None`` if run times are not known.
    told_gpu_hours: float | None = None
    told_hours: float | None = None

    @property
    def is_open(self) -> bool:
        """True if its rows have not all ended."""
        return self.state in {WAITS, RUNS}


@dataclass(frozen=True)
class CriterionResult:
    """One criterion by the records so far."""

    #: ``covered``, ``within`` or ``goodput``.
    name: str
    #: What the plan asks for, and the figure, as fractions; ``None`` if nothing is measured yet.
    wanted: float
    figure: float | None
    #: ``met``, ``not met``, or ``open`` while it can still be either.
    verdict: str
    #: The rows or nodes behind the figure, in one line.
    why: str
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """``87.5 %, wanted 80 %: met``."""
        figure = "not measured" if self.figure is None else f"{100 * self.figure:.1f} %"
        return f"{figure}, wanted {100 * self.wanted:g} %: {self.verdict}"


@dataclass(frozen=True)
class AcceptanceState:
    """An acceptance in its run, as :data:`NAME` has it."""

    #: The plan's name, file, its SHA-256, and its text.
    name: str
    file: str
    sha256: str
    text: str
    #: The bill as a node list.
    nodes: str
    #: The user that ran it.
    user: str
    criteria: Criteria = field(default_factory=Criteria)
    stages: tuple[StageState, ...] = ()
    exceptions: tuple[NodeException, ...] = ()
    #: Why the plan ended before its last stage, in one line, and the GPU-hours not spent; empty if it did not.
    stopped: str = ""
    saved_gpu_hours: float = 0.0


def write_state(directory: Path, state: AcceptanceState) -> None:
    """Write a run's acceptance; an OSError if it cannot be written."""
    files.write_whole(directory / NAME, json.dumps(vars(state), default=typed_json.plain, indent=1))


def read_state(directory: Path) -> AcceptanceState | None:
    """A run's acceptance; ``None`` if the run has none, or one of a later release."""
    return typed_json.read_file(AcceptanceState, directory / NAME)


def exceptions_of(stage: str, records: Iterable[Record]) -> Iterator[NodeException]:
    """The nodes of a stage's tiles that have not passed: those that its search names, else all of the tile."""
    for record in records:
        if not record.row.tile or is_good(record):
            continue
        job, among = record.jobs.last, record.among_tiles
        where = (record.row.id, "" if job is None else job.id, record.run.log or "")
        own = "other loss" if among and among.other_loss else _KINDS.get(record.outcome, "not decided")
        finding_of = {node: one for one in reversed(among.findings if among else ()) for node in expand(one.nodes)}
        for node in expand(record.row.tile):
            finding = finding_of.get(node)
            if finding is not None:
                kind = "slow" if finding.kind == "between" else finding.kind
                yield NodeException(node, kind, stage, row_text.finding_text(finding), *where)
            elif not record.named:
                yield NodeException(node, own, stage, record.fact, *where)


_KINDS = {outcomes.ERROR.word: "failed", outcomes.REGRESSED.word: "slow"}


def conclude(state: AcceptanceState, records: Sequence[Record]) -> Concluded:
    """The end of a session with a plan: exceptions and criteria in lines."""
    alike = grouped([(f"{one.where}: {one.why}", one.node) for one in state.exceptions])
    lines = [f"exception  {compressed(nodes)}  {why}" for why, nodes in alike.items()]
    lines += [f"stopped    {state.stopped}"] if state.stopped else []
    results = criteria_of(state, records)
    lines += [f"{one.name:<10} {one.text} ({one.why})" for one in results]
    verdicts = {one.verdict for one in results}
    return Concluded(lines, is_met=verdicts <= {MET}, is_missed=NOT_MET in verdicts)


def criteria_of(state: AcceptanceState, records: Sequence[Record]) -> tuple[CriterionResult, ...]:
    """Each criterion of the plan by the records of the run so far; what is not measured is open."""
    wanted = state.criteria
    judges = ((_coverage, wanted.covered), (_worst_loss, wanted.within), (_least_goodput, wanted.goodput))
    return tuple(judge(state, records, limit) for judge, limit in judges if limit is not None)


def covered_nodes(state: AcceptanceState, records: Sequence[Record]) -> frozenset[str]:
    """The nodes of the bill that are no exception and ran on a tile that passed, or of which a search names others."""
    passed = (record for record in records if record.row.tile and (is_good(record) or record.named))
    tiles = {record.row.tile for record in passed}
    left_out = {exception.node for exception in state.exceptions}
    return frozenset(node for tile in tiles for node in expand(tile)) & frozenset(expand(state.nodes)) - left_out


def is_good(record: Record) -> bool:
    """True if a record's outcome is green: passed, improved, or out of memory as documented."""
    return outcomes.of(record.outcome).status == outcomes.GREEN


def _coverage(state: AcceptanceState, records: Sequence[Record], wanted: float) -> CriterionResult:
    bill, covered = len(expand(state.nodes)), len(covered_nodes(state, records))
    lost = sum(exception.kind != NOT_GIVEN for exception in state.exceptions)
    is_enough = covered / bill >= wanted
    # A tile that never ran is nothing that was met. A node that Slurm did not give is tried once more at the end.
    _, missing = _of_stages(state, records, lambda stage: bool(stage.tile))
    is_open = bool(missing) or (not is_enough and any(stage.is_open for stage in state.stages))
    verdict = NOT_MET if (bill - lost) / bill < wanted else OPEN if is_open else MET if is_enough else NOT_MET
    why = [f"{covered} of {plural(bill, 'node')}, {plural(len(state.exceptions), 'exception')}"]
    return CriterionResult("covered", wanted, covered / bill, verdict, named(why + missing * (verdict == OPEN), _NAMED))


def _worst_loss(state: AcceptanceState, records: Sequence[Record], wanted: float) -> CriterionResult:
    ended, missing = _of_stages(state, records, lambda stage: not stage.tile and stage.for_s is None)
    lasting, _ = _of_stages(state, records, lambda stage: stage.for_s is not None)
    bad = [f"{one.row.id} {outcomes.of(one.outcome).text}" for one in (*ended, *lasting) if not is_good(one)]
    loose = [one for one in ended if one.row.tolerance > wanted + _ROUNDED]
    missing += [f"{one.row.id}: judged with a tolerance of {share(one.row.tolerance)}" for one in loose]
    judged = [(record.judged.gain, record.judged, record) for record in ended if record.judged is not None]
    verdict = NOT_MET if bad else OPEN if missing or not ended else MET
    if not judged:
        return CriterionResult("within", wanted, None, verdict, named([*bad, *missing], _NAMED))
    gain, worst, record = min(judged, key=lambda one: one[0])
    noise, rows = worst.noise or PRIOR, len({(record.row.stage, record.row.row_id) for record in records})
    low, high = interval(1 + gain, noise.of_median(max(1, len(worst.jobs))), noise.jobs, rows)
    why = named([*bad, *missing] or [f"{record.row.id} is the slowest of {plural(len(ended), 'row')}"], _NAMED)
    return CriterionResult("within", wanted, -gain or 0.0, verdict, why, 1 - high, 1 - low)


def _least_goodput(state: AcceptanceState, records: Sequence[Record], wanted: float) -> CriterionResult:
    ended, missing = _of_stages(state, records, lambda stage: stage.for_s is not None)
    known = [(record.endurance.goodput, record.row.id) for record in ended if record.endurance is not None]
    lost = [f"{record.row.id}: no goodput" for record in ended if record.endurance is None]
    lost += [f"{record.row.id}: its logs' steps take longer than its jobs" for record in ended if _is_odd(record)]
    lost += [f"{record.row.id} error" for record in ended if record.outcome == outcomes.ERROR.word]
    figure, row = min(known, default=(None, ""))
    is_bad = bool(lost) or (figure is not None and figure < wanted)
    why = named([*([f"{row} has the least of {plural(len(known), 'row')}"] if row else []), *lost, *missing], _NAMED)
    return CriterionResult("goodput", wanted, figure, NOT_MET if is_bad else OPEN if missing or not ended else MET, why)


def _is_odd(record: Record) -> bool:
    """True if the goodput of a row cannot be; that of the simulation is, as its clock runs faster."""
    return record.endurance is not None and not record.endurance.is_plausible and not record.run.simulated


def _of_stages(
    state: AcceptanceState, records: Sequence[Record], measures: Callable[[StageState], bool]
) -> tuple[list[Record], list[str]]:
    """The records of the stages that measure a criterion, and what they do not have yet."""
    stages = [stage for stage in state.stages if measures(stage)]
    names = {stage.name for stage in stages}
    ended = [record for record in records if record.row.stage in names]
    known = {record.row.id for record in ended}
    left = [f"stage {stage.name}: {stage.state}" for stage in stages if stage.state != DECIDED]
    rows = [f"{row}: no result" for stage in stages if stage.state == DECIDED for row in stage.rows if row not in known]
    return ended, [*left, *rows]
