"""Records that wait for their history: one file each, until the history has committed them."""

from __future__ import annotations

import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.files import PRIVATE, make_directory, write_whole
from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, HistoryUnusableError
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record, read_record, record_name

#: Directory of the spool below that of results.
DIRECTORY = "spool"

#: Records in one transaction.
_BATCH = 200


@dataclass(frozen=True)
class Delivered:
    """The result of a delivery."""

    #: Number of files that were delivered.
    count: int = 0
    #: Number of files that still wait.
    left: int = 0
    #: The reason why the first of them waits; ``None`` if none does.
    why: str | None = None
    #: Errors of files without a valid record. These files remain, and do not block others.
    unreadable: tuple[str, ...] = ()


class Spool:
    """A directory of records that wait for their history.

    Several sessions may put and deliver at the same time. A file is removed only after the history has committed:
    a session that is killed at any moment delivers a record twice at worst, which counts once, see
    :meth:`History.add`.

    Args:
        directory: Directory of the files; created with the first one.
        place: The history that they wait for, see :attr:`History.place`. Each has a subdirectory of its own: records
            for a server must not go to the file of a session without that server.
    """

    def __init__(self, directory: Path, place: str = "") -> None:
        #: Records of this session, which need not be read again.
        self._own: dict[Path, Record] = {}
        self._directory = directory / hashlib.sha256(os.fsencode(place)).hexdigest()[:12] if place else directory

    def put(self, record: Record, written: Path | None = None) -> Path:
        """Keep a record, whole or not at all; if possible as a hard link to a file that contains it already.

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
        """Deliver all records to a history, and remove the files of those accepted; problems are returned."""
        try:
            files = {
                path: self._own.get(path) or _read(path) for path in sorted(self._directory.glob("*.json"), key=str)
            }
        except OSError as error:
            return Delivered(why=f"{self._directory} cannot be read: {error.strerror}")
        waiting = [(path, record) for path, record in files.items() if isinstance(record, Record)]
        unreadable = tuple(why for why in files.values() if isinstance(why, str))
        count = 0
        problems: list[str] = []
        for start in range(0, len(waiting), _BATCH):
            try:
                count += _hand_over(history, dict(waiting[start : start + _BATCH]), problems)
            except (HistoryUnavailableError, HistoryUnusableError) as error:
                problems.append(str(error))
                break
        left = len(waiting) - count
        return Delivered(count, left, problems[0] if problems else None, unreadable)


def _is_linked(written: Path, path: Path) -> bool:
    """True if a file got a second name; hard links fail on some file systems, and between two of them."""
    try:
        os.link(written, path)
    except OSError:
        return False
    return True


def _hand_over(history: History, records: dict[Path, Record], problems: list[str]) -> int:
    """Number of these records that the history accepted; their files are removed.

    Raises:
        HistoryUnavailableError: It cannot be reached, and accepted none.
        HistoryUnusableError: It would accept no other record either.
    """
    try:
        history.add(records.values())
    except (HistoryUnavailableError, HistoryUnusableError):
        raise
    except HistoryError as error:
        if len(records) == 1:
            problems.append(str(error))
            return 0
        # One rejected record must not block the others.
        return sum(_hand_over(history, {path: record}, problems) for path, record in records.items())
    return sum([_remove(path, problems) for path in records])


def _remove(path: Path, problems: list[str]) -> bool:
    """True if a delivered file is gone; if not, the next session delivers it once more."""
    try:
        path.unlink()
    except FileNotFoundError:
        pass  # another session has delivered it too
    except OSError as error:
        problems.append(f"the history has {path}, which cannot be removed: {error.strerror}")
        return False
    return True


def _read(path: Path) -> Record | str | None:
    """A file's record, the error in it, or ``None`` if another session has delivered it meanwhile."""
    try:
        return read_record(path)
    except ValueError as error:
        return str(error) if path.exists() else None
