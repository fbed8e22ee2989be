"""The cost of a command, relative to the cost of its base.

    python3 in_turn.py BASE NEW PAIRS

The speed of a machine varies more than the two commands differ, but little between two runs that follow each other. So
both run in turn, base and new, new and base, and each pair gives a ratio; their median counts. Measured are the
processor time of a command with all its processes, and the memory of the largest of them. A command that fails ends the
measurement.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

#: Of the output of a command that failed, so many bytes are printed.
OUTPUT_BYTES = 4000


def cost(command: str) -> tuple[float, float]:
    """Processor seconds and peak MiB of a command of the shell."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_BYTES))
            sys.stdout.write(output.read().decode(errors="replace"))
            sys.exit(f"exit code {process.returncode}: {command}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main(base: str, new: str, pairs: str) -> None:
    """Print the cost of each run, the ratios of each pair, and the median of those of the time."""
    commands, time_ratios = {"base": base, "new": new}, []
    for pair in range(int(pairs)):
        costs = {}
        for name in ("base", "new") if pair % 2 == 0 else ("new", "base"):
            costs[name] = seconds, mib = cost(commands[name])
            print(f"{name}: {seconds:.3f} s, {mib:.1f} MiB", flush=True)
        time_ratio, memory_ratio = (new / base for base, new in zip(costs["base"], costs["new"], strict=True))
        print(f"processor time: {time_ratio:.4f} of base", flush=True)
        print(f"peak memory: {memory_ratio:.4f} of base", flush=True)
        time_ratios.append(time_ratio)
    print(f"median of processor time: {statistics.median(time_ratios):.4f} of base")


if __name__ == "__main__":
    main(*sys.argv[1:])
