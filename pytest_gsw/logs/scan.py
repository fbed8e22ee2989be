"""The few records of a huge log that matter, found in bounded memory.

Logs of large jobs are mostly noise: 15,000 lines of NCCL for ten steps. So no line is
looked at unless it holds one of the wanted byte strings, and those are searched for in large
blocks, by the C code of ``bytes.find`` and of patterns.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.redact import ESCAPES, UNSAFE, masked_text
from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Dialect

# -- From bytes of a log to numbers, and to text that is safe to show ------------------------------


#: How Microsoft's C runtime writes a figure that is not finite, without its sign: ``1.#INF``, ``1.#IND00``,
#: ``1.#QNAN``, and where it rounds that to one or two decimals, ``1.#J`` and ``1.#R``.
C_RUNTIME = rb"1\.#[A-Z]{1,4}\d{0,25}"
#: How anybody writes one.
NOT_FINITE = rb"(?:[nN][aA][nN]|[iI][nN][fF]|%b)" % C_RUNTIME
#: A number as logs write it: ``4.31``, ``6,785``, ``2e+3``, ``1.249e+03``, or one that is not finite. Every
#: repetition is bounded, so that no line makes a pattern slow.
NUMBER = rb"(?:[-+]?%b|\d[\d,]{0,20}(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)" % NOT_FINITE
#: Moves of the cursor and clearing of lines: progress bars use them the way they use ``\r``.
_MOVES = re.compile(rb"\x1b\[[0-9;]{0,16}[A-HJKST]")
_ESCAPES = re.compile(ESCAPES.encode())
_BLANKS = str.maketrans("\t\r\n", "   ")

_RANK = re.compile(
    rb" {0,8}(?:(\d{1,7}): "  # srun --label
    rb"|\[(?:default|rank)(\d{1,7})\]:"  # torchrun --tee, torch.distributed
    rb"|\[1,(\d{1,7})\]<std(?:out|err)>:)"  # mpirun --tag-output
)


def number(text: bytes) -> float | None:
    """The number that a log writes as ``text``, which may be NaN or infinite; ``None`` where it is none.

    All that Microsoft's C runtime writes for a figure that is not finite is NaN here.
    """
    try:
        return float(text.strip(b" '\"").replace(b",", b""))
    except ValueError:
        return math.nan if b"1.#" in text else None


def number_of(found: re.Match[bytes] | None) -> float | None:
    """The number in a match's first group; ``None`` where there is no match."""
    return None if found is None else number(found[1])


def without_escapes(raw: bytes) -> bytes:
    """A record without colours and NUL bytes; where the cursor was moved, a carriage return is left."""
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", _MOVES.sub(b"\r", raw))
    return raw.replace(b"\0", b"") if b"\0" in raw else raw


def pieces(head: re.Pattern[bytes], line: bytes) -> list[tuple[re.Match[bytes], bytes]]:
    """The records of a line, which another process may have glued together: a head, and what follows it."""
    found = []
    end = len(line)
    for this in reversed([*head.finditer(line)]):
        found.append((this, line[this.end() : end]))
        end = this.start()
    return found[::-1]


def rank_of(line: bytes) -> int | None:
    """The rank that a launcher wrote before the line, ``None`` where it wrote none."""
    label = _RANK.match(line)
    return None if label is None else int(label[label.lastindex or 0])


def safe_text(raw: bytes) -> str:
    """Bytes of a log as one line of text without escape sequences and control characters.

    Bytes that are no UTF-8 become U+FFFD; line ends and tabs become blanks.
    """
    text = _ESCAPES.sub(b"", raw).decode("utf-8", errors="replace")
    return UNSAFE.sub("", text.translate(_BLANKS)).strip()


def quoted_text(raw: bytes) -> str:
    """Like :func:`safe_text`, and without secrets: those of this environment, and what looks like one.

    Secrets are hidden before a line is shortened: half of one would not be known again.
    """
    return masked_text(safe_text(raw), os.environ)


# -- A log that is opened once, and is to all who look at it what it was then ----------------------


#: A log up to this size is read at once, and needs no file any more; most are small.
_AT_ONCE_BYTES = 1 << 20


