"""Signs of failure in the log of a job that ended with exit code 0.

A script that goes on after its training has died (``|| true``, ``| tee``, a last ``echo``) ends with 0, and Slurm
reports COMPLETED. The log shows the failure. A line counts by its place and its subject:

- Failures of machines, the fabric or the job (Xid, ECC, a hung GPU, a collective's time-out, a failed task, a
  cancellation) count anywhere after the first step. Later steps prove nothing: ranks may train each on its own, and a
  buffered log shows steps late. Broken hardware counts before the first step, too.
- A program's own errors (an exception, no memory, no space) count after the last steps. Three steps or more after an
  error show that training recovered: frameworks try kernels that do not fit, and retry failed saves.
- Before the first step nothing else counts: training started all the same.
- Lines before the last attempt belong to that attempt, see :mod:`pytest_gsw.logs.steps`. Hardware that broke there
  counts unless the scheduler restarted the job.
- Output of the teardown after a finished run is no failure: :data:`HARMLESS`. A benchmark that reports its own end may
  also raise in its teardown.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from pytest_gsw.errors import LogError
from pytest_gsw.logs import signatures
from pytest_gsw.logs.model import Dialect, LogFormat, StepLog
from pytest_gsw.logs.reader import detect_format, read_log, reading
from pytest_gsw.logs.scan import LogFile, matching_records, opened, without_escapes
from pytest_gsw.logs.signatures import Cause, CauseLine, Signature, cause_line, signature

# -- bad ends --------------------------------------------------------------------------------------


#: Name of an error that no other signature matches.
LAST_WORDS = "an error"
_LOOK = "look at the lines before it: a program that ends like this has failed"
#: The place of an exception's name in a line: behind labels, times and levels, not in a sentence or in displayed code.
_BEFORE_NAME = r"\A {0,2}(?:\d{1,7}: {1,2})?|[\]>]:? {0,2}|/\d{1,5} |\bERROR\W{1,3}|\d:\d\d(?:[.,]\d{1,9})?Z? "
_CLASS = (
    r"(?:(?:\w{1,40}\.){0,6}(?:_?[A-Z]\w{0,60}Error|(?:[A-Z]\w{0,60})?Exception|TimeoutExpired|BrokenProcessPool)"
    r"|(?:\w{1,40}\.){0,6}(?:exc|exceptions|errors)\.[A-Z]\w{1,60}|KeyboardInterrupt|Stop(?:Async)?Iteration|GeneratorExit"
    r"|SystemExit(?!: (?:0|None|False)\b))"
)
#: Last lines of a program that did not end well, by subject: a pattern, and its markers.
_LAST_WORDS = {
    # An exception; a logged MeanSquaredError: 0.01 is none.
    rf"(?:{_BEFORE_NAME}|[:|)] | - ){_CLASS}(?:\(\w{{1,60}}\))?:(?! {{0,4}}[-\+]?\d{{0,9}}(?:\.\d|e[-\+]\d))"
    rf"|(?:{_BEFORE_NAME}){_CLASS}(?:\(['\"]|\s{{0,4}}\Z)"
    r"": "Error|xception|exc.|errors.|KeyboardInterrupt|Exit: |GeneratorExit|StopIteration|AsyncIteration|Expired"
    "|ProcessPool",
    r"\bTraceback\b|\bStack trace \(most|Error executing job|\b[Uu]n(?:handled|caught) (?:ex|[\w ]{0,20}error)"
    r"|(?:[Ss]tat(?:e|us)\W{1,3}|\.py`? |\b(?:[Tt]raining|[Jj]ob|[Rr]un|[Ee]xperiment|[Ww]orker)\b[\w .-]{0,60} )"
    r"(?:FAILED|failed|crashed)\b(?!\W{1,3}\d|['\"])": "Trace|trace (|rror| except|FAILED|failed|crashed",
    # A signal, and the shell's message about it.
    r"(?:\b[Rr]eceiv(?:ed|ing)|\b[Cc]aught|\b[Gg]ot|\b[Rr]aised|ed by|[Ee]xited on"
    r"|(?:[Dd]i|[Ff]ail|[Ee]xit)ed (?:with|from))\b[^\n]{0,30}?\b(?:[Ss]ignals?\b(?!-)|SIG[A-Z]{2,6}\b)"
    r"|\bSIG[A-Z]{2,6}\b[^\n]{0,12}\b(?:received|caught)|\*\*\* SIG[A-Z]|\bSignal: |\bUser defined signal": "SIG|ignal",
    r"\b(?:[Bb]us error|[Ss]egmentation fault|Illegal instruction|Floating point exc)|Killing subprocess"
    rf"|(?:{_BEFORE_NAME})Killed(?:: \d)?\s{{0,4}}\Z": "us error|egmentation fault|Illegal instruction|point exc|Kill",
    # A process that ended, or gave up.
    r"\b(?:[Pp]rocess|[Ww]orker) [^\n]{0,24}\d[^\n]{0,24}\b(?:killed|terminated|died|crashed)\b"
    r"(?! (?:success|normal|clean|with exit code 0))|DataLoader worker [^\n]{0,80}exited unexpectedly"
    r"|\b(?i:exit(?:ed|s)?[ _]?(?:with )?(?:an? )?(?:non-?zero )?(?:exit )?(?:code|status)\W{1,6}[1-9]"
    r"|exited with [1-9]|return ?code\W{1,6}[1-9])|\bdumped core\b|\bmake: \*\*\* "
    r"": "killed|terminate|died|crashed|unexpectedly|xit code|xit status|xitcode|xit_code|XIT|xited|xit with|xits with"
    "|eturncode|eturn code|dumped core|make: ***",
    r"(?<!\b0 )(?<!\bnot )(?<!\bno )(?<!['\"])\b(?:[Aa]bort(?:ed|ing)|ABORT(?:ED|ING)?)\b"
    r"(?!(?: \w{1,12})? {0,3}[:=] {0,3}(?:0|[Nn]o(?:ne)?|[Ff]alse)\b)|\bAbort\(\d|\bMPI_A(?:bort|BORT)\b": "bort|ABORT",
    r"(?<!\b[Nn]o )(?<!\b0 )(?<!\b[Nn]o[nt][ -])\b[Ff]atal\b(?!['\"=])|(?:FATAL|\bCRITICAL)(?=[\]:|]| {1,4}\S)"
    r"|(?:\A|[\s\[:>\]])F\d{3,4} \d\d:\d\d|\d: F [a-z]": "atal|FATAL|CRITICAL|F0|F10|F11|F12|[F|: F ",
    r"slurmstepd: error: (?:\*\*\* |task \d{1,7}: SIG|Exceeded)"
    r"|srun: (?:Force Terminated|forcing job|error: Timed out waiting for job step)"
    r"|NCCL operations have failed|entire process down|subsequent heartbeat"
    r"|\b(?:[Mm]onitor|[Ww]atchdog|[Hh]eartbeat) time(?:d |-)?out(?=[,.!;]|\s{0,4}\Z)"
    r"": "slurmstepd: error: |srun: |NCCL operations|process down|heartbeat|imed out|timeout|time-out",
    # The C library, C++, Rust and glog.
    r"\b(?:free|\w{0,9}alloc|munmap_chunk|malloc_consolidate|what)\(\): |\bcorrupted (?:size|top|double)"
    r"|\bdouble free\b|detected \*\*\*": "(): |corrupted|double free|detected ***",
    r"\bbad_alloc\b|pure virtual method|Assertion [^\n]{1,400} failed|\b[Pp]anic(?:ked at|:| -) "
    r"|enforce fail at |Check failed: |Non-OK-status: |symbol lookup error"
    r"": "bad_alloc|virtual|Assertion |anic|enforce|Check failed|Non-OK|symbol lookup",
    # Accelerators, drivers and the fabric.
    r"\bCUDA_ERROR_(?!SUCCESS)|\b(?:CU[A-Z]{2,8}|HSA)_STATUS_(?!SUCCESS)|\b(?:cuda|hip)Error(?!Success)[A-Z]"
    r"|\bnccl[A-Z][A-Za-z]{0,30}Error"
    r"|(?<!\b[Nn]o )\b(?:CUDA|HIP|[NR]CCL|NVSHMEM|UCX|XLA|NVLink|cu[A-Z]{3,4}) {1,2}(?:runtime )?"
    r"(?:[Ee]rror|ERROR|failure)\b(?! check)"
    r"|illegal memory access|device-side assert|GPU is lost|GPU requires reset|\bNVRM: (?:(?:A )?GPU|nvAssert)"
    r"|\bsegfault at |\bsoft lockup\b"
    r"": "rror|ERROR|_STATUS_|failure|illegal mem|device-side|GPU is lost|requires reset|NVRM: |segfault|soft lockup",
    r"\b(?:INTERNAL|DATA_LOSS|UNAVAILABLE|CANCELLED|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION): "
    r"|Polled an error from ": "INTERNAL: |LOSS: |UNAVAILABLE: |ED: |PRECONDITION: |Polled an error",
    r"(?<!\b0 )\b[Oo]ut of memory\b(?!['\"]|\W{1,3}0\b)|\bmlx5_core [^\n]{0,80}(?:[Ff]atal|[Ee]rror)"
    r"|\bX[Ii][Dd]\b(?: errors?)?[ :=]{1,3}[1-9]": "ut of memory|mlx5_core|Xid|XID",
}

#: Bad ends without a reason: they add nothing to a failed job's exit code, and so are no cause of a failure.
ENDINGS: tuple[Signature, ...] = (
    signatures.FAILED_TASK,
    signature(
        "a failed rank",
        "failed (exitcode: |exits with return code = |exited on signal |MPI_ABORT was invoked"
        "|exited with non-zero status|BAD TERMINATION|has exited due to|lost communication with",
        r"failed \(exitcode: -?[1-9]\d{0,3}\) local_rank|exits with return code = -?[1-9]"
        r"|\b(?:mpi|prte|orte)run noticed that process rank|MPI_ABORT was invoked on rank"
        r"|run detected that one or more processes exited with non-zero status"
        r"|BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|run has exited due to process rank"
        r"|has lost communication with a",
        "look at the lines before it: a rank of the training died",
    ),
    signature(
        "a killed process",
        "Killed|Aborted|(core dumped)|terminate|Fatal Python error|Terminating process because "
        "|Check failure stack trace",
        r"line \d{1,7}: {1,8}\d{1,9} (?:Killed|Aborted|Bus error|Illegal instruction)\b|\(core dumped\)"
        r"|terminate called (?:after throwing|without an active|recursively)|Fatal Python error: "
        r"|Terminating process because the JAX distributed service|\*\*\* Check failure stack trace: \*\*\*",
        "look at the lines before it, and at the node's dmesg: something of the run was killed or crashed",
    ),
    *(signature(LAST_WORDS, markers, pattern, _LOOK) for pattern, markers in _LAST_WORDS.items()),
)

#: Lines that resemble a failure, but report a recovery or an intention, or concern no part of the training.
CLEAN_UP = re.compile(
    rb"(?i:\b(?:fall(?:ing|s)? ?back|retrying|retried|will retry|ignor(?:ed|ing)|skipp(?:ed|ing)|proceeding|non-fatal"
    rb"|graceful(?:ly)?|(?:signal|SIG[A-Z]{2,6}) handlers?|no (?:\w{1,12} ){1,2}failed|not failed)\b)"
    rb"|NCCL (?:INFO|WARN)|\bwandb: |\[I\d{3,6} |\b(?:monitor|exporter|nvidia-smi)\b[^\n]{0,20}(?:received|got|caught)"
    rb"|(?:(?<!Error)[:=]|\bcount) {0,4}(?:0|[Nn]o(?:ne)?|[Ff]alse|null)\s{0,4}\Z"
)

#: Failures of machines, the fabric or Slurm, which count whatever follows; with the words of their patterns by which a
#: whole log is searched for them, if those are rarer than the markers.
WHEREVER: dict[str, str | None] = {
    "host out of memory": "Detected |: Out Of Memory|DefaultCPUAllocator|signal: Killed|Out of memory: Kill",
    "gloo time-out": "Timed out waiting ",
    "node failure": "Node failure on|DUE TO NODE FAILURE|are still not ready",
    "NCCL error": "NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError",
    "a failed task": ": Exited with |: Killed|: Aborted|: Bus error|: Segmentation fault|: Illegal instruction"
    "|: Floating point exception|: Out Of Memory",
    # All bytes of "ECC error" are frequent in the log of NCCL.
    "ECC error": "ncorrectable|ouble-bit|ouble bit",
    **dict.fromkeys(("GPU hang", "GPU error (Xid)", "GPU memory fault", "NCCL time-out")),
    **dict.fromkeys(("coordination service lost", "a failed rank")),
    **dict.fromkeys(("time limit", "preemption", "requeued", "cancelled")),
}


# -- tracebacks ------------------------------------------------------------------------------------


TRACEBACK = b"Traceback (most recent call last)"
#: Labels of launchers before each line of a rank.
LABEL = re.compile(rb"(?:\d{1,7}: |\S{0,40}/\d{1,5} |\[(?:default|rank|1,)\d{1,7}\](?:<std\w{3}>)?: ?){0,3}")
#: The last line of a traceback: ``ValueError: text``, or the name alone. Lines of other processes may precede it.
_EXCEPTION = re.compile(rb"[A-Za-z_][\w.]{0,120}(?:: |\Z)")
CHAIN = re.compile(rb"During handling of the above exception|The above exception was the direct cause")
_FRAME = re.compile(rb"\n {1,8}File \"([^\"\n]{1,1000})\", line ")
_LIBRARY_FILE = re.compile(
    rb"\A<frozen |/lib(?:64)?/python[\d.]{1,8}/(?!(?:site|dist)-packages/)"
    rb"|-packages/(?:requests|urllib3|httpx|httpcore|aiohttp|grpc)/"
)

#: A frame of a program that closes what it has used.
_TEARDOWN_FRAME = re.compile(
    rb"\", line \d{1,7}, in \w{0,40}(?:__del__|__exit__|clean_?up|close|destroy|finali[sz]e|shut_?down|tear_?down)"
)

#: Bytes read before and behind the head of a traceback.
_BEFORE_BYTES = 2048
_BEHIND_BYTES = 1 << 15
#: Upper limit on lines of other processes between two of one process.
_OTHER_LINES = 200
#: Upper limit on lines of an exception's message before another one is chained to it.
_MESSAGE_LINES = 5


class Harmless(NamedTuple):
    """A traceback that is no sign of failure, by one of its parts."""

    #: The line before it, and so before all that are chained to it; its lines, in a chain those of the last traceback,
    #: with which the chain ends; or the file that raised: that of the last frame outside Python and HTTP libraries.
    part: Literal["before", "body", "innermost"]
    pattern: bytes


#: Tracebacks in logs of runs that ended well. A warning on the line before is no criterion: an exception that ends a
#: program often follows warnings ("retrying ...").
HARMLESS: tuple[Harmless, ...] = (
    # Python was deleting objects, and went on.
    Harmless("before", rb"Exception ignored (?:in|on|while)\b"),
    # A hook that runs after the program has ended; it does not change the exit code.
    Harmless("before", rb"Error in atexit\._run_exitfuncs"),
    # A line that could not be logged.
    Harmless("before", rb"--- Logging error ---"),
    # A task of asyncio that was no longer awaited.
    Harmless("before", rb"\A(?:\S{1,40} )?(?:future: <|handle: <)"),
    # A thread that copies batches, and lost its worker when the loader was closed.
    Harmless("body", rb"in _pin_memory_loop|in do_one_step"),
    # Shared memory that two processes returned; Python's tracker of it is a process of its own.
    Harmless("body", rb"multiprocessing/resource_tracker\.py"),
    # Temporary directories that a file server did not release.
    Harmless(
        "body", rb"multiprocessing/util\.py\", line \d{1,6}, in (?:_exit_function|_run_finalizers|_remove_temp_dir)"
    ),
    # A helper process whose parent had ended.
    Harmless(
        "body",
        rb"multiprocessing/(?:connection|managers|queues|resource_sharer|popen_\w{1,16})\.py\"[^\0]{0,16384}\n"
        rb"(?:BrokenPipeError|ConnectionResetError|ConnectionRefusedError|EOFError|OSError: \[Errno 9\])",
    ),
    # An unreachable web service that displays runs; it has no part in the training. Its autologging and sweeps may wrap
    # the training: a frame of it elsewhere in the traceback proves nothing.
    Harmless("innermost", rb"-packages/(?:wandb|tensorboardX?|mlflow|comet_ml|clearml|neptune|aim)/"),
    # An end with exit code 0.
    Harmless("body", rb"\nSystemExit: (?:0|None|False)\s{0,4}\Z"),
)


@dataclass(frozen=True)
class Traceback:
    """One traceback in a log, with those chained to it, without the lines of other ranks between its own."""

    #: Label of its rank's lines: ``[rank3]: ``.
    label: bytes
    #: The line before it.
    before: bytes
    #: Its own lines; in a chain, those of the last traceback.
    body: bytes
    #: The exception that ends it, without the label; empty if the log ends before it.
    last: bytes
    last_offset: int
    end: int
    #: Byte offsets of the heads that are chained to it.
    chained: frozenset[int] = frozenset()

    @property
    def is_harmless(self) -> bool:
        """True if runs that end well print such tracebacks."""
        frames = (frame[1] for frame in _FRAME.finditer(self.body))
        innermost = next((file for file in reversed([*frames]) if not _LIBRARY_FILE.search(file)), b"")
        return is_set_apart(self.before) or _is_harmless("body", self.body) or _is_harmless("innermost", innermost)

    @property
    def is_teardown(self) -> bool:
        """True if a program raised it, and nothing before it, while it closed what it had used."""
        is_alone = bool(self.last) and not self.chained and _UNCAUGHT_LABEL.search(self.label) is None
        return is_alone and _TEARDOWN_FRAME.search(self.body) is not None


def is_set_apart(before: bytes) -> bool:
    """True if the line before an exception shows that the exception is no sign of failure."""
    return _is_harmless("before", before)


def _is_harmless(part: str, text: bytes) -> bool:
    return any(harmless.part == part and re.search(harmless.pattern, text) for harmless in HARMLESS)


def line_before(path: Path, offset: int, label: bytes) -> bytes:
    """The last line before an offset that has the label and more; empty if there is none near."""
    with path.open("rb") as file:
        start = max(0, offset - _BEFORE_BYTES)
        file.seek(start)
        ahead = file.read(offset - start).split(b"\n")
    return next((one for one in reversed(ahead) if one.startswith(label) and one[len(label) :].strip()), b"")


def read_traceback(path: Path, offset: int, line: bytes) -> Traceback:
    """The traceback with its head in the line at an offset, and those chained to it."""
    with path.open("rb") as file:
        file.seek(offset)
        behind = file.read(_BEHIND_BYTES).split(b"\n")
    lines = [without_escapes(raw_line).rstrip(b"\r") for raw_line in behind]
    label = head = line[: line.index(TRACEBACK)]
    if not any(raw_line.startswith(label) for raw_line in lines[1:_OTHER_LINES]):
        label = b""  # a logger's label, which the lines after it lack
    before = line_before(path, offset, label)
    body: list[bytes] = []
    chained: list[int] = []
    last, last_offset, end, at = b"", offset, offset, offset
    message_lines, is_chain = 0, False
    for number, raw_line in enumerate(lines):
        begin, at = at, at + len(behind[number]) + 1
        if not number or not raw_line.startswith(label):
            end = end if last else at
            continue
        text = raw_line[len(label) :]
        if not last:
            body.append(text)
            end = at
            if _EXCEPTION.match(text):
                last, last_offset, message_lines, is_chain = text, begin, 0, False
        elif is_chain and text.startswith(TRACEBACK):
            chained.append(begin)
            body, last, end = [], b"", at
        elif CHAIN.search(text):
            is_chain = True
        elif text.strip():
            message_lines += 1
            if is_chain or text.startswith(TRACEBACK) or message_lines > _MESSAGE_LINES:
                break
    text = b"\n" + b"\n".join(body)
    return Traceback(label, before + b" " + head, text, last, last_offset, end, frozenset(chained))


# -- files next to a complete log ------------------------------------------------------------------


#: Bytes at the file's end that are searched for the last logged line.
_TAIL_BYTES = 1 << 18
#: The task's label of ``srun --label``.
_TASK_LABEL = re.compile(rb"\A {0,8}\d{1,7}: ")
#: PyTorch writes this before an uncaught exception, which ends the process whatever others print.
_UNCAUGHT_LABEL = re.compile(rb"\[rank\d{1,7}\]: ")
#: An elastic launcher's messages: a rank failed; all ranks are restarted.
_FAILED_RANK = b"failed (exitcode: "
_RESTART = b"will restart worker group"
#: The shell's message about a killed command; scripts end their monitors so.
_KILLED_COMMAND = re.compile(
    rb"line \d{1,7}: {1,8}\d{1,9} (?:Killed|Aborted|Bus error|Illegal instruction|Segmentation fault)\b(.{0,2000})"
)
_TRAINS = re.compile(rb"python|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|ft_launcher")
#: Parts of a running program's log lines: a time, a level, a warning, a bar. Lines of a multi-line message mostly lack
#: them.
_LOG_LINE = re.compile(
    rb"\d\d:\d\d:\d\d|\b(?:INFO|DEBUG|WARN|WARNING)\b|Warning: |\d{1,3}%\||\[NeMo [IWD] |\A(?:\d{1,7}: )?[IW]\d{4} "
)
#: DeepSpeed's launcher as it ends; the reason is in a line of a higher level, or of a rank.
_LAUNCHER = re.compile(rb"\bINFO\b[^\n]{0,40}\blaunch\.py")
#: Messages of ranks and launchers at their end: they do not show that a process went on.
_TEARDOWN = re.compile(
    rb"\b(?:ERROR|FATAL|CRITICAL)\b|\[[EF]\d{3,6} |\[rank\d{1,7}\]|resource_tracker|destroy_process_group|leaked"
    rb"|\b(?:SIG|sig)(?:TERM|KILL|term|kill)|Killing subprocess|launch(?:er)?\.py"
    rb"|torch[./]distributed|elastic|srun: |slurmstepd: |wandb|[Ss]hut(?:ting)? ?down|disconnect"
)


class OutputScan:
    """Signs of failure in a job's stderr or other output, which has no steps to date a line by.

    The log has shown that training reached its last step. A program's own message (an exception, no memory, a killed
    process) therefore counts only as the last of its process: a process that logs more has recovered. Failures of
    machines, the fabric or Slurm count anywhere.

    Args:
        path: The file.
        of_shell: True for the batch shell's output of a COMPLETED job, which covers all of the job's starts.
    """

    def __init__(self, path: Path, *, of_shell: bool) -> None:
        self._path, self.of_shell = path, of_shell
        self._last_logged: dict[bytes, int] = {}

    def counts(self, cause: str, line: bytes, label: bytes, end: int) -> bool:
        """True if a cause counts.

        Args:
            cause: Its name.
            line: The line of the cause, or the first line of its traceback.
            label: The label of the process in a traceback, else the line itself.
            end: Byte offset at which the line or the traceback ends.

        Raises:
            OSError: The file cannot be read.
        """
        if cause == LAST_WORDS and _LAUNCHER.search(line):
            return False
        if cause in WHEREVER and _FAILED_RANK not in line:
            return True
        if _FAILED_RANK in line or _UNCAUGHT_LABEL.search(label) is not None:
            return end > self._last_restart
        command = _KILLED_COMMAND.search(line)
        if command is not None:
            return not command[1].strip() or _TRAINS.search(command[1]) is not None
        task = _TASK_LABEL.search(label)
        return end > self._find_last_logged(task[0] if task else b"")

    @cached_property
    def _last_restart(self) -> int:
        """Byte offset of the launcher's last message that it restarts all ranks; -1 if there is none."""
        return max((offset for offset, _ in matching_records(self._path, (_RESTART,))), default=-1)

    def _find_last_logged(self, label: bytes) -> int:
        """Byte offset of the last line that a process logged while it ran; -1 if there is none."""
        if label not in self._last_logged:
            offsets = [
                offset
                for offset, line in self._tail
                if line.startswith(label)
                and not line[len(label) :].startswith((b" ", b"\t"))
                and _LOG_LINE.search(line)
                and not _TEARDOWN.search(line)
            ]
            self._last_logged[label] = max(offsets, default=-1)
        return self._last_logged[label]

    @cached_property
    def _tail(self) -> list[tuple[int, bytes]]:
        with self._path.open("rb") as file:
            at = max(0, file.seek(0, 2) - _TAIL_BYTES)
            file.seek(at)
            data = file.read(_TAIL_BYTES)
        places = [at, *(at + match.end() for match in re.finditer(rb"[\r\n]", data))]
        lines = (without_escapes(line) for line in re.split(rb"[\r\n]", data))
        return [(place, line[:4000]) for place, line in zip(places, lines, strict=True)]


