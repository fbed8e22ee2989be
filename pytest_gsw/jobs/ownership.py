"""Who owns a run: one session at a time, on whichever machine it is.

The owner is the session that made the file ``owner.N`` with the highest N in the run's directory. Such a file is made
with its content in one step, by a hard link, and the next owner makes ``owner.N+1``: of two that both take the last one
for dead, exactly one succeeds, and no session ever takes a file away from under another. Without hard links the file is
made anew (``O_EXCL``), with the same guarantee; it is empty for a moment, and an empty one is an owner of unknown name.
``flock`` would not do: many shared file systems keep it within one machine, or have none.

A file tells machine, process and the process's start; its time of modification is the owner's last sign of life, by
the file server's own clock.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_gsw.common.files import write_new
from pytest_gsw.common.words import moment
from pytest_gsw.errors import ConfigurationError

#: How often an owner gives a sign of life.
BEAT_S = 60.0
#: An owner on another machine without a sign of life for this long is dead. On its own machine that is known at once.
DEAD_AFTER_S = 600.0

_NAME = "owner"
_FILE = re.compile(r"owner\.([0-9]{1,9})")
#: Where hard links are not to be had.
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL}
)
#: Owners within this process, which may well have several sessions.
_MINE: set[Path] = set()


@dataclass(frozen=True)
class Owner:
    """Which process owns a run."""

    host: str
    pid: int
    #: When the process started, in the kernel's ticks since its own start; 0 where that is not known.
    start: int
    #: The machine's kernel and the name space in which the process has this number.
    machine: str
    user: str
    #: When it took the run, seconds since the epoch.
    since_s: float
    released: bool = False

    @classmethod
    def this(cls) -> Owner:
        """What stands for this process from now on."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _start_of(pid) or 0, _machine(), _user(), time.time())


