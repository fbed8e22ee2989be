"""What a simulated run writes, as a stream of timed events.

A writer yields bytes as the framework would have written them, with the (virtual) second at
which it would have. The forms are those of the frameworks' own print statements, named at
each writer; what surrounds the step lines is there because real logs have it, and because
much of it looks like a step time and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

from pytest_gsw.demo.simulation import Run

FIRST_LINE = "pytest-gsw demo: this is a simulation, no GPU was used"

#: Virtual seconds before the first step: container, rendezvous, model and optimizer.
STARTUP_S = 45.0


class Event(NamedTuple):
    """Something that the framework writes."""

    #: Virtual seconds since the start of the run.
    at_s: float
    data: bytes
    #: Which of the logged steps this reports, from 1; 0 for none.
    step: int = 0
    #: Where in :attr:`data` the step's figure has its last character; 0 if it holds no figure.
    figure_end: int = 0


#: Writes the log of a run.
Writer = Callable[["Run"], Iterator[Event]]


def lines(at_s: float, *texts: str) -> Iterator[Event]:
    """Whole lines that are written at one time."""
    yield from (Event(at_s, f"{text}\n".encode()) for text in texts)


def step_line(at_s: float, step: int, before: str, figure: str, after: str) -> Event:
    """The line of a step; its figure is kept apart, so that a log can be cut off inside it."""
    head = f"{before}{figure}".encode()
    return Event(at_s, head + after.encode(), step, len(head) - 1)


def clock(run: Run, at_s: float) -> datetime:
    """What the run's clock shows."""
    return run.started + timedelta(seconds=at_s)


def step_ends_s(steps_s: Iterable[float], start_s: float) -> tuple[float, ...]:
    """When each step ends."""
    return tuple(accumulate(steps_s, initial=start_s))[1:]


def identity(run: Run) -> str:
    """The line by which a recipe's log says whose it is."""
    row, job = run.baseline, run.job
    return (
        f"GSW: MODEL={row.model} FRAMEWORK={row.framework} MODEL_SIZE={job.size} JOB_NUM_NODES={job.nodes}"
        f" GPUS_PER_NODE={job.gpus_per_node} DTYPE={job.dtype} SYNTHETIC_DATA=True GSW_VERSION={job.version}"
        f" FW_VERSION=simulation IMAGE='simulation' JOB_ID={job.id} JOB_MODE=training"
        f" OPTIMIZATION_NAME='{job.optimization_name}' OPTIMIZATION_CODE='{job.optimization_code}' BASE_CONFIG=''"
    )


def preamble(run: Run) -> Iterator[Event]:
    """What stands at the top of every log: two ranks say who they are, and NCCL says much more."""
    yield from lines(0.0, FIRST_LINE, identity(run), identity(run))
    for rank in range(min(2, run.job.gpus)):
        prefix = f"demo-node-0001:{4100 + rank}:{4200 + rank} [{rank}] NCCL INFO"
        yield from lines(
            8.0 + rank / 10,
            f"{prefix} Bootstrap : Using eth0:192.0.2.1<0>",
            f"{prefix} NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
            f"{prefix} ncclCommInitRank comm 0x55d0c0de{rank:04x} rank {rank} nranks {run.job.gpus} - Init COMPLETE",
        )
