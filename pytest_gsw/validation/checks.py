"""Checks before an ended job and its log are measured.

The job ended well; the log is this run's and shows no failure; its steps trained, and there are enough of them.
:mod:`pytest_gsw.validation.measure` checks that the result is possible.
"""

from __future__ import annotations

import calendar
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import plural
from pytest_gsw.errors import IncompleteLogError, JobError, LogError, LogWarning
from pytest_gsw.jobs.layout import CLOCK_SKEW_S
from pytest_gsw.jobs.model import LOST_AT_START, Job, JobState, JobStatus, StepProblem, is_well, problem_of
from pytest_gsw.logs.failure_scan import UNNAMED_STEP, WHEREVER_MARKERS, find_fatal, is_requeued
from pytest_gsw.logs.identity import identity_markers, with_identity
from pytest_gsw.logs.model import Identity, LogFormat, Step, StepLog
from pytest_gsw.logs.reader import line_number, open_log, read_log, reading
from pytest_gsw.logs.scan import LogFile, matching_records
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE, Cause
from pytest_gsw.logs.steps import SKIP_MARKERS, with_skipped
from pytest_gsw.stats.measurement import TimedStep, log_interval
from pytest_gsw.tables.load import other_release
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, image_name, parse_statistic
from pytest_gsw.tables.releases import releases_of
from pytest_gsw.validation.agreement import CONTAINER, RELEASE, Compared, Provenance, agreed, compare, provenance_in
from pytest_gsw.validation.run import (
    CAUSE_OF_STATE,
    Problem,
    Run,
    canceller,
    cause_evidence,
    cause_of,
    job_evidence,
    killed_by_signal,
    last_lines,
    log_evidence,
    lost_at_start,
    refuse,
    replayed,
    unset_boost,
    where_to_look,
)

#: A log has its run's identity at its beginning.
_IDENTITY_BYTES = 4 << 20


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

#: The place of a failure in messages, by the names of a job's files.
_WHERE = {"log": "its log", "stderr": "its stderr", "output": "an output of it", "batch log": "its batch output"}


def check_job(run: Run, may_fail: Collection[str] = ()) -> None:
    """Check that the job ran to COMPLETED with exit code 0, and so did its steps.

    Args:
        run: The ended job.
        may_fail: Names of its steps that may fail.

    Raises:
        JobError: It did not; the message has the cause from the log or the batch shell's output.
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
        stop = run.stopped
        said = (("cause", stop.cause), ("said at", stop.said_at)) if stop.cause else ()
        raise JobError(stop.fact, evidence=(*job_evidence(run), *said), tail=last_lines(run), advice=stop.advice)
    cause = cause_of(run)
    shown = cause or killed_by_signal(run)
    raise JobError(
        _job_fact(run, shown),
        evidence=(*job_evidence(run), *cause_evidence(shown)),
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
    found = cause_of(run)
    look = where_to_look(run)
    where = f"{look}; " if look else ""
    excuse = "if the row may pass all the same, name that step in its table: recipe: {may_fail: [NAME]}"
    if may_fail and run.status.steps is None:
        excuse = f"only Slurm's accounting shows whether it was {' or '.join(may_fail)}, which may fail"
    return JobError(
        f"job {run.job_id} completed, but {problem.fact}",
        evidence=(*(("step", step) for step in problem.steps), *job_evidence(run), *cause_evidence(found)),
        tail=() if found else last_lines(run),
        advice=f"{found.advice}; {excuse}" if found else f"{where}{excuse}",
    )


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
        compared = check_identity(baseline, run, log.identity)
        of_files = _check_evidence(baseline, run, log.identity)
        check_end(run, file, log, log_format)
        provenance = provenance_in(file)
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
        _check_attempts(run, path, read)
        _check_lines(run, path, read)
    refuse(still_problem(log) or loss_problem(baseline, log), run, log)
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
    status = run.status
    excused = frozenset(step.id for step in status.steps or () if not is_well(step))
    if not status.steps and status.derived_exit_code:
        excused = frozenset({UNNAMED_STEP})
    found = find_fatal(file, log, log_format, run.other_files, run.batch_output, excused)
    if found is None:
        return
    where = _WHERE[next((name for name, path in run.outputs if path == found.path), "log")]
    raise LogError(
        f"{'the log' if found.path == file.path else 'stderr beside the log'} shows a failure: {found.name}"
        if replayed(run)
        else f"job {run.job_id} completed, but {where} shows a failure: {found.name}",
        evidence=(*job_evidence(run), *cause_evidence(found)),
        advice=found.advice,
    )


def _check_attempts(run: Run, path: Path, log: StepLog) -> None:
    """Check that no earlier attempt diverged, except one after which the scheduler requeued the job.

    Raises:
        LogError: One did.
    """
    for one in log.diverged:
        at = "" if one.index is None else f" at step {one.index}"
        fact = f"attempt {one.attempt} of {log.attempts} diverged{at}: {one.text}"
        if is_requeued(path, one.begin, one.end):
            warnings.warn(LogWarning(f"job {run.job_id}: {fact}; the scheduler requeued it"), stacklevel=2)
            continue
        advice = "a run that diverges and begins anew is no measure of performance: find out why before measuring"
        begin = ("attempt", f"{path}:{line_number(path, one.begin)}")
        refuse(Problem(fact, advice, (begin,)), run, log)


def _check_lines(run: Run, path: Path, log: StepLog) -> None:
    """Check that the recipe's own lines agree, unless the scheduler requeued the job between two of them.

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
    refuse(
        Problem(
            f"the log's own lines contradict each other before its first step: {both}",
            "find out which two runs write into one log, or what else prints such a line",
            (("said at", places),),
        ),
        run,
        log,
    )


