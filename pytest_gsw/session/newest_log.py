"""The log of a replayed row with several jobs: the newest that completed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import minute, plural
from pytest_gsw.errors import IncompleteLogError, LogError
from pytest_gsw.jobs.layout import error_files_of, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import FoundLog, JobSpec
from pytest_gsw.jobs.spec import steps_of
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs import failure_scan, reader
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.session.row import SessionRow
from pytest_gsw.session.screen import write
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation import completeness, measure
from pytest_gsw.validation.run import Run


def newest_chooser(
    config: pytest.Config, rows: Mapping[str, SessionRow]
) -> Callable[[JobSpec, Sequence[FoundLog]], FoundLog]:
    """A function that chooses a row's newest completed job, and reports newer incomplete ones."""

    def choose(spec: JobSpec, logs: Sequence[FoundLog]) -> FoundLog:
        row = rows[spec.row_id]
        log_format = row.plan.log_format
        assert log_format is not None  # a row without a log format is not submitted
        traced = is_nccl_traced(spec.environment) or any(in_traced_results(log.path) for log in logs)
        newest = newest_complete(logs, row.baseline, log_format, steps_of(row.baseline, traced=traced))
        if newest.passed_over:
            passed_over = "; ".join(f"job {log.job_id} ({why})" for log, why in newest.passed_over)
            written_s = newest.log.path.stat().st_mtime
            age = f"{plural(int((time.time() - written_s) // 86400), 'day')} old ({minute(written_s)})"
            text = f"job {newest.log.job_id} is judged; passed over: {passed_over}; the log that is judged is {age}"
            row.passed_over = redact(text, os.environ)  # a log is arbitrary text
            write(config, f"gsw: {spec.row_id}: {row.passed_over}")
        return newest.log

    return choose


#: A copy of a log may have the time of the copy.
_LATER_ID = "its id is later, though its log was written earlier"


@dataclass(frozen=True)
class Newest:
    """The log that is judged."""

    log: FoundLog
    #: Newer logs that are incomplete, and logs that may be newer, each with the reason, the newest first.
    passed_over: tuple[tuple[FoundLog, str], ...] = ()


def newest_complete(logs: Sequence[FoundLog], baseline: Baseline, log_format: LogFormat, steps: int | None) -> Newest:
    """The newest complete log of several jobs of one row, or the newest of all if none is complete.

    The verdict reports the faults of the latter.

    Args:
        logs: The logs, at least one.
        baseline: The row.
        log_format: The format of its logs.
        steps: Steps of a run of the row; ``None`` if unknown.
    """
    # Of two with the same age, the later job's id is greater.
    newest_first = sorted(logs, key=lambda log: (log.path.stat().st_mtime, _number(log)), reverse=True)
    passed_over: list[tuple[FoundLog, str]] = []
    for place, log in enumerate(newest_first):
        why = _why_incomplete(log, baseline, log_format, steps)
        if why is None:
            later = ((older, _LATER_ID) for older in newest_first[place + 1 :] if _number(older) > _number(log))
            return Newest(log, (*passed_over, *later))
        passed_over.append((log, why))
    return Newest(newest_first[0])


def _number(log: FoundLog) -> int:
    return int(log.job_id) if log.job_id.isdecimal() else 0


def _why_incomplete(found_log: FoundLog, baseline: Baseline, log_format: LogFormat, steps: int | None) -> str | None:
    """The reason why a log's job failed or has not ended; ``None`` for a complete log.

    A complete log may have other faults, which the verdict reports: an older log must not hide them.
    """
    try:
        with reader.open_log(found_log.path) as file:
            log = reader.read_log(file, log_format)
            fatal = failure_scan.find_fatal(file, log, log_format, error_files_of(found_log.path))
    except (LogError, OSError) as error:
        return error.fact if isinstance(error, LogError) else str(error)
    if fatal is not None:
        return f"{'the log' if fatal.path == found_log.path else 'its stderr'} shows a failure: {fatal.name}"
    first_index = log_format.first_index
    is_numbered = completeness.final_step(baseline, log, steps, first_index) is not None
    # If the last step is unknown, the log must end like that of a successful job.
    state = JobState.REPLAYED if is_numbered else JobState.COMPLETED
    run = Run(found_log.job_id, JobStatus(state, state.value), found_log.path)
    try:
        completeness.check_steps(baseline, run, log, measure.timed_steps(baseline, log), steps, first_index)
    except IncompleteLogError as error:
        return error.fact
    except LogError:
        return None
    try:
        if not is_numbered:
            completeness.check_whole(baseline, run, log)
    except LogError as error:
        return error.fact
    return None
