"""The cases, and what must come out of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_gsw.errors import LogError, RunError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.stats.noise import Noise
from pytest_gsw.tables.model import Baseline

ENDED_WELL = JobStatus(JobState.COMPLETED, exit_code=0)


@dataclass(frozen=True)
class Expected:
    """What must come out of a case."""

    #: passed, improved, regressed, inconclusive, or ``not measured``.
    outcome: str
    #: Of what is not measured: the kind of error, and its fact, in which ``*`` is any text; one of several.
    error: type[RunError] = LogError
    facts: tuple[str, ...] = ()
    #: Of what is measured: the true time and number of steps, and how exactly a log can tell the time.
    judged: float = math.nan
    steps: int = 0
    accuracy: float = 0.0


@dataclass(frozen=True)
class Case:
    """One log, and what must come out of it."""

    #: Unique within a seed: ``maxtext-12-nan``.
    name: str
    baseline: Baseline
    seed: int
    #: What was done to the run or to its log.
    done: str
    log: bytes | None
    expected: Expected
    job_id: str
    status: JobStatus = ENDED_WELL
    tolerance: float = 0.05
    #: By how much jobs of the row are known to differ.
    noise: Noise | None = None
