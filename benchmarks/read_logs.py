"""How fast logs are read, against the commands that one would use instead.

    python benchmarks/read_logs.py [--size-mb 1024] [--json]

Writes logs of MaxText and Megatron of the given size to a temporary directory (few step lines
among NCCL's noise, also with words of failures that are none, among lines that all hold commas, and
among sentences), and compares in pairs, each the least processor time of five with a warm cache:

- the full series (``read_log``) with ``grep -F`` for the step lines,
- the search for signs of failure (``find_fatal``) with the same ``grep -F``,
- a whole verdict with it: the process ``pytest-gsw metrics --row`` from its start to its end, and its peak memory.

Prints times, ratios and targets; below 1 pytest-gsw is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from follow_logs import maxtext, megatron

from pytest_gsw.logs.failure_scan import find_fatal
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log

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


def harmless(count: int) -> bytes:
    """Lines as NCCL prints them; one in ten thousand holds a word of a failure that is none."""
    told = b"node0000: GPU health: 0 uncorrectable errors\n"
    return b"".join(told + noise(10_000) for _ in range(count // 10_000))


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
    "megatron, harmless": ("megatron", "elapsed time per iteration", megatron, harmless),
    "maxtext, commas": ("maxtext", "completed step: ", maxtext, commas),
    "maxtext, sentences": ("maxtext", "completed step: ", maxtext, sentences),
}
#: How often the time of ``grep`` each may take.
SERIES_TO_REACH = {
    "maxtext": 0.5,
    "megatron": 0.8,
    "megatron, harmless": 0.8,
    "maxtext, commas": 0.5,
    "maxtext, sentences": 1.3,
}
FAILURES_TO_REACH, VERDICT_TO_REACH = 2.0, 3.0
VERDICT_MIB = 60
#: The row that a log is judged by.
TABLE = """\
model: llama2
size: 70b
framework: {name}
accelerator: H100
gpus_per_node: 8
document: none
recipe: {{directory: {name}, steps: {steps}}}
sequence_length: 4096
tables:
  - title: Logs
    dtype: fp8
    rows:
      - {{gpus: 8, case: log, global_batch_size: 256, step_time_s: 4.3, line: 1}}
"""
ROW = "llama2_70b_fp8[H100x8-log]"


@dataclass(frozen=True)
class Measured:
    """A comparison of two times, and the bound that one of them was measured for."""

    what: str
    against: str
    ours_s: float
    theirs_s: float
    target: str
    reached: bool
    #: Peak memory of our process, MiB; ``None`` if it had none of its own.
    peak_mib: float | None = None


def write_log(path: Path, size_bytes: int, step_line: Callable[[int], str], between: Callable[[int], bytes]) -> None:
    """A log of about this size with its step lines spread over it."""
    block = between(20_000)
    repeats = max(1, size_bytes // len(block) // STEPS)
    with path.open("wb") as log:
        for step in range(STEPS):
            for _ in range(repeats):
                log.write(block)
            log.write(step_line(step).encode())


def processor_s() -> float:
    """Processor time of this process and of all that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pairs(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5) -> tuple[float, float]:
    """The least processor time of each, seconds, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, taken in zip((ours, theirs), times, strict=True):
            start_s = processor_s()
            run()
            taken.append(processor_s() - start_s)
    return min(times[0]), min(times[1])


def verdict(path: Path, table: Path) -> float:
    """Judge a log as a run of the row, in a process of its own; return its peak memory in MiB."""
    command = [sys.executable, "-m", "pytest_gsw.cli", "metrics", str(path), "--row", ROW, "--baselines", str(table)]
    # Users have the bytecode.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, cwd=path.parent, env=environ, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


def measure(directory: Path, size_bytes: int) -> Iterator[Measured]:
    """All comparisons, each as soon as it is known."""
    environ = {**os.environ, "LC_ALL": "C"}
    for name, (format_name, marker, step_line, between) in LOGS.items():
        path, table = directory / f"{name}.log", directory / "table.yaml"
        write_log(path, size_bytes, step_line, between)
        table.write_text(TABLE.format(name=format_name, steps=STEPS))
        log_format, peaks_mib = FORMATS[format_name], list[float]()
        log = read_log(path, log_format)
        assert len(log.steps) == STEPS
        assert find_fatal(path, log, log_format) is None

        def grep(marker: str = marker, path: Path = path) -> None:
            subprocess.run(["grep", "-aF", marker, str(path)], env=environ, check=True, stdout=subprocess.PIPE)

        for what, to_reach, ours in (
            ("full series", SERIES_TO_REACH[name], lambda: read_log(path, log_format)),  # noqa: B023
            ("signs of failure", FAILURES_TO_REACH, lambda: find_fatal(path, log, log_format)),  # noqa: B023
            ("whole verdict", VERDICT_TO_REACH, lambda: peaks_mib.append(verdict(path, table))),  # noqa: B023
        ):
            ours_s, theirs_s = pairs(ours, grep)
            peak_mib = max(peaks_mib, default=None)
            reached = ours_s <= to_reach * theirs_s and (peak_mib or 0) <= VERDICT_MIB
            target = f"≤ {to_reach:.2f}{'' if peak_mib is None else f', ≤ {VERDICT_MIB} MiB'}"
            yield Measured(f"{name}: {what}", "grep -F", ours_s, theirs_s, target, reached, peak_mib)
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
        print(json.dumps([asdict(one) for one in measured]))
        return
    heads = f"{'what':<40}{'against':<14}{'ours':>10}{'theirs':>10}{'ratio':>8}  {'to reach':<18}{'reached':<9}"
    print(f"{heads}({size_mb} MB)")
    for one in measured:
        peak = "" if one.peak_mib is None else f"{one.peak_mib:.0f} MiB"
        print(
            f"{one.what:<40}{one.against:<14}{one.ours_s:>9.4f}s{one.theirs_s:>9.4f}s{one.ours_s / one.theirs_s:>8.2f}"
            f"  {one.target:<18}{'yes' if one.reached else 'NO':<9}{peak}"
        )


if __name__ == "__main__":
    main()
