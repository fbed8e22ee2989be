"""The attempts of a training, from the logs of its jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain, pairwise
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import LogFormat, Step
from pytest_gsw.logs.reader import open_log, read_attempts, reading
from pytest_gsw.logs.scan import LogFile
from pytest_gsw.stats.goodput import TrainingAttempt, TrainingStep
from pytest_gsw.stats.measurement import log_interval
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.measure import step_seconds

#: The clock of a line: ISO 8601, or absl's without a year, "I0203 04:05:06.789012 ".
_CLOCK = re.compile(rb"(?:(\d{4}-\d\d-\d\d)[ T]|\b[IWE](\d\d)(\d\d) )(\d\d:\d\d:\d\d)")
#: The clock is in the first bytes of a line, and the scheduler's may differ by so much.
_HEAD_BYTES, _CLOCKS_DIFFER_S = 256, 60


def read_attempt(
    baseline: Baseline, log_format: LogFormat, log: Path | None, start_s: float, end_s: float, cause: str = ""
) -> TrainingAttempt:
    """One job of a training; a job without a log, or whose log has no step, is one without steps.

    Args:
        baseline: The row, by which rates are converted.
        log_format: The format of its log.
        log: The job's log.
        start_s: Its start and end by the scheduler, seconds since the epoch.
        end_s: See there.
        cause: Why it ended before its planned end, see :mod:`~pytest_gsw.stats.goodput`.

    Raises:
        LogError: The log cannot be read, or its steps have neither numbers nor seconds.
    """
    attempt = TrainingAttempt(start_s, end_s, cause)
    if log is None or not log.is_file() or not log.stat().st_size:
        return attempt
    with reading(log), open_log(log) as file:
        segments, saves_s = read_attempts(file, log_format)
        steps = [_training_steps(baseline, log_format, file, segment, attempt) for segment in segments]
    if segments and not any(steps):
        raise LogError(
            f"the steps in the {log_format.name} log have no numbers, or no seconds that the row knows: {log.name}",
            evidence=(("log", str(log)), ("baseline", str(baseline.location))),
            advice="the goodput of a row needs both: choose another row, or add its batch to the table",
        )
    return replace(attempt, steps=[*chain(*steps)], checkpoint_s=saves_s)


def _training_steps(
    baseline: Baseline, log_format: LogFormat, file: LogFile, steps: Sequence[Step], attempt: TrainingAttempt
) -> list[TrainingStep]:
    """The steps of one segment, with the clock of the first and the last line."""
    known = [(step.index, step_seconds(step, baseline), step.offset) for step in steps if step.index is not None]
    timed = [(number, seconds, at) for number, seconds, at in known if seconds is not None and seconds < math.inf]
    if not timed:
        return []
    numbers = [number for number, _, _ in timed]
    # Megatron prints the first step whatever the interval.
    each = max(log_interval(numbers), log_interval(numbers[1:]))
    begin = numbers[0] - (each if len(numbers) > 1 and numbers[1] - numbers[0] >= each else 1)
    counts = [
        min(each, after - before)
        for before, after in pairwise([max(begin, (log_format.first_index or 0) - 1), *numbers])
    ]
    found = [TrainingStep(number, seconds, count) for (number, seconds, _), count in zip(timed, counts, strict=True)]
    for place in {0, len(found) - 1}:
        found[place] = replace(found[place], ended_s=_clock(file, timed[place][2], attempt))
    return found


def _clock(file: LogFile, offset: int | None, attempt: TrainingAttempt) -> float | None:
    """When a line was written, in this machine's zone or in UTC; ``None`` unless it is within the attempt."""
    clock = None if offset is None else _CLOCK.search(file.read(offset, _HEAD_BYTES).partition(b"\n")[0])
    if clock is None:
        return None
    date, month, day, time = (group and group.decode() for group in clock.groups())
    year = datetime.fromtimestamp(attempt.start_s, timezone.utc).year
    try:
        moment = datetime.fromisoformat(f"{date or f'{year}-{month}-{day}'} {time}")
    except ValueError:
        return None
    for zone in (None, timezone.utc):
        seconds = moment.replace(tzinfo=zone).timestamp()
        if -_CLOCKS_DIFFER_S <= seconds - attempt.start_s <= attempt.end_s - attempt.start_s + _CLOCKS_DIFFER_S:
            return seconds
    return None
