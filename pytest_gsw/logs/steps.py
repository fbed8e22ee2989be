"""From step records in a file's order to the steps of its last attempt.

A log can hold several attempts: a requeued job appends to it, a launcher restarts workers from a checkpoint, a recipe
profiles before it measures. All count steps anew, from the start or from the checkpoint; the last attempt is judged.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import islice, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, Protocol, cast

from pytest_gsw.logs.model import Diverged, LogFormat, Parser, Step, StepLog, Steps, StepSetup, Tail
from pytest_gsw.logs.scan import C_RUNTIME, NUMBER, LogFile, has_zero_norm, matching_records, number, rank_of, safe_text

_NO_SETUP = StepSetup()
#: Ways to make one number of several.
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": itemgetter(-1),
    "median": median,
    "mean": fmean,
    "max": max,
    "min": min,
}


class Unit(Enum):
    """Unit of the numbers of a series."""

    SECONDS = "seconds"
    SAMPLES_PER_S = "samples_per_s"
    TOKENS_PER_S_PER_GPU = "tokens_per_s_per_gpu"


def can_be(value: float) -> bool:
    """True if a number can be a time or a rate; NaN, infinite and negative ones come from failed clocks."""
    return 0 <= value < math.inf


class StepRecord(NamedTuple):
    """One step, from one line of a log.

    Attributes:
        offset: Byte offset in the file.
        number: The step number; of :class:`UnnumberedSteps` any.
        value: Time or rate of the step; an impossible value makes it no step.
        rank: The rank in the launcher's label, if there is one.
        problem: Text of the loss or gradient norm that is not finite.
        loss: The loss; ``None`` if the line has none.
        needs_loss: True if every such line of the format has a loss.
        skipped: Steps of the line that were not trained.
        setup: Settings of the step that the line states.
        zero_norm: True if the line has a gradient norm of exactly 0.
    """

    offset: int
    number: int
    value: float
    rank: int | None = None
    problem: str | None = None
    loss: float | None = None
    needs_loss: bool = False
    skipped: int = 0
    setup: StepSetup = _NO_SETUP
    zero_norm: bool = False

    @property
    def trouble(self) -> str | None:
        """Text of the value that is not finite, or of a time below zero."""
        if not can_be(self.value):
            return f"step time {self.value}"
        lost = self.loss is not None and not math.isfinite(self.loss)
        return self.problem or (f"loss {self.loss}" if lost else None)

    def repeats(self, other: StepRecord) -> bool:
        """True if both records, which are of one step, have the same value."""
        return self.value == other.value or (math.isnan(self.value) and math.isnan(other.value))


class _Columns:
    """The steps of one attempt: 48 bytes each, and 16 for each further line of a step by another rank.

    A place is a step's index in the order of first printing; steps without a possible time have one, too.
    """

    def __init__(self) -> None:
        #: Of each step: number, first possible time, the rank and offset of that, and the loss. The loss is NaN if none
        #: is printed, and infinite if a line lacks the loss that it should have.
        self.numbers, self.values, self.ranks = array("q"), array("d"), array("i")
        self.offsets, self.losses = array("q"), array("d")
        #: The index of the step's skips, settings and zero norm, which are the same for most steps.
        self._kinds, self._setups, self._kind_of = array("i"), list[tuple[int, StepSetup, bool]](), dict[object, int]()
        #: The number of lines of each step, and the newest further line.
        self.counts, self._newest = array("i"), array("i")
        #: Of further lines: time, rank, and the previous further line of the same step.
        self._values, self._ranks, self._before = array("d"), array("i"), array("i")
        #: Number of steps with a possible time.
        self.timed = 0
        #: The place of each number, once steps are not printed in the order of their numbers.
        self._places: dict[int, int] | None = None

    def find(self, number: int) -> int | None:
        """The place of a step; ``None`` if it was not printed yet."""
        if self._places is not None:
            return self._places.get(number)
        place = bisect_left(self.numbers, number)
        return place if place < len(self.numbers) and self.numbers[place] == number else None

    def add(self, record: StepRecord) -> int:
        """Add the first line of a step, and return its place."""
        place = len(self.numbers)
        if self._places is None and place and record.number < self.numbers[-1]:
            self._places = {number: at for at, number in enumerate(self.numbers)}
        if self._places is not None:
            self._places[record.number] = place
        self.timed += can_be(record.value)
        self.numbers.append(record.number)
        self.values.append(record.value)
        self.offsets.append(record.offset)
        self.ranks.append(-1 if record.rank is None else record.rank)
        self._kinds.append(self._kind(record.skipped, record.setup, record.zero_norm))
        self.losses.append(math.nan)
        self.counts.append(1)
        self._newest.append(-1)
        return place

    def correct(self, place: int, record: StepRecord) -> None:
        """Replace the first line of a step by one with a possible time."""
        self.timed += not can_be(self.values[place])
        self.values[place], self.offsets[place] = record.value, record.offset
        self.ranks[place] = -1 if record.rank is None else record.rank
        self._kinds[place] = self._kind(record.skipped, record.setup, record.zero_norm)

    def add_further(self, place: int, record: StepRecord) -> None:
        rank = -1 if record.rank is None else record.rank
        self.counts[place] += 1
        if not can_be(self.values[place]):
            self.timed += can_be(record.value)
            self.values[place], self.ranks[place] = record.value, rank
        elif can_be(record.value):
            self._values.append(record.value)
            self._ranks.append(rank)
            self._before.append(self._newest[place])
            self._newest[place] = len(self._values) - 1
        skipped, setup, zero_norm = self._setups[self._kinds[place]]
        self._kinds[place] = self._kind(max(skipped, record.skipped), setup, zero_norm and record.zero_norm)

    def mark_zero_norm(self, place: int) -> None:
        skipped, setup, _ = self._setups[self._kinds[place]]
        self._kinds[place] = self._kind(skipped, setup, True)

    def _kind(self, skipped: int, setup: StepSetup, zero_norm: bool) -> int:
        properties = skipped, setup, zero_norm
        if self._kinds and self._setups[self._kinds[-1]] == properties:
            return self._kinds[-1]
        kind = self._kind_of.setdefault(properties, len(self._setups))
        if kind == len(self._setups):
            self._setups.append(properties)
        return kind

    def lines(self, place: int) -> list[tuple[int, float]]:
        """The rank (-1 if unknown) and the time of each line of a step with a possible time."""
        times, at = [], self._newest[place]
        while at >= 0:
            times.append((self._ranks[at], self._values[at]))
            at = self._before[at]
        return [(self.ranks[place], self.values[place]), *reversed(times)]

    def step(self, unit: str, place: int, *, is_numbered: bool, is_median: bool) -> Step:
        value = self.values[place]
        if is_median and self.counts[place] > 1:
            value = median([value for _, value in self.lines(place)])
        skipped, setup, _ = self._setups[self._kinds[place]]
        number = self.numbers[place] if is_numbered else None
        return Step(number, offset=self.offsets[place], skipped=skipped, setup=setup, **{unit: value})

    def zero_norm_losses(self) -> array[float]:
        """The loss of each timed step whose lines all have a gradient norm of 0, NaN of others; empty if none has."""
        losses, kinds, setups = self.losses, self._kinds, self._setups
        if not any(zero_norm for *_, zero_norm in setups):
            return array("d")
        return array("d", [losses[at] if setups[kinds[at]][2] else math.nan for at in self.order_timed(None)])

    def order(self) -> Sequence[int]:
        """The places in the order of the step numbers."""
        places = range(len(self.numbers))
        return places if self._places is None else sorted(places, key=self.numbers.__getitem__)

    def order_timed(self, last: int | None) -> Sequence[int]:
        """The places of steps with a possible time, in the order of numbers; the last ones if ``last`` is given."""
        order = self.order()
        if self.timed < len(order):
            order = array("i", islice((at for at in reversed(order) if can_be(self.values[at])), last))[::-1]
        return order if last is None else order[-last:]


class StepSeries:
    """Attempts, losses and figures that are not finite, common to all kinds of series.

    Args:
        unit: Unit of its numbers.
    """

    #: Lines have step numbers; a step that several ranks print is their median.
    _is_numbered, _is_median = True, False

    def __init__(self, unit: Unit = Unit.SECONDS) -> None:
        self.unit = unit
        self.attempts = 0
        #: Of the current attempt: step number and text of the first figure that is not finite.
        self.not_finite: tuple[int | None, str] | None = None
        #: Earlier attempts that diverged.
        self.diverged: list[Diverged] = []
        #: The steps of the newest earlier attempts; without a place none are kept.
        self.earlier: deque[Sequence[Step]] = deque(maxlen=0)
        self._steps = _Columns()
        self._began = 0

    def lose(self, index: int | None, text: str) -> None:
        """Record a figure of the current attempt that is not finite; the first one counts."""
        if self.not_finite is None:
            self.not_finite = (index, text)

    @property
    def losses(self) -> array[float]:
        """The losses of the current attempt, in the order of its steps."""
        order, losses = self._steps.order(), self._steps.losses
        return array("d", filter(math.isfinite, map(losses.__getitem__, order)))

    def mark_zero_norm(self, number: int) -> None:
        """Record a gradient norm of 0 for a step that has a line of its own for it, behind the one of its rate."""
        place = self._steps.find(number)
        if place is not None:
            self._steps.mark_zero_norm(place)

    @property
    def without_loss(self) -> tuple[int | None, ...]:
        """The steps that should have a loss, and of which no line has one."""
        steps = self._steps
        return tuple(steps.numbers[place] for place in steps.order() if steps.losses[place] == math.inf)

    @property
    def zero_norm_losses(self) -> array[float]:
        """Losses of steps with a gradient norm of 0 in the current attempt, see :class:`StepLog`."""
        return self._steps.zero_norm_losses()

    @property
    def count(self) -> int:
        """Number of steps in the last attempt."""
        return self._steps.timed

    def steps(self, last: int | None = None) -> Sequence[Step]:
        """The last attempt's steps in order, or the last ones of them; a later line may correct one."""
        make_step = partial(self._steps.step, self.unit.value, is_numbered=self._is_numbered, is_median=self._is_median)
        return Steps(make_step, self._steps.order_timed(last))

    def printed(self, step: Step) -> Sequence[tuple[str | None, float]]:
        """The number that each rank printed for a step; empty if one rank prints."""
        place = None if step.index is None else self._steps.find(step.index)
        if place is None or self._steps.counts[place] < 2:
            return ()
        return [(None if rank < 0 else rank_label(rank), value) for rank, value in self._steps.lines(place)]

    def restart(self, offset: int) -> None:
        """Begin a new attempt."""
        if self.earlier.maxlen and self._steps.timed:
            self.earlier.append(self.steps())
        if self.not_finite is not None:
            self.diverged.append(Diverged(self.attempts, *self.not_finite, self._began, offset))
        self.attempts += 1
        self.not_finite = None
        self._began = offset
        self._steps = _Columns()

    def _note(self, record: StepRecord, place: int, index: int | None) -> None:
        if self.not_finite is None and (trouble := record.trouble) is not None:
            self.not_finite = (index, trouble)
        losses = self._steps.losses
        if record.loss is not None and math.isfinite(record.loss):
            # Ranks of the first pipeline stages have no loss, and print -1.
            has_other = self._steps.counts[place] > 1 and losses[place] < math.inf
            losses[place] = max(record.loss, losses[place]) if has_other else record.loss
        elif record.loss is None and record.needs_loss and math.isnan(losses[place]):
            losses[place] = math.inf


