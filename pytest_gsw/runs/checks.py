"""Whether an ended job and its log may be measured at all.

The job ended well, the log is this run's, it tells of no bad end, and the loss stayed finite. That it holds
enough steps is in :mod:`pytest_gsw.runs.steps`, and that the result is possible in :mod:`pytest_gsw.runs.measure`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_gsw.common.words import counted
from pytest_gsw.errors import JobError, LogError, LogWarning
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.jobs.steps import StepProblem, is_well, problem_of
from pytest_gsw.logs.fatal import find_fatal, is_requeued
from pytest_gsw.logs.identity import identity_markers, with_identity
from pytest_gsw.logs.model import Identity, LogFormat, StepLog
from pytest_gsw.logs.reader import line_number, open_log, read_log, reading
from pytest_gsw.logs.scan import LogFile, matching_records
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE, FoundCause
from pytest_gsw.logs.steps import with_skipped
from pytest_gsw.runs.agreement import CONTAINER, RELEASE, Compared, agreed, compare
from pytest_gsw.runs.problem import Problem
from pytest_gsw.runs.run import (
    CAUSE_OF_STATE,
    Run,
    cause_evidence,
    cause_of,
    job_evidence,
    last_lines,
    log_evidence,
    refused,
    replayed,
    unset_boost,
    where_to_look,
)
from pytest_gsw.runs.trained import SCALED_DTYPES, diverged_fact, loss_problem
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.of_release import other_release
from pytest_gsw.tables.releases import releases_of

#: A run says who it is at its beginning.
_IDENTITY_BYTES = 4 << 20


#: Where Slurm has ended the batch shell, that shell's exit code says nothing more; of a node that failed, 24.11 has
#: 1:0 or a signal that nobody sent.
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


#: Where an end is told of, by the names of a job's files.
_WHERE = {"log": "its log", "stderr": "its stderr", "output": "an output of it", "batch log": "its batch output"}


def check_job(run: Run, may_fail: Collection[str] = ()) -> None:
    """Make sure that the job ran to COMPLETED with exit code 0, and so did its steps.

    Args:
        run: The ended job.
        may_fail: Names of its steps that may fail.

    Raises:
        JobError: It did not; the message has the cause as the log or the batch shell tells it.
    """
    status = run.status
    if replayed(run):
        return
    if status.siblings:
        raise not_alone(run)
    if status.state is JobState.COMPLETED and status.exit_code == 0 and status.signal == 0:
        problem = problem_of(status, may_fail, excused=unset_boost(run))
        if problem is not None:
            raise _failed_step(run, problem, may_fail)
        return
    if run.stopped is not None:
        raise JobError(run.stopped.fact, evidence=job_evidence(run), tail=last_lines(run), advice=run.stopped.advice)
    cause = cause_of(run)
    raise JobError(
        _job_fact(run, cause),
        evidence=(*job_evidence(run), *cause_evidence(cause)),
        tail=() if cause else last_lines(run),
        advice=cause.advice if cause else _job_advice(run),
    )


def not_alone(run: Run) -> JobError:
    """What is wrong with a job that is one of several behind its submission."""
    ids = (run.job_id, *run.status.siblings)
    return JobError(
        f"{counted(len(ids), 'job')} are behind the one submission of job {run.job_id}, and one row is one job",
        evidence=(("jobs", ", ".join(ids)), *job_evidence(run)),
        advice=f"scancel {run.job_id} ends all of them; take the job array out of the launch script",
    )


def _failed_step(run: Run, problem: StepProblem, may_fail: Collection[str]) -> JobError:
    found = cause_of(run)
    look = where_to_look(run)
    where = f"{look}; " if look else ""
    excuse = "if the row may pass all the same, name that step in its table: recipe: {may_fail: [NAME]}"
    if may_fail and run.status.steps is None:
        excuse = f"only with Slurm's accounting can anybody tell whether it was {' or '.join(may_fail)}, which may fail"
    return JobError(
        f"job {run.job_id} completed, but {problem.fact}",
        evidence=(*(("step", step) for step in problem.steps), *job_evidence(run), *cause_evidence(found)),
        tail=() if found else last_lines(run),
        advice=f"{found.advice}; {excuse}" if found else f"{where}{excuse}",
    )


def read_steps(baseline: Baseline, run: Run, log_format: LogFormat) -> StepLog:
    """The steps of the row's own log.

    Raises:
        LogError: The log is missing, empty, another run's, tells of an end that was not well, its loss is not finite,
            or it is of a resumed run whose figure would be too good.
    """
    if run.log is None:
        raise LogError(f"job {run.job_id} left no log", evidence=job_evidence(run))
    path = run.log
    with open_log(path) as file:
        read = read_log(file, log_format)
        with reading(path):
            log = with_skipped(file, read)
        check_identity(baseline, run, log.identity)
        _check_evidence(baseline, run, log.identity)
        check_end(run, file, log, log_format)
    not_finite = log.not_finite
    if not_finite is None and log.overflows is not None and baseline.dtype not in SCALED_DTYPES:
        not_finite = (None, log.overflows.text)  # of a step that no loss scaler has skipped
    if not_finite is not None:
        index, text = not_finite
        raise LogError(
            f"{NOT_FINITE}{'' if index is None else f' at step {index}'}: {text}",
            evidence=log_evidence(run, log),
            advice=DIVERGED,
        )
    with reading(path):
        _check_attempts(run, path, read)
        _check_lines(run, path, read)
    problem = loss_problem(baseline, log)
    if problem is not None:
        raise refused(problem, run, log)
    if log.resumed_at is not None:
        raise LogError(
            f"the run went on from a checkpoint of step {log.resumed_at}, and its mean counts the steps before it",
            evidence=log_evidence(run, log),
            advice="remove the checkpoint, or do not resume from it, and run it again",
        )
    return log


def check_end(run: Run, file: LogFile, log: StepLog, log_format: LogFormat) -> None:
    """Make sure that nothing that the job wrote tells of an end that was not well.

    Raises:
        LogError: One of them does.
    """
    # Steps that did not end well and are no problem (check_job): what srun says of them is none either.
    excused = frozenset(step.id for step in run.status.steps or () if not is_well(step))
    found = find_fatal(file, log, log_format, run.beside, run.batch_output, excused)
    if found is None:
        return
    where = _WHERE[next((name for name, path in run.outputs if path == found.path), "log")]
    raise LogError(
        f"{'the log' if found.path == file.path else 'stderr beside the log'} tells of an end by {found.cause.name}"
        if replayed(run)
        else f"job {run.job_id} completed, but {where} tells of an end by {found.cause.name}",
        evidence=(*job_evidence(run), *cause_evidence(found)),
        advice=found.advice,
    )


def _check_attempts(run: Run, path: Path, log: StepLog) -> None:
    """Make sure that no earlier attempt diverged, but one after which the scheduler itself began the job anew.

    Raises:
        LogError: One did.
    """
    for one in log.diverged:
        fact = diverged_fact(one, log.attempts)
        if is_requeued(path, one.begin, one.end):
            warnings.warn(LogWarning(f"job {run.job_id}: {fact}; the scheduler requeued it"), stacklevel=2)
            continue
        advice = "a run that diverges and begins anew says nothing of performance: find out why before measuring"
        begin = ("attempt", f"{path}:{line_number(path, one.begin)}")
        raise refused(Problem(fact, advice, (begin,)), run, log)


def _check_lines(run: Run, path: Path, log: StepLog) -> None:
    """Make sure that the recipe's own lines agree, but where the scheduler began the job anew between two of them.

    Raises:
        LogError: Two contradict each other.
    """
    found = log.contradiction
    if found is None:
        return
    # A job that is requeued keeps its id: with another one, the lines are of two jobs.
    if found.name != "JOB_ID" and is_requeued(path, found.first_at, found.second_at):
        return
    first, second = found.first, found.second
    if found.name == "IMAGE":
        first, second = image_name(first), image_name(second)
    both = f"{found.name}={first} and {found.name}={second}"
    places = f"{path}:{line_number(path, found.first_at)},{line_number(path, found.second_at)}"
    raise refused(
        Problem(
            f"the log's own lines contradict each other before its first step: {both}",
            "find out which two runs write into one log, or what else prints such a line",
            (("said at", places),),
        ),
        run,
        log,
    )


def read_identity(path: Path, format_name: str = "") -> Identity:
    """What a log of a format says of the run that wrote it, of one that holds no steps as well."""
    records = matching_records(path, identity_markers(format_name), stop=_IDENTITY_BYTES)
    return with_identity(StepLog(format_name, (), attempts=0), records).identity


def compared_with_row(baseline: Baseline, run: Run, said: Identity) -> tuple[Compared, ...]:
    """Everything that a log and its row both state."""
    image = None if run.image_was_chosen else baseline.recipe.image
    return compare(baseline, said, job_id=_own_job_id(run), image=image)


def agreed_with_row(baseline: Baseline, run: Run, log: StepLog) -> dict[str, str]:
    """What a measured log states as its row does, by its name; the release also where it stands beside it alone."""
    found = agreed(compared_with_row(baseline, run, log.identity))
    for one in run.evidence if baseline.source.releases else ():
        stated = agreed(compared_with_row(baseline, run, one.identity))
        found = {**{name: stated[name] for name in (RELEASE, CONTAINER) if name in stated}, **found}
    steps = baseline.recipe.steps
    return {**found, "steps": str(steps)} if steps is not None and log.total_steps == steps else found


def check_identity(baseline: Baseline, run: Run, said: Identity) -> tuple[Compared, ...]:
    """Make sure that a log belongs to this row and job, and its run was set up as the row is, as far as it says so.

    Returns:
        What was compared.

    Raises:
        LogError: It says something else.
    """
    compared = compared_with_row(baseline, run, said)
    differing = [one for one in compared if not one.agrees]
    if not differing:
        return compared
    names = [one for one in differing if one.is_name]
    release = next((one for one in differing if one.field == RELEASE), None)
    told: tuple[tuple[str, str], ...] = ()
    if not names and release is not None:
        # Its settings may differ from the row's for that reason.
        other = other_release(baseline, releases_of(release.said), "the log", f"--gsw-replay={run.log or 'LOG'}")
        fact, advice = other.fact, other.advice
        told = (("release", f"GSW_VERSION={release.said} in the log"), other.table)
        differing.remove(release)
    elif names:
        fact = _another_run([one.name for one in names])
        advice = _ANOTHER_RUN
    else:
        fact = f"the run was not the row's: {'; '.join(f'{one.name} {one.text}' for one in differing)}"
        advice = "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    raise LogError(
        fact,
        evidence=(
            *told,
            *((one.name, one.text) for one in differing),
            *_said_at(run, said, compared),
            ("baseline", str(baseline.location)),
            *job_evidence(run),
        ),
        advice=advice,
    )


def _check_evidence(baseline: Baseline, run: Run, said: Identity) -> None:
    """Make sure that what else was written of the job is the row's.

    Raises:
        LogError: It is another's.
    """
    quantized = [one.identity.quantization for one in run.evidence]
    quantization = next((one for one in quantized if one is not None), said.quantization)
    for one in run.evidence:
        try:
            check_identity(baseline, run, one.identity)
        except LogError as error:
            raise LogError(error.fact, (*error.evidence, ("said in", str(one.path))), advice=error.advice) from None
    for one in run.evidence:
        others = one.differing(baseline, quantization)
        if others:
            raise LogError(
                _another_run([other.name for other in others]),
                evidence=(
                    *((other.name, other.text) for other in others),
                    ("said in", str(one.path)),
                    ("baseline", str(baseline.location)),
                    *job_evidence(run),
                ),
                advice=_ANOTHER_RUN,
            )


def _another_run(names: Sequence[str]) -> str:
    return f"the log belongs to another run, by its {' and '.join(names)}"


_ANOTHER_RUN = (
    "look whether another recipe writes there, or the launch script sets a variable such as DTYPE itself; "
    "a log that you name must be this row's"
)


def _said_at(run: Run, said: Identity, compared: Sequence[Compared]) -> tuple[tuple[str, str], ...]:
    """The lines of the log that differ from the row."""
    if run.log is None:
        return ()
    offsets = sorted({said.places[one.field] for one in compared if not one.agrees and one.field in said.places})
    lines = ", ".join(str(line_number(run.log, offset)) for offset in offsets)
    return (("said at", f"{run.log}:{lines}"),) if lines else ()


def _own_job_id(run: Run) -> str | None:
    """The id of the run's job; a replayed log may bear any name, and then its name stands in for an id that is none."""
    named_by_log = replayed(run) and run.log is not None and run.log.stem == run.job_id and not run.job_id.isdigit()
    return None if named_by_log else run.job_id or None


