"""Hugging Face: `trainer.py`, `trainer_utils.speed_metrics`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from datetime import timedelta

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.bars import bar_of
from pytest_gsw.demo.writers.deepspeed import info_line, settings
from pytest_gsw.demo.writers.events import STARTUP_S, Event, clock, lines, step_ends_s, step_line


def _training_arguments(run: Run) -> Iterator[str]:
    """What scripts of Hugging Face print of their ``TrainingArguments``."""
    yield "TrainingArguments("
    yield f"bf16={run.precision == 'bf16'},"
    yield "bf16_full_eval=False,"
    yield f"fp16={run.precision == 'fp16'},"
    yield f"per_device_train_batch_size={run.micro_batch_size},"
    yield ")"


def huggingface(run: Run) -> Iterator[Event]:
    """Trainer on two nodes: bars while it trains, one mean over the whole run at its end, printed by each node."""
    total, runtime_s = len(run.steps_s), sum(run.steps_s)
    nodes = range(min(2, run.job.nodes))

    def info(at_s: float, place: str, text: str) -> str:
        now = clock(run, at_s)
        return f"[INFO|{place}] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} >> {text}"

    def bar(done: int, elapsed_s: float) -> str:
        rate = elapsed_s / done if done else None
        speed = "?it/s" if rate is None else f"{rate:5.2f}s/it" if rate > 1 else f"{1 / rate:5.2f}it/s"
        return f"\r{bar_of(done, total, elapsed_s)}, {speed}]"

    yield from lines(25.0, *_training_arguments(run))
    if run.baseline.dtype == "fp16":  # these rows train under DeepSpeed
        place = "config.py:752:print"
        yield from lines(28.0, *(info_line(run, 28.0, place, line) for line in settings(run)))
    for _ in nodes:
        yield from lines(
            30.0,
            info(30.0, "trainer.py:1143", "***** Running training *****"),
            info(30.0, "trainer.py:1144", f"  Num examples = {run.global_batch_size * total}"),
            info(30.0, "trainer.py:1145", "  Num Epochs = 1"),
            info(
                30.0,
                "trainer.py:1146",
                f"  Instantaneous batch size per device = {run.micro_batch_size}",
            ),
            info(
                30.0,
                "trainer.py:1147",
                f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch_size}",
            ),
            info(30.0, "trainer.py:1149", f"  Total optimization steps = {total}"),
        )
    yield Event(STARTUP_S, bar(0, 0.0).encode())
    every = max(1, total // 10)
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        step = index + 1
        painted = bar(step, at_s - STARTUP_S).encode()
        yield from (Event(at_s, painted, step if step < total else 0) for _ in nodes)
        if step % every == 0:
            log = {"loss": round(run.losses[index], 4), "learning_rate": 5e-05, "epoch": round(step / total, 2)}
            yield from lines(at_s, f"{' ' * 46}{log}")
    end_s = STARTUP_S + runtime_s
    loss = statistics.fmean(run.losses)
    for node in nodes:
        # Each node has its own stopwatch.
        node_runtime_s = runtime_s + 0.0003 * runtime_s * node
        before = f"{{'train_runtime': {node_runtime_s:.4f}, 'train_samples_per_second': "
        after = f", 'train_steps_per_second': {total / node_runtime_s:.3f}, 'train_loss': {loss}, 'epoch': 1.0}}\n"
        yield step_line(end_s, total, before, f"{run.global_batch_size * total / node_runtime_s:.3f}", after)
    yield from lines(
        end_s + 2,
        *(info(end_s + 2, "trainer_pt_utils.py:907", line) for line in _train_metrics(run, runtime_s, loss)),
        "{'eval_loss': 6.4128, 'eval_runtime': 12.3071, 'eval_samples_per_second': 41.602, 'epoch': 1.0}",
    )


def _train_metrics(run: Run, runtime_s: float, loss: float) -> Iterator[str]:
    total = len(run.steps_s)
    seconds = int(runtime_s)
    metrics = {
        "epoch": "1.0",
        "train_loss": f"{loss:.4f}",
        "train_runtime": f"{timedelta(seconds=seconds)}.{int((runtime_s - seconds) * 100):02d}",
        "train_samples": f"{run.global_batch_size * total}",
        "train_samples_per_second": f"{run.global_batch_size * total / runtime_s:.3f}",
        "train_steps_per_second": f"{total / runtime_s:.3f}",
    }
    yield "***** train metrics *****"
    yield from (f"  {name:<24} = {value:>10}" for name, value in metrics.items())
