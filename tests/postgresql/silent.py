"""A server that takes connections and then says nothing, or greets first: as one whose disk hangs does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType

#: What clients ask before they say who they are: whether the server can encrypt.
_ENCRYPT = {80877103, 80877104}

#: After which something hangs; no machine is so slow.
GIVE_UP_S = 120.0


class SilentServer:
    """Listen on a port of this machine on entry; stop that on exit.

    Args:
        greets: Whether it takes the client in, and is silent only then.
    """

    def __init__(self, *, greets: bool) -> None:
        self._greets = greets
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self._taken_in = threading.Event()

    @property
    def url(self) -> str:
        """Its URL, with a database."""
        return f"postgresql://gsw@127.0.0.1:{self._socket.getsockname()[1]}/gsw?sslmode=disable"

    @property
    def connections(self) -> int:
        """The number of clients so far."""
        return len(self._clients)

    def wait_for_client(self) -> None:
        """Return once a client has connected, and been greeted if that is done: it waits for an answer now, or soon.

        Raises:
            AssertionError: None has within :data:`GIVE_UP_S`.
        """
        assert self._taken_in.wait(GIVE_UP_S), "no client has connected"

    def __enter__(self) -> SilentServer:  # noqa: PYI034 - typing.Self is Python 3.11's
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # which ends accept()
        self._socket.close()
        for client in self._clients:
            client.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._clients.append(client)
            if self._greets:
                _greet(client)
            self._taken_in.set()


class SlowServer:
    """A server before another one, which hands on each of its answers late.

    Args:
        url: The other's URL, of its socket.
        delay_s: By how much an answer is late.
    """

    def __init__(self, url: str, delay_s: float) -> None:
        self._delay_s = delay_s
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        before, _, directory = url.partition("?host=")
        self._other = f"{directory}/.s.PGSQL.5432"
        here = f"@127.0.0.1:{self._socket.getsockname()[1]}/"
        #: Its URL, with the other's database.
        self.url = f"{before.replace('@/', here)}?sslmode=disable"

    def __enter__(self) -> SlowServer:  # noqa: PYI034 - typing.Self is Python 3.11's
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._socket, *self._ends):
            with contextlib.suppress(OSError):  # the other side has closed it
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(GIVE_UP_S)
        for end in (self._socket, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._other)
            self._ends += [client, server]
            for of_both in ((client, server, 0.0), (server, client, self._delay_s)):
                self._threads.append(threading.Thread(target=_hand_on, args=of_both, daemon=True))
                self._threads[-1].start()


def _hand_on(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(delay_s)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _greet(client: socket.socket) -> None:
    while True:
        (length,) = struct.unpack("!i", client.recv(4, socket.MSG_WAITALL))
        (code,) = struct.unpack("!i", client.recv(length - 4, socket.MSG_WAITALL)[:4])
        if code not in _ENCRYPT:
            break
        client.sendall(b"N")
    settings = {"server_version": "15.4", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
    said = [_message(b"S", f"{name}\0{value}\0".encode()) for name, value in settings.items()]
    welcome = _message(b"R", struct.pack("!i", 0))
    client.sendall(welcome + b"".join(said) + _message(b"K", struct.pack("!ii", 1, 1)) + _message(b"Z", b"I"))


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
