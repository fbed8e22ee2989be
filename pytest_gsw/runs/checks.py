"""From an ended job and its log to a measurement, or to the reason why there is none.

Everything that must hold before a number may be judged is here, in one place: the job
ended well, the log is this run's, it holds enough steps and the last one, the loss stayed
finite, and the result is possible at all.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.common.words import counted, duration
from pytest_gsw.errors import JobError, LogError, LogWarning
from pytest_gsw.jobs.model import JobState, JobStatus, Stop, in_words, scancel
from pytest_gsw.jobs.steps import StepProblem, is_well, problem_of
from pytest_gsw.logs import calibration
from pytest_gsw.logs.failures import FoundCause, find_cause
from pytest_gsw.logs.fatal import find_fatal
from pytest_gsw.logs.identity import identity_markers, with_identity
from pytest_gsw.logs.model import Identity, LogFormat, Step, StepLog
from pytest_gsw.logs.reader import line_number, read_log, reading, tail_lines
from pytest_gsw.logs.requeues import is_requeued
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.skips import with_skipped
from pytest_gsw.performance.doubts import ranks_of_jobs
from pytest_gsw.performance.figures import calibration_factor, figures_of
from pytest_gsw.performance.measurement import Measurement, TimedStep, apply, log_interval, ranks_s, selected
from pytest_gsw.performance.peaks import peak_flops
from pytest_gsw.performance.steady import steady
from pytest_gsw.runs.agreement import Compared, agreed, compare
from pytest_gsw.runs.problem import Problem
from pytest_gsw.runs.trained import (
    SCALED_DTYPES,
    diverged_fact,
    is_trained,
    loss_problem,
    skipped_problem,
    steps_each_line,
)
from pytest_gsw.runs.whole import cut_problem
from pytest_gsw.tables.metrics import CALIBRATION, STEP_TIME, Series
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.statistic import parse_statistic

#: A run says who it is at its beginning.
_IDENTITY_BYTES = 4 << 20
#: Causes that Slurm tells by the state alone; a log that names the same one says no more.
CAUSE_OF_STATE = {
    JobState.CANCELLED: "cancelled",
    JobState.TIMEOUT: "time limit",
    JobState.PREEMPTED: "preemption",
    JobState.NODE_FAIL: "node failure",
    JobState.BOOT_FAIL: "boot failure",
}
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
#: So few lines of a log may be all there are at its interval.
_FEW_LINES = 3
_TWO_ATTEMPTS = "two attempts of the job may stand in one log: run it again, or correct recipe.steps in the table"


@dataclass(frozen=True)
class Run:
    """An ended job of one row, and where it wrote."""

    job_id: str
    status: JobStatus
    #: The training log; ``None`` where a job that did not end well left none.
    log: Path | None
    #: The batch shell's own output.
    batch_output: Path | None = None
    #: Why the session ended the job early, where it did.
    stopped: Stop | None = None
    #: The row's jobs before this one that were measured as well: the row's figure is the median of all.
    earlier: tuple[Run, ...] = ()
    #: Whether the environment chose the container image, so that the table's is not what is to run.
    image_was_chosen: bool = False

    @property
    def jobs(self) -> tuple[Run, ...]:
        """The jobs that the row's figure is of, in the order in which they ran."""
        return (*self.earlier, self)


def replayed(run: Run) -> bool:
    """Whether no job was run: a log is judged by itself."""
    return run.status.state is JobState.REPLAYED


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
        problem = problem_of(status, may_fail)
        if problem is not None:
            raise _failed_step(run, problem, may_fail)
        return
    if run.stopped is not None:
        raise JobError(run.stopped.fact, evidence=job_evidence(run), tail=_last_lines(run), advice=run.stopped.advice)
    cause = cause_of(run)
    raise JobError(
        _job_fact(run, cause),
        evidence=(*job_evidence(run), *_cause_evidence(cause)),
        tail=() if cause else _last_lines(run),
        advice=cause.advice if cause else _job_advice(run),
    )


def not_alone(run: Run) -> JobError:
    """What is wrong with a job that is one of several behind its submission."""
    ids = (run.job_id, *run.status.siblings)
    return JobError(
        f"{counted(len(ids), 'job')} are behind the one submission of job {run.job_id}, and one row is one job",
        evidence=(("jobs", ", ".join(ids)), *job_evidence(run)),
        advice=f"{scancel((run.status.cluster, run.job_id))} ends all of them; "
        "take the job array out of the launch script",
    )


