"""Files: writing them, and their names for users."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from pathlib import Path

#: Most bytes of a file of a run: a record, a journal.
MOST_BYTES = 256 << 20
#: Mode of shared files, less the umask: not writable by all.
SHARED = 0o664
#: Mode of files that decide on rows: no other user reads or writes them.
PRIVATE = 0o600


def at_home(text: str) -> Path:
    """A path in which ``~`` is the user's home: no shell replaces it in ``--option=~/x``.

    Raises:
        ValueError: The home is unknown.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"unknown home directory: '{Path(text).parts[0]}'") from None


def make_directory(path: Path, *, private: bool = False) -> None:
    """Make a directory and missing ones above it, less the umask, none of them writable by all.

    A private one that is made here is closed to other users.

    Raises:
        OSError: It cannot be made.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more than the check
        return  # the usual case
    for directory in (*reversed(path.parents), path):
        if not directory.is_dir():
            directory.mkdir(mode=0o700 if private and directory == path else 0o775, exist_ok=True)


def write_whole(path: Path, text: str, mode: int = SHARED) -> None:
    """Write a file whole or not at all, with a mode less the umask; a link in its place is replaced, not followed.

    Raises:
        OSError: It cannot be written; the error names the file.
    """
    temporary = f"{path.parent}/.{path.name[:200]}.{secrets.token_hex(6)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(text.encode())
        os.replace(temporary, path)  # noqa: PTH105 - as above
    except OSError as error:
        error.filename = os.fspath(path)
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - as above
        raise


def write_new(path: Path, content: bytes) -> None:
    """Make a private file that does not exist yet, and sync it; it is removed if its content cannot be written.

    Raises:
        FileExistsError: It exists.
        OSError: It cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a file in a place where others may write: a new file, or the user's own one.

    The flags are ``os.O_WRONLY`` or ``os.O_RDWR``.

    Raises:
        OSError: It is a link, no regular file, another user's, or one that has a second name; or it cannot be opened.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.suppress(FileExistsError):
        return os.open(path, flags | os.O_EXCL, PRIVATE)
    if path.is_symlink():
        raise PermissionError(None, "it is a symbolic link", str(path))
    descriptor = os.open(path, flags, PRIVATE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink > 1:
        os.close(descriptor)
        raise PermissionError(None, "it is no file of your own", str(path))
    os.fchmod(descriptor, PRIVATE)
    return descriptor


def check_regular(facts: os.stat_result, path: Path | str) -> None:
    """Check that a file is a regular one: a pipe or a device may block, or never end.

    Raises:
        OSError: It is none; ``strerror`` is the reason.
    """
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_bounded(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a regular file, whole.

    Raises:
        OSError: It is none, is larger, or cannot be read; ``strerror`` is the reason.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        check_regular(os.fstat(file.fileno()), path)
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
    return content


def sha256_of(path: Path) -> str:
    """The SHA-256 of a regular file of any size, or why it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            check_regular(os.fstat(file.fileno()), path)
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError as error:
        return error.strerror or "cannot be read"
    return digest.hexdigest()


def relative_path(path: Path) -> Path:
    """The path relative to the working directory, if it is below it, as users and CI servers write it."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path
