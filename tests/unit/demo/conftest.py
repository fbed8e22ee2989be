"""Rows, jobs and runs to simulate."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_gsw.demo.recipe import train
from pytest_gsw.tables.model import Baseline, Figures, Recipe
from tests.unit.rows import LLAMA2_FP8_X128
from tests.writers import ALL_WRITERS

ENVIRONMENT = {
    "SLURM_JOB_ID": "481220",
    "SLURM_JOB_NUM_NODES": "8",
    "GPUS_PER_NODE": "8",
    "JOB_TOTAL_GPUS": "64",
    "GSW_VERSION": "demo",
    "GSW_DEMO_SECONDS": "0",
}

LLAMA2 = replace(
    LLAMA2_FP8_X128,
    id="llama2_70b_fp8[H100x64]",
    gpus=64,
    global_batch_size=128,
    layers=80,
    documented=Figures(step_time_s=4.324),
)


def gpt2(log_format: str, **changes: Any) -> Baseline:
    """A row of the GPT-2 document, which says nothing of steps."""
    row = replace(
        LLAMA2,
        id=f"gpt2_52b_fp16[V100-32GBx64-{log_format}]",
        model="gpt2",
        size="52b",
        framework=log_format,
        log_format=log_format,
        dtype="fp16",
        accelerator="V100-32GB",
        documented=Figures(step_time_s=137.0),
        statistic="mean",
        min_steps=2,
        sequence_length=1024,
        global_batch_size=1024,
        recipe=Recipe("gpt2"),
    )
    return replace(row, **changes)


ROWS = {
    "maxtext": LLAMA2,
    "nemo": replace(
        LLAMA2,
        id="llama3.1_405b_fp8[H100x64]",
        model="llama3.1",
        size="405b",
        framework="nemo",
        log_format="nemo",
        documented=Figures(step_time_s=12.84),
        recipe=Recipe("llama3.1", steps=50),
    ),
    "torchtitan": replace(
        LLAMA2, id="llama2_70b_fp8[H100x64-titan]", framework="torchtitan", log_format="torchtitan", dtype="mxfp8"
    ),
    "composer": replace(LLAMA2, id="llama2_70b_fp8[H100x64-llm]", framework="llm-foundry", log_format="composer"),
    "megatron": gpt2("megatron"),
    "huggingface": gpt2("huggingface", global_batch_size=512, documented=Figures(step_time_s=139.0), min_steps=1),
}


@dataclass(frozen=True)
class Trained:
    """How one simulated training went."""

    exit_code: int
    log: bytes

    @property
    def text(self) -> str:
        return self.log.decode()


@pytest.fixture
def rows() -> dict[str, Baseline]:
    """One row of each kind of log."""
    return ROWS


@pytest.fixture
def trained() -> Callable[..., Trained]:
    """Train a row in this process, which a fault must not end."""

    def run(baseline: Baseline, fault: str = "", **environment: str) -> Trained:
        variables = {**ENVIRONMENT, "MODEL_SIZE": baseline.size, "DTYPE": baseline.dtype, **environment}
        if fault:
            variables["GSW_DEMO"] = f"*={fault}"
        out = io.BytesIO()
        return Trained(train(baseline, variables, out, ALL_WRITERS), out.getvalue())

    return run