def _failed_step(run: Run, problem: StepProblem, may_fail: Collection[str]) -> JobError:
    found = cause_of(run)
    where = f"look at {run.log or run.batch_output}; " if run.log or run.batch_output else ""
    excuse = "if the row may pass all the same, name that step in its table: recipe: {may_fail: [NAME]}"
    if may_fail and run.status.steps is None:
        excuse = f"only with Slurm's accounting can anybody tell whether it was {' or '.join(may_fail)}, which may fail"
    return JobError(
        f"job {run.job_id} completed, but {problem.fact}",
        evidence=(*(("step", step) for step in problem.steps), *job_evidence(run), *_cause_evidence(found)),
        tail=() if found else _last_lines(run),
        advice=f"{found.advice}; {excuse}" if found else f"{where}{excuse}",
    )


def cause_of(run: Run) -> FoundCause | None:
    """Why a run failed: from its log, else from the batch shell's output, where failures before training show."""
    for path in (run.log, run.batch_output):
        if path is not None and path.is_file():
            cause = find_cause(path)
            if cause is not None:
                return FoundCause(cause, path)
    return None


def ran_out_of_memory(run: Run) -> bool:
    """Whether the job ended for want of memory, of the GPU or of the host.

    A job that was cancelled, timed out or lost its node ended for that, whatever its log says.
    """
    if run.status.state is JobState.OUT_OF_MEMORY:
        return True
    if run.status.state not in {JobState.FAILED, JobState.REPLAYED}:
        return False
    found = cause_of(run)
    return found is not None and found.cause.out_of_memory


def read_steps(baseline: Baseline, run: Run, log_format: LogFormat) -> StepLog:
    """The steps of the row's own log.

    Raises:
        LogError: The log is missing, empty, another run's, tells of an end that was not well, its loss is not finite,
            or it is of a resumed run whose figure would be too good.
    """
    if run.log is None:
        raise LogError(f"job {run.job_id} left no log", evidence=job_evidence(run))
    log = read_log(run.log, log_format)
    path, read = run.log, log
    log = reading(path, lambda: with_skipped(path, read))
    check_identity(baseline, run, log.identity)
    check_end(run, log, log_format)
    not_finite = log.not_finite
    if not_finite is None and log.overflows is not None and baseline.dtype not in SCALED_DTYPES:
        not_finite = (None, log.overflows.text)  # of a step that no loss scaler has skipped
    if not_finite is not None:
        index, text = not_finite
        raise LogError(
            f"the loss or a step time is not finite{'' if index is None else f' at step {index}'}: {text}",
            evidence=_log_evidence(run, log),
            advice="a run that diverged says nothing of performance: find out why before measuring",
        )
    reading(path, lambda: _check_attempts(run, path, read))
    problem = loss_problem(baseline, log)
    if problem is not None:
        raise _refused(problem, run, log)
    if log.resumed_at is not None:
        raise LogError(
            f"the run went on from a checkpoint of step {log.resumed_at}, and its mean counts the steps before it",
            evidence=_log_evidence(run, log),
            advice="remove the checkpoint, or do not resume from it, and run it again",
        )
    return log


