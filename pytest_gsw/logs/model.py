"""What a training log says: its steps, who wrote it, and the contract of a log format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True)
class Identity:
    """What a log says about the run that wrote it; ``None`` where it does not say, or not without a doubt."""

    framework: str | None = None
    model: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpus: int | None = None
    job_id: str | None = None
    global_batch_size: int | None = None
    #: Tokens per sample.
    sequence_length: int | None = None
    #: Samples that one model replica takes at once.
    micro_batch_size: int | None = None
    #: Transformer layers, and the width of what goes through them.
    layers: int | None = None
    hidden_size: int | None = None
    #: What it computes in: ``bf16``, ``fp16`` or ``fp32``, and what is done in fewer bits than that: ``fp8``, or
    #: ``none`` where the log says that nothing is.
    precision: str | None = None
    quantization: str | None = None
    #: Degrees of parallelism, as :class:`~pytest_gsw.tables.model.Parallelism` has them.
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp: int | None = None
    fsdp: int | None = None
    #: Release of the recipe: ``24.11``.
    release: str | None = None
    #: The container image, as the recipe names it.
    image: str | None = None
    #: What the recipe's own line says, by the names above, where the framework prints something else.
    asked: Mapping[str, str | int] = field(default_factory=dict, compare=False)
    #: Byte offset of the line that says so, by the names above, as far as it is known.
    places: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class StepSetup:
    """How a step was set up by its own line, which holds for that step alone; ``None`` where the line does not say."""

    global_batch_size: int | None = None
    #: Tokens per sample.
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One training step, or one window of steps where a framework logs only every Nth.

    Exactly one of the three rates is set, in the unit that the log has.
    """

    #: The step number as the log counts it; ``None`` where the format has none.
    index: int | None
    seconds: float | None = None
    #: Samples per second over the whole job (DeepSpeed, Hugging Face).
    samples_per_s: float | None = None
    #: Tokens per second and device (torchtitan).
    tokens_per_s_per_gpu: float | None = None
    #: Byte offset in the file of the line that says so; the line's number is counted only when it is shown.
    offset: int | None = None
    #: Of the steps that the line stands for, those whose optimizer did nothing: at most so many are skipped.
    skipped: int = 0
    setup: StepSetup = StepSetup()


#: Steps that take no memory worth a word.
_FEW = 100


class Steps(Sequence[Step]):
    """Steps that are made when they are asked for, of what takes a tenth of their memory; few are made once.

    Args:
        make: Makes one of its place.
        places: Where the steps are, in order.
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


#: What :attr:`Step.skipped` has where none of the steps was trained, however many they are.
ALL_SKIPPED = 1 << 60


@dataclass(frozen=True)
class Diverged:
    """An attempt before the last one in which a loss or a step time was not finite."""

    #: Its number in the file, from 1.
    attempt: int
    #: The step's number, where the format has one, and what the line says.
    index: int | None
    text: str
    #: Byte offsets: where the attempt begins, and where the next one does.
    begin: int
    end: int


@dataclass(frozen=True)
class Contradiction:
    """Two lines of the recipe's own that say different things of one run."""

    #: As the lines call it: ``MODEL_SIZE``.
    name: str
    first: str
    second: str
    #: Byte offsets of the two lines.
    first_at: int
    second_at: int


@dataclass(frozen=True)
class Overflows:
    """Gradients that were not finite beside a finite loss: where a loss scaler works, it skipped their steps."""

    #: Lines that tell of one, and all that tell a gradient's norm.
    lines: int
    of: int
    #: What the first of them says.
    text: str