class SingleRankSteps(StepSeries):
    """Steps that one process prints, each once or several times in a row.

    A step number that does not increase is a new attempt, unless it repeats the last step: with the same number, by
    another rank, or, for a repainted bar, with a newer number.

    Args:
        unit: Unit of its numbers.
        repaints: True if a later record of the same step corrects the earlier one.
    """

    def __init__(self, unit: Unit = Unit.SECONDS, *, repaints: bool = False) -> None:
        super().__init__(unit)
        self._repaints = repaints
        self._last: StepRecord | None = None

    def add(self, record: StepRecord) -> bool:
        """Add the next record; true if it begins a new attempt."""
        last, self._last = self._last, record
        restarted = last is None or record.number < last.number
        is_repeat = False
        if last is not None and record.number == last.number and not self._repaints:
            is_repeat = record.rank != last.rank
            restarted = not is_repeat and not record.repeats(last)
        if restarted:
            self.restart(record.offset)
        place = self._steps.find(record.number)
        if place is None:
            place = self._steps.add(record)
        elif is_repeat:
            self._steps.add_further(place, record)
        elif can_be(record.value):
            self._steps.correct(place, record)
        self._note(record, place, record.number)
        return restarted


class MultiRankSteps(StepSeries):
    """Steps that every process prints, in any order and mostly without a label; a step is their median.

    One process may print step 7 after another has printed step 8. But each prints its steps in order: no step is
    printed more often than an earlier one, and if one is, a new attempt has begun. The first step has no earlier one;
    there, a process may lag by one step.
    """

    _is_median = True

    def __init__(self, unit: Unit = Unit.SECONDS) -> None:
        super().__init__(unit)
        #: The number of lines of the step that is printed most.
        self._widest = 0

    def add(self, record: StepRecord) -> bool:
        """Add the next record; true if it begins a new attempt."""
        place = self._steps.find(record.number)
        restarted = self._restarts(record.number, place)
        if restarted:
            self.restart(record.offset)
            place = None
        if place is None:
            place = self._steps.add(record)
        else:
            self._steps.add_further(place, record)
        self._widest = max(self._widest, self._steps.counts[place])
        self._note(record, place, record.number)
        return restarted

    def restart(self, offset: int) -> None:
        """Begin a new attempt."""
        super().restart(offset)
        self._widest = 0

    def _restarts(self, index: int, place: int | None) -> bool:
        counts = self._steps.counts
        if not counts:
            return self.attempts == 0  # else an attempt has begun, and this is its first step
        if place == 0:
            return len(counts) > 2  # itself, and the one by which a process may lag
        return index < self._steps.numbers[0] or (place is not None and counts[place] >= self._widest)


