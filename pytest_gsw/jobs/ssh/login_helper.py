"""The program that a session runs on a login node: it runs Slurm's commands, submits each job once, and reads files.

It is sent over standard input, and needs Python 3.6 alone. A request is a line with its length, then JSON: calls of the
methods of :class:`Helper`. Its answer is a line with the session's marker and two lengths, then JSON and the bytes of
files. Each request has a thread, so that a slow sbatch delays no poll. The run's folder in the staging area, which all
login nodes see, has a file for each submission: a key that was answered with a job is never submitted again.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

#: Bytes of files in one answer, and of a file of a recipe.
MOST_BYTES = 4 << 20
SMALL_BYTES = 256 << 10
#: Bytes before an offset whose checksum shows that a file was only appended to.
TAIL_BYTES = 4096
#: Files of a recipe's directory.
MOST_FILES = 256
#: Seconds that another submission from a directory is awaited.
_ALONE_S = 5.0
#: Seconds between two looks at a command that prints nothing.
_LOOK_S = 0.1
#: Seconds between two signs that the session lives.
_SIGN_S = 10.0
#: Of a file system without locks, where the file of a submission alone protects it.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)

Facts = Dict[str, Any]


class RefusedError(Exception):
    """A request that is not carried out, for a reason that the session knows by its name."""


class Helper:
    """Carries out requests: each public method is one, with the request's arguments."""

    def __init__(self) -> None:
        self._folder = ""
        self._owner: Mapping[str, str] = {}
        self._signed_s = 0.0

    def hello(self) -> Facts:
        """The login node's name, user and variables."""
        facts = {"host": socket.gethostname(), "user_id": os.getuid(), "python": list(sys.version_info[:3])}
        return dict(facts, variables=dict(os.environ))

    def own_run(self, folder: str, owner: Mapping[str, str], takes_over: bool) -> Facts:
        """Make a run's folder, and note the session that owns it, unless another one does."""
        for place in (folder, os.path.join(folder, "keys")):
            os.makedirs(place, 0o700, exist_ok=True)
        path, age_s = os.path.join(folder, "owner.json"), None
        before = _read_json(path)
        if before is not None:
            age_s = time.time() - os.stat(path).st_mtime
        if before is None or before["session"] == owner["session"] or takes_over:
            _replace(path, json.dumps(owner).encode())
            self._folder, self._owner = folder, owner
        return {"before": before, "age_s": age_s}

    def release(self) -> None:
        """Let another session own the run at once, as if this one had shown no sign for long."""
        if self._is_owned():
            os.utime(os.path.join(self._folder, "owner.json"), (0, 0))
        self._folder = ""

    def owner_of(self, folder: str) -> Optional[Facts]:
        """The session that owns a run; None if none does."""
        return _read_json(os.path.join(folder, "owner.json"))

    def run(
        self,
        command: Sequence[str],
        changes: Mapping[str, Optional[str]],
        given: Optional[str],
        timeout_s: float,
        directory: Optional[str] = None,
    ) -> Facts:
        """Run one of Slurm's commands, with these changes of the environment."""
        return _run(command, changes, given, timeout_s, directory)

    def submit(
        self,
        key: str,
        command: Sequence[str],
        changes: Mapping[str, Optional[str]],
        directory: str,
        searches: Sequence[Sequence[str]],
        search_changes: Mapping[str, Optional[str]],
        name: str,
        places: Sequence[str],
        makes: Sequence[str],
        timeout_s: float,
        settle_s: float,
        is_alone: bool,
    ) -> Facts:
        """Submit a job, unless its key has one: then the first answer is this one, too.

        Nothing else is submitted from the directory meanwhile if it is to be alone.

        A key that was begun and has no answer is submitted only if each search shows, after a while, that no job has
        the name.
        """
        answered = self._state_of(key)
        if answered["state"] == "taken":  # what the submission has left in the background may hold its lock
            return answered
        lock = _Lock(self._lock_of(key), timeout_s)
        with contextlib.ExitStack() as stack:
            descriptor = stack.enter_context(lock)
            known = self._state_of(key)
            if known["state"] == "taken":
                return known
            if known["state"] == "unknown":
                answers = (_run(search, search_changes, None, timeout_s) for search in searches)
                # Without a lock, that submission may be under way.
                is_early = time.time() < known["begun_s"] + settle_s + (0.0 if lock.is_held else timeout_s)
                if is_early or any(answer["code"] or name in answer["out"] for answer in answers):
                    return known
            if not self._is_owned():
                raise RefusedError("taken over")
            if is_alone:
                directory_key = "directory-{:08x}".format(zlib.crc32(directory.encode(errors="surrogateescape")))
                stack.enter_context(_Lock(self._lock_of(directory_key), _ALONE_S))
            _replace(self._path_of(key), json.dumps({"state": "unknown", "begun_s": time.time()}).encode())
            names = sorted({path for place in places for path in glob.glob(place, recursive=True)})
            for place in makes:
                with contextlib.suppress(OSError):  # Slurm reports it better: for the job's user, on the job's node
                    os.makedirs(place, exist_ok=True)
            answer = _run(command, changes, None, timeout_s, directory, descriptor)
            ids = re.findall("[0-9]{1,18}", answer["out"][:10000])
            before = [_facts_of(path) for path in names if any(job_id in path for job_id in ids)]
            is_open = answer["timed_out"] or answer["code"] < 0
            state = "unknown" if is_open else "refused" if answer["code"] else "taken"
            answer.update(state=state, before=[facts for facts in before if facts], begun_s=time.time())
            # Without it, as after a crash, the key is unknown, and its job is found by its name.
            with contextlib.suppress(OSError), open(self._path_of(key), "ab") as file:
                file.write(b"\n" + json.dumps(answer).encode())
            return answer

    def state_of(self, key: str) -> Facts:
        """The state of a key: none, running, unknown (begun, without an answer), refused, or taken with the answer."""
        known = self._state_of(key)
        try:
            with _Lock(self._lock_of(key), 0.0):
                return self._state_of(key)
        except RefusedError:
            return known if known["state"] == "taken" else {"state": "running"}

    def read(
        self, wanted: Iterable[Mapping[str, Any]], copies: Mapping[str, Tuple[int, int, int]]
    ) -> Tuple[Facts, bytes]:
        """The files of jobs, with the bytes that follow those of the session's copies, and the files of each job.

        Of each job: its id, the globs of its files, globs of further files in the directories of these, and the
        directory that links may not lead out of. Of each copy: the inode of its file, its length, and the checksum of
        its end.
        """
        files: Dict[str, Facts] = {}
        pieces: List[bytes] = []
        left = MOST_BYTES
        listed: Dict[str, Dict[str, List[str]]] = {}
        of_jobs = [sorted(set(_paths_of(job, listed))) for job in wanted]
        for paths in of_jobs:
            for path in paths:
                if path in files:
                    continue
                facts = _facts_of(path)
                if facts is None:
                    continue
                files[path] = facts
                inode, offset, checksum = copies.get(path, (None, 0, 0))
                try:
                    with open(path, "rb") as file:
                        facts.update(_identity(os.fstat(file.fileno())))
                        start = max(0, offset - TAIL_BYTES)
                        file.seek(start)
                        is_same = inode == facts["inode"] and offset <= facts["size"]
                        if not is_same or zlib.crc32(file.read(offset - start)) != checksum:
                            offset = 0
                        file.seek(offset)
                        piece = file.read(min(left, facts["size"] - offset))
                except OSError as error:
                    facts["problem"] = error.strerror
                    continue
                facts.update(offset=offset, length=len(piece))
                pieces.append(piece)
                left -= len(piece)
        return {"files": files, "jobs": [[path for path in paths if path in files] for paths in of_jobs]}, b"".join(
            pieces
        )

    def survey(self, directories: Sequence[str], files: Sequence[str]) -> Tuple[Facts, bytes]:
        """The entries of recipes' directories and these files, with the texts of small ones."""
        entries: Dict[str, Facts] = {}
        pieces: List[bytes] = []
        left = MOST_BYTES
        paths = list(files)
        for place in directories:
            try:
                names = sorted(name for name in os.listdir(place) if not name.startswith("."))
            except OSError as error:
                entries[place] = {"kind": "none", "problem": error.strerror}
                continue
            entries[place] = {"kind": "directory"}
            paths += [os.path.join(place, name) for name in names[:MOST_FILES]]
        for path in paths:
            if os.path.isdir(path):
                entries.setdefault(path, {"kind": "directory"})
            elif path not in entries and os.path.isfile(path):
                entry = entries[path] = {"kind": "file", "is_runnable": os.access(path, os.X_OK), "length": 0}
                try:
                    if os.path.getsize(path) <= min(SMALL_BYTES, left):
                        with open(path, "rb") as file:
                            piece = file.read(SMALL_BYTES)
                        entry["length"] = len(piece)
                        pieces.append(piece)
                        left -= len(piece)
                except OSError as error:
                    entry["problem"] = error.strerror
        return {"entries": entries}, b"".join(pieces)

    def writable(self, places: Sequence[str]) -> Facts:
        """By place: the deepest part of it that is there, and if this user may write there; with the free bytes."""
        answer = {}
        for place in places:
            there = place
            while not os.path.lexists(there) and there != "/":
                there = os.path.dirname(there)
            is_directory = os.path.isdir(there)
            facts: Facts = {"there": there, "is_directory": is_directory}
            facts["is_writable"] = is_directory and os.access(there, os.W_OK | os.X_OK)
            if is_directory:
                space = os.statvfs(there)
                facts["free_bytes"] = space.f_bavail * space.f_frsize
            answer[place] = facts
        return answer

    def try_writing(self, directory: str) -> Facts:
        """Write a small file, and remove it; the error, and if space or a quota is the reason."""
        try:
            with tempfile.NamedTemporaryFile(prefix=".gsw-", dir=directory) as file:
                file.write(bytes(SMALL_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return {"problem": error.strerror, "is_full": error.errno in (errno.ENOSPC, errno.EDQUOT)}
        return {"problem": None}

    def programs(self, names: Sequence[str], path: Optional[str] = None) -> Facts:
        """The paths of programs on a PATH, by default the login shell's; None for one that is missing."""
        return {name: shutil.which(name, path=path) for name in names}

    def keep(self, files: Mapping[str, Tuple[int, str]]) -> Facts:
        """Keep files in the run's folder: by name, an offset and the text from there on."""
        for name, (offset, text) in files.items():
            path = os.path.join(self._folder, name)
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            before = b""
            if offset:
                with open(path, "rb") as file:
                    before = file.read(offset)
                if len(before) < offset:
                    raise ValueError("{} has only {} bytes".format(name, len(before)))
            # A recipe's scripts may run each other.
            _replace(path, before + text.encode(), 0o700 if name.startswith("recipes/") else 0o600)
        return {}

    def kept(self, folder: str) -> Facts:
        """The files that a session has kept in a run's folder."""
        root, files = os.path.join(folder, "session"), {}
        for place, _, names in os.walk(root):
            for name in names:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, root)] = file.read().decode(errors="replace")
        return {"files": files}

    def sign(self) -> None:
        """Show that the session lives."""
        if self._folder and time.time() - self._signed_s > _SIGN_S:
            self._signed_s = time.time()
            with contextlib.suppress(OSError):
                os.utime(os.path.join(self._folder, "owner.json"), None)

    def _is_owned(self) -> bool:
        return self.owner_of(self._folder) == self._owner

    def _path_of(self, key: str) -> str:
        return os.path.join(self._folder, "keys", key)

    def _lock_of(self, key: str) -> str:
        return self._path_of(key) + ".lock"

    def _state_of(self, key: str) -> Facts:
        """The last state of a key that was written whole; one whose file cannot be read is an error."""
        try:
            with open(self._path_of(key), "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return {"state": "none"}
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                return dict(json.loads(line.decode()))
        return {"state": "unknown", "begun_s": time.time()}


class _Lock:
    """A lock on a file; a process that gets its descriptor shares it: it is held until that has ended, too."""

    def __init__(self, path: str, wait_s: float) -> None:
        self._path, self._wait_s = path, wait_s
        #: False on a file system without locks.
        self.is_held = True

    def __enter__(self) -> int:
        end_s = time.time() + self._wait_s
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    if time.time() >= end_s:
                        os.close(self._descriptor)
                        raise RefusedError("busy") from None
                    time.sleep(0.05)
                    continue
                self.is_held = False
            return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _run(
    command: Sequence[str],
    changes: Mapping[str, Optional[str]],
    given: Optional[str],
    timeout_s: float,
    directory: Optional[str] = None,
    shared: Optional[int] = None,
) -> Facts:
    """The exit code and the output of a command; one that takes too long is ended with its children."""
    environment = {**os.environ, **{name: value for name, value in changes.items() if value is not None}}
    for name in [name for name, value in changes.items() if value is None]:
        environment.pop(name, None)
    answer: Facts = {"code": 127, "out": "", "err": "", "timed_out": False, "process_id": 0}
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=() if shared is None else (shared,),
            start_new_session=True,
        )
    except OSError as error:
        is_lost = directory is not None and not os.path.isdir(directory)
        return dict(answer, err="{}: {}".format(directory if is_lost else command[0], error.strerror))
    answer["process_id"] = process.pid
    if given is not None:
        threading.Thread(target=_give, args=(process.stdin, given.encode()), daemon=True).start()
    texts, end_s = {process.stdout: bytearray(), process.stderr: bytearray()}, time.monotonic() + timeout_s
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:  # type: ignore[union-attr]
        for stream in texts:
            selector.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
        while True:
            has_ended = process.poll() is not None  # before the look: all that it has printed is seen then
            events = selector.select(_LOOK_S)
            for key, _ in events:
                piece = os.read(key.fd, 1 << 16)
                texts[key.fileobj] += piece  # type: ignore[index]
                if not piece:
                    selector.unregister(key.fileobj)
            # What it has left in the background may hold its output open for long.
            if has_ended and not events:
                break
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end_s - time.monotonic()))
                    break
            if time.monotonic() >= end_s:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                why = "{} gave no answer within {:.3g} s".format(command[0], timeout_s)
                return dict(answer, code=124, err=why, timed_out=True)
    out, err = (text.decode(errors="replace") for text in texts.values())
    return dict(answer, code=process.returncode, out=out, err=err)


