"""Files as every part of the project writes and names them."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

#: Of what people share, by their umask, but never written to by everybody.
SHARED = 0o664
#: Of what decides on rows: no other user reads or writes it.
PRIVATE = 0o600


def at_home(text: str) -> Path:
    """A path in which ``~`` is the user's home: of ``--option=~/x`` no shell has filled it in.

    Raises:
        ValueError: Nobody knows that home.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"nobody knows the home directory of '{Path(text).parts[0]}'") from None


def make_directory(path: Path, *, private: bool = False) -> None:
    """Make a directory and those above it that are missing, by the user's umask, but none that everybody may write to.

    Into a private one that is made here, no other user may look.

    Raises:
        OSError: It cannot be made.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path costs more than the look
        return  # as each time but the first
    for directory in (*reversed(path.parents), path):
        if not directory.is_dir():
            directory.mkdir(mode=0o700 if private and directory == path else 0o775, exist_ok=True)


def write_whole(path: Path, text: str, mode: int = SHARED) -> None:
    """Write a file whole or not at all, with a mode less the umask; a link in its place is replaced, not followed.

    Raises:
        OSError: It cannot be written.
    """
    draft = f"{path.parent}/.{path.name[:200]}.{secrets.token_hex(6)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(text.encode())
        os.replace(draft, path)  # noqa: PTH105 - as above
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)  # noqa: PTH108 - as above
        raise


def write_new(path: Path, content: bytes) -> None:
    """Make a private file that was not there, and sync it; none is left where its content cannot be written.

    Raises:
        FileExistsError: It was there.
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


def open_own(path: Path, flags: int, mode: int = PRIVATE) -> int:
    """A descriptor of a file where others may write, too: a new one, or one that is the user's own.

    The flags are ``os.O_WRONLY`` or ``os.O_RDWR``.

    Raises:
        OSError: It is a link, no regular file, another user's, or one that has a second name; or it cannot be opened.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.suppress(FileExistsError):
        return os.open(path, flags | os.O_EXCL, mode)
    if path.is_symlink():
        raise PermissionError(None, "it is a symbolic link", str(path))
    descriptor = os.open(path, flags, mode)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        os.close(descriptor)
        raise PermissionError(None, "it is no file of your own", str(path))
    os.fchmod(descriptor, mode)
    return descriptor


def text_of(place: str, most_bytes: int) -> str | None:
    """The beginning of a text that a file may hold; ``None`` where there is no file, or none that can be read."""
    # Each row looks, and few have one: Path costs more than the look.
    if not os.path.isfile(place):  # noqa: PTH113
        return None
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            return file.read(most_bytes).decode(errors="replace")
    except OSError:
        return None


def relative_path(path: Path) -> Path:
    """The path as seen from the working directory, where it lies below: people and CI servers know no other."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path
