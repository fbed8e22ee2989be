"""Peak FLOP/s of accelerators: dense matrix operations, no sparsity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_gsw.tables.metrics import CALIBRATION
from pytest_gsw.tables.model import Baseline


@dataclass(frozen=True)
class Peak:
    """The peak of one accelerator at one dtype, and who says so."""

    flops: float
    source: str


_DGXC = "the recipes' READMEs (DGX Cloud Benchmarking), 'peak theoretical throughput'"
_H200 = "NVIDIA's H200 data sheet (1,979 and 3,958 TFLOP/s with sparsity), the SXM module's; half of it is dense"
_A100 = "NVIDIA's A100 data sheet (624 TFLOP/s with sparsity); half of it is dense"
_V100 = "the GPT-2 document, citing the V100 data sheet"

#: By accelerator and dtype, FLOP/s of one GPU.
PEAKS: Mapping[tuple[str, str], Peak] = {
    ("H100", "fp8"): Peak(1979e12, _DGXC),
    ("H100", "bf16"): Peak(989e12, _DGXC),
    ("H200", "fp8"): Peak(1979e12, _H200),
    ("H200", "bf16"): Peak(989e12, _H200),
    ("GB200", "fp8"): Peak(4900e12, _DGXC),
    ("GB200", "bf16"): Peak(2450e12, _DGXC),
    ("B200", "fp8"): Peak(4500e12, _DGXC),
    ("B200", "bf16"): Peak(2250e12, _DGXC),
    **{
        (f"A100{memory}", dtype): Peak(312e12, _A100) for memory in ("", "-40GB", "-80GB") for dtype in ("bf16", "fp16")
    },
    ("V100-32GB", "fp16"): Peak(125e12, _V100),
    ("V100-16GB", "fp16"): Peak(120e12, _V100),
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
