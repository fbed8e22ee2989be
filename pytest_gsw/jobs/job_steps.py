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
import re
import signal
from collections.abc import Collection
from dataclasses import dataclass

from pytest_gsw.common.text import plural
from pytest_gsw.jobs.model import JobState, JobStatus, JobStep

# -- Slurm's job states → :class:`~pytest_gsw.jobs.model.JobState`: a closed table ------------------


#: Every base state and state flag that ``squeue``, ``sacct`` and ``scontrol`` print instead of or
#: after a base state (Slurm 17.11 to 25.05, "JOB STATE CODES" of their manual pages).
TABLE: dict[str, JobState] = {
    # Will run. CONFIGURING: nodes boot. SPECIAL_EXIT: it ended with a special code, was requeued, and is held.
    # LAUNCH_FAILED: it could not be started, and was requeued and held.
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), JobState.PENDING),
    **dict.fromkeys(("RESV_DEL_HOLD", "SPECIAL_EXIT", "POWER_UP_NODE"), JobState.PENDING),
    **dict.fromkeys(("LAUNCH_FAILED", "RECONFIG_FAIL"), JobState.PENDING),
    # Has started and still has its nodes, or may continue. COMPLETING: the epilog runs; the final state follows.
    **dict.fromkeys(("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"), JobState.RUNNING),
    **dict.fromkeys(("SUSPENDED", "UPDATE_DB", "EXPEDITING"), JobState.RUNNING),
    # Will not run any more.
    **{word: JobState(word) for word in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")},
    **{word: JobState(word) for word in ("BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED")},
}

#: ``sacct`` cuts a word to its column's width and marks that with a plus: ``CANCELLED+``, ``OUT_OF_ME+``.
_SHORTEST_CUT = 3


def job_state(text: str) -> JobState:
    """The state for Slurm's text; a word that is not in the table is UNKNOWN, never an end."""
    words = text.upper().split()
    if not words:
        return JobState.UNKNOWN
    # "CANCELLED by 1000" names the user; no other state is followed by a blank.
    if len(words) > 1 and words[:2] != ["CANCELLED", "BY"]:
        return JobState.UNKNOWN
    word = words[0]
    if word in TABLE:
        return TABLE[word]
    if word.endswith("+"):
        return _cut_state(word[:-1])
    return _flags_state(word.split("+"))


def _cut_state(start: str) -> JobState:
    if len(start) < _SHORTEST_CUT:
        return JobState.UNKNOWN
    possible = {state for word, state in TABLE.items() if word.startswith(start)}
    return possible.pop() if len(possible) == 1 else JobState.UNKNOWN


def _flags_state(words: list[str]) -> JobState:
    """The state for ``FAILED+COMPLETING``: not ended if any of the words means so."""
    states = {TABLE.get(word, JobState.UNKNOWN) for word in words}
    for state in (JobState.UNKNOWN, JobState.PENDING, JobState.RUNNING):
        if state in states:
            return state
    return states.pop() if len(states) == 1 else JobState.UNKNOWN


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
_CODE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})", re.ASCII)


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
    suspects = [step for step in steps if not is_well(step) and step.name not in may_fail and step != excused]
    exit_code, signal_number = _exit_and_signal(status.derived_exit_code)
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


def kept(steps: tuple[JobStep, ...] | None) -> list[str] | None:
    """Steps as texts for a journal or a record; :func:`of_kept` parses them again."""
    if steps is None:
        return None
    chosen = sorted(steps, key=is_well)[:MOST_KEPT] if len(steps) > MOST_KEPT else steps
    return [_format_step(step) for step in chosen]


def of_kept(texts: Collection[str] | None) -> tuple[JobStep, ...] | None:
    """The steps in the texts of :func:`kept`; any other text is a step in an unknown state."""
    return None if texts is None else tuple(map(_parse_step, texts))


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
    """Begin and end of a step; NaN, unequal to any time, if unknown."""
    return math.nan if step.start_s is None else step.start_s, math.nan if step.end_s is None else step.end_s


def _step_status(step: JobStep) -> int:
    """A step's end as a status of wait(2); larger is worse, as Slurm counts."""
    return ((step.exit_code or 0) << 8) | step.signal


def _exit_and_signal(code: str) -> tuple[int | None, int]:
    match = _CODE.fullmatch(code)
    return (None, 0) if match is None else (int(match[1]), int(match[2]))


def _format_step(step: JobStep) -> str:
    code = "" if step.exit_code is None else f"{step.exit_code}:{step.signal}"
    times = ("" if time_s is None else f"{time_s:.0f}" for time_s in (step.start_s, step.end_s))
    return "|".join((step.id, step.raw_state or step.state.value, code, step.nodes, *times, step.name))


def _parse_step(text: str) -> JobStep:
    fields = text.split("|", 6)
    if len(fields) < 7:
        return JobStep("?", text, JobState.UNKNOWN)
    number, raw_state, code, nodes, start, end, name = fields
    times = [float(time) if re.fullmatch(r"[0-9]{1,12}", time) else None for time in (start, end)]
    return JobStep(number, name, job_state(raw_state), raw_state, *_exit_and_signal(code), nodes, *times)
