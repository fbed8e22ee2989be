"""A log that is opened once, and is to all who look at it what it was then."""

from __future__ import annotations

import io
from pathlib import Path

from pytest_gsw.errors import LogError

#: A log up to this size is read at once, and needs no file any more; most are small.
_AT_ONCE_BYTES = 1 << 20


class LogFile:
    """A log as it was when it was opened: what is appended later is not seen. It is entered before it is read.

    Args:
        path: The log.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entered = 0
        self._file: io.FileIO | io.BytesIO = path.open("rb", buffering=0)
        try:
            #: How much of the file counts, bytes.
            self.size = self._file.seek(0, io.SEEK_END)
            if self.size <= _AT_ONCE_BYTES:
                self._read_at_once()
        except OSError:
            self._file.close()
            raise

    def _read_at_once(self) -> None:
        with self._file as file:
            file.seek(0)
            data = file.read()
        self._file, self.size = io.BytesIO(data), len(data)

    def __enter__(self) -> LogFile:  # noqa: PYI034 - typing.Self is Python 3.11's
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            self._file.close()

    def read(self, start: int, count: int) -> bytes:
        """So many bytes from a place on, fewer where the log ends before."""
        self._file.seek(start)
        return self._file.read(max(0, min(count, self.size - start))) or b""

    def read_into(self, view: memoryview, start: int) -> int:
        """Fill a piece of memory from a place on; how many bytes there were."""
        self._file.seek(start)
        return self._file.readinto(view) or 0


def unreadable(path: Path, why: OSError | str) -> LogError:
    """A log that is there and cannot be read."""
    said = (why.strerror or why) if isinstance(why, OSError) else why
    return LogError(
        f"the log cannot be read: {path.name}: {said}",
        evidence=(("log", str(path)),),
        advice="check the permissions and the file system",
    )


def opened(log: Path | LogFile) -> LogFile:
    """A log to be read, which is closed where it was opened."""
    return log if isinstance(log, LogFile) else LogFile(log)
