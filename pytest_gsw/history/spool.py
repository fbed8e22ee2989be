"""Records that wait for their history: a file each, until the history has them for good."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.files import PRIVATE, make_directory, write_whole
from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, HistoryUnusableError
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record, read_record, record_name

#: Where the spool is below the directory of results.
DIRECTORY = "spool"

#: Records that go into one transaction.
_BATCH = 200


@dataclass(frozen=True)
class Delivered:
    """What a delivery came to."""

    #: Files whose records the history has now.
    count: int = 0
    #: Files that still wait.
    left: int = 0
    #: Why the first of them does, ``None`` where none does.
    why: str | None = None
    #: Files that hold no record, and why not. They stay where they are, and keep nothing else from being delivered.
    unreadable: tuple[str, ...] = ()


class Spool:
    """A directory in which records wait for their history.

    Several sessions may put and deliver at the same time. A file is removed only after the history has committed,
    so that a session that is killed at any moment delivers a record twice at worst, and twice is once, see
    :meth:`History.add`.

    Args:
        directory: Where the files are; it is made with the first.
        place: The history that they wait for, see :attr:`History.place`. Each has a directory of its own below, so
            that what waits for a server does not go to the file of a session that was told of none.
    """

    def __init__(self, directory: Path, place: str = "") -> None:
        #: What this session has put there: it need not be read again.
        self._own: dict[Path, Record] = {}
        self._directory = directory / hashlib.sha256(place.encode()).hexdigest()[:12] if place else directory

    def put(self, record: Record, written: Path | None = None) -> Path:
        """Keep a record, whole or not at all: a file that holds it already gets a second name, where it can have one.

        Raises:
            OSError: It cannot be written.
        """
        make_directory(self._directory, private=True)
        # A name of its own each time: a delivery must not remove a later record of the same row unread.
        name = record_name(f"{uuid.uuid4().hex}-{record.run.id}-{record.row.node_id}")
        path = self._directory / name
        if written is None or not _is_linked(written, path):
            write_whole(path, record.text, PRIVATE)
        self._own[path] = record
        return path

    def deliver(self, history: History) -> Delivered:
        """Give all records to a history, and remove those that it has taken; what goes wrong is told, not raised."""
        try:
            found = {
                path: self._own.get(path) or _read(path) for path in sorted(self._directory.glob("*.json"), key=str)
            }
        except OSError as error:
            return Delivered(why=f"{self._directory} cannot be read: {error.strerror}")
        waiting = {path: record for path, record in found.items() if isinstance(record, Record)}
        unreadable = tuple(why for why in found.values() if isinstance(why, str))
        count = 0
        problems: list[str] = []
        for batch in _batches(waiting):
            try:
                count += _hand_over(history, {path: waiting[path] for path in batch}, problems)
            except (HistoryUnavailableError, HistoryUnusableError) as error:
                problems.append(str(error))
                break
        left = len(waiting) - count
        return Delivered(count, left, problems[0] if problems else None, unreadable)


def _is_linked(written: Path, path: Path) -> bool:
    """Whether a file has got a second name; some file systems know none, and none reaches another one."""
    try:
        os.link(written, path)
    except OSError:
        return False
    return True


def _hand_over(history: History, records: dict[Path, Record], problems: list[str]) -> int:
    """How many of these records a history has taken; their files are gone.

    Raises:
        HistoryUnavailableError: It cannot be reached, and has taken none.
        HistoryUnusableError: Nor would it take any other.
    """
    try:
        history.add(records.values())
    except (HistoryUnavailableError, HistoryUnusableError):
        raise
    except HistoryError as error:
        if len(records) == 1:
            problems.append(str(error))
            return 0
        # One record that a history does not take keeps no other from it.
        return sum(_hand_over(history, {path: record}, problems) for path, record in records.items())
    return sum([_removed(path, problems) for path in records])


def _removed(path: Path, problems: list[str]) -> bool:
    """Whether a file that the history has is gone; where it is not, the next session delivers it once more."""
    try:
        path.unlink()
    except FileNotFoundError:
        pass  # another session has delivered it too
    except OSError as error:
        problems.append(f"the history has {path}, which cannot be removed: {error.strerror}")
        return False
    return True


def _read(path: Path) -> Record | str | None:
    """A file's record, why it has none, or nothing where another session has delivered it meanwhile."""
    try:
        return read_record(path)
    except ValueError as error:
        return str(error) if path.exists() else None


def _batches(paths: Iterable[Path]) -> Iterable[list[Path]]:
    listed = list(paths)
    return (listed[start : start + _BATCH] for start in range(0, len(listed), _BATCH))
