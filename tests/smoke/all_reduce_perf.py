#!/usr/bin/env python3
"""``all_reduce_perf`` of nccl-tests on cores: real all-reduces by gloo, one task of ``srun`` per core, and its lines.

It takes the arguments that the bundled recipe gives. Rank 0 prints. ``SMOKE_FAULT`` makes the work of a collective
larger (``slow``, by forty further all-reduces), or its result wrong (``wrong``).
"""

from __future__ import annotations

import argparse
import datetime
import os
import socket
import sys
import time

import torch
import torch.distributed as dist

_UNITS = {"K": 10, "M": 20, "G": 30}


def size_of(text: str) -> int:
    return int(text[:-1]) << _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def seconds_of(tensor: torch.Tensor, iterations: int, each: int) -> float:
    """Seconds of one all-reduce, the mean over the ranks."""
    dist.barrier()
    start_s = time.perf_counter()
    for _ in range(iterations * each):
        dist.all_reduce(tensor)
    elapsed = torch.tensor([(time.perf_counter() - start_s) / iterations], dtype=torch.float64)
    dist.all_reduce(elapsed)
    return float(elapsed[0]) / dist.get_world_size()


def main() -> int:
    parser = argparse.ArgumentParser()
    for short in "befgdn":
        parser.add_argument(f"-{short}")
    asked, fault = parser.parse_args(), os.environ.get("SMOKE_FAULT", "")
    first, last, step, iterations = size_of(asked.b), size_of(asked.e), int(asked.f), int(asked.n)
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    address, port = os.environ["SLURM_LAUNCH_NODE_IPADDR"], 10000 + int(os.environ["SLURM_JOB_ID"]) % 20000
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{address}:{port}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    places: list[str | None] = [None] * ranks
    dist.all_gather_object(places, f"Pid {os.getpid():6d} on {os.environ.get('SLURMD_NODENAME', socket.gethostname())}")
    sweep = f"minBytes {first} maxBytes {last} step: {step}(factor)"
    columns_heading = "   time   algbw   busbw  #wrong"
    lines = [
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 {sweep} warmup iters: 1 iters: {iterations} agg iters: 1 validation: 1 graph: 0",
        *("#", "# Using devices"),
        *(f"#  Rank {one:2d} Group  0 {place} device  0 [0000:00:00] CPU" for one, place in enumerate(places)),
        f"#       size         count      type   redop    root  {columns_heading}  {columns_heading}",
    ]
    busbw, wrong_in_all, size = [], 0, first
    while size <= last:
        columns = []
        for _ in ("out of place", "in place"):
            tensor = torch.full((size // 4,), float(rank + 1), dtype=torch.float32)
            dist.all_reduce(tensor)
            wanted = ranks * (ranks + 1) / 2
            if fault == "wrong" and size == last:
                tensor[0] += 1
            wrong = int((tensor != wanted).sum())
            seconds = seconds_of(torch.zeros(size // 4), iterations, 41 if fault == "slow" else 1)
            algbw = size / seconds / 1e9
            busbw.append(algbw * 2 * (ranks - 1) / ranks)
            wrong_in_all += wrong
            columns.append(f"{seconds * 1e6:7.1f}  {algbw:6.4f}  {busbw[-1]:6.4f}  {wrong:6d}")
        lines.append(f"{size:12d}  {size // 4:12d}     float     sum      -1  {'  '.join(columns)}")
        size *= step
    lines += [
        f"# Out of bounds values : {wrong_in_all} {'FAILED' if wrong_in_all else 'OK'}",
        f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):g}",
        *("#", "# Collective test concluded: all_reduce_perf"),
    ]
    if rank == 0:
        sys.stdout.write("\n".join(lines) + "\n")
    dist.destroy_process_group()
    return 1 if wrong_in_all else 0


if __name__ == "__main__":
    sys.exit(main())
