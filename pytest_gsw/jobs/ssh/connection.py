"""The one connection to a login node: OpenSSH's own client, with the helper at its other end.

Keys, jumps, tokens and masters are those of the user's own configuration of ssh. Requests of all threads share the one
channel. Once the connection is lost, each request fails at once until the next attempt is due.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import re
import secrets
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import moment
from pytest_gsw.errors import RunError, TakenOverError

#: Seconds for a connection, and that an answer may come later than the time of its command.
CONNECT_S = 30.0
LATE_S = 45.0
#: Seconds for each of these once the session is to end.
_HURRY_S = 5.0
#: Seconds between two attempts to connect, the first and the longest.
_BACK_OFF_S = 1.0
_LONGEST_BACK_OFF_S = 60.0
#: Bytes that a login shell may print before the first answer; the longest line of it; lines of ssh that are kept.
_MOST_NOISE = 1 << 20
_LONGEST_LINE = 1 << 16
_LAST_LINES = 20
#: Bytes of files that are received at a time.
_PIECE_BYTES = 1 << 14
#: The reason of an end because of the first of these.
_FLOOD = "its login shell prints more than 1 MiB"

#: Never a prompt, never the master of others, and a dead link is noticed; the rest is the user's own configuration.
_OPTIONS = tuple(
    f"-o{option}"
    for option in (
        *("BatchMode=yes", "ControlMaster=no", f"ConnectTimeout={CONNECT_S:.0f}", "LogLevel=ERROR"),
        *("ServerAliveInterval=15", "ServerAliveCountMax=3", "ForwardX11=no", "RequestTTY=no"),
    )
)
#: Runs the program that comes first over standard input; a login shell sets the path to Slurm.
_START = (
    "import sys; "
    "sys.version_info < (3, 6) and sys.exit('python3 is %d.%d, wanted 3.6 or newer' % sys.version_info[:2]); "
    "r = sys.stdin.buffer; "
    "exec(compile(r.read(int(r.readline())), 'pytest-gsw', 'exec')); main(sys.argv[1])"
)


class ConnectionLostError(RunError):
    """A login node is out of reach; the state of everything there is unknown."""


class HelperError(RunError):
    """The helper could not carry out a request: the login node's files or programs are the reason."""


class RefusedRequestError(HelperError):
    """The helper refused a request: ``busy`` or ``taken over``."""


#: ssh's last words, and what to type next.
_ADVICE = {
    "ssh could not be run": "install OpenSSH's client: apt-get install openssh-client",
    "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|host key is known": (
        "ask the cluster's administrators for its host key; `ssh {target}` once by hand accepts a new one, "
        "and `ssh-keygen -R` removes an old one"
    ),
    "Could not resolve": "correct `host` of the cluster, or name it in ~/.ssh/config: ssh {target} true",
    "Permission denied|Too many authentication failures|no supported authentication": (
        "`ssh {target} true` must work without a question: ssh-add; "
        "or begin a master, with ControlPath in ~/.ssh/config: ssh -MNf {target}"
    ),
    "[Bb]ad configuration|[Bb]ad owner or permissions|terminating, [0-9]+ bad|user config file|(unknown|illegal) option"
    "|extra arguments|[Mm]issing argument|[Uu]nsupported option|invalid (format|quotes)": (
        "correct the configuration of ssh, or `ssh` of the cluster: ssh {target} true"
    ),
    "(bash|python3)[^\n]*not found|No such file or directory|wanted 3.6|SyntaxError|SystemError|ImportError": (
        "the login node needs bash, and python3 3.6 or newer first in its PATH: "
        "ssh {target} bash -l <<< 'python3 --version'"
    ),
    f"{_FLOOD}|^ValueError: invalid literal|EOFError|no answer": (
        "its login shell must neither print without end nor read: ssh {target} 'bash -lc true </dev/null | wc -c'"
    ),
    "ended with exit code (?!255)": (
        "do the start-up files of the login shell end it? ssh {target} bash -l <<< 'python3 --version'"
    ),
}
#: Of these, those that may pass by themselves: a server that restarts, or that drops one of many new connections.
_PASSING = re.compile(
    "timed out|Connection refused|No route|unreachable|closed|reset by|Broken pipe|no answer|exit code"
)
#: A line that many others follow.
_DECISIVE = re.compile("IDENTIFICATION HAS CHANGED|(unknown|illegal) option")
_ANY_ADVICE = "is {host} up, and is it reached from here? ssh tells more: ssh -v {target} true"


