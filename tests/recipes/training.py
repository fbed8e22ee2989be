"""What a recipe starts in its container, in place of the framework: the row's log, by the demo's writers and those of the tests.

The recipe itself says whose log it is, so the demo's own lines about that are left out. As with a framework, the first step
ends when all nodes have begun. ``GSW_STANDIN`` is what befalls the training: a fault of the demo's, or ``memory``, of which
stderr alone tells, or ``container``, and it never starts, or ``together``, and it lasts until another job trains as well.

::

    training.py RANKS ARGUMENTS...

RANKS is a directory that all nodes see, or empty where one process trains.
"""

from __future__ import annotations

import fnmatch
import io
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_gsw.demo.recipe import find_row, train

#: MaxText's first run, which only measures for the compiler.
PROFILING = "steps=15"


def log_of(environment: dict[str, str]) -> str:
    """What the framework would write."""
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # a recipe starts this file alone
    from tests.writers import ALL_WRITERS

    out = io.BytesIO()
    train(find_row(environment), environment, out, ALL_WRITERS)
    return out.getvalue().decode()


def lines_of(log: str, profiling: bool) -> Iterator[str]:
    for line in log.splitlines(keepends=True):
        if profiling and "completed step: 15," in line:
            return
        if not line.startswith("GSW: MODEL="):
            yield line


def meet(place: Path, own: str, count: int) -> None:
    """Wait until as many have come to a place."""
    place.mkdir(parents=True, exist_ok=True)
    (place / own).touch()
    deadline_s = time.monotonic() + 120
    while len(list(place.iterdir())) < count:
        if time.monotonic() > deadline_s:
            sys.exit(f"{place}: not all have come")
        time.sleep(0.1)


def fault_of(environment: Mapping[str, str]) -> str:
    """What befalls this row: ``fault`` befalls all of them, and ``model*=fault,...`` those whose id begins so."""
    row = environment["GSW_ROW"]
    pairs = (word.rpartition("=") for word in environment.get("GSW_STANDIN", "").split(","))
    return next((fault for pattern, _, fault in pairs if fnmatch.fnmatch(row, pattern or "*")), "")


def main(ranks: str, *arguments: str) -> None:
    fault = fault_of(os.environ)
    if fault == "memory":
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    job = os.environ["SLURM_JOB_ID"]
    if fault == "together":
        meet(Path(ranks, "jobs"), job, 2)
        fault = ""
    environment = {"GSW_DEMO_SECONDS": "0", **os.environ, "GSW_DEMO": fault and f"*={fault}"}
    environment.setdefault("GPUS_PER_NODE", environment.get("SLURM_NTASKS_PER_NODE", ""))
    profiling = PROFILING in arguments
    if ranks:
        nodes = int(os.environ["SLURM_JOB_NUM_NODES"])
        meet(Path(ranks, f"{job}-{profiling}"), os.environ["SLURM_NODEID"], nodes)
    if os.environ["SLURM_PROCID"] == "0":
        sys.stdout.writelines(lines_of(log_of(environment), profiling))


if __name__ == "__main__":
    main(*sys.argv[1:])
