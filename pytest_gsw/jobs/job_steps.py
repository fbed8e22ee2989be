"""What the steps of a job say of its end: a batch script may end with 0 although a step of it failed.

``srun … | tee log`` and ``srun … || true`` hide a step's exit code from the script; Slurm keeps it. A step has
failed unless it COMPLETED with exit code 0, or is excused. One that may fail by its name is, as the row's table says,
and so is a helper. That has no exit code of its own, and is not the step that trained. Nothing tells which of them
wrote the log, but the training ran for most of its helper's time, and COMPLETED. A helper is one of these:

- It still ran when the batch script ended, and Slurm ended it by a signal: a helper in the background. One that then
  ends itself with an exit code cannot be told from one that failed at the end: slurmctld may hear of the script's end
  first, so that neither the times nor DerivedExitCode tell. DerivedExitCode counts such a helper on 24.11, and not on
  22.05.
- The job's own script ended it (``kill`` of its srun, ``CANCELLED by`` the user): a helper that has done its work.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass

from pytest_gsw.common.text import plural
from pytest_gsw.jobs.model import JobState, JobStatus, JobStep, exit_and_signal

#: Steps of a job that a journal or a record keeps.
MOST_KEPT = 64

#: Slurm asks a step that outlives its script to end, and kills it when KillWait is over, which is 30 s unless
#: a site has less. One that was killed within this time of the script's end was killed by another: slurmctld
#: hears of a step's end after its script may have gone on, and so a second late.
KILL_WAIT_S = 2.0
#: For so much of a helper's time the training runs.
_MOST_OF_IT = 0.75
#: By what NeMo-Run runs its steps of one command.
_SHELL = "bash"
#: sacct takes 128 from a step's exit code above that; DerivedExitCode keeps it.
_CUT = 128 << 8


@dataclass(frozen=True)
class StepProblem:
    """Why a job that COMPLETED with exit code 0 did not end well."""

    #: What follows "job 7 completed, but ".
    fact: str
    #: Each failed step in one line, with its nodes.
    steps: tuple[str, ...] = ()


def problem_of(
    status: JobStatus, may_fail: Collection[str] = (), uid: int | None = None, excused: JobStep | None = None
) -> StepProblem | None:
    """What the steps of a job that COMPLETED with exit code 0 say against its end; ``None`` where they say nothing.

    Steps with the names ``may_fail`` may fail, and so may one that is ``excused``. ``uid`` is the user whose job it is,
    by default the session's.
    """
    uid = os.getuid() if uid is None else uid
    steps = status.steps or ()
    suspects = [step for step in steps if not is_well(step) and step.name not in may_fail and step != excused]
    exit_code, signal_number = exit_and_signal(status.derived_exit_code)
    worst = ((exit_code or 0) << 8) | signal_number
    failed = [
        step
        for step in suspects
        # By its own script, or with its job.
        if not (step.raw_state == f"CANCELLED by {uid}" or _ended_with_its_job(step, status, worst, uid))
    ] or [step for step in suspects if not _is_beside_training(step, steps)]
    if failed:
        first, more = failed[0], len(failed) - 1
        others = f", and {plural(more, 'more step')} failed" if more else ""
        return StepProblem(
            f"its step {first.id} ({first.name}) {how_it_ended(first)}{others}", tuple(map(line, failed))
        )
    if not steps and worst == signal.SIGTERM:
        # Steps were not told, or the site keeps none. slurmctld counts helpers, and most other ends are worse.
        return None
    if worst and not any(worst in {_step_status(step), _step_status(step) + _CUT} for step in steps):
        which = "" if status.steps is None else ", and none that is on record did"
        return StepProblem(f"one of its steps failed (DerivedExitCode {status.derived_exit_code}){which}")
    return None


def how_it_ended(step: JobStep) -> str:
    """The end of a step as a sentence has it: ``failed with exit code 1``, ``ended CANCELLED by signal 9``."""
    if not step.state.ended:
        return f"has no end on record: it is {step.raw_state or 'not known'}"
    ended = {JobState.FAILED: "failed", JobState.COMPLETED: "ended"}.get(step.state, f"ended {step.state.value}")
    if step.signal:
        return f"{ended} by signal {step.signal}"
    return f"{ended} with exit code {step.exit_code}" if step.exit_code else ended


def line(step: JobStep) -> str:
    """A step in one line: ``0 bash FAILED 1:0 on n001``."""
    where = f" on {step.nodes}" if step.nodes else ""
    code = "" if step.exit_code is None else f" {step.exit_code}:{step.signal}"
    return f"{step.id} {step.name} {step.raw_state or step.state.value}{code}{where}"


def limited_steps(steps: tuple[JobStep, ...] | None) -> tuple[JobStep, ...] | None:
    """The steps that a journal and a record hold: at most :data:`MOST_KEPT`, those that did not end well first."""
    return tuple(sorted(steps, key=is_well)[:MOST_KEPT]) if steps is not None and len(steps) > MOST_KEPT else steps


def boost_step(steps: Collection[JobStep]) -> JobStep | None:
    """The step by which NeMo-Run turns the GPUs' boost up, if that failed: its first shell, before the training."""
    shell = next((step for step in steps if step.name == _SHELL), None)
    if shell is None or not shell.exit_code:
        return None
    begin_s, end_s = _span(shell)
    later = (_span(step) for step in steps if is_well(step))
    return shell if any(then_s >= end_s and until_s - then_s > end_s - begin_s for then_s, until_s in later) else None


def is_well(step: JobStep) -> bool:
    """Whether a step COMPLETED with exit code 0."""
    return step.state is JobState.COMPLETED and not step.exit_code and not step.signal


def _ended_with_its_job(step: JobStep, status: JobStatus, worst: int, uid: int) -> bool:
    """Whether a step that did not end well still ran when the batch script had ended, and Slurm ended it for that.

    ``worst`` is the worst end of the steps that Slurm has counted, as wait(2) has it.
    """
    if step.end_s is None or status.end_s is None:
        return False
    # "CANCELLED by" another user is an end of neither Slurm nor the job's script.
    if step.raw_state not in {"CANCELLED", f"CANCELLED by {uid}"}:
        return False
    if step.signal == signal.SIGTERM:
        # 24.11 counts helpers, and "by" a user is none of Slurm's own ends.
        return step.end_s >= status.end_s and (step.raw_state == "CANCELLED" or _step_status(step) != worst)
    return step.signal == signal.SIGKILL and step.end_s >= status.end_s + KILL_WAIT_S


def _is_beside_training(step: JobStep, steps: Collection[JobStep]) -> bool:
    """Whether a step is not the one that trained: for most of its time another ran beside it, and ended well before it.

    A helper begins before the training and ends after it. Slurm has whole seconds: a time may be one too long or short.
    """
    own = _span(step)
    for begin_s, end_s in map(_span, filter(is_well, steps)):
        shared_s, wanted_s = end_s - max(begin_s, own[0]), _MOST_OF_IT * (own[1] - own[0])
        if end_s <= own[1] and shared_s + 1 >= wanted_s and end_s - begin_s - 1 >= wanted_s + _MOST_OF_IT:
            return not step.exit_code
    return False


def _span(step: JobStep) -> tuple[float, float]:
    """When a step began and ended; no time compares with one that is not known."""
    return math.nan if step.start_s is None else step.start_s, math.nan if step.end_s is None else step.end_s


def _step_status(step: JobStep) -> int:
    """A step's end as wait(2) has it; larger is worse, as Slurm counts."""
    return ((step.exit_code or 0) << 8) | step.signal