def check_end(run: Run, log: StepLog, log_format: LogFormat) -> None:
    """Make sure that neither the log nor the batch shell's output tells of an end that was not well.

    Raises:
        LogError: One of them does.
    """
    assert run.log is not None  # its steps have been read
    # Steps that did not end well and are no problem (check_job): what srun says of them is none either.
    excused = frozenset(step.id for step in run.status.steps or () if not is_well(step))
    found = find_fatal(run.log, log, log_format, run.batch_output, excused)
    if found is None:
        return
    where = "its log" if found.path == run.log else "its batch output"
    raise LogError(
        f"the log tells of an end by {found.cause.name}"
        if replayed(run)
        else f"job {run.job_id} completed, but {where} tells of an end by {found.cause.name}",
        evidence=(*job_evidence(run), *_cause_evidence(found)),
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
        raise _refused(Problem(fact, advice, (begin,)), run, log)


def _refused(problem: Problem, run: Run, log: StepLog) -> LogError:
    return LogError(problem.fact, evidence=(*_log_evidence(run, log), *problem.evidence), advice=problem.advice)


def measure_as_documented(baseline: Baseline, run: Run, log: StepLog, log_format: LogFormat) -> Measurement:
    """The row's statistic over the steps of a log by what its table alone says, as of no cluster's job.

    Raises:
        LogError: As :func:`measure` does.
    """
    return measure(
        baseline,
        run,
        log,
        peak_flops=peak_flops(baseline.accelerator, baseline.dtype),
        steps=baseline.recipe.steps,
        first_index=log_format.first_index,
    )


def measure(
    baseline: Baseline, run: Run, log: StepLog, *, peak_flops: float | None, steps: int | None, first_index: int | None
) -> Measurement:
    """The row's statistic over the steps of its log.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        peak_flops: Peak FLOP/s of one GPU, for the MFU; where nobody knows it, the log's own calibration stands for it.
        steps: Steps that the run was to do, ``None`` where nobody says.
        first_index: The number that the log's format gives to the first step.

    Raises:
        LogError: There are too few steps, the last one is missing, or the result is impossible.
    """
    if CALIBRATION in baseline.judged_by.needs and log.calibration_flops is None:
        raise LogError(
            "the log holds no calibration, on which the row's verdict rests",
            evidence=_log_evidence(run, log),
            advice=f"the recipe prints it when it has trained, as {calibration.EXAMPLE}; did it end well?",
        )
    calibration_flops = None
    if CALIBRATION in baseline.judged_by.needs or peak_flops is None:
        calibration_flops = log.calibration_flops
    timed = timed_steps(baseline, log)
    _check_steps(baseline, run, log, timed, steps, first_index)
    _check_whole(baseline, run, log)
    statistic = parse_statistic(baseline.statistic)
    try:
        chosen = selected(statistic, timed, first_index=first_index)
        chosen_s = tuple(timed[position].seconds for position in chosen)
        judged_s = apply(statistic, timed, first_index=first_index)
    except ValueError as error:
        raise LogError(
            f"the log does not hold the steps that {baseline.statistic} needs: {error}",
            evidence=_log_evidence(run, log),
        ) from error
    endless = (step.seconds for step in timed if not step.seconds < math.inf)
    impossible_s = next((seconds for seconds in chosen_s if not 0 < seconds < math.inf), next(endless, None))
    if impossible_s is not None:  # before anything is divided by it
        raise LogError(
            f"{impossible_s:g} s is no time of a step",
            evidence=_log_evidence(run, log),
            advice="the log shows when steps were dispatched, not how long they took; check its statistic",
        )
    trained = tuple(step for step in timed if step.trained)
    measurement = replace(
        summarize(baseline, trained, judged_s, calibration_flops or peak_flops),
        ranks_s=_ranks_s(baseline, log, chosen, timed),
    )
    mfu = measurement.figures.mfu
    if mfu is not None and mfu > 1:
        if calibration_flops is None or baseline.judged_by is not STEP_TIME:
            raise _impossible_mfu(mfu, judged_s, calibration_flops, _log_evidence(run, log))
        # Its verdict rests on the time alone: a calibration that was disturbed costs it no more than the MFU.
        return replace(summarize(baseline, trained, judged_s, None), ranks_s=measurement.ranks_s)
    return replace(measurement, calibration_flops=calibration_flops)


def _impossible_mfu(
    mfu: float, judged_s: float, calibration_flops: float | None, evidence: tuple[tuple[str, str], ...]
) -> LogError:
    if calibration_flops is None:
        return LogError(
            f"MFU {mfu * 100:.1f} % is impossible: no hardware takes {judged_s:.4g} s for a step",
            evidence=evidence,
            advice="the log shows when steps were dispatched, not how long they took; check its statistic",
        )
    return LogError(
        f"MFU {mfu * 100:.1f} % of the measured peak is impossible: {calibration_flops:.3g} FLOP/s are no peak",
        evidence=evidence,
        advice="the machine was busier while it calibrated than while it trained: run it again, alone on the machine",
    )


def summarize(
    baseline: Baseline, timed: tuple[TimedStep, ...], judged_s: float, peak_flops: float | None
) -> Measurement:
    """A measurement from its steps and the judged number."""
    series_s = tuple(step.seconds for step in timed)
    return Measurement(
        judged_s=judged_s,
        statistic=baseline.statistic,
        steps=len(timed),
        first_s=series_s[0],
        last_s=series_s[-1],
        steady=steady(series_s),
        figures=figures_of(baseline, judged_s, peak_flops),
        series_s=series_s,
        jobs_s=(judged_s,),
    )


def of_all_jobs(baseline: Baseline, jobs: Sequence[Measurement], peak_flops: float | None) -> Measurement:
    """What several jobs of a row measured: the median of what each of them did, and the series of the last one.

    Its ranks are those of the job in which they differ the most.

    Args:
        baseline: The row.
        jobs: One measurement for each job, in the order in which they ran.
        peak_flops: Peak FLOP/s of one GPU, for the MFU.
    """
    jobs_s = tuple(one.judged_s for one in jobs)
    judged_s = statistics.median(jobs_s)
    peak_flops = jobs[-1].calibration_flops or peak_flops
    found = figures_of(baseline, judged_s, peak_flops)
    ranks = ranks_of_jobs(one.ranks_s for one in jobs)
    metrics = {key: tuple(one.metrics[key][0] for one in jobs) for key in jobs[-1].metrics}
    return replace(jobs[-1], judged_s=judged_s, figures=found, jobs_s=jobs_s, ranks_s=ranks, metrics=metrics)


def timed_steps(baseline: Baseline, log: StepLog) -> tuple[TimedStep, ...]:
    """The log's steps in seconds; rates are turned into seconds by the row's batch and sequence length.

    Of a calibrated row, in seconds of a machine that is as fast as the documented one.
    """
    if baseline.judged_by.series is Series.SAVES:
        return tuple(TimedStep(None, seconds) for seconds in log.checkpoint_saves_s)
    factor = 1.0
    if CALIBRATION in baseline.judged_by.needs and log.calibration_flops is not None:
        factor = calibration_factor(baseline, log.calibration_flops)
    each_line = steps_each_line(log, log_interval(_lines(log))) if any(step.skipped for step in log.steps) else 1
    timed = ((step, step_seconds(step, baseline)) for step in log.steps)
    return tuple(
        TimedStep(step.index, seconds * factor, is_trained(step, each_line))
        for step, seconds in timed
        if seconds is not None
    )


def _ranks_s(baseline: Baseline, log: StepLog, chosen: Sequence[int], timed: Sequence[TimedStep]) -> dict[str, float]:
    """Each rank's median over the measured steps, seconds, by its label or by its place among those without one."""
    # Without a batch size no step has a time, and saves are of no rank.
    if log.printed is None or len(timed) != len(log.steps) or baseline.judged_by.series is Series.SAVES:
        return {}
    printed = []
    for position in chosen:
        step = log.steps[position]
        factor = timed[position].seconds / (step_seconds(step, baseline) or 1.0)
        seconds = ((label, _in_seconds(step, value, baseline)) for label, value in log.printed(step))
        printed.append([(label, value * factor) for label, value in seconds if value is not None])
    return ranks_s(printed)


def _in_seconds(step: Step, value: float, baseline: Baseline) -> float | None:
    """A number in the unit of a step, in seconds."""
    if step.seconds is not None:
        return value
    if step.samples_per_s is not None:
        return step_seconds(replace(step, samples_per_s=value), baseline)
    return step_seconds(replace(step, tokens_per_s_per_gpu=value), baseline)


def step_seconds(step: Step, baseline: Baseline) -> float | None:
    """One step's seconds, ``None`` where the row lacks the batch size that its rate must be divided by."""
    if step.seconds is not None:
        return step.seconds
    if baseline.global_batch_size is None:
        return None
    if step.samples_per_s is not None:
        return _seconds(baseline.global_batch_size, step.samples_per_s)
    if step.tokens_per_s_per_gpu is not None:
        tokens = baseline.global_batch_size * baseline.sequence_length
        return _seconds(tokens / baseline.gpus, step.tokens_per_s_per_gpu)
    return None


def _seconds(amount: float, per_s: float) -> float:
    """How long an amount takes; a rate of zero is for ever, and :func:`measure` refuses that."""
    return amount / per_s if per_s else math.inf


def read_identity(path: Path, format_name: str = "") -> Identity:
    """What a log of a format says of the run that wrote it, of one that holds no steps as well."""
    records = matching_records(path, identity_markers(format_name), stop=_IDENTITY_BYTES)
    return with_identity(StepLog(format_name, (), attempts=0), records).identity


def compared_with_row(baseline: Baseline, run: Run, said: Identity) -> tuple[Compared, ...]:
    """Everything that a log and its row both state."""
    image = None if run.image_was_chosen else baseline.recipe.image
    return compare(baseline, said, job_id=_own_job_id(run), image=image)


def agreed_with_row(baseline: Baseline, run: Run, log: StepLog) -> dict[str, str]:
    """What a measured log states as its row does, by its name."""
    found = agreed(compared_with_row(baseline, run, log.identity))
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
    if names:
        fact = f"the log belongs to another run, by its {' and '.join(one.name for one in names)}"
        advice = ""
    else:
        fact = f"the run was not the row's: {'; '.join(f'{one.name} {one.text}' for one in differing)}"
        advice = "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    raise LogError(
        fact,
        evidence=(
            *((one.name, one.text) for one in differing),
            *_said_at(run, said, differing),
            ("baseline", str(baseline.location)),
            *job_evidence(run),
        ),
        advice=advice,
    )


