"""Search of a huge log for the few records that matter, in bounded memory.

Logs of large jobs are mostly noise: 15,000 lines of NCCL for ten steps. Only lines that hold one of the wanted byte
strings are parsed. Those strings are searched for in large blocks, by the C code of ``bytes.find`` and of patterns.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy, deepcopy
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.files import check_regular
from pytest_gsw.common.redact import ESCAPES, UNSAFE, masked_text
from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Dialect

# -- From bytes of a log to numbers, and to text that is safe to show ------------------------------


#: Figures that are not finite as Microsoft's C runtime writes them, without the sign: ``1.#INF``, ``1.#IND00``,
#: ``1.#QNAN``, and, rounded to one or two decimals, ``1.#J`` and ``1.#R``.
C_RUNTIME = rb"1\.#[A-Z]{1,4}\d{0,25}"
#: A figure that is not finite, in any notation.
NOT_FINITE = rb"(?:[nN][aA][nN]|[iI][nN][fF]|%b)" % C_RUNTIME
#: A number as logs write it: ``4.31``, ``6,785``, ``2e+3``, ``1.249e+03``, or one that is not finite. Every repetition
#: is bounded: no line makes a pattern slow.
NUMBER = rb"(?:[-+]?%b|\d[\d,]{0,20}(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?)" % NOT_FINITE
#: ``grad norm: 0.000 |``, ``grad_norm=0.0``, ``'grad_norm': '0e+00'``, ``Grad Norm: -0.0``, and Composer's.
_ZERO_NORM = re.compile(
    rb"(?:(?<!\w)[gG]rad(?:ient)?[ _][nN]orm|\bl2_norm/grad/global)['\"]?\s{0,12}[:=]\s{0,12}['\"]?"
    rb"[-+]?0{1,20}(?:\.0{0,25})?(?:[eE][-+]?\d{1,3})?(?![\w.])"
)
#: Cursor moves and clearing of lines: progress bars use them like ``\r``.
_MOVES = re.compile(rb"\x1b\[[0-9;]{0,16}[A-HJKST]")
_ESCAPES = re.compile(ESCAPES.encode())
#: Groups of three digits: "1,5" is 1.5 in half of the world.
_THOUSANDS = re.compile(rb"[-+]?[1-9]\d{0,2}(?:,\d{3}){1,6}(?![\d,eE])")
_BLANKS = str.maketrans("\t\r\n", "   ")

_RANK = re.compile(
    rb" {0,8}(?:(\d{1,7}): "  # srun --label
    rb"|\[(?:default|rank)(\d{1,7})\]:"  # torchrun --tee, torch.distributed
    rb"|\[1,(\d{1,7})\]<std(?:out|err)>:)"  # mpirun --tag-output
)


def number(text: bytes) -> float | None:
    """The number in ``text``, which may be NaN or infinite; ``None`` if it is none.

    NaN are also all figures of Microsoft's C runtime that are not finite, and a number with a comma that divides no
    thousands: ``12,500`` is 12500, and ``12,5`` may be 12.5.
    """
    plain = text.strip(b" '\",")
    try:
        value = float(plain.replace(b",", b""))
    except ValueError:
        return math.nan if b"1.#" in text else None
    return math.nan if b"," in plain and _THOUSANDS.match(plain) is None else value


def number_of(found: re.Match[bytes] | None) -> float | None:
    """The number in a match's first group; ``None`` without a match."""
    return None if found is None else number(found[1])


def has_zero_norm(text: bytes) -> bool:
    """True if a text has a gradient norm of exactly 0, in the notation of any framework."""
    return _ZERO_NORM.search(text) is not None


def without_escapes(raw: bytes) -> bytes:
    """A record without colours and NUL bytes; a cursor move becomes a carriage return."""
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", _MOVES.sub(b"\r", raw))
    return raw.replace(b"\0", b"") if b"\0" in raw else raw


def pieces(head: re.Pattern[bytes], line: bytes) -> list[tuple[re.Match[bytes], bytes]]:
    """The records of a line that another process may have joined: each head, and the text after it."""
    parts = []
    end = len(line)
    for this in reversed([*head.finditer(line)]):
        parts.append((this, line[this.end() : end]))
        end = this.start()
    return parts[::-1]