# -- restarted jobs --------------------------------------------------------------------------------


_REQUEUE_MARKS = (b"CANCELLED AT", b"SLURM_RESTART_COUNT=")
_REQUEUE = re.compile(
    rb"\*\*\* (?:JOB|STEP) \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
    rb"|\bSLURM_RESTART_COUNT=[1-9]\d{0,5}\b"
)


def is_requeued(path: Path, start: int, stop: int) -> bool:
    """True if Slurm's messages in a part of a log show that the scheduler restarted the job.

    Source: ``src/slurmd/slurmstepd/req.c``: ``*** JOB 12 ON node7 CANCELLED AT (the time) DUE TO JOB REQUEUE ***``,
    likewise ``DUE TO PREEMPTION`` and ``DUE TO NODE FAILURE, …``. ``SLURM_RESTART_COUNT`` is set in requeued jobs, and
    a recipe that prints its environment shows it.

    Args:
        path: The log.
        start: Byte offset at which the part begins.
        stop: Byte offset at which it ends.

    Raises:
        OSError: The log cannot be read.
    """
    return any(_REQUEUE.search(record) for _, record in matching_records(path, _REQUEUE_MARKS, start=start, stop=stop))


# -- the search ------------------------------------------------------------------------------------


#: So many steps after a program's own error show that training recovered. After the death of one rank the others may
#: still print a finished step or two.
STEPS_AFTER = 3