@dataclass(frozen=True)
class Machine:
    """The machine on which Slurm's commands run: a login node, or this one if it has no name."""

    host: str = ""
    #: Further options of ssh.
    options: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The arguments of ssh that name it, for the user's shell."""
        return shlex.join((*self.options, self.host))

    def path(self, path: str) -> str:
        """A path for the user, after the machine's name."""
        return f"{self.host}:{path}" if self.host else path

    def command(self, *words: str) -> str:
        """A command that runs there, with the variables of a login shell, for the user's shell."""
        text = shlex.join(words)
        return f"ssh {self.target} bash -l <<< {shlex.quote(text)}" if self.host else text

    def advice(self, why: str) -> str:
        """The advice on one of ssh's errors."""
        known = (text for pattern, text in _ADVICE.items() if re.search(pattern, why))
        return next(known, _ANY_ADVICE).format(host=self.host, target=self.target)


@dataclass(frozen=True)
class LoginNode:
    """A login node as it has introduced itself."""

    host: str
    user_id: int
    python: tuple[int, ...]
    #: The variables of its login shell.
    variables: Mapping[str, str] = field(repr=False)


def changes_to(environment: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str | None]:
    """The changes that make an environment of a login shell's variables; ``None`` unsets one."""
    changes: dict[str, str | None] = dict.fromkeys(variables.keys() - environment.keys())
    return changes | {name: value for name, value in environment.items() if variables.get(name) != value}


#: A call of one of the helper's methods: its name and its arguments.
Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Answers:
    """The results of the calls of one request, in their order, and the bytes of files that belong to them."""

    results: list[Any]
    blob: bytes


