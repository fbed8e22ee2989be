"""The settings that the lines of measured steps state: the row's, and of a model that trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_gsw.common.text import plural
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.reader import line_number
from pytest_gsw.stats.measurement import TimedStep
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, parse_statistic
from pytest_gsw.validation.run import Problem, Run, refuse
from pytest_gsw.validation.training import step_number, still_problem


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
        ("global batch size", baseline.global_batch_size, [step.setup.global_batch_size for step in steps]),
        ("sequence length", baseline.sequence_length, [step.setup.sequence_length for step in steps]),
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
    left = replace(parse_statistic(baseline.statistic), first=step_number(steps, stray) + 1)
    return f"write 'statistic: {left}' in the table, which leaves those steps out, or run without a ramp-up"
