"""Composer as LLM Foundry runs it: `console_logger.py`, `speed_monitor.py`."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gsw.demo.simulation import UNLOGGED_STEPS, Run
from pytest_gsw.demo.writers.events import STARTUP_S, Event, lines, step_ends_s, step_line


def _configuration(run: Run) -> Iterator[str]:
    """LLM Foundry's configuration."""
    yield from (
        f"max_seq_len: {run.sequence_length}",
        "model:",
        "  name: mpt_causal_lm",
        f"  d_model: {run.hidden_size}",
        f"  n_layers: {run.layers}",
        f"  max_seq_len: {run.sequence_length}",
        f"max_duration: {len(run.steps_s)}ba",
        f"global_train_batch_size: {run.global_batch_size}",
        f"device_train_microbatch_size: {run.micro_batch_size}",
        f"precision: {run.precision if run.precision == 'fp32' else f'amp_{run.quantization or run.precision}'}",
    )


def composer(run: Run) -> Iterator[Event]:
    """A block for each batch; the speed monitor has no rate of the first ones, and a window of one batch."""
    yield from lines(25.0, *_configuration(run), "*" * 30)
    count = len(run.steps_s)
    tokens = run.sequence_length * run.global_batch_size
    for index, at_s in enumerate(step_ends_s(run.steps_s, STARTUP_S)):
        seconds = run.steps_s[index]
        head = (
            f"[batch={index + 1}/{count}]:",
            f"\t Train time/batch: {index}",
            f"\t Train time/sample: {index * run.global_batch_size}",
            f"\t Train loss/train/total: {run.losses[index]:.4f}\n",
        )
        yield Event(at_s, "\n".join(head).encode(), index + 1)
        if index >= UNLOGGED_STEPS["composer"]:
            before = f"\t Train throughput/tokens_per_sec: {tokens / seconds:.4f}\n"
            before += "\t Train throughput/device/tokens_per_sec: "
            yield step_line(at_s, index + 1, before, f"{tokens / seconds / run.job.gpus:.4f}", "\n")
        yield from lines(at_s, f"\t Train time/train: {(at_s - STARTUP_S) / 3600:.4f}")
