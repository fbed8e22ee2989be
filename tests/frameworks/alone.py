"""A process group of one, for scripts that no launcher starts."""

from __future__ import annotations

import socket


def environment() -> dict[str, str]:
    """What a launcher would tell the only rank, with a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