class UnnumberedSteps(StepSeries):
    """Steps whose lines have no step number: they count in file order."""

    _is_numbered = False

    def add(self, record: StepRecord) -> None:
        """Add the next step, whatever its number."""
        if self.attempts == 0:
            self.restart(record.offset)
        self._note(record, self._steps.add(record._replace(number=len(self._steps.numbers))), None)

    @property
    def without_loss(self) -> tuple[int | None, ...]:
        """One ``None`` for each step that should have a loss and has none."""
        return (None,) * len(super().without_loss)


def rank_label(rank: int | None) -> str | None:
    """A rank as messages name it."""
    return None if rank is None else f"rank {rank}"


# -- Steps that a loss scaler skipped, from its own lines, for every format of step lines --
# * DeepSpeed: ``[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768``
#   (``runtime/fp16/loss_scaler.py``, ``runtime/zero/stage3.py``), without ZeRO ``fp16 dynamic loss scale overflow!
#   Skipping step.`` or ``Overflow detected. Skipping step.`` (``runtime/fp16/fused_optimizer.py``); and the count of
#   the run in ``[Rank 0] step=10, skipped=7, lr=[…]`` (``runtime/engine.py``, ``_report_progress``)
# * apex: ``Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0``

# They precede the line of the step. If the format has one figure for the run, its lines with a gradient that is not
# finite and a finite loss count as well, each for the number of steps that one such line covers.


