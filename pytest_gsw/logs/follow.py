"""Progress of a log that still grows: each look reads what was appended since the last one, and nothing twice.

What is appended is cut into records and fed to the parsers that read a whole log, so that what a look finds is what
:func:`~pytest_gsw.logs.reader.read_log` would find by then.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.model import LogFormat, Step, Tail
from pytest_gsw.logs.reader import Runs
from pytest_gsw.logs.scan import BLOCK_BYTES, LONGEST_LINE_BYTES, Record, Scanner, is_labelled, unreadable

__all__ = ["Follower", "Progress"]

#: How much one look reads at most.
READ_BYTES = 8 << 20
#: Steps by which progress is judged.
_RECENT = 10
#: The end of a log without a line feed is taken as it goes where it is longer than a line that srun labels.
_OPEN_BYTES = 4096
#: How many of the last bytes must still be there for a log to be the one that was read before.
_MARK_BYTES = 64


@dataclass(frozen=True)
class Progress:
    """How far the last attempt in a log has come."""

    #: How many different steps, or logged windows of steps, it has done.
    steps: int = 0
    #: The newest of them, with its time or rate in the unit of the log.
    last: Step | None = None
    #: The median of the last steps, ten at most, in the same unit.
    median: Step | None = None
    #: Step number and text of the first loss, gradient norm or step time that is not finite.
    not_finite: tuple[int | None, str] | None = None
    #: Whether this look found a step, a restart or a loss that the look before had not.
    changed: bool = False
    #: What this look read, bytes.
    bytes_read: int = 0
    #: What it left for the next one because it was too much at once, bytes.
    bytes_left: int = 0

    @property
    def last_index(self) -> int | None:
        """The newest step's number, ``None`` where there is no step or the format numbers none."""
        return None if self.last is None else self.last.index


class Follower:
    """Follows one log.

    Args:
        path: The log; it need not exist yet.
        log_format: The format of the framework that writes it.
        read_bytes: How much one look reads at most.
    """

    def __init__(self, path: Path, log_format: LogFormat, *, read_bytes: int = READ_BYTES) -> None:
        self.path = path
        self._format = log_format
        self._read_bytes = read_bytes
        self._identity: tuple[int, int] | None = None
        self._known = Tail()
        self._start_over()

    def _start_over(self) -> None:
        #: How far the log was read, bytes.
        self._position = 0
        self._mark = b""
        self._lines = _Lines(self._format)
        #: One for each way the format has of writing steps, until one of them has some.
        self._dialects = [Runs(self._format, dialect) for dialect in self._format.dialects]
        #: Records that may yet turn out otherwise.
        self._glanced: list[Record] = []
        #: Whether something was read since the last look.
        self._is_news = True

    def advance(self) -> Progress:
        """Read what was appended, and tell how far the job has come.

        Where nothing was appended, this costs one ``stat``. A log that is truncated or replaced is read from its
        start. One that is not there (yet, or for a moment, as on shared file systems) brings nothing new.

        Raises:
            LogError: The log is there and cannot be read, or is no regular file.
        """
        try:
            read, left = self._read()
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}:
                raise unreadable(self.path, error) from error
            read = left = 0
        before, known = self._known, self._tail()
        self._known = known
        last = known.recent[-1] if known.recent else None
        changed = _sign(known) != _sign(before)
        return Progress(known.steps, last, _median(known.recent), known.not_finite, changed, read, left)

    def _read(self) -> tuple[int, int]:
        """Take what was appended; how much was read, and how much is left."""
        status = os.stat(self.path)  # noqa: PTH116 - one call that a test can count on every Python
        if not stat.S_ISREG(status.st_mode):
            raise unreadable(self.path, "it is no regular file")
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._position:
            self._identity = identity
            self._start_over()
        if status.st_size == self._position:
            return 0, 0
        # Opened without waiting: by now it may be something else, such as a pipe.
        with io.FileIO(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)) as file:
            now = os.fstat(file.fileno())
            if (now.st_dev, now.st_ino) != identity or not stat.S_ISREG(now.st_mode):
                return 0, 0  # replaced just now: the next look sees it
            if self._position:
                # A requeued job truncates its log, and may have written more by now than there was before.
                file.seek(self._position - len(self._mark))
                if file.read(len(self._mark)) != self._mark:
                    self._start_over()
            file.seek(self._position)
            begin = self._position
            stop = min(now.st_size, begin + self._read_bytes)
            while self._position < stop and (data := file.read(min(BLOCK_BYTES, stop - self._position))):
                self._take(data)
        return self._position - begin, max(0, now.st_size - self._position)

    def _take(self, data: bytes) -> None:
        self._mark = (self._mark + data[-_MARK_BYTES:])[-_MARK_BYTES:]
        self._position += len(data)
        self._is_news = True
        final, self._glanced = self._lines.take(data)
        for offset, record in final:
            for runs in self._dialects:
                runs.feed(offset, record)

    def _tail(self) -> Tail:
        """What the first dialect that has steps says, as when a whole log is read."""
        if not self._is_news:
            return self._known
        self._is_news = False
        tail = Tail()
        for number, runs in enumerate(self._dialects):
            tail = self._glimpsed(runs).tail(_RECENT)
            if tail.attempts:
                if not self._glanced:
                    # A dialect that has steps will always have; those after it no longer count.
                    del self._dialects[number + 1 :]
                break
        return tail

    def _glimpsed(self, runs: Runs) -> Runs:
        """What a dialect would have read if the last line were as it is by now."""
        if not self._glanced:
            return runs
        fork = runs.fork()
        for offset, record in self._glanced:
            fork.feed(offset, record)
        return fork


