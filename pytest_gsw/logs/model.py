"""What a training log says: its steps, who wrote it, and the contract of a log format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True)
class Identity:
    """What a log says about the run that wrote it; ``None`` where it does not say."""

    framework: str | None = None
    model: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpus: int | None = None
    job_id: str | None = None
    global_batch_size: int | None = None


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class StepLog:
    """The step times of the last attempt in one log, one entry a step, in order."""

    format: str
    steps: tuple[Step, ...]
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


#: Byte strings of which a wanted line holds at least one. A tuple among them stands for strings that
#: a line holds all; the reader searches for the one that is found fastest.
Dialect: TypeAlias = tuple[bytes | tuple[bytes, ...], ...]


class LogFormat(Protocol):
    """How one framework writes its step times.

    A format sees bytes, never text: logs hold invalid UTF-8, and decoding gigabytes to find
    fifty lines is what makes parsers slow.
    """

    @property
    def name(self) -> str:
        """The framework's name as baselines have it: ``maxtext``."""
        ...

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Sets of byte strings, one set for each way the framework has of writing step lines.

        Every line that :meth:`parse` wants holds at least one string of the set. The sets
        are tried in order, and the first under which the file holds steps is taken: what
        two engines print of one step is so counted once, and the usual dialect costs one
        search of the file.
        """
        ...

    @property
    def first_index(self) -> int | None:
        """The number of a run's first step, ``None`` where steps bear none that counts from a fixed start."""
        ...

    @property
    def wraps(self) -> bool:
        """Whether a record may be longer than the 1024 bytes after which ``srun --label`` breaks lines."""
        ...

    @property
    def shows_progress(self) -> bool:
        """Whether steps show while the run goes on; where they do not, silence is no stall."""
        ...

    def parse(self, lines: Iterator[tuple[int, bytes]]) -> StepLog:
        """Read the records that hold a string of the dialect, each with its byte offset in the file.

        A record is a line, or one repaint of a progress bar; it bears no line end, no NUL
        and no escape sequence, and it is whole: a last one without a line end never comes.
        """
        ...
