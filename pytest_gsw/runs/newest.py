"""Which of several jobs of one row is replayed, where the newest that completed is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.errors import CutShortError, LogError
from pytest_gsw.jobs.layout import FoundLog, errors_beside
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.fatal import find_fatal
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.logs.reader import open_log, read_log
from pytest_gsw.runs.measure import timed_steps
from pytest_gsw.runs.run import Run
from pytest_gsw.runs.steps import check_steps, check_whole, final_step
from pytest_gsw.tables.model import Baseline

#: A copy of a log may have the time at which it was copied.
_LATER_ID = "its id is later, though its log was written earlier"


@dataclass(frozen=True)
class Newest:
    """The log that is judged."""

    log: FoundLog
    #: The newer ones that are not complete, and those that may be newer, each with the reason, the newest first.
    passed_over: tuple[tuple[FoundLog, str], ...] = ()


def newest_complete(logs: Sequence[FoundLog], baseline: Baseline, log_format: LogFormat, steps: int | None) -> Newest:
    """Of the logs of several jobs of one row the newest that is complete, however far others came.

    Where none of them is, it is the newest of all: what is wrong with it is told when it is judged.

    Args:
        logs: The logs; there is one at least.
        baseline: The row.
        log_format: How its logs are read.
        steps: Steps that a run of it is to do, ``None`` where nobody says.
    """
    newest_first = sorted(logs, key=_age, reverse=True)
    passed_over: list[tuple[FoundLog, str]] = []
    for place, log in enumerate(newest_first):
        why = _why_incomplete(log, baseline, log_format, steps)
        if why is None:
            later = ((one, _LATER_ID) for one in newest_first[place + 1 :] if _number(one) > _number(log))
            return Newest(log, (*passed_over, *later))
        passed_over.append((log, why))
    return Newest(newest_first[0])


def _age(log: FoundLog) -> tuple[float, int]:
    """When a log was written last; of two that are as old, the later job's id is greater."""
    return log.path.stat().st_mtime, _number(log)


def _number(log: FoundLog) -> int:
    return int(log.job_id) if log.job_id.isdecimal() else 0


def _why_incomplete(found: FoundLog, baseline: Baseline, log_format: LogFormat, steps: int | None) -> str | None:
    """Why a log is that of a job that failed or has not ended; ``None`` for one that is complete.

    A complete log may be wrong in other ways, which are told when it is judged: an older one must not hide them.
    """
    try:
        with open_log(found.path) as file:
            log = read_log(file, log_format)
            fatal = find_fatal(file, log, log_format, errors_beside(found.path))
    except (LogError, OSError) as error:
        return error.fact if isinstance(error, LogError) else str(error)
    if fatal is not None:
        return f"{'the log' if fatal.path == found.path else 'its stderr'} tells of an end by {fatal.cause.name}"
    first_index = log_format.first_index
    is_numbered = final_step(baseline, log, steps, first_index) is not None
    # Where no step is known to be the last one, the log has to end as that of a job which ended well.
    state = JobState.REPLAYED if is_numbered else JobState.COMPLETED
    run = Run(found.job_id, JobStatus(state, state.value), found.path)
    try:
        check_steps(baseline, run, log, timed_steps(baseline, log), steps, first_index)
    except CutShortError as error:
        return error.fact
    except LogError:
        return None
    try:
        if not is_numbered:
            check_whole(baseline, run, log)
    except LogError as error:
        return error.fact
    return None
