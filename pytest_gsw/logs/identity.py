"""What a log says of the run that wrote it: model, GPUs, job, batch, number of steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_gsw.logs.model import Identity, StepLog
from pytest_gsw.logs.text import safe_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Every rank of a DGX Cloud Benchmarking recipe prints one such line (v24.11 to v25.04).
_RECIPE = re.compile(rb"\bGSW: (MODEL=.{1,4000})")
_FIELD = re.compile(rb"\b([A-Z][A-Z_]{1,40})=('[^']{0,400}'|[^\s']{0,400})")
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class _Fact:
    """A number that a line gives, after the words by which the line is found."""

    marker: bytes
    pattern: re.Pattern[bytes]


def _fact(marker: str, pattern: str) -> _Fact:
    return _Fact(marker.encode(), re.compile(pattern.encode()))


#: Samples in a step, the first fact that is found counts.
_GLOBAL_BATCH = (
    _fact("Total train batch size", r"Total train batch size \([^)]{1,80}\) = (\d[\d,]{0,14})"),  # HF Trainer
    _fact("global_batch_size", r"(?<![\w-])global_batch_size \.{1,80} (\d{1,12})\b"),  # Megatron's arguments
    # NeMo's and MaxText's configuration, DLLogger, MLPerf.
    _fact(
        "global_batch_size", r"(?<![\w-])global_batch_size(?:_to_train_on)?[\"']?(?:, \"value\")? ?: {0,4}(\d{1,12})\b"
    ),
    _fact("train_batch_size", r"\bconfig\.py:\d{1,5}:print\] {1,8}train_batch_size \.{1,40} (\d{1,12})\b"),  # DeepSpeed
)
_GPUS = (
    _fact("using world size: ", r"using world size: (\d{1,8})\b"),  # Megatron
    _fact("Starting with ", r"All distributed processes registered\. Starting with (\d{1,8}) processes"),  # Lightning
)
_TOTAL_STEPS = (
    _fact("Total optimization steps", r"Total optimization steps = (\d[\d,]{0,14})"),  # HF Trainer
    _fact("Config param steps: ", r"\bConfig param steps: (\d{1,12})\s{0,8}$"),  # MaxText's configuration
    _fact("total steps ", r", total steps (\d{1,12}) \(warmup "),  # torchtitan
)

#: What a recipe's own line holds.
RECIPE_MARKER = b"GSW: MODEL="
MARKERS: tuple[bytes, ...] = (
    RECIPE_MARKER,
    *dict.fromkeys(fact.marker for fact in (*_GLOBAL_BATCH, *_GPUS, *_TOTAL_STEPS)),
)


def with_identity(log: StepLog, records: Iterable[bytes]) -> StepLog:
    """The log with what records that hold a marker say; where they differ, the last counts.

    What step lines say themselves is kept.
    """
    found = Identity()
    numbers: dict[_Fact, int] = {}
    for record in records:
        found = recipe_identity(record) or found
        for fact in (*_GLOBAL_BATCH, *_GPUS, *_TOTAL_STEPS):
            if fact.marker in record:
                for match in fact.pattern.finditer(record):
                    numbers[fact] = int(match[1].replace(b",", b""))
    batch = log.identity.global_batch_size
    return replace(
        log,
        identity=replace(
            found,
            gpus=_first(numbers, _GPUS) if found.gpus is None else found.gpus,
            global_batch_size=_first(numbers, _GLOBAL_BATCH) if batch is None else batch,
        ),
        total_steps=_first(numbers, _TOTAL_STEPS) if log.total_steps is None else log.total_steps,
    )


def _first(numbers: dict[_Fact, int], facts: tuple[_Fact, ...]) -> int | None:
    return next((numbers[fact] for fact in facts if fact in numbers), None)


def recipe_identity(record: bytes) -> Identity | None:
    """What a recipe's own line says, safe to show; ``None`` for others, and for the command that is to print it."""
    line = _RECIPE.search(record)
    if line is None or b"$" in line[1]:
        return None
    fields = {
        name.decode(): shortened(safe_text(value.strip(b"'")), _SHOWN_CHARACTERS)
        for name, value in _FIELD.findall(line[1])
    }
    return Identity(
        framework=fields.get("FRAMEWORK") or None,
        model=fields.get("MODEL") or None,
        size=fields.get("MODEL_SIZE") or None,
        dtype=fields.get("DTYPE") or None,
        gpus=_gpus(fields),
        job_id=fields.get("JOB_ID") or None,
    )


def _gpus(fields: dict[str, str]) -> int | None:
    nodes, each = fields.get("JOB_NUM_NODES", ""), fields.get("GPUS_PER_NODE", "")
    digits = (nodes + each).isascii() and nodes.isdigit() and each.isdigit() and len(nodes + each) < 16
    return int(nodes) * int(each) if digits else None
