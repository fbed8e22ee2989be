"""Progress of a log that still grows: each look reads what was appended since the last one, and nothing twice.

A format parses all records of a log at once, so the records of the last attempt's steps are kept, and
parsed again when some were added. Not all of them each time, which would take ever longer: mostly
those of the last three steps and the new ones. All are parsed when a restart or a loss that is not
finite shows, and as soon as the parts have cost as much as all would. So a look costs little however
long a job runs, and what it finds is soon what :func:`~pytest_gsw.logs.reader.read_log` finds.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from pytest_gsw.errors import LogError
from pytest_gsw.logs.guards import parsed
from pytest_gsw.logs.identity import RECIPE_MARKER, recipe_identity
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.scan import BLOCK_BYTES, LONGEST_LINE_BYTES, Scanner, alternatives, is_wanted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_gsw.logs.model import Dialect, LogFormat

__all__ = ["Follower", "Progress"]

#: How much one look reads at most.
READ_BYTES = 8 << 20
#: How much memory the kept records of one log take at most after a look; the older half of more is dropped.
KEPT_BYTES = 4 << 20
#: What Python takes for a record besides its text: a tuple, two objects' heads and a place in a list.
_RECORD_BYTES = 136
#: Steps by which progress is judged.
_RECENT = 10
#: Of these, the steps that are parsed again together with new records.
_AGAIN = 3
#: The end of a log without a line feed is taken as it goes where it is longer than a line that srun labels.
_OPEN_BYTES = 4096
#: How many of the last bytes must still be there for a log to be the one that was read before.
_MARK_BYTES = 64

Record = tuple[int, bytes]


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

    @property
    def last_seconds(self) -> float | None:
        """The newest step's seconds, ``None`` where there is no step or the log has rates."""
        return None if self.last is None else self.last.seconds

    @property
    def median_seconds(self) -> float | None:
        """The median of the last steps, seconds, ``None`` where there is no step or the log has rates."""
        return None if self.median is None else self.median.seconds