#: Broken hardware, which counts before the first step as well unless the program was at fault.
HARDWARE = frozenset({"ECC error", "GPU hang", "GPU error (Xid)"})
#: Errors that would have prevented the first step, which this run reached; they count in the log itself alone.
AT_START = frozenset(
    {
        *("container import", "model access refused", "GPUs not requested", "no GPU found"),
        *("no container plugin", "MPI plugin not found", "task layout refused"),
        *("port in use", "rendezvous failed", "module not found"),
    }
)
#: Errors of a run that never trained, or of another program that its script runs.
_NEVER_STARTED = frozenset({"submission refused", "script not found", "command not found"})
#: Ends of a job after which a new attempt begins.
_JOB_ENDS = frozenset({"node failure", "preemption", "requeued"})


_JOB_RESTART = re.compile(
    rb"\*\*\* JOB \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40} DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)"
)
#: Stands for a helper that Slurm ended with the job, if no record has the job's steps.
UNNAMED_STEP = "?"
_CANCELLED_STEP = re.compile(rb"\*\*\* STEP \d{1,12}\.(\w{1,20}) ON ")
#: The level of a logged line: a warning is no failure.
_WARNING = re.compile(
    rb"\A[^\n]{0,160}?(?:\b(?:WARN|WARNING|DEBUG)\b|\b[A-Z][A-Za-z]{0,40}Warning: |\bW\d{3,6} |\d: W |\[NeMo [WD] )"
)
#: Causes of a failed job that are also possible for a run with all its steps.
_POSSIBLE = tuple(entry for entry in signatures.SIGNATURES if entry.name not in _NEVER_STARTED)
_WITH_LAST_WORDS = (*_POSSIBLE, *ENDINGS)
_NAMED_CAUSES = tuple(entry for entry in _WITH_LAST_WORDS if entry.name != LAST_WORDS)


