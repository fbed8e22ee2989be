"""What no table can hold, or no training can have: such values are left out, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

from pytest_gsw.performance.peaks import PEAKS
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.metrics import STEP_TIME, TFLOPS_PER_GPU, TOKENS_PER_S
from pytest_gsw.tables.yamlfile import Stated

_LONGEST_STEP_S = 3600


def refused_values(values: Mapping[str, Stated]) -> dict[str, str]:
    """What no table can hold, such as a model's name of hundred letters, and why."""
    found: dict[str, str] = {}
    for key, stated in values.items():
        known = ROW_FIELDS.get(key) or FILE_FIELDS.get(key)
        if isinstance(known, Field):
            try:
                known.read(stated.text)
            except ValueError as error:
                found[key] = str(error)[:200]
    texts = {key: stated.text for key, stated in values.items()}
    return {**found, **_incredible(texts), **_beyond_peak(texts)}


def _incredible(texts: Mapping[str, str]) -> dict[str, str]:
    """Figures that no training has: columns whose headers were swapped fit each other all the same."""
    seconds, rate, gpus = (_number(texts, key) for key in (STEP_TIME.key, TOKENS_PER_S.key, "gpus"))
    found = {}
    if seconds > _LONGEST_STEP_S:
        found[STEP_TIME.key] = f"{seconds:g} s is more than an hour for one step"
    if rate < gpus:
        found[TOKENS_PER_S.key] = f"{rate:g} tokens/s is less than one on each of {gpus:g} GPUs"
    return found


def _beyond_peak(texts: Mapping[str, str]) -> dict[str, str]:
    """TFLOP/s that the accelerator cannot do, in the row's dtype where its peak is known, else in any."""
    kind, dtype = texts.get("accelerator"), texts.get("dtype", "")
    peaks = {number: peak.flops / 1e12 for (name, number), peak in PEAKS.items() if name == kind}
    most = peaks.get(dtype) or max(peaks.values(), default=inf)
    if not _number(texts, TFLOPS_PER_GPU.key) > most:
        return {}
    how = f" in {dtype}" if dtype in peaks else ""
    return {TFLOPS_PER_GPU.key: f"{texts[TFLOPS_PER_GPU.key]} TFLOP/s is more than one {kind} can do{how}"}


def _number(texts: Mapping[str, str], key: str) -> float:
    """The number of a key, NaN, which compares with nothing, where there is none."""
    try:
        return float(texts.get(key, "nan"))
    except ValueError:
        return nan
