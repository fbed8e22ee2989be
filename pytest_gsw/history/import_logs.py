"""Logs of older runs, found by the recipes' naming and measured with the checks of a replay.

Nobody knows how their jobs ended: that a log is complete and its loss finite is what speaks for it, and the one who
imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.errors import ConfigurationError, LogError
from pytest_gsw.history.imported import Imported, Known, imported_record
from pytest_gsw.history.model import IMPORTED
from pytest_gsw.jobs.layout import errors_beside, job_id_in, log_glob, looks_like_a_log
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.record import Record
from pytest_gsw.runs.agreement import evidence_beside
from pytest_gsw.runs.checks import read_steps
from pytest_gsw.runs.measure import measure_as_documented
from pytest_gsw.runs.provenance import is_simulated, provenance_in
from pytest_gsw.runs.run import Run
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.model import Baseline

#: Recipes that trace NCCL train ten steps, below such a directory.
_TRACED = "-nccl-trace"


@dataclass(frozen=True)
class _Candidate:
    """A log and the rows that it may be of, by its name."""

    path: Path
    job_id: str
    rows: tuple[Baseline, ...]


#: How logs of a row are read; ``None`` where nobody can.
FormatOf: TypeAlias = Callable[[Baseline], LogFormat | None]


def built_in(row: Baseline) -> LogFormat | None:
    """The format that comes with pytest-gsw."""
    return FORMATS.get(row.log_format)


def import_logs(
    directory: Path, rows: Iterable[Baseline], cluster: str, known: Known, format_of: FormatOf = built_in
) -> Imported:
    """The records of all logs below a directory that are named like those of known rows; links are not followed.

    Raises:
        ConfigurationError: There is no such directory, or no log of these rows in it.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"--from-logs: there is no directory {directory}")
    globs = [
        (row, Path(log_glob(row.framework, row.model, row.size, row.dtype, row.gpus)))
        for row in rows
        if row.size is not None  # else its logs may be named like those of any size
    ]
    records: dict[tuple[str, str], Record] = {}
    left_out: list[str] = []
    found = count_known = 0
    for path in _logs(directory):
        candidate = _candidate(path, globs)
        if candidate is None:
            left_out.append(f"{path}: is named like the log of no row")
            continue
        found += 1
        row_and_measurement = _measured(candidate, format_of)
        if isinstance(row_and_measurement, str):
            left_out.append(f"{path}: {row_and_measurement}")
            continue
        row, measurement = row_and_measurement
        job = row.id, candidate.job_id
        if known(row.id, cluster, candidate.job_id):
            count_known += 1
        elif job in records:
            left_out.append(f"{path}: job {candidate.job_id} has another log, {records[job].run.log}")
        else:
            records[job] = _record(candidate, row, cluster, measurement)
    if not found:
        raise ConfigurationError(
            f"--from-logs: no log below {directory} is named like one of these rows\n"
            "wanted: log-FRAMEWORK_MODEL_SIZE_GPUS_JOB.out, as recipes name them; pytest-gsw rows lists the rows"
        )
    return Imported(tuple(records.values()), tuple(left_out), count_known)


def _logs(directory: Path) -> Iterator[Path]:
    """What is named like a log below a directory, in the order of the paths."""
    for place, below, names in os.walk(directory):
        below[:] = sorted(name for name in below if not name.endswith(_TRACED))
        for name in sorted(names):
            path = Path(place, name)
            if looks_like_a_log(name) and path.is_file() and not path.is_symlink():
                yield path


def _candidate(path: Path, globs: Sequence[tuple[Baseline, Path]]) -> _Candidate | None:
    """The rows that a log may be of: those of its directory as well as its name, else those of its name."""
    named = [(row, glob, job_id) for row, glob in globs if (job_id := job_id_in(path.name, glob.name)) is not None]
    placed = [one for one in named if path.parent.match("/".join(one[1].parts[-4:-1]))]
    chosen = placed or named
    return _Candidate(path, chosen[0][2], tuple(row for row, _, _ in chosen)) if chosen else None


def _measured(candidate: _Candidate, format_of: FormatOf) -> tuple[Baseline, Measurement] | str:
    """The one row that a log is of and what was measured of it, or why there is none."""
    found: list[tuple[Baseline, Measurement]] = []
    reasons: list[str] = []
    if _is_simulated(candidate.path):
        return "is a simulation's, and its figures are made up"
    for row in candidate.rows:
        measurement = _measure(candidate, row, format_of)
        if isinstance(measurement, str):
            reasons.append(measurement)
        else:
            found.append((row, measurement))
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
        return False  # its reader says why it cannot be read


def _measure(candidate: _Candidate, row: Baseline, format_of: FormatOf) -> Measurement | str:
    log_format = format_of(row)
    if row.judged_s is None:
        return f"{row.id} has no documented figure"
    if log_format is None:
        return f"nobody reads logs of the format '{row.log_format}'"
    path = candidate.path
    status, evidence = JobStatus(JobState.REPLAYED), evidence_beside(path, candidate.job_id)
    run = Run(candidate.job_id, status, path, evidence=evidence, beside=errors_beside(path))
    try:
        log = read_steps(row, run, log_format)
        return measure_as_documented(row, run, log, log_format)
    except LogError as error:
        return error.fact
    except OverflowError:
        return "its numbers are too large to be measured"


def _record(candidate: _Candidate, row: Baseline, cluster: str, measurement: Measurement) -> Record:
    """The record of a measured log; its time is that of the file's last change."""
    image = provenance_in(candidate.path).image or (image_name(row.recipe.image) if row.recipe.image else None)
    path = candidate.path
    job = JobFacts(candidate.job_id, IMPORTED, JobState.REPLAYED.value, end_s=path.stat().st_mtime, log=str(path))
    return imported_record(row, cluster, path, job, measurement, image)
