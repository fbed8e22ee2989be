"""What it costs to follow many growing logs.

    python benchmarks/follow_logs.py [--logs 500] [--wall-s 60] [--poll-s 5] [--json]

The logs of all formats grow in virtual time: each has a step every 1 to 20 s, and NCCL's noise
between the steps. Every few seconds all are looked at, as a session does while it waits. Only the
looks are timed, by the processor's time of this process, so other load on the machine does not count.

- *start*: jobs that have just begun, one process printing,
- *hour*: jobs that have run for an hour, with up to 3,600 steps in the log,
- *ranks*: eight processes print each step, labelled by srun, after 50 steps,
- *quiet*: nothing is written; a look is one ``stat``.

Prints processor seconds per wall second in percent of one core, the time of one look, and memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.logs.follow import Follower
from pytest_gsw.logs.formats.registry import FORMATS

NOISE = b"node7:4242:4311 [3] NCCL INFO Channel 05/0 : 3[3] -> 4[4] via P2P/CUMEM/read\n"
HEAD = "2031-02-03 04:05:06,789"


def _loss(step: int) -> float:
    return 9 / (1 + step / 1000)


def maxtext(step: int) -> str:
    return (
        f"completed step: {step}, seconds: 4.3{step % 10}1, TFLOP/s/device: 846.1, Tokens/s/device: 1896.2, "
        f"total_weights: 524288, loss: {_loss(step):.3f}\n"
    )


def megatron(step: int) -> str:
    return (
        f" iteration {step + 1:8d}/   10000 | consumed samples: {step * 256:12d} | elapsed time per iteration (ms): "
        f"43{step % 10}1.0 | learning rate: 1.500E-04 | global batch size:   256 | lm loss: {_loss(step):.6E} |\n"
    )


def nemo(step: int) -> str:
    return (
        f"\rEpoch 0: :  10%|█         | {step + 1}/10000 [00:30<04:10, v_num=ab12, reduced_train_loss=9.250, "
        f"global_step={step}.0, consumed_samples=640.0, train_step_timing in s=4.3{step % 10}]"
    )


def paxml(step: int) -> str:
    head = "I0203 04:05:06.789012 139000000000001 programs.py:381]"
    return f"{head} [PAX STATUS]: train_step() took 7.{step:06d} seconds.\n"


def torchtitan(step: int) -> str:
    return f"{HEAD} - root - INFO - \x1b[31mstep: {step + 1:2d}  \x1b[32mloss:  7.5  \x1b[34mtps: 6,7{step % 10}5  \n"


def deepspeed(step: int) -> str:
    return (
        f"[{HEAD}] [INFO] [timer.py:215:stop] epoch=0/micro_step=1/global_step={step + 1}, "
        f"RunningAvgSamplesPerSec=11.5, CurrSamplesPerSec=11.{step % 10}, MemAllocated=4.5GB\n"
    )


LINES: dict[str, Callable[[int], str]] = {
    "maxtext": maxtext,
    "megatron": megatron,
    "nemo": nemo,
    "paxml": paxml,
    "torchtitan": torchtitan,
    "deepspeed": deepspeed,
}


@dataclass
class Log:
    """One job's log."""

    follower: Follower
    line: Callable[[int], str]
    ranks: int
    interval_s: float
    next_s: float
    step: int = 0

    def write(self, steps: int) -> None:
        """Append some steps, with some noise before each."""
        with self.follower.path.open("ab") as file:
            for _ in range(steps):
                line = self.line(self.step).encode()
                if self.ranks > 1:
                    line = b"".join(b"%d: " % rank + line for rank in range(self.ranks))
                file.write(NOISE * 20 + line)
                self.step += 1

    def grow(self, now_s: float) -> None:
        """Append the steps that are done by now."""
        steps = 0
        while self.next_s <= now_s:
            self.next_s += self.interval_s
            steps += 1
        if steps:
            self.write(steps)


@dataclass(frozen=True)
class Case:
    """Jobs of one kind."""

    name: str
    #: For how long the jobs have run, seconds.
    history_s: float = 0.0
    #: How many steps they have done besides.
    history_steps: int = 0
    ranks: int = 1
    grows: bool = True


CASES = (
    Case("start"),
    Case("hour", history_s=3600),
    Case("ranks", history_steps=50, ranks=8),
    Case("quiet", history_steps=50, grows=False),
)


def make_logs(directory: Path, count: int, case: Case, dice: random.Random) -> list[Log]:
    logs = []
    for number in range(count):
        name = list(LINES)[number % len(LINES)]
        interval_s = dice.uniform(1, 20)
        path = directory / f"{number}.log"
        path.write_bytes(NOISE * 2000)
        ranks = 1 if name == "nemo" else case.ranks  # a bar is printed by one process
        log = Log(Follower(path, FORMATS[name]), LINES[name], ranks, interval_s, dice.uniform(0, interval_s))
        log.write(case.history_steps + int(case.history_s / interval_s))
        logs.append(log)
    return logs


def measure(directory: Path, count: int, case: Case, wall_s: float, poll_s: float) -> tuple[float, int, int]:
    """Processor seconds of all looks; their number; bytes that the followers hold."""
    logs = make_logs(directory, count, case, random.Random(1))  # noqa: S311
    tracemalloc.start()
    for log in logs:
        while log.follower.advance().bytes_left:
            pass
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    used_s = 0.0
    polls = int(wall_s / poll_s)
    for poll in range(1, polls + 1):
        if case.grows:
            for log in logs:
                log.grow(poll * poll_s)
        begin_s = time.process_time()
        for log in logs:
            progress = log.follower.advance()
            if progress.steps != log.step and log.line is not nemo:  # a bar's last repaint waits for its end
                raise AssertionError(f"{log.follower.path}: {progress}, written {log.step}")
        used_s += time.process_time() - begin_s
    return used_s, polls * count, held


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to follow many growing logs.")
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--wall-s", type=float, default=60)
    parser.add_argument("--poll-s", type=float, default=5)
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    options = parser.parse_args()
    measured = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            used_s, looks, held = measure(Path(directory), options.logs, case, options.wall_s, options.poll_s)
        of_one_core = used_s / options.wall_s
        measured.append({"case": case.name, "of_one_core": of_one_core, "look_s": used_s / looks, "bytes": held})
    if options.json:
        print(json.dumps(measured))
        return
    print(f"{'case':<8}{'CPU':>9}{'look':>12}{'memory':>12}   ({options.logs} logs, every {options.poll_s:g} s)")
    for one in measured:
        look_us, kib = one["look_s"] * 1e6, one["bytes"] / options.logs / 1024
        print(f"{one['case']:<8}{one['of_one_core']:>9.2%}{look_us:>9.0f} µs{kib:>8.0f} KiB/log")


if __name__ == "__main__":
    main()
