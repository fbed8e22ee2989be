"""A login node on this machine: a real OpenSSH server on the loopback.

::

    with LoginNode(environment={"PATH": path}) as node:
        subprocess.run(["ssh", "-F", node.ssh_config, "eos-login", "squeue --me"])

Everything lives in one private directory: the server's key, a key of the client, and the client's configuration. The
server is a child of this process in a process group of its own; it, its connections and all that their commands have
started are killed by their process ids, and the kernel tells the server to end should this process be killed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.processes import free_ports, kill_while_any, processes_of
from tests.slurm.cluster import PATH

INSTALL = "apt-get install --no-install-recommends -y openssh-server openssh-client"

#: The name of the host in the client's configuration.
HOST = "eos-login"

#: A server's line in its log.
_LISTENS = "Server listening on "
#: In the environment of every command of a session, and of what it starts: its value names the node's directory.
_MARK = "TESTS_LOGIN_NODE"
_TIMEOUT_S = 30
_LOOK_S = 0.01
#: The server refuses to start as root without it.
_SEPARATION = Path("/run/sshd")


def missing_requirements() -> str | None:
    """The reason why this machine cannot have a :class:`LoginNode`, and what to type; ``None`` if it can."""
    missing = [name for name in ("sshd", "ssh", "ssh-keygen", "setpriv") if shutil.which(name, path=PATH) is None]
    if missing:
        return f"a login node needs {', '.join(missing)}: {INSTALL}"
    if not Path("/proc/thread-self/children").exists():
        return "connections cannot be counted: this kernel has no CONFIG_PROC_CHILDREN"
    return None


class LoginNodeError(Exception):
    """The server did not do what was asked of it."""


class Connections(NamedTuple):
    """Connections to a login node."""

    #: Open now, and most open at once, as seen every 10 ms: a :class:`Link` counts each.
    now: int
    most: int


class LoginNode:
    """Start a server on entry, end it and remove its directory on exit.

    Args:
        max_sessions: Sessions of one connection: with 1, ``ControlMaster`` has no room for another command.
        max_startups: Connections at once that have not logged in yet, ``3`` or ``10:30:100``.
        environment: Variables of each command's environment; HOME and PATH have the login shell's values by default.
        home: The user's home directory, by default an empty one in the node's directory. bash reads its ``.bashrc``
            for ``ssh HOST COMMAND`` (as Debian and Red Hat build it), and its ``.bash_profile`` for ``bash -lc``, after
            /etc/profile, which sets PATH anew. Commands start in the home directory of the password file.
    """

    def __init__(
        self,
        *,
        max_sessions: int = 10,
        max_startups: str = "10:30:100",
        environment: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self._max_sessions = max_sessions
        self._max_startups = max_startups
        self._environment = dict(environment or {})
        self._home = home
        self._server: subprocess.Popen[bytes] | None = None
        self._most = 0
        self._ends = threading.Event()
        self._watch = threading.Thread(target=self._watch_connections, daemon=True)
        self.directory = Path()
        self.port = 0

    # -- Life -----------------------------------------------------------------------------------

    def __enter__(self) -> LoginNode:  # noqa: PYI034 - typing.Self is Python 3.11's
        problem = missing_requirements()
        if problem is not None:
            raise LoginNodeError(problem)
        # /tmp and not TMPDIR: the path of a ControlPath's socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="gsw-ssh-", dir="/tmp"))
        try:
            (self.directory / "log").touch()
            (self.port,) = free_ports(1)
            self._configure()
            self.start()
            self._watch.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        if self._watch.is_alive():
            self._watch.join(_TIMEOUT_S)
        self.stop()
        if self.directory != Path():
            kill_while_any(lambda: processes_of(self.directory))
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start the server, with the port and the key that it had; wait until it listens."""
        if os.geteuid() == 0:
            _SEPARATION.mkdir(mode=0o755, exist_ok=True)
        server = [shutil.which("sshd", path=PATH) or "sshd", "-f", str(self.directory / "sshd_config")]
        # Since OpenSSH 9.8, an address whose connections were cut is refused for a while.
        lenient = [*server, "-o", "PerSourcePenalties=no"]
        tried = subprocess.run([*lenient, "-t"], capture_output=True, timeout=_TIMEOUT_S, check=False)
        server = server if tried.returncode else lenient
        with self._listening(), (self.directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *server, "-D", "-e"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """Kill the server and its connections, as when the node loses its power; commands go on without their input.

        New connections are refused, behind a :class:`Link` closed at once.
        """
        server, self._server = self._server, None
        if server is not None:
            # It takes no connection while those that it has are looked for.
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGSTOP)
            _kill_serving(server.pid)
            server.kill()
            server.wait(_TIMEOUT_S)

    # -- What a test does to it -----------------------------------------------------------------

    @property
    def ssh_config(self) -> Path:
        """The client's configuration for this node alone, as of ``ssh -F``; :func:`write_ssh_config` writes others."""
        return self.directory / "ssh_config"

    @property
    def log(self) -> str:
        """The server's log."""
        return (self.directory / "log").read_text(errors="replace")

    def connections(self) -> Connections:
        """The connections that are open now, and the most at once since the node was made."""
        server = self._server
        now = 0 if server is None else len(_serving(server.pid))
        self._most = max(self._most, now)
        return Connections(now, self._most)

    def cut(self) -> None:
        """Kill the processes that serve connections; the commands that they have started get the end of their input."""
        if self._server is not None:
            _kill_serving(self._server.pid)

    def change_host_key(self) -> None:
        """Give the server another key than the client has seen, as a node that was set up anew; connections go on."""
        self._make_key("host_key")
        assert self._server is not None
        with self._listening():
            self._server.send_signal(signal.SIGHUP)

    # -- Configuration --------------------------------------------------------------------------

    def _configure(self) -> None:
        for name in ("host_key", "client_key"):
            self._make_key(name)
        home = self._home or self.directory / "home"
        home.mkdir(exist_ok=True)
        environment = {"HOME": str(home), **self._environment, _MARK: f"{self.directory}/"}
        # The first SetEnv counts alone.
        variables = " ".join(_quoted(f"{name}={value}") for name, value in environment.items())
        (self.directory / "sshd_config").write_text(
            f"Port {self.port}\n"
            "ListenAddress 127.0.0.1\n"
            f"HostKey {self.directory}/host_key\n"
            f"AuthorizedKeysFile {self.directory}/client_key.pub\n"
            "StrictModes no\n"
            "PubkeyAuthentication yes\n"
            "PasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\n"
            "UsePAM no\n"
            "UseDNS no\n"
            "PidFile none\n"
            "LogLevel VERBOSE\n"
            f"MaxSessions {self._max_sessions}\n"
            f"MaxStartups {self._max_startups}\n"
            f"SetEnv {variables}\n"
        )
        write_ssh_config(self.ssh_config, self.port, self)

    def _make_key(self, name: str) -> None:
        for path in (self.directory / name, self.directory / f"{name}.pub"):
            path.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.directory / name)]
        subprocess.run(command, check=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL)

    # -- Processes ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Wait until the server has logged once more that it listens."""
        before = self.log.count(_LISTENS)
        yield
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self.log.count(_LISTENS) == before:
            if self._server is None or self._server.poll() is not None or time.monotonic() > deadline_s:
                raise LoginNodeError(f"sshd did not start:\n{self.log[-2000:]}")
            time.sleep(_LOOK_S)

    def _watch_connections(self) -> None:
        while not self._ends.wait(_LOOK_S):
            self.connections()


