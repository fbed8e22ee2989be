"""What a recipe starts in its container, in place of the framework: the row's log, by the demo's writers.

The recipe itself says whose log it is, so the demo's own lines about that are left out. ``GSW_STANDIN`` is what befalls the
training: a fault of the demo's, or ``memory``, of which stderr alone tells, or ``container``, and it never starts.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator

from pytest_gsw.demo.recipe import find_row, train

#: MaxText's first run, which only measures for the compiler.
PROFILING = "steps=15"


def log_of(environment: dict[str, str]) -> str:
    """What the framework would write."""
    out = io.BytesIO()
    train(find_row(environment), environment, out)
    return out.getvalue().decode()


def lines_of(log: str, arguments: list[str]) -> Iterator[str]:
    for line in log.splitlines(keepends=True):
        if PROFILING in arguments and "completed step: 15," in line:
            return
        if not line.startswith("GSW: MODEL="):
            yield line


def main(arguments: list[str]) -> None:
    fault = os.environ.get("GSW_STANDIN", "")
    if fault == "memory":
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    environment = {"GSW_DEMO_SECONDS": "0", **os.environ, "GSW_DEMO": fault and f"*={fault}"}
    environment.setdefault("GPUS_PER_NODE", environment.get("SLURM_NTASKS_PER_NODE", ""))
    if os.environ["SLURM_PROCID"] == "0":
        sys.stdout.writelines(lines_of(log_of(environment), arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