@dataclass(frozen=True)
class StepLog:
    """The step times of the last attempt in one log, one entry a step, in order."""

    format: str
    steps: Sequence[Step]
    #: Runs or attempts found in the file, of which only the last is in :attr:`steps`.
    attempts: int
    identity: Identity = field(default_factory=Identity)
    #: Steps that the run was to do, where the log says so.
    total_steps: int | None = None
    #: Step number (or ordinal) and text of the first loss or gradient norm that is not finite.
    not_finite: tuple[int | None, str] | None = None
    #: Seconds that saving a checkpoint took, each time it was done in the last attempt.
    checkpoint_saves_s: tuple[float, ...] = ()
    #: The step from which the last attempt went on, where its figure counts the steps before it as its own.
    resumed_at: int | None = None
    #: FLOP/s that a matrix product reached on one GPU or core in this job, where its recipe tried.
    calibration_flops: float | None = None
    #: Attempts before the last one that diverged.
    diverged: tuple[Diverged, ...] = ()
    #: Byte offset at which the last run begins, where the steps of another run stand before it in the file.
    begin: int = 0
    #: Two lines before the first step that cannot both be true of the run; the newest two.
    contradiction: Contradiction | None = None
    #: Gradients that a loss scaler may have found to overflow, where steps have no lines of their own.
    overflows: Overflows | None = None
    #: The loss of each step that prints one, in order; ``None`` where the format prints none.
    losses: Sequence[float] | None = None
    #: Steps without a loss, where every step line of the format has one.
    without_loss: tuple[int | None, ...] = ()
    #: What each rank printed of a step, in the unit of the step: its label (``None`` without one) and the number.
    printed: Callable[[Step], Sequence[tuple[str | None, float]]] | None = field(
        default=None, compare=False, repr=False
    )
    #: Whether the run says behind its last step that it has ended; ``None`` where it would not say so.
    says_its_end: bool | None = None
    #: The last line where it has no line end: the log was cut inside it.
    open_line: str | None = None
    #: What a format returned that no log holds; the steps are not to be trusted.
    fault: str | None = None


@dataclass(frozen=True)
class Tail:
    """What is followed of a log that grows: the last attempt's end."""

    attempts: int = 0
    #: How many different steps, or logged windows of steps, the last attempt has.
    steps: int = 0
    #: The last of them, in order.
    recent: tuple[Step, ...] = ()
    #: As in :class:`StepLog`.
    not_finite: tuple[int | None, str] | None = None


@dataclass(frozen=True)
class EndMarkers:
    """By what a log shows that its run has ended and not been cut."""

    #: A run that prints one of these at its beginning …
    first: tuple[bytes, ...]
    #: … prints one of these at its end.
    last: tuple[bytes, ...]


#: Byte strings of which a wanted line holds at least one. A tuple among them stands for strings that
#: a line holds all; the reader searches for the one that is found fastest.
Dialect: TypeAlias = tuple[bytes | tuple[bytes, ...], ...]


class Parser(Protocol):
    """What one log says, record by record.

    A log that grows is fed as it grows, so :meth:`log` may be asked at any time, and what is fed later counts on.
    """

    def feed(self, offset: int, record: bytes) -> None:
        """Take the next record that holds a string of the dialect.

        Args:
            offset: Where in the file it begins, bytes.
            record: A line, or one repaint of a progress bar; it bears no line end, no NUL and no escape sequence, and
                it is whole: a last one without a line end never comes.
        """

    def log(self) -> StepLog:
        """What all records fed by now say."""


class LogFormat(Protocol):
    """How one framework writes its step times.

    A format sees bytes, never text: logs hold invalid UTF-8, and decoding gigabytes to find
    fifty lines is what makes parsers slow.
    """

    @property
    def name(self) -> str:
        """The framework's name as baselines have it: ``maxtext``."""

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Sets of byte strings, one set for each way the framework has of writing step lines.

        Every line that a parser wants holds at least one string of the set. The sets
        are tried in order, and the first under which the file holds steps is taken: what
        two engines print of one step is so counted once, and the usual dialect costs one
        search of the file.
        """

    @property
    def first_index(self) -> int | None:
        """The number of a run's first step, ``None`` where steps bear none that counts from a fixed start."""

    @property
    def wraps(self) -> bool:
        """Whether a record may be longer than the 1024 bytes after which ``srun --label`` breaks lines."""

    @property
    def shows_progress(self) -> bool:
        """Whether steps show while the run goes on; where they do not, silence is no stall."""

    def reader(self) -> Parser:
        """A parser that has been fed nothing yet."""