def write_ssh_config(path: Path, port: int, *nodes: LoginNode) -> Path:
    """Write the client's configuration of one host behind a port; return its path.

    It trusts the keys that these nodes have now, and has the client's key of each. A directory ``bin`` beside it gets a
    program ``ssh`` that uses it, for the PATH of what cannot be given ``-F``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known_hosts = path.with_name("known_hosts")
    keys = [(node.directory / "host_key.pub").read_text().split()[:2] for node in nodes]
    known_hosts.write_text("".join(f"{HOST} {kind} {key}\n" for kind, key in keys))
    path.write_text(
        f"Host {HOST}\n"
        "  HostName 127.0.0.1\n"
        f"  Port {port}\n"
        f"  HostKeyAlias {HOST}\n"
        f"  User {pwd.getpwuid(os.geteuid()).pw_name}\n"
        + "".join(f"  IdentityFile {node.directory}/client_key\n" for node in nodes)
        + "  IdentitiesOnly yes\n"
        "  IdentityAgent none\n"
        "  BatchMode yes\n"
        "  StrictHostKeyChecking yes\n"
        f"  UserKnownHostsFile {known_hosts}\n"
        "  GlobalKnownHostsFile /dev/null\n"
    )
    program = path.parent / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh", path=PATH)} -F {path} "$@"\n')
    program.chmod(0o755)
    return path


def _quoted(text: str) -> str:
    """An argument of a line of sshd_config."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _serving(server: int) -> list[int]:
    """The processes of a server that serve one connection each."""
    return [pid for pid in _children(server) if _is_sshd(pid)]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_sshd(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
    return False


def _kill_serving(server: int) -> None:
    for pid in _serving(server):
        # Of other users than root, a second process has the connection.
        for process in (pid, *filter(_is_sshd, _children(pid))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
