"""The contents of a training log (steps and identity), and the contract of a log format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeAlias

#: Degrees of parallelism that logs state, as :class:`~pytest_gsw.tables.model.Parallelism` has them.
DEGREES = ("tp", "pp", "cp", "ep", "dp", "fsdp")


@dataclass(frozen=True)
class Identity:
    """The run that wrote a log, as the log states it; ``None`` for what is missing or ambiguous."""

    framework: str | None = None
    model: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpus: int | None = None
    job_id: str | None = None
    global_batch_size: int | None = None
    #: Tokens per sample.
    sequence_length: int | None = None
    #: Samples in one forward pass of one model replica.
    micro_batch_size: int | None = None
    #: Transformer layers, and the hidden size.
    layers: int | None = None
    hidden_size: int | None = None
    #: Compute precision (``bf16``, ``fp16`` or ``fp32``) and quantization below it: ``fp8``, or ``none`` if the log
    #: states that there is none.
    precision: str | None = None
    quantization: str | None = None
    #: Degrees of parallelism, by the names of :data:`DEGREES`.
    degrees: Mapping[str, int] = field(default_factory=dict)
    #: Release of the recipe: ``24.11``.
    release: str | None = None
    #: The container image, as the recipe names it.
    image: str | None = None
    #: As its driver names it: ``NVIDIA H100 80GB HBM3``; several of one run are separated by commas.
    accelerator: str | None = None
    #: Settings of a benchmark, by the names of :mod:`pytest_gsw.validation.agreement`, and the point if they are of
    #: one, as in :attr:`StepLog.figures`: ``prompts at concurrency 64``.
    settings: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: Unusual settings, and what such a log states as a rule, and this one does not, in a few words each.
    remarks: tuple[str, ...] = field(default=(), compare=False)
    #: Values of the recipe's own line, by the names above, that differ from what the framework prints.
    requested: Mapping[str, str | int] = field(default_factory=dict, compare=False)
    #: Byte offset of the line that states a value, by the names above, if known.
    places: Mapping[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, stated: Mapping[str, Any], **more: Any) -> Identity:
        """The identity with these values, as :attr:`stated` has them, and further fields."""
        degrees = {name: stated[name] for name in DEGREES if name in stated}
        return cls(**{name: value for name, value in stated.items() if name not in degrees}, degrees=degrees, **more)

    @property
    def stated(self) -> dict[str, Any]:
        """The known values by the names above, degrees by theirs."""
        values = {known.name: getattr(self, known.name) for known in fields(self) if known.compare}
        degrees = values.pop("degrees")
        return {name: value for name, value in (values | degrees).items() if value is not None}


@dataclass(frozen=True)
class StepSetup:
    """Settings that a step's own line states, valid for that step alone; ``None`` for what is missing."""

    global_batch_size: int | None = None
    #: Tokens per sample.
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One training step, or one window of steps if a framework logs only every Nth.

    Exactly one of the three rates is set, in the unit of the log.
    """

    #: The step number as the log counts it; ``None`` if the format has none.
    index: int | None
    seconds: float | None = None
    #: Samples per second over the whole job (DeepSpeed, Hugging Face).
    samples_per_s: float | None = None
    #: Tokens per second and device (torchtitan).
    tokens_per_s_per_gpu: float | None = None
    #: Byte offset of the step's line; the line number is counted only when it is displayed.
    offset: int | None = None
    #: Steps of this line that the optimizer skipped: an upper limit.
    skipped: int = 0
    setup: StepSetup = StepSetup()


#: Up to this number, steps are kept in memory.
_FEW = 100


class Steps(Sequence[Step]):
    """Steps that are made on access from a tenth of the memory; a few are made once.

    Args:
        make: Makes the step at a place.
        places: Places of the steps, in order.
    """

    def __init__(self, make: Callable[[int], Step], places: Sequence[int]) -> None:
        if len(places) <= _FEW:
            made = [*map(make, places)]
            make, places = made.__getitem__, range(len(made))
        self._make, self._places = make, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: Any) -> Any:
        return Steps(self._make, self._places[at]) if isinstance(at, slice) else self._make(self._places[at])

    def __iter__(self) -> Iterator[Step]:
        return map(self._make, self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]


#: Value of :attr:`Step.skipped` if none of the line's steps was trained, however many there are.
ALL_SKIPPED = 1 << 60


@dataclass(frozen=True)
class Diverged:
    """An earlier attempt in which a loss or a step time was not finite."""

    #: The attempt's number in the file, from 1.
    attempt: int
    #: The step number, if the format has one, and the text of the line.
    index: int | None
    text: str
    #: Byte offsets at which this attempt and the next one begin.
    begin: int
    end: int


@dataclass(frozen=True)
class Contradiction:
    """Two lines of the recipe that state different values for one run."""

    #: The name in those lines: ``MODEL_SIZE``.
    name: str
    first: str
    second: str
    #: Byte offsets of the two lines.
    first_at: int
    second_at: int


@dataclass(frozen=True)
class Overflows:
    """Gradients that were not finite while the loss was: a loss scaler skips such steps."""

    #: Lines with such a gradient, and all lines with a gradient norm.
    lines: int
    of: int
    #: Text of the first such line.
    text: str


@dataclass(frozen=True)
class StepLog:
    """The step times of the last attempt in one log, one entry a step, in order."""

    format: str
    steps: Sequence[Step]
    #: Runs or attempts in the file; :attr:`steps` has those of the last one.
    attempts: int
    identity: Identity = field(default_factory=Identity)
    #: Planned steps of the run, if the log states them.
    total_steps: int | None = None
    #: Step number (or ordinal) and text of the first loss or gradient norm that is not finite.
    not_finite: tuple[int | None, str] | None = None
    #: Seconds of each checkpoint save in the last attempt.
    checkpoint_saves_s: tuple[float, ...] = ()
    #: The step from which the last attempt resumed, if its figure includes the steps before.
    resumed_at: int | None = None
    #: FLOP/s of a matrix product on one GPU or core in this job, if its recipe measured it.
    calibration_flops: float | None = None
    #: Earlier attempts that diverged.
    diverged: tuple[Diverged, ...] = ()
    #: The steps of the earlier attempts, if they were to be kept.
    earlier: Sequence[Sequence[Step]] = ()
    #: Byte offset at which the last run begins, if the file holds steps of an earlier run.
    begin: int = 0
    #: Two lines before the first step that contradict each other; the newest two.
    contradiction: Contradiction | None = None
    #: Possible overflows of a loss scaler, if steps have no lines of their own.
    overflows: Overflows | None = None
    #: The loss of each step that prints one, in order; ``None`` if the format prints none.
    losses: Sequence[float] | None = None
    #: Steps without a loss, if every step line of the format has one.
    without_loss: tuple[int | None, ...] = ()
    #: The loss of each step whose gradient norm is exactly 0, NaN of others; empty if no norm is. Of each line with a
    #: loss if steps have no lines of their own.
    zero_norm_losses: Sequence[float] = ()
    #: Numbers that the ranks printed for a step, in the step's unit: label (``None`` without one) and number.
    printed: Callable[[Step], Sequence[tuple[str | None, float]]] | None = field(
        default=None, compare=False, repr=False
    )
    #: True if the log has the run's end marker after its last step; ``None`` if such a run prints none.
    has_end_marker: bool | None = None
    #: The last line if it has no line end: the log was cut inside it.
    open_line: str | None = None
    #: Figures of a benchmark, which may have no steps: numbers of the last run by metric, in the log's order.
    #: The key is the metric's, and the point's if the log states one: ``busbw_gbs at 16 GiB``.
    figures: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: Byte offsets at which a benchmark began, which stands for a first step, and at which it reported its own end.
    benchmark_at: tuple[int, int | None] = (0, None)
    #: Why steps and figures are not to be trusted: the run is invalid, or a format returned impossible steps.
    fault: str | None = None
    #: Why the figures decide nothing, although the run has no fault.
    doubt: str | None = None


@dataclass(frozen=True)
class Tail:
    """Progress of a growing log: the end of its last attempt."""

    attempts: int = 0
    #: Number of different steps, or logged windows of steps, in the last attempt.
    steps: int = 0
    #: The last of them, in order.
    recent: tuple[Step, ...] = ()
    #: As in :class:`StepLog`.
    not_finite: tuple[int | None, str] | None = None


@dataclass(frozen=True)
class EndMarkers:
    """Lines that show that a run has ended and that its log was not cut."""

    #: A run that prints one of these at its beginning …
    first: tuple[bytes, ...]
    #: … prints one of these at its end.
    last: tuple[bytes, ...]


#: Byte strings, of which a wanted line holds at least one. A tuple among them is a set of strings that a line must all
#: hold; the reader searches for the first.
Dialect: TypeAlias = tuple[bytes | tuple[bytes, ...], ...]


class Parser(Protocol):
    """Parser of one log, record by record.

    A growing log is fed as it grows: :meth:`log` may be called at any time, and feeding goes on afterwards.
    """

    def feed(self, offset: int, record: bytes) -> None:
        """Read the next record that holds a string of the dialect.

        Args:
            offset: Byte offset of the record in the file.
            record: A complete line, or one repaint of a progress bar, without line end, NUL and escape sequences. A
                last line without a line end is never passed.
        """

    def log(self) -> StepLog:
        """The contents of all records fed so far."""


class LogFormat(Protocol):
    """The way one framework writes its step times.

    A format sees bytes, never text: logs hold invalid UTF-8, and decoding gigabytes to find fifty lines is slow.
    """

    @property
    def name(self) -> str:
        """The framework's name in baselines: ``maxtext``."""

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Sets of byte strings, one for each way in which the framework writes step lines.

        Every line that a parser wants holds at least one string of the set. The sets are tried in order, and the first
        one under which the file holds steps counts: steps that two engines print are counted once, and the usual
        dialect costs one search of the file. ``(b"",)`` is every line.
        """

    @property
    def first_index(self) -> int | None:
        """The number of a run's first step; ``None`` if steps have no number, or none with a fixed start."""

    @property
    def wraps(self) -> bool:
        """True if a record may be longer than the 1024 bytes after which ``srun --label`` breaks lines."""

    @property
    def shows_progress(self) -> bool:
        """True if steps appear during the run; if not, silence is no stall."""

    def reader(self) -> Parser:
        """A new parser."""
