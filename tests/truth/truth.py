"""What is true of a simulated run, computed the plain way from its steps, and not from its log."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_gsw.demo.simulation import SimulatedRun
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import parse_statistic
from tests.writers import UNLOGGED_STEPS


def logged_steps(run: SimulatedRun) -> Sequence[tuple[int | None, float]]:
    """Number and seconds of every step that the run's log tells, as a right reader has them."""
    row, steps_s = run.baseline, run.steps_s
    if row.judged_by.series is Series.SAVES:
        return [(None, seconds) for seconds in run.checkpoint_saves_s]
    match row.workload.log_format:
        case "paxml":
            return [(None, seconds) for seconds in steps_s[: run.logged_steps]]
        case "maxtext":  # the median of two ranks
            return [(index, sum(pair) / 2) for index, pair in enumerate(zip(steps_s, run.second_rank_s, strict=True))]
        case "megatron":
            every = run.log_interval
            ends = range(every, len(steps_s) + 1, every)
            return [(end, statistics.fmean(steps_s[end - every : end])) for end in ends]
        case "torchtitan" | "composer" | "deepspeed" | "nanotron" | "olmo-core":
            return list(enumerate(steps_s, start=1))[UNLOGGED_STEPS.get(row.workload.log_format, 0) :]
        case "huggingface":
            return [(None, statistics.fmean(steps_s))]
        case _:
            return list(enumerate(steps_s))


def loss_count(run: SimulatedRun) -> int | None:
    """How many losses the run's log tells; ``None`` where its lines have none."""
    steps = len(run.steps_s)
    match run.baseline.workload.log_format:
        case "deepspeed":
            return None
        case "paxml":
            return steps // 10
        case "megatron":
            return steps // run.log_interval
        case "huggingface":
            return steps // max(1, steps // 10)
        case _:
            return steps


def statistic_s(text: str, logged: Sequence[tuple[int | None, float]]) -> float:
    """The statistic, computed the plain way."""
    wanted = parse_statistic(text)
    seconds = [value for _, value in logged]
    if wanted.kind == "last":
        return seconds[-1]
    numbers = [position if index is None else index for position, (index, _) in enumerate(logged)]

    def bound(given: int | None, default: int) -> int:
        return default if given is None else numbers[given] if given < 0 else given

    low, high = bound(wanted.first, numbers[0]), bound(wanted.last, numbers[-1])
    chosen = [value for number, value in zip(numbers, seconds, strict=True) if low <= number <= high]
    return statistics.median(chosen) if wanted.kind == "median" else sum(chosen) / len(chosen)
