"""Whether a log holds the steps that its run must have: enough of them, and the last one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_gsw.common.words import counted
from pytest_gsw.errors import CutShortError
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.reader import line_number, reading
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.performance.measurement import TimedStep, log_interval
from pytest_gsw.runs.agreement import stray_problem
from pytest_gsw.runs.problem import Problem
from pytest_gsw.runs.run import Run, last_lines, log_evidence, refused, replayed
from pytest_gsw.runs.trained import skipped_problem, steps_each_line
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline

#: So few lines of a log may be all there are at its interval.
_FEW_LINES = 3
_TWO_ATTEMPTS = "two attempts of the job may stand in one log: run it again, or correct recipe.steps in the table"


def check_steps(
    baseline: Baseline,
    run: Run,
    log: StepLog,
    timed: tuple[TimedStep, ...],
    steps: int | None,
    first_index: int | None,
) -> None:
    """Make sure that a log holds enough of the run's steps, and the last one.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        timed: Those of them that have a time.
        steps: Steps that the run was to do, ``None`` where nobody says.
        first_index: The number that the log's format gives to the first step.

    Raises:
        LogError: It does not.
    """
    series = baseline.judged_by.series
    of_saves = series is Series.SAVES
    interval = log_interval(timed, first_index)
    covered = len(timed) * interval
    last = log.steps[-1].index if log.steps else None
    final = final_step(baseline, log, steps, first_index)
    each_line = log_interval(log.steps, first_index)
    ended = final is not None and last is not None and last + (each_line if of_saves else interval) > final
    if steps is not None and not of_saves and log.total_steps is not None and log.total_steps < steps:
        # A format that logs one figure for the whole run would show nothing else of it.
        raise _cut_short(f"the run was to do {counted(log.total_steps, 'step')}, {steps} needed", run, log)
    of_run = log.total_steps if steps is None else steps
    if of_run is not None and not of_saves and last is None and len(timed) > of_run:
        found = f"the log holds {counted(len(timed), 'step')} and nothing that numbers them"
        raise refused(Problem(f"{found}, and the run has {of_run}", _TWO_ATTEMPTS), run, log)
    min_steps = baseline.min_steps if steps is None else min(baseline.min_steps, steps)
    # Where the end is there, lines are lost, not steps: a tenth of five lines for ten steps each is less than one.
    if covered < (min_steps // interval * interval if ended else min_steps):
        logged = baseline.recipe.logged_steps or steps if not of_saves else None
        wanted = f"{min_steps} needed" if logged is None else f"{min_steps} of {logged} needed"
        raise _cut_short(
            f"the log holds {counted(covered, 'checkpoint save' if of_saves else 'step')}, {wanted}", run, log
        )
    if not of_saves:
        each = steps_each_line(log, each_line)
        problem = skipped_problem(baseline, log, each, min_steps)
        if problem is not None:
            raise refused(problem, run, log)
    if final is not None and not ended:
        raise _cut_short(f"the log ends at step {last}, the run's last step is {final}", run, log)
    # A run that goes on beyond the table's last step ends at the log's.
    beyond = final is not None and last is not None and last > final
    if not replayed(run) and (steps is None or beyond):
        _check_own_end(run, log, first_index, each_line)


def final_step(baseline: Baseline, log: StepLog, steps: int | None, first_index: int | None) -> int | None:
    """The number of the last step of a run of so many; ``None`` where nobody says, or the log numbers none."""
    if steps is None or first_index is None or baseline.recipe.logged_steps is not None:
        return None
    if not log.steps or log.steps[-1].index is None:
        return None
    return first_index + steps - 1


def check_measured(
    baseline: Baseline,
    run: Run,
    log: StepLog,
    measured: Sequence[int],
    timed: tuple[TimedStep, ...],
    first_index: int | None,
) -> None:
    """Make sure that each measured step was set up as the row is, as far as its line says so.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        measured: The positions of those that the row's statistic is taken over.
        timed: What it is taken over: steps, or saves, of which no line states a batch.
        first_index: The number that the log's format gives to the first step.

    Raises:
        LogError: One was not.
    """
    path = run.log
    if path is None or len(timed) != len(log.steps) or baseline.judged_by.series is Series.SAVES:
        return

    def place(step: Step) -> str:
        return str(path) if step.offset is None else f"{path}:{line_number(path, step.offset)}"

    problem = stray_problem(baseline, log.steps, measured, log_interval(timed, first_index), place)
    if problem is not None:
        raise refused(problem, run, log)


def check_whole(baseline: Baseline, run: Run, log: StepLog) -> None:
    """Make sure that a log was not cut where its steps do not tell.

    A published excerpt may end anywhere; but what names its job is that job's own log.
    """
    path = run.log
    if path is None or (replayed(run) and log.identity.job_id is None):
        return
    of_saves = baseline.judged_by.series is Series.SAVES
    with reading(path):
        problem = cut_problem(path, log, of_saves=of_saves)
    if problem is not None:
        raise refused(problem, run, log)


def _check_own_end(run: Run, log: StepLog, first_index: int | None, interval: int) -> None:
    """Make sure that a log whose last step no table states has the one that it names itself.

    Published logs often stop before it: somebody had seen enough. A job that ended well does not.
    """
    last = log.steps[-1].index if log.steps else None
    if log.total_steps is None or first_index is None or last is None:
        return
    final = first_index + log.total_steps - 1
    if last + _steps_each_line(log, first_index, interval) <= final:
        done = last - first_index + 1
        raise _cut_short(
            f"the log ends at step {last}, and says itself that the last one is {final}",
            run,
            log,
            then=f"if its script ends the run there on purpose, write 'recipe: {{steps: {done}}}' in the table",
        )


def _steps_each_line(log: StepLog, first_index: int, interval: int) -> int:
    """How many steps a line of the log stands for, guessed where the lines are too few to tell: 5 and 10 mean 5."""
    numbers = [step.index for step in log.steps if step.index is not None]
    if interval > 1 or not 2 <= len(numbers) <= _FEW_LINES:
        return interval
    gap = numbers[-1] - numbers[-2]
    # The first step may have a line whatever the interval.
    regular = gap > 0 and all((number - first_index + 1) % gap == 0 for number in numbers if number != first_index)
    return gap if regular else 1


def _cut_short(fact: str, run: Run, log: StepLog, then: str = "look at the last lines") -> CutShortError:
    return CutShortError(
        fact,
        evidence=log_evidence(run, log),
        tail=last_lines(run),
        advice=f"the run stopped early or its log was cut; {then}",
    )


# -- whether a log is whole ------------------------------------------------------------------------


#: Megatron announces a save before it tells how long it took.
_ANNOUNCED = b"saving checkpoint at iteration "
_LOOK = "the job's output was cut: look at quotas and at the file system of the log, then at its last lines"


def cut_problem(path: Path, log: StepLog, *, of_saves: bool) -> Problem | None:
    """What tells that the log of a job which ended well was cut.

    Args:
        path: The log.
        log: Its steps.
        of_saves: Whether it is read for checkpoint saves.
    """
    if log.open_line is not None:
        return Problem("the log ends in the middle of a line", _LOOK, (("last line", log.open_line),))
    if log.says_its_end is False:
        return Problem(f"the log lacks what {log.format} prints when a run has ended", _LOOK)
    if of_saves and log.steps:
        announced = announced_saves(path, log)
        if announced > len(log.checkpoint_saves_s):
            took = counted(len(log.checkpoint_saves_s), "checkpoint save")
            return Problem(f"the log announces {announced} checkpoint saves, and has the time of {took}", _LOOK)
    return None


def announced_saves(path: Path, log: StepLog) -> int:
    """How many checkpoints the last attempt in a log begins to save."""
    announced = matching_records(path, (_ANNOUNCED,), start=log.steps[0].offset or 0)
    return len({record.partition(_ANNOUNCED)[2].strip().partition(b" ")[0] for _, record in announced})
