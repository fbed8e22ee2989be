"""The rules that judge a row each run by itself: what others do, and parts of what the package does.

All times are over what the row usually takes; a loss is one of throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from benchmarks.simulated.cluster import Life
from benchmarks.simulated.session import REPEATS, TOLERANCE
from pytest_gsw.stats.decision import Outcome, decide
from pytest_gsw.stats.noise import PRIOR, noise_of


@dataclass(frozen=True)
class Answer:
    """What a rule says of a row in one run, and after how many jobs."""

    fails: bool
    jobs: int = 1
    is_open: bool = False


class Rule(Protocol):
    """One way to judge a row."""

    def run(self, life: Life, row: int, run: int) -> Answer:
        """One row in one run."""


@dataclass(frozen=True)
class Bounds:
    """A fixed gate: fails where the step time, over its reference, is within its bounds in none of some tries."""

    low: float = 0.0
    high: float = 1 / (1 - TOLERANCE)
    tries: int = 1

    def run(self, life: Life, row: int, run: int) -> Answer:
        for job in range(self.tries):
            if self.low <= life.ran(row, run, job).time_s / life.usual_s <= self.high:
                return Answer(fails=False, jobs=job + 1)
        return Answer(fails=True, jobs=self.tries)


@dataclass(frozen=True)
class LastRun:
    """Against what was saved last run, whatever that was."""

    slower: float

    def run(self, life: Life, row: int, run: int) -> Answer:
        before = next((one for one in range(run - 1, -1, -1) if life.has_run(row, one)), run)
        return Answer(life.ran(row, run).time_s > (1 + self.slower) * life.ran(row, before).time_s)


class Gate:
    """The package's gate for a row by itself, with the noise of so many runs and so many confirming jobs."""

    def __init__(self, life: Life, runs: int, confirm: int) -> None:
        self.confirm = confirm
        self._noises = [
            noise_of([life.ran(row, run).time_s for run in range(runs) if life.has_run(row, run)]) if runs else PRIOR
            for row in range(life.rows)
        ]

    def run(self, life: Life, row: int, run: int) -> Answer:
        times_s = [life.ran(row, run).time_s]
        if life.usual_s / times_s[0] >= 1 - TOLERANCE:
            # A first job within the tolerance is the only one, and does not fail: much the most frequent case.
            return Answer(fails=False)
        while True:
            decision = decide(times_s, life.usual_s, TOLERANCE, self._noises[row], confirm=self.confirm)
            if not decision.more:
                is_open = decision.outcome is Outcome.INCONCLUSIVE
                return Answer(decision.outcome is Outcome.REGRESSED, len(times_s), is_open)
            times_s.append(life.ran(row, run, len(times_s)).time_s)


FIXED, REFRAME, BENCHMARK = "fixed 5 %", "ReFrame, -5 %", "pytest-benchmark, last night"
ALONE = "gsw gate, 30 nights, +4"
#: By name, what makes a rule for a cluster. ReFrame: a reference of (1.0, None, 0.05) for the step time; Megatron-LM:
#: isclose(rtol=0.05), too fast fails as too slow does, up to three tries; pytest-benchmark:
#: --benchmark-compare-fail=mean:5% after --benchmark-autosave.
RULES: Mapping[str, Callable[[Life], Rule]] = {
    FIXED: lambda _: Bounds(),
    "any of 3": lambda _: Bounds(tries=3),
    REFRAME: lambda _: Bounds(high=1.05),
    "Megatron-LM": lambda _: Bounds(1 - 0.05, 1.05, tries=3),
    BENCHMARK: lambda _: LastRun(0.05),
    "gsw gate, prior, +4": lambda life: Gate(life, 0, REPEATS.confirm),
    "gsw gate, 8 nights, +4": lambda life: Gate(life, 8, REPEATS.confirm),
    ALONE: lambda life: Gate(life, 30, REPEATS.confirm),
    "gsw gate, 30 nights, +2": lambda life: Gate(life, 30, 2),
    "gsw gate, 30 nights, +0": lambda life: Gate(life, 30, 0),
}