SKIP_MARKERS = (b"kipping step", b", skipped=")
_OVERFLOW = re.compile(rb"(?:OVERFLOW|[Oo]verflow)(?:!|\.| detected\.)(?: Rank (\d{1,7}))?.{0,80}[Ss]kipping step")
_COUNT = re.compile(rb"\bstep=(\d{1,12}), skipped=(\d{1,12}),")


def with_skipped(file: Path | LogFile, log: StepLog) -> StepLog:
    """Add the number of skipped steps to the steps of a log.

    Raises:
        OSError: The log cannot be read.
    """
    offsets = array("q", sorted([step.offset for step in log.steps if step.offset is not None]))
    if not offsets:
        return log
    #: By the step's place and by rank: old versions print on every rank.
    lines: dict[int, dict[object, int]] = {}
    counts: dict[int, tuple[int, int]] = {}
    start = offsets[0] if log.attempts > 1 else 0
    for offset, record in matching_records(file, SKIP_MARKERS, start=start, stop=offsets[-1]):
        place = offsets[bisect_left(offsets, offset)]
        overflow = _OVERFLOW.search(record)
        if overflow is not None:
            by_rank = lines.setdefault(place, {})
            rank = overflow[1] or rank_of(record)
            by_rank[rank] = by_rank.get(rank, 0) + 1
        count = _COUNT.search(record)
        if count is not None:
            step, skipped = int(count[1]), int(count[2])
            # If two engines train (actor and critic), each prints its own count: the lower one counts.
            counts[step] = min(counts.get(step, (place, skipped)), (place, skipped), key=lambda pair: pair[1])
    skips = {place: max(by_rank.values()) for place, by_rank in lines.items()}
    for place, skipped in _spread_skips(offsets, counts):
        skips[place] = max(skips.get(place, 0), skipped)
    if log.overflows is not None:
        each = (log.total_steps or log.overflows.of) / log.overflows.of
        skips[offsets[-1]] = max(skips.get(offsets[-1], 0), math.ceil(log.overflows.lines * each))
    if not skips:
        return log

    def step_at(place: int) -> Step:
        step = log.steps[place]
        return replace(step, skipped=max(step.skipped, skips.get(-1 if step.offset is None else step.offset, 0)))

    return replace(log, steps=Steps(step_at, range(len(log.steps))))


