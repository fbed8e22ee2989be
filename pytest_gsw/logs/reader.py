"""Reader of training logs: all steps, the format, the last lines.

No log is held in memory, and every fault of one is a :class:`~pytest_gsw.errors.LogError`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.blocks import PROGRAMS
from pytest_gsw.common.text import plural, shortened
from pytest_gsw.errors import IncompleteLogError, LogError
from pytest_gsw.logs import scan
from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.identity import RECIPE_MARKER, RecipeLines, identity_markers, recipe_line, with_identity
from pytest_gsw.logs.model import Dialect, Diverged, EndMarkers, LogFormat, StepLog, Tail
from pytest_gsw.logs.scan import LogFile, is_wanted, matching_records, quoted_text, safe_text
from pytest_gsw.logs.steps import CALIBRATION, calibration_flops, parser_of

# -- The runs in one log, complete or growing -------------------------------------------------------


class Runs:
    """The runs in a file, separated by the recipe's lines with their identity.

    A requeued job that resumes from a checkpoint continues the step count: only a recipe's line after a step separates
    its steps from the earlier run's. All ranks print such a line when a run begins; a new run begins only if a step is
    between two of them. This holds for every format; its parser is fed one run alone.
    """

    def __init__(self, log_format: LogFormat, dialect: Dialect) -> None:
        self._format = log_format
        self._wanted = scan.alternatives(dialect)
        self._parser = parser_of(log_format)
        #: Attempts in the earlier runs, and those of them that diverged.
        self._attempts_before = 0
        self._diverged: tuple[Diverged, ...] = ()
        #: Byte offset of the last run, after the first byte of its first line; 0 at the beginning of the file.
        self.begin = 0
        #: The recipe's own lines in the last run.
        self.lines = RecipeLines()

    def feed(self, offset: int, record: bytes) -> None:
        """Read the next record that holds a string of the dialect, or the recipe's marker."""
        if is_wanted(record, self._wanted):
            self._parser.feed(offset, record)
        # The line itself belongs to the earlier run: it may contain a bar that was killed.
        if RECIPE_MARKER in record and (line := recipe_line(record)) is not None:
            if self._parser.tail(1).attempts:
                self._end(offset + 1)
            self.lines.feed(offset, line)

    def _end(self, begin: int) -> None:
        """Close the earlier run at the beginning of the next one."""
        log = self.log()
        self._attempts_before, self._diverged = log.attempts, log.diverged
        if log.not_finite is not None:
            self._diverged += (Diverged(log.attempts, *log.not_finite, self.begin, begin),)
        self._parser, self.begin, self.lines = parser_of(self._format), begin, RecipeLines()

    @property
    def is_unstepped(self) -> bool:
        """True if a run has begun since the last one that has a step."""
        return self._attempts_before > 0 and not self._parser.tail(1).attempts

    def log(self) -> StepLog:
        """The last run in the file; attempts, diverged ones included, are counted from the file's beginning."""
        log, before = self._parser.log(), self._attempts_before
        own = (replace(diverged, attempt=diverged.attempt + before) for diverged in log.diverged)
        return replace(
            log,
            attempts=before + log.attempts,
            diverged=(*self._diverged, *own),
            begin=self.begin,
            contradiction=self.lines.contradiction,
        )

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, with ``count`` steps at most."""
        tail = self._parser.tail(count)
        return replace(tail, attempts=self._attempts_before + tail.attempts)

    def fork(self) -> Runs:
        """A copy, to be fed records that may still change."""
        other = copy(self)
        other._parser = deepcopy(self._parser, {id(self._format): self._format})  # noqa: SLF001
        other.lines = copy(self.lines)
        return other


#: Bytes at each end of a log that are searched for facts stated once: identity, batch size, the format.
_END_BYTES = 4 << 20
_TAIL_BYTES = 1 << 16
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 240


def read_log(file: Path | LogFile, log_format: LogFormat, noting: Iterable[Dialect] = ()) -> StepLog:
    """All steps of the last attempt in a log.

    Args:
        file: The log.
        log_format: The format of the framework that wrote it.
        noting: What the log is to be searched for later, see :func:`~pytest_gsw.logs.scan.matching_records`.

    Raises:
        LogError: The log is missing, no file, empty, or holds no step times or figures, or none of the last run in it,
            or that run is invalid.
    """
    if not isinstance(file, LogFile):
        with open_log(file) as opened:
            return read_log(opened, log_format, noting)
    with reading(file.path):
        log = _read(file, log_format, noting)
    if log.fault is not None and isinstance(log_format, BuiltIn):
        raise IncompleteLogError(
            f"the last {log_format.name} run in the log is not valid: {log.fault}",
            evidence=(("log", str(file.path)),),
            tail=tail_lines(file.path),
            advice="its figures are no measure of performance: look at the job's end and at the lines before it",
        )
    if log.fault is not None:
        kind = type(log_format)
        raise LogError(
            f"the log format {log_format.name} returned impossible steps: {log.fault}",
            evidence=(("log", str(file.path)), ("format", f"{kind.__module__}.{kind.__qualname__}")),
            advice="derive it from pytest_gsw.LineFormat, which separates attempts and ranks",
        )
    if not log.steps and not log.figures:
        raise _no_steps_error(file.path, file.size, log_format, log)
    return log


def open_log(path: Path) -> LogFile:
    """A log, opened to be read.

    Raises:
        LogError: It is missing, no file, empty, or cannot be opened.
    """
    _size(path)
    with reading(path):
        return LogFile(path)


def _read(file: LogFile, log_format: LogFormat, noting: Iterable[Dialect]) -> StepLog:
    for dialect in log_format.dialects:
        runs = Runs(log_format, dialect)
        markers = (RECIPE_MARKER, *dialect)
        for offset, record in matching_records(file, markers, wraps=log_format.wraps, noting=noting):
            runs.feed(offset, record)
        log = runs.log()
        if runs.is_unstepped:
            raise IncompleteLogError(
                "a later run in the same file logged no steps",
                evidence=(("log", f"{file.path}:{line_number(file.path, runs.begin - 1)}"),),
                tail=tail_lines(file.path),
                advice="look at the last lines: the steps before them are of an earlier run, which is not judged",
            )
        if log.attempts:
            # A recipe calibrates when it has trained.
            behind = max(log.steps[-1].offset or 0 if log.steps else 0, file.size - _END_BYTES)
            last = matching_records(file, (CALIBRATION,), start=behind)
            return replace(
                with_identity(log, _identity_records(file, log, runs.begin), runs.lines),
                has_end_marker=has_end_marker(file, log_format, log, runs.begin),
                open_line=open_line(file),
                calibration_flops=calibration_flops(record for _, record in last),
            )
    return StepLog(log_format.name, steps=(), attempts=0)


def read_attempts(file: LogFile, log_format: LogFormat) -> StepLog | None:
    """The steps in a log and those of earlier attempts, whatever became of the last one; ``None`` if there is none."""
    return _steps_in(file, log_format, keep_attempts=True)


def _steps_in(
    file: Path | LogFile,
    log_format: LogFormat,
    start: int = 0,
    stop: int | None = None,
    *,
    keep_attempts: bool = False,
) -> StepLog | None:
    """The steps in a part of a log; ``None`` if there is none."""
    for dialect in log_format.dialects:
        parser = parser_of(log_format)
        if keep_attempts and isinstance(parser, SeriesParser):
            parser.keep_attempts()
        for offset, record in matching_records(file, dialect, start=start, stop=stop, wraps=log_format.wraps):
            parser.feed(offset, record)
        if parser.tail(1).attempts:
            return parser.log()
    return None


def _identity_records(file: LogFile, log: StepLog, begin: int) -> Iterator[tuple[int, bytes]]:
    """Records that may state the run's identity.

    They are at a run's beginning: lines after the first step may be another run's. Searching gigabytes for them would
    take longer than for the steps. Only the beginnings of the log and of its last run are searched, and the part
    directly before the last attempt.
    """
    first = file.size if not log.steps or log.steps[0].offset is None else log.steps[0].offset
    markers = identity_markers(log.format)
    done = 0
    for begins, stop in (before_step(first)[0], *before_step(first, max(0, begin - 1))):
        start = max(begins, done)
        if start < stop:
            yield from matching_records(file, markers, start=start, stop=stop)
            done = stop


def detect_format(path: Path) -> LogFormat:
    """The format whose steps a log holds; of several the first in the order of :data:`FORMATS`.

    The log's ends are searched first, all of it only if they hold no steps.

    Raises:
        LogError: The log is missing, no file, empty, or holds steps of no known format.
    """
    size = _size(path)
    with reading(path):
        log = _find_format(path, size)
    if log is None:
        raise LogError(
            f"no step times of a known format in the log: {path.name}",
            evidence=(("log", f"{path}, {size:,} bytes"), ("known", ", ".join(sorted(FORMATS)))),
            tail=tail_lines(path),
            advice=_program_advice(path),
        )
    return FORMATS[log.format]


def read_beginning(path: Path) -> StepLog:
    """The beginning of a log, read as the format whose steps it holds, with the identity that it states.

    The format of a beginning without steps is ``""``; the rest of the log, which may be endless, is not read.

    Raises:
        LogError: The log is missing, no file, or empty, or cannot be read.
    """
    size = min(_size(path), _END_BYTES)
    with reading(path):
        log = _find_format(path, size) or StepLog("", steps=(), attempts=0)
        return with_identity(log, matching_records(path, identity_markers(log.format), stop=size))


def _find_format(path: Path, size: int) -> StepLog | None:
    """A part of a log with steps, as the first format that reads them has it."""
    # The end of a large log, where the steps are, its beginning, then all.
    ends = [(size - _END_BYTES, size), (0, _END_BYTES)] if size > _END_BYTES else []
    for start, stop in (*ends, (0, size)):
        for log_format in FORMATS.values():
            if (log := _steps_in(path, log_format, start, stop)) is not None:
                return replace(log, format=log_format.name)
    return None


def tail_lines(path: Path, count: int = _SHOWN_LINES) -> tuple[str, ...]:
    """The last lines of a log that are not blank, safe to display and of bounded length.

    Only the last repaint of a progress bar is included. There are no lines if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            raw = file.read(_TAIL_BYTES)
    except OSError:
        return ()
    lines: list[str] = []
    for line in reversed(raw.split(b"\n")):
        if len(lines) >= count:
            break
        repaint = next((part for part in reversed(line.split(b"\r")) if safe_text(part)), None)
        if repaint is not None:
            lines.append(_escape_ci_command(shortened(quoted_text(repaint), _SHOWN_CHARACTERS)))
    return tuple(reversed(lines))


