"""The attempts of a training, from the logs of its jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import LogFormat, Step
from pytest_gsw.logs.reader import open_log, read_attempts, reading
from pytest_gsw.stats.goodput import TrainingAttempt, TrainingStep
from pytest_gsw.stats.measurement import log_interval
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.measure import step_seconds

_CLOCK = re.compile(rb"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{3}(?:\d{3})?)?)")
#: The clock is in the first bytes of a line, and the scheduler's may differ by so much.
_HEAD_BYTES, _CLOCKS_DIFFER_S = 256, 60
#: No step takes so long; a log may state any number.
_LONGEST_S = 1e6


def read_attempt(
    baseline: Baseline, log_format: LogFormat, log: Path | None, start_s: float, end_s: float, cause: str = ""
) -> TrainingAttempt:
    """One job of a training; a job without a log, or whose log has no step, is one without steps.

    Args:
        baseline: The row, by which rates are converted.
        log_format: The format of its log.
        log: The job's log.
        start_s: Its start by the scheduler, seconds since the epoch.
        end_s: Its end.
        cause: Why it ended before its planned end, see :mod:`~pytest_gsw.stats.goodput`.

    Raises:
        LogError: The log cannot be read, or its steps have no numbers or seconds.
    """
    attempt = TrainingAttempt(start_s, end_s, cause)
    if log is None or not log.is_file() or not log.stat().st_size:
        return attempt
    with reading(log), open_log(log) as file:
        if (of_log := read_attempts(file, log_format)) is None:
            return attempt
        # A run that profiles for the measured one is part of its start.
        runs = [*of_log.earlier, of_log.steps][bool(baseline.recipe.steps_before and of_log.earlier) :]
        segments = [_training_steps(baseline, log_format, steps) for steps in runs]
        ends = [at for segment in segments if segment for _, at in (segment[0], segment[-1])]
        heads = (b"" if at is None else file.read(at, _HEAD_BYTES).partition(b"\n")[0] for at in ends)
        clocks = dict(zip(ends, _clocks(heads, attempt), strict=False))
    if not ends:
        raise LogError(
            f"the steps in the {log_format.name} log have no numbers, or no seconds that the row knows: {log.name}",
            evidence=(("log", str(log)), ("baseline", str(baseline.location))),
            advice="the goodput of a row needs both: choose another row, or add its batch to the table",
        )
    lines = chain.from_iterable(segments)
    steps = [replace(step, ended_s=clocks[at]) if at in clocks else step for step, at in lines]
    return replace(attempt, steps=steps, checkpoint_s=min(sum(of_log.checkpoint_saves_s), end_s - start_s))


def _training_steps(
    baseline: Baseline, log_format: LogFormat, steps: Sequence[Step]
) -> list[tuple[TrainingStep, int | None]]:
    """The steps of one segment, each with the offset of its line."""
    known = [(step.index, step_seconds(step, baseline), step.offset) for step in steps if step.index is not None]
    timed = [(number, seconds, at) for number, seconds, at in known if seconds is not None and seconds < _LONGEST_S]
    numbers = [number for number, _, _ in timed]
    # Megatron prints the first step whatever the interval.
    each = max(log_interval(numbers), log_interval(numbers[1:]))
    is_first_whole = len(numbers) > 1 and numbers[1] - numbers[0] >= each
    # A line covers no step before the first one, and none of the line before.
    befores = [
        max(number - (each if is_first_whole else 1), (log_format.first_index or 0) - 1) for number in numbers[:1]
    ]
    return [
        (TrainingStep(number, seconds, min(each, number - before)), at)
        for (number, seconds, at), before in zip(timed, [*befores, *numbers], strict=False)
    ]


def _clocks(lines: Iterable[bytes], attempt: TrainingAttempt) -> list[float]:
    """The seconds of lines' clocks, in this machine's zone or in UTC, if all are within the attempt; else none."""
    clocks = [_CLOCK.search(line) for line in lines]
    try:
        found = [b" ".join(clock.groups()).decode().replace(",", ".") for clock in clocks if clock is not None]
        moments = [*map(datetime.fromisoformat, found)]
    except ValueError:
        return []
    for zone in (None, timezone.utc) if 0 < len(moments) == len(clocks) else ():
        times_s = [moment.replace(tzinfo=zone).timestamp() for moment in moments]
        if attempt.start_s - _CLOCKS_DIFFER_S <= min(times_s) and max(times_s) <= attempt.end_s + _CLOCKS_DIFFER_S:
            return times_s
    return []
