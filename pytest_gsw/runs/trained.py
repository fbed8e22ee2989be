"""Whether the steps of a run trained something: skipped steps, losses, attempts that diverged."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_gsw.common.words import counted
from pytest_gsw.logs.model import Diverged, Step, StepLog
from pytest_gsw.runs.problem import Problem
from pytest_gsw.tables.model import Baseline

#: Half precision begins with a loss scale of up to 2^32 (Megatron's ``initial-loss-scale``), which each step that
#: overflows halves: so many steps may be skipped before the first that trains.
START_UP_STEPS = 32
SCALED_DTYPES = frozenset({"fp16"})
#: Behind that, a scaler tries a larger scale once in 1000 steps: a run that skips one step in ten does not train.
_MOST_SKIPPED = 0.1
#: So many losses have a first and a last tenth.
_FEWEST_LOSSES = 10


def steps_each_line(log: StepLog, interval: int) -> int:
    """How many steps one entry of a log stands for: its interval, or all where the log has one figure for the run.

    Args:
        log: The steps.
        interval: Steps from one line to the next, as their numbers tell.
    """
    if len(log.steps) != 1 or log.steps[0].index is not None:
        return interval
    return log.total_steps or (interval if log.overflows is None else log.overflows.of)


def is_trained(step: Step, each_line: int) -> bool:
    """Whether a step, or of a line's steps all but a tenth, were trained; others are faster, and are not measured."""
    return min(step.skipped, each_line) <= each_line * _MOST_SKIPPED


def skipped_problem(baseline: Baseline, log: StepLog, each_line: int, min_steps: int) -> Problem | None:
    """Too few trained steps.

    Args:
        baseline: The row; in half precision the first steps may be skipped, until the loss scale fits.
        log: The steps.
        each_line: Steps that one entry of the log stands for.
        min_steps: Fewest steps that the log must hold.
    """
    skipped = [min(step.skipped, each_line) for step in log.steps]
    if not any(skipped):
        return None
    total = len(skipped) * each_line
    scaled = baseline.dtype in SCALED_DTYPES
    needed = math.ceil(min_steps / 2) if scaled else min_steps
    trained = each_line * sum(is_trained(step, each_line) for step in log.steps)
    start = START_UP_STEPS if scaled else 0
    late = sum(count for position, count in enumerate(skipped) if position * each_line >= start)
    if trained < needed:
        fact = f"the optimizer skipped {sum(skipped)} of {counted(total, 'step')}: {trained} trained, {needed} needed"
    elif late > _MOST_SKIPPED * max(0, total - start):
        behind = f" behind the first {start}" if start else ""
        fact = f"the optimizer skipped {late} of {counted(total - start, 'step')}{behind}, more than a tenth"
    else:
        return None
    return Problem(fact, "a skipped step trains nothing and is faster: look at the loss scale, the loss and the data")


def loss_problem(baseline: Baseline, log: StepLog) -> Problem | None:
    """A loss that is missing, or that does not fall where the table asks it to."""
    if log.without_loss:
        index = log.without_loss[0]
        where = "a step" if index is None else f"step {index}"
        return Problem(
            f"{where} has no loss: {len(log.without_loss)} of {counted(len(log.steps), 'step')}",
            f"every step line of {log.format} has one: find out what changed its log",
        )
    if baseline.loss != "falls":
        return None
    if log.losses is None:
        return Problem(
            f"the row asks that the loss falls, and {log.format} prints no loss",
            f"remove 'loss: falls' at {baseline.location}, or print the loss of each step",
        )
    if len(log.losses) < _FEWEST_LOSSES:
        return Problem(
            f"the log holds {counted(len(log.losses), 'loss', 'losses')}, too few to tell whether it falls",
            f"let the run log {_FEWEST_LOSSES} losses or more, or remove 'loss: falls' at {baseline.location}",
        )
    first, last = _tenths(log.losses)
    if last < first:
        return None
    return Problem(
        f"the loss does not fall: {first:.4g} over the first tenth of the steps, {last:.4g} over the last",
        "a run that does not learn may leave out work: look at the learning rate, the data and the optimizer",
    )


def _tenths(losses: Sequence[float]) -> tuple[float, float]:
    count = len(losses) // _FEWEST_LOSSES
    return statistics.fmean(losses[:count]), statistics.fmean(losses[-count:])


def diverged_fact(diverged: Diverged, attempts: int) -> str:
    """What became of an attempt before the last one."""
    at = "" if diverged.index is None else f" at step {diverged.index}"
    return f"attempt {diverged.attempt} of {attempts} diverged{at}: {diverged.text}"
