"""One owner of a run: a lease on a file in the run's directory, for sessions on any machine.

The owner touches the file every few seconds. Another session takes over at once if the owner's process has ended on
the same machine, else after a whole lease without a touch. It measures that by its own clock: the clocks of two
machines need not agree. An owner that was frozen for so long notices before it submits.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from filelock import LeaseSettingsMismatch, SoftFileLease, Timeout

from pytest_gsw.common.files import open_own
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, TakenOverError

#: The name of the file.
NAME = "owner.lock"
#: Interval of the owner's touches: a second session is refused after this time.
BEAT_S = 5.0
#: An owner without a touch for this long is dead. A file server's clients may see a touch a minute late.
LEASE_S = 180.0
#: Time for two tries: one removes a dead owner's file, and one makes a new one.
_TRY_S = 0.2


class RunLock:
    """A session's ownership of a run, until it is released or the object is gone."""

    def __init__(self, directory: Path, lease_s: float = LEASE_S, beat_s: float = BEAT_S) -> None:
        self._path = directory / NAME
        self._beat_s, self._wait_s = beat_s, lease_s + beat_s
        #: Time at which the file last named this session, seconds since the epoch.
        self._checked_s = -math.inf
        self._lease = SoftFileLease(
            self._path,
            lease_duration=lease_s,
            heartbeat_interval=beat_s,
            mode=0o600,
            thread_local=False,
            poll_interval=0.05,
        )

    def take(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Become the owner, after the earlier one gave no sign of life for a whole lease.

        Args:
            tell: Called with a line before the wait for an owner.

        Raises:
            ConfigurationError: Another session owns the run, or the owner is unknown.
        """
        try:
            try:
                self._lease.acquire(timeout=_TRY_S)
            except Timeout:
                seen = self._sign_of_life()
                if seen is not None:
                    tell(f"gsw: {self._owner()}; waiting up to {self._wait_s:.0f} s for its sign of life")
                self._lease.acquire(timeout=self._wait_s, cancel_check=lambda: self._sign_of_life() not in {seen, None})
        except (Timeout, LeaseSettingsMismatch):
            raise ConfigurationError(f"{self._owner()}\nnext: {self._advice()}") from None
        except OSError as error:
            raise ConfigurationError(
                f"the owner of the run {self._path.parent.name} is unknown: "
                f"{error.strerror or error}: {error.filename or self._path}\n"
                f"next: is the file system there, and may you write to it? ls -la {self._path.parent}"
            ) from None

    def check(self) -> None:
        """Raise a TakenOverError if another session may own the run, because this one gave no sign of life for a lease.

        The file is read again only after the time between two touches: nobody loses a lease in it.
        """
        now_s = time.time()
        if 0 <= now_s - self._checked_s < self._beat_s:
            return
        owner = self._lease.owner
        if self._lease.compromise or owner is None or owner.token != self._lease.token:
            raise TakenOverError("another session has taken the run over")
        self._checked_s = now_s

    def release(self) -> None:
        """Release the run."""
        with contextlib.suppress(OSError):
            self._lease.release()

    def is_free(self) -> bool:
        """True if no session owns the run: no file, no recent touch, or a process that has ended."""
        sign = self._sign_of_life()
        if sign is None or time.time() - sign[1] / 1e9 >= self._lease.lease_duration:
            return True
        try:
            self._lease.acquire(timeout=_TRY_S)
        except (Timeout, LeaseSettingsMismatch):
            return False
        self._lease.release()
        return True

    def _sign_of_life(self) -> tuple[int, int] | None:
        """A value that another touch or owner changes; ``None`` without an owner."""
        try:
            facts = os.lstat(self._path)
        except FileNotFoundError:
            return None
        # A link or a pipe is no session's; the lease removes it.
        return (facts.st_ino, facts.st_mtime_ns) if stat.S_ISREG(facts.st_mode) else None

    def _owner(self) -> str:
        owner = self._lease.owner
        who = f": process {owner.pid} on {redact(owner.hostname)}" if owner is not None else ""
        return f"the run {self._path.parent.name} belongs to another session{who}"

    def _advice(self) -> str:
        owner = self._lease.owner
        if owner is None:
            return f"{self._path} does not name it; if no session of the run is left, remove it, and resume again"
        return f"wait until it has ended, or end it (kill {owner.pid} on {redact(owner.hostname)}), and resume then"


# -- Submissions that outlive their session ---------------------------------------------------------
#
# A killed session's sbatch may still be connected to the controller. Each submission holds a shared lock on a file of
# the run, by a descriptor that it inherits; the kernel releases it when the last of them has ended, however its
# session ended. Once a session has the exclusive lock, no submission of the run is under way any more, and a job that
# Slurm does not list was not submitted.


#: Longest wait for a submission to end by itself; sbatch gives up long before.
PATIENCE_S = 150.0


class SubmissionLock:
    """The lock of one run's submissions, on this machine.

    The file is in the machine's own directory for temporary files, not in the run's: locks on
    shared file systems do not pass on to child processes.
    """

    def __init__(self, run_id: str) -> None:
        self._path = Path(tempfile.gettempdir()) / f"pytest-gsw-{os.getuid()}-{run_id}.lock"
        self._descriptor: int | None = None
        self._opening = threading.Lock()

    def descriptor(self) -> int:
        """A descriptor that holds the shared lock, for submissions to inherit."""
        with self._opening:
            while self._descriptor is None:
                descriptor = open_own(self._path, os.O_RDWR)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                if self._is_there(descriptor):
                    self._descriptor = descriptor
                else:
                    os.close(descriptor)  # the file was removed meanwhile
            return self._descriptor

    def wait_for_orphans(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait until no submission of an earlier session is under way; false if one exceeds the timeout."""
        if self._is_held():
            return True  # this session submits already: it has waited before
        descriptor = open_own(self._path, os.O_RDWR)
        deadline_s = time.monotonic() + patience_s
        try:
            while time.monotonic() < deadline_s:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if self._is_held():
                        return True  # it is this session's own by now
                    time.sleep(0.05)
                else:
                    self._remove(descriptor)
                    return True
        finally:
            os.close(descriptor)
        return False

    def _is_held(self) -> bool:
        """True if this session itself holds the shared lock; another thread may take it at any time."""
        return self._descriptor is not None

    def close(self) -> None:
        """Release the lock, and remove the file unless a submission still holds it."""
        with self._opening:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # a session that resumes the run waits for it, and removes the file then
            else:
                self._remove(descriptor)
            os.close(descriptor)

    def _remove(self, descriptor: int) -> None:
        """Remove the file under the exclusive lock; a process that opens it meanwhile notices, and opens it anew."""
        with contextlib.suppress(OSError):
            if self._is_there(descriptor):
                self._path.unlink()

    def _is_there(self, descriptor: int) -> bool:
        """True if the file still has its name."""
        try:
            return os.path.samestat(self._path.stat(follow_symlinks=False), os.fstat(descriptor))
        except OSError:
            return False
