"""Where the steps of a log begin and end, and what tells that it was cut behind them."""

from __future__ import annotations

from pytest_gsw.common.words import shortened
from pytest_gsw.logs.logfile import LogFile
from pytest_gsw.logs.model import LastWords, LogFormat, StepLog
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import quoted_text, safe_text, without_escapes

#: How much of a log's ends is searched for what is said once.
END_BYTES = 4 << 20
_TAIL_BYTES = 1 << 16
_SHOWN_CHARACTERS = 240


def before_step(first: int, begin: int = 0) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where to look for what a run says once: at its beginning, and directly before its first step.

    Args:
        first: Offset of the first step, bytes.
        begin: Offset at which the run begins, bytes.
    """
    head = min(begin + END_BYTES, first)
    return (begin, head), (max(head, first - END_BYTES), first)


def says_its_end(file: LogFile, log_format: LogFormat, log: StepLog, begin: int, block_bytes: int) -> bool | None:
    """Whether a run's last words stand behind its last step; ``None`` where its first do not stand before its steps.

    Args:
        file: The log.
        log_format: Its format; the words are its ``last_words``, if it has them.
        log: The steps.
        begin: Where the last run in the file begins, bytes.
        block_bytes: How much to read at once; it does not change the result.
    """
    words: LastWords | None = getattr(log_format, "last_words", None)
    if words is None or not log.steps:
        return None

    def holds(markers: tuple[bytes, ...], start: int, stop: int) -> bool:
        return next(matching_records(file, markers, start=start, stop=stop, block_bytes=block_bytes), None) is not None

    pieces = before_step(log.steps[0].offset or 0, begin)
    if not any(holds(words.first, start, stop) for start, stop in pieces if start < stop):
        return None
    size, last = file.size, log.steps[-1].offset or 0
    head = min(last + END_BYTES, size)
    # What is torn down behind them may say more than anybody wants to read.
    return holds(words.last, last, head) or holds(words.last, max(head, size - END_BYTES), size)


def open_line(file: LogFile) -> str | None:
    """The last line, fit to be shown, where it has no line end; ``None`` for a whole line, and for a whole bar.

    A bar is repainted within one line, which may never end; its last repaint is whole where its bracket is closed.
    """
    tail = file.read(max(0, file.size - _TAIL_BYTES), _TAIL_BYTES)
    line = without_escapes(tail.rpartition(b"\n")[2])
    repaint = line.rpartition(b"\r")[2]
    if not safe_text(repaint) or (repaint != line and repaint.rstrip().endswith(b"]")):
        return None
    return shortened(quoted_text(repaint), _SHOWN_CHARACTERS)
