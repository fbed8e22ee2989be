"""What a row's files say at their ends: a few lines, safe to show, of a file that anybody may have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.failures import find_cause
from pytest_gsw.logs.likely import likely_line
from pytest_gsw.logs.reader import tail_lines
from pytest_gsw.reports.run_report import Row
from pytest_gsw.results import attention

#: Last lines that are shown.
_LINES = 8
#: Of a longer log only so much at its end is searched: a report reads a thousand of them.
_SEARCHED_BYTES = 256 << 10


#: What a row needs whose log's end is shown.
_LOGS_SHOWN = attention.SLOW | {attention.ERROR}


@dataclass(frozen=True)
class LogEnd:
    """The end of one log."""

    path: Path
    lines: tuple[str, ...]
    #: The line that says why the run failed, where it is in what was read.
    cause: str = ""


def likely_cause(ends: Sequence[LogEnd]) -> str:
    """The line that says why a run failed, else the last one that looks like it, in any of its files.

    Empty where there is neither: the last line of a training log may be a progress bar.
    """
    found = (*(end.cause for end in ends), *(likely_line(end.lines) for end in ends))
    return next(filter(None, found), "")


def log_ends_of(row: Row, directory: Path) -> tuple[LogEnd, ...]:
    """The ends of a row's logs, where that tells something: of one that failed or is too slow."""
    if row.needs not in _LOGS_SHOWN:
        return ()
    run, last = row.record.run, row.record.jobs.last
    failed = row.needs is attention.ERROR
    return log_ends(run.log, last.id if last else "", directory, failed=failed, outputs=run.outputs)


def log_ends(
    log: str | None, job_id: str, directory: Path, *, failed: bool, outputs: Sequence[str] = ()
) -> tuple[LogEnd, ...]:
    """The ends of a row's log, and of the other files of a job that failed, of those that are there.

    Of a row that could not be measured, the line is looked for that says why. A batch shell's output may be in the
    run's directory, which may have been moved since.
    """
    named = [Path(log)] if log else []
    if failed:
        named.extend(map(Path, outputs))
    if failed and job_id.isalnum():
        named.append(directory / "batch" / f"slurm-{job_id}.out")
    ends = (_end(path, failed=failed) for path in dict.fromkeys(path.absolute() for path in named))
    return tuple(end for end in ends if end is not None)


def _end(path: Path, *, failed: bool) -> LogEnd | None:
    try:
        if not path.is_file():  # a pipe would never answer
            return None
        lines = tail_lines(path, _LINES)
        return LogEnd(path, lines, _cause(path) if failed else "") if lines else None
    except (OSError, ValueError):  # a name with a zero byte
        return None


def _cause(path: Path) -> str:
    try:
        cause = find_cause(path, max(0, path.stat().st_size - _SEARCHED_BYTES))
    except (LogError, OSError):
        return ""
    return "" if cause is None else cause.text