def read_identity(path: Path, format_name: str = "") -> Identity:
    """The identity of the run that wrote a log, which may have no steps."""
    records = matching_records(path, identity_markers(format_name), stop=_IDENTITY_BYTES)
    return with_identity(StepLog(format_name, (), attempts=0), records).identity


#: Times as recipes and frameworks, ``date``, and Slurm write them.
_TIME = re.compile(
    rb"\b(20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d)|\b([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d) [A-Z]{3,5} (20\d\d)"
    rb"|\bSLURM_JOB_START_TIME=(\d{10})\b"
)
_HEAD_BYTES = 1 << 16


def is_own(job: Job, log: Path) -> bool:
    """True if the head of a log states its job's id, and its first time is one after the job's submission."""
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        found = _TIME.search(head)
        if found is None or not re.search(rb"(?i)job_?id[\"']?[=:] ?[\"']?%b\b" % re.escape(job.id.encode()), head):
            return False
        iso, day, year, epoch = ((part or b"").decode() for part in found.groups())
        form = "%Y-%m-%d %H:%M:%S" if iso else "%b %d %H:%M:%S %Y"
        parsed = time.gmtime(int(epoch)) if epoch else time.strptime(iso.replace("T", " ") or f"{day} {year}", form)
    except (OSError, ValueError):
        return False
    # The zone is not known.
    earliest_s, latest_s = job.submitted_s - CLOCK_SKEW_S, time.time() + CLOCK_SKEW_S
    return any(earliest_s <= start_s <= latest_s for start_s in (calendar.timegm(parsed), time.mktime(parsed)))


