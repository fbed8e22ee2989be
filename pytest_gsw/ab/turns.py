"""The turns of a comparison as they were left in its directory; each goes through a row's own checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gsw.ab.plan import Plan
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.layout import find_log, log_glob
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.runs.checks import check_job, read_steps
from pytest_gsw.runs.measure import measure_as_documented
from pytest_gsw.runs.run import Run
from pytest_gsw.tables.model import Baseline

#: What ``timeout`` exits with when it has ended its command.
_TIMED_OUT = 124
#: A turn's own account of its end.
_END = "ended.json"


@dataclass(frozen=True)
class Turn:
    """One run of the recipe's launch script."""

    #: From 1.
    number: int
    side: str
    #: Where its log and its output are.
    directory: Path
    #: The judged seconds, ``None`` where there is a problem.
    judged_s: float | None = None
    #: Why it was not measured; empty where it was.
    problem: str = ""
    job_id: str | None = None
    exit_code: int | None = None
    start_s: float | None = None
    end_s: float | None = None

    @property
    def name(self) -> str:
        """As its directory is called: ``3-B``."""
        return f"{self.number}-{self.side}"


@dataclass(frozen=True)
class Pair:
    """Two turns in a row, one of each side."""

    #: From 1.
    number: int
    a: Turn
    b: Turn

    @property
    def times_s(self) -> tuple[float, float] | None:
        """The judged seconds of A and B, ``None`` where one of them was not measured."""
        if self.a.judged_s is None or self.b.judged_s is None:
            return None
        return self.a.judged_s, self.b.judged_s

    @property
    def ratio(self) -> float | None:
        """Throughput of B over that of A."""
        return None if self.times_s is None else self.times_s[0] / self.times_s[1]


def ended_turns(plan: Plan, directory: Path) -> int:
    """How many turns have ended."""
    return sum((place / _END).is_file() for place in _places(plan, directory))


def read_pairs(plan: Plan, directory: Path, row: Baseline, log_format: LogFormat) -> tuple[Pair, ...]:
    """All pairs of a comparison, those included that are not there (yet)."""
    turns = [
        _read_turn(number, side, place, row, log_format)
        for number, (side, place) in enumerate(zip(plan.order, _places(plan, directory), strict=True), start=1)
    ]
    return tuple(_pair(number, turns[2 * number - 2 : 2 * number]) for number in range(1, plan.pairs + 1))


def _places(plan: Plan, directory: Path) -> list[Path]:
    return [directory / f"{number}-{side}" for number, side in enumerate(plan.order, start=1)]


def _pair(number: int, turns: Sequence[Turn]) -> Pair:
    a, b = sorted(turns, key=lambda turn: turn.side)
    return Pair(number, a, b)


def _read_turn(number: int, side: str, place: Path, row: Baseline, log_format: LogFormat) -> Turn:
    if not place.is_dir():
        return Turn(number, side, place, problem="has not started")
    end = _read_end(place)
    if end is None:
        return Turn(number, side, place, problem="has not ended")
    try:
        return Turn(number, side, place, _measure(place, end, row, log_format), **end)
    except RunError as error:
        # There is one job for all turns, and this is not about the others.
        fact = error.fact.replace(f"job {end['job_id']}", "the turn")
        return Turn(number, side, place, problem=fact, **end)


def _read_end(place: Path) -> dict[str, Any] | None:
    """How a turn ended by its own account, ``None`` where there is none."""
    try:
        told = json.loads((place / _END).read_text(encoding="utf-8"))
        return {
            "job_id": str(told["job_id"]),
            "exit_code": int(told["exit_code"]),
            "start_s": float(told["start_s"]),
            "end_s": float(told["end_s"]),
        }
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _measure(place: Path, end: dict[str, Any], row: Baseline, log_format: LogFormat) -> float:
    """The judged seconds of a turn that has ended.

    Raises:
        RunError: It failed, or its log cannot be judged.
    """
    state = {0: JobState.COMPLETED, _TIMED_OUT: JobState.TIMEOUT}.get(end["exit_code"], JobState.FAILED)
    status = JobStatus(state, exit_code=end["exit_code"], start_s=end["start_s"], end_s=end["end_s"])
    wanted = log_glob(row.framework, row.model, row.size, row.dtype, row.gpus)
    log, missing = None, None
    try:
        # Below the turn's directory all is as it is below the staging area.
        log = find_log(place, wanted, end["job_id"], nccl_trace=False)
    except RunError as error:
        missing = error
    run = Run(end["job_id"], status, log, place / "output")
    check_job(run)  # why it failed says more than that it left no log
    if missing is not None:
        raise missing
    return measure_as_documented(row, run, read_steps(row, run, log_format), log_format).judged_s