def _markers(known: Iterable[Signature], names: Collection[str]) -> Dialect:
    named = [(entry.markers, WHEREVER[entry.name]) for entry in known if entry.name in names]
    return tuple(dict.fromkeys(mark for own, words in named for mark in (words.encode().split(b"|") if words else own)))


WHEREVER_MARKERS = _markers(_NAMED_CAUSES, WHEREVER)
_LAST_MARKERS = (TRACEBACK, *dict.fromkeys(mark for entry in _WITH_LAST_WORDS for mark in entry.markers))
_EARLY_MARKERS = (b"CANCELLED AT", *_markers(_POSSIBLE, HARDWARE))


def find_fatal(
    log: Path | LogFile,
    steps: StepLog,
    log_format: LogFormat,
    outputs: Sequence[Path] = (),
    batch_output: Path | None = None,
    excused: frozenset[str] = frozenset(),
) -> Cause | None:
    """The first line that a run which ended well cannot have printed; ``None`` if there is none.

    Args:
        log: The run's log.
        steps: The steps read from it.
        log_format: The log's format; other files may hold the same steps.
        outputs: Other output files of the same job step, such as its stderr.
        batch_output: The batch shell's output, if there is one.
        excused: Numbers of the job's helper steps, whose failure Slurm reports and which need not end well.

    Raises:
        LogError: The log cannot be read.
    """
    cause = fatal_line(log, steps, excused)
    if cause is not None:
        return cause
    for path in _other_outputs(log, outputs, batch_output):
        cause = fatal_line(path, None, excused, OutputScan(path, of_shell=path == batch_output))
        if cause is not None:
            # A script that displays its log (tee) has the steps, and with them their places, in this file, too.
            with contextlib.suppress(LogError):
                cause = fatal_line(path, read_log(path, log_format), excused)
        if cause is not None:
            return cause
    return None


