"""From step records in a file's order to the steps of its last attempt.

A log can hold several attempts: a requeued job appends to it, a launcher restarts workers
from a checkpoint, a recipe profiles before it measures. All count steps anew, from the start
or from the checkpoint; only the last attempt is what the run is judged by.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING

from pytest_gsw.logs.model import Identity, Step, StepLog

if TYPE_CHECKING:
    from collections.abc import Iterable


class Unit(Enum):
    """What the numbers of a series are."""

    SECONDS = "seconds"
    SAMPLES_PER_S = "samples_per_s"
    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"

    def step(self, index: int | None, value: float, offset: int) -> Step:
        """A step with the number in the unit's field."""
        if self is Unit.SECONDS:
            return Step(index, seconds=value, offset=offset)
        if self is Unit.SAMPLES_PER_S:
            return Step(index, samples_per_s=value, offset=offset)
        return Step(index, tokens_per_s_per_gpu=value, offset=offset)


def can_be(value: float) -> bool:
    """Whether a number can be a time or a rate: NaN, infinite and negative ones are of clocks that failed."""
    return 0 <= value < math.inf


@dataclass(frozen=True)
class Record:
    """One step as one line of a log has it.

    Attributes:
        offset: Where in the file.
        index: The step's number.
        value: The step's time or rate; may be what none can be, then it is no step.
        rank: Who printed it, where a launcher wrote that before the line.
        problem: The loss or gradient norm that is not finite, as the line has it.
    """

    offset: int
    index: int
    value: float
    rank: int | None = None
    problem: str | None = None

    @property
    def trouble(self) -> str | None:
        """What in the record is not finite, or below zero."""
        return self.problem if can_be(self.value) else f"step time {self.value}"

    def repeats(self, other: Record) -> bool:
        """Whether both tell the same of the same step."""
        same = self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))
        return self.index == other.index and same


class OnePrinter:
    """Steps that one process prints, each once or several times in a row.

    A step number that does not grow is a new attempt, unless it is the last step told again:
    with the same number, by another rank, or, where a bar is repainted, with a newer one.

    Args:
        repaints: Whether a later record of the same step corrects the earlier one.
    """

    def __init__(self, *, repaints: bool = False) -> None:
        self.attempts = 0
        self.not_finite: tuple[int | None, str] | None = None
        self._repaints = repaints
        self._last: Record | None = None
        self._steps: dict[int, Record] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        last, self._last = self._last, record
        restarted = last is None or record.index < last.index
        told_again = False
        if last is not None and record.index == last.index and not self._repaints:
            told_again = record.rank != last.rank
            restarted = not told_again and not record.repeats(last)
        if restarted:
            self.attempts += 1
            self.not_finite = None
            self._steps.clear()
        if record.trouble is not None and self.not_finite is None:
            self.not_finite = (record.index, record.trouble)
        if can_be(record.value) and not told_again:
            self._steps[record.index] = record
        return restarted

    def steps(self, unit: Unit = Unit.SECONDS) -> tuple[Step, ...]:
        """The last attempt's steps."""
        return tuple(unit.step(record.index, record.value, record.offset) for record in self._steps.values())


class ManyPrinters:
    """Steps that every process prints, in no order and mostly without a label; a step is their median.

    One process may print step 7 after another has printed step 8. But each prints its steps in
    order, so no step is ever printed more often than an earlier one; when one is, an attempt
    has begun anew. The first step has no earlier one: there, a process may lag by one step.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self.not_finite: tuple[int | None, str] | None = None
        self._first = 0
        self._widest = 0
        self._values: dict[int, array[float]] = {}
        self._offsets: dict[int, int] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        restarted = self._restarts(record.index)
        if restarted:
            self.attempts += 1
            self.not_finite = None
            self._first, self._widest = record.index, 0
            self._values.clear()
            self._offsets.clear()
        values = self._values.setdefault(record.index, array("d"))
        values.append(record.value)
        self._widest = max(self._widest, len(values))
        self._offsets.setdefault(record.index, record.offset)
        if record.trouble is not None and self.not_finite is None:
            self.not_finite = (record.index, record.trouble)
        return restarted

    def _restarts(self, index: int) -> bool:
        if not self._values or index < self._first:
            return True
        if index == self._first:
            return len(self._values) > 2  # itself, and the one by which a process may lag
        return index in self._values and len(self._values[index]) >= self._widest

    def steps(self, unit: Unit = Unit.SECONDS) -> tuple[Step, ...]:
        """The last attempt's steps, in order of their numbers."""
        found = []
        for index, values in sorted(self._values.items()):
            finite = [value for value in values if can_be(value)]
            if finite:
                found.append(unit.step(index, median(finite), self._offsets[index]))
        return tuple(found)


class Unnumbered:
    """Steps whose lines bear no step number: they count in the order in which they stand."""

    def __init__(self) -> None:
        self.attempts = 0
        self.not_finite: tuple[int | None, str] | None = None
        self._steps: list[tuple[float, int]] = []

    def restart(self) -> None:
        """Begin a new attempt."""
        self.attempts += 1
        self.not_finite = None
        self._steps.clear()

    def add(self, value: float, offset: int, problem: str | None = None) -> None:
        """Take the next step."""
        if self.attempts == 0:
            self.restart()
        trouble = Record(offset, 0, value, problem=problem).trouble
        if trouble is not None and self.not_finite is None:
            self.not_finite = (None, trouble)
        if can_be(value):
            self._steps.append((value, offset))

    def steps(self, unit: Unit = Unit.SECONDS) -> tuple[Step, ...]:
        """The last attempt's steps."""
        return tuple(unit.step(None, value, offset) for value, offset in self._steps)


Series = OnePrinter | ManyPrinters | Unnumbered


def step_log(
    format_name: str,
    series: Series,
    *,
    unit: Unit = Unit.SECONDS,
    total_steps: int | None = None,
    global_batch_size: int | None = None,
    checkpoint_saves_s: Iterable[float] = (),
    resumed_at: int | None = None,
) -> StepLog:
    """A series as a log's steps."""
    return StepLog(
        format=format_name,
        steps=series.steps(unit),
        attempts=series.attempts,
        identity=Identity(global_batch_size=global_batch_size),
        total_steps=total_steps,
        not_finite=series.not_finite,
        checkpoint_saves_s=tuple(checkpoint_saves_s),
        resumed_at=resumed_at,
    )
