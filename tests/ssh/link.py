"""A TCP link on the loopback that a test can cut, freeze and refuse.

::

    with Link([node.port]) as link:
        config = ssh_config_through(link, node)
        link.cut_after(to_client=0)  # the next answer is lost

It forwards bytes, which SSH has encrypted: a test that cuts within an answer tries several numbers of bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65536


class Traffic(NamedTuple):
    """Connections and bytes of a link since its start."""

    #: Connections made, open now, and most open at once.
    made: int
    now: int
    most: int
    #: Bytes forwarded.
    to_server: int
    to_client: int


class _Connection:
    """Both sides of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.is_frozen = False
        self.is_cut = False
        self.open_directions = 2

    def shut(self) -> None:
        """End both sides, and the calls that wait for them."""
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


class Link:
    """Forward connections on entry, end all of them on exit.

    Args:
        targets: Ports on the loopback; each new connection goes to the next one, in turn.
    """

    def __init__(self, targets: Sequence[int]) -> None:
        self._targets = itertools.cycle(targets)
        #: Guards all below; notified when frozen connections may go on.
        self._change = threading.Condition()
        self._connections: set[_Connection] = set()
        self._threads: list[threading.Thread] = []
        self._made = self._most = 0
        self._bytes = {"server": 0, "client": 0}
        #: Bytes that may still pass in a direction before the link is cut.
        self._left: dict[str, int] = {}
        self._is_frozen = False
        self._listener: socket.socket | None = None
        # It keeps the port while the link is down.
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]

    @property
    def traffic(self) -> Traffic:
        """Connections and bytes since the start."""
        with self._change:
            return Traffic(self._made, len(self._connections), self._most, self._bytes["server"], self._bytes["client"])

    def cut(self) -> None:
        """Cut all connections now; new ones are accepted."""
        with self._change:
            self._cut()

    def cut_after(self, *, to_server: int | None = None, to_client: int | None = None) -> None:
        """Cut all connections at the first byte beyond so many more of a direction, which is lost with all that follows.

        With 0 the next byte is: ``to_client=0`` loses the answer to what the server still gets. Connections that are made
        after the cut are not limited. Another call replaces the limits; without numbers there are none.
        """
        with self._change:
            limits = {"server": to_server, "client": to_client}
            self._left = {side: limit for side, limit in limits.items() if limit is not None}

    def down(self) -> None:
        """Refuse new connections; open ones go on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def up(self) -> None:
        """Accept new connections again."""
        if self._listener is None:
            self._listener = _bound(self.port)
            self._listener.listen(64)
            self._start(self._accept, self._listener)

    def freeze(self, *, new: bool = True) -> None:
        """Forward nothing more on the open connections and close none, whatever their ends do.

        Args:
            new: New connections are frozen, too; otherwise they work, as after a NAT has forgotten the old ones.
        """
        with self._change:
            self._is_frozen = new
            for connection in self._connections:
                connection.is_frozen = True

    def thaw(self) -> None:
        """Forward what has waited, and all that follows."""
        with self._change:
            self._is_frozen = False
            for connection in self._connections:
                connection.is_frozen = False
            self._change.notify_all()

    def __enter__(self) -> Link:  # noqa: PYI034 - typing.Self is Python 3.11's
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
        self.cut()
        # A connection may be made while the others are cut.
        while running := [thread for thread in self._threads if thread.is_alive()]:
            self.cut()
            running[0].join(0.05)
        self._reserved.close()

    def _cut(self) -> None:
        self._left = {}
        for connection in self._connections:
            connection.is_cut = True
            connection.shut()
        self._change.notify_all()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # down
                return
            try:
                server = socket.create_connection((_HOST, next(self._targets)))
            except OSError:  # the target is down
                client.close()
                continue
            connection = _Connection(client, server)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._change:
                connection.is_frozen = self._is_frozen
                self._connections.add(connection)
                self._made += 1
                self._most = max(self._most, len(self._connections))
            self._start(self._forward, connection, client, server, "server")
            self._start(self._forward, connection, server, client, "client")

    def _forward(self, connection: _Connection, source: socket.socket, target: socket.socket, side: str) -> None:
        with contextlib.suppress(OSError):  # one end has reset it
            while data := source.recv(_CHUNK_BYTES):
                if not self._passes(connection, data, target, side):
                    break
        with self._change:
            self._change.wait_for(lambda: connection.is_cut or not connection.is_frozen)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
            connection.open_directions -= 1
            if not connection.open_directions:
                self._connections.discard(connection)
                connection.client.close()
                connection.server.close()

    def _passes(self, connection: _Connection, data: bytes, target: socket.socket, side: str) -> bool:
        """Forward data, as far as the link lets it; false if the link was cut."""
        with self._change:
            self._change.wait_for(lambda: connection.is_cut or not connection.is_frozen)
            if connection.is_cut:
                return False
            left = self._left.get(side)
            is_last = left is not None and len(data) > left
            passing = data[:left] if is_last else data
            if left is not None and not is_last:
                self._left[side] = left - len(data)
            self._bytes[side] += len(passing)
        if passing:
            target.sendall(passing)
        if is_last:
            self.cut()
        return not is_last


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_HOST, port))
    return bound
