"""Which of several jobs of one row is replayed, where the newest that completed is meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import FoundLog, errors_beside
from pytest_gsw.logs.fatal import find_fatal
from pytest_gsw.logs.reader import detect_format, read_log


def newest_complete(logs: Sequence[FoundLog]) -> FoundLog:
    """Of the logs of several jobs of one row the newest of those that came as far as any, and tell of no bad end.

    Where none of them does, it is the newest of all: what is wrong with it is told when it is judged.
    """
    newest_first = sorted(logs, key=_age, reverse=True)
    ends = {log: _last_step(log.path) for log in newest_first}
    furthest = max(ends.values())
    complete = (log for log in newest_first if ends[log] == furthest >= 0)
    return next(complete, newest_first[0])


def _age(log: FoundLog) -> tuple[float, int]:
    """When a log was written last; of two that are as old, the later job's id is greater."""
    return log.path.stat().st_mtime, int(log.job_id) if log.job_id.isdigit() else 0


def _last_step(log: Path) -> int:
    """The number of a log's last step, -1 where it has none or tells of a bad end."""
    try:
        log_format = detect_format(log)
        steps = read_log(log, log_format)
        fatal = find_fatal(log, steps, log_format, errors_beside(log))
    except (LogError, OSError):
        return -1
    if fatal is not None or not steps.steps:
        return -1
    last = steps.steps[-1].index
    return len(steps.steps) if last is None else last
