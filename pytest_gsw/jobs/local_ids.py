"""Ids of local jobs, from a counter in a directory of the user's own.

A staging area may be one that others write to, who could put a link in the counter's place.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pytest_gsw.common.files import make_directory, open_own

_COUNTER = "local-job-id"
#: Giving out an id takes microseconds.
_PATIENCE_S = 60.0
#: What a file server without locks says.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


def next_job_id(environ: Mapping[str, str]) -> str:
    """A number that no local job of the user has had, whichever session asks.

    It is at least the time in milliseconds, so that a lost counter does not give out the ids of old logs again, and
    two users who share a staging area have different ones. The session's environment says where the user's directories
    are.

    Raises:
        OSError: The counter cannot be read or written.
    """
    from filelock import FileLock, Timeout  # only sessions with local jobs need it

    directory = _own_directory(environ)
    try:
        with FileLock(directory / f"{_COUNTER}.lock", timeout=_PATIENCE_S):
            return _count(directory / _COUNTER)
    except Timeout:
        raise OSError(None, "another process holds the lock", str(directory / f"{_COUNTER}.lock")) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS or directory == _temporary():
            raise
    # A home on a file server that has no locks; all who ask on this machine come here.
    directory = _made(_temporary())
    with FileLock(directory / f"{_COUNTER}.lock", timeout=_PATIENCE_S):
        return _count(directory / _COUNTER)


def _count(path: Path) -> str:
    descriptor = open_own(path, os.O_RDWR)
    try:
        text = os.read(descriptor, 64).strip()
        last = int(text) if text.isdigit() else 0
        job_id = str(max(last + 1, int(time.time() * 1000)))
        os.pwrite(descriptor, job_id.encode(), 0)
        os.ftruncate(descriptor, len(job_id))
    finally:
        os.close(descriptor)
    return job_id


def _own_directory(environ: Mapping[str, str]) -> Path:
    """Where the user's programs keep what they know, else a temporary directory; an OSError where there is neither."""
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    places = [Path(state)] if state.startswith("/") else [Path(home, ".local", "state")] if home.startswith("/") else []
    for place in places:
        try:
            make_directory(place / "pytest-gsw", private=True)
        except OSError:
            continue  # a service's user often has a home that is not there
        if os.access(place / "pytest-gsw", os.W_OK | os.X_OK):
            return place / "pytest-gsw"
    return _made(_temporary())


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"pytest-gsw-{os.geteuid()}"


def _made(directory: Path) -> Path:
    """A directory below the one for temporary files, where others write, too; an OSError if it is another user's."""
    make_directory(directory, private=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(None, "it is no directory that only you can write to", str(directory))
    return directory
