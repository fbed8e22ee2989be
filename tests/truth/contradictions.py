"""Rows that a run was set up as in place of its own, for the self-test: each must be told by what its log says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.agreement import stated_parallelism
from tests.unit.rows import with_facts

#: Formats whose logs state a setting.
_STATED = {
    "sequence length": frozenset({"megatron", "nemo", "maxtext", "paxml", "torchtitan", "composer"}),
    "layers": frozenset({"megatron", "nemo", "maxtext", "paxml", "torchtitan", "composer"}),
    "precision": frozenset({"megatron", "nemo", "maxtext", "composer", "huggingface", "deepspeed"}),
    "parallelism": frozenset({"megatron", "nemo"}),
}
_OTHER_PRECISION = {"bf16": "fp16", "fp16": "bf16", "fp32": "bf16", "fp8": "bf16"}


def other_settings(row: Baseline) -> Iterator[tuple[str, Baseline, str]]:
    """Each setting that row and log state, a row that differs in it, and what is to be said of that one's log."""
    for name, key, wanted, said in (
        ("sequence length", "sequence_length", row.workload.sequence_length, 2 * (row.workload.sequence_length or 0)),
        ("layers", "layers", row.workload.all_layers, (row.workload.all_layers or 0) + 1),
    ):
        if wanted is None or row.workload.log_format not in _STATED[name]:
            continue
        other = with_facts(row, **{key: said})
        yield name, other, f"the run was not the row's: {name} {said} in the log, {wanted} in the row"
    precision = _OTHER_PRECISION.get(row.workload.dtype)
    if precision is not None and row.workload.log_format in _STATED["precision"] and not _is_mixed(row):
        fact = f"the run was not the row's: precision {precision} in the log, {row.workload.dtype} in the row"
        yield "precision", replace(row, workload=replace(row.workload, dtype=precision)), fact
    tp = stated_parallelism(row).tp
    if tp is not None and row.workload.log_format in _STATED["parallelism"]:
        other = replace(row, parallelism=replace(row.parallelism, tp=2 * tp, dp=None))
        yield "parallelism", other, f"the run was not the row's: TP {2 * tp} in the log, {tp} in the row*"


def _is_mixed(row: Baseline) -> bool:
    """Whether the row computes in FP8, of which its logs say nothing."""
    return row.workload.dtype == "fp8" and row.workload.log_format in {"huggingface", "deepspeed"}
