"""What a recipe starts in its container, in place of the framework: the row's log, by the demo's writers.

The recipe itself says whose log it is, so the demo's own lines about that are left out. As with a framework, the first step
ends when all nodes have begun. ``GSW_STANDIN`` is what befalls the training: a fault of the demo's, or ``memory``, of which
stderr alone tells, or ``container``, and it never starts.

::

    training.py RANKS ARGUMENTS...

RANKS is a directory that all nodes see, or empty where one process trains.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_gsw.demo.recipe import find_row, train

#: MaxText's first run, which only measures for the compiler.
PROFILING = "steps=15"


def log_of(environment: dict[str, str]) -> str:
    """What the framework would write."""
    out = io.BytesIO()
    train(find_row(environment), environment, out)
    return out.getvalue().decode()


def lines_of(log: str, profiling: bool) -> Iterator[str]:
    for line in log.splitlines(keepends=True):
        if profiling and "completed step: 15," in line:
            return
        if not line.startswith("GSW: MODEL="):
            yield line


def meet(ranks: Path, profiling: bool) -> None:
    """Wait until this run of the job has begun on all its nodes."""
    place = ranks / f"{os.environ['SLURM_JOB_ID']}-{profiling}"
    place.mkdir(parents=True, exist_ok=True)
    (place / os.environ["SLURM_NODEID"]).touch()
    deadline_s = time.monotonic() + 120
    while len(list(place.iterdir())) < int(os.environ["SLURM_JOB_NUM_NODES"]):
        if time.monotonic() > deadline_s:
            sys.exit(f"{place}: not all nodes have begun")
        time.sleep(0.1)


def main(ranks: str, *arguments: str) -> None:
    fault = os.environ.get("GSW_STANDIN", "")
    if fault == "memory":
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    environment = {"GSW_DEMO_SECONDS": "0", **os.environ, "GSW_DEMO": fault and f"*={fault}"}
    environment.setdefault("GPUS_PER_NODE", environment.get("SLURM_NTASKS_PER_NODE", ""))
    profiling = PROFILING in arguments
    if ranks:
        meet(Path(ranks), profiling)
    if os.environ["SLURM_PROCID"] == "0":
        sys.stdout.writelines(lines_of(log_of(environment), profiling))


if __name__ == "__main__":
    main(*sys.argv[1:])
