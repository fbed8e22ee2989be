"""Which documented rows are figures of the certification's cases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Baseline

#: By a workload of the recipes, what tables of Megatron-Bridge's documents call it. The recipes' README says so of
#: Llama 3.1 70B ("reuse existing Megatron-Bridge llama3 configs"), and of Nemotron 3 with 120b ("super").
_IN_MEGATRON_BRIDGE: Mapping[str, frozenset[str]] = {
    "deepseek-v3_671b": frozenset({"deepseek_v3"}),
    "kimi-k2_1t": frozenset({"kimi_k2"}),
    "llama3.1_70b": frozenset({"llama3_70b"}),
    "nemotron_3_120b": frozenset({"nemotron3_super", "nemotron3_super_120b"}),
}
#: The same of tables of the recipes' own READMEs, which name workloads after the recipes' variables.
_IN_RECIPES: Mapping[str, frozenset[str]] = {
    "deepseek-v3_671b": frozenset({"deepseek_v3_671b"}),
    "nemotron4-15b_15b": frozenset({"nemotron4_15b"}),
    "nemotron4-340b_340b": frozenset({"nemotron4_340b"}),
}
#: The workloads whose launch scripts train fp8 with MXFP8 scaling, but for H100; all others scale each tensor.
_MX = frozenset({"deepseek-v3_671b", "gpt_oss_120b", "kimi-k2_1t", "nemotron_3_120b", "qwen3_235b"})
#: The recipes' launch.sh of Llama 3.1: 70b in fp8 on these is MXFP8 as well.
_MX_TOO = frozenset({("llama3.1_70b", "b200"), ("llama3.1_70b", "b300")})
#: What is no pre-training, or keeps the batch size while GPUs grow: the recipes' grows with them.
_OTHER_TASK = re.compile(r"\b(sft|lora|peft|fine-?tun\w*|strong-scaling|checkpoint-resume)\b", re.IGNORECASE)


class Case(NamedTuple):
    """One workload in one dtype: what needs a passing run."""

    #: As the file has it, in lower case: ``gb200``.
    accelerator: str
    #: With its size: ``llama3.1_70b``.
    workload: str
    dtype: str

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.workload} {self.dtype}"


class Figures(NamedTuple):
    """The rows that are a case's figures."""

    case: Case
    #: At the suite's scale.
    there: tuple[Baseline, ...]
    #: At the nearest other scale, where there is none.
    elsewhere: tuple[Baseline, ...]


def figures_of(case: Case, gpus: int, rows: Iterable[Baseline]) -> Figures:
    """Which of these rows are a case's figures on so many GPUs, and else on another number."""
    fitting = [row for row in rows if _is_of(case, row)]
    there = tuple(row for row in fitting if row.gpus == gpus)
    others = [] if there else sorted(fitting, key=lambda row: (abs(math.log(row.gpus / gpus)), -row.gpus))
    return Figures(case, there, tuple(row for row in others if row.gpus == others[0].gpus))


def _is_of(case: Case, row: Baseline) -> bool:
    if row.accelerator.lower() != case.accelerator or not _is_trained(row) or _OTHER_TASK.search(_task(row)):
        return False
    return row.workload in _names(case, row.framework) and has_dtype(case, row)


def _is_trained(row: Baseline) -> bool:
    """Whether it is a full model's training whose steps are judged."""
    is_other = row.proxy or row.canary or row.expected_failure is not None
    return not is_other and row.metric == STEP_TIME.name and row.judged_s is not None


def _task(row: Baseline) -> str:
    """Where tables say what is done: the id's case, and the headings."""
    return f"{row.id.partition('[')[2]} {row.source.title} {row.source.section}"


def _names(case: Case, framework: str) -> frozenset[str]:
    others = _IN_MEGATRON_BRIDGE if framework == "megatron-bridge" else _IN_RECIPES
    return others.get(case.workload, frozenset()) | {case.workload}


def has_dtype(case: Case, row: Baseline, is_mx: bool | None = None) -> bool:
    """Whether a row is of a case's dtype: ``fp8`` is what the recipe's launch script makes of it.

    Args:
        case: The case, or a job that was launched as one.
        row: The row.
        is_mx: Whether its fp8 is MXFP8 by what the job itself states; ``None`` where it does not.
    """
    if case.dtype != "fp8":
        return row.dtype == case.dtype
    stated = row.attributes.get("precision", row.dtype).lower().replace("_", "-")
    if row.dtype not in {"fp8", "mxfp8"}:
        return False
    return stated == "fp8" or (stated in {"mxfp8", "fp8-mx"}) == (_is_mx(case) if is_mx is None else is_mx)


def _is_mx(case: Case) -> bool:
    return (case.workload in _MX and case.accelerator != "h100") or (case.workload, case.accelerator) in _MX_TOO
