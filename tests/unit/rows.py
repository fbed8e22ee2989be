"""One documented row and one ended run, to vary with :func:`dataclasses.replace`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.stats.measurement import Measurement, timing_of
from pytest_gsw.tables.model import Baseline, Batch, Criterion, Figures, Location, Parallelism, Recipe, Source, Workload

LLAMA2_FP8_X128 = Baseline(
    id="llama2_70b_fp8[H100x128]",
    workload=Workload(
        model="llama2",
        size="70b",
        framework="maxtext",
        log_format="maxtext",
        dtype="fp8",
        sequence_length=4096,
        model_flops_per_sample=1.82e15,
    ),
    accelerator="H100",
    gpus=128,
    gpus_per_node=8,
    batch=Batch(global_batch_size=256, micro_batch_size=2),
    parallelism=Parallelism(fsdp=128),
    documented=Figures(step_time_s=4.556, tokens_per_s=230152.77, days_to_train_1t_tokens=50.29),
    criterion=Criterion(min_steps=45),
    attributes={},
    recipe=Recipe("maxtext", steps=50),
    source=Source("readme.md", 31),
    location=Location(Path("baselines/maxtext/llama2_70b.yaml"), 41, 9),
)


def with_facts(row: Baseline, **facts: Any) -> Baseline:
    """A row with other facts: fields of its own or of its parts."""
    for name, value in facts.items():
        parts = (
            part
            for part in ("workload", "batch", "criterion", "recipe", "documented")
            if hasattr(getattr(row, part), name)
        )
        part = next(parts, None)
        row = replace(row, **{part: replace(getattr(row, part), **{name: value})} if part else {name: value})
    return row


def measured(judged: float, figures: Figures | None = None) -> Measurement:
    """A measurement of 49 steps that all took the judged time."""
    return Measurement(
        judged=judged,
        figures=figures or Figures(step_time_s=judged),
        timing=timing_of([judged] * 49, "last"),
        jobs=(judged,),
    )
