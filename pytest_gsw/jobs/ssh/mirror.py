"""Copies of the files of a login node, below the run's directory, each at the path that it has there.

All that reads logs and recipes reads the copies. One grows by what was appended to its file, and is made anew if that
is another file now, or was written anew.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import make_directory
from pytest_gsw.jobs.layout import FileFacts, fill_job_id, home_of
from pytest_gsw.jobs.model import ERROR_SUFFIX, Job
from pytest_gsw.jobs.ssh.login_helper import TAIL_BYTES

#: Files next to a log that are its job's as well, besides those with its id: evidence of what was run.
_BESIDE = ("configs/*.yaml", "vboost.err", "../vboost.err")
#: Files of a job that has a directory of its own.
_IN_DIRECTORY = ("*.out", "*.err", "*.yaml", "*.log", "*/*.out", "*/*.err", "*/*.yaml")


@dataclass
class _Copy:
    """A copy, and its file as it was when the helper read it last."""

    path: Path
    facts: FileFacts
    #: Bytes of the file, and of the copy; the checksum of the last of these.
    size: int
    length: int = 0
    checksum: int = 0
    #: Why the file could not be read, or the copy not be written; empty if it was.
    problem: str = ""
    unwritten: str = ""


class Mirror:
    """The copies of one run.

    Args:
        root: Their directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self._lock = threading.Lock()
        self._copies: dict[str, _Copy] = {}
        #: The files of each job, by its id.
        self._of_job: dict[str, set[str]] = {}

    def there(self, text: str) -> str:
        """A text with the paths of copies as they are on the login node."""
        return text.replace(self._prefix, "/")

    def here(self, path: str | Path) -> Path:
        """The path of the copy of a file."""
        return path if isinstance(path, Path) and self.holds(path) else self.root / str(path).lstrip("/")

    def holds(self, path: Path) -> bool:
        """True if a path is that of a copy."""
        return str(path).startswith(self._prefix)

    def facts(self, path: Path) -> FileFacts | None:
        """The facts of a copy's file; ``None`` if it was never read."""
        copy = self._copies.get(self.there(str(path)))
        return None if copy is None else copy.facts

    def wanted(self, job: Job, directory: Path | None, outputs: Sequence[Path]) -> dict[str, Any]:
        """The names of a job's files, for the helper.

        Args:
            job: The job.
            directory: The directory of its own, if it has one.
            outputs: Further outputs of it.
        """
        spec = job.spec
        places = [] if directory is None else [f"{self._escaped(directory)}/{name}" for name in _IN_DIRECTORY]
        if spec.log_glob:
            log = f"{self._escaped(spec.stage)}/{fill_job_id(spec.log_glob, glob.escape(job.id))}"
            places += [log, f"{log.removesuffix('.out')}{ERROR_SUFFIX}"]
        places += [self._escaped(output) for output in outputs]
        home = self.there(str(home_of(spec.stage, spec.log_glob)))
        return {"home": home, "globs": places, "job_id": job.id, "beside": _BESIDE}

    def copies_of(self, jobs: Iterable[Job]) -> dict[str, tuple[int, int, int]]:
        """The inode, length and checksum of the copies of jobs' files."""
        with self._lock:
            paths = {path for job in jobs for path in self._of_job.get(job.id, ())}
            copies = {path: self._copies[path] for path in paths}
            return {path: (copy.facts.inode, copy.length, copy.checksum) for path, copy in copies.items()}

    def problem(self, path: Path) -> str:
        """Why a copy has not all of its file; empty if it has."""
        copy = self._copies.get(self.there(str(path)))
        if copy is None or copy.problem or copy.unwritten:
            return copy.problem or copy.unwritten if copy else "it was never read"
        return "" if copy.length == copy.size else f"{copy.length} of {copy.size} bytes were read"

    def unwritten(self, job: Job) -> str:
        """Why a copy of any of a job's files could not be written here; empty if all were."""
        with self._lock:
            copies = [self._copies[path] for path in self._of_job.get(job.id, ())]
        return next((copy.unwritten for copy in copies if copy.unwritten), "")

    def lacking(self, sizes: Mapping[str, int]) -> int:
        """Bytes that copies lack of the sizes that they should have by now; a file that cannot be read lacks none."""
        with self._lock:
            copies = [(self._copies.get(path), size) for path, size in sizes.items()]
        return sum(
            max(0, min(size, copy.size) - copy.length)
            for copy, size in copies
            if copy is not None and not (copy.problem or copy.unwritten)
        )

    def receive(self, jobs: Sequence[Job], result: Mapping[str, Any], blob: bytes) -> None:
        """Write what the helper has read of these jobs.

        Raises:
            OSError: A copy cannot be written here.
        """
        start = 0
        with self._lock:
            for path, facts in result["files"].items():
                piece = blob[start : start + facts.get("length", 0)]
                start += len(piece)
                if os.path.normpath(path) == path and path.startswith("/"):
                    self._receive(path, facts, piece)
            for job, paths in zip(jobs, result["jobs"], strict=True):
                for path in self._of_job.get(job.id, set()).difference(paths, result["files"]):
                    self._remove(path)
                self._of_job[job.id] = {path for path in paths if path in self._copies}

    def _remove(self, path: str) -> None:
        """Remove the copy of a file that is gone: no verdict may rest on what it was."""
        copy = self._copies.pop(path, None)
        if copy is not None:
            with contextlib.suppress(OSError):
                copy.path.unlink(missing_ok=True)

    def _receive(self, path: str, facts: Mapping[str, Any], piece: bytes) -> None:
        known = FileFacts(facts["inode"], facts["mtime_ns"], facts["ctime_ns"])
        copy, offset = (
            self._copies.setdefault(path, _Copy(self.here(path), known, facts["size"])),
            facts.get("offset", 0),
        )
        if offset and (offset > copy.length or known.inode != copy.facts.inode):
            return  # the copy is another one since this was asked for: it is read again
        copy.facts, copy.size, copy.problem, copy.unwritten = known, facts["size"], facts.get("problem", ""), ""
        if copy.problem:
            return
        try:
            _write(copy, offset, piece)
        except OSError as error:  # it is read anew from its start
            copy.length, copy.checksum, copy.unwritten = 0, 0, f"{copy.path} cannot be written: {error.strerror}"

    def survey(
        self, directories: Iterable[Path], files: Iterable[Path], result: Mapping[str, Any], blob: bytes
    ) -> None:
        """Write directories and texts of recipes as the helper has found them; what is gone there goes here."""
        start, entries = 0, result["entries"]
        for directory in map(self.here, directories):
            if entries[self.there(str(directory))]["kind"] == "none":
                shutil.rmtree(directory, ignore_errors=True)
            files = [*files, *directory.glob("*")]
        for file in map(self.here, files):
            if self.there(str(file)) not in entries and file.is_file():
                file.unlink()
        for path, entry in entries.items():
            place = self.here(path)
            if entry["kind"] == "directory":
                make_directory(place)
            elif entry["kind"] == "file":
                piece = blob[start : start + entry["length"]]
                start += len(piece)
                make_directory(place.parent)
                with contextlib.suppress(OSError):
                    place.chmod(0o600)
                place.write_bytes(piece)
                place.chmod(0 if "problem" in entry else 0o700 if entry["is_runnable"] else 0o600)

    def _escaped(self, path: Path) -> str:
        return glob.escape(self.there(str(path)))


