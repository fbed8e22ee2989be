"""What the log of a run that is said to have ended well must not hold.

A script that goes on after its training has died (``|| true``, ``| tee``, a last ``echo``) ends with 0, and Slurm
calls the job COMPLETED. The log knows better. What counts depends on where a line stands, and on what it tells of:

- What broke machines, the fabric or the job (Xid, ECC, a hung GPU, a collective's time-out, a task that failed, a
  cancellation) counts wherever it stands behind the first step. Steps that follow prove nothing: ranks may train
  each on its own, and a buffered log shows steps late. Broken hardware counts before the first step, too.
- What a program tells of itself (an exception, no memory, no space) counts behind the last steps. Where training
  went on for three steps or more, it got over that: frameworks try kernels that do not fit, and save again what
  could not be saved.
- Before the first step nothing else counts: training started all the same.
- What stands before the last attempt is that attempt's affair, see :mod:`pytest_gsw.logs.attempts`; hardware that
  broke under it counts unless the scheduler began the job anew.
- What is printed when a run that is over is torn down is no failure: :data:`pytest_gsw.logs.tracebacks.HARMLESS`.
"""

from __future__ import annotations

import math
import os
import re
import stat
from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.beside import Beside
from pytest_gsw.logs.causes import LINE_BYTES, Cause, CauseLine, FoundCause, Signature, cause_line, signature
from pytest_gsw.logs.endings import CLEAN_UP, ENDINGS, LAST_WORDS, WHEREVER
from pytest_gsw.logs.failures import ENDED_WELL, RUN_STOP, SIGNATURES
from pytest_gsw.logs.logfile import LogFile, opened, unreadable
from pytest_gsw.logs.model import Dialect, LogFormat, StepLog
from pytest_gsw.logs.reader import detect_format, read_log
from pytest_gsw.logs.scan import BLOCK_BYTES, matching_records
from pytest_gsw.logs.text import without_escapes
from pytest_gsw.logs.tracebacks import CHAIN, LABEL, TRACEBACK, is_set_apart, line_before, read_traceback

#: So many steps behind a program's own error mean that training got over it. A rank that died lets the others print
#: what they had done already, a step or two.
STEPS_AFTER = 3

#: Broken hardware, which counts before the first step as well, unless it was the program's fault.
HARDWARE = frozenset({"ECC error", "GPU hang", "GPU error (Xid)"})
#: What keeps a training from its first step, and so kept this one from none; it counts in the log itself alone.
AT_START = frozenset(
    {
        *("container import", "model access refused", "GPUs not requested", "no GPU found"),
        *("no container plugin", "MPI plugin not found", "task layout refused"),
        *("port in use", "rendezvous failed", "module not found"),
    }
)
#: These are of a run that never trained, or of another program that its script runs.
_NEVER_STARTED = frozenset({"submission refused", "script not found", "command not found"})
#: Behind these a new attempt begins.
_JOB_ENDS = frozenset({"node failure", "preemption", "requeued"})


_BEGAN_ANEW = re.compile(
    rb"\*\*\* JOB \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
)
_CANCELLED_STEP = re.compile(rb"\*\*\* STEP \d{1,12}\.(\w{1,20}) ON ")
#: The level at which a line was logged: what warns is no failure.
_WARNING = re.compile(
    rb"\A[^\n]{0,160}?(?:\b(?:WARN|WARNING|DEBUG)\b|\b[A-Z][A-Za-z]{0,40}Warning: |\bW\d{3,6} |\d: W |\[NeMo [WD] )"
)
#: Of the causes that a failed job may have, those that a run may have which did its steps.
_CAUSES = tuple(one for one in SIGNATURES if one.name not in _NEVER_STARTED)
_WITH_LAST_WORDS = (*_CAUSES, *ENDINGS)
_KNOWN = tuple(one for one in _WITH_LAST_WORDS if one.name != LAST_WORDS)


def _markers(signatures: Iterable[Signature], *more: bytes) -> Dialect:
    return tuple(dict.fromkeys((*more, *(mark for one in signatures for mark in one.markers))))


_MARKERS = _markers((one for one in _KNOWN if one.name in WHEREVER), RUN_STOP)
_LAST_MARKERS = _markers(_WITH_LAST_WORDS, RUN_STOP, TRACEBACK)
_EARLY_MARKERS = _markers((one for one in _CAUSES if one.name in HARDWARE), b"CANCELLED AT")