class Connection:
    """The connection to a login node, made at the first request and made again when it was lost.

    Args:
        host: As the user's ssh knows it.
        options: Further options of ssh.
    """

    def __init__(self, host: str, options: Sequence[str] = ()) -> None:
        self.host = host
        self.machine = Machine(host, tuple(options))
        #: Called with the login node after each connection, before any other request.
        self.on_connected: Callable[[], None] = lambda: None
        #: Why the session may ask for nothing more; ``None`` as long as the run is its own.
        self.taken_over: TakenOverError | None = None
        #: The last introduction, and the number of requests so far.
        self.node: LoginNode | None = None
        self.requests = 0
        self._clock_ahead_s = 0.0
        #: Most seconds for a quick call, and that an answer may be late, once the session is to end.
        self._most_s = math.inf
        #: Calls that go with this thread's next request, each with the receiver of its result.
        self._riders = threading.local()
        self._connecting, self._state = threading.RLock(), threading.Lock()
        self._line: _Line | None = None
        #: Options for each address behind the name, the next one first; ``None`` before it is resolved.
        self._addresses: deque[tuple[str, ...]] | None = None
        self._due_s, self._back_off_s = 0.0, _BACK_OFF_S
        #: Since when and why there is no connection: seconds since the epoch.
        self._lost_s: float | None = None
        self._why = ""
        #: True once the session has ended it.
        self.is_closed = False
        atexit.register(self.close)

    def now_s(self) -> float:
        """Seconds since the epoch by the login node's clock."""
        return time.time() + self._clock_ahead_s

    @property
    def due_in_s(self) -> float:
        """Seconds until the next attempt to connect is due."""
        return max(0.0, self._due_s - time.monotonic())

    @property
    def lost_text(self) -> str:
        """The fact that the connection is lost, and since when; empty if it is not."""
        return "" if self._lost_s is None else f"connection to {self.host} lost at {moment(self._lost_s)} ({self._why})"

    def with_next(self, do: str, arguments: Mapping[str, Any], receive: Callable[[Any, bytes], None]) -> None:
        """Send a call with this thread's next request, after it; its result, if any, is handed to ``receive``."""
        self._riders.waiting = [*getattr(self._riders, "waiting", ()), ((do, arguments), receive)]

    def hurry(self) -> None:
        """Wait no longer than some seconds for a quick call from now on: the session is to end."""
        self._most_s = _HURRY_S

    @property
    def late_s(self) -> float:
        """Seconds that an answer may come later than the time of its command."""
        return min(LATE_S, self._most_s)

    def call(self, do: str, timeout_s: float | None = None, **arguments: Any) -> Any:
        """The result of one call, by default a quick one; see :meth:`request`."""
        return self.request([(do, arguments)], timeout_s or min(CONNECT_S, self._most_s)).results[0]

    def request(self, calls: Sequence[Call], timeout_s: float = CONNECT_S) -> Answers:
        """The results of calls that the helper carries out one after the other.

        Args:
            calls: The calls.
            timeout_s: Seconds that they may take there.

        Raises:
            ConnectionLostError: There is no answer: what was done is unknown.
            HelperError: One of them failed there.
        """
        return self.begin(calls, timeout_s).result()

    def begin(self, calls: Sequence[Call], timeout_s: float = CONNECT_S) -> Pending:
        """Send calls whose results are awaited later; errors as those of :meth:`request`."""
        line = self._connected()
        riders, self._riders.waiting = getattr(self._riders, "waiting", ()), []
        with self._state:
            self.requests += 1
        sent = line.send([*calls, *(call for call, _ in riders)])
        return Pending(self, line, sent, len(calls), [receive for _, receive in riders], timeout_s)

    def close(self) -> None:
        """End the connection; a submission that is under way there is finished first, without being awaited."""
        self.is_closed = True
        line, self._line = self._line, None
        if line is not None:
            line.end("the session has ended")
        atexit.unregister(self.close)

    def lose(self, line: _Line, why: str) -> ConnectionLostError:
        """End a connection that does not answer."""
        line.end(why)
        return self._lost(line)

    def _lost(self, line: _Line | None) -> ConnectionLostError:
        """Note that there is no connection; the error of all requests until there is one again."""
        with self._state:
            if line is not None and self._line not in {None, line}:  # there is a new one by now
                return ConnectionLostError(f"connection to {self.host} lost ({line.why})")
            self._line = None
            self._lost_s, self._why = self._lost_s or time.time(), line.why if line is not None else self._why
            return ConnectionLostError(self.lost_text, advice=self.machine.advice(self._why))

    def _connected(self) -> _Line:
        with self._connecting:
            if self.taken_over is not None:
                raise self.taken_over
            line = self._line
            if line is not None and not line.has_ended:
                return line
            if line is not None:
                self._lost(line)
            if self.is_closed or time.monotonic() < self._due_s:
                raise self._lost(None)
            self._back_off_s, back_off_s = min(2 * self._back_off_s, _LONGEST_BACK_OFF_S), self._back_off_s
            self._due_s = time.monotonic() + back_off_s
            line = _Line(self._command())
            self._line = line
            try:
                hello = Pending(self, line, line.send([("hello", {})]), 1, [], CONNECT_S).result().results[0]
            except ConnectionLostError as error:
                self._why = line.why or error.fact
                command = shlex.join(self._command()[:-1])
                self._try_next_address()
                raise ConnectionLostError(
                    f"no connection to {self.host}: {self._why}",
                    (("command", command),),
                    line.last_lines(),
                    self.machine.advice(self._why),
                ) from None
            python = tuple(hello["python"])
            self.node = LoginNode(hello["host"], hello["user_id"], python, hello["variables"])
            try:
                self.on_connected()
            except RunError as error:
                self._try_next_address()
                raise self.lose(line, error.fact) from None
            except TakenOverError as error:
                self.lose(line, str(error))
                raise
            self._lost_s, self._back_off_s = None, _BACK_OFF_S
            return line

    def _command(self) -> tuple[str, ...]:
        """The command of ssh; of a name of several hosts, the one that answered last, or the next one."""
        if self._addresses is None:
            self._addresses = deque(_addresses_of(self.host, self.machine.options))
        address = self._addresses[0] if self._addresses else ()
        start = shlex.join(("exec", "bash", "-lc", f"exec python3 -c {shlex.quote(_START)} {_MARKER}"))
        return ("ssh", *self.machine.options, *_OPTIONS, *address, "-T", self.host, start)

    def _try_next_address(self) -> None:
        if self._addresses:
            self._addresses.rotate(-1)

    def note_clock(self, there_s: float, sent_s: float) -> None:
        """Compare the login node's clock with this machine's, which the request was sent by."""
        now_s = time.time()
        if now_s - sent_s < CONNECT_S:
            self._clock_ahead_s = there_s - now_s if abs(there_s - now_s) > now_s - sent_s else 0.0


