"""Tracebacks in logs, and those among them that say nothing against a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.logs.text import without_escapes

TRACEBACK = b"Traceback (most recent call last)"
#: What launchers write before each line of a rank.
LABEL = re.compile(rb"(?:\d{1,7}: |\S{0,40}/\d{1,5} |\[(?:default|rank|1,)\d{1,7}\](?:<std\w{3}>)?: ?){0,3}")
#: Its last line: ``ValueError: text``, or the name alone; lines of other processes may come between.
_EXCEPTION = re.compile(rb"[A-Za-z_][\w.]{0,120}(?:: |\Z)")
CHAIN = re.compile(rb"During handling of the above exception|The above exception was the direct cause")
_FRAME = re.compile(rb"\n {1,8}File \"([^\"\n]{1,1000})\", line ")
_BELOW = re.compile(
    rb"\A<frozen |/lib(?:64)?/python[\d.]{1,8}/(?!(?:site|dist)-packages/)"
    rb"|-packages/(?:requests|urllib3|httpx|httpcore|aiohttp|grpc)/"
)

#: How much of a file is looked at before and behind the head of a traceback, bytes.
_BEFORE_BYTES = 2048
_BEHIND_BYTES = 1 << 15
#: So many lines of other processes may come between two of one process.
_OTHER_LINES = 200
#: So many lines may follow an exception, as its message goes on, before another one is chained to it.
_MESSAGE_LINES = 5


@dataclass(frozen=True)
class Harmless:
    """A traceback that says nothing against a run.

    Attributes:
        before: What stands on the line before it, and so before all that are chained behind it.
        body: What stands in it; of several in a chain it is the last that counts, with which the chain ends.
        innermost: What raised it: the file of the last frame that is not Python's own, nor of what speaks HTTP.
        reason: Why it is harmless.
    """

    reason: str
    before: re.Pattern[bytes] | None = None
    body: re.Pattern[bytes] | None = None
    innermost: re.Pattern[bytes] | None = None


#: What logs of runs that ended well hold, nevertheless. That the line before a traceback warns is not among it: an
#: exception that ends a program often follows warnings ("retrying ...").
HARMLESS: tuple[Harmless, ...] = (
    Harmless(
        "Python was tearing down objects, and went on",
        before=re.compile(rb"Exception ignored (?:in|on|while)\b"),
    ),
    Harmless(
        "a hook that runs when the program has ended; its exit code is not changed by it",
        before=re.compile(rb"Error in atexit\._run_exitfuncs"),
    ),
    Harmless(
        "a line that could not be logged",
        before=re.compile(rb"--- Logging error ---"),
    ),
    Harmless(
        "a task of asyncio that nobody waited for any more",
        before=re.compile(rb"\A(?:\S{1,40} )?(?:future: <|handle: <)"),
    ),
    Harmless(
        "a thread that copies batches, and lost its worker when the loader was closed",
        body=re.compile(rb"in _pin_memory_loop|in do_one_step"),
    ),
    Harmless(
        "shared memory that two processes gave back; Python's tracker of it is a process of its own",
        body=re.compile(rb"multiprocessing/resource_tracker\.py"),
    ),
    Harmless(
        "temporary directories that a file server would not let go",
        body=re.compile(
            rb"multiprocessing/util\.py\", line \d{1,6}, in (?:_exit_function|_run_finalizers|_remove_temp_dir)"
        ),
    ),
    Harmless(
        "a helper process whose parent had ended",
        body=re.compile(
            rb"multiprocessing/(?:connection|managers|queues|resource_sharer|popen_\w{1,16})\.py\"[^\0]{0,16384}\n"
            rb"(?:BrokenPipeError|ConnectionResetError|ConnectionRefusedError|EOFError|OSError: \[Errno 9\])"
        ),
    ),
    Harmless(
        "a service that shows runs on the web could not be reached; it has no part in the training",
        # It may wrap the training, too (autologging, sweeps): that one of its frames stands somewhere says nothing.
        innermost=re.compile(rb"-packages/(?:wandb|tensorboardX?|mlflow|comet_ml|clearml|neptune|aim)/"),
    ),
    Harmless("an end with exit code 0", body=re.compile(rb"\nSystemExit: (?:0|None|False)\s{0,4}\Z")),
)


@dataclass(frozen=True)
class Traceback:
    """One traceback in a log, with those chained behind it, without the lines of other ranks between its own."""

    #: What its rank's lines begin with: ``[rank3]: ``.
    label: bytes
    #: The line before it.
    before: bytes
    #: Its own lines; of a chain those of its last traceback.
    body: bytes
    #: The exception that ends it, without the label; empty where the log ends before it.
    last: bytes
    last_offset: int
    end: int
    #: Where the heads of those are that are chained behind it.
    chained: frozenset[int] = frozenset()

    @property
    def is_harmless(self) -> bool:
        """Whether it is one that runs which end well print."""
        frames = (frame[1] for frame in _FRAME.finditer(self.body))
        innermost = next((file for file in reversed([*frames]) if not _BELOW.search(file)), b"")
        return is_set_apart(self.before) or any(
            (one.body is not None and one.body.search(self.body) is not None)
            or (one.innermost is not None and one.innermost.search(innermost) is not None)
            for one in HARMLESS
        )


def is_set_apart(before: bytes) -> bool:
    """Whether the line before an exception makes it one that runs which end well print."""
    return any(one.before is not None and one.before.search(before) is not None for one in HARMLESS)


def line_before(path: Path, offset: int, label: bytes) -> bytes:
    """The line before an offset that begins with a label and holds anything else; empty where there is none near it."""
    with path.open("rb") as file:
        start = max(0, offset - _BEFORE_BYTES)
        file.seek(start)
        ahead = file.read(offset - start).split(b"\n")
    return next((one for one in reversed(ahead) if one.startswith(label) and one[len(label) :].strip()), b"")


def read_traceback(path: Path, offset: int, line: bytes) -> Traceback:
    """The traceback whose head is in the line at an offset, and what is chained to it."""
    with path.open("rb") as file:
        file.seek(offset)
        behind = file.read(_BEHIND_BYTES).split(b"\n")
    lines = [without_escapes(one).rstrip(b"\r") for one in behind]
    label = head = line[: line.index(TRACEBACK)]
    if not any(one.startswith(label) for one in lines[1:_OTHER_LINES]):
        label = b""  # a logger's, that the lines behind it do not bear
    before = line_before(path, offset, label)
    body: list[bytes] = []
    chained: list[int] = []
    last, last_offset, end, at = b"", offset, offset, offset
    message_lines, is_chain = 0, False
    for number, one in enumerate(lines):
        begin, at = at, at + len(behind[number]) + 1
        if not number or not one.startswith(label):
            end = end if last else at
            continue
        text = one[len(label) :]
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