def find_fatal(
    log: Path | LogFile,
    steps: StepLog,
    log_format: LogFormat,
    beside: Sequence[Path] = (),
    batch_output: Path | None = None,
    excused: frozenset[str] = frozenset(),
) -> FoundCause | None:
    """The first line that a run which ended well cannot have printed, ``None`` where there is none.

    Args:
        log: The run's log.
        steps: What was read from it.
        log_format: By which format; other files may hold the same steps.
        beside: What the same step of the job wrote to files of their own, such as its stderr.
        batch_output: The batch shell's output, where there is one.
        excused: Numbers of the job's steps that, by Slurm itself, did not end well, and that need not: helpers.

    Raises:
        LogError: The log cannot be read.
    """
    cause = fatal_line(log, steps, excused)
    if cause is not None:
        return FoundCause(cause, _path(log))
    for path in _others(log, beside, batch_output):
        cause = fatal_line(path, None, excused, of_shell=path == batch_output, beside=Beside(path))
        if cause is not None:
            # A script that shows what it logs (tee) has the steps there, too, and with them their places.
            try:
                shown = read_log(path, log_format)
            except LogError:
                pass
            else:
                cause = fatal_line(path, shown, excused)
        if cause is not None:
            return FoundCause(cause, path)
    return None


def find_fatal_unread(log: Path, beside: Sequence[Path] = (), batch_output: Path | None = None) -> FoundCause | None:
    """The same of a log that has not been read yet; it is only where something fatal is in it.

    Raises:
        LogError: A file cannot be read.
    """
    if all(fatal_line(path, None) is None for path in (log, *_others(log, beside, batch_output))):
        return None
    log_format = detect_format(log)
    return find_fatal(log, read_log(log, log_format), log_format, beside, batch_output)


def _others(log: Path | LogFile, beside: Sequence[Path], batch_output: Path | None) -> list[Path]:
    """The files of a job besides its log that hold anything."""
    outputs = (*beside, *(() if batch_output is None else (batch_output,)))
    return [path for path in outputs if _is_another(path, _path(log))]


def _is_another(output: Path, log: Path) -> bool:
    """Whether there is an output that is not empty, and not the log itself."""
    try:
        found = output.stat()
        return stat.S_ISREG(found.st_mode) and found.st_size > 0 and not os.path.samestat(found, log.stat())
    except (OSError, ValueError):
        return False


def _path(log: Path | LogFile) -> Path:
    return log.path if isinstance(log, LogFile) else log