class Follower:
    """Follows one log.

    Args:
        path: The log; it need not exist yet.
        log_format: The format of the framework that writes it.
        read_bytes: How much one look reads at most.
        kept_bytes: How much memory the kept records take at most, for each way the format has of writing steps
            until one is found. Four megabytes hold some 12,000 lines. Of an attempt with more, the older half is
            dropped: the steps are still counted, but one that is told again much later may count twice.
    """

    def __init__(
        self, path: Path, log_format: LogFormat, *, read_bytes: int = READ_BYTES, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self.path = path
        self._format = log_format
        self._read_bytes = read_bytes
        self._kept_bytes = kept_bytes
        self._identity: tuple[int, int] | None = None
        self._known = _Known()
        self._start_over()

    def _start_over(self) -> None:
        #: How far the log was read, bytes.
        self._position = 0
        self._mark = b""
        #: Attempts of the runs before the last one.
        self._attempts_before = 0
        self._lines = _Lines(self._format)
        self._dialects = self._new(self._format.dialects)

    def _new(self, dialects: Iterable[Dialect]) -> list[_Records]:
        return [_Records(self._format, dialect, self._kept_bytes) for dialect in dialects]

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
                raise _unreadable(self.path, error.strerror or str(error)) from error
            read = left = 0
        before, known = self._known, self._parse()
        self._known = known
        last = known.recent[-1] if known.recent else None
        changed = known.sign != before.sign
        return Progress(known.steps, last, _median(known.recent), known.not_finite, changed, read, left)

    def _read(self) -> tuple[int, int]:
        """Take what was appended; how much was read, and how much is left."""
        status = os.stat(self.path)  # noqa: PTH116 - one call that a test can count on every Python
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(self.path, "it is no regular file")
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
        whole, glanced = self._lines.take(data)
        taken = 0
        for count, (_, record) in enumerate(whole, start=1):
            if RECIPE_MARKER in record and recipe_identity(record) is not None:
                for dialect in self._dialects:
                    dialect.take(whole[taken:count], ())
                taken = count
                self._end_run()
        for dialect in self._dialects:
            dialect.take(whole[taken:], glanced)

    def _end_run(self) -> None:
        """Leave the steps so far to the run before, if there are any: a run says who it is before its first step."""
        attempts = self._parse().attempts - self._attempts_before
        if attempts:
            self._attempts_before += attempts
            self._dialects = self._new(dialect.words for dialect in self._dialects)

    def _parse(self) -> _Known:
        """What the first dialect that has steps says, as when a whole log is read."""
        known = _Known()
        for number, dialect in enumerate(self._dialects):
            known = dialect.parse()
            if known.attempts:
                # A dialect that has steps will always have; those after it no longer count.
                del self._dialects[number + 1 :]
                break
        return replace(known, attempts=self._attempts_before + known.attempts)


def _unreadable(path: Path, why: str) -> LogError:
    return LogError(
        f"the log cannot be read: {path.name}: {why}",
        evidence=(("log", str(path)),),
        advice="check the permissions and the file system",
    )


class _Lines:
    """The records of a file that comes in pieces of any size, cut anywhere."""

    def __init__(self, log_format: LogFormat) -> None:
        markers = tuple(marker for dialect in log_format.dialects for marker in dialect)
        self._scanner = Scanner((RECIPE_MARKER, *markers), wraps=log_format.wraps)
        self._offset = 0  # of the first byte held
        self._held = bytearray()
        self._skipping = False

    def take(self, data: bytes) -> tuple[list[Record], list[Record]]:
        """The records of the lines that are whole now, and those of the last line, of which more may come."""
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
        whole = list(self._scanner.records(block, end_of_lines, self._offset)) if end_of_lines else []
        self._drop(end_of_lines)
        if len(block) > LONGEST_LINE_BYTES:
            self._skipping = True
            self._drop(len(block))
        # A bar ends each of its repaints with a carriage return, and its line perhaps never.
        end_of_bars = block.rfind(b"\r") + 1
        return whole, self._scanner.glance(block, end_of_bars, self._offset) if end_of_bars else []

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self._offset += count


@dataclass(frozen=True)
class _Known:
    """What records say of the last attempt."""

    attempts: int = 0
    steps: int = 0
    #: The last steps, in order.
    recent: tuple[Step, ...] = ()
    not_finite: tuple[int | None, str] | None = None

    @property
    def sign(self) -> tuple[object, ...]:
        """What differs when the job has come further; a step may be told again and its median move."""
        return self.attempts, self.steps, self.recent[-1].index if self.recent else None, self.not_finite


class _Records:
    """The kept records of one dialect, and what they say."""

    def __init__(self, log_format: LogFormat, dialect: Dialect, kept_bytes: int) -> None:
        self._format = log_format
        self.words = dialect
        self._wanted = alternatives(dialect)
        self._kept_bytes = kept_bytes
        self._kept: list[Record] = []
        #: How many of them, at the end, are of a line of which more may come.
        self._glanced = 0
        #: What the kept records take, bytes.
        self._size = 0
        #: What dropped records said: attempts, and of the attempt that goes on its steps and what was not finite.
        self._dropped = _Known()
        #: The attempts in the records that were left when some were dropped; when there are more, one has begun since.
        self._cut_attempts = 0

        #: What the first ``_parsed`` records say.
        self._exact = _Known()
        self._parsed = 0
        #: The records that are parsed again with new ones, by where they begin, and what they say alone.
        self._again = 0
        self._again_log = StepLog(log_format.name, steps=(), attempts=0)
        #: The numbers of the last steps when all were parsed, and of those since.
        self._numbers: set[int | None] = set()
        #: What all records say, as far as it was worth finding out, and how many they were.
        self._known = _Known()
        self._seen = 0
        #: How many records were parsed again since all were; below 0, what a false alarm cost.
        self._spent = 0

    def take(self, whole: Iterable[Record], glanced: Iterable[Record]) -> None:
        """Add records of whole lines, then those of the last line, which stand until the next call."""
        before = self._kept[len(self._kept) - self._glanced :]
        if before:
            del self._kept[-len(before) :]
        settled = len(self._kept)
        whole, glanced = self._mine(whole), self._mine(glanced)
        self._kept += whole
        self._kept += glanced
        self._glanced = len(glanced)
        self._size += sum(len(record) + _RECORD_BYTES for _, record in whole)
        if before and self._kept[settled : settled + len(before)] != before:
            # A line that srun broke goes on elsewhere: what was seen of it says nothing.
            self._parsed = self._seen = -1

    def _mine(self, records: Iterable[Record]) -> list[Record]:
        return [record for record in records if is_wanted(record[1], self._wanted)]

    def parse(self) -> _Known:
        """What the records say by now."""
        count = len(self._kept)
        if count == self._parsed:
            return self._known
        self._spent += count - self._again
        if self._parsed < 0 or self._spent >= count:
            self._parse_all()
            self._spent = 0
        elif count != self._seen and not self._parse_new():
            attempts, not_finite = self._known.attempts, self._known.not_finite
            self._parse_all()
            alarm = (self._known.attempts, self._known.not_finite) != (attempts, not_finite)
            self._spent = 0 if alarm else -count
        while self._size > self._kept_bytes:
            self._drop_half()
        self._seen = len(self._kept)  # some may have been dropped
        return self._known

    def _log(self, begin: int) -> StepLog:
        return parsed(self._format, iter(self._kept[begin:]))

    def _parse_all(self) -> None:
        """Parse all kept records, and find out which of the last ones to parse again with the next."""
        log = self._log(0)
        if log.attempts > max(1, self._cut_attempts):
            log = self._without_earlier_attempts(log)
        self._known = self._exact = self._with_dropped(log)
        self._parsed = len(self._kept)
        self._again, self._again_log = 0, log
        # Some last steps' records must say of these what all records say. In few cases they do not, such
        # as where only lines at the start tell how many ranks print.
        for steps in (_AGAIN, _RECENT):
            begin = max(0, len(self._kept) - steps)
            if log.steps:
                begin = self._begin_of(log.steps[-min(steps, len(log.steps))].offset)
            part = self._log(begin) if begin else log
            if _agree(part.steps, log.steps):
                self._again, self._again_log = begin, part
                break
        self._numbers = {step.index for step in (*self._again_log.steps, *self._exact.recent)}

    def _without_earlier_attempts(self, log: StepLog) -> StepLog:
        """Drop the records before the last attempt, where the others then say the same."""
        # Steps without numbers may be told apart by what was printed long before them.
        if log.steps and log.steps[0].index is not None:
            begin = self._begin_of(log.steps[0].offset)
            rest = self._log(begin)
            if begin and (rest.steps, rest.not_finite) == (log.steps, log.not_finite):
                self._dropped = _Known(self._dropped.attempts + log.attempts - self._cut_attempts)
                self._cut_attempts = rest.attempts
                self._drop(begin)
                return rest
        return log

    def _begin_of(self, offset: int | None) -> int:
        """The first record at or after an offset, 0 where that is not known."""
        if offset is None:
            return 0
        begin = len(self._kept)
        while begin and self._kept[begin - 1][0] >= offset:
            begin -= 1
        return begin

    def _parse_new(self) -> bool:
        """Parse the new records with some before them; false where all must be."""
        before, log = self._again_log, self._log(self._again)
        restarted = log.attempts > before.attempts
        diverged = log.not_finite != before.not_finite and self._exact.not_finite is None
        if diverged or (restarted and self._spent >= 0):
            return False
        exact, known = self._exact, self._known
        if log.steps and log.steps[-1].index is not None:
            numbers = {step.index for step in log.steps}
            count = known.steps + len(numbers - self._numbers)
            self._numbers |= numbers
            recent = (*(step for step in known.recent if step.index not in numbers), *log.steps)
        else:
            count = exact.steps + max(0, len(log.steps) - len(before.steps))
            recent = (*exact.recent[: max(0, len(exact.recent) - len(before.steps))], *log.steps)
        self._known = _Known(exact.attempts, count, recent[-_RECENT:], exact.not_finite)
        return True

    def _with_dropped(self, log: StepLog) -> _Known:
        """What the kept records say, and those that were dropped."""
        dropped = self._dropped
        attempts = dropped.attempts + log.attempts - self._cut_attempts
        recent = log.steps[-_RECENT:]
        if log.attempts != self._cut_attempts:  # a restart since: what came before it does not count
            return _Known(attempts, len(log.steps), recent, log.not_finite)
        return _Known(attempts, dropped.steps + len(log.steps), recent, dropped.not_finite or log.not_finite)

    def _drop_half(self) -> None:
        """Drop the older half of the records; what they say is kept."""
        if self._parsed != len(self._kept):
            self._parse_all()
        known = self._known
        half = self._kept[len(self._kept) // 2][0]
        # A step's own records stay together.
        offsets = [step.offset for step in self._log(0).steps if step.offset is not None and step.offset >= half]
        self._drop(self._begin_of(min(offsets, default=half)) or 1)
        log = self._log(0)
        self._cut_attempts = log.attempts
        steps = max(0, known.steps - len(log.steps))
        self._dropped = _Known(known.attempts, steps, (), known.not_finite)
        self._parse_all()

    def _drop(self, count: int) -> None:
        """Drop the first records."""
        del self._kept[:count]
        self._glanced = min(self._glanced, len(self._kept))
        self._size = sum(len(record) + _RECORD_BYTES for _, record in self._kept[: len(self._kept) - self._glanced])


def _agree(some: tuple[Step, ...], steps: tuple[Step, ...]) -> bool:
    """Whether steps that were read from the last records alone tell the last of all steps."""
    if not some or not steps:
        return some == steps
    if some[-1].index is None:
        return some == steps[-len(some) :]
    # Of a step of many ranks, the last records may lack some.
    return some[-1].index == steps[-1].index and {step.index for step in some} <= {step.index for step in steps}


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
