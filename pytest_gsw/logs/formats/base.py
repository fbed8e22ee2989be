"""The base of a format in which one line is one step.

A format parses a line, and nothing else. The rest is behind this interface: several attempts of a requeued job in one
file, ranks that all print, numbers that are not finite (even if a pattern of digits skips them), losses that are
missing, steps that were not trained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_gsw.logs import steps
from pytest_gsw.logs.model import Dialect, EndMarkers, Identity, StepLog, Tail
from pytest_gsw.logs.scan import has_zero_norm, number, rank_of

# -- The base of parsers that collect the steps of a log in series ----------------------------------


class SeriesParser:
    """A parser that leaves attempts, ranks and figures that are not finite to series.

    Args:
        name: The format's name.
        series: The series that a log of the format may hold, the most exact first.
    """

    guards_itself: ClassVar[bool] = True

    def __init__(self, name: str, *series: steps.StepSeries) -> None:
        self._name = name
        self._candidates = series
        #: The first figure that is not finite in a line without a step.
        self._lost_figure: str | None = None
        #: Planned steps of the run; 0 if its lines do not state them.
        self.total_steps = 0

    def feed(self, offset: int, record: bytes) -> None:
        """Read the next record. Override this."""
        raise NotImplementedError

    def series(self) -> steps.StepSeries:
        """The series that counts: the first that has steps."""
        return next((series for series in self._candidates if series.attempts), self._candidates[-1])

    def lose(self, series: steps.StepSeries, text: str) -> None:
        """Record a figure that is not finite in a line without a step, which may be before the first step."""
        if series.attempts:
            series.lose(None, text)
        self._lost_figure = self._lost_figure or text

    def not_finite(self, series: steps.StepSeries) -> tuple[int | None, str] | None:
        """Step number and text of the first figure that is not finite in the last attempt of the series."""
        lost_figure = None if self._lost_figure is None or series.diverged else (None, self._lost_figure)
        return series.not_finite or lost_figure

    def log(self) -> StepLog:
        """The contents of all records fed so far."""
        series = self.series()
        return StepLog(
            format=self._name,
            steps=series.steps(),
            attempts=series.attempts,
            earlier=tuple(series.earlier),
            total_steps=self.total_steps or None,
            not_finite=self.not_finite(series),
            diverged=tuple(series.diverged),
            losses=series.losses,
            without_loss=series.without_loss,
            zero_norm_losses=series.zero_norm_losses,
            printed=series.printed,
        )

    def keep_attempts(self) -> None:
        """Keep the steps of earlier attempts, of a thousand at most."""
        for series in self._candidates:
            series.earlier = deque(maxlen=1000)

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, at a cost that does not grow with the log."""
        series = self.series()
        return Tail(series.attempts, series.count, tuple(series.steps(count)), self.not_finite(series))


class FigureParser:
    """A parser of a benchmark that prints figures and no steps.

    Args:
        name: The format's name.
    """

    guards_itself: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self._name = name
        #: Runs so far; the last one counts, and an incomplete one is a fault: no earlier run stands in for it.
        self.attempts = 0
        self.identity = Identity()
        #: Byte offsets at which the last run began, and at which its program reported its end, if it prints that.
        self.began_at = 0
        self.ended_at: int | None = None
        #: Why the figures decide nothing, although the run has no fault.
        self.doubt: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        """Read the next record. Override this."""
        raise NotImplementedError

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        """The figures of the last run, and why it is invalid, if it is. Override this."""
        raise NotImplementedError

    def log(self) -> StepLog:
        """The contents of all records fed so far."""
        figures, fault = self.result()
        ends, known = (self.began_at, self.ended_at), (self._name, (), self.attempts, self.identity)
        return StepLog(*known, figures=figures, fault=fault, doubt=self.doubt, benchmark_at=ends)

    def tail(self, count: int) -> Tail:
        """The number of runs: figures come at their end."""
        return Tail(self.attempts)


@dataclass(frozen=True)
class BuiltIn:
    """A format of pytest-gsw itself; the fields are those of :class:`~pytest_gsw.logs.model.LogFormat`."""

    name: str
    dialects: tuple[Dialect, ...]
    reader: Callable[[], steps.GuardedParser]
    first_index: int | None = None
    wraps: bool = False
    shows_progress: bool = True
    last_words: EndMarkers | None = None
    #: One of what it reads, as messages name it.
    content: str = "step time"
    #: What it looks for, as messages state it; empty for the strings of its dialects.
    searched: str = ""


