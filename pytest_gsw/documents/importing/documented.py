"""Rows as their document states them, for the audit: import leaves out what a row's own identities refute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_gsw.documents.importing.row import Row
from pytest_gsw.tables.metrics import MFU, TFLOPS_PER_GPU
from pytest_gsw.tables.yamlfile import Stated

#: Figures that tell what a row's model FLOPs are.
_OF_FLOPS = frozenset({MFU.key, TFLOPS_PER_GPU.key})
#: What rows of the same model FLOPs have in common.
_KIND = ("model", "size", "layers", "sequence_length", "proxy")


def as_documented(rows: Sequence[Row]) -> list[Row]:
    """The rows with what was proven to be something else, or left out, in their order.

    Model FLOPs that a row's figures refute are its own where most rows of its kind have them: its figures are wrong.
    """
    found = [replace(row, values={**row.values, **row.documented}) for row in rows]
    flops: dict[tuple[object, ...], Counter[Stated | None]] = {}
    for row in found:
        if _OF_FLOPS & row.values.keys():
            flops.setdefault(_kind(row), Counter())[row.values.get("model_flops")] += 1
    return [_with_flops(row, flops.get(_kind(row), Counter())) for row in found]


def _kind(row: Row) -> tuple[object, ...]:
    case = row.values.get("case")
    is_lora = case is not None and "lora" in case.text.lower()
    return (is_lora, *(row.values[key].text if key in row.values else "" for key in _KIND))


def _with_flops(row: Row, known: Counter[Stated | None]) -> Row:
    usual = next((flops for flops, _ in known.most_common(1)), None)
    if usual is None or "model_flops" in row.values:
        return row
    return replace(row, values={**row.values, "model_flops": usual})
