"""Training in the steps of a run: their settings, skipped steps, and losses that stand still or do not fall."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from pytest_gsw.common.text import plural
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.reader import line_number
from pytest_gsw.stats.measurement import TimedStep, log_interval
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, parse_statistic
from pytest_gsw.validation.run import Problem, Run, refuse


def step_number(steps: Sequence[Step], position: int) -> int:
    """The number of the step at a position: the log's, or the position if the log numbers none."""
    index = steps[position].index
    return position if index is None else index


#: Half precision begins with a loss scale of up to 2^32 (Megatron's ``initial-loss-scale``), which each step that
#: overflows halves: so many steps may be skipped before the first that trains.
START_UP_STEPS = 32


SCALED_DTYPES = frozenset({"fp16"})


#: Later, a scaler tries a larger scale once in 1000 steps: a run that skips one step in ten does not train.
_MOST_SKIPPED = 0.1


#: Fewest losses with a first and a last tenth.
_FEWEST_LOSSES = 10


#: Fewest steps of a model that stands still: two equal losses may be one rounding, and three are none of a run that
#: moves. At the end of a run that has moved, so few may be an optimizer that has converged: there, five.
_FEWEST_STILL, _FEWEST_AT_END = 3, 5


#: A loss below this, or below this share of the run's first, has been learnt by heart: no gradient is left. A model
#: that has died predicts nothing, and its loss is far above.
_LEARNT, _LEARNT_SHARE = 0.01, 0.1


def steps_each_line(log: StepLog, interval: int) -> int:
    """The steps in one entry of a log: its interval, or all if the log has one figure for the run.

    Args:
        log: The steps.
        interval: Steps from one line to the next, from their numbers.
    """
    if len(log.steps) != 1 or log.steps[0].index is not None:
        return interval
    return log.total_steps or (interval if log.overflows is None else log.overflows.of)


def is_trained(step: Step, each_line: int) -> bool:
    """True if a step, or all but a tenth of a line's steps, was trained; others are faster, and are not measured."""
    return min(step.skipped, each_line) <= each_line * _MOST_SKIPPED


def skipped_problem(baseline: Baseline, log: StepLog, each_line: int, min_steps: int) -> Problem | None:
    """The problem of too few trained steps, if there is one.

    Args:
        baseline: The row; in half precision the first steps may be skipped, until the loss scale fits.
        log: The steps.
        each_line: Steps in one entry of the log.
        min_steps: Fewest steps that the log must hold.
    """
    skipped = [min(step.skipped, each_line) for step in log.steps]
    if not any(skipped):
        return None
    total = len(skipped) * each_line
    scaled = baseline.workload.dtype in SCALED_DTYPES
    needed = math.ceil(min_steps / 2) if scaled else min_steps
    trained = each_line * sum(is_trained(step, each_line) for step in log.steps)
    start = START_UP_STEPS if scaled else 0
    late = sum(count for position, count in enumerate(skipped) if position * each_line >= start)
    if trained < needed:
        fact = f"the optimizer skipped {sum(skipped)} of {plural(total, 'step')}: {trained} trained, {needed} needed"
    elif late > _MOST_SKIPPED * max(0, total - start):
        behind = f" behind the first {start}" if start else ""
        fact = f"the optimizer skipped {late} of {plural(total - start, 'step')}{behind}, more than a tenth"
    else:
        return None
    return Problem(fact, "a skipped step trains nothing and is faster: look at the loss scale, the loss and the data")


def still_problem(log: StepLog, measured: Sequence[int] = ()) -> Problem | None:
    """A model that stands still: a gradient norm of 0 and one loss, in all measured steps or from a step to the end.

    Either alone is none: norms and losses are rounded. Skipped steps are neither.

    Args:
        log: The steps.
        measured: The positions of the steps that the row's statistic is taken over.
    """
    losses = log.zero_norm_losses
    has_lines = len(losses) == len(log.steps)  # else one step is all of the run, which prints losses in between
    places = [at for at in range(len(losses)) if not (has_lines and log.steps[at].skipped)]
    still = [*takewhile(lambda at: losses[at] == losses[places[-1]], reversed(places))][::-1]
    if len(still) < (_FEWEST_STILL if len(still) == len(places) else _FEWEST_AT_END):
        still = [at for at in measured if has_lines and losses and losses[at] == losses[measured[0]]]
        if len(still) < max(len(measured), _FEWEST_STILL):
            return None
    loss, first_loss = losses[still[0]], (*(log.losses or ()), 0.0)[0]
    if abs(loss) < max(_LEARNT, _LEARNT_SHARE * abs(first_loss)):
        return None
    of = "step" if has_lines and log_interval([step.index for step in log.steps]) == 1 else "line"
    first, last = (step_number(log.steps, at) if has_lines else at + 1 for at in (still[0], still[-1]))
    return Problem(
        f"the model does not train: gradient norm 0 in {len(still)} of {plural(len(still), of)}",
        "its weights do not change: look at the loss, the data, frozen parameters and what the optimizer is given",
        (("loss", f"{loss:.10g} in each, from {of} {first} to {last}"),),
    )


