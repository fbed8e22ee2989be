"""From step records in a file's order to the steps of its last attempt.

A log can hold several attempts: a requeued job appends to it, a launcher restarts workers
from a checkpoint, a recipe profiles before it measures. All count steps anew, from the start
or from the checkpoint; only the last attempt is what the run is judged by.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from enum import Enum
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pytest_gsw.logs.model import Diverged, Step, StepSetup

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOTHING_SAID = StepSetup()


class Unit(Enum):
    """What the numbers of a series are."""

    SECONDS = "seconds"
    SAMPLES_PER_S = "samples_per_s"
    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"

    def step(
        self, index: int | None, value: float, offset: int, skipped: int = 0, setup: StepSetup = _NOTHING_SAID
    ) -> Step:
        """A step with the number in the unit's field."""
        if self is Unit.SECONDS:
            return Step(index, seconds=value, offset=offset, skipped=skipped, setup=setup)
        if self is Unit.SAMPLES_PER_S:
            return Step(index, samples_per_s=value, offset=offset, skipped=skipped, setup=setup)
        return Step(index, tokens_per_s_per_gpu=value, offset=offset, skipped=skipped, setup=setup)


def can_be(value: float) -> bool:
    """Whether a number can be a time or a rate: NaN, infinite and negative ones are of clocks that failed."""
    return 0 <= value < math.inf


class Record(NamedTuple):
    """One step as one line of a log has it.

    Attributes:
        offset: Where in the file.
        number: The step's.
        value: The step's time or rate; may be what none can be, then it is no step.
        rank: Who printed it, where a launcher wrote that before the line.
        problem: The loss or gradient norm that is not finite, as the line has it.
        loss: The loss, ``None`` where the line has none.
        needs_loss: Whether every such line of the format has a loss.
        skipped: Of the steps that the line stands for, those that were not trained.
        setup: How the line says that the step was set up.
    """

    offset: int
    number: int
    value: float
    rank: int | None = None
    problem: str | None = None
    loss: float | None = None
    needs_loss: bool = False
    skipped: int = 0
    setup: StepSetup = _NOTHING_SAID

    @property
    def trouble(self) -> str | None:
        """What in the record is not finite, or below zero."""
        if not can_be(self.value):
            return f"step time {self.value}"
        lost = self.loss is not None and not math.isfinite(self.loss)
        return self.problem or (f"loss {self.loss}" if lost else None)

    def repeats(self, other: Record) -> bool:
        """Whether both tell the same of the same step."""
        same = self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))
        return self.number == other.number and same