class LogFile:
    """A log as it was when it was opened: what is appended later is not seen. It is entered before it is read.

    Args:
        path: The log.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entered = 0
        self._file: io.FileIO | io.BytesIO = path.open("rb", buffering=0)
        try:
            #: How much of the file counts, bytes.
            self.size = self._file.seek(0, io.SEEK_END)
            if self.size <= _AT_ONCE_BYTES:
                self._read_at_once()
        except OSError:
            self._file.close()
            raise

    def _read_at_once(self) -> None:
        with self._file as file:
            file.seek(0)
            data = file.read()
        self._file, self.size = io.BytesIO(data), len(data)

    def __enter__(self) -> LogFile:  # noqa: PYI034 - typing.Self is Python 3.11's
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            self._file.close()

    def read(self, start: int, count: int) -> bytes:
        """So many bytes from a place on, fewer where the log ends before."""
        self._file.seek(start)
        return self._file.read(max(0, min(count, self.size - start))) or b""

    def read_into(self, view: memoryview, start: int) -> int:
        """Fill a piece of memory from a place on; how many bytes there were."""
        self._file.seek(start)
        return self._file.readinto(view) or 0


def unreadable(path: Path, why: OSError | str) -> LogError:
    """A log that is there and cannot be read."""
    said = (why.strerror or why) if isinstance(why, OSError) else why
    return LogError(
        f"the log cannot be read: {path.name}: {said}",
        evidence=(("log", str(path)),),
        advice="check the permissions and the file system",
    )


def opened(log: Path | LogFile) -> LogFile:
    """A log to be read, which is closed where it was opened."""
    return log if isinstance(log, LogFile) else LogFile(log)


#: A line, or one repaint of a bar, with its byte offset in the file.
Record: TypeAlias = tuple[int, bytes]
#: Byte strings: what is wanted holds all strings of at least one group.
Groups: TypeAlias = tuple[tuple[bytes, ...], ...]

#: Large enough that Python's own work does not count, small enough for a processor's cache.
BLOCK_BYTES = 1 << 20
#: A line longer than this holds no step; it is passed over, so that a file without line ends needs no memory.
LONGEST_LINE_BYTES = 1 << 20
#: A carriage return ends a record, but only when no line end is near: labels stand at line starts.
_NEAR_BYTES = 1 << 16
#: ``SLURM_IO_MAX_MSG_LEN`` of Slurm's slurmstepd/io.c: ``srun --label`` breaks longer messages.
_SRUN_MESSAGE_BYTES = 1024
#: From so many words on, one pattern takes less time than a search each.
_MANY = 16
#: The bytes of which logs have most, by which no word is searched for; before them those that come next, rarest first.
_OFTEN = b"LOkP|=Ih>ybgNC]/,udmpclritoasne_[]-.: 0123456789"
_BYTES = b'jzDBSWMGETARxw"()Fvf' + _OFTEN
_LABEL = re.compile(rb" {0,8}\d{1,7}: ")
#: The shell's own trace (``set -x``): it shows commands that search for steps, not steps.
_TRACE = re.compile(rb"(?: {0,8}\d{1,7}: )?\+{1,9} ")


def matching_records(
    log: Path | LogFile,
    markers: Dialect,
    *,
    start: int = 0,
    stop: int | None = None,
    wraps: bool = False,
) -> Iterator[Record]:
    """The records of a file that hold one of the markers, each with its byte offset, in order.

    A record ends in a line feed or a carriage return; what follows the last of them is not whole and does not count.

    Args:
        log: The file; a :class:`LogFile` was entered.
        markers: The byte strings; of those in a tuple a record holds all.
        start: Where to begin; a line that begins before is left out.
        stop: Where to end, by default the file's end; a line that ends after is left out.
        wraps: Whether to undo the line breaks of ``srun --label``; it takes a look at every line.

    Raises:
        OSError: The file cannot be read.
    """
    if not isinstance(log, LogFile):
        with LogFile(log) as file:
            yield from matching_records(file, markers, start=start, stop=stop, wraps=wraps)
        return
    scanner = Scanner(markers, wraps=wraps)
    for offset, block, end in _blocks(log, start, stop):
        yield from scanner.records(block, end, offset)


@lru_cache(maxsize=64)
def alternatives(dialect: Dialect) -> Groups:
    """The strings of a dialect as groups: a wanted record holds all of at least one; none holds another."""
    words = [marker for marker in dialect if isinstance(marker, bytes)]
    return tuple(
        (marker,) if isinstance(marker, bytes) else marker
        for marker in dialect
        if not any(word != marker and word in marker for word in words)
    )


def is_wanted(text: bytes, wanted: Iterable[tuple[bytes, ...]]) -> bool:
    """Whether a record, or a part of a file, holds all strings of at least one group."""
    # Generators take three times as long, and this is asked for each record and marker.
    for words in wanted:
        for word in words:
            if word not in text:
                break
        else:
            return True
    return False


def is_labelled(line: bytes | bytearray) -> bool:
    """Whether a line begins as ``srun --label`` begins those that it may break."""
    return _LABEL.match(line) is not None


class Scanner:
    """Finds the records that hold a marker in one block after the other of the same file.

    Args:
        markers: The byte strings; of those in a tuple a record holds all.
        wraps: Whether to undo the line breaks of ``srun --label``, also between blocks.
    """

    def __init__(self, markers: Dialect, *, wraps: bool = False) -> None:
        self._wanted = alternatives(markers)
        self._pattern, self._words = _search(self._wanted)
        self._mender = _Mender()
        self._wraps = wraps

    def records(self, block: bytearray, end: int, offset: int) -> list[Record]:
        """The records of whole lines, each with its byte offset in the file.

        Args:
            block: The lines; they may be followed by other bytes.
            end: Where in the block they end.
            offset: Where in the file the block begins, bytes.
        """
        if self._wraps and self._mender.is_needed(block, end):
            lines = self._mender.lines(bytes(memoryview(block)[:end]), offset)
        else:
            lines = _lines_at(block, end, offset, self._places(block, end))
        return [record for at, line in lines for record in _records(at, line, self._wanted)]

    def glance(self, block: bytearray, end: int, offset: int) -> list[Record]:
        """The same of a line that is not whole yet: it is remembered as if it had not been seen."""
        mender = self._mender
        self._mender = mender.copy()
        try:
            return self.records(block, end, offset)
        finally:
            self._mender = mender

    def _places(self, block: bytearray, end: int) -> list[int]:
        """Places within the lines that hold markers, in order."""
        found = [] if self._pattern is None else [match.start() for match in self._pattern.finditer(block, 0, end)]
        for word in self._words:
            place = block.find(word, 0, end)
            while place >= 0:
                found.append(place)
                place = block.find(word, place + len(word), end)
        found.sort()
        return found


def _records(offset: int, line: bytes, wanted: Groups) -> list[Record]:
    """The parts of a line that hold a marker, cleaned."""
    found: list[Record] = []
    for part in line.split(b"\r"):
        cleaned = without_escapes(part).split(b"\r") if b"\x1b" in part or b"\0" in part else (part,)
        for record in cleaned:
            if not is_wanted(record, wanted) or _TRACE.match(record):
                continue
            found.append((offset, record))
        offset += len(part) + 1
    return found


def _blocks(file: LogFile, start: int, stop: int | None) -> Iterator[tuple[int, bytearray, int]]:
    """Whole lines of a file: ``(offset, buffer, end)``; the buffer is used again for the next block."""
    stop = file.size if stop is None else min(stop, file.size)
    skipping = start > 0 and file.read(start - 1, 1) not in (b"\n", b"\r")
    # No larger than what there is: most logs that are looked through again and again are small.
    buffer = bytearray(min(BLOCK_BYTES + LONGEST_LINE_BYTES, max(0, stop - start)) + 1)
    view = memoryview(buffer)
    offset = start  # of buffer[0]
    held = 0  # bytes of an unfinished line at the front
    while (wanted := min(BLOCK_BYTES, stop - offset - held)) > 0:
        got = file.read_into(view[held : held + wanted], offset + held)
        if not got:
            break
        filled = held + got
        begin = 0
        if skipping:
            begin = _after_first_end(buffer, held, filled)
            skipping = begin == 0
        end = buffer.rfind(b"\n", begin, filled) + 1
        if end == 0 and filled - begin >= _NEAR_BYTES:
            end = buffer.rfind(b"\r", begin, filled) + 1
        if skipping or (end <= begin and filled - begin > LONGEST_LINE_BYTES):
            offset, held, skipping = offset + filled, 0, True
            continue
        end = max(end, begin)
        if end > begin:
            if begin:
                view[: end - begin] = view[begin:end]
            yield offset + begin, buffer, end - begin
        held = filled - end
        view[:held] = view[end:filled]
        offset += end
    end = buffer.rfind(b"\r", 0, held) + 1
    if end:
        yield offset, buffer, end


def _after_first_end(buffer: bytearray, begin: int, end: int) -> int:
    """The place after the first line end, 0 where there is none."""
    places = [buffer.find(terminator, begin, end) for terminator in (b"\n", b"\r")]
    return min((place + 1 for place in places if place >= 0), default=0)


def _lines_at(block: bytearray, end: int, offset: int, places: list[int]) -> list[Record]:
    """The lines that hold the places, each once; the block begins at an offset in the file."""
    found = []
    done = 0
    for place in places:
        if place < done:
            continue
        begin = max(done, block.rfind(b"\n", done, place) + 1, block.rfind(b"\r", done, place) + 1)
        finish = block.find(b"\n", place, end)
        finish = end if finish < 0 else finish
        carriage_return = block.find(b"\r", place, finish)
        finish = finish if carriage_return < 0 else carriage_return
        if finish - begin <= LONGEST_LINE_BYTES:
            found.append((offset + begin, bytes(memoryview(block)[begin:finish])))
        done = finish + 1
    return found


@lru_cache(maxsize=64)
def _search(wanted: Groups) -> tuple[re.Pattern[bytes] | None, tuple[bytes, ...]]:
    """How a word of each group is searched for: many by bytes that most logs hold seldom; few, and others, each."""
    words = tuple(group[0] for group in wanted)
    if len(words) < _MANY:
        return None, words
    ends, others = dict[bytes, list[bytes]](), list[bytes]()
    for word in words:
        byte = bytes([min(word, key=_BYTES.find)])
        if byte in _OFTEN:
            others.append(word)
        else:
            before, _, behind = word.partition(byte)
            behind = re.escape(behind)
            ends.setdefault(byte, []).append(b"(?<=%b)%b" % (re.escape(before + byte), behind) if before else behind)
    parts = [b"%b(?:%b)" % (re.escape(byte), b"|".join(words)) for byte, words in ends.items()]
    return re.compile(b"|".join(parts)) if parts else None, tuple(others)


class _Mender:
    """Undoes the line breaks of ``srun --label``.

    A message of a task that has no line end for 1024 bytes is written as a labelled line of
    exactly that length, and goes on in the next line that bears the same label. A break can
    fall within a number or a character, and lines of other tasks come between.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[int, bytes]] = {}

    def copy(self) -> _Mender:
        """One that remembers the same."""
        other = _Mender()
        other._open = dict(self._open)
        return other

    def is_needed(self, block: bytearray, end: int) -> bool:
        """Whether the block holds a broken line, or what an earlier one goes on in."""
        for label in self._open:
            if block.startswith(label) or block.find(b"\n" + label, 0, end) >= 0:
                return True
        return _holds_broken_line(block, end)

    def lines(self, data: bytes, offset: int) -> Iterable[Record]:
        """All lines, broken ones mended; each with the offset at which it begins."""
        for line in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
            yield from self._mend(offset, line)
            offset += len(line) + 1

    def _mend(self, offset: int, line: bytes) -> Iterator[tuple[int, bytes]]:
        label = _LABEL.match(line)
        if label is None:
            yield offset, line
            return
        begin, text = self._open.pop(label[0], (offset, b""))
        text = text + line[label.end() :] if text else line
        if len(line) - label.end() != _SRUN_MESSAGE_BYTES:
            yield begin, text
            return
        if len(text) > _NEAR_BYTES:  # a bar that is repainted for hours is one message
            whole = text.rfind(b"\r") + 1
            yield begin, text[:whole]
            text = text[whole:] if whole else b""
        if text:
            self._open[label[0]] = (begin, text)


def _holds_broken_line(block: bytearray, end: int) -> bool:
    """Whether a labelled line has exactly the length at which srun breaks; looks once in 1024 bytes."""
    at = 0
    while at < end:
        newline = block.rfind(b"\n", at, min(at + _SRUN_MESSAGE_BYTES, end))
        if newline < 0:
            newline = block.find(b"\n", at, end)
            newline = end if newline < 0 else newline
            label = _LABEL.match(block, at, newline)
            if label is not None and newline - label.end() == _SRUN_MESSAGE_BYTES:
                return True
        at = newline + 1
    return False