def _write(copy: _Copy, offset: int, piece: bytes) -> None:
    """Let a copy go on with these bytes from an offset."""
    make_directory(copy.path.parent)
    if not offset and copy.length:
        copy.path.unlink(missing_ok=True)  # its readers are to see another file
    with open(copy.path, "r+b" if offset else "wb") as file:  # noqa: PTH123 - a name with any bytes
        file.seek(offset)
        file.write(piece)
        file.truncate()
    copy.length = offset + len(piece)
    with copy.path.open("rb") as file:
        file.seek(max(0, copy.length - TAIL_BYTES))
        copy.checksum = zlib.crc32(file.read(TAIL_BYTES))
    os.utime(copy.path, ns=(copy.facts.mtime_ns, copy.facts.mtime_ns))


def texts_of(directory: Path, most_bytes: int) -> Iterator[tuple[str, str | None]]:
    """The names and texts of the files of a directory; ``None`` for what is no small text, or leads out of it.

    Hidden files are passed over: they are those of tools, and may have their secrets.
    """
    inside = directory.resolve()
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for path in (Path(place, name) for name in sorted(names) if not name.startswith(".")):
            text = None
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if path.is_file() and path.resolve().is_relative_to(inside) and path.stat().st_size <= most_bytes:
                    text = path.read_text(encoding="utf-8")
            yield path.relative_to(directory).as_posix(), text
