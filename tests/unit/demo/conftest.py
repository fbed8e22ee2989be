"""Rows, jobs and runs to simulate."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_gsw.demo.recipe import train
from pytest_gsw.tables.model import Baseline, Figures, Recipe
from tests.unit.rows import LLAMA2_FP8_X128, with_facts
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
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=128),
    workload=replace(LLAMA2_FP8_X128.workload, layers=80),
    documented=Figures(step_time_s=4.324),
)


def gpt2(log_format: str, **changes: Any) -> Baseline:
    """A row of the GPT-2 document, which says nothing of steps."""
    row = replace(
        LLAMA2,
        id=f"gpt2_52b_fp16[V100-32GBx64-{log_format}]",
        workload=replace(
            LLAMA2.workload,
            model="gpt2",
            size="52b",
            framework=log_format,
            log_format=log_format,
            dtype="fp16",
            sequence_length=1024,
        ),
        accelerator="V100-32GB",
        documented=Figures(step_time_s=137.0),
        criterion=replace(LLAMA2.criterion, statistic="mean", min_steps=2),
        batch=replace(LLAMA2.batch, global_batch_size=1024),
        recipe=Recipe("gpt2"),
    )
    return with_facts(row, **changes)


ROWS = {
    "maxtext": LLAMA2,
    "nemo": replace(
        LLAMA2,
        id="llama3.1_405b_fp8[H100x64]",
        workload=replace(LLAMA2.workload, model="llama3.1", size="405b", framework="nemo", log_format="nemo"),
        documented=Figures(step_time_s=12.84),
        recipe=Recipe("llama3.1", steps=50),
    ),
    "torchtitan": replace(
        LLAMA2,
        id="llama2_70b_fp8[H100x64-titan]",
        workload=replace(LLAMA2.workload, framework="torchtitan", log_format="torchtitan", dtype="mxfp8"),
    ),
    "composer": replace(
        LLAMA2,
        id="llama2_70b_fp8[H100x64-llm]",
        workload=replace(LLAMA2.workload, framework="llm-foundry", log_format="composer"),
    ),
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
        variables = {
            **ENVIRONMENT,
            "MODEL_SIZE": baseline.workload.size,
            "DTYPE": baseline.workload.dtype,
            **environment,
        }
        if fault:
            variables["GSW_DEMO"] = f"*={fault}"
        out = io.BytesIO()
        return Trained(train(baseline, variables, out, ALL_WRITERS), out.getvalue())

    return run
