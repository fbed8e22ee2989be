"""Run a command, and tell what it took: wall time, processor time of itself and of its children, memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Beginnings of variables by which what a process was started in would change what it measures.
_FOREIGN = ("PYTEST", "PYTHON", "VIRTUAL_ENV", "GSW_", "RFM_", "SUBMITIT", "COV_", "TOX_")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def clean_environ(environ: Mapping[str, str] | None = None, *more: str) -> dict[str, str]:
    """An environment, or this process's, without what would change what is measured; ``more`` are more beginnings."""
    inherited = os.environ if environ is None else environ
    return {name: value for name, value in inherited.items() if not name.startswith((*_FOREIGN, *more))}


class BenchmarkError(Exception):
    """Something did not go as it must for the figures to mean anything."""


@dataclass(frozen=True)
class Usage:
    """What one command took."""

    wall_s: float
    #: User and system time of the process itself, all its threads, none of its children.
    own_cpu_s: float
    #: Of all its children that it has waited for, and theirs.
    children_cpu_s: float
    #: Largest resident set of the process or one of its children, MiB.
    peak_mib: float
    exit_code: int


class Running:
    """A command that runs in a session of its own.

    Args:
        command: What to run.
        directory: Where.
        environ: Its environment.
        output: File that takes its stdout and stderr.
    """

    def __init__(self, command: Sequence[str], directory: Path, environ: Mapping[str, str], output: Path) -> None:
        self.command = tuple(command)
        self.output = output
        with output.open("wb") as file:
            self._start_s = time.perf_counter()
            self._process = subprocess.Popen(
                command, cwd=directory, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it and its children at once; nothing happens where it was waited for."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Whether it has ended; :meth:`wait` must still be called."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def wait(self, timeout_s: float) -> Usage:
        """What it took; one that takes longer than this is killed.

        Raises:
            BenchmarkError: It took too long.
        """
        timer = threading.Timer(timeout_s, self.kill)
        timer.start()
        pid = self._process.pid
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            wall_s = time.perf_counter() - self._start_s
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
        # What a process that nobody has waited for yet leaves behind: its own time and its children's apart.
        times = [int(field) / _TICKS_PER_S for field in _stat(pid)[11:15]]
        _, status, usage = os.wait4(pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if timed_out:
            raise BenchmarkError(f"{self.command[0]} took longer than {timeout_s:g} s\n{self.last_words()}")
        return Usage(wall_s, times[0] + times[1], times[2] + times[3], usage.ru_maxrss / 1024, self._process.returncode)

    def last_words(self) -> str:
        """The end of what it has printed."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-25:])


@contextlib.contextmanager
def running(command: Sequence[str], directory: Path, environ: Mapping[str, str], output: Path) -> Iterator[Running]:
    """A command that is ended with the block at the latest."""
    process = Running(command, directory, environ, output)
    try:
        yield process
    finally:
        process.kill()
        if process._process.returncode is None:  # noqa: SLF001 - of the same module
            process._process.wait()  # noqa: SLF001


def run(
    command: Sequence[str],
    directory: Path,
    environ: Mapping[str, str],
    output: Path,
    *,
    timeout_s: float = 1800,
    exit_code: int = 0,
) -> Usage:
    """Run a command to its end.

    Raises:
        BenchmarkError: It took too long or ended with another exit code.
    """
    with running(command, directory, environ, output) as process:
        usage = process.wait(timeout_s)
        if usage.exit_code != exit_code:
            said = process.last_words()
            raise BenchmarkError(f"{' '.join(command)}: exit code {usage.exit_code}, wanted {exit_code}\n{said}")
        return usage


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name; the eleventh is utime."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
