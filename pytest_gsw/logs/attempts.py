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

from pytest_gsw.logs.model import Diverged, Identity, Step, StepLog, StepSetup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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


@dataclass(frozen=True)
class Record:
    """One step as one line of a log has it.

    Attributes:
        offset: Where in the file.
        index: The step's number.
        value: The step's time or rate; may be what none can be, then it is no step.
        rank: Who printed it, where a launcher wrote that before the line.
        problem: The loss or gradient norm that is not finite, as the line has it.
        loss: The loss, ``None`` where the line has none.
        needs_loss: Whether every such line of the format has a loss.
        skipped: Of the steps that the line stands for, those that were not trained.
        setup: How the line says that the step was set up.
    """

    offset: int
    index: int
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
        return self.index == other.index and same


class _Attempts:
    """What every kind of series knows of attempts, losses and of what was not finite."""

    def __init__(self) -> None:
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
        return array("d", (self._losses[index] for index in sorted(self._losses)))

    @property
    def without_loss(self) -> tuple[int | None, ...]:
        """The steps that should have a loss, and of which no line has one."""
        return tuple(index for index in self._without_loss if index not in self._losses)

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
        if self.not_finite is None and record.trouble is not None:
            self.not_finite = (index, record.trouble)
        if record.loss is not None:
            self.tell_loss(record.index, record.loss)
        elif record.needs_loss:
            self._without_loss[record.index] = None


class OnePrinter(_Attempts):
    """Steps that one process prints, each once or several times in a row.

    A step number that does not grow is a new attempt, unless it is the last step told again:
    with the same number, by another rank, or, where a bar is repainted, with a newer one.

    Args:
        repaints: Whether a later record of the same step corrects the earlier one.
    """

    def __init__(self, *, repaints: bool = False) -> None:
        super().__init__()
        self._repaints = repaints
        self._last: Record | None = None
        self._steps: dict[int, Record] = {}
        #: What further ranks print of the same steps.
        self._others: dict[int, list[Record]] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        last, self._last = self._last, record
        restarted = last is None or record.index < last.index
        told_again = False
        if last is not None and record.index == last.index and not self._repaints:
            told_again = record.rank != last.rank
            restarted = not told_again and not record.repeats(last)
        if restarted:
            self._begin(record.offset)
            self._steps.clear()
            self._others.clear()
        self._note(record, record.index)
        if can_be(record.value):
            if told_again and record.index in self._steps:
                self._others.setdefault(record.index, []).append(record)
            elif not told_again:
                self._steps[record.index] = record
        return restarted

    def steps(self, unit: Unit = Unit.SECONDS) -> tuple[Step, ...]:
        """The last attempt's steps."""
        return tuple(
            unit.step(record.index, record.value, record.offset, record.skipped, record.setup)
            for record in self._steps.values()
        )

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each rank printed of a step; empty where one rank prints."""
        others = self._others.get(-1 if step.index is None else step.index, [])
        first = [] if step.index is None or not others else [self._steps[step.index]]
        return [(rank_label(record.rank), record.value) for record in (*first, *others)]


class ManyPrinters(_Attempts):
    """Steps that every process prints, in no order and mostly without a label; a step is their median.

    One process may print step 7 after another has printed step 8. But each prints its steps in
    order, so no step is ever printed more often than an earlier one; when one is, an attempt
    has begun anew. The first step has no earlier one: there, a process may lag by one step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first = 0
        self._widest = 0
        self._values: dict[int, array[float]] = {}
        self._offsets: dict[int, int] = {}
        #: Who printed the values, where some are labelled; -1 for those that are not.
        self._ranks: dict[int, array[int]] = {}
        self._skipped: dict[int, int] = {}

    def add(self, record: Record) -> bool:
        """Take the next record; true where it begins a new attempt."""
        restarted = self._restarts(record.index)
        if restarted:
            self._begin(record.offset)
            self._first, self._widest = record.index, 0
            self._values.clear()
            self._offsets.clear()
            self._ranks.clear()
            self._skipped.clear()
        values = self._values.setdefault(record.index, array("d"))
        values.append(record.value)
        if record.rank is not None:
            ranks = self._ranks.setdefault(record.index, array("l"))
            ranks.extend([-1] * (len(values) - 1 - len(ranks)))
            ranks.append(record.rank)
        self._widest = max(self._widest, len(values))
        self._offsets.setdefault(record.index, record.offset)
        if record.skipped:
            self._skipped[record.index] = max(record.skipped, self._skipped.get(record.index, 0))
        self._note(record, record.index)
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
                found.append(unit.step(index, median(finite), self._offsets[index], self._skipped.get(index, 0)))
        return tuple(found)

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """What each rank printed of a step; empty where one rank prints."""
        index = -1 if step.index is None else step.index
        values = self._values.get(index, array("d"))
        if len(values) < 2:
            return ()
        ranks = [*self._ranks.get(index, ()), *(-1 for _ in values)]
        pairs = zip(ranks, values, strict=False)
        return [(None if rank < 0 else rank_label(rank), value) for rank, value in pairs if can_be(value)]


class Unnumbered(_Attempts):
    """Steps whose lines bear no step number: they count in the order in which they stand."""

    def __init__(self) -> None:
        super().__init__()
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

    def steps(self, unit: Unit = Unit.SECONDS) -> tuple[Step, ...]:
        """The last attempt's steps."""
        return tuple(unit.step(None, value, offset, skipped) for value, offset, skipped in self._steps)


def rank_label(rank: int | None) -> str | None:
    """A rank as messages name it."""
    return None if rank is None else f"rank {rank}"


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
    prints_losses: bool = True,
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
        diverged=tuple(series.diverged),
        losses=series.losses if prints_losses else None,
        without_loss=series.without_loss,
        printed=series.printed,
    )