def check_identity(
    baseline: Baseline, run: Run, identity: Identity, others: Sequence[Compared] = ()
) -> tuple[Compared, ...]:
    """Check that a log belongs to this row and job, and that its settings are the row's, if it states them.

    Args:
        baseline: The row.
        run: The ended job.
        identity: The identity of the log, or of another file.
        others: Further differences.

    Returns:
        The values compared.

    Raises:
        LogError: A value differs.
    """
    image = None if run.image_was_chosen else baseline.recipe.image
    compared = (*compare(baseline, identity, job_id=_own_job_id(run), image=image), *others)
    differing = [one for one in compared if one.agrees is False]
    if not differing:
        return compared
    names = [one for one in differing if one.is_name]
    release = next((one for one in differing if one.field == RELEASE), None)
    release_evidence: tuple[tuple[str, str], ...] = ()
    if not names and release is not None:
        # The settings may differ because of the release.
        other = other_release(baseline, releases_of(release.found), "the log", f"--gsw-replay={run.log or 'LOG'}")
        fact, advice = other.fact, other.advice
        release_evidence = (("release", f"GSW_VERSION={release.found} in the log"), other.table)
        differing.remove(release)
    elif names:
        fact = f"the log belongs to another run, by its {' and '.join(one.name for one in names)}"
        advice = _ANOTHER_RUN
    else:
        fact = f"the run was not the row's: {'; '.join(f'{one.name} {one.text}' for one in differing)}"
        advice = "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    raise LogError(
        fact,
        evidence=(
            *release_evidence,
            *((one.name, one.text) for one in differing),
            *_differing_lines(run, identity, compared),
            ("baseline", str(baseline.location)),
            *job_evidence(run),
        ),
        advice=advice,
    )


def _check_evidence(baseline: Baseline, run: Run, identity: Identity) -> Sequence[tuple[Compared, ...]]:
    """Check that the job's other files belong to the row.

    Returns:
        The values compared, for each file.

    Raises:
        LogError: One belongs to another row or run.
    """
    quantized = [one.identity.quantization for one in run.evidence]
    quantization = next((one for one in quantized if one is not None), identity.quantization)
    compared = []
    for one in run.evidence:
        try:
            compared.append(check_identity(baseline, run, one.identity, one.differing(baseline, quantization)))
        except LogError as error:
            raise LogError(error.fact, (*error.evidence, ("said in", str(one.path))), advice=error.advice) from None
    return compared


_ANOTHER_RUN = (
    "look whether another recipe writes there, or the launch script sets a variable such as DTYPE itself; "
    "a log that you name must be this row's"
)


def _differing_lines(run: Run, identity: Identity, compared: Sequence[Compared]) -> tuple[tuple[str, str], ...]:
    """The lines of the log that differ from the row."""
    if run.log is None:
        return ()
    offsets = sorted(
        {identity.places[one.field] for one in compared if one.agrees is False and one.field in identity.places}
    )
    lines = ", ".join(str(line_number(run.log, offset)) for offset in offsets)
    return (("said at", f"{run.log}:{lines}"),) if lines else ()


def _own_job_id(run: Run) -> str | None:
    """The id of the run's job; ``None`` if it is only the name of a replayed log."""
    named_by_log = replayed(run) and run.log is not None and run.log.stem == run.job_id and not run.job_id.isdigit()
    return None if named_by_log else run.job_id or None


def _job_fact(run: Run, found: Cause | None) -> str:
    status = run.status
    if status.state is JobState.UNKNOWN:
        return f"the end of job {run.job_id} is not known: {status.reason or status.raw_state or 'no answer'}"
    if status.state is JobState.COMPLETED and status.exit_code is None:
        return f"the exit code of job {run.job_id} is not known"
    if (lost := lost_at_start(run)) is not None:
        return f"job {run.job_id} never began: {LOST_AT_START}: {lost}"
    if _has_no_output(status):
        return f"job {run.job_id} never ran: Slurm could not open its output file"
    ended = {JobState.COMPLETED: "ended", JobState.FAILED: "failed"}.get(status.state, f"ended {status.state.value}")
    code = f" with exit code {status.exit_code}" if status.exit_code else ""
    how = "" if status.state in _ENDED_BY_SLURM else f" by signal {status.signal}" if status.signal else code
    by = canceller(status)
    how = f" by {by}" if by and run.stopped is None else how
    why = f": {found.name}" if found and found.name != CAUSE_OF_STATE.get(status.state) else ""
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
        return f"{where_to_look(run)}, and at that node's dmesg -T: the kernel kills processes if memory is short"
    if lost_at_start(run) is not None:
        return f"sinfo -R -n {run.status.nodes} has more; --gsw-retries=1 runs such a row again on other nodes"
    if run.status.state is JobState.TIMEOUT:
        return "give the job more time with timeout: MINUTES in clusters.yaml, or find out what it waited for"
    if run.status.state is JobState.REVOKED:
        return (
            f"a federation of clusters has moved the job, which may run on: scancel {run.job_id}; "
            "keep jobs on one cluster with --clusters=NAME under `sbatch` of the cluster"
        )
    return where_to_look(run)


