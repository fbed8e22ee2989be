"""A session's login node: its connection, the copies of its files, and the run's folder there.

The folder is in the staging area, which all login nodes see. It has the submissions, which are made once each, the
recipes that lie on this machine, and the run's own files, by which a session on another machine can go on with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.text import duration
from pytest_gsw.errors import ConfigurationError, RunError, TakenOverError
from pytest_gsw.jobs.journal import NAME as JOURNAL
from pytest_gsw.jobs.layout import slurm_name
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.ssh.connection import (
    Answers,
    Call,
    Connection,
    ConnectionLostError,
    HelperError,
    LoginNode,
    is_passing,
)
from pytest_gsw.jobs.ssh.login_helper import SMALL_BYTES
from pytest_gsw.jobs.ssh.mirror import Mirror, texts_of

#: Seconds of attempts to connect before the first submission, if they fail for a reason that may pass.
_BEGIN_S = 30.0
#: Seconds for a request that reads files.
READ_S = 120.0
#: A session that has shown no sign for longer has ended, seconds: the longest interval of polls is 300.
OWNER_GONE_S = 360.0
#: Seconds between two looks at the sign of another owner.
_OWNER_LOOK_S = 5.0
#: The directory of runs' folders in the staging area, and that of the run's own files in its folder.
RUNS = ".gsw"
_OF_SESSION = "session"
#: Most bytes of the run's own files that go with one request.
_MOST_KEPT_BYTES = 1 << 20


class Login:
    """The login node of one session.

    Args:
        cluster: Its host, the options of ssh, the staging area, and the run's directory of copies.
    """

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.mirror is not None
        self.connection = Connection(cluster.submission.host or "", cluster.submission.ssh or ())
        self._cluster = cluster
        self.mirror = Mirror(cluster.mirror)
        run_directory = self._run_directory = cluster.mirror.parent
        stage = Path((cluster.stage or "/").partition("{recipe}")[0].rstrip("/") or "/")
        #: The folder of runs, and that of this one, there.
        self.runs = f"{self.mirror.there(str(stage)).rstrip('/')}/{RUNS}"
        self.folder = f"{self.runs}/{run_directory.name}"
        #: This session for others: one of a directory at a time has the run.
        directory = str(run_directory.absolute())
        self._owner = {"session": uuid.uuid4().hex, "host": socket.gethostname(), "directory": directory}
        self._owns, self._owning = False, threading.Lock()
        #: Recipes of this machine, and their copies in the folder.
        self._sent: dict[Path, str] = {}
        #: Size and time of each of the run's files when it was sent.
        self._kept: dict[Path, tuple[int, int]] = {}
        self.connection.on_connected = self._own_again

    @property
    def host(self) -> str:
        """The login node's name in the cluster file."""
        return self.connection.host

    def node(self) -> LoginNode:
        """The login node as it has introduced itself.

        Raises:
            ConfigurationError: There is no connection.
        """
        if self.connection.node is None:
            self._needed([("hello", {})])
        assert self.connection.node is not None
        return self.connection.node

    def at_begin(self, calls: Sequence[Call]) -> Answers:
        """The answers to calls before the first submission; a failure that may pass is waited for.

        Raises:
            ConnectionLostError: There is no connection.
            HelperError: A call failed.
        """
        end_s = time.monotonic() + _BEGIN_S
        while True:
            try:
                return self.connection.request(calls, READ_S)
            except ConnectionLostError as error:
                if time.monotonic() >= end_s or not is_passing(error.fact):
                    raise
            time.sleep(self.connection.due_in_s)

    def _needed(self, calls: Sequence[Call]) -> Answers:
        """The same for a session that cannot begin without: errors are ConfigurationErrors."""
        try:
            return self.at_begin(calls)
        except RunError as error:
            raise ConfigurationError(str(error)) from None

    # -- the run's owner

    def own(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Own the run from now on; no other session may submit its jobs.

        Args:
            tell: Called with a line before the wait for another owner's sign of life.

        Raises:
            TakenOverError: Another session owns it.
            ConnectionLostError: There is no connection.
            HelperError: Its folder cannot be made there.
        """
        with self._owning:
            if not self._owns:
                self._begin_owning(tell)

    def check_owner(self) -> None:
        """Raise a TakenOverError if the run is another session's by now; other errors as those of :meth:`own`."""
        self.own()
        owner = self.connection.call("owner_of", folder=self.folder)
        if owner is None or owner["session"] != self._owner["session"]:
            raise self.taken_over(owner)

    def taken_over(self, owner: Mapping[str, str] | None = None) -> TakenOverError:
        """The error of a run that another session has taken over, that of all requests from now on."""
        who = "another session" if owner is None else f"a session on {owner['host']}"
        self.connection.taken_over = TakenOverError(f"taken over by {who}; its results are there")
        return self.connection.taken_over

    def _begin_owning(self, tell: Callable[[str], None]) -> None:
        """Own the run, after another owner has shown no sign of life for long."""
        answer = self._own(takes_over=False)
        if self._lives_elsewhere(answer):
            left = duration(OWNER_GONE_S - answer["age_s"])
            tell(f"gsw: {_belongs_to(answer['before'])}; waiting up to {left} for its sign of life")
        while self._lives_elsewhere(answer):
            age_s = answer["age_s"]
            time.sleep(min(_OWNER_LOOK_S, OWNER_GONE_S - age_s))
            answer = self._own(takes_over=False)
            if self._lives_elsewhere(answer) and answer["age_s"] < age_s:
                raise TakenOverError(f"{_belongs_to(answer['before'])}, which lives")
        if answer["before"] is not None:
            self._own(takes_over=True)
        self._owns = True
        with contextlib.suppress(HelperError):  # for a session on another machine, from the first job on
            self.keep()

    def _lives_elsewhere(self, answer: Mapping[str, Any]) -> bool:
        """True if another machine's session may have the run; one of this directory has ended: its lock is here."""
        owner = answer["before"]
        return owner is not None and not self._is_of_here(owner) and answer["age_s"] < OWNER_GONE_S

    def _is_of_here(self, owner: Mapping[str, str]) -> bool:
        return all(owner.get(name) == self._owner[name] for name in ("host", "directory"))

    def _own(self, *, takes_over: bool) -> Any:
        return self.connection.call("own_run", folder=self.folder, owner=self._owner, takes_over=takes_over)

    def _own_again(self) -> None:
        """Own the run after a new connection, perhaps to another login node."""
        if not self._owns:
            return
        self._kept.clear()  # what was under way is sent again
        before = self.connection.call("owner_of", folder=self.folder)
        if before is None:  # nothing may be made there: keys of another folder protect no submission
            raise HelperError(
                f"{self.host} does not see the run's folder any more: {self.folder}",
                advice="name one login node that sees the staging area as `host` of the cluster",
            )
        if before["session"] != self._owner["session"]:
            raise self.taken_over(before)
        self._own(takes_over=False)

    # -- texts and paths

    def there(self, text: str) -> str:
        """A text with the paths that the login node has for copies, and for recipes that were sent there."""
        text = self.mirror.there(text)
        for directory, sent in self._sent.items():
            text = re.sub(rf"{re.escape(str(directory))}(?![\w.+-])", sent.replace("\\", "\\\\"), text)
        return text

    def shown(self, text: str) -> str:
        """A text for the user, in which paths of the login node have its name."""
        return self._cluster.shown(text)

    def send_recipe(self, directory: Path) -> list[str]:
        """Send a recipe that lies on this machine, next to its table, once; return the names of files left out."""
        if self.mirror.holds(directory) or directory in self._sent:
            return []
        name = f"recipes/{hashlib.sha256(str(directory).encode()).hexdigest()[:12]}/{directory.name}"
        texts = list(texts_of(directory, SMALL_BYTES))
        files = {f"{name}/{path}": (0, text) for path, text in texts if text is not None}
        self.connection.call("keep", READ_S, files=files)
        self._sent[directory] = f"{self.folder}/{name}"
        return [path for path, text in texts if text is None]

    # -- files

    def survey(self, directories: Iterable[Path], files: Iterable[Path]) -> None:
        """Read directories of recipes and these files.

        Raises:
            ConfigurationError: There is no connection.
        """
        wanted = [path for path in dict.fromkeys(directories) if self.mirror.holds(path)]
        others = [path for path in dict.fromkeys(files) if self.mirror.holds(path)]
        names = [[self.mirror.there(str(path)) for path in paths] for paths in (wanted, others)]
        answer = self._needed([("survey", {"directories": names[0], "files": names[1]})])
        self.mirror.survey(wanted, others, answer.results[0], answer.blob)

    def read_with_next(self, jobs: Sequence[Job], wanted: Sequence[Any]) -> None:
        """Read the files of jobs together with this thread's next request."""
        arguments = {"wanted": wanted, "copies": self.mirror.copies_of(jobs)}
        self.connection.with_next("read", arguments, partial(self.mirror.receive, jobs))

    def read(self, jobs: Sequence[Job], wanted: Sequence[Any]) -> None:
        """Read the files of jobs as they are now, whole, but for one that changes faster than it is read.

        Raises:
            ConnectionLostError: The connection was lost before all was read.
            HelperError: They cannot be read.
        """
        goals: dict[str, int] | None = None
        lacked = math.inf
        while goals is None or 0 < self.mirror.lacking(goals) < lacked:
            lacked = math.inf if goals is None else self.mirror.lacking(goals)
            call = ("read", {"wanted": wanted, "copies": self.mirror.copies_of(jobs)})
            answer = self.connection.request([call], READ_S)
            self.mirror.receive(jobs, answer.results[0], answer.blob)
            if goals is None:
                goals = {path: facts["size"] for path, facts in answer.results[0]["files"].items()}

    # -- the run's own files

    def keep_with_next(self) -> None:
        """Keep the run's own files in its folder, as far as they have changed, with this thread's next request."""
        files, facts = self._changed_files()
        if files:
            self._forget(facts)
            self.connection.with_next("keep", {"files": files}, lambda *_: self._kept.update(facts))

    def keep(self) -> None:
        """Keep the run's own files in its folder now, as far as they have changed."""
        is_again = False
        while (changed := self._changed_files())[0]:
            self._forget(changed[1])
            try:
                self.connection.call("keep", READ_S, files=changed[0])
            except HelperError:  # a request of an earlier connection may have come late, and left less
                if is_again:
                    raise
                is_again = True
            else:
                self._kept.update(changed[1])

    def _forget(self, files: Iterable[Path]) -> None:
        """Send files as a whole next, unless it is known by then that they were kept."""
        for path in files:
            self._kept.pop(path, None)

    def release(self) -> None:
        """Keep the run's own files in its folder; from then on another session may own the run at once.

        Raises:
            TakenOverError: Another session owns it.
            ConnectionLostError: There is no connection.
            HelperError: They cannot be kept.
        """
        if self._owns:
            self.keep()
            self.connection.call("release")

    def _changed_files(self) -> tuple[dict[str, tuple[int, str]], dict[Path, tuple[int, int]]]:
        """The changed parts of the run's own files, and the size and time of each of these files then."""
        changed, known = dict[str, tuple[int, str]](), dict[Path, tuple[int, int]]()
        left = _MOST_KEPT_BYTES if self._owns else 0
        own = (path for path in self._run_directory.glob("*") if path != self.mirror.root)
        files = (path for place in own for path in (place.rglob("*.json*") if place.is_dir() else [place]))
        for path in sorted(path for path in files if path.suffix in {".json", ".jsonl"}):
            size, mtime_ns = self._kept.get(path, (0, 0))
            try:
                facts = path.stat()
                if (facts.st_size, facts.st_mtime_ns) == (size, mtime_ns) or left <= 0:
                    continue
                offset = size if path.suffix == ".jsonl" and facts.st_size >= size else 0  # only appended to
                with path.open("rb") as file:
                    file.seek(offset)
                    content = file.read()
            except FileNotFoundError:  # removed meanwhile
                continue
            left -= len(content)
            name = f"{_OF_SESSION}/{path.relative_to(self._run_directory).as_posix()}"
            changed[name] = offset, content.decode(errors="replace")
            known[path] = offset + len(content), facts.st_mtime_ns
        return changed, known

    def fetch_run(self) -> bool:
        """Fetch the files of a run that another machine's session has kept; false if it has no more than is here.

        Raises:
            ConfigurationError: There is no connection.
        """
        files = self._needed([("kept", {"folder": self.folder})]).results[0]["files"]
        here, there = self._run_directory / JOURNAL, files.get(JOURNAL, "").encode()
        known = here.read_bytes() if here.is_file() else b""
        if not there.startswith(known) or there == known:
            return False
        for name, text in files.items():
            path = self._run_directory / name
            if not path.resolve().is_relative_to(self._run_directory.resolve()):
                continue
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return True

    def close(self) -> None:
        """End the connection."""
        self.connection.close()


def _belongs_to(owner: Mapping[str, str]) -> str:
    return f"the run belongs to a session on {owner['host']}"


def key_of(spec: JobSpec) -> str:
    """The key of a submission in a run: its row and the number of its attempt."""
    return f"{slurm_name(spec.row_id)[:60]}-{hashlib.sha256(spec.row_id.encode()).hexdigest()[:8]}.{spec.attempt}"


_logins: dict[Path, Login] = {}


def login_to(cluster: Cluster) -> Login:
    """The session's one login to a cluster, which is ready for its jobs."""
    assert cluster.mirror is not None
    known = _logins.get(cluster.mirror)
    if known is None or known.connection.is_closed:
        known = _logins[cluster.mirror] = Login(cluster)
    return known