class _Lines:
    """The records of a file that comes in pieces of any size, cut anywhere."""

    def __init__(self, log_format: LogFormat) -> None:
        markers = tuple(marker for dialect in log_format.dialects for marker in dialect)
        self._scanner = Scanner((RECIPE_MARKER, *markers), wraps=log_format.wraps)
        self._wraps = log_format.wraps
        self._offset = 0  # of the first byte held
        self._held = bytearray()
        self._skipping = False
        #: How many records of the line that is held were handed out.
        self._told = 0

    def take(self, data: bytes) -> tuple[list[Record], list[Record]]:
        """The records that are whole now, and those that stand until the next call.

        A bar ends each of its repaints with a carriage return, and its line perhaps never. But a line that srun labels
        may be broken, and go on behind those of other ranks.
        """
        block = self._held
        block += data
        if self._skipping:
            # The rest of a line that is too long to hold a step.
            end = re.search(rb"[\r\n]", block)
            self._skipping = end is None
            self._drop(len(block) if end is None else end.end())
        end_of_lines = block.rfind(b"\n") + 1
        if len(block) - end_of_lines > _OPEN_BYTES:
            end_of_lines = max(end_of_lines, block.rfind(b"\r", end_of_lines) + 1)
        whole = self._fresh(self._scanner.records(block, end_of_lines, self._offset)) if end_of_lines else []
        self._drop(end_of_lines)
        if len(block) > LONGEST_LINE_BYTES:
            self._skipping = True
            self._drop(len(block))
        end_of_bars = block.rfind(b"\r") + 1
        glanced = self._scanner.glance(block, end_of_bars, self._offset) if end_of_bars else []
        if self._wraps and is_labelled(block):
            return whole, glanced
        whole += self._fresh(glanced)
        self._told = len(glanced)
        return whole, []

    def _fresh(self, records: list[Record]) -> list[Record]:
        """Those of the records, from the held line's first on, that were not handed out."""
        told, self._told = self._told, 0
        return records[told:]

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self._offset += count


def _sign(tail: Tail) -> tuple[object, ...]:
    """What differs when the job has come further; a step may be told again and its median move."""
    return tail.attempts, tail.steps, tail.recent[-1].index if tail.recent else None, tail.not_finite


def _median(steps: tuple[Step, ...]) -> Step | None:
    """The middle of the steps' times or rates, as a step without a number."""
    if not steps:
        return None
    return Step(
        None,
        seconds=_middle(step.seconds for step in steps),
        samples_per_s=_middle(step.samples_per_s for step in steps),
        tokens_per_s_per_gpu=_middle(step.tokens_per_s_per_gpu for step in steps),
    )


def _middle(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None
