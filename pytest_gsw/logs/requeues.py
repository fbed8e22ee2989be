"""Whether the scheduler began a job anew, by what Slurm writes into its output.

Source: ``src/slurmd/slurmstepd/req.c``: ``*** JOB 12 ON node7 CANCELLED AT (the time) DUE TO JOB REQUEUE ***``,
likewise ``DUE TO PREEMPTION`` and ``DUE TO NODE FAILURE, …``. ``SLURM_RESTART_COUNT`` is set in requeued jobs, and a
recipe that prints its environment shows it.
"""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.logs.scan import matching_records

_MARKERS = (b"CANCELLED AT", b"SLURM_RESTART_COUNT=")
_REQUEUED = re.compile(
    rb"\*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
    rb"|\bSLURM_RESTART_COUNT=[1-9]\d{0,5}\b"
)


def is_requeued(path: Path, start: int, stop: int) -> bool:
    """Whether a part of a log says that the scheduler began the job anew.

    Args:
        path: The log.
        start: Where the part begins, bytes.
        stop: Where it ends, bytes.

    Raises:
        OSError: The log cannot be read.
    """
    return any(_REQUEUED.search(record) for _, record in matching_records(path, _MARKERS, start=start, stop=stop))