def _escape_ci_command(line: str) -> str:
    """A line that no CI server takes for one of its commands: GitHub's runs ``::error::`` behind blanks, too."""
    return f"> {line}" if line.lstrip().startswith(("::", "##[", "##vso[", "##teamcity[")) else line


def line_number(path: Path, offset: int) -> int:
    """The number, from 1, of the line at a byte offset.

    Raises:
        LogError: The log cannot be read.
    """
    lines = 1
    with reading(path), path.open("rb", buffering=0) as file:
        while offset > 0 and (block := file.read(min(offset, scan.BLOCK_BYTES))):
            lines += block.count(b"\n")
            offset -= len(block)
    return lines


def _size(path: Path) -> int:
    """A log's size in bytes.

    Raises:
        LogError: The file is missing, no regular file, or empty.
    """
    status = None
    with reading(path):
        try:
            status = path.stat()
        except (OSError, ValueError):
            if path.exists():
                raise
    if status is None:
        raise LogError(
            f"the log does not exist: {path.name}",
            evidence=(("log", str(path)), ("folder", _describe_folder(path))),
            advice="find out whether the job started, and whether it writes to this path",
        )
    if not stat.S_ISREG(status.st_mode):
        raise LogError(
            f"the log is a directory: {path.name}"
            if stat.S_ISDIR(status.st_mode)
            else f"the log is no regular file: {path.name}",
            evidence=(("log", str(path)),),
            advice="name the log file itself",
        )
    if status.st_size == 0:
        raise IncompleteLogError(
            f"the log is empty: {path.name}",
            evidence=(("log", f"{path}, 0 bytes"),),
            advice="the job ended before it wrote anything: look at the batch shell's output and at sacct",
        )
    return status.st_size


