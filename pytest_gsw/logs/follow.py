"""Progress of a growing log: each look reads the data appended since the last one, once.

Appended data is cut into records and fed to the parsers of whole logs. A look therefore finds the same as
:func:`~pytest_gsw.logs.reader.read_log` at that time.
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

#: Upper limit on bytes read by one look.
READ_BYTES = 8 << 20
#: Number of last steps by which progress is judged.
_RECENT = 10
#: Unfinished last lines longer than this, and so than a line that srun labels, are read as they grow.
_OPEN_BYTES = 4096
#: Number of last bytes that identify a log as the one that was read before.
_MARK_BYTES = 64


@dataclass(frozen=True)
class Progress:
    """Progress of the last attempt in a log."""

    #: Number of different steps, or logged windows of steps, so far.
    steps: int = 0
    #: The newest of them, with its time or rate in the unit of the log.
    last: Step | None = None
    #: The median of the last steps, ten at most, in the same unit.
    median: Step | None = None
    #: Step number and text of the first loss, gradient norm or step time that is not finite.
    not_finite: tuple[int | None, str] | None = None
    #: True if this look found a step, a restart or a loss that the look before did not.
    changed: bool = False
    #: Bytes read by this look.
    bytes_read: int = 0
    #: Bytes left for the next look, because they were too many at once.
    bytes_left: int = 0

    @property
    def last_index(self) -> int | None:
        """The newest step's number; ``None`` if there is no step or the format numbers none."""
        return None if self.last is None else self.last.index


class Follower:
    """Follows one log.

    Args:
        path: The log; it need not exist yet.
        log_format: The format of the framework that writes it.
        read_bytes: Upper limit on bytes read by one look.
    """

    def __init__(self, path: Path, log_format: LogFormat, *, read_bytes: int = READ_BYTES) -> None:
        self.path = path
        self._format = log_format
        self._read_bytes = read_bytes
        self._identity: tuple[int, int] | None = None
        self._known = Tail()
        self._start_over()

    def _start_over(self) -> None:
        #: Bytes of the log that were read so far.
        self._position = 0
        self._mark = b""
        self._lines = _Lines(self._format)
        #: One for each way in which the format writes steps, until one of them has some.
        self._dialects = [Runs(self._format, dialect) for dialect in self._format.dialects]
        #: Records that may still change.
        self._provisional: list[Record] = []
        #: True if data was read since the last look.
        self._has_news = True

    def advance(self) -> Progress:
        """Read the appended data, and return the job's progress.

        Without new data, this costs one ``stat``. A log that is truncated or replaced is read from its start. A log
        that is missing (yet, or for a moment, as on shared file systems) yields no change.

        Raises:
            LogError: The log is there and cannot be read, or is no regular file.
        """
        try:
            read, left = self._read()
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}:
                raise unreadable(self.path, error) from error
            read = left = 0
        before, tail = self._known, self._tail()
        self._known = tail
        last = tail.recent[-1] if tail.recent else None
        changed = _progress_key(tail) != _progress_key(before)
        return Progress(tail.steps, last, _median_step(tail.recent), tail.not_finite, changed, read, left)

    def _read(self) -> tuple[int, int]:
        """Read the appended data; the number of bytes read, and of bytes left."""
        status = os.stat(self.path)  # noqa: PTH116 - one call that a test can count on every Python
        if not stat.S_ISREG(status.st_mode):
            raise unreadable(self.path, "it is no regular file")
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._position:
            self._identity = identity
            self._start_over()
        if status.st_size == self._position:
            return 0, 0
        # Opened without blocking: it may have become something else, such as a pipe.
        with io.FileIO(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)) as file:
            now = os.fstat(file.fileno())
            if (now.st_dev, now.st_ino) != identity or not stat.S_ISREG(now.st_mode):
                return 0, 0  # replaced just now: the next look sees it
            if self._position:
                # A requeued job truncates its log, and may have written more than there was before.
                file.seek(self._position - len(self._mark))
                if file.read(len(self._mark)) != self._mark:
                    self._start_over()
            file.seek(self._position)
            begin = self._position
            stop = min(now.st_size, begin + self._read_bytes)
            while self._position < stop and (data := file.read(min(BLOCK_BYTES, stop - self._position))):
                self._feed(data)
        return self._position - begin, max(0, now.st_size - self._position)

    def _feed(self, data: bytes) -> None:
        self._mark = (self._mark + data[-_MARK_BYTES:])[-_MARK_BYTES:]
        self._position += len(data)
        self._has_news = True
        final, self._provisional = self._lines.take(data)
        for offset, record in final:
            for runs in self._dialects:
                runs.feed(offset, record)

    def _tail(self) -> Tail:
        """The tail of the first dialect that has steps, as for a whole log."""
        if not self._has_news:
            return self._known
        self._has_news = False
        tail = Tail()
        for number, runs in enumerate(self._dialects):
            tail = self._with_provisional(runs).tail(_RECENT)
            if tail.attempts:
                if not self._provisional:
                    # A dialect that has steps will always have them; the later ones are not needed any more.
                    del self._dialects[number + 1 :]
                break
        return tail

    def _with_provisional(self, runs: Runs) -> Runs:
        """A dialect's runs as if the last line were complete."""
        if not self._provisional:
            return runs
        fork = runs.fork()
        for offset, record in self._provisional:
            fork.feed(offset, record)
        return fork