def rank_of(line: bytes) -> int | None:
    """The rank that a launcher wrote before the line; ``None`` if it wrote none."""
    label = _RANK.match(line)
    return None if label is None else int(label[label.lastindex or 0])


def label_of(line: bytes) -> tuple[int | None, bytes]:
    """The rank that a launcher wrote before the line, and the line without that label."""
    label = _RANK.match(line)
    return (None, line) if label is None else (rank_of(line), line[label.end() :])


def safe_text(raw: bytes) -> str:
    """Bytes of a log as one line of text without escape sequences and control characters.

    Bytes that are no UTF-8 become U+FFFD; line ends and tabs become blanks.
    """
    text = _ESCAPES.sub(b"", raw).decode("utf-8", errors="replace")
    return UNSAFE.sub("", text.translate(_BLANKS)).strip()


def text_of(found: re.Match[bytes] | None) -> str | None:
    """A match as :func:`safe_text`; ``None`` without a match."""
    return None if found is None else safe_text(found[0])


def quoted_text(raw: bytes) -> str:
    """Like :func:`safe_text`, with secrets hidden: those of this environment, and what looks like one.

    Secrets are hidden before a line is shortened: half of one would not be recognized.
    """
    return masked_text(safe_text(raw), os.environ)


# -- A log, opened once and read by all as it was then ---------------------------------------------


#: Logs up to this size are read at once, and need no open file; most are small.
_AT_ONCE_BYTES = 1 << 20


