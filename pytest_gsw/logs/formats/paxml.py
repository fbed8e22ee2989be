"""Paxml: ``[PAX STATUS]: train_step() took 7.470000 seconds.``.

Source: google/paxml, ``paxml/programs.py``, ``BaseTrainProgram.run``. Seconds of one step, without a
step number; every process prints, upstream only its first 20 steps (``log_first_n``). Lines bear absl's
prefix, ``I0411 15:03:26.866614 140737350317184 programs.py:366]``, whose third field is the thread.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING

from pytest_gsw.logs.attempts import Unnumbered, can_be, rank_label
from pytest_gsw.logs.formats.series import BuiltIn, SeriesParser
from pytest_gsw.logs.model import LastWords, Step, Tail
from pytest_gsw.logs.text import NUMBER, number, rank_of, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gsw.logs.attempts import Series

_TOOK = re.compile(rb"\[PAX STATUS\]:? train_step\(\) took (-?%b) seconds" % NUMBER)
_LOSS = re.compile(rb"\[PAX STATUS\]:? step_i: (\d{1,12}), training loss: (-?%b)(?=\s|$)" % NUMBER)
#: ``main.py`` measures itself, whatever it does.
_LAST_WORDS = LastWords((b"E2E time: Starting timer for <_main>",), (b"E2E time: Elapsed time for <_main>",))
_PROGRAM_START = b"[PAX STATUS]: Program start."
_ABSL = re.compile(rb"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}(\d{1,20}) ")


@dataclass
class _Run:
    """What one process printed, or what several did whose lines nothing tells apart."""

    label: str | None = None
    starts: int = 0
    taken: list[tuple[float, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many steps all of the processes printed that share the lines."""
        return len(self.taken) // max(1, self.starts)

    def groups(self, last: int | None = None) -> list[list[tuple[float, int]]]:
        """One entry a step, or for so many of the last ones: what each of the processes printed."""
        width = max(1, self.starts)
        first = 0 if last is None else max(0, self.count - last)
        return [self.taken[at * width : (at + 1) * width] for at in range(first, self.count)]

    def steps(self, last: int | None = None) -> list[tuple[float, int]]:
        """One entry a step: where several processes share the lines, their median."""
        return [(median_low(value for value, _ in group), group[0][1]) for group in self.groups(last)]


class _Parser(SeriesParser):
    """Reads the steps of one process of the last attempt: of the one that printed most, the first of equals.

    Processes are told apart by srun's label and absl's thread. On machines that do not randomize addresses all have
    the same thread: how many they are is then known by how often the program started.
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
        if run is None or (_PROGRAM_START in record and run.taken):
            run = _Run(rank_label(rank) or (f"thread {thread.decode()}" if thread else None))
            self._current[rank, thread] = run
            self._runs.append(run)
        run.starts += _PROGRAM_START in record
        for took in _TOOK.finditer(record):
            value = number(took[1])
            if value is not None:
                run.taken.append((value, offset))
                self._is_finite &= can_be(value)
        loss = _LOSS.search(record)
        if loss is not None:
            value = number(loss[2]) or 0.0
            self._losses.append((offset, int(loss[1]), value, safe_text(loss[0])))
            self._is_finite &= math.isfinite(value)

    def series(self) -> Series:
        attempts = _attempts([run for run in self._runs if run.taken])
        begins = [min(run.taken[0][1] for run in attempt) for attempt in attempts]
        series = _Ranks()
        for count, attempt in enumerate(attempts):
            end = begins[count + 1] if count + 1 < len(begins) else math.inf
            own = [loss for loss in self._losses if begins[count] <= loss[0] < end]
            if count:
                series.restart(begins[count])
            _take(series, attempt, own)
        return series

    def tail(self, count: int) -> Tail:
        if not self._is_finite:
            return super().tail(count)
        attempts = _attempts([run for run in self._runs if run.taken])
        if not attempts:
            return Tail()
        run = max(attempts[-1], key=lambda run: run.count)
        steps = tuple(Step(None, seconds=value, offset=offset) for value, offset in run.steps(count))
        return Tail(len(attempts), run.count, steps)


class _Ranks(Unnumbered):
    """The steps of one process, and what the others of its attempt printed of the same ones."""

    def __init__(self) -> None:
        super().__init__()
        #: By the offset of the step: labels and seconds.
        self.others: dict[int, list[tuple[str | None, float]]] = {}

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each process printed of a step; empty where one prints."""
        found = self.others.get(-1 if step.offset is None else step.offset, [])
        return found if len(found) > 1 else ()


def _take(series: _Ranks, attempt: list[_Run], losses: list[tuple[int, int, float, str]]) -> None:
    """Read one attempt: the process that printed most steps, the first of equals."""
    chosen = max(attempt, key=lambda run: run.count)
    taken = sorted((offset, value) for run in attempt for value, offset in run.taken)
    # Whichever process it was that measured it.
    bad_s = next((value for _, value in taken if not can_be(value)), None)
    for value, offset in chosen.steps():
        series.add(value, offset)
    if not series.attempts:
        series.restart(taken[0][0])
    series.not_finite = None if bad_s is None else (None, f"step time {bad_s}")
    for _, index, loss, text in losses:
        if math.isfinite(loss):
            series.tell_loss(index, loss)
        else:
            series.lose(index, text)
    series.others = {group[0][1]: [] for group in chosen.groups()}
    for run in attempt:
        for printed, group in zip(series.others.values(), run.groups(), strict=False):
            label = run.label if len(group) == 1 else None
            printed += [(label, value) for value, _ in group if can_be(value)]


def _attempts(runs: list[_Run]) -> list[list[_Run]]:
    """Runs of processes that trained at the same time, in order: a later attempt begins when the earlier has ended."""
    attempts: list[list[_Run]] = []
    end = -1
    for run in sorted(runs, key=lambda run: run.taken[0][1]):
        if run.taken[0][1] > end:
            attempts.append([])
        attempts[-1].append(run)
        end = max(end, run.taken[-1][1])
    return attempts


FORMAT = BuiltIn("paxml", ((b"[PAX STATUS]",),), _Parser, last_words=_LAST_WORDS)