def find_fatal_unread(log: Path, outputs: Sequence[Path] = (), batch_output: Path | None = None) -> Cause | None:
    """The same for a log that has not been read yet; it is read only if it holds a fatal line.

    Raises:
        LogError: A file cannot be read.
    """
    if all(fatal_line(path, None) is None for path in (log, *_other_outputs(log, outputs, batch_output))):
        return None
    log_format = detect_format(log)
    return find_fatal(log, read_log(log, log_format), log_format, outputs, batch_output)


def _other_outputs(log: Path | LogFile, outputs: Sequence[Path], batch_output: Path | None) -> list[Path]:
    """The files of a job besides its log that are not empty."""
    files = (*outputs, *(() if batch_output is None else (batch_output,)))
    return [path for path in files if _is_another(path, _path(log))]


def _is_another(output: Path, log: Path) -> bool:
    """True if an output is not empty, and is not the log itself."""
    try:
        status = output.stat()
        return stat.S_ISREG(status.st_mode) and status.st_size > 0 and not os.path.samestat(status, log.stat())
    except (OSError, ValueError):
        return False


def _path(log: Path | LogFile) -> Path:
    return log.path if isinstance(log, LogFile) else log


def fatal_line(
    log: Path | LogFile,
    steps: StepLog | None,
    excused: frozenset[str] = frozenset(),
    output_scan: OutputScan | None = None,
) -> Cause | None:
    """The first fatal line of a file.

    Args:
        log: The log, or another file of the job.
        steps: The steps in it; ``None`` if it has none that date its lines.
        excused: As for :func:`find_fatal`.
        output_scan: The rules for a file next to a log that shows the job's steps.

    Raises:
        LogError: The file cannot be read.
    """
    search = _Search(_path(log), steps, excused, output_scan)
    with reading(_path(log)), opened(log) as file:
        line = _search(file, search)
        return None if line is None else line.cause(_path(log))


