"""The end of a job: COMPLETED with exit code 0, as were its steps, or an error with its cause."""

from __future__ import annotations

from collections.abc import Collection

from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import plural
from pytest_gsw.errors import JobError
from pytest_gsw.jobs.model import LOST_AT_START
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.jobs.step_ends import StepProblem, problem_of
from pytest_gsw.logs.signatures import Cause
from pytest_gsw.validation import run as runs
from pytest_gsw.validation.run import Run, job_evidence, last_lines

#: States in which Slurm ended the batch shell, whose exit code then has no meaning; for a failed node, 24.11 has 1:0 or
#: a signal that was not sent.
_ENDED_BY_SLURM = frozenset(
    {
        JobState.TIMEOUT,
        JobState.CANCELLED,
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.PREEMPTED,
        JobState.DEADLINE,
        JobState.REVOKED,
    }
)


#: Slurm's signal of a job whose output file its node could not open: 0:53 in ``sacct``, 15:53 in ``squeue``.
_NO_OUTPUT = 53


def check_job(run: Run, may_fail: Collection[str] = ()) -> None:
    """Check that the job ran to COMPLETED with exit code 0, and so did its steps.

    Args:
        run: The ended job.
        may_fail: Names of its steps that may fail.

    Raises:
        JobError: It did not; the message has the cause from the log or the batch shell's output.
    """
    status = run.status
    if runs.replayed(run) or run.is_part:
        return
    if status.siblings:
        raise not_alone(run)
    if status.state is JobState.COMPLETED and status.exit_code == 0 and status.signal == 0:
        problem = problem_of(status, may_fail, excused=runs.unset_boost(run))
        if problem is not None:
            raise _failed_step(run, problem, may_fail)
        return
    if run.stopped is not None:
        stop = run.stopped
        said = (("cause", stop.cause), ("said at", stop.said_at)) if stop.cause else ()
        raise JobError(stop.fact, evidence=(*job_evidence(run), *said), tail=last_lines(run), advice=stop.advice)
    cause = runs.cause_of(run)
    shown = cause or runs.killed_by_signal(run)
    raise JobError(
        _job_fact(run, shown),
        evidence=(*job_evidence(run), *runs.cause_evidence(shown)),
        tail=() if cause else last_lines(run),
        advice=cause.advice if cause else _job_advice(run, shown),
    )


def check_tile(run: Run, tile: str) -> None:
    """Check that a job ran on the nodes of its tile (empty: on any), as far as Slurm names its nodes.

    Raises:
        JobError: It ran on others: its launch script, or a site's plugin, ignores the list.
    """
    ran_on = run.status.nodes
    if tile and ran_on and set(expand(ran_on)) != set(expand(tile)):
        raise JobError(
            f"job {run.job_id} ran on {ran_on}, and its tile is {tile}",
            evidence=job_evidence(run),
            advice="let the recipe hand --nodelist on to the sbatch that submits the job",
        )


def not_alone(run: Run) -> JobError:
    """The error for a job that is one of several behind its submission."""
    ids = (run.job_id, *run.status.siblings)
    return JobError(
        f"{plural(len(ids), 'job')} are behind the one submission of job {run.job_id}, and one row is one job",
        evidence=(("jobs", ", ".join(ids)), *job_evidence(run)),
        advice=f"scancel {run.job_id} ends all of them; take the job array out of the launch script",
    )


def _failed_step(run: Run, problem: StepProblem, may_fail: Collection[str]) -> JobError:
    cause = runs.cause_of(run)
    look = runs.where_to_look(run)
    where = f"{look}; " if look else ""
    excuse = "if the row may pass all the same, name that step in its table: recipe: {may_fail: [NAME]}"
    if may_fail and run.status.steps is None:
        excuse = f"only Slurm's accounting shows whether it was {' or '.join(may_fail)}, which may fail"
    return JobError(
        f"job {run.job_id} completed, but {problem.fact}",
        evidence=(*(("step", step) for step in problem.steps), *job_evidence(run), *runs.cause_evidence(cause)),
        tail=() if cause else last_lines(run),
        advice=f"{cause.advice}; {excuse}" if cause else f"{where}{excuse}",
    )


def _job_fact(run: Run, found: Cause | None) -> str:
    status = run.status
    if status.state is JobState.UNKNOWN:
        return f"the end of job {run.job_id} is not known: {status.reason or status.raw_state or 'no answer'}"
    if status.state is JobState.COMPLETED and status.exit_code is None:
        return f"the exit code of job {run.job_id} is not known"
    if (lost := runs.lost_at_start(run)) is not None:
        return f"job {run.job_id} never began: {LOST_AT_START}: {lost}"
    if _has_no_output(status):
        return f"job {run.job_id} never ran: Slurm could not open its output file"
    ended = {JobState.COMPLETED: "ended", JobState.FAILED: "failed"}.get(status.state, f"ended {status.state.value}")
    code = f" with exit code {status.exit_code}" if status.exit_code else ""
    how = "" if status.state in _ENDED_BY_SLURM else f" by signal {status.signal}" if status.signal else code
    by = runs.canceller(status)
    how = f" by {by}" if by and run.stopped is None else how
    why = f": {found.name}" if found and found.name != runs.CAUSE_OF_STATE.get(status.state) else ""
    return f"job {run.job_id} {ended}{how}{why}"


def _has_no_output(status: JobStatus) -> bool:
    """True if Slurm ended a job at once because its node could not open the file of ``--output`` or ``--error``."""
    return status.state is JobState.FAILED and status.signal == _NO_OUTPUT


def _job_advice(run: Run, killed: Cause | None = None) -> str:
    if _has_no_output(run.status):
        return (
            f"let {run.status.nodes or 'each node'} see and write the directory of #SBATCH --output and --error: "
            "Slurm does not make it"
        )
    if killed is not None:
        return f"{runs.where_to_look(run)}, and at that node's dmesg -T: the kernel kills processes if memory is short"
    if runs.lost_at_start(run) is not None:
        return f"sinfo -R -n {run.status.nodes} has more; --gsw-retries=1 runs such a row again on other nodes"
    if run.status.state is JobState.TIMEOUT:
        return "give the job more time with timeout: MINUTES in clusters.yaml, or find out what it waited for"
    if run.status.state is JobState.REVOKED:
        return (
            f"a federation of clusters has moved the job, which may run on: scancel {run.job_id}; "
            "keep jobs on one cluster with --clusters=NAME under `sbatch` of the cluster"
        )
    return runs.where_to_look(run)