# -- Completeness of a log: enough steps, and the last one


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
    of_saves = series is Series.SAVES
    interval = log_interval(timed, first_index)
    covered = len(timed) * interval
    last = log.steps[-1].index if log.steps else None
    final = final_step(baseline, log, steps, first_index)
    is_each_timed = len(timed) == len(log.steps) and not of_saves
    each_line = interval if is_each_timed else log_interval(log.steps, first_index)
    ended = final is not None and last is not None and last + (each_line if of_saves else interval) > final
    if steps is not None and not of_saves and log.total_steps is not None and log.total_steps < steps:
        # A format with one figure for the whole run would not show it otherwise.
        is_cut = first_index is not None and last is not None and last + interval < first_index + log.total_steps
        cut = f"the log ends at step {last}; " if is_cut else ""
        raise _incomplete_log(f"{cut}the run was to do {plural(log.total_steps, 'step')}, {steps} needed", run, log)
    of_run = log.total_steps if steps is None else steps
    if of_run is not None and not of_saves and last is None and len(timed) > of_run:
        found = f"the log holds {plural(len(timed), 'step')} and nothing that numbers them"
        refuse(Problem(f"{found}, and the run has {of_run}", _TWO_ATTEMPTS), run, log)
    min_steps = baseline.min_steps if steps is None else min(baseline.min_steps, steps)
    # If the last step is there, lines are lost, not steps: a tenth of five lines for ten steps each is less than one.
    if covered < (min_steps // interval * interval if ended else min_steps):
        logged = baseline.recipe.logged_steps or steps if not of_saves else None
        wanted = f"{min_steps} needed" if logged is None else f"{min_steps} of {logged} needed"
        error = _incomplete_log(
            f"the log holds {plural(covered, 'checkpoint save' if of_saves else 'step')}, {wanted}", run, log
        )
        if ended or final is None:
            error.advice = _resumed_advice(run, log, first_index, each_line) or error.advice
        raise error
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


#: Settings that a step's line may state, by the field of :class:`~pytest_gsw.logs.model.StepSetup`.
_STEP_SETTINGS = (("global batch size", "global_batch_size"), ("sequence length", "sequence_length"))


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
    for name, field in _STEP_SETTINGS:
        wanted = getattr(baseline, field)
        values: list[int | None] = [getattr(step.setup, field) for step in steps]
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
            step = f"step {_number(steps, changes)}: from {values[changes - 1]} to {values[changes]}"
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
    left = replace(parse_statistic(baseline.statistic), first=_number(steps, stray) + 1)
    return f"write 'statistic: {left}' in the table, which leaves those steps out, or run without a ramp-up"


def _number(steps: Sequence[Step], position: int) -> int:
    index = steps[position].index
    return position if index is None else index


def check_whole(baseline: Baseline, run: Run, log: StepLog) -> None:
    """Check that a log was not cut in a way that its steps do not show.

    A published excerpt may end anywhere; but a log with a job id is that job's own.
    """
    path = run.log
    if path is None or (replayed(run) and log.identity.job_id is None):
        return
    with reading(path):
        problem = cut_problem(path, log, of_saves=baseline.judged_by.series is Series.SAVES)
    refuse(problem, run, log, IncompleteLogError)


def _check_own_end(run: Run, log: StepLog, first_index: int | None, interval: int) -> None:
    """Check that a log has the last step that it states itself, if no table states it."""
    last = log.steps[-1].index if log.steps else None
    if log.total_steps is None or first_index is None or last is None:
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


#: Lines of frameworks that load a checkpoint.
_LOADS = (b"oaded checkpoint", b"oading checkpoint", b"oading the checkpoint", b"estored", b"estoring", b"esuming from")


def _resumed_advice(run: Run, log: StepLog, first_index: int | None, each_line: int) -> str:
    """Advice for a run that lacks its first steps, because it loaded a checkpoint; empty if it did not."""
    first = log.steps[0] if log.steps else None
    if run.log is None or first is None or first.index is None or first_index is None:
        return ""
    if first.index < first_index + each_line:
        return ""
    stop = first.offset or 0
    if log.attempts < 2 and next(matching_records(run.log, _LOADS, stop=stop), None) is None:
        return ""
    again = f"the run began again at step {first.index} after loading a checkpoint"
    return f"{again}: remove that, or do not load it, and run it again"


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


# -- cut logs --------------------------------------------------------------------------------------


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
        found = matching_records(path, (_SAVE_ANNOUNCEMENT,), start=log.steps[0].offset or 0)
        announced = len({record.partition(_SAVE_ANNOUNCEMENT)[2].strip().partition(b" ")[0] for _, record in found})
        if announced > len(log.checkpoint_saves_s):
            took = plural(len(log.checkpoint_saves_s), "checkpoint save")
            return Problem(f"the log announces {announced} checkpoint saves, and has the time of {took}", _LOOK)
    return None


# -- Training in the steps of a run: skipped steps, losses, attempts that diverged


#: Half precision begins with a loss scale of up to 2^32 (Megatron's ``initial-loss-scale``), which each step that
#: overflows halves: so many steps may be skipped before the first that trains.
START_UP_STEPS = 32
SCALED_DTYPES = frozenset({"fp16"})
#: Later, a scaler tries a larger scale once in 1000 steps: a run that skips one step in ten does not train.
_MOST_SKIPPED = 0.1
#: Fewest losses with a first and a last tenth.
_FEWEST_LOSSES = 10
#: Fewest steps of a model that stands still: two equal losses may be one rounding, and three are none of a run that
#: moves. At the end of a run that has moved, so few may be an optimizer that has converged: there, five.
_FEWEST_STILL, _FEWEST_AT_END = 3, 5
#: A loss below this, or below this share of the run's first, has been learnt by heart: no gradient is left. A model
#: that has died predicts nothing, and its loss is far above.
_LEARNT, _LEARNT_SHARE = 0.01, 0.1


def steps_each_line(log: StepLog, interval: int) -> int:
    """The steps in one entry of a log: its interval, or all if the log has one figure for the run.

    Args:
        log: The steps.
        interval: Steps from one line to the next, from their numbers.
    """
    if len(log.steps) != 1 or log.steps[0].index is not None:
        return interval
    return log.total_steps or (interval if log.overflows is None else log.overflows.of)


def is_trained(step: Step, each_line: int) -> bool:
    """True if a step, or all but a tenth of a line's steps, was trained; others are faster, and are not measured."""
    return min(step.skipped, each_line) <= each_line * _MOST_SKIPPED


def skipped_problem(baseline: Baseline, log: StepLog, each_line: int, min_steps: int) -> Problem | None:
    """The problem of too few trained steps, if there is one.

    Args:
        baseline: The row; in half precision the first steps may be skipped, until the loss scale fits.
        log: The steps.
        each_line: Steps in one entry of the log.
        min_steps: Fewest steps that the log must hold.
    """
    skipped = [min(step.skipped, each_line) for step in log.steps]
    if not any(skipped):
        return None
    total = len(skipped) * each_line
    scaled = baseline.dtype in SCALED_DTYPES
    needed = math.ceil(min_steps / 2) if scaled else min_steps
    trained = each_line * sum(is_trained(step, each_line) for step in log.steps)
    start = START_UP_STEPS if scaled else 0
    late = sum(count for position, count in enumerate(skipped) if position * each_line >= start)
    if trained < needed:
        fact = f"the optimizer skipped {sum(skipped)} of {plural(total, 'step')}: {trained} trained, {needed} needed"
    elif late > _MOST_SKIPPED * max(0, total - start):
        behind = f" behind the first {start}" if start else ""
        fact = f"the optimizer skipped {late} of {plural(total - start, 'step')}{behind}, more than a tenth"
    else:
        return None
    return Problem(fact, "a skipped step trains nothing and is faster: look at the loss scale, the loss and the data")


def still_problem(log: StepLog, measured: Sequence[int] = ()) -> Problem | None:
    """A model that stands still: a gradient norm of 0 and one loss, in all measured steps or from a step to the end.

    Either alone is none: norms and losses are rounded. Skipped steps are neither.

    Args:
        log: The steps.
        measured: The positions of the steps that the row's statistic is taken over.
    """
    losses = log.zero_norm_losses
    has_lines = len(losses) == len(log.steps)  # else one step is all of the run, which prints losses in between
    places = [at for at in range(len(losses)) if not (has_lines and log.steps[at].skipped)]
    still = [*takewhile(lambda at: losses[at] == losses[places[-1]], reversed(places))][::-1]
    if len(still) < (_FEWEST_STILL if len(still) == len(places) else _FEWEST_AT_END):
        still = [at for at in measured if has_lines and losses and losses[at] == losses[measured[0]]]
        if len(still) < max(len(measured), _FEWEST_STILL):
            return None
    loss, first_loss = losses[still[0]], (*(log.losses or ()), 0.0)[0]
    if abs(loss) < max(_LEARNT, _LEARNT_SHARE * abs(first_loss)):
        return None
    of = "step" if has_lines and log_interval(log.steps) == 1 else "line"
    first, last = (_number(log.steps, at) if has_lines else at + 1 for at in (still[0], still[-1]))
    return Problem(
        f"the model does not train: gradient norm 0 in {len(still)} of {plural(len(still), of)}",
        "its weights do not change: look at the loss, the data, frozen parameters and what the optimizer is given",
        (("loss", f"{loss:.10g} in each, from {of} {first} to {last}"),),
    )


def loss_problem(baseline: Baseline, log: StepLog) -> Problem | None:
    """A loss that is missing, or that does not fall although the table requires it."""
    if log.without_loss:
        index = log.without_loss[0]
        where = "a step" if index is None else f"step {index}"
        return Problem(
            f"{where} has no loss: {len(log.without_loss)} of {plural(len(log.steps), 'step')}",
            f"every step line of {log.format} has one: find out what changed its log",
        )
    if baseline.loss != "falls":
        return None
    if log.losses is None:
        return Problem(
            f"the row asks that the loss falls, and {log.format} prints no loss",
            f"remove 'loss: falls' at {baseline.location}, or print the loss of each step",
        )
    if len(log.losses) < _FEWEST_LOSSES:
        return Problem(
            f"the log holds {plural(len(log.losses), 'loss', 'losses')}, too few to tell whether it falls",
            f"let the run log {_FEWEST_LOSSES} losses or more, or remove 'loss: falls' at {baseline.location}",
        )
    count = len(log.losses) // _FEWEST_LOSSES
    first, last = statistics.fmean(log.losses[:count]), statistics.fmean(log.losses[-count:])
    if last < first:
        return None
    return Problem(
        f"the loss does not fall: {first:.4g} over the first tenth of the steps, {last:.4g} over the last",
        "a run that does not learn may leave out work: look at the learning rate, the data and the optimizer",
    )
