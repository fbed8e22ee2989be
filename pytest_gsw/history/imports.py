"""Import of older results: jobs without a session become records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.model import IMPORTED
from pytest_gsw.jobs.layout import FoundLog, job_id_in, log_glob, looks_like_a_log
from pytest_gsw.jobs.model import JobState
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.make_record import RowResult, record_of, row_facts
from pytest_gsw.results.manifest import read_noted
from pytest_gsw.results.record import JobFacts, Jobs, Record, RunFacts
from pytest_gsw.results.runs_directory import RUNS
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.verdict import Outcome, Verdict
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.model import Baseline, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import is_simulated, provenance_in

#: True if a history has a job already, by row, cluster and the job's id.
Known: TypeAlias = Callable[[str, str, str], bool]
#: The measurement of a job, and its verdict.
Judged: TypeAlias = tuple[Measurement, Verdict]


@dataclass(frozen=True)
class Imported:
    """Records to add to a history, and items left out with the reason."""

    records: tuple[Record, ...] = ()
    left_out: tuple[str, ...] = ()
    #: Number of jobs that the history has already.
    known: int = 0


def run_id(job_id: str, source: Path) -> str:
    """The run of an imported job, the same at each import: a history takes it once."""
    return f"import-{job_id}-{hashlib.sha256(os.fsencode(source.resolve())).hexdigest()[:8]}"


def imported_record(
    row: Baseline,
    cluster: str,
    source: Path,
    job: JobFacts,
    measurement: Measurement,
    image: str | None,
    verdict: Verdict,
) -> Record:
    """The record of an imported job with its verdict.

    Raises:
        ValueError: A number is not finite and above zero.
    """
    if verdict.outcome is not Outcome.INCONCLUSIVE:  # a plausible figure needs no reason
        verdict = replace(verdict, given_reason=None)
    node_id, definition = f"{_table(row.location.path)}::{row.id}", definition_hash(row, image)
    facts = row_facts(row, node_id, verdict.tolerance, definition, experiment_hash(row))
    run = RunFacts(run_id(job.id, source), cluster, simulated=False, image=image)
    metrics = {one.metric.key: one.measured for one in verdict.metrics}
    jobs = Jobs(replace(job, judged=measurement.judged, metrics=metrics))
    fact = f"{row.judged_by.text(measurement.judged)}, imported from {relative_path(source)}"
    found = RowResult(verdict.outcome.value, fact, measurement=measurement, verdict=verdict)
    return redact(record_of(row, facts, run, jobs, found, None), os.environ)


def _table(path: Path) -> str:
    """A table's name as in sessions' node ids."""
    bundled = bundled_baselines()
    return (path.relative_to(bundled.parent) if path.is_relative_to(bundled) else relative_path(path)).as_posix()


# -- directories of runs ---------------------------------------------------------------------------


def import_runs(directories: Iterable[Path]) -> Imported:
    """The records of runs in their directories, such as ``.gsw/runs/ID``.

    Raises:
        ConfigurationError: One of them is no directory.
    """
    records: list[Record] = []
    left_out: list[str] = []
    for directory in directories:
        if not directory.is_dir():
            raise ConfigurationError(f"there is no directory {directory}\nnext: ls {RUNS}")
        if run := read_noted(directory).replay_of:
            # A job counts once, in its own run.
            left_out.append(redact(f"{directory} is a replay of {run}", os.environ))
            continue
        of_run, unreadable = read_run(directory)
        records += of_run
        left_out += unreadable.values()
        if not of_run and not unreadable:
            left_out.append(f"{directory} has no records")
    return Imported(tuple(records), tuple(left_out))


# -- logs ------------------------------------------------------------------------------------------


#: Suffix of directories with NCCL traces, runs of ten steps.
_TRACED = "-nccl-trace"


@dataclass(frozen=True)
class _Candidate:
    """A log and the rows that match its name."""

    path: Path
    job_id: str
    rows: tuple[Baseline, ...]


#: Measures and judges a log, by its path and the id of its job, as a run of a row; a RunError if that is impossible.
JudgeLog: TypeAlias = Callable[[Baseline, Path, str], Judged]
#: The logs below the directory that a row's launcher knows by files of its own, whatever they are named.
LaunchedLogs: TypeAlias = Callable[[Baseline], Sequence[FoundLog]]


def import_logs(
    directory: Path,
    rows: Sequence[Baseline],
    cluster: str,
    known: Known,
    judge_log: JudgeLog,
    launched_logs: LaunchedLogs,
) -> Imported:
    """The records of all logs of these rows below a directory, by name or by launcher; links are not followed.

    Raises:
        ConfigurationError: There is no such directory, or no log of these rows in it.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"--from-logs: there is no directory {directory}")
    globs = [
        (row, Path(log_glob(row.framework, row.model, row.size, row.dtype, row.gpus)))
        for row in rows
        if row.size is not None  # without one, its logs may be named like those of any size
    ]
    records: dict[tuple[str, str], Record] = {}
    left_out: list[str] = []
    found = count_known = 0
    launched: dict[Path, _Candidate] = {}
    for row in rows:
        for log in (one for one in launched_logs(row) if not one.path.is_symlink()):
            others = launched[log.path].rows if log.path in launched else ()
            launched[log.path] = _Candidate(log.path, log.job_id, (*others, row))
    for path in dict.fromkeys((*_logs(directory), *launched)):
        candidate = launched.get(path) or _candidate(path, globs)
        if candidate is None:
            left_out.append(f"{path}: is named like the log of no row")
            continue
        found += 1
        match = _match_and_judge(candidate, judge_log)
        if isinstance(match, str):
            left_out.append(f"{path}: {match}")
            continue
        row, judged = match
        job = row.id, candidate.job_id
        if known(row.id, cluster, candidate.job_id):
            count_known += 1
        elif job in records:
            left_out.append(f"{path}: job {candidate.job_id} has another log, {records[job].run.log}")
        else:
            records[job] = _record(candidate, row, cluster, judged)
    if not found:
        raise ConfigurationError(
            f"--from-logs: no log below {directory} is named like one of these rows\n"
            "wanted: log-FRAMEWORK_MODEL_SIZE_GPUS_JOB.out, as recipes name them; pytest-gsw rows lists the rows"
        )
    return Imported(tuple(records.values()), tuple(left_out), count_known)