class LogFile:
    """A log as it was when it was opened: data appended later is ignored. Enter it before reading.

    Args:
        path: The log.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entered = 0
        #: By dialects that were looked for while the log was read: the records, and where those not noted begin.
        self.noted: dict[Dialect, tuple[list[Record], int]] = {}
        check_regular(os.stat(path), path)  # noqa: PTH116 - Path costs more than the look
        self._file: io.FileIO | io.BytesIO = path.open("rb", buffering=0)
        try:
            #: Size of the log when it was opened, bytes.
            self.size = self._file.seek(0, io.SEEK_END)
            if self.size <= _AT_ONCE_BYTES:
                with self._file as file:
                    file.seek(0)
                    data = file.read()
                self._file, self.size = io.BytesIO(data), len(data)
        except OSError:
            self._file.close()
            raise

    def __enter__(self) -> LogFile:  # noqa: PYI034 - typing.Self is Python 3.11's
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            self._file.close()

    def read(self, start: int, count: int) -> bytes:
        """At most ``count`` bytes from a place on, fewer at the end of the log."""
        self._file.seek(start)
        return self._file.read(max(0, min(count, self.size - start))) or b""

    def read_into(self, view: memoryview, start: int) -> int:
        """Fill a piece of memory from a place on, and return the number of bytes read."""
        self._file.seek(start)
        return self._file.readinto(view) or 0


def unreadable(path: Path, why: OSError | str) -> LogError:
    """The error for an existing log that cannot be read."""
    reason = (why.strerror or why) if isinstance(why, OSError) else why
    return LogError(
        f"the log cannot be read: {path.name}: {reason}",
        evidence=(("log", str(path)),),
        advice="check the permissions and the file system",
    )


def opened(log: Path | LogFile) -> LogFile:
    """The log, opened if it is a path; the ``with`` block that opened it closes it."""
    return log if isinstance(log, LogFile) else LogFile(log)


#: A line, or one repaint of a bar, with its byte offset in the file.
Record: TypeAlias = tuple[int, bytes]
#: Groups of byte strings: a wanted record holds all strings of at least one group.
Groups: TypeAlias = tuple[tuple[bytes, ...], ...]
#: Bytes, with the words that hold them and their places in those; and words to find singly.
_ByBytes: TypeAlias = tuple[dict[bytes, tuple[tuple[bytes, int], ...]], tuple[bytes, ...]]

#: Large enough to make Python's own work negligible, small enough for a processor's cache.
BLOCK_BYTES = 1 << 20
#: Longer lines hold no step; they are skipped, since a file without line ends must not fill the memory.
LONGEST_LINE_BYTES = 1 << 20
#: A carriage return ends a record only if no line end is near: labels are at line starts.
_NEAR_BYTES = 1 << 16
#: As many bytes of noted records are kept, and as many for each record.
_MOST_NOTED_BYTES = 1 << 20
_NOTED_BYTES = 1 << 7
#: ``SLURM_IO_MAX_MSG_LEN`` of Slurm's slurmstepd/io.c: ``srun --label`` breaks longer messages.
_SRUN_MESSAGE_BYTES = 1024
#: In smaller blocks one pattern finds many words fastest; in larger ones, the bytes that are rare in the log.
_LARGE_BYTES = 1 << 16
#: From this number of words on, one pattern is faster than a search for each.
_MANY = 16
#: The most frequent bytes of logs, by which no word is searched for.
_OFTEN = frozenset(b"LOkP|=Ih>ybgNC]/,udmpclritoasne_[]-.: 0123456789")
#: Bytes of each of the three samples of a block, and the blocks after which samples are taken again.
_SAMPLE_BYTES = 1 << 12
_SAMPLE_EVERY = 16
#: A search by one byte is many times as fast as by a word, unless the byte is more frequent than one in this number.
_OFTEN_EVERY_BYTES = 1 << 8
_LABEL = re.compile(rb" {0,8}\d{1,7}: ")
#: The shell's own trace (``set -x``): it shows commands that search for steps, not steps. A group of a dialect that
#: holds its mark wants it nevertheless.
_TRACE_MARK = b"+ "
_TRACE = re.compile(rb"(?: {0,8}\d{1,7}: )?\+{1,9} ")


def matching_records(
    log: Path | LogFile,
    markers: Dialect,
    *,
    start: int = 0,
    stop: int | None = None,
    wraps: bool = False,
    noting: Iterable[Dialect] = (),
) -> Iterator[Record]:
    """The records of a file that hold one of the markers, each with its byte offset, in order.

    A record ends in a line feed or a carriage return; an incomplete last line is ignored.

    Args:
        log: The file; a :class:`LogFile` was entered.
        markers: The byte strings; of those in a tuple a record holds all.
        start: Byte offset of the start; a line that begins before it is left out.
        stop: Byte offset of the end, by default the file's; a line that ends after it is left out.
        wraps: True to undo the line breaks of ``srun --label``, which takes a look at every line.
        noting: Dialects that the log, which is read whole now, will be searched for later, without wraps. It notes
            their records, up to a bound of memory, and a later search begins behind those.

    Raises:
        OSError: The file cannot be read.
    """
    with opened(log) as file:
        if not wraps and markers in file.noted:
            noted, known = file.noted[markers]
            behind = file.size if stop is None else _last_end(file, stop)
            yield from [record for record in noted if start <= record[0] < behind]
            start = max(start, known)
        scanner, others = Scanner(markers, wraps=wraps), [_Noting(one) for one in noting if one not in file.noted]
        for offset, block, end in _blocks(file, start, stop):
            for other in others:
                other.note(file, block, end, offset)
            yield from scanner.records(block, end, offset)


class _Noting:
    """Notes the records of one dialect, up to a bound of memory."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._scanner = Scanner(dialect)
        self._records: list[Record] = []
        self._left_bytes = _MOST_NOTED_BYTES

    def note(self, log: LogFile, block: bytearray, end: int, offset: int) -> None:
        """Note the records of the next block, for which the arguments are those of :meth:`Scanner.records`."""
        if self._left_bytes > 0:
            records = self._scanner.records(block, end, offset)
            self._records += records
            self._left_bytes -= sum(_NOTED_BYTES + len(record) for _, record in records)
            log.noted[self._dialect] = self._records, offset + end


def _last_end(log: LogFile, stop: int) -> int:
    """The place of the last line end before ``stop``, no further away than a record is long."""
    start = max(0, stop - LONGEST_LINE_BYTES - 1)
    tail = log.read(start, stop - start)
    return start + max(tail.rfind(b"\n"), tail.rfind(b"\r"))


