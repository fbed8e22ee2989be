"""The state of an acceptance in its run's directory: stages, exceptions, and what the criteria say so far."""

from __future__ import annotations

from dataclasses import dataclass

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
    began_s: float | None = None
    ended_s: float | None = None


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
