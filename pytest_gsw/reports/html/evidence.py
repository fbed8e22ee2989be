"""What a row's log says at its end: a few lines, safe to show, of a file that anybody may have written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.failures import find_cause
from pytest_gsw.logs.reader import tail_lines

#: Last lines that are shown.
_LINES = 8
#: Of a longer log only so much at its end is searched: a report reads a thousand of them.
_SEARCHED_BYTES = 256 << 10


@dataclass(frozen=True)
class LogEnd:
    """The end of one log."""

    path: Path
    lines: tuple[str, ...]
    #: The line that says why the run failed, where it is in what was read.
    cause: str = ""


def log_ends(log: str | None, job_id: str, directory: Path, *, failed: bool) -> tuple[LogEnd, ...]:
    """The ends of a row's log and of the batch shell's output in the run's directory, of those that are there.

    Of a row that could not be measured, the line is looked for that says why.
    """
    named = [Path(log)] if log else []
    if failed and job_id.isalnum():
        named.append(directory / "batch" / f"slurm-{job_id}.out")
    ends = (_end(path, failed=failed) for path in named)
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
