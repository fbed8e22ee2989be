"""Submissions that outlive their session: a killed session's sbatch may still be talking to the controller.

Each submission holds a shared lock on a file of the run, by a descriptor that it inherits; the
kernel lets go of it when the last of them has ended, however its session ended. A session that takes
the exclusive lock knows that no submission of the run is under way any more, and that what
Slurm does not list was not submitted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import threading
import time
from pathlib import Path

#: How long a submission may take to end by itself; sbatch gives up long before.
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
                descriptor = self._open()
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                if self._is_there(descriptor):
                    self._descriptor = descriptor
                else:
                    os.close(descriptor)  # the file was removed meanwhile
            return self._descriptor

    def wait_for_orphans(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait until no submission of an earlier session is under way; false if one hangs for longer than that."""
        if self._is_held():
            return True  # this session has begun to submit: it has waited before
        descriptor = self._open()
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
        """Whether this session itself holds the shared lock; another thread may take it at any time."""
        return self._descriptor is not None

    def close(self) -> None:
        """Let go of the lock, and remove the file unless a submission still holds it."""
        with self._opening:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # a session that goes on with the run waits for it, and removes the file then
            else:
                self._remove(descriptor)
            os.close(descriptor)

    def _remove(self, descriptor: int) -> None:
        """Remove the file while the exclusive lock is held; who opens it at this moment sees that, and opens anew."""
        with contextlib.suppress(OSError):
            if self._is_there(descriptor):
                self._path.unlink()

    def _is_there(self, descriptor: int) -> bool:
        """Whether the file still has its name."""
        try:
            named = self._path.stat(follow_symlinks=False)
        except OSError:
            return False
        mine = os.fstat(descriptor)
        return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            os.close(descriptor)
            raise OSError(errno.EPERM, "is no file of your own", str(self._path))
        return descriptor