@lru_cache(maxsize=64)
def alternatives(dialect: Dialect) -> Groups:
    """The strings of a dialect as groups, without groups that hold another one's string.

    A wanted record holds all strings of at least one group.
    """
    words = [marker for marker in dialect if isinstance(marker, bytes)]
    return tuple(
        (marker,) if isinstance(marker, bytes) else marker
        for marker in dialect
        if not any(word != marker and word in marker for word in words)
    )


def is_wanted(text: bytes, wanted: Iterable[tuple[bytes, ...]]) -> bool:
    """True if a record, or a part of a file, holds all strings of at least one group."""
    # Generators take three times as long, and this runs for each record and marker.
    for words in wanted:
        for word in words:
            if word not in text:
                break
        else:
            return True
    return False


def is_labelled(line: bytes | bytearray) -> bool:
    """True if a line begins with a label of ``srun --label``, which may break such lines."""
    return _LABEL.match(line) is not None


class Scanner:
    """Finds the records with a marker in successive blocks of one file.

    Args:
        markers: The byte strings; of those in a tuple a record holds all. With an empty one, all records are found.
        wraps: True to undo the line breaks of ``srun --label``, also between blocks.
    """

    def __init__(self, markers: Dialect, *, wraps: bool = False) -> None:
        self._wanted = alternatives(markers)
        self._finder = _Finder(self._wanted)
        self._joiner = _LineJoiner() if wraps else None

    def records(self, block: bytearray, end: int, offset: int) -> list[Record]:
        """The records of whole lines, each with its byte offset in the file.

        Args:
            block: The lines; other bytes may follow them.
            end: Byte offset in the block at which they end.
            offset: Byte offset of the block in the file.
        """
        joiner = self._joiner
        if joiner is not None and (self._wanted == ((b"",),) or joiner.is_needed(block, end)):
            lines = joiner.lines(bytes(memoryview(block)[:end]), offset)
        else:
            lines = _lines_at(block, end, offset, self._finder.places(block, end))
        return [record for at, line in lines for record in _records(at, line, self._wanted)]

    def glance(self, block: bytearray, end: int, offset: int) -> list[Record]:
        """The records of a line that is still incomplete; the scanner's state stays as it was."""
        other = copy(self)
        other._joiner = deepcopy(self._joiner)  # noqa: SLF001
        return other.records(block, end, offset)


def _records(offset: int, line: bytes, wanted: Groups) -> list[Record]:
    records: list[Record] = []
    for part in line.split(b"\r"):
        cleaned = without_escapes(part).split(b"\r") if b"\x1b" in part or b"\0" in part else (part,)
        records += [
            (offset, record)
            for record in cleaned
            if is_wanted(record, wanted)
            and (not _TRACE.match(record) or is_wanted(record, [words for words in wanted if _TRACE_MARK in words]))
        ]
        offset += len(part) + 1
    return records


def _blocks(file: LogFile, start: int, stop: int | None) -> Iterator[tuple[int, bytearray, int]]:
    """Whole lines of a file: ``(offset, buffer, end)``; the buffer is reused for the next block."""
    stop = file.size if stop is None else min(stop, file.size)
    skipping = start > 0 and file.read(start - 1, 1) not in (b"\n", b"\r")
    # No larger than the data: most logs that are read repeatedly are small.
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
    """The place after the first line end; 0 if there is none."""
    places = [buffer.find(terminator, begin, end) for terminator in (b"\n", b"\r")]
    return min((place + 1 for place in places if place >= 0), default=0)


def _lines_at(block: bytearray, end: int, offset: int, places: list[int]) -> list[Record]:
    """The lines that hold the places, each once, with their offsets in the file."""
    lines = []
    done = 0
    for place in places:
        if place < done:
            continue
        begin = max(done, block.rfind(b"\n", done, place) + 1)
        begin = max(begin, block.rfind(b"\r", begin, place) + 1)
        finish = block.find(b"\n", place, end)
        finish = end if finish < 0 else finish
        carriage_return = block.find(b"\r", place, finish)
        finish = finish if carriage_return < 0 else carriage_return
        if finish - begin <= LONGEST_LINE_BYTES:
            lines.append((offset + begin, bytes(memoryview(block)[begin:finish])))
        done = finish + 1
    return lines