class Pending:
    """A request whose answer is awaited."""

    def __init__(
        self,
        connection: Connection,
        line: _Line,
        sent: Future[tuple[Mapping[str, Any], bytes]],
        calls: int,
        receivers: Sequence[Callable[[Any, bytes], None]],
        timeout_s: float,
    ) -> None:
        self._connection, self._line, self._sent = connection, line, sent
        self._calls, self._receivers = calls, receivers
        self._sent_s, self._end_s = time.time(), time.monotonic() + timeout_s + connection.late_s

    def result(self, wait_s: float | None = None) -> Answers:
        """The answer.

        Raises:
            TimeoutError: There is none after ``wait_s`` seconds, and there may be one later.
            ConnectionLostError: There is none, and there will be none.
            HelperError: A call failed there.
        """
        try:
            content, blob = self._awaited(wait_s)
        except ConnectionLostError:
            raise self._connection.lose(self._line, "") from None
        self._connection.note_clock(content["time_s"], self._sent_s)
        results, ends = content["results"], [0]
        for result in results:
            ends.append(ends[-1] + result.get("bytes", 0))
        pieces = [blob[start:end] for start, end in pairwise(ends)]
        riders = zip(self._receivers, results[self._calls :], pieces[self._calls :], strict=True)
        for receive, result, piece in riders:
            if "is" in result:
                receive(result["is"], piece)
        for result in results[: self._calls]:
            if "refused" in result:
                raise RefusedRequestError(result["refused"])
            if "failed" in result:
                raise HelperError(f"{self._connection.host}: {printable(result['failed'])[:400]}")
        return Answers([result["is"] for result in results[: self._calls]], b"".join(pieces[: self._calls]))

    def _awaited(self, wait_s: float | None) -> tuple[Mapping[str, Any], bytes]:
        """The answer's parts; it is not late as long as files arrive, however slowly."""
        while True:
            end_s = max(self._end_s, self._line.received_s + self._connection.late_s)
            left_s = max(0.0, end_s - time.monotonic())
            try:
                return self._sent.result(left_s if wait_s is None else min(wait_s, left_s))
            except (TimeoutError, FutureTimeoutError):  # one since Python 3.11
                if time.monotonic() >= max(end_s, self._line.received_s + self._connection.late_s):
                    raise self._connection.lose(self._line, "no answer") from None
                if wait_s is not None:
                    raise TimeoutError from None


#: Begins each answer, so that nothing else is taken for one.
_MARKER = secrets.token_hex(16)


