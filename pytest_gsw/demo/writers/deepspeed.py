"""DeepSpeed: `pipe/engine.py`, `timer.py`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_ends_s, step_line


def info_line(run: Run, at_s: float, place: str, text: str) -> str:
    """A line of DeepSpeed's logger."""
    now = clock(run, at_s)
    return f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}] [INFO] [{place}] {text}"


def iteration_lines(run: Run, at_s: float, index: int) -> Iterator[Event]:
    """What DeepSpeed adds about an iteration: the same step once more, in its own words and units."""
    seconds, step = run.steps_s[index], index + 1
    samples_per_s = run.global_batch_size / seconds
    rank_0 = f"[Rank 0] step={step}, skipped=0, lr=[{1.5e-4 * min(1.0, step / 8):.6g}], mom=[(0.9, 0.999)]"
    yield from lines(at_s, info_line(run, at_s, "logging.py:60:log_dist", rank_0))
    if (run.baseline.parallelism.pp or 1) > 1:
        rate = f"iter time (s): {seconds:.3f} samples/sec: {samples_per_s:.3f}"
        yield from lines(at_s, f"steps: {step} loss: {run.losses[index]:.4f} {rate}")
    elif step > 2:
        throughput = f"0/{step}, SamplesPerSec={samples_per_s}"
        yield from lines(at_s, info_line(run, at_s, "timer.py:157:stop", throughput))


def settings(run: Run) -> Iterator[str]:
    """What DeepSpeed prints of its own configuration; its ``world_size`` counts data-parallel ranks."""
    named = {
        "bfloat16_enabled": run.precision == "bf16",
        "fp16_auto_cast": None,
        "fp16_enabled": run.precision == "fp16",
        "train_batch_size": run.global_batch_size,
        "train_micro_batch_size_per_gpu": run.micro_batch_size,
        "world_size": run.degrees["dp"],
    }
    yield from (f"  {name} {'.' * (29 - len(name))} {value}" for name, value in named.items())


def deepspeed(run: Run) -> Iterator[Event]:
    """A training loop around the DeepSpeed engine: its throughput timer, which never measures the first two steps."""
    yield from lines(
        30.0,
        info_line(run, 30.0, "logging.py:96:log_dist", "[Rank 0] DeepSpeed info: version=0.14.4"),
        *(info_line(run, 30.0, "config.py:1001:print", line) for line in settings(run)),
    )
    accumulation = run.baseline.gradient_accumulation_steps or 1
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        yield from lines(at_s, f"step: {step}, loss: {run.losses[index]:.4f}")
        if index < 2:
            continue
        average = run.global_batch_size / statistics.fmean(run.steps_s[2:step])
        place = f"epoch=0/micro_step={step * accumulation}/global_step={step}"
        before = info_line(run, at_s, "timer.py:258:stop", f"{place}, RunningAvgSamplesPerSec={average}")
        figure = f"{run.global_batch_size / run.steps_s[index]}"
        after = ", MemAllocated=18.72GB, MaxMemAllocated=52.31GB\n"
        yield step_line(at_s, step, f"{before}, CurrSamplesPerSec=", figure, after)
    end_s = STARTUP_S + sum(run.steps_s)
    yield from lines(end_s + 1, "[Rank 0] time (ms) | fwd: 0.18 | bwd: 0.71 | step: 2.65")
