"""Logs of runs that trained nothing, or diverged on the way: as fast as healthy ones, or faster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_gsw.demo.simulation import SimulatedRun
from pytest_gsw.demo.writers import Event
from pytest_gsw.tables.metrics import Series

_OVERFLOW = (
    b"[2026-11-20 21:00:00,000] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
    b"Attempted loss scale: 1, reducing to 1\n"
)
#: What a step's line has of its loss, in formats whose lines all have one.
_LOSSES = {
    "maxtext": rb", loss: [\d.]+",
    "nemo": rb", reduced_train_loss=[\d.]+",
    "megatron": rb" lm loss: [\dE.+]+ \|",
}


class Untrained(NamedTuple):
    """A log, what was done to it, and why it must not be measured; ``*`` is any text."""

    name: str
    done: str
    log: bytes
    fact: str


def untrained(
    run: SimulatedRun, healthy: Sequence[Event], diverged: Sequence[Event], stuck: bytes
) -> Iterator[Untrained]:
    """Logs of runs that did not train; ``stuck`` has one loss in all steps."""
    log_format, whole = run.baseline.workload.log_format, b"".join(event.data for event in healthy)
    both = b"".join(event.data for event in diverged) + whole
    yield Untrained("diverged-then", "a run before it whose loss is NaN", both, "attempt * of * diverged*")
    if run.baseline.judged_by.series is Series.SAVES:
        return
    # One line of a Hugging Face log stands for all steps.
    skipped = b"\n" + _OVERFLOW * (len(run.steps_s) if log_format == "huggingface" else run.log_interval)
    log = b"".join((skipped if event.figure_end else b"") + event.data for event in healthy)
    yield Untrained("skipped", "the loss scaler skips every step", log, "the optimizer skipped * trained, * needed")
    still = re.sub(rb"(grad[_ ]norm: {1,12})[\d.]+", rb"\g<1>0.000", stuck)
    if still != stuck:
        fact = "the model does not train: gradient norm 0 in *"
        yield Untrained("still", "gradient norm 0 and one loss in all steps", still, fact)
    if log_format in _LOSSES:
        fact = "the optimizer skipped * needed" if log_format == "megatron" else "step 0 has no loss: *"
        log = re.sub(_LOSSES[log_format], b" |" if log_format == "megatron" else b"", whole)
        yield Untrained("no-loss", "no step has a loss", log, fact)