def loss_problem(baseline: Baseline, log: StepLog) -> Problem | None:
    """A loss that is missing, or that does not fall although the table requires it."""
    if log.without_loss:
        index = log.without_loss[0]
        where = "a step" if index is None else f"step {index}"
        return Problem(
            f"{where} has no loss: {len(log.without_loss)} of {plural(len(log.steps), 'step')}",
            f"every step line of {log.format} has one: find out what changed its log",
        )
    if baseline.criterion.loss != "falls":
        return None
    if log.losses is None:
        return Problem(
            f"the row asks that the loss falls, and {log.format} prints no loss",
            f"remove 'loss: falls' at {baseline.location}, or print the loss of each step",
        )
    if len(log.losses) < _FEWEST_LOSSES:
        return Problem(
            f"the log holds {plural(len(log.losses), 'loss', 'losses')}, too few to tell whether it falls",
            f"let the run log {_FEWEST_LOSSES} losses or more, or remove 'loss: falls' at {baseline.location}",
        )
    count = len(log.losses) // _FEWEST_LOSSES
    first, last = statistics.fmean(log.losses[:count]), statistics.fmean(log.losses[-count:])
    if last < first:
        return None
    return Problem(
        f"the loss does not fall: {first:.4g} over the first tenth of the steps, {last:.4g} over the last",
        "a run that does not learn may leave out work: look at the learning rate, the data and the optimizer",
    )


# -- The settings that the lines of measured steps state ------------------------------------------


def check_measured(
    baseline: Baseline, run: Run, log: StepLog, measured: Sequence[int], timed: tuple[TimedStep, ...], each_line: int
) -> None:
    """Check that each measured step has the row's settings, if its line states them.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        measured: The positions of the steps that the row's statistic is taken over.
        timed: The values that it is taken over: steps, or saves, whose lines state no batch.
        each_line: Steps in a line.

    Raises:
        LogError: One has other settings.
    """
    path = run.log
    if path is None or len(timed) != len(log.steps) or baseline.judged_by.series is Series.SAVES:
        return

    def place(step: Step) -> str:
        return str(path) if step.offset is None else f"{path}:{line_number(path, step.offset)}"

    refuse(still_problem(log, measured), run, log)
    refuse(stray_problem(baseline, log.steps, measured, each_line, place), run, log)


def stray_problem(
    baseline: Baseline, steps: Sequence[Step], measured: Sequence[int], each_line: int, place: Callable[[Step], str]
) -> Problem | None:
    """Measured steps with other settings than the row's on their own lines; ``None`` if there are none.

    Args:
        baseline: The row.
        steps: The log's steps.
        measured: The positions of the steps that the row's statistic is taken over.
        each_line: Steps in a line. A line with another value than the line before may have steps of both.
        place: Returns the place of a step's line.
    """
    for name, wanted, values in (
        ("global batch size", baseline.batch.global_batch_size, [step.setup.global_batch_size for step in steps]),
        ("sequence length", baseline.workload.sequence_length, [step.setup.sequence_length for step in steps]),
    ):
        if wanted is None or set(values) <= {None, wanted}:
            continue
        strays = [at for at in measured if _stray_values(values, at, each_line, wanted)]
        if not strays:
            continue
        of = plural(len(measured), "measured step" if each_line == 1 else "measured line")
        fact = f"{len(strays)} of {of} {'was' if len(strays) == 1 else 'were'} not the row's"
        value = _stray_values(values, strays[0], each_line, wanted)[-1]
        evidence = [("said at", place(steps[strays[0]]))]
        changes = _find_change(values, measured)
        if changes is not None:
            step = f"step {step_number(steps, changes)}: from {values[changes - 1]} to {values[changes]}"
            evidence = [("changes at", f"{place(steps[changes])}, {step}")]
        return Problem(
            f"{fact}: {name} {value} in the log, {wanted} in the row",
            _without(baseline, steps, strays[-1], measured[-1]),
            (*evidence, ("baseline", str(baseline.location))),
        )
    return None


def _stray_values(values: Sequence[int | None], at: int, each_line: int, wanted: int) -> list[int]:
    """The values of the lines that a step may belong to, if they are not the row's."""
    lines = values[max(0, at - 1) : at + 1] if each_line > 1 else values[at : at + 1]
    return [value for value in lines if value is not None and value != wanted]


def _find_change(values: Sequence[int | None], measured: Sequence[int]) -> int | None:
    """The position at which the lines' value first changes within the measured steps, or as they begin."""
    steps = range(max(measured[0], 1), measured[-1] + 1)
    return next((at for at in steps if values[at] is not None and values[at - 1] not in {None, values[at]}), None)


def _without(baseline: Baseline, steps: Sequence[Step], stray: int, last: int) -> str:
    """The advice that leaves out the last step with other settings, and those before it."""
    if stray >= last:
        return "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    left = replace(parse_statistic(baseline.criterion.statistic), first=step_number(steps, stray) + 1)
    return f"write 'statistic: {left}' in the table, which leaves those steps out, or run without a ramp-up"
