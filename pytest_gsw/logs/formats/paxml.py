"""Paxml: ``[PAX STATUS]: train_step() took 7.470000 seconds.``.

Source: google/paxml, ``paxml/programs.py``, ``BaseTrainProgram.run``. Seconds of one step, without a step number; every
process prints, upstream only its first 20 steps (``log_first_n``). Lines have absl's prefix, ``I0411 15:03:26.866614
140737350317184 programs.py:366]``, whose third field is the thread.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low
from types import MappingProxyType

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import EndMarkers, Step, Steps, Tail
from pytest_gsw.logs.scan import NUMBER, number, rank_of, safe_text
from pytest_gsw.logs.steps import StepSeries, can_be, rank_label

_TOOK = re.compile(rb"\[PAX STATUS\]:? train_step\(\) took (-?%b) seconds" % NUMBER)
_LOSS = re.compile(rb"\[PAX STATUS\]:? step_i: (\d{1,12}), training loss: (-?%b)(?=\s|$)" % NUMBER)
#: ``main.py`` times itself, whatever it does.
_LAST_WORDS = EndMarkers((b"E2E time: Starting timer for <_main>",), (b"E2E time: Elapsed time for <_main>",))
_PROGRAM_START = b"[PAX STATUS]: Program start."
_ABSL = re.compile(rb"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}(\d{1,20}) ")


@dataclass
class _Run:
    """Lines of one process, or of several processes that cannot be distinguished."""

    label: str | None = None
    starts: int = 0
    values: array[float] = field(default_factory=lambda: array("d"))
    offsets: array[int] = field(default_factory=lambda: array("q"))

    @property
    def count(self) -> int:
        """Number of steps that each of the processes printed."""
        return len(self.values) // max(1, self.starts)

    def group(self, place: int) -> Sequence[float]:
        """The number that each of the processes printed for a step."""
        width = max(1, self.starts)
        return self.values[place * width : (place + 1) * width]

    def step(self, place: int) -> Step:
        """A step: the median if several processes share the lines."""
        return Step(None, median_low(self.group(place)), offset=self.offsets[place * max(1, self.starts)])


class _Parser(SeriesParser):
    """Reads the steps of one process of the last attempt: of the one that printed most, the first of equals.

    Processes are distinguished by srun's label and absl's thread. On machines that do not randomize addresses all have
    the same thread; the number of program starts then is the number of processes.
    """

    def __init__(self) -> None:
        super().__init__("paxml")
        self._runs: list[_Run] = []
        self._current: dict[tuple[int | None, bytes], _Run] = {}
        self._losses: list[tuple[int, int, float, str]] = []
        self._is_finite = True

    def feed(self, offset: int, record: bytes) -> None:
        absl = _ABSL.search(record)
        rank, thread = rank_of(record), b"" if absl is None else absl[1]
        run = self._current.get((rank, thread))
        if run is None or (_PROGRAM_START in record and run.values):
            run = _Run(rank_label(rank) or (f"thread {thread.decode()}" if thread else None))
            self._current[rank, thread] = run
            self._runs.append(run)
        run.starts += _PROGRAM_START in record
        for took in _TOOK.finditer(record):
            value = number(took[1])
            if value is not None:
                run.values.append(value)
                run.offsets.append(offset)
                self._is_finite &= can_be(value)
        loss = _LOSS.search(record)
        if loss is not None:
            value = number(loss[2]) or 0.0
            self._losses.append((offset, int(loss[1]), value, "" if math.isfinite(value) else safe_text(loss[0])))
            self._is_finite &= math.isfinite(value)

    def series(self) -> StepSeries:
        attempts = _attempts([run for run in self._runs if run.values])
        begins = [min(run.offsets[0] for run in attempt) for attempt in attempts]
        series = _Ranks()
        for (begin, end), attempt in zip(pairwise([*begins, math.inf]), attempts, strict=True):
            series.take(attempt, int(begin), [loss for loss in self._losses if begin <= loss[0] < end])
        return series

    def tail(self, count: int) -> Tail:
        if not self._is_finite:
            return super().tail(count)
        attempts = _attempts([run for run in self._runs if run.values])
        if not attempts:
            return Tail()
        run = max(attempts[-1], key=lambda run: run.count)
        return Tail(len(attempts), run.count, tuple(map(run.step, range(max(0, run.count - count), run.count))))


class _Ranks(StepSeries):
    """The steps of the process that printed most in its attempt, and the other processes' numbers of the same steps."""

    _attempt: Sequence[_Run] = ()
    _losses: Mapping[int, float] = MappingProxyType({})

    def take(self, attempt: list[_Run], begin: int, losses: list[tuple[int, int, float, str]]) -> None:
        self.restart(begin)
        # An impossible time of any process counts.
        bad = min(
            ((at, one) for run in attempt for at, one in zip(run.offsets, run.values, strict=True) if not can_be(one)),
            default=None,
        )
        self.not_finite = None if bad is None else (None, f"step time {bad[1]}")
        for _, index, _, text in losses:
            if text:
                self.lose(index, text)
        self._losses = {index: loss for _, index, loss, text in losses if not text}
        self._attempt = attempt

    @property
    def losses(self) -> array[float]:
        return array("d", map(self._losses.__getitem__, sorted(self._losses)))

    @property
    def count(self) -> int:
        return len(self.steps())

    def steps(self, last: int | None = None) -> Sequence[Step]:
        """The last attempt's steps in order, or the last ones of them."""
        run = self._chosen
        timed = array("i", (place for place in range(run.count) if can_be(median_low(run.group(place)))))
        return Steps(run.step, timed if last is None else timed[-last:])

    @property
    def _chosen(self) -> _Run:
        return max(self._attempt, key=lambda run: run.count, default=_Run())

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """The number that each process printed for a step; empty if one prints."""
        chosen = self._chosen
        place = bisect_left(chosen.offsets, -1 if step.offset is None else step.offset) // max(1, chosen.starts)
        groups = [(run.label, run.group(place)) for run in self._attempt if place < run.count]
        times = [
            (label if len(group) == 1 else None, value) for label, group in groups for value in group if can_be(value)
        ]
        return times if len(times) > 1 else ()


def _attempts(runs: list[_Run]) -> list[list[_Run]]:
    """Group runs of processes that trained at the same time; a later attempt begins when the earlier one has ended."""
    attempts: list[list[_Run]] = []
    end = -1
    for run in sorted(runs, key=lambda run: run.offsets[0]):
        if run.offsets[0] > end:
            attempts.append([])
        attempts[-1].append(run)
        end = max(end, run.offsets[-1])
    return attempts


PAXML = BuiltIn("paxml", ((b"[PAX STATUS]",),), _Parser, last_words=_LAST_WORDS)