def _search(file: LogFile, search: _Search) -> CauseLine | None:
    for markers, start, stop in search.parts(file.size):
        for offset, record in matching_records(file, markers, start=start, stop=stop):
            cause = search.look(offset, record[: signatures.LINE_BYTES])
            if cause is not None:
                return cause
        if search.has_steps and search.early is not None:
            return search.early
    offset, line = _unfinished_line(file)
    cause = search.look(offset, line) if line else None
    return cause or search.early


def _unfinished_line(file: LogFile) -> tuple[int, bytes]:
    """The unfinished last line, and its byte offset: it is no step, but a killed process leaves one."""
    start = max(0, file.size - signatures.LINE_BYTES)
    tail = file.read(start, signatures.LINE_BYTES)
    at = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
    return start + at, without_escapes(tail[at:])


class _Search:
    """State of one search: findings that change the meaning of later lines."""

    def __init__(
        self, path: Path, steps: StepLog | None, excused: frozenset[str], output_scan: OutputScan | None
    ) -> None:
        self._path, self._output_scan, self._excused = path, output_scan, excused
        self._of_shell = output_scan is not None and output_scan.of_shell
        self.has_steps = steps is not None
        #: Byte offsets of the run's beginning, of the first step, and of the first of the last steps.
        self._begin = self._first = self._last = 0
        #: True if one line covers the whole run: all of the run is then before the "first step".
        self._is_summary = steps is not None and len(steps.steps) == 1
        if steps is not None and steps.steps:
            offsets, numbers = array("q"), array("q")
            for step in steps.steps:
                offsets.append(step.offset or 0)
                if step.index is not None:
                    numbers.append(step.index)
            self._first, self._last = min(offsets), nlargest(_lines_after(numbers), offsets)[-1]
            # Earlier attempts count only for broken hardware: the next attempt had the same machines.
            self._begin = self._first if steps.attempts > 1 and self._is_summary else min(steps.begin, self._first)
        elif steps is not None:
            self._first = self._last = steps.benchmark_at[0]
            self._begin = min(steps.begin, self._first)
        #: Byte offset behind which the program has done its work.
        self._ended_at = math.inf if steps is None or steps.benchmark_at[1] is None else steps.benchmark_at[1]
        #: A failure before the first step; without steps, the first cause of all.
        self.early: CauseLine | None = None
        #: The last traceback: its label, its end, and True if it is harmless; and the heads chained to it.
        self._traceback = (b"", 0, False)
        self._chained_heads: frozenset[int] = frozenset()
        #: True if the line before it makes it harmless, and so the rest of its chain.
        self._is_set_apart = False

    def parts(self, size: int) -> Iterator[tuple[Dialect, int, int]]:
        """The parts of the file, and the markers of each: the part before the first step, and the rest."""
        if self._begin < self._first:
            yield WHEREVER_MARKERS if self._is_summary else _EARLY_MARKERS, self._begin, self._first
        yield WHEREVER_MARKERS, self._first, self._last
        yield _LAST_MARKERS, self._last, size

    def look(self, offset: int, line: bytes) -> CauseLine | None:
        """Read the next line, and return the cause if it ends the search."""
        cause = self._traceback_cause(offset, line) if TRACEBACK in line else self._line_cause(offset, line)
        if cause is None:
            return None
        name = cause.signature.name
        if self.has_steps and name != LAST_WORDS:
            return cause
        # Later log lines of the batch shell's script show that it survived an unspecific error, and no more than that.
        if self._output_scan is not None and not self.has_steps and (not self._of_shell or name == LAST_WORDS):
            label, end, _ = self._traceback if TRACEBACK in line else (line, offset + len(line), False)
            if not self._output_scan.counts(name, line, label, end):
                return None
        if self._of_shell and _JOB_RESTART.search(line):
            # The job that COMPLETED is the one that Slurm restarted after this line.
            self.early = None
            return None
        # A specific cause has more information than an unknown error.
        if self.early is None or self.early.signature.name == LAST_WORDS:
            self.early = cause
        return None

    def _line_cause(self, offset: int, line: bytes) -> CauseLine | None:
        cause = cause_line(offset, line, _NAMED_CAUSES if offset < self._last else _WITH_LAST_WORDS)
        if cause is None or (cause.signature.name == LAST_WORDS and self.early is not None):
            return None
        return cause if self._counts(cause) else None

    def _counts(self, found: CauseLine) -> bool:
        name, offset, line = found.signature.name, found.offset, found.text
        if offset < self._first:
            self._take_early(found)
            return False
        if self._is_excused(name, line):
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
        # Without a traceback Python names an ignored exception on the line before.
        label = LABEL.match(line)
        before = line_before(self._path, offset, label[0] if label else b"")
        return CLEAN_UP.search(line) is not None or is_set_apart(before)

    def _is_excused(self, name: str, line: bytes) -> bool:
        """True if a line of srun or slurmstepd is about a step that need not end well."""
        if name in {"a failed task", LAST_WORDS} and b"srun: " in line:
            # srun's line has no step number. Slurm counts a failed task in the job's worst exit code.
            return bool(self._excused if name == LAST_WORDS else self._excused - {UNNAMED_STEP})
        step = _CANCELLED_STEP.search(line) if name == "cancelled" else None
        # slurmstepd writes into its step's output: its lines in the shell's output are of a helper.
        return step is not None and (step[1].decode() in self._excused or self._of_shell)

    def _take_early(self, found: CauseLine) -> None:
        name = found.signature.name
        if name in _JOB_ENDS and not self._is_summary:
            self.early = None  # the job was restarted after it
        elif self.early is None and (
            (name in HARDWARE and found.signature.infrastructure) or (self._is_summary and name in WHEREVER)
        ):
            self.early = found

    def _traceback_cause(self, offset: int, line: bytes) -> CauseLine | None:
        if offset < self._last or offset in self._chained_heads:
            return None
        traceback = read_traceback(self._path, offset, line)
        follows = CHAIN.search(traceback.before) is not None and self._traceback[0] == traceback.label
        self._is_set_apart = (follows and self._is_set_apart) or is_set_apart(traceback.before)
        self._chained_heads = traceback.chained
        known = cause_line(traceback.last_offset, traceback.last, _NAMED_CAUSES)
        is_teardown = known is None and offset > self._ended_at and traceback.is_teardown
        is_harmless = self._is_set_apart or traceback.is_harmless or is_teardown
        self._traceback = (traceback.label, traceback.end, is_harmless)
        if is_harmless:
            return None
        text = traceback.last or line
        return CauseLine(known.signature if known else _UNCAUGHT, traceback.last_offset, text, text)


def _lines_after(numbers: Sequence[int]) -> int:
    """Number of step lines that cover :data:`STEPS_AFTER` steps; the first line may count for its last step alone."""
    interval = min([after - before for before, after in pairwise(numbers)], default=1)
    return 1 + math.ceil((STEPS_AFTER - 1) / max(1, interval))


#: An exception of no known kind.
_UNCAUGHT = signature("an exception", "", "", "the traceback shows where; a rank that raises has not ended well")
