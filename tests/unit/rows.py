"""One documented row and one ended run, to vary with :func:`dataclasses.replace`."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.stats.measurement import Measurement, timing_of
from pytest_gsw.tables.model import Baseline, Figures, Location, Parallelism, Recipe, Source

LLAMA2_FP8_X128 = Baseline(
    id="llama2_70b_fp8[H100x128]",
    model="llama2",
    size="70b",
    framework="maxtext",
    log_format="maxtext",
    dtype="fp8",
    accelerator="H100",
    gpus=128,
    gpus_per_node=8,
    sequence_length=4096,
    global_batch_size=256,
    micro_batch_size=2,
    parallelism=Parallelism(fsdp=128),
    documented=Figures(step_time_s=4.556, tokens_per_s=230152.77, days_to_train_1t_tokens=50.29),
    min_steps=45,
    model_flops_per_sample=1.82e15,
    attributes={},
    recipe=Recipe("maxtext", steps=50),
    source=Source("readme.md", 31),
    location=Location(Path("baselines/maxtext/llama2_70b.yaml"), 41, 9),
)


def measured(judged: float, figures: Figures | None = None) -> Measurement:
    """A measurement of 49 steps that all took the judged time."""
    return Measurement(
        judged=judged,
        figures=figures or Figures(step_time_s=judged),
        timing=timing_of([judged] * 49, "last"),
        jobs=(judged,),
    )