class _Lines:
    """Records of a file that arrives in pieces of any size, cut anywhere."""

    def __init__(self, log_format: LogFormat) -> None:
        markers = tuple(marker for dialect in log_format.dialects for marker in dialect)
        self._scanner = Scanner((RECIPE_MARKER, *markers), wraps=log_format.wraps)
        self._wraps = log_format.wraps
        self._offset = 0  # of the first pending byte
        self._pending = bytearray()
        self._skipping = False
        #: Number of records of the pending line that were returned already.
        self._returned = 0

    def take(self, data: bytes) -> tuple[list[Record], list[Record]]:
        """Return the records that are complete now, and those that are valid until the next call.

        A bar ends each of its repaints with a carriage return, and its line perhaps never. But a line that srun labels
        may be broken, and continue after those of other ranks.
        """
        block = self._pending
        block += data
        if self._skipping:
            # The rest of a line that is too long to hold a step.
            end = re.search(rb"[\r\n]", block)
            self._skipping = end is None
            self._drop(len(block) if end is None else end.end())
        end_of_lines = block.rfind(b"\n") + 1
        if len(block) - end_of_lines > _OPEN_BYTES:
            end_of_lines = max(end_of_lines, block.rfind(b"\r", end_of_lines) + 1)
        whole = self._not_returned(self._scanner.records(block, end_of_lines, self._offset)) if end_of_lines else []
        self._drop(end_of_lines)
        if len(block) > LONGEST_LINE_BYTES:
            self._skipping = True
            self._drop(len(block))
        end_of_bars = block.rfind(b"\r") + 1
        provisional = self._scanner.glance(block, end_of_bars, self._offset) if end_of_bars else []
        if self._wraps and is_labelled(block):
            return whole, provisional
        whole += self._not_returned(provisional)
        self._returned = len(provisional)
        return whole, []

    def _not_returned(self, records: list[Record]) -> list[Record]:
        """The records of the pending line, without those that were returned already."""
        returned, self._returned = self._returned, 0
        return records[returned:]

    def _drop(self, count: int) -> None:
        del self._pending[:count]
        self._offset += count


def _progress_key(tail: Tail) -> tuple[object, ...]:
    """The parts that change with progress; a step may be printed again and its median move."""
    return tail.attempts, tail.steps, tail.recent[-1].index if tail.recent else None, tail.not_finite


def _median_step(steps: tuple[Step, ...]) -> Step | None:
    """The median of the steps' times or rates, as a step without a number."""
    if not steps:
        return None
    return Step(
        None,
        seconds=_median_value(step.seconds for step in steps),
        samples_per_s=_median_value(step.samples_per_s for step in steps),
        tokens_per_s_per_gpu=_median_value(step.tokens_per_s_per_gpu for step in steps),
    )


def _median_value(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
