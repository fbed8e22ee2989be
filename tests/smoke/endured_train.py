#!/usr/bin/env python3
"""A training on cores that survives: it saves checkpoints, and a later job of its row (``GSW_ATTEMPT``) goes on from the last.

It prints Megatron-LM's lines. ``CLOCK`` is a file for what each job did and when, by this script's own clock, a JSON list a
line; the log knows nothing of it. In the row's first job, rank 1 dies at step ``DIES_AT``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import torch
import torch.distributed as dist

WIDTH, LAYERS, BATCH, EACH_SAVE = 512, 6, 192, 10


def main() -> None:
    job, total, dies_at = os.environ["SLURM_JOB_ID"], int(os.environ["MAX_STEPS"]), int(os.environ["DIES_AT"])
    saved, is_first = Path(os.environ["CLOCK"]).with_name("checkpoint.pt"), "GSW_ATTEMPT" not in os.environ
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    done = 0
    if not is_first and saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]

    @contextmanager
    def clocked(what: str, number: int) -> Iterator[Callable[[], float]]:
        began_s = time.time()
        yield lambda: time.time() - began_s
        if rank == 0:
            with Path(os.environ["CLOCK"]).open("a") as clock:
                clock.write(json.dumps([job, what, number, began_s, time.time()]) + "\n")

    if rank == 0:
        say(
            f"GSW: MODEL=endured FRAMEWORK=megatron MODEL_SIZE=1m DTYPE={os.environ['DTYPE']} GSW_VERSION=1"
            f" GPUS_PER_NODE=1 JOB_NUM_NODES=2 JOB_ID={job}"
        )
        say(f" successfully loaded checkpoint from {saved} at iteration {done}" if done else " training from scratch")
    while done < total:
        done += 1
        with clocked("step", done) as seconds:
            if is_first and done == dies_at and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = trained(torch.randn(BATCH, WIDTH)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            took_ms = 1000 * seconds()
        if rank == 0:
            now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S.%f}"
            say(
                f" [{now}] iteration {done:8d}/{total:8d} | consumed samples: {done * 2 * BATCH:12d} |"
                f" elapsed time per iteration (ms): {took_ms:.3f} | learning rate: 1.000000E-04 |"
                f" global batch size: {2 * BATCH:5d} | lm loss: {float(loss):.6E} | loss scale: 1.0 |"
                f" grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
        if done % EACH_SAVE == 0:
            dist.barrier()
            with clocked("save", done) as seconds:
                if rank == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
                    torch.save(state, saved.with_suffix(".new"))
                    saved.with_suffix(".new").replace(saved)
                    say(
                        f"    save-checkpoint ................................: ({1000 * seconds():.2f}, {1000 * seconds():.2f})"
                    )
            dist.barrier()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
