"""A real PostgreSQL server on this machine, for tests and benchmarks.

::

    with PostgresqlServer() as server:
        open_history(server.url)

Everything lives in one private directory, the socket too; nothing listens on a network. The server is a child of
this process, is stopped by its process id, and is told by the kernel to end should this process be killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

INSTALL = "apt-get install --no-install-recommends -y postgresql"
#: Of the only user, who is the superuser as well.
PASSWORD = "s3cret-of-the-tests"  # noqa: S105 - of a server that only this process can reach

_TIMEOUT_S = 60
#: The server refuses to run as root.
_USER = "postgres"


def missing_requirements() -> str | None:
    """What this machine lacks for a server, and what to type; ``None`` if nothing."""
    if _binaries() is None:
        return f"there is no PostgreSQL server: {INSTALL}"
    if importlib.util.find_spec("psycopg") is None:
        return "there is no psycopg: pip install '.[postgresql]'"
    if shutil.which("setpriv") is None:
        return "there is no setpriv: apt-get install --no-install-recommends -y util-linux"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(_USER)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no user {_USER}: {INSTALL}"
    return None


class ServerError(Exception):
    """The server did not do what was asked of it."""


class PostgresqlServer:
    """Start a server on entry, end it and remove its directory on exit.

    Args:
        options: Settings of the server, ``NAME=VALUE``.
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._directory = Path()
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the database ``gsw``."""
        return self.url_of("gsw")

    def url_of(self, database: str) -> str:
        """The URL of a database."""
        return f"postgresql://gsw:{PASSWORD}@/{database}?host={self._directory}"

    def make_database(self, name: str) -> str:
        """The URL of a new, empty database."""
        import psycopg

        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url_of(name)

    @contextlib.contextmanager
    def read_only(self, url: str) -> Iterator[None]:
        """Let a database take no changes."""
        import psycopg

        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
            yield
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._try_to_start(deadline):
            # The children of a server that was killed hold its memory until they have noticed.
            if time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL did not start:\n{self._log()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server; whoever is connected is cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server, as a machine that fails would."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> PostgresqlServer:  # noqa: PYI034 - typing.Self is Python 3.11's
        problem = missing_requirements()
        if problem is not None:
            raise ServerError(problem)
        # /tmp and not TMPDIR: the path of a UNIX socket has at most 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="gsw-postgresql-", dir="/tmp"))
        try:
            if os.geteuid() == 0:
                shutil.chown(self._directory, _USER)
            self._make_data()
            self.start()
            self.make_database("gsw")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _make_data(self) -> None:
        secret = self._directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = subprocess.run(
            [
                *_as_server("initdb"), "--pgdata", str(self._data), "--username=gsw", "--auth=scram-sha-256",
                f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync",
            ],
            capture_output=True, text=True, timeout=_TIMEOUT_S, cwd="/", check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServerError(f"initdb failed: {made.stderr}")

    def _try_to_start(self, deadline: float) -> bool:
        settings = ("fsync=off", f"unix_socket_directories={self._directory}", "listen_addresses=", *self._options)
        with (self._directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*_as_server("postgres"), "-D", str(self._data), *(f"--{setting}" for setting in settings)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/",
            )  # fmt: skip
        while self._server.poll() is None:
            if self._answers():
                return True
            if time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL does not answer:\n{self._log()}")
            time.sleep(0.05)
        return False

    def _answers(self) -> bool:
        ready = subprocess.run(
            [*_as_server("pg_isready"), "--quiet", "--host", str(self._directory)], cwd="/", check=False
        )
        return ready.returncode == 0

    def _end(self, sign: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                server.send_signal(sign)
            server.wait(_TIMEOUT_S)

    def _log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")[-2000:]

    @property
    def _data(self) -> Path:
        return self._directory / "data"


def _binaries() -> Path | None:
    """Where the newest server's programs are: Debian has them on nobody's PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _as_server(program: str) -> Sequence[str]:
    """A program of the server's, by its user, which ends when this process does."""
    binaries = _binaries()
    assert binaries is not None
    user = ("--reuid", _USER, "--regid", _USER, "--init-groups") if os.geteuid() == 0 else ()
    return ("setpriv", *user, "--pdeathsig", "QUIT", str(binaries / program))
