"""Steps of a row's own log, which is this run's, shows no failure, and agrees with itself."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from pytest_gsw.errors import LogError, LogWarning
from pytest_gsw.jobs.step_ends import is_well
from pytest_gsw.logs.failure_scan import UNNAMED_STEP, WHEREVER_MARKERS, find_fatal, is_requeued
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.logs.reader import line_number, open_log, read_log, reading
from pytest_gsw.logs.scan import LogFile
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE
from pytest_gsw.logs.steps import SKIP_MARKERS, with_skipped
from pytest_gsw.tables.model import Baseline, image_name
from pytest_gsw.validation import log_identity, training
from pytest_gsw.validation.agreement import CONTAINER, RELEASE, Provenance, agreed, provenance_in
from pytest_gsw.validation.run import Problem, Run, cause_evidence, job_evidence, log_evidence, refuse, replayed

#: The place of a failure in messages, by the names of a job's files.
_WHERE = {"log": "its log", "stderr": "its stderr", "output": "an output of it", "batch log": "its batch output"}


def read_steps(baseline: Baseline, run: Run, log_format: LogFormat) -> tuple[StepLog, dict[str, str], Provenance]:
    """The steps of the row's own log, the values by name on which it agrees with the row, and its software.

    The release may agree by another file of the job alone.

    Raises:
        LogError: The log is missing, empty, another run's, or shows a failure; its loss is not finite; or it is of a
            resumed run whose figure would be too good.
    """
    if run.log is None:
        raise LogError(f"job {run.job_id} left no log", evidence=job_evidence(run))
    path = run.log
    with reading(path), open_log(path) as file:
        read = read_log(file, log_format, noting=(SKIP_MARKERS, WHEREVER_MARKERS))
        log = with_skipped(file, read)
        compared = log_identity.check_identity(baseline, run, log.identity)
        of_files = log_identity.check_evidence(baseline, run, log.identity)
        if not run.is_cut:
            check_end(run, file, log, log_format)
        provenance = provenance_in(file)
        not_finite = log.not_finite
        if not_finite is None and log.overflows is not None and baseline.workload.dtype not in training.SCALED_DTYPES:
            not_finite = (None, log.overflows.text)  # of a step that no loss scaler has skipped
        if not_finite is not None:
            index, text = not_finite
            raise LogError(
                f"{NOT_FINITE}{'' if index is None else f' at step {index}'}: {text}",
                evidence=log_evidence(run, log),
                advice=DIVERGED,
            )
        _check_attempts(run, path, read)
        _check_lines(run, path, read)
    refuse(training.still_problem(log) or training.loss_problem(baseline, log), run, log)
    if log.resumed_at is not None:
        raise LogError(
            f"the run went on from a checkpoint of step {log.resumed_at}, and its mean counts the steps before it",
            evidence=log_evidence(run, log),
            advice="remove the checkpoint, or do not resume from it, and run it again",
        )
    if unknown := [f"{one.name} ({one.text}) is not known to be the same" for one in compared if one.agrees is None]:
        log = replace(log, doubt=log.doubt or "; ".join(unknown))
    agreed_values = agreed(compared)
    for of_file in map(agreed, of_files) if baseline.source.releases else ():
        agreed_values |= {
            name: of_file[name] for name in (RELEASE, CONTAINER) if name in of_file.keys() - agreed_values
        }
    if baseline.recipe.steps is not None and log.total_steps == baseline.recipe.steps:
        agreed_values["steps"] = str(log.total_steps)
    return log, agreed_values, provenance


def check_end(run: Run, file: LogFile, log: StepLog, log_format: LogFormat) -> None:
    """Check that none of the job's files shows a failure.

    Raises:
        LogError: One of them does.
    """
    # srun also reports the failed steps that are no problem (check_job), and the helpers that Slurm ended with the job.
    steps = run.status.steps
    excused = frozenset(step.id for step in steps or () if not is_well(step))
    if not steps and run.status.derived_exit_code:
        excused = frozenset({UNNAMED_STEP})
    cause = find_fatal(file, log, log_format, run.other_files, run.batch_output, excused)
    if cause is None:
        return
    where = _WHERE[next((name for name, path in run.outputs if path == cause.path), "log")]
    raise LogError(
        f"{'the log' if cause.path == file.path else 'stderr beside the log'} shows a failure: {cause.name}"
        if replayed(run)
        else f"job {run.job_id} completed, but {where} shows a failure: {cause.name}",
        evidence=(*job_evidence(run), *cause_evidence(cause)),
        advice=cause.advice,
    )


def _check_attempts(run: Run, path: Path, log: StepLog) -> None:
    """Check that no earlier attempt diverged, except one after which the scheduler requeued the job.

    Raises:
        LogError: One did.
    """
    for diverged in log.diverged:
        at = "" if diverged.index is None else f" at step {diverged.index}"
        fact = f"attempt {diverged.attempt} of {log.attempts} diverged{at}: {diverged.text}"
        if is_requeued(path, diverged.begin, diverged.end):
            warnings.warn(LogWarning(f"job {run.job_id}: {fact}; the scheduler requeued it"), stacklevel=2)
            continue
        advice = "a run that diverges and begins anew is no measure of performance: find out why before measuring"
        begin = ("attempt", f"{path}:{line_number(path, diverged.begin)}")
        refuse(Problem(fact, advice, (begin,)), run, log)


def _check_lines(run: Run, path: Path, log: StepLog) -> None:
    """Check that the recipe's own lines agree, unless the scheduler requeued the job between two of them.

    Raises:
        LogError: Two contradict each other.
    """
    contradiction = log.contradiction
    if contradiction is None:
        return
    # A job that is requeued keeps its id: with another one, the lines are of two jobs.
    if contradiction.name != "JOB_ID" and is_requeued(path, contradiction.first_at, contradiction.second_at):
        return
    first, second = contradiction.first, contradiction.second
    if contradiction.name == "IMAGE":
        first, second = image_name(first), image_name(second)
    both = f"{contradiction.name}={first} and {contradiction.name}={second}"
    places = f"{path}:{line_number(path, contradiction.first_at)},{line_number(path, contradiction.second_at)}"
    refuse(
        Problem(
            f"the log's own lines contradict each other before its first step: {both}",
            "find out which two runs write into one log, or what else prints such a line",
            (("said at", places),),
        ),
        run,
        log,
    )
