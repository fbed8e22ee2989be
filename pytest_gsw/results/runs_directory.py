"""The ids and directories of runs."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.value_types import nearest

#: Default directories of results, and of the runs among them.
RESULTS = Path(".gsw")
RUNS = RESULTS / "runs"
#: The word for the newest run.
LAST = "last"
#: The files of a run, below its directory, that have its results.
RECORDS = "records/*.json"

#: How the id of a session's run begins: with the local time at which it began.
_STAMP = re.compile(r"(\d{8}-\d{6})(?:-|$)", re.ASCII)


def new_run_id() -> str:
    """An id for a run that begins now: day, time, and six hexadecimal digits that no other run has.

    The first three count within the second, which sorts the runs of one machine by their start.
    """
    now_s = time.time()
    begun = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    return f"{begun}-{int(now_s % 1 * 0x1000):03x}{uuid.uuid4().hex[:3]}"


def no_run(fact: str, given: str, runs: Path, others: Iterable[str] = ()) -> ConfigurationError:
    """The error for a name that is none of a run in a directory, nor one of others."""
    known = [LAST, *sorted({*others, *(path.name for path in runs.glob("*"))}, reverse=True)]
    step = f"next: {command('ls', str(relative_path(runs)))}, or '{LAST}' for the newest"
    return ConfigurationError(f"{fact}{nearest(given, known)}\n{step}")


def begin_of(run_id: str, known_s: float) -> float:
    """Start of a run, seconds since the epoch: by its id, as texts name a run by its time.

    Args:
        run_id: The run.
        known_s: The first known time of it, 0 if there is none. It is the answer if the id has no time, or a later one
            by the clock of another zone.
    """
    stamp_s = _stamp_s(run_id)
    return known_s if stamp_s is None or 0 < known_s < stamp_s else stamp_s


def _stamp_s(run_id: str) -> float | None:
    stamp = _STAMP.match(run_id)
    try:
        return None if stamp is None else datetime.strptime(stamp[1], "%Y%m%d-%H%M%S").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):  # no time at all, or none of the calendar
        return None
