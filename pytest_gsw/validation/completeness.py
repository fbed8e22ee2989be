"""Completeness of a log: enough steps, the last one, and no cut."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.common.text import plural
from pytest_gsw.errors import IncompleteLogError
from pytest_gsw.logs import reader, scan
from pytest_gsw.logs.model import StepLog
from pytest_gsw.stats.measurement import TimedStep, log_interval
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.run import Problem, Run, last_lines, log_evidence, refuse, replayed
from pytest_gsw.validation.training import skipped_problem, steps_each_line

#: With no more lines than this, a log may still have all lines of its interval.
_FEW_LINES = 3


_TWO_ATTEMPTS = "two attempts of the job may be in one log: run it again, or correct recipe.steps in the table"


def check_steps(
    baseline: Baseline, run: Run, log: StepLog, timed: tuple[TimedStep, ...], steps: int | None, first_index: int | None
) -> int:
    """Check that a log holds enough of the run's steps, and the last one.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        timed: Those of them that have a time.
        steps: Planned steps of the run; ``None`` if unknown.
        first_index: The number that the log's format gives to the first step.

    Returns:
        The number of steps in each line.

    Raises:
        LogError: It does not.
    """
    series = baseline.judged_by.series
    if series is Series.FIGURES and not log.steps:
        return 1  # a benchmark's format checks itself whether its run is complete
    if not run.is_part:
        refuse(_resumed_problem(run, log, first_index), run, log)
    steps = None if run.is_cut else steps
    of_saves = series is Series.SAVES
    interval = log_interval([step.index for step in timed], first_index)
    covered = len(timed) * interval
    last = log.steps[-1].index if log.steps else None
    final = final_step(baseline, log, steps, first_index)
    is_each_timed = len(timed) == len(log.steps) and not of_saves
    each_line = interval if is_each_timed else log_interval([step.index for step in log.steps], first_index)
    ended = final is not None and last is not None and last + (each_line if of_saves else interval) > final
    if steps is not None and not of_saves and log.total_steps is not None and log.total_steps < steps:
        # A format with one figure for the whole run would not show it otherwise.
        is_cut = first_index is not None and last is not None and last + interval < first_index + log.total_steps
        cut = f"the log ends at step {last}; " if is_cut else ""
        raise _incomplete_log(f"{cut}the run was to do {plural(log.total_steps, 'step')}, {steps} needed", run, log)
    of_run = log.total_steps if steps is None else steps
    if of_run is not None and not of_saves and last is None and len(timed) > of_run:
        held = f"the log holds {plural(len(timed), 'step')} and nothing that numbers them"
        refuse(Problem(f"{held}, and the run has {of_run}", _TWO_ATTEMPTS), run, log)
    min_steps = baseline.criterion.min_steps if steps is None else min(baseline.criterion.min_steps, steps)
    # If the last step is there, lines are lost, not steps: a tenth of five lines for ten steps each is less than one.
    if covered < (min_steps // interval * interval if ended else min_steps):
        logged = baseline.recipe.logged_steps or steps if not of_saves else None
        wanted = f"{min_steps} needed" if logged is None else f"{min_steps} of {logged} needed"
        held = plural(covered, "checkpoint save" if of_saves else "step")
        raise _incomplete_log(f"the log holds {held}, {wanted}", run, log)
    if not of_saves:
        each = steps_each_line(log, each_line)
        refuse(skipped_problem(baseline, log, each, min_steps), run, log)
    if final is not None and not ended:
        raise _incomplete_log(f"the log ends at step {last}, the run's last step is {final}", run, log)
    # A run that goes on beyond the table's last step ends at the log's.
    beyond = final is not None and last is not None and last > final
    if steps is None or beyond:
        _check_own_end(run, log, first_index, each_line)
    return interval


def final_step(baseline: Baseline, log: StepLog, steps: int | None, first_index: int | None) -> int | None:
    """The number of the last planned step; ``None`` if the plan is unknown, or the log numbers none."""
    if steps is None or first_index is None or baseline.recipe.logged_steps is not None:
        return None
    if not log.steps or log.steps[-1].index is None:
        return None
    return first_index + steps - 1


def check_whole(baseline: Baseline, run: Run, log: StepLog) -> None:
    """Check that a log was not cut in a way that its steps do not show.

    A published excerpt may end anywhere; but a log with a job id is that job's own.
    """
    path = run.log
    if path is None or run.is_cut or (replayed(run) and log.identity.job_id is None):
        return
    with reader.reading(path):
        problem = cut_problem(path, log, of_saves=baseline.judged_by.series is Series.SAVES)
    refuse(problem, run, log, IncompleteLogError)


def _check_own_end(run: Run, log: StepLog, first_index: int | None, interval: int) -> None:
    """Check that a log has the last step that it states itself, if no table states it."""
    last = log.steps[-1].index if log.steps else None
    if run.is_cut or log.total_steps is None or first_index is None or last is None:
        return
    final = first_index + log.total_steps - 1
    if last + _steps_each_line(log, first_index, interval) <= final:
        done = last - first_index + 1
        raise _incomplete_log(
            f"the log ends at step {last}, and states {final} as its last step",
            run,
            log,
            then=f"if its script ends the run there on purpose, write 'recipe: {{steps: {done}}}' in the table",
        )


#: Lines of frameworks that load a checkpoint, and those among them after which steps count from the beginning.
_LOADS = (b"oaded checkpoint", b"oading checkpoint", b"oading the checkpoint", b"estored", b"estoring", b"esuming from")
_NO_STEPS = re.compile(rb"[Nn]ot restoring|checkpoint shards|restoring params|RestoreConfig|\b(?:iteration|step) 0\b")
#: DeepSpeed has no time of a run's first two steps.
_UNTIMED_STEPS = 2


def _resumed_problem(run: Run, log: StepLog, first_index: int | None) -> Problem | None:
    """The fact that a run has loaded a checkpoint instead of doing its first steps; ``None`` if it has not."""
    first = log.steps[0] if log.steps else None
    if run.log is None or first is None or first.index is None or first_index is None:
        return None
    done = first.index - first_index
    if done > _UNTIMED_STEPS:
        done -= _steps_each_line(log, first_index, log_interval([step.index for step in log.steps])) - 1
    if done <= _UNTIMED_STEPS:
        return None
    records = scan.matching_records(run.log, _LOADS, start=log.begin, stop=first.offset or 0)
    at, load = max((record for record in records if not _NO_STEPS.search(record[1])), default=(0, b""))
    if not load and log.attempts < 2:
        return None
    line = (("loaded", scan.safe_text(load)), ("said at", f"{run.log}:{reader.line_number(run.log, at)}"))
    fact = f"the run began again at step {first_index + done} after loading a checkpoint"
    return Problem(fact, "remove the checkpoint, or do not resume from it, and run it again", line if load else ())


def _steps_each_line(log: StepLog, first_index: int, interval: int) -> int:
    """The steps in a line of the log, guessed if it has few lines: 5 and 10 mean 5."""
    numbers = [step.index for step in log.steps if step.index is not None]
    if interval > 1 or not 2 <= len(numbers) <= _FEW_LINES:
        return interval
    gap = numbers[-1] - numbers[-2]
    # The first step may have a line whatever the interval.
    regular = gap > 0 and all((number - first_index + 1) % gap == 0 for number in numbers if number != first_index)
    return gap if regular else 1


def _incomplete_log(fact: str, run: Run, log: StepLog, then: str = "look at the last lines") -> IncompleteLogError:
    return IncompleteLogError(
        fact,
        evidence=log_evidence(run, log),
        tail=last_lines(run),
        advice=f"the run stopped early or its log was cut; {then}",
    )


#: Megatron announces a save before it prints the save's time.
_SAVE_ANNOUNCEMENT = b"saving checkpoint at iteration "


_LOOK = "the job's output was cut: look at quotas and at the file system of the log, then at its last lines"


def cut_problem(path: Path, log: StepLog, *, of_saves: bool) -> Problem | None:
    """Evidence that the log of a job which ended well was cut.

    Args:
        path: The log.
        log: Its steps.
        of_saves: True if it is read for checkpoint saves.
    """
    if log.open_line is not None:
        return Problem("the log ends in the middle of a line", _LOOK, (("last line", log.open_line),))
    if log.has_end_marker is False:
        return Problem(f"the log lacks what {log.format} prints when a run has ended", _LOOK)
    if of_saves and log.steps:
        records = scan.matching_records(path, (_SAVE_ANNOUNCEMENT,), start=log.steps[0].offset or 0)
        announced = len({record.partition(_SAVE_ANNOUNCEMENT)[2].strip().partition(b" ")[0] for _, record in records})
        if announced > len(log.checkpoint_saves_s):
            took = plural(len(log.checkpoint_saves_s), "checkpoint save")
            return Problem(f"the log announces {announced} checkpoint saves, and has the time of {took}", _LOOK)
    return None