def _logs(directory: Path) -> Iterator[Path]:
    """Files named like a log below a directory, in the order of their paths."""
    for place, below, names in os.walk(directory):
        below[:] = sorted(name for name in below if not name.endswith(_TRACED))
        for name in sorted(names):
            path = Path(place, name)
            if looks_like_a_log(name) and path.is_file() and not path.is_symlink():
                yield path


def _candidate(path: Path, globs: Sequence[tuple[Baseline, Path]]) -> _Candidate | None:
    """The rows that match a log by its directory and its name, else by its name."""
    named = [(row, glob, job_id) for row, glob in globs if (job_id := job_id_in(path.name, glob.name)) is not None]
    placed = [one for one in named if path.parent.match("/".join(one[1].parts[-4:-1]))]
    chosen = placed or named
    return _Candidate(path, chosen[0][2], tuple(row for row, _, _ in chosen)) if chosen else None


def _match_and_judge(candidate: _Candidate, judge_log: JudgeLog) -> tuple[Baseline, Judged] | str:
    """The one row of a log with its measurement and verdict, or the reason why there is none."""
    found: list[tuple[Baseline, Judged]] = []
    reasons: list[str] = []
    if _is_simulated(candidate.path):
        return "is a simulation's, and its figures are made up"
    for row in candidate.rows:
        try:
            found.append((row, judge_log(row, candidate.path, candidate.job_id)))
        except RunError as error:
            reasons.append(error.fact)
        except OverflowError:
            reasons.append("its numbers are too large to be measured")
    if not found:
        return reasons[0]
    if len(found) > 1:
        names = ", ".join(row.id for row, _ in found)
        return f"may be of {len(found)} rows: {names}; name the one that it is of"
    return found[0]


def _is_simulated(path: Path) -> bool:
    try:
        return is_simulated(path)
    except OSError:
        return False  # reading its steps will report the error


def _record(candidate: _Candidate, row: Baseline, cluster: str, judged: Judged) -> Record:
    """The record of a measured log; its time is that of the file's last change."""
    image = provenance_in(candidate.path).image or (image_name(row.recipe.image) if row.recipe.image else None)
    path = candidate.path
    job = JobFacts(JobState.REPLAYED, end_s=path.stat().st_mtime, id=candidate.job_id, launcher=IMPORTED, log=str(path))
    measurement, verdict = judged
    return imported_record(row, cluster, path, job, measurement, image, verdict)