class _Finder:
    """Finds the first word of each group in successive blocks of one file.

    Escape sequences may be between the words of a record, and within all but its first. In large blocks they are found
    by the bytes that are rare in samples of the log, which change the time, never the result.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._blocks = 0
        self._search: _ByBytes = {}, ()

    def places(self, block: bytearray, end: int) -> list[int]:
        """The places of the words, or of bytes in them, in order."""
        if end < _LARGE_BYTES:
            pattern, others = _search_in_small(self._groups)
            starts = [] if pattern is None else [match.start() for match in pattern.finditer(block, 0, end)]
        else:
            starts, others = self._find_by_rare_bytes(block, end)
        for word in others:
            # Backwards: CPython's search is up to four times as fast as forwards.
            place = block.rfind(word, 0, end)
            while place >= 0:
                starts.append(place)
                place = block.rfind(word, 0, place)
        starts.sort()
        return starts

    def _find_by_rare_bytes(self, block: bytearray, end: int) -> tuple[list[int], tuple[bytes, ...]]:
        """The places of words that are found by a rare byte, and the words to find singly."""
        if self._blocks % _SAMPLE_EVERY == 0:
            first, middle, last = ({*block[at : at + _SAMPLE_BYTES]} for at in (0, end // 3, 2 * end // 3))
            frequent = frozenset(first & middle | middle & last | last & first)
            self._search = _search_by_bytes(self._groups, frequent)
        self._blocks += 1
        starts = list[int]()
        by_byte, others = self._search
        for byte, words in by_byte.items():
            place = -1
            for _ in range(end // _OFTEN_EVERY_BYTES):
                place = block.find(byte, place + 1, end)
                if place < 0:
                    break
                starts += [place for word, before in words if block.startswith(word, place - before, end)]
            else:  # it is not rare here
                others += tuple(word for word, _ in words)
                self._blocks = 0
        return starts, others


@lru_cache(maxsize=64)
def _search_by_bytes(groups: Groups, frequent: frozenset[int]) -> _ByBytes:
    """Few bytes that are not frequent, which find all words that have such a byte; and the other words."""
    by_byte = {}
    left = {group[0]: set(group[0]) - frequent for group in groups}
    while counts := Counter(byte for rare in left.values() for byte in rare):
        byte, _ = counts.most_common(1)[0]
        by_byte[bytes([byte])] = tuple((word, word.index(byte)) for word, rare in left.items() if byte in rare)
        left = {word: rare for word, rare in left.items() if byte not in rare}
    return by_byte, tuple(left)


@lru_cache(maxsize=64)
def _search_in_small(groups: Groups) -> tuple[re.Pattern[bytes] | None, tuple[bytes, ...]]:
    """The search for words in small blocks: one pattern for many with a rare byte, and words to find singly."""
    if len(groups) < _MANY:
        return None, tuple(group[0] for group in groups)
    by_byte, others = _search_by_bytes(groups, _OFTEN)
    parts = []
    for byte, words in by_byte.items():
        ends = (b"(?<=%b)%b" % (re.escape(word[: at + 1]), re.escape(word[at + 1 :])) for word, at in words)
        parts.append(b"%b(?:%b)" % (re.escape(byte), b"|".join(ends)))
    return re.compile(b"|".join(parts)) if parts else None, others


class _LineJoiner:
    """Undoes the line breaks of ``srun --label``.

    A message of 1024 bytes without a line end is written as a labelled line of exactly that length, and continues in
    the task's next line. A break can fall within a number or a character, and lines of other tasks come between.
    """

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[int, bytes]] = {}

    def is_needed(self, block: bytearray, end: int) -> bool:
        """True if the block holds a broken line, or the continuation of an earlier one."""
        for label in self._open:
            if block.startswith(label) or block.find(b"\n" + label, 0, end) >= 0:
                return True
        return _holds_broken_line(block, end)

    def lines(self, data: bytes, offset: int) -> Iterable[Record]:
        """All lines, broken ones joined; each with the offset at which it begins."""
        for line in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
            yield from self._join(offset, line)
            offset += len(line) + 1

    def _join(self, offset: int, line: bytes) -> Iterator[tuple[int, bytes]]:
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
    """True if a labelled line has exactly the length at which srun breaks; one test per 1024 bytes."""
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