class RunLock:
    """A session's hold of a run: a sign of life each ``beat_s`` seconds.

    An owner on another machine that has given none for ``dead_after_s`` is dead.
    """

    def __init__(self, directory: Path, beat_s: float = BEAT_S, dead_after_s: float = DEAD_AFTER_S) -> None:
        self._directory = directory
        self._beat_s = beat_s
        self._dead_after_s = dead_after_s
        self._number = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def _path(self) -> Path:
        return self._directory / f"{_NAME}.{self._number}"

    def take(self, patience_s: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> None:
        """Become the owner, if need be after one that may be about to die, as a worker of this very session.

        Raises:
            ConfigurationError: Another session owns the run, or that cannot be told.
        """
        until_s = time.monotonic() + patience_s
        while True:
            try:
                problem = self._try()
            except OSError as error:
                raise ConfigurationError(
                    f"whether another session owns the run {self._directory.name} cannot be told: "
                    f"{error.strerror or error}: {error.filename or self._directory}\n"
                    "next: is the file system there, and may you write to it? ls -la " + str(self._directory)
                ) from None
            if problem is None:
                break
            if time.monotonic() >= until_s:
                raise ConfigurationError(problem)
            sleep(0.05)
        _MINE.add(self._path)
        self._thread = threading.Thread(target=self._beat, name="gsw-owner", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise an OSError where another session has taken the run over, as this one gave no sign of life for long."""
        if self._number and (self._directory / f"{_NAME}.{self._number + 1}").exists():
            raise OSError(errno.ESTALE, "another session has taken the run over", str(self._directory))

    def release(self) -> None:
        """Let go of the run; the file stays, and says so, so that numbers only grow."""
        if not self._number:
            return
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        _MINE.discard(self._path)
        with contextlib.suppress(OSError):
            if not (self._directory / f"{_NAME}.{self._number + 1}").exists():
                draft = _draft(self._directory, Owner(**{**asdict(Owner.this()), "released": True}))
                draft.replace(self._path)
        self._number = 0

    def _try(self) -> str | None:
        """One try; what is returned is why the run cannot be had, ``None`` when it is this session's."""
        highest = _highest(self._directory)
        while True:
            if highest:
                problem = _living(self._directory, highest, self._dead_after_s)
                if problem is not None:
                    return problem
            draft = _draft(self._directory, Owner.this())
            try:
                made = _make(draft, self._directory / f"{_NAME}.{highest + 1}")
            finally:
                draft.unlink(missing_ok=True)
            # A directory that another machine has changed may be seen late; that the file is there is certain.
            newest = max(_highest(self._directory), highest + 1)
            if not made:
                highest = newest
                continue
            if newest > highest + 1:
                (self._directory / f"{_NAME}.{highest + 1}").unlink(missing_ok=True)
                highest = newest
                continue
            self._number = newest
            for path, number in _files(self._directory):
                if number < newest:
                    path.unlink(missing_ok=True)
            return None

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            with contextlib.suppress(OSError):
                os.utime(self._path)  # by the file server's clock


def owner_of(directory: Path) -> str | None:
    """Why a run cannot be taken by this session now, in words; ``None`` if it can, an OSError if that is not told."""
    highest = _highest(directory)
    return _living(directory, highest, DEAD_AFTER_S) if highest else None


def _living(directory: Path, number: int, dead_after_s: float) -> str | None:
    """Who owns the run by this file, and what to do about it; ``None`` if that one is dead or has let go."""
    path = directory / f"{_NAME}.{number}"
    try:
        owner = _read(path)
        silent_s = _silent_s(path)
    except FileNotFoundError:  # gone meanwhile: the next try will see why
        return None
    if owner is not None and owner.released:
        return None
    known = None if owner is None else _is_alive(owner, path)
    if known is False or (known is None and silent_s >= dead_after_s):
        return None
    if owner is None:
        return (
            f"the run {directory.name} belongs to another session, and {path} does not tell which\n"
            f"next: wait; {_text(dead_after_s)} after its last change, {_text(silent_s)} ago, it counts for "
            "nothing"
        )
    who = f"process {owner.pid} of {owner.user} on {owner.host}, since {moment(owner.since_s)}"
    if known:
        advice = f"wait until it has ended, or end it (kill {owner.pid}), and resume then"
    else:
        advice = (
            f"wait until it has ended, or end it (kill {owner.pid} on {owner.host}), and resume then; if it is dead, "
            f"resume {_text(dead_after_s)} after its last sign of life, which was {_text(silent_s)} ago"
        )
    return f"the run {directory.name} belongs to another session: {who}\nnext: {advice}"


def _is_alive(owner: Owner, path: Path) -> bool | None:
    """Whether a process is there; ``None`` where it is another machine's, or another container's."""
    if not owner.machine or owner.machine != _machine():
        return None
    if owner.pid == os.getpid() and owner.start == _start_of(owner.pid):
        return path in _MINE
    return owner.start == _start_of(owner.pid)


def _silent_s(path: Path) -> float:
    """Seconds since the last sign of life, by the clock of the server on which the file is."""
    probe = path.with_name(f".probe.{uuid.uuid4().hex}")
    try:
        probe.touch(mode=0o600)
        now_s = probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
    return max(0.0, now_s - path.stat().st_mtime)


def _read(path: Path) -> Owner | None:
    """What an owner's file says; ``None`` where that is nothing that can be understood."""
    content = path.read_bytes()
    try:
        owner = Owner(**json.loads(content))
        time.localtime(owner.since_s)  # a time that cannot be shown is none
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return None
    kinds = {"host": str, "pid": int, "start": int, "machine": str, "user": str, "since_s": float, "released": bool}
    return owner if all(isinstance(getattr(owner, name), kind) for name, kind in kinds.items()) else None


def _draft(directory: Path, owner: Owner) -> Path:
    """A file of its own with what an owner's file says."""
    draft = directory / f".{_NAME}.{uuid.uuid4().hex}"
    write_new(draft, json.dumps(asdict(owner)).encode())
    return draft


def _make(draft: Path, path: Path) -> bool:
    """Give a file a second name, in one step; false if that name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return _is_same(draft, path)  # of a server whose answer was lost, and that was asked again
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _make_anew(draft, path)
    return True


def _make_anew(draft: Path, path: Path) -> bool:
    """The same where there are no hard links: of two that make a new file, one succeeds on every file system.

    Between its making and its content it says nothing. A session that dies there leaves a file that counts by its age.
    """
    try:
        write_new(path, draft.read_bytes())
    except FileExistsError:
        return False
    return True


def _is_same(draft: Path, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return draft.stat().st_ino == path.stat().st_ino
    return False


def _files(directory: Path) -> list[tuple[Path, int]]:
    found = ((entry, _FILE.fullmatch(entry.name)) for entry in directory.iterdir())
    return [(path, int(match[1])) for path, match in found if match is not None]


def _highest(directory: Path) -> int:
    return max((number for _, number in _files(directory)), default=0)


def _start_of(pid: int) -> int | None:
    """When a process of this machine started; ``None`` if there is none, or nothing but its exit code is left of it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in {b"Z", b"X"} else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _machine() -> str:
    """The kernel that runs, and the name space of processes: where a process's number means one process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - it is no path
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # one that no database knows, as in containers
        return str(os.getuid())


def _text(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