def _said_at(run: Run, said: Identity, differing: Sequence[Compared]) -> tuple[tuple[str, str], ...]:
    """The lines of the log that differ from the row."""
    if run.log is None:
        return ()
    offsets = sorted({said.places[one.field] for one in differing if one.field in said.places})
    lines = ", ".join(str(line_number(run.log, offset)) for offset in offsets)
    return (("said at", f"{run.log}:{lines}"),) if lines else ()


def _own_job_id(run: Run) -> str | None:
    """The id of the run's job; a replayed log may bear any name, and then its name stands in for an id that is none."""
    named_by_log = replayed(run) and run.log is not None and run.log.stem == run.job_id and not run.job_id.isdigit()
    return None if named_by_log else run.job_id or None


def _check_steps(
    baseline: Baseline,
    run: Run,
    log: StepLog,
    timed: tuple[TimedStep, ...],
    steps: int | None,
    first_index: int | None,
) -> None:
    series = baseline.judged_by.series
    of_saves = series is Series.SAVES
    interval = log_interval(timed, first_index)
    covered = len(timed) * interval
    last = log.steps[-1].index if log.steps else None
    final = None
    if steps is not None and first_index is not None and last is not None and baseline.recipe.logged_steps is None:
        final = first_index + steps - 1
    each_line = log_interval(_lines(log), first_index) if of_saves else interval
    ended = final is not None and last is not None and last + each_line > final
    if steps is not None and not of_saves and log.total_steps is not None and log.total_steps < steps:
        # A format that logs one figure for the whole run would show nothing else of it.
        raise _cut_short(f"the run was to do {counted(log.total_steps, 'step')}, {steps} needed", run, log)
    of_run = log.total_steps if steps is None else steps
    if of_run is not None and not of_saves and last is None and len(timed) > of_run:
        found = f"the log holds {counted(len(timed), 'step')} and nothing that numbers them"
        raise _refused(Problem(f"{found}, and the run has {of_run}", _TWO_ATTEMPTS), run, log)
    min_steps = baseline.min_steps if steps is None else min(baseline.min_steps, steps)
    # Where the end is there, lines are lost, not steps: a tenth of five lines for ten steps each is less than one.
    if covered < (min_steps // interval * interval if ended else min_steps):
        logged = baseline.recipe.logged_steps or steps if not of_saves else None
        wanted = f"{min_steps} needed" if logged is None else f"{min_steps} of {logged} needed"
        raise _cut_short(
            f"the log holds {counted(covered, 'checkpoint save' if of_saves else 'step')}, {wanted}", run, log
        )
    if not of_saves:
        each = steps_each_line(log, log_interval(_lines(log), first_index))
        problem = skipped_problem(baseline, log, each, min_steps)
        if problem is not None:
            raise _refused(problem, run, log)
    if final is not None and not ended:
        raise _cut_short(f"the log ends at step {last}, the run's last step is {final}", run, log)
    # A run that goes on beyond the table's last step ends at the log's.
    beyond = final is not None and last is not None and last > final
    if not replayed(run) and (steps is None or beyond):
        _check_own_end(run, log, first_index)


def _check_whole(baseline: Baseline, run: Run, log: StepLog) -> None:
    """Make sure that a log was not cut where its steps do not tell.

    A published excerpt may end anywhere; but what names its job is that job's own log.
    """
    path = run.log
    if path is None or (replayed(run) and log.identity.job_id is None):
        return
    of_saves = baseline.judged_by.series is Series.SAVES
    problem = reading(path, lambda: cut_problem(path, log, of_saves=of_saves))
    if problem is not None:
        raise _refused(problem, run, log)


def _check_own_end(run: Run, log: StepLog, first_index: int | None) -> None:
    """Make sure that a log whose last step no table states has the one that it names itself.

    Published logs often stop before it: somebody had seen enough. A job that ended well does not.
    """
    last = log.steps[-1].index if log.steps else None
    if log.total_steps is None or first_index is None or last is None:
        return
    final = first_index + log.total_steps - 1
    if last + _steps_each_line(log, first_index) <= final:
        done = last - first_index + 1
        raise _cut_short(
            f"the log ends at step {last}, and says itself that the last one is {final}",
            run,
            log,
            then=f"if its script ends the run there on purpose, write 'recipe: {{steps: {done}}}' in the table",
        )


def _steps_each_line(log: StepLog, first_index: int) -> int:
    """How many steps a line of the log stands for, guessed where the lines are too few to tell: 5 and 10 mean 5."""
    interval = log_interval(_lines(log), first_index)
    numbers = [step.index for step in log.steps if step.index is not None]
    if interval > 1 or not 2 <= len(numbers) <= _FEW_LINES:
        return interval
    gap = numbers[-1] - numbers[-2]
    # The first step may have a line whatever the interval.
    regular = gap > 0 and all((number - first_index + 1) % gap == 0 for number in numbers if number != first_index)
    return gap if regular else 1


def _lines(log: StepLog) -> tuple[TimedStep, ...]:
    """The log's lines by their numbers alone."""
    return tuple(TimedStep(step.index, 0.0) for step in log.steps)


def _cut_short(fact: str, run: Run, log: StepLog, then: str = "look at the last lines") -> LogError:
    return LogError(
        fact,
        evidence=_log_evidence(run, log),
        tail=_last_lines(run),
        advice=f"the run stopped early or its log was cut; {then}",
    )


def job_evidence(run: Run) -> tuple[tuple[str, str], ...]:
    """The job's facts, as messages show them."""
    status = run.status
    code = "" if status.exit_code is None else f" {status.exit_code}:{status.signal}"
    took = "" if status.run_s is None else f" after {duration(status.run_s)}"
    where = f" on {status.nodes}" if status.nodes else ""
    lines = [("job", f"{in_words((status.cluster, run.job_id))} {status.state.value}{code}{took}{where}")]
    if status.reason and status.reason != "None":
        lines.append(("reason", status.reason))
    if status.unchecked:
        lines.append(("unchecked", status.unchecked))
    if run.log is not None:
        lines.append(("log", str(run.log)))
    if run.batch_output is not None:
        lines.append(("batch log", str(run.batch_output)))
    return tuple(lines)


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
    return f"look at {run.log or run.batch_output}" if run.log or run.batch_output else ""


def _cause_evidence(found: FoundCause | None) -> tuple[tuple[str, str], ...]:
    return () if found is None else (("cause", found.cause.text), ("said at", f"{found.path}:{found.cause.line}"))


def _last_lines(run: Run) -> tuple[str, ...]:
    """The last lines of the log and of the batch shell's output, each under its name where there are both."""
    said = []
    for name, path in (("log", run.log), ("batch log", run.batch_output)):
        lines = tail_lines(path, 5) if path is not None and path.is_file() else ()
        if lines:
            said.append((name, lines))
    if len(said) < 2:
        return said[0][1] if said else ()
    return tuple(line for name, lines in said for line in (f"-- {name}:", *lines))


def _log_evidence(run: Run, log: StepLog) -> tuple[tuple[str, str], ...]:
    place = str(run.log)
    if run.log is not None and log.steps and log.steps[-1].offset is not None:
        place = f"{run.log}:{line_number(run.log, log.steps[-1].offset)}"
    attempts = f", the last of {log.attempts} runs in the file" if log.attempts > 1 else ""
    return (
        ("log", place),
        ("steps", f"{len(log.steps)} read as {log.format}{attempts}"),
        *(evidence for evidence in job_evidence(run) if evidence[0] == "job"),
    )
