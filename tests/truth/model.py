"""The cases of a self-test, and how they came out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_gsw.common.words import counted
from pytest_gsw.errors import LogError, RunError
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.performance.noise import Noise
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
    judged_s: float = math.nan
    steps: int = 0
    accuracy: float = 0.0

    def __str__(self) -> str:
        if self.facts:
            return f"{self.outcome}, {self.error.__name__}: {' or '.join(self.facts)}"
        return f"{self.outcome}, {measured(self.judged_s, self.steps)} (give or take {self.accuracy * 100:g} %)"


@dataclass(frozen=True)
class Case:
    """One log, and what must come out of it."""

    #: Unique within a self-test: ``maxtext-12-nan``.
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

    @property
    def row(self) -> str:
        """The row and what may differ from its table."""
        steps = self.baseline.recipe.steps
        return f"{self.baseline.id}, {self.baseline.statistic} of {'some' if steps is None else steps} steps"


@dataclass(frozen=True)
class Unchecked:
    """What a kind of log cannot show, so that nothing can notice it."""

    log_format: str
    framework: str
    what: str


@dataclass(frozen=True)
class Wrong:
    """A case that came out wrong."""

    case: Case
    got: str


@dataclass(frozen=True)
class Tally:
    """The cases of one log format and framework."""

    log_format: str
    framework: str
    rows: int
    cases: int
    right: int


@dataclass(frozen=True)
class Report:
    """How a self-test went."""

    seed: int
    tallies: tuple[Tally, ...]
    wrong: tuple[Wrong, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(tally.cases for tally in self.tallies)

    @property
    def right(self) -> int:
        """How many of them came out right."""
        return sum(tally.right for tally in self.tallies)


def measured(seconds: float, steps: int) -> str:
    """A measurement in words."""
    return f"{seconds:.6g} s over {counted(steps, 'step')}"
