"""Peak FLOP/s of accelerators: dense matrix operations, no sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_gsw.tables.metrics import CALIBRATION
from pytest_gsw.tables.model import ACCELERATORS, Baseline


@dataclass(frozen=True)
class Peak:
    """The peak of one accelerator at one dtype, and who says so."""

    flops: float
    source: str


#: By accelerator and dtype, FLOP/s of one GPU.
PEAKS: Mapping[tuple[str, str], Peak] = {
    (one.name, dtype): Peak(tflops * 1e12, one.source) for one in ACCELERATORS for dtype, tflops in one.tflops.items()
}


def documented_peak_flops(baseline: Baseline, known: float | None = None) -> float | None:
    """What the MFU of a row's documented figures is of: its accelerator's peak, or the calibration beside them.

    Of a row that is judged by a calibrated time, it is the calibration in any case: all of its figures are of that.
    ``known`` is the accelerator's peak where a session has asked for it; by default it is the table's.
    """
    if CALIBRATION in baseline.judged_by.needs:
        return baseline.calibration_flops
    return known or peak_flops(baseline.accelerator, baseline.dtype) or baseline.calibration_flops


def peak_flops(accelerator: str, dtype: str) -> float | None:
    """Peak FLOP/s of one GPU, or ``None`` where the table does not know it."""
    peak = PEAKS.get((accelerator, dtype))
    return None if peak is None else peak.flops
