"""Import of older results: jobs without a session become records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.model import IMPORTED
from pytest_gsw.jobs.layout import Match
from pytest_gsw.jobs.model import FoundLog
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import junit, make_record, manifest, runs_directory
from pytest_gsw.results.record import JobFacts, Jobs, Record, RunFacts
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.verdict import Verdict
from pytest_gsw.tables.load import table_name
from pytest_gsw.tables.model import Baseline, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import is_simulated, provenance_in
from pytest_gsw.validation.matching import match_logs

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
    node_id, definition = f"{table_name(row.location.path)}::{row.id}", definition_hash(row, image)
    facts = make_record.row_facts(row, node_id, verdict.tolerance, definition, experiment_hash(row))
    run = RunFacts(run_id(job.id, source), cluster, simulated=False, image=image)
    metrics = {metric_verdict.metric.key: metric_verdict.measured for metric_verdict in verdict.metrics}
    jobs = Jobs(replace(job, judged=measurement.judged, metrics=metrics))
    fact = f"{row.judged_by.text(measurement.judged)}, imported from {relative_path(source)}"
    result = make_record.RowResult(verdict.outcome.value, fact, measurement=measurement, verdict=verdict)
    return redact(make_record.record_of(row, facts, run, jobs, result, None), os.environ)


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
            raise ConfigurationError(f"there is no directory {directory}\nnext: ls {runs_directory.RUNS}")
        if run := manifest.read_noted(directory).replay_of:
            # A job counts once, in its own run.
            left_out.append(redact(f"{directory} is a replay of {run}", os.environ))
            continue
        of_run, unreadable = junit.read_run(directory)
        records += of_run
        left_out += unreadable.values()
        if not of_run and not unreadable:
            left_out.append(f"{directory} has no records")
    return Imported(tuple(records), tuple(left_out))


# -- logs ------------------------------------------------------------------------------------------


#: Measures and judges a log, by its path and the id of its job, as a run of a row; a RunError if that is impossible.
JudgeLog: TypeAlias = Callable[[Baseline, Path, str], Judged]


def import_logs(
    directory: Path,
    rows: Sequence[Baseline],
    cluster: str,
    known: Known,
    judge_log: JudgeLog,
    found: Sequence[FoundLog],
) -> Imported:
    """The records of all logs of these rows below a directory; links are not followed.

    Raises:
        ConfigurationError: There is no log in it.
    """
    records: dict[tuple[str, str], Record] = {}
    left_out: list[str] = []
    count_known = 0
    for match in match_logs(directory, rows, found):
        row, path, job_id = match.row, match.path, match.job_id
        judged = match.why if row is None else _judge(row, match, judge_log)
        if row is None or isinstance(judged, str):
            left_out.append(f"{path}: {judged}")
        elif known(row.id, cluster, job_id):
            count_known += 1
        elif (row.id, job_id) in records:
            left_out.append(f"{path}: job {job_id} has another log, {records[row.id, job_id].run.log}")
        else:
            records[row.id, job_id] = _record(match, row, cluster, judged)
    if not (records or left_out or count_known):
        raise ConfigurationError(
            f"--from-logs: there is no log below {directory}\n"
            "wanted: log-FRAMEWORK_MODEL_SIZE_GPUS_JOB.out, as recipes name them, or *.out, *.log or *.txt in it"
        )
    return Imported(tuple(records.values()), tuple(left_out), count_known)


def _judge(row: Baseline, match: Match, judge_log: JudgeLog) -> Judged | str:
    """The measurement and verdict of a log, or the reason why there is none."""
    with suppress(OSError):  # reading its steps will report the error
        if is_simulated(match.path):
            return "is a simulation's, and its figures are made up"
    try:
        return judge_log(row, match.path, match.job_id)
    except RunError as error:
        return error.fact


def _record(candidate: Match, row: Baseline, cluster: str, judged: Judged) -> Record:
    """The record of a measured log; its time is that of the file's last change."""
    image = provenance_in(candidate.path).image or (image_name(row.recipe.image) if row.recipe.image else None)
    path = candidate.path
    job = JobFacts(JobState.REPLAYED, end_s=path.stat().st_mtime, id=candidate.job_id, launcher=IMPORTED, log=str(path))
    measurement, verdict = judged
    return imported_record(row, cluster, path, job, measurement, image, verdict)