def _job_fact(run: Run, found: FoundCause | None) -> str:
    status = run.status
    if status.state is JobState.UNKNOWN:
        return f"the end of job {run.job_id} is not known: {status.reason or status.raw_state or 'no answer'}"
    if status.state is JobState.COMPLETED and status.exit_code is None:
        return f"the exit code of job {run.job_id} is not known"
    ended = {JobState.COMPLETED: "ended", JobState.FAILED: "failed"}.get(status.state, f"ended {status.state.value}")
    how = "" if status.state in _ENDED_BY_SLURM else _how_it_ended(status)
    why = f": {found.cause.name}" if found and found.cause.name != CAUSE_OF_STATE.get(status.state) else ""
    return f"job {run.job_id} {ended}{how}{why}"


def _how_it_ended(status: JobStatus) -> str:
    if status.signal:
        return f" by signal {status.signal}"
    return f" with exit code {status.exit_code}" if status.exit_code else ""


def _job_advice(run: Run) -> str:
    if run.status.state is JobState.TIMEOUT:
        return "give the job more time with --gsw-timeout=MINUTES, or find out what it waited for"
    if run.status.state is JobState.REVOKED:
        return (
            f"a federation of clusters has moved the job, which may run on: scancel {run.job_id}; "
            "keep jobs on one cluster with --clusters=NAME under `sbatch` of the cluster"
        )
    return where_to_look(run)