def _describe_folder(path: Path) -> str:
    """The evidence about a missing log's folder."""
    if not path.parent.is_dir():
        return f"{path.parent} does not exist"
    try:
        count = sum(1 for _ in path.parent.iterdir())
    except OSError as error:
        return f"{path.parent} cannot be read: {error.strerror}"
    return f"{path.parent} holds {plural(count, 'other entry', 'other entries')}"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert an error of the file system into a LogError for this log."""
    try:
        yield
    except OSError as error:
        raise scan.unreadable(path, error) from error


def _no_steps_error(path: Path, size: int, log_format: LogFormat, log: StepLog) -> LogError:
    words = [word for dialect in log_format.dialects for word in dialect]
    searched = getattr(log_format, "searched", "") or ", ".join(
        repr((word if isinstance(word, bytes) else word[0]).decode()) for word in words
    )
    content = getattr(log_format, "content", "step time")
    if log.not_finite is not None:
        fact = f"no step time in the {log_format.name} log is finite: {log.not_finite[1]}: {path.name}"
        advice = "the run diverged or its clock failed: its numbers are no measure of performance"
    else:
        fact = (
            f"the last of {log.attempts} runs in the log has no {log_format.name} {content}: {path.name}"
            if log.attempts > 1
            else f"no {log_format.name} {content}s in the log: {path.name}"
        )
        with reading(path):
            other = _find_format(path, size)
        advice = (
            _program_advice(path, log_format.name)
            if other is None or other.format == log_format.name
            else f"the log holds {other.format} steps: read it as {other.format}"
        )
    return IncompleteLogError(
        fact,
        evidence=(("log", f"{path}, {size:,} bytes"), ("searched", searched)),
        tail=tail_lines(path),
        advice=advice,
    )


def _program_advice(path: Path, read_as: str = "") -> str:
    """Advice for a log without steps: read it as the output of a benchmark, or look at its end."""
    with reading(path):
        line = next(matching_records(path, tuple(PROGRAMS.values())), (0, b""))[1]
    name = next((name for name, sign in PROGRAMS.items() if is_wanted(line, (sign,))), read_as)
    if name == read_as:
        return "the last lines may show why training did not get to its first logged step"
    return f"this is the output of {name}: write 'read: {name}' into the table"


# -- Start and end of the steps, and signs that the log was cut after them ---------------------------


def before_step(first: int, begin: int = 0) -> tuple[tuple[int, int], tuple[int, int]]:
    """The parts of a log with facts stated once: the run's beginning, and the part before its first step.

    Args:
        first: Byte offset of the first step.
        begin: Byte offset at which the run begins.
    """
    head = min(begin + _END_BYTES, first)
    return (begin, head), (max(head, first - _END_BYTES), first)


def has_end_marker(file: LogFile, log_format: LogFormat, log: StepLog, begin: int) -> bool | None:
    """True if the run's end marker follows its last step; ``None`` if its start marker is missing.

    Args:
        file: The log.
        log_format: Its format; the markers are its ``last_words``, if it has them.
        log: The steps.
        begin: Byte offset at which the last run in the file begins.
    """
    words: EndMarkers | None = getattr(log_format, "last_words", None)
    if words is None or not log.steps:
        return None

    def holds(markers: tuple[bytes, ...], start: int, stop: int) -> bool:
        return next(matching_records(file, markers, start=start, stop=stop), None) is not None

    pieces = before_step(log.steps[0].offset or 0, begin)
    if not any(holds(words.first, start, stop) for start, stop in pieces if start < stop):
        return None
    size, last = file.size, log.steps[-1].offset or 0
    head = min(last + _END_BYTES, size)
    # Output of the teardown after them may be large.
    return holds(words.last, last, head) or holds(words.last, max(head, size - _END_BYTES), size)


def open_line(file: LogFile) -> str | None:
    """The last line, safe to display, if it has no line end; ``None`` for a whole line or a whole bar.

    A bar is repainted within one line, which may never end; its last repaint is whole if its bracket is closed.
    """
    tail = file.read(max(0, file.size - _TAIL_BYTES), _TAIL_BYTES)
    line = scan.without_escapes(tail.rpartition(b"\n")[2])
    repaint = line.rpartition(b"\r")[2]
    if not safe_text(repaint) or (repaint != line and repaint.rstrip().endswith(b"]")):
        return None
    return shortened(quoted_text(repaint), _SHOWN_CHARACTERS)