def _spread_skips(offsets: Sequence[int], counts: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield places of steps with the skips of each, from running counts that may cover many steps.

    Args:
        offsets: The places of all steps, in order.
        counts: By step number: the place of that step, and the skips of the run so far.
    """
    numbers = sorted(counts)
    gaps = {after - before for before, after in pairwise(numbers)}
    reports = [(-1, 0), *(counts[number] for number in numbers)]
    if numbers and gaps and numbers[0] not in gaps:
        del reports[0]  # a run that resumed from a checkpoint continues the count
    for (behind, before), (place, skipped) in pairwise(reports):
        between = offsets[bisect_right(offsets, behind) : bisect_right(offsets, place)]
        if skipped > before and between:
            each = math.ceil((skipped - before) / len(between))
            yield from ((at, each) for at in between[-math.ceil((skipped - before) / each) :])


# -- The machine's own speed, measured by a recipe: FLOP/s of a matrix product in the same job --


#: The marker of a recipe's line, and an example.
CALIBRATION = b"GSW: CALIBRATION_FLOPS="
CALIBRATION_EXAMPLE = f"{CALIBRATION.decode()}9.5e+10"

_FLOPS = re.compile(rb"\bGSW: CALIBRATION_FLOPS=(%b)(?:\s|$)" % NUMBER)


def calibration_flops(records: Iterable[bytes]) -> float | None:
    """The FLOP/s of one GPU or core in the last of these records; ``None`` if it is no number above 0.

    Args:
        records: The records after the last step of a run: a recipe calibrates after training.
    """
    last = None
    for record in records:
        line = _FLOPS.search(record)
        flops = None if line is None else number(line[1])
        if flops is not None:
            last = flops if 0 < flops < math.inf else None
    return last


# -- Checks of every format's steps, those of plugins included -------------------------------------
#
# A format only parses a line (``LineFormat``); its base class separates attempts and ranks, and handles losses and
# figures that are not finite. A format that makes a whole ``StepLog`` itself is checked here: its result, and the lines
# that it was fed.


#: A figure that is not finite: ``loss nan``, ``took=inf``, ``"loss": NaN``, ``-1.#IND``. Excluded are parts of words
#: and paths, a logger's level ``[INF]``, and Megatron's ``number of nan iterations``.
_NOT_FINITE = re.compile(
    rb"(?<![\w./-])(?!(?<=\[)(?-i:INF)\])[-+]?(?:nan(?! iterations\b)|inf(?:inity)?|%b)(?![\w/-])" % C_RUNTIME,
    re.IGNORECASE,
)
#: Bytes shown before the figure.
_WORDS_BYTES = 40


class GuardedParser(Parser, Protocol):
    """A parser that handles figures, attempts and ranks itself."""

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, with ``count`` steps at most."""


def parser_of(log_format: LogFormat) -> GuardedParser:
    """A new parser of a format, with checks around it unless it guards itself."""
    parser = log_format.reader()
    return cast("GuardedParser", parser) if getattr(parser, "guards_itself", False) else _Guarded(parser)


class _Guarded:
    """A parser that adds :attr:`StepLog.fault`, and figures that are not finite in its log or its records."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._first_not_finite: tuple[int, str] | None = None
        #: Offsets of records with a gradient norm of 0.
        self._zero_norms: set[int] = set()

    def feed(self, offset: int, record: bytes) -> None:
        text = None if self._first_not_finite else not_finite_text(record)
        if text is not None:
            self._first_not_finite = (offset, text)
        if has_zero_norm(record):
            self._zero_norms.add(offset)
        self._parser.feed(offset, record)

    def log(self) -> StepLog:
        log = self._parser.log()
        fault = _fault(log)
        if log.not_finite is None and self._first_not_finite is not None:
            offset, text = self._first_not_finite
            index = next((step.index for step in log.steps if step.offset == offset), None)
            log = replace(log, not_finite=(index, text))
        elif log.not_finite is None:
            log = replace(log, not_finite=_not_finite(log.steps))
        if self._zero_norms and log.losses is not None and len(log.losses) == len(log.steps):
            pairs = zip(log.steps, log.losses, strict=True)
            losses = [loss if step.offset in self._zero_norms else math.nan for step, loss in pairs]
            log = replace(log, zero_norm_losses=losses)
        return log if fault is None else replace(log, fault=fault)

    def tail(self, count: int) -> Tail:
        log = self.log()
        return Tail(log.attempts, len(log.steps), tuple(log.steps[-count:]), log.not_finite)


def not_finite_text(line: bytes) -> str | None:
    """The first figure of a line that is not finite, with the text before it, safe to display."""
    match = _NOT_FINITE.search(line)
    return None if match is None else safe_text(line[max(0, match.start() - _WORDS_BYTES) : match.end()])


def _not_finite(steps: Sequence[Step]) -> tuple[int | None, str] | None:
    for step in steps:
        value = next((v for v in (step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu) if v is not None), 0.0)
        if not 0 <= value < math.inf:
            return step.index, f"step time {value}"
    return None


def _fault(log: StepLog) -> str | None:
    """A fault that no log can have: steps with no time or two, or with numbers that do not increase."""
    for step in log.steps:
        rates = [step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu]
        if len(rates) - rates.count(None) != 1:
            return f"step {step.index} has {len(rates) - rates.count(None)} times or rates, wanted one"
    for one, other in pairwise(log.steps):
        if (one.index is None) != (other.index is None):
            return "some steps have a number and others have none"
        if one.index is not None and other.index is not None and other.index <= one.index:
            return f"step {other.index} follows step {one.index}: several attempts or ranks are taken for one"
    return None
