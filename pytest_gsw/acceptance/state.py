"""The state of an acceptance in its run's directory: stages, exceptions, and what the criteria say so far."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common import files, typed_json
from pytest_gsw.common.node_lists import expand
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.record import Record

#: The file in a run's directory.
NAME = "acceptance.json"


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


@dataclass(frozen=True)
class StageState:
    """A stage in a run."""

    name: str
    #: ``waits``, ``runs``, ``decided``, or ``not run`` after a stop.
    state: str
    #: The ids of its rows, as far as they were to run.
    rows: tuple[str, ...] = ()
    #: The nodes of the bill at its begin, as a node list.
    nodes: str = ""
    #: Told by the plan: GPU-hours and hours; ``None`` if run times are not known.
    told_gpu_hours: float | None = None
    told_hours: float | None = None


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
    try:
        return typed_json.read(AcceptanceState, json.loads(files.read_bounded(directory / NAME)))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


#: The outcomes of a tile whose nodes are covered.
_GOOD = frozenset({outcomes.PASSED.word, outcomes.IMPROVED.word})


def covered_nodes(records: Iterable[Record]) -> set[str]:
    """The nodes of tiles that have passed."""
    return {node for one in records if one.row.tile and one.outcome in _GOOD for node in expand(one.row.tile)}


def exceptions_of(stage: str, records: Iterable[Record]) -> Iterator[NodeException]:
    """The nodes of a stage's tiles that have not passed: those that its search names, else all of the tile."""
    for record in records:
        if not record.row.tile or record.outcome in _GOOD:
            continue
        tile, job = expand(record.row.tile), record.jobs.last
        where = (record.row.id, "" if job is None else job.id, record.run.log or "")
        found = [(expand(one.nodes), one) for one in (record.among_tiles.findings if record.among_tiles else ())]
        for nodes, finding in found:
            kind = "slow" if finding.kind == "between" else finding.kind
            why = row_text.finding_text(finding)
            yield from (NodeException(node, kind, stage, why, *where) for node in nodes if node in tile)
        if not found:
            kind = _KINDS.get(record.outcome, "not decided")
            kind = "other loss" if record.among_tiles and record.among_tiles.other_loss else kind
            yield from (NodeException(node, kind, stage, record.fact, *where) for node in tile)


_KINDS = {outcomes.ERROR.word: "failed", outcomes.REGRESSED.word: "slow"}
