"""How fast logs are read, against the commands that one would use instead.

    python benchmarks/read_logs.py [--size-mb 1024] [--json]

Writes logs of MaxText and Megatron of the given size to a temporary directory (few step lines
among NCCL's noise, among lines that all hold commas, and among sentences), and compares in pairs,
each the best of five with a warm cache:

- the full series (``read_log``) with ``grep -F`` for the step lines,
- the last step (``last_step``) with ``tail -c 1M``.

Prints times and ratios; below 1 pytest-gsw is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from follow_logs import maxtext, megatron

from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import last_step, read_log

STEPS = 50


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode()


def noise(count: int) -> bytes:
    """Lines as NCCL prints them, one in ten with commas."""
    return _joined(
        f"node{n % 64:04d}:{n}:{n + 7} [{n % 8}] NCCL INFO Channel {n % 32:02d}/0 : {n % 512}[{n % 8}] -> "
        f"{(n + 1) % 512}[{(n + 1) % 8}] via P2P/CUMEM/read{', trees 2, rings 4' if n % 10 == 0 else ''}\n"
        for n in range(count)
    )


def commas(count: int) -> bytes:
    """Lines as NCCL prints them, with five commas in each."""
    return _joined(
        f"node{n % 64:04d}:{n}:{n + 7} [{n % 8}] NCCL INFO comm 0x7f{n:08x}, rank {n % 512}, nranks 512, "
        f"cudaDev {n % 8}, nvmlDev {n % 8}, busId {n % 8}a000\n"
        for n in range(count)
    )


def sentences(count: int) -> bytes:
    """Lines of a logger that hold every letter of MaxText's step lines, so that no byte of those is rare."""
    return _joined(
        f"2031-02-03 04:05:{n % 60:02d},{n % 1000:03d} - datapipe - INFO - rank {n % 512}, host node{n % 64:04d}: "
        f"prefetch queue holds {n % 97} items, moved {n % 13}, dropped 0\n"
        for n in range(count)
    )


#: By what is said of the log: its format, what to search for, a step line and what stands between.
LOGS: dict[str, tuple[str, str, Callable[[int], str], Callable[[int], bytes]]] = {
    "maxtext": ("maxtext", "completed step: ", maxtext, noise),
    "megatron": ("megatron", "elapsed time per iteration", megatron, noise),
    "maxtext, commas": ("maxtext", "completed step: ", maxtext, commas),
    "maxtext, sentences": ("maxtext", "completed step: ", maxtext, sentences),
}


def write_log(path: Path, size_bytes: int, step_line: Callable[[int], str], between: Callable[[int], bytes]) -> None:
    """A log of about this size with its step lines spread over it."""
    block = between(20_000)
    repeats = max(1, size_bytes // len(block) // STEPS)
    with path.open("wb") as log:
        for step in range(STEPS):
            for _ in range(repeats):
                log.write(block)
            log.write(step_line(step).encode())


def pairs(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5) -> tuple[float, float]:
    """The best time of each, seconds, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, taken in zip((ours, theirs), times, strict=True):
            start_s = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start_s)
    return min(times[0]), min(times[1])


def measure(directory: Path, size_bytes: int) -> Iterator[tuple[str, str, float, float]]:
    """What was done, against what, and the two times in seconds."""
    environ = {**os.environ, "LC_ALL": "C"}
    for name, (format_name, marker, step_line, between) in LOGS.items():
        path = directory / f"{name}.log"
        write_log(path, size_bytes, step_line, between)
        log_format = FORMATS[format_name]
        assert len(read_log(path, log_format).steps) == STEPS

        def grep(marker: str = marker, path: Path = path) -> None:
            subprocess.run(["grep", "-aF", marker, str(path)], env=environ, check=True, stdout=subprocess.PIPE)

        def tail(path: Path = path) -> None:
            subprocess.run(["tail", "-c", "1M", str(path)], env=environ, check=True, stdout=subprocess.PIPE)

        yield f"{name}: full series", "grep -F", *pairs(lambda: read_log(path, log_format), grep)  # noqa: B023
        yield f"{name}: last step", "tail -c 1M", *pairs(lambda: last_step(path, log_format), tail)  # noqa: B023
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast logs are read.")
    parser.add_argument("--size-mb", type=int, default=1024)
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    options = parser.parse_args()
    size_mb = options.size_mb
    with tempfile.TemporaryDirectory() as directory:
        measured = list(measure(Path(directory), size_mb << 20))
    if options.json:
        keys = ("what", "against", "ours_s", "theirs_s")
        print(json.dumps([dict(zip(keys, figures, strict=True)) for figures in measured]))
        return
    print(f"{'what':<32}{'against':<14}{'ours':>10}{'theirs':>10}{'ratio':>8}   ({size_mb} MB)")
    for what, against, ours_s, theirs_s in measured:
        print(f"{what:<32}{against:<14}{ours_s:>9.4f}s{theirs_s:>9.4f}s{ours_s / theirs_s:>8.2f}")


if __name__ == "__main__":
    main()