@dataclass(frozen=True)
class StepLine:
    """One step, from one line of a log.

    Numbers may be given as the bytes of the line: ``4.31``, ``6,785``, ``nan`` and ``2e+3`` are all accepted.
    """

    #: The step number; ``None`` in a format that numbers none.
    index: int | None
    #: Its time or rate, in the format's unit.
    value: float | bytes
    #: The loss; ``None`` if the line has none.
    loss: float | bytes | None = None
    #: The rank; by default that of srun's, torchrun's or mpirun's label.
    rank: int | None = None
    #: Steps of the line that the optimizer skipped.
    skipped: int = 0
    #: Another sign that the run diverged, such as ``grad norm nan``.
    problem: str | None = None
    #: The number of the run's last step, if the line states it.
    total: int | None = None


class LineFormat:
    """A log format in which each step has a line of its own: give it a name, its markers, and :meth:`step`."""

    #: The name in the tables' ``log_format``.
    name: str
    #: Byte strings of which a step's line holds at least one, see :class:`~pytest_gsw.logs.model.LogFormat`.
    dialects: tuple[Dialect, ...]
    #: The number of a run's first step; ``None`` if steps have no number, or none with a fixed start.
    first_index: int | None = None
    #: True if a line may be longer than the 1024 bytes after which ``srun --label`` breaks it.
    wraps: bool = False
    #: True if steps appear during the run.
    shows_progress: bool = True
    #: Unit of the numbers: ``seconds`` of a step, ``milliseconds``, ``samples_per_s`` of the whole job, or
    #: ``tokens_per_s_per_gpu``.
    unit: str = "seconds"
    #: True if every rank prints its steps; a step then is the median of them.
    every_rank_prints: bool = False
    #: True if every such line has a loss: one without is an error.
    always_has_loss: bool = False
    #: Markers before a run's first step and after its last one, if it prints them.
    last_words: EndMarkers | None = None

    def step(self, line: bytes) -> StepLine | None:
        """The step in a line; ``None`` if there is none. Override this.

        A line with a marker and a figure that is not finite, but without a step, makes the run an error: a pattern of
        digits alone does not find ``took nan s``.

        Args:
            line: A whole line that holds a marker, or one repaint of a progress bar, without its end and escapes.
        """
        raise NotImplementedError

    def steps(self, line: bytes) -> Iterable[StepLine]:
        """All steps in a line, which holds several if processes have written over each other."""
        found = self.step(line)
        return () if found is None else (found,)

    def reader(self) -> SeriesParser:
        """A parser of all steps of the last attempt; not to be overridden."""
        return _Parser(self)


class _Parser(SeriesParser):
    def __init__(self, log_format: LineFormat) -> None:
        self._format = log_format
        self._in_ms = log_format.unit == "milliseconds"
        unit = steps.Unit.SECONDS if self._in_ms else steps.Unit(log_format.unit)
        self._numbered: steps.SingleRankSteps | steps.MultiRankSteps = (
            steps.MultiRankSteps(unit) if log_format.every_rank_prints else steps.SingleRankSteps(unit)
        )
        self._unnumbered = steps.UnnumberedSteps(unit)
        super().__init__(log_format.name, self._numbered, self._unnumbered)
        self._prints_losses = log_format.always_has_loss

    def feed(self, offset: int, record: bytes) -> None:
        parsed = [(line, _number(line.value)) for line in self._format.steps(record)]
        for line, value in parsed:
            if value is not None:
                # Nine decimals are finer than any log, and make 700 ms 0.7 s, not 0.7000000000000001.
                self._add(offset, record, line, round(value / 1000, 9) if self._in_ms else value)
        if not any(value is not None for _, value in parsed):
            text = steps.not_finite_text(record)
            if text is not None:
                self.lose(self.series(), text)

    def _add(self, offset: int, record: bytes, line: StepLine, value: float) -> None:
        loss, needs_loss = _number(line.loss), self._format.always_has_loss
        self._prints_losses = self._prints_losses or loss is not None
        problem, self.total_steps = line.problem or steps.not_finite_text(record), line.total or self.total_steps
        rank, is_zero = rank_of(record) if line.rank is None else line.rank, has_zero_norm(record)
        known = (problem, loss, needs_loss, line.skipped)
        step = steps.StepRecord(offset, line.index or 0, value, rank, *known, zero_norm=is_zero)
        (self._unnumbered if line.index is None else self._numbered).add(step)

    def log(self) -> StepLog:
        log = super().log()
        return log if self._prints_losses else replace(log, losses=None)


def _number(value: float | bytes | None) -> float | None:
    return number(value) if isinstance(value, bytes) else value
