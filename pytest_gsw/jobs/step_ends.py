"""Ends of a job's steps: a batch script may end with 0 although a step of it failed.

``srun … | tee log`` and ``srun … || true`` hide a step's exit code from the script; Slurm keeps it. A step has
failed unless it COMPLETED with exit code 0, or is excused. A step is excused if the row's table lists its name, or if
it is a helper: it has no exit code of its own, and is not the step that trained. No record names the step that wrote
the log, but the training ran for most of its helper's time, and COMPLETED. A helper is one of these:

- It still ran when the batch script ended, and Slurm ended it by a signal: a helper in the background. If it then
  ends itself with an exit code, it looks like a step that failed at the end: slurmctld may receive the script's end
  first, and neither the times nor DerivedExitCode distinguish the two. DerivedExitCode counts such a helper on 24.11,
  not on 22.05.
- The job's own script ended it (``kill`` of its srun, ``CANCELLED by`` the user): a helper that has done its work.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Collection
from dataclasses import dataclass

from pytest_gsw.common.text import plural
from pytest_gsw.jobs.states import JobState, JobStatus, JobStep, exit_and_signal

#: Name of the step in which a session reads facts of a job's nodes: its end says nothing about the job.
PROBE_STEP = "gsw-probe"
#: Most steps of a job in a journal or a record, failed ones first.
MOST_KEPT = 64

#: Slurm terminates a step that outlives its script, and kills it after KillWait, 30 s unless a site has less.
#: A step that was killed sooner after the script's end than this was not killed by Slurm: slurmctld receives a
#: step's end up to a second after its script may have continued.
KILL_WAIT_S = 2.0
#: Share of a helper's time that the training runs.
_MOST_OF_IT = 0.75
#: Name of NeMo-Run's steps of one command.
_SHELL = "bash"
#: sacct subtracts 128 from a step's exit code above that; DerivedExitCode does not.
_CUT = 128 << 8


@dataclass(frozen=True)
class StepProblem:
    """The reason why a job that COMPLETED with exit code 0 has failed nevertheless."""

    #: The text after "job 7 completed, but ".
    fact: str
    #: Each failed step in one line, with its nodes.
    steps: tuple[str, ...] = ()


def problem_of(
    status: JobStatus, may_fail: Collection[str] = (), uid: int | None = None, excused: JobStep | None = None
) -> StepProblem | None:
    """The failure in the steps of a job that COMPLETED with exit code 0; ``None`` if there is none.

    Steps with the names ``may_fail`` may fail, and so may the ``excused`` one. ``uid`` is the job's user,
    by default the session's.
    """
    uid = os.getuid() if uid is None else uid
    steps = status.steps or ()
    may_fail = {*may_fail, PROBE_STEP}
    suspects = [step for step in steps if not is_well(step) and step.name not in may_fail and step != excused]
    exit_code, signal_number = exit_and_signal(status.derived_exit_code)
    worst = ((exit_code or 0) << 8) | signal_number
    failed = [
        step
        for step in suspects
        # By its own script, or with its job.
        if not (step.raw_state == f"CANCELLED by {uid}" or _ended_with_its_job(step, status, worst, uid))
    ] or [step for step in suspects if not _is_helper(step, steps)]
    if failed:
        first, more = failed[0], len(failed) - 1
        others = f", and {plural(more, 'more step')} failed" if more else ""
        return StepProblem(
            f"its step {first.id} ({first.name}) {how_it_ended(first)}{others}", tuple(map(line, failed))
        )
    if not steps and worst == signal.SIGTERM:
        # Steps are unknown, or the site keeps none. slurmctld counts helpers, and most other ends are worse.
        return None
    if worst and not any(worst in {_step_status(step), _step_status(step) + _CUT} for step in steps):
        which = "" if status.steps is None else ", and none that is on record did"
        return StepProblem(f"one of its steps failed (DerivedExitCode {status.derived_exit_code}){which}")
    return None


def how_it_ended(step: JobStep) -> str:
    """The end of a step as part of a sentence: ``failed with exit code 1``, ``ended CANCELLED by signal 9``."""
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
    """The steps for a journal and a record: at most :data:`MOST_KEPT`, those that did not end well first."""
    return tuple(sorted(steps, key=is_well)[:MOST_KEPT]) if steps is not None and len(steps) > MOST_KEPT else steps


def boost_step(steps: Collection[JobStep]) -> JobStep | None:
    """The failed step with which NeMo-Run raises the GPUs' boost, its shell before the training; else ``None``."""
    shell = next((step for step in steps if step.name == _SHELL), None)
    if shell is None or not shell.exit_code:
        return None
    begin_s, end_s = _span(shell)
    later = (_span(step) for step in steps if is_well(step))
    return shell if any(then_s >= end_s and until_s - then_s > end_s - begin_s for then_s, until_s in later) else None


def is_well(step: JobStep) -> bool:
    """True if a step COMPLETED with exit code 0."""
    return step.state is JobState.COMPLETED and not step.exit_code and not step.signal


def _ended_with_its_job(step: JobStep, status: JobStatus, worst: int, uid: int) -> bool:
    """True if a failed step still ran when the batch script had ended, and Slurm ended it for that.

    ``worst`` is the worst end of the steps that Slurm has counted, as a status of wait(2).
    """
    if step.end_s is None or status.end_s is None:
        return False
    # "CANCELLED by" another user comes neither from Slurm nor from the job's script.
    if step.raw_state not in {"CANCELLED", f"CANCELLED by {uid}"}:
        return False
    if step.signal == signal.SIGTERM:
        # 24.11 counts helpers, and Slurm's own ends have no "by" a user.
        return step.end_s >= status.end_s and (step.raw_state == "CANCELLED" or _step_status(step) != worst)
    return step.signal == signal.SIGKILL and step.end_s >= status.end_s + KILL_WAIT_S


def _is_helper(step: JobStep, steps: Collection[JobStep]) -> bool:
    """True if a step is not the one that trained: another ran for most of its time, and ended well before it.

    A helper begins before the training and ends after it. Slurm's times are whole seconds: one may be a second off.
    """
    own = _span(step)
    for begin_s, end_s in map(_span, filter(is_well, steps)):
        shared_s, wanted_s = end_s - max(begin_s, own[0]), _MOST_OF_IT * (own[1] - own[0])
        if end_s <= own[1] and shared_s + 1 >= wanted_s and end_s - begin_s - 1 >= wanted_s + _MOST_OF_IT:
            return not step.exit_code
    return False


def _span(step: JobStep) -> tuple[float, float]:
    """Start and end of a step; NaN, unequal to any time, if unknown."""
    return math.nan if step.start_s is None else step.start_s, math.nan if step.end_s is None else step.end_s


def _step_status(step: JobStep) -> int:
    """A step's end as a status of wait(2); larger is worse, as Slurm counts."""
    return ((step.exit_code or 0) << 8) | step.signal
