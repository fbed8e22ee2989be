"""Processes that tests start, found in /proc, and ports for them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """That many free loopback ports in a row, below those that the kernel gives to clients.

    Looked for at random, so that two servers that start at one time rarely want the same ones; workers of pytest-xdist
    each have a range of their own, and never do.
    """
    workers, worker = (
        int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
        os.environ.get("PYTEST_XDIST_WORKER", "gw0"),
    )
    share = 22000 // workers
    lowest = 10000 + share * int(worker.removeprefix("gw"))
    for _ in range(100):
        first = random.randrange(lowest, lowest + share - count)  # noqa: S311 - no secret
        ports = list(range(first, first + count))
        if all(map(_is_free, ports)):
            return ports
    raise OSError(f"no {count} free ports in a row between {lowest} and {lowest + share}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def kill_while_any(find: Callable[[], Sequence[int]]) -> None:
    for _ in range(40):
        pids = find()
        if not pids:
            return
        # All stand still before the first one dies: a slurmstepd that saw its task die would report
        # the job as FAILED, and a node that loses its power reports nothing.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(0.05)


def processes_of(directory: Path) -> list[int]:
    """Who works in the directory, holds a file of it, or has its name in the environment.

    Jobs and their slurmstepd leave the process group of their slurmd, so that is no way to find them.
    """
    return [pid for pid in pids() if _works_in(pid, directory) or f"{directory}/" in environment_of(pid)]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208


def _works_in(pid: int, directory: Path) -> bool:
    with contextlib.suppress(OSError):
        links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
        return any(f"{_target(link)}/".startswith(f"{directory}/") for link in links)
    return False


def environment_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    return ""


def _target(link: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(link)  # noqa: PTH115
    return ""
