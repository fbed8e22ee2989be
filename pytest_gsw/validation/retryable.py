"""Failures of the infrastructure, after which a row may run again, and the nodes to avoid.

Never the row's own: a regression, a cancelled job, one that ran out of time or memory, or one whose end is unknown and
which may still run.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.model import LOST_AT_START
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.jobs.step_ends import problem_of
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.stats.black_holes import AT_ONCE_S, NodeUse
from pytest_gsw.tables.model import without_tile
from pytest_gsw.validation.run import CAUSE_OF_STATE, Run, cause_of, lost_at_start

_STATES = frozenset({JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED})

#: Why a row that runs for a time was run again after a job that neither the infrastructure nor Slurm ended.
PROGRAM_FAILED = "its program failed"
#: Causes without evidence against the nodes.
BLAMELESS = frozenset({"preemption", "requeued", CAUSE_OF_STATE[JobState.TIMEOUT], PROGRAM_FAILED})
#: Lines that name a failed node: ``srun: error: Node failure on n17``, ``srun: error: n17: task 130: Aborted``. Several
#: that failed at once are a list in Slurm's own form, ``n[17-19],m3``, and stay one.
_NODE = re.compile(
    rb"error: Node failure on (?P<failed>[A-Za-z0-9](?:[\w.-]|,(?=\w)|\[[\d,-]{1,400}\]){0,200})(?=,?(?:\s|$))|"
    rb"srun: error: (?P<task>[A-Za-z0-9][\w.-]{0,200}): tasks? [\d,-]{1,200}: "
)
_MARKERS = (b"error: ",)
#: A node list of one node.
_ONE_NODE = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class InfrastructureFailure:
    """Cause of an infrastructure failure, and the nodes to avoid."""

    why: str
    nodes: tuple[str, ...] = ()


def infrastructure_failure(run: Run) -> InfrastructureFailure | None:
    """The reason why a row may run again; ``None`` if its failure is not the infrastructure's."""
    if run.stopped is not None:
        return None
    state, lost = run.status.state, lost_at_start(run)
    if lost is not None:
        return InfrastructureFailure(f"{LOST_AT_START}: {lost}", suspect_nodes(run))
    ended = state is JobState.FAILED or (state is JobState.COMPLETED and run.status.exit_code == 0)
    why = CAUSE_OF_STATE[state] if state in _STATES else _cause(run) if ended else None
    if why is None:
        return None
    return InfrastructureFailure(why, () if why in BLAMELESS else suspect_nodes(run))


def failed_at_once(run: Run) -> bool:
    """True if a job failed within a minute of its start, with whatever words."""
    status = run.status
    if run.stopped is not None or status.run_s is None or status.run_s > AT_ONCE_S:
        return False
    if status.state is JobState.COMPLETED:
        return run.log is None or problem_of(status) is not None
    return status.state is JobState.FAILED


def node_use(row_id: str, job_id: str, status: JobStatus, has_failed: bool) -> NodeUse | None:
    """A job as evidence on its nodes: it failed at once, or it worked; ``None`` if it did neither."""
    if not status.nodes or status.start_s is None:
        return None
    is_short = (status.end_s or time.time()) - status.start_s <= AT_ONCE_S
    if is_short and not has_failed and status.state is not JobState.COMPLETED:
        return None
    nodes, end_s = frozenset(expand(status.nodes)), status.end_s or math.inf
    return NodeUse(without_tile(row_id), job_id, nodes, status.start_s, end_s, is_short and has_failed)


def _cause(run: Run) -> str | None:
    """The infrastructure failure in the logs; ``None`` if they cannot be read."""
    from pytest_gsw.logs.failure_scan import find_fatal_unread  # not for the history's evidence on nodes

    try:
        # A script may end well after its training failed: the row's error counts here, too.
        completed = run.status.state is JobState.COMPLETED
        cause = (
            find_fatal_unread(run.log, run.other_files, run.batch_output) if completed and run.log else cause_of(run)
        )
    except (LogError, OSError):
        return None  # judging the run reports it
    return cause.name if cause is not None and cause.infrastructure else None


def suspect_nodes(run: Run) -> tuple[str, ...]:
    """The nodes that logs name as failed, else the first to lose a task, else the job's only one."""
    matches = [match for _, path in run.outputs for match in _node_matches(path)]
    failed = tuple(dict.fromkeys(match["failed"].decode() for match in matches if match["failed"]))
    # When one rank has died, Slurm ends all others: only the first is a suspect.
    first = tuple(match["task"].decode() for match in matches if match["task"])[:1]
    alone = (run.status.nodes,) if _ONE_NODE.fullmatch(run.status.nodes) else ()
    return failed or first or alone


def _node_matches(path: Path) -> Iterator[re.Match[bytes]]:
    try:
        for _, line in matching_records(path, _MARKERS) if path.is_file() else ():
            match = _NODE.search(line[:4000])
            if match is not None:
                yield match
    except OSError:
        return  # an unknown node is no reason to give up