class _Line:
    """One process of ssh, with a thread for what it reads, what it writes, and its complaints."""

    def __init__(self, command: Sequence[str]) -> None:
        self.why = ""
        #: When the last piece of the files that are being received came, monotonic seconds.
        self.received_s = -math.inf
        self._errors: deque[str] = deque(maxlen=_LAST_LINES)
        self._pending: dict[int, Future[tuple[Mapping[str, Any], bytes]]] = {}
        self._lock, self._number = threading.Lock(), 0
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self.has_ended = False
        try:
            # Ctrl-C goes to all processes of a terminal, and must not end the connection.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ConnectionLostError(
                f"ssh could not be run: {error.strerror}",
                advice=_ADVICE["ssh could not be run"],
            ) from None
        program = Path(__file__).with_name("login_helper.py").read_bytes()
        self._outbox.put(f"{len(program)}\n".encode() + program)
        self._threads = [
            threading.Thread(target=target, name=f"gsw-ssh-{target.__name__}", daemon=True)
            for target in (self._complain, self._write, self._read)
        ]
        for thread in self._threads:  # the reader, which waits for another one, is the last
            thread.start()

    def send(self, calls: Sequence[Call]) -> Future[tuple[Mapping[str, Any], bytes]]:
        """Send a request; the future has its answer."""
        answer: Future[tuple[Mapping[str, Any], bytes]] = Future()
        with self._lock:
            self._number += 1
            number = self._number
            if self.has_ended:
                answer.set_exception(ConnectionLostError(self.why))
                return answer
            self._pending[number] = answer
        text = json.dumps({"id": number, "calls": calls}).encode()
        self._outbox.put(f"{len(text)}\n".encode() + text)
        return answer

    def last_lines(self) -> tuple[str, ...]:
        """The last lines of ssh's own errors."""
        return tuple(self._errors)

    def end(self, why: str) -> None:
        """End the process; all requests without an answer fail."""
        with self._lock:
            if self.has_ended:
                return
            self.has_ended, self.why = True, why or "ended"
            pending, self._pending = self._pending, {}
        self._outbox.put(None)
        with contextlib.suppress(OSError):
            self._process.terminate()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for answer in pending.values():
            answer.set_exception(ConnectionLostError(self.why))
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join(2.0)

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            while (message := self._outbox.get()) is not None:
                stream.write(message)
                stream.flush()
        with contextlib.suppress(OSError, ValueError):
            stream.close()

    def _complain(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while line := stream.readline(_LONGEST_LINE):
                if text := printable(line.decode(errors="replace")).strip():
                    self._errors.append(text[:400])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            try:
                while self._read_answer(stream):
                    pass
            except (OSError, ValueError):
                pass
            code = self._process.poll()
        if not self.has_ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(1.0)
            self._threads[0].join(1.0)  # its last words
            said = [line for line in self._errors if "@@@@" not in line]
            problem = next(filter(_DECISIVE.search, said), said[-1] if said else "")
            self.end(problem.strip("@ ") or f"ssh ended with exit code {code}")

    def _read_answer(self, stream: IO[bytes]) -> bool:
        """Read up to the end of the next answer; false at the end, or if what comes is no answer."""
        noise, marked = 0, f"{_MARKER} ".encode()
        while not (line := stream.readline(_LONGEST_LINE)).startswith(marked):
            noise += len(line)
            if noise > _MOST_NOISE:
                self.end(_FLOOD)
            if not line or noise > _MOST_NOISE:
                return False
        text_bytes, blob_bytes = map(int, line[len(marked) :].split())
        content = json.loads(_exactly(stream, text_bytes))
        pieces = []
        for start in range(0, blob_bytes, _PIECE_BYTES):
            pieces.append(_exactly(stream, min(_PIECE_BYTES, blob_bytes - start)))
            self.received_s = time.monotonic()
        self.received_s, blob = -math.inf, b"".join(pieces)
        with self._lock:
            answer = self._pending.pop(content["id"], None)
        if answer is not None:
            answer.set_result((content, blob))
        return True


def _exactly(stream: IO[bytes], count: int) -> bytes:
    content = stream.read(count)
    if len(content) != count:
        raise ValueError("cut")
    return content


def is_passing(why: str) -> bool:
    """True if a connection may be possible a moment after it failed for this reason."""
    return _PASSING.search(why) is not None


def _addresses_of(host: str, options: Sequence[str]) -> list[tuple[str, ...]]:
    """Options of ssh that fix each of several addresses behind a name.

    None for a single one, one behind a jump, and one that may have a master: its socket may have the name.
    """
    try:
        command = ("ssh", *options, "-G", host)
        shown = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_S, check=True).stdout
        known = dict(line.partition(" ")[::2] for line in shown.splitlines())
        name, port = known["hostname"], known.get("port", "22")
        found = sorted({str(info[4][0]) for info in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)})
    except (OSError, subprocess.SubprocessError, KeyError):
        return []
    if len(found) < 2 or not {"hostkeyalias", "proxycommand", "proxyjump", "controlpath"}.isdisjoint(known):
        return []
    alias = name if port == "22" else f"[{name}]:{port}"
    return [(f"-oHostName={address}", f"-oHostKeyAlias={alias}") for address in found]