def fatal_line(
    log: Path | LogFile,
    steps: StepLog | None,
    excused: frozenset[str] = frozenset(),
    *,
    of_shell: bool = False,
    beside: Beside | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Cause | None:
    """The first fatal line of a file.

    Args:
        log: The log, or another file of the job.
        steps: The steps in it; ``None`` where it has none, and so no line a place among them.
        excused: As for :func:`find_fatal`.
        of_shell: Whether it is the batch shell's output of a job that Slurm calls COMPLETED, and so of all its starts.
        beside: What counts in it, where it is a file beside a log that shows the job's steps.
        block_bytes: How much to read at once; it does not change the result.

    Raises:
        LogError: The file cannot be read.
    """
    search = _Search(_path(log), steps, excused, of_shell, beside)
    try:
        with opened(log) as file:
            found = _searched(file, search, block_bytes)
            return None if found is None else found.cause(_path(log))
    except OSError as error:
        raise unreadable(_path(log), error) from error


def _searched(file: LogFile, search: _Search, block_bytes: int) -> CauseLine | None:
    for markers, start, stop in search.parts(file.size):
        for offset, record in matching_records(file, markers, start=start, stop=stop, block_bytes=block_bytes):
            found = search.look(offset, record[:LINE_BYTES])
            if found is not None:
                return found
        if search.has_steps and search.early is not None:
            return search.early
    offset, line = _unfinished_line(file)
    found = search.look(offset, line) if line else None
    return found or search.early


def _unfinished_line(file: LogFile) -> tuple[int, bytes]:
    """The last line, if nothing ends it, and where it begins: no step, but who was killed does not end its line."""
    start = max(0, file.size - LINE_BYTES)
    tail = file.read(start, LINE_BYTES)
    at = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
    return start + at, without_escapes(tail[at:])


class _Search:
    """The state of one search: what was seen so far that changes what later lines mean."""

    def __init__(
        self, path: Path, steps: StepLog | None, excused: frozenset[str], of_shell: bool, beside: Beside | None
    ) -> None:
        self._path = path
        self._beside = beside
        self._of_shell = of_shell
        self._excused = excused
        self.has_steps = steps is not None
        #: Where the run begins, where the first step is, and where the last ones begin.
        self._begin = self._first = self._last = 0
        #: Whether one line tells of the whole run, so that all of it stands before the "first step".
        self._is_summary = steps is not None and len(steps.steps) == 1
        if steps is not None and steps.steps:
            offsets, numbers = array("q"), array("q")
            for step in steps.steps:
                offsets.append(step.offset or 0)
                if step.index is not None:
                    numbers.append(step.index)
            self._first, self._last = min(offsets), nlargest(_lines_after(numbers), offsets)[-1]
            # Of an attempt before the last one nothing but broken hardware counts: the next had the same machines.
            self._begin = self._first if steps.attempts > 1 and self._is_summary else min(steps.begin, self._first)
        #: What broke before the first step; where there are no steps, the first cause of all.
        self.early: CauseLine | None = None
        self._hardware: CauseLine | None = None
        self._is_over = False
        #: The last traceback: its label, where it ends, and whether it is harmless; what is chained to it.
        self._traceback = (b"", 0, False)
        self._chained: frozenset[int] = frozenset()
        #: Whether it is harmless by what stands before it, and so what follows of it is, too.
        self._is_set_apart = False

    def parts(self, size: int) -> Iterator[tuple[Dialect, int, int]]:
        """The parts of the file, and what to look for in each: what stands before the first step, and the rest."""
        if self._begin < self._first:
            yield _MARKERS if self._is_summary else _EARLY_MARKERS, self._begin, self._first
        yield _MARKERS, self._first, self._last
        yield _LAST_MARKERS, self._last, size

    def look(self, offset: int, line: bytes) -> CauseLine | None:
        """Take the next line; the cause to tell, if the search is over by it."""
        if RUN_STOP in line and ENDED_WELL.search(line):
            self._is_over = True
            self.early = self._hardware
            return None
        found = self._of_traceback(offset, line) if TRACEBACK in line else self._of_line(offset, line)
        if found is None:
            return None
        name = found.signature.name
        if self.has_steps and name != LAST_WORDS:
            return found
        # What the batch shell's script itself logs tells that it got over an error, and over nothing more.
        if self._beside is not None and not self.has_steps and (not self._of_shell or name == LAST_WORDS):
            label, end, _ = self._traceback if TRACEBACK in line else (line, offset + len(line), False)
            if not self._beside.counts(name, line, label, end):
                return None
        if self._of_shell and _BEGAN_ANEW.search(line):
            # The job that COMPLETED is the one that Slurm started again behind this line.
            self.early = self._hardware = None
            return None
        # A cause that is known tells more than that there was an error.
        if self.early is None or self.early.signature.name == LAST_WORDS:
            self.early = found
        self._hardware = self._hardware or (found if name in HARDWARE else None)
        return None

    def _of_line(self, offset: int, line: bytes) -> CauseLine | None:
        found = cause_line(offset, line, _KNOWN if offset < self._last else _WITH_LAST_WORDS)
        if found is None or (found.signature.name == LAST_WORDS and self.early is not None):
            return None
        return found if self._counts(found) else None

    def _counts(self, found: CauseLine) -> bool:
        name, offset, line = found.signature.name, found.offset, found.text
        if offset < self._first:
            self._take_early(found)
            return False
        if (self._is_over and name not in HARDWARE) or self._is_excused(name, line):
            return False
        if name in WHEREVER:
            return True
        label, end, is_harmless = self._traceback
        return not (
            offset < self._last
            or (is_harmless and offset < end and line.startswith(label))
            or _WARNING.match(line)
            or (not self.has_steps and name in AT_START)
            or (name == LAST_WORDS and self._is_clean_up(offset, line))
        )

    def _is_clean_up(self, offset: int, line: bytes) -> bool:
        # Python tells what it ignores without a traceback where there is none.
        label = LABEL.match(line)
        before = line_before(self._path, offset, label[0] if label else b"")
        return CLEAN_UP.search(line) is not None or is_set_apart(before)

    def _is_excused(self, name: str, line: bytes) -> bool:
        """Whether a line of srun's or of slurmstepd's tells of a step that need not end well."""
        if name in {"a failed task", LAST_WORDS} and b"srun: " in line:
            return bool(self._excused)  # of which step it is, it does not say
        step = _CANCELLED_STEP.search(line) if name == "cancelled" else None
        # What slurmstepd says goes to its step's output: what is in the shell's is a helper's.
        return step is not None and (step[1].decode() in self._excused or self._of_shell)

    def _take_early(self, found: CauseLine) -> None:
        name = found.signature.name
        if name in _JOB_ENDS and not self._is_summary:
            self.early = None  # the job began anew behind it
        elif self.early is None and (
            (name in HARDWARE and found.signature.infrastructure) or (self._is_summary and name in WHEREVER)
        ):
            self.early = found

    def _of_traceback(self, offset: int, line: bytes) -> CauseLine | None:
        if offset < self._last or self._is_over or offset in self._chained:
            return None
        traceback = read_traceback(self._path, offset, line)
        follows = CHAIN.search(traceback.before) is not None and self._traceback[0] == traceback.label
        self._is_set_apart = (follows and self._is_set_apart) or is_set_apart(traceback.before)
        self._chained = traceback.chained
        is_harmless = self._is_set_apart or traceback.is_harmless
        self._traceback = (traceback.label, traceback.end, is_harmless)
        if is_harmless:
            return None
        known = cause_line(traceback.last_offset, traceback.last, _KNOWN)
        text = traceback.last or line
        return CauseLine(known.signature if known else _UNCAUGHT, traceback.last_offset, text, text)


def _lines_after(numbers: Sequence[int]) -> int:
    """How many lines of steps stand for :data:`STEPS_AFTER` steps; of the first, its last step may be all behind."""
    interval = min((after - before for before, after in pairwise(numbers)), default=1)
    return 1 + math.ceil((STEPS_AFTER - 1) / max(1, interval))


#: An exception of no known kind.
_UNCAUGHT = signature("an exception", "", "", "the traceback tells where; a rank that raises has not ended well")
