"""Whether a log is whole: that of a job which ended well ends with a line, and with the words of its run's end."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.common.words import counted
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.runs.problem import Problem

#: Megatron announces a save before it tells how long it took.
_ANNOUNCED = b"saving checkpoint at iteration "
_LOOK = "the job's output was cut: look at quotas and at the file system of the log, then at its last lines"


def cut_problem(path: Path, log: StepLog, *, of_saves: bool) -> Problem | None:
    """What tells that the log of a job which ended well was cut.

    Args:
        path: The log.
        log: Its steps.
        of_saves: Whether it is read for checkpoint saves.
    """
    if log.open_line is not None:
        return Problem("the log ends in the middle of a line", _LOOK, (("last line", log.open_line),))
    if log.says_its_end is False:
        return Problem(f"the log lacks what {log.format} prints when a run has ended", _LOOK)
    if of_saves and log.steps:
        announced = announced_saves(path, log)
        if announced > len(log.checkpoint_saves_s):
            took = counted(len(log.checkpoint_saves_s), "checkpoint save")
            return Problem(f"the log announces {announced} checkpoint saves, and has the time of {took}", _LOOK)
    return None


def announced_saves(path: Path, log: StepLog) -> int:
    """How many checkpoints the last attempt in a log begins to save."""
    announced = matching_records(path, (_ANNOUNCED,), start=log.steps[0].offset or 0)
    return len({record.partition(_ANNOUNCED)[2].strip().partition(b" ")[0] for _, record in announced})