class Series:
    """What every kind of series knows of attempts, losses and of what was not finite.

    Args:
        unit: What its numbers are.
    """

    def __init__(self, unit: Unit = Unit.SECONDS) -> None:
        self.unit = unit
        self.attempts = 0
        #: Of the attempt that goes on: step number and text of what was not finite first.
        self.not_finite: tuple[int | None, str] | None = None
        #: The attempts before it that diverged.
        self.diverged: list[Diverged] = []
        self._losses: dict[int, float] = {}
        self._without_loss: dict[int, None] = {}
        self._began = 0

    def lose(self, index: int | None, text: str) -> None:
        """Note what was not finite in the attempt that goes on; the first counts."""
        if self.not_finite is None:
            self.not_finite = (index, text)

    def tell_loss(self, index: int, loss: float) -> None:
        """Note a loss that stands in a line of its own."""
        if math.isfinite(loss):
            self._losses[index] = loss

    @property
    def losses(self) -> array[float]:
        """The losses of the attempt that goes on, in the order of its steps."""
        return array("d", [self._losses[index] for index in sorted(self._losses)])

    @property
    def without_loss(self) -> tuple[int | None, ...]:
        """The steps that should have a loss, and of which no line has one."""
        return tuple(index for index in self._without_loss if index not in self._losses)

    @property
    def count(self) -> int:
        """How many steps the last attempt has."""
        raise NotImplementedError

    def steps(self, last: int | None = None) -> tuple[Step, ...]:
        """The last attempt's steps in order, or so many of the last ones."""
        raise NotImplementedError

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each rank printed of a step; empty where one rank prints."""
        del step
        return ()

    def _begin(self, offset: int) -> None:
        if self.not_finite is not None:
            self.diverged.append(Diverged(self.attempts, *self.not_finite, self._began, offset))
        self.attempts += 1
        self.not_finite = None
        self._began = offset
        self._losses.clear()
        self._without_loss.clear()

    def _note(self, record: Record, index: int | None) -> None:
        if self.not_finite is None and (trouble := record.trouble) is not None:
            self.not_finite = (index, trouble)
        if record.loss is not None:
            self.tell_loss(record.number, record.loss)
        elif record.needs_loss:
            self._without_loss[record.number] = None


class OnePrinter(Series):
    """Steps that one process prints, each once or several times in a row.

    A step number that does not grow is a new attempt, unless it is the last step told again:
    with the same number, by another rank, or, where a bar is repainted, with a newer one.

    Args:
        unit: What its numbers are.
        repaints: Whether a later record of the same step corrects the earlier one.
    """

    def __init__(self, unit: Unit = Unit.SECONDS, *, repaints: bool = False) -> None:
        super().__init__(unit)
        self._repaints = repaints
        self._last: Record | None = None
        self._steps: dict[int, Record] = {}
        #: What further ranks print of the same steps.
        self._others: dict[int, list[Record]] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        last, self._last = self._last, record
        restarted = last is None or record.number < last.number
        told_again = False
        if last is not None and record.number == last.number and not self._repaints:
            told_again = record.rank != last.rank
            restarted = not told_again and not record.repeats(last)
        if restarted:
            self._begin(record.offset)
            self._steps.clear()
            self._others.clear()
        self._note(record, record.number)
        if can_be(record.value):
            if told_again and record.number in self._steps:
                self._others.setdefault(record.number, []).append(record)
            elif not told_again:
                self._steps[record.number] = record
        return restarted

    @property
    def count(self) -> int:
        """How many steps the last attempt has."""
        return len(self._steps)

    def steps(self, last: int | None = None) -> tuple[Step, ...]:
        """The last attempt's steps in order, or so many of the last ones."""
        records = list(islice(reversed(self._steps.values()), last))
        return tuple(
            self.unit.step(record.number, record.value, record.offset, record.skipped, record.setup)
            for record in reversed(records)
        )

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each rank printed of a step; empty where one rank prints."""
        others = self._others.get(-1 if step.index is None else step.index, [])
        first = [] if step.index is None or not others else [self._steps[step.index]]
        return [(rank_label(record.rank), record.value) for record in (*first, *others)]


class ManyPrinters(Series):
    """Steps that every process prints, in no order and mostly without a label; a step is their median.

    One process may print step 7 after another has printed step 8. But each prints its steps in
    order, so no step is ever printed more often than an earlier one; when one is, an attempt
    has begun anew. The first step has no earlier one: there, a process may lag by one step.
    """

    def __init__(self, unit: Unit = Unit.SECONDS) -> None:
        super().__init__(unit)
        self._first = 0
        self._widest = 0
        #: The numbers of the steps of which a value can be one, in order.
        self._timed: list[int] = []
        self._values: dict[int, array[float]] = {}
        self._offsets: dict[int, int] = {}
        #: Who printed the values, where some are labelled; -1 for those that are not.
        self._ranks: dict[int, array[int]] = {}
        self._skipped: dict[int, int] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        restarted = self._restarts(record.number)
        if restarted:
            self.restart(record.offset)
        if not self._values:
            self._first = record.number
        values = self._values.setdefault(record.number, array("d"))
        values.append(record.value)
        if can_be(record.value):
            place = bisect_left(self._timed, record.number)
            if self._timed[place : place + 1] != [record.number]:
                self._timed.insert(place, record.number)
        if record.rank is not None:
            ranks = self._ranks.setdefault(record.number, array("l"))
            ranks.extend([-1] * (len(values) - 1 - len(ranks)))
            ranks.append(record.rank)
        self._widest = max(self._widest, len(values))
        self._offsets.setdefault(record.number, record.offset)
        if record.skipped:
            self._skipped[record.number] = max(record.skipped, self._skipped.get(record.number, 0))
        self._note(record, record.number)
        return restarted

    def restart(self, offset: int) -> None:
        """Begin a new attempt."""
        self._begin(offset)
        self._widest = 0
        self._timed.clear()
        self._values.clear()
        self._offsets.clear()
        self._ranks.clear()
        self._skipped.clear()

    def _restarts(self, index: int) -> bool:
        if not self._values:
            return self.attempts == 0  # else one has begun already, and this is its first step
        if index < self._first:
            return True
        if index == self._first:
            return len(self._values) > 2  # itself, and the one by which a process may lag
        return index in self._values and len(self._values[index]) >= self._widest

    @property
    def count(self) -> int:
        """How many steps the last attempt has."""
        return len(self._timed)

    def steps(self, last: int | None = None) -> tuple[Step, ...]:
        """The last attempt's steps in order of their numbers, or so many of the last ones."""
        return tuple(map(self._step, self._timed if last is None else self._timed[-last:]))

    def _step(self, index: int) -> Step:
        value = median([value for value in self._values[index] if can_be(value)])
        return self.unit.step(index, value, self._offsets[index], self._skipped.get(index, 0))

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each rank printed of a step; empty where one rank prints."""
        index = -1 if step.index is None else step.index
        values = self._values.get(index, array("d"))
        if len(values) < 2:
            return ()
        ranks = [*self._ranks.get(index, ()), *(-1 for _ in values)]
        pairs = zip(ranks, values, strict=False)
        return [(None if rank < 0 else rank_label(rank), value) for rank, value in pairs if can_be(value)]


class Unnumbered(Series):
    """Steps whose lines bear no step number: they count in the order in which they stand."""

    def __init__(self, unit: Unit = Unit.SECONDS) -> None:
        super().__init__(unit)
        self._steps: list[tuple[float, int, int]] = []
        self._count = 0

    def restart(self, offset: int = 0) -> None:
        """Begin a new attempt."""
        self._begin(offset)
        self._steps.clear()

    def add(
        self,
        value: float,
        offset: int,
        problem: str | None = None,
        *,
        loss: float | None = None,
        needs_loss: bool = False,
        skipped: int = 0,
    ) -> None:
        """Take the next step."""
        if self.attempts == 0:
            self.restart(offset)
        self._count += 1
        self._note(Record(offset, self._count, value, None, problem, loss, needs_loss, skipped), None)
        if can_be(value):
            self._steps.append((value, offset, skipped))

    @property
    def without_loss(self) -> tuple[int | None, ...]:
        """The steps that should have a loss and have none."""
        return (None,) * len(super().without_loss)

    @property
    def count(self) -> int:
        """How many steps the last attempt has."""
        return len(self._steps)

    def steps(self, last: int | None = None) -> tuple[Step, ...]:
        """The last attempt's steps in order, or so many of the last ones."""
        kept = self._steps if last is None else self._steps[-last:]
        return tuple(self.unit.step(None, value, offset, skipped) for value, offset, skipped in kept)


def rank_label(rank: int | None) -> str | None:
    """A rank as messages name it."""
    return None if rank is None else f"rank {rank}"