def _give(stream: Any, text: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.close()


def _paths_of(job: Mapping[str, Any], listed: Dict[str, Dict[str, List[str]]]) -> Iterator[str]:
    """The files of a job; links that lead out of its home are passed over, and large files that are no outputs.

    ``listed`` has the files of directories that were listed, by each number in their names.
    """
    home = os.path.realpath(job["home"])
    paths = [path for place in job["globs"] for path in glob.glob(place, recursive=True)]
    named = frozenset(paths)
    for place in {os.path.dirname(path) for path in paths}:
        if place not in listed:
            by_number = listed[place] = {"": []}
            for name in job["beside"]:
                by_number[""] += glob.glob(glob.escape(place) + "/" + name)
            with contextlib.suppress(OSError):
                for name in os.listdir(place):
                    for number in set(re.findall("[0-9]+", name)):
                        by_number.setdefault(number, []).append(os.path.join(place, name))
        paths += listed[place].get(job["job_id"], []) + listed[place][""]
    for path in paths:
        if path not in named and not path.endswith((".out", ".err")) and _size_of(path) > MOST_BYTES:
            continue  # a profile, or a checkpoint
        if os.path.realpath(path).startswith(home + "/") or not path.startswith(job["home"] + "/"):
            yield os.path.normpath(path)


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _identity(facts: os.stat_result) -> Facts:
    times = {"mtime_ns": facts.st_mtime_ns, "ctime_ns": facts.st_ctime_ns}
    return dict(times, size=facts.st_size, inode=facts.st_ino)


def _facts_of(path: str) -> Optional[Facts]:
    """The facts of a regular file; None for anything else."""
    try:
        return dict(_identity(os.stat(path)), path=path) if os.path.isfile(path) else None
    except OSError:
        return None


def _read_json(path: str) -> Optional[Facts]:
    try:
        with open(path, "rb") as file:
            return dict(json.loads(file.read().decode()))
    except (OSError, ValueError):
        return None


def _replace(path: str, content: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step, once it is on the disk."""
    new = "{}.{}.{}.new".format(path, os.getpid(), threading.get_ident())
    with open(new, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.rename(new, path)


def main(marker: str) -> None:
    """Answer requests until the session closes its end; what is under way is finished first, within its time."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    helper, turn, requests, answers = Helper(), threading.Lock(), sys.stdin.buffer, sys.stdout.buffer

    def answer(request: Facts) -> None:
        results, blob = [], b""
        for do, arguments in request["calls"]:
            try:
                result = getattr(helper, do)(**arguments)
                result, piece = result if isinstance(result, tuple) else (result, b"")
                blob += piece
                results.append({"is": result, "bytes": len(piece)})
            except RefusedError as error:
                results.append({"refused": str(error)})
            except Exception as error:
                results.append({"failed": "{}: {}".format(type(error).__name__, error)})
        text = json.dumps({"id": request["id"], "time_s": time.time(), "results": results}).encode()
        # A session that is gone finds what was done in the run's folder.
        with turn, contextlib.suppress(OSError, ValueError):
            answers.write("\n{} {} {}\n".format(marker, len(text), len(blob)).encode() + text + blob)
            answers.flush()

    while True:
        length = requests.readline()
        if not length.strip():
            break
        request = json.loads(requests.read(int(length)).decode())
        helper.sign()
        threading.Thread(target=answer, args=(request,)).start()
