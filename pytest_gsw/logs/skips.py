"""Steps that a loss scaler skipped, where lines of their own say so, whatever the format of the steps.

* DeepSpeed: ``[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768``
  (``runtime/fp16/loss_scaler.py``, ``runtime/zero/stage3.py``), without ZeRO ``fp16 dynamic loss scale overflow!
  Skipping step.`` or ``Overflow detected. Skipping step.`` (``runtime/fp16/fused_optimizer.py``); and the count of the
  run in
  ``[Rank 0] step=10, skipped=7, lr=[…]`` (``runtime/engine.py``, ``_report_progress``)
* apex: ``Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0``

They stand before the line of the step. Where the format has one figure for the run, its lines of a gradient that was
not finite beside a finite loss count as well, each for as many steps as one such line stands for.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pytest_gsw.logs.logfile import LogFile
from pytest_gsw.logs.model import Step, StepLog, Steps
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import rank_of

_MARKERS = (b"kipping step", b", skipped=")
_OVERFLOW = re.compile(rb"(?:OVERFLOW|[Oo]verflow)(?:!|\.| detected\.)(?: Rank (\d{1,7}))?.{0,80}[Ss]kipping step")
_COUNT = re.compile(rb"\bstep=(\d{1,12}), skipped=(\d{1,12}),")


def with_skipped(file: Path | LogFile, log: StepLog) -> StepLog:
    """The log, whose steps know how many of them were skipped.

    Raises:
        OSError: The log cannot be read.
    """
    offsets = array("q", (step.offset for step in log.steps if step.offset is not None))
    if any(later < earlier for earlier, later in pairwise(offsets)):
        offsets = array("q", sorted(offsets))
    if not offsets:
        return log
    #: By the step's place and by who says so: old versions print on every rank.
    lines: dict[int, dict[object, int]] = {}
    counts: dict[int, tuple[int, int]] = {}
    start = offsets[0] if log.attempts > 1 else 0
    for offset, record in matching_records(file, _MARKERS, start=start, stop=offsets[-1]):
        place = offsets[bisect_left(offsets, offset)]
        overflow = _OVERFLOW.search(record)
        if overflow is not None:
            said = lines.setdefault(place, {})
            rank = overflow[1] or rank_of(record)
            said[rank] = said.get(rank, 0) + 1
        count = _COUNT.search(record)
        if count is not None:
            step, skipped = int(count[1]), int(count[2])
            # Where two engines train, as an actor and a critic, each tells its own: the lower one counts.
            counts[step] = min(counts.get(step, (place, skipped)), (place, skipped), key=lambda pair: pair[1])
    found = {place: max(said.values()) for place, said in lines.items()}
    for place, skipped in _counted(offsets, counts):
        found[place] = max(found.get(place, 0), skipped)
    if log.overflows is not None:
        each = (log.total_steps or log.overflows.of) / log.overflows.of
        found[offsets[-1]] = max(found.get(offsets[-1], 0), math.ceil(log.overflows.lines * each))
    if not found:
        return log

    def made(place: int) -> Step:
        step = log.steps[place]
        return replace(step, skipped=max(step.skipped, found.get(-1 if step.offset is None else step.offset, 0)))

    return replace(log, steps=Steps(made, range(len(log.steps))))


def _counted(offsets: Sequence[int], counts: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Places of steps with what was skipped of each, by counts of the run of which each may stand behind many steps.

    Args:
        offsets: The places of all steps, in order.
        counts: By the number of the step that tells it: the place of that step, and what the run has skipped so far.
    """
    numbers = sorted(counts)
    gaps = {after - before for before, after in pairwise(numbers)}
    reports = [(-1, 0), *(counts[number] for number in numbers)]
    if numbers and gaps and numbers[0] not in gaps:
        del reports[0]  # a run that went on from a checkpoint counts on
    for (behind, before), (place, skipped) in pairwise(reports):
        between = offsets[bisect_right(offsets, behind) : bisect_right(offsets, place)]
        if skipped > before and between:
            each = math.ceil((skipped - before) / len(between))
            yield from ((one, each) for one in between[-math.ceil((skipped - before) / each) :])
