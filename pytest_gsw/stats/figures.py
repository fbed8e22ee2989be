"""From seconds per step to tokens/s, MFU, TFLOP/s and days, by the documents' own formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pytest_gsw.tables.metrics import CALIBRATION, MFU, TFLOPS_PER_GPU, Series
from pytest_gsw.tables.model import ACCELERATORS, Baseline, Figures
from pytest_gsw.tables.value_types import nearest

#: By accelerator and dtype, FLOP/s of one GPU: dense matrix operations, no sparsity.
PEAKS: Mapping[tuple[str, str], float] = {
    (entry.name, dtype): tflops * 1e12 for entry in ACCELERATORS for dtype, tflops in entry.tflops.items()
}


def documented_peak_flops(baseline: Baseline, known: float | None = None) -> float | None:
    """The peak FLOP/s behind a row's documented MFU: its accelerator's, or the documented calibration.

    A row that is judged by a calibrated time always has the calibration: all of its figures are relative to that.
    ``known`` is the accelerator's peak if the session has an option for it; by default it is the table's.
    """
    if CALIBRATION in baseline.judged_by.needs:
        return baseline.calibration_flops
    return known or peak_flops(baseline.accelerator, baseline.dtype) or baseline.calibration_flops


def peak_flops(accelerator: str, dtype: str) -> float | None:
    """Peak FLOP/s of one GPU; ``None`` if the table has none."""
    return PEAKS.get((accelerator, dtype))


SECONDS_PER_DAY = 86400

#: Forward, backward and a second forward pass, over forward and backward: (2 + 4 + 2) / (2 + 4).
RECOMPUTATION_FACTOR = 4 / 3


def figures(baseline: Baseline, step_time_s: float | None, peak_flops: float | None) -> Figures:
    """All figures of a row that follow from a step time.

    tokens/s = sequence length × global batch size / step time;
    samples/s = global batch size / step time;
    days = 1e12 / tokens/s / 86400;
    TFLOP/s = global batch size × FLOPs per sample / step time / GPUs / 1e12;
    MFU = global batch size × model FLOPs / step time / GPUs / peak FLOP/s.

    Without a batch size there are MFU and TFLOP/s if the document counts the FLOPs, see :func:`model_flops`.

    TFLOP/s count recomputed activations if the row's document does; MFU never does, by its definition (PaLM, arXiv
    2204.02311, appendix B). Days are not given for proxies, as in the documents: a proxy trains no real model.

    Args:
        baseline: The row: batch, sequence length, GPUs and model FLOPs.
        step_time_s: Seconds per step, documented or measured. ``None``, or a number that is not finite and above zero,
            gives no other figure.
        peak_flops: Peak FLOP/s of one GPU; without it there is no MFU.
    """
    if step_time_s is None or not 0 < step_time_s < math.inf:
        return Figures(step_time_s=step_time_s)
    batch, (flops, _) = baseline.global_batch_size, model_flops(baseline)
    flops_per_s_per_gpu = None if flops is None else flops / step_time_s / baseline.gpus
    recomputed = RECOMPUTATION_FACTOR if baseline.activation_recomputation else 1.0
    length = baseline.sequence_length
    tokens_per_s = None if batch is None or length is None else length * batch / step_time_s
    days = None if baseline.proxy or tokens_per_s is None else 1e12 / tokens_per_s / SECONDS_PER_DAY
    return Figures(
        step_time_s=step_time_s,
        tokens_per_s=tokens_per_s,
        samples_per_s=None if batch is None else batch / step_time_s,
        mfu=None if flops_per_s_per_gpu is None or peak_flops is None else flops_per_s_per_gpu / peak_flops,
        days_to_train_1t_tokens=days,
        tflops_per_gpu=None if flops_per_s_per_gpu is None else flops_per_s_per_gpu * recomputed / 1e12,
    )


def figures_of(baseline: Baseline, value: float, peak_flops: float | None) -> Figures:
    """The figures that follow from a value of :attr:`Baseline.metric`.

    ``peak_flops`` is as for :func:`figures`; for a calibrated row, it is the job's calibration.
    """
    judged = baseline.judged_by
    if judged.series is not Series.STEPS:
        return Figures(**{judged.field: value})
    if CALIBRATION not in judged.needs:
        return figures(baseline, value, peak_flops)
    peak_flops = peak_flops or baseline.calibration_flops
    assert peak_flops is not None  # a calibrated row has one, or it would not have been loaded
    step_time_s = value / calibration_factor(baseline, peak_flops)
    return replace(figures(baseline, step_time_s, peak_flops), **{judged.key: value})


def calibration_factor(baseline: Baseline, calibration_flops: float) -> float:
    """The factor that converts a job's step time to a machine of the documented one's speed.

    A machine that multiplies matrices half as fast may take twice as long for a step. The row has a documented
    calibration; the job's is the FLOP/s of a matrix product on one GPU or core.
    """
    assert baseline.calibration_flops is not None
    return calibration_flops / baseline.calibration_flops


def model_flops(baseline: Baseline) -> tuple[float | None, str]:
    """Model FLOPs of one step, and the key of the row that gives them: its own, else the document's count.

    The document counts them if it states the TFLOP/s of one GPU and the step time, or an MFU of a known peak. TFLOP/s
    come first: they need no peak.
    """
    document, batch = baseline.documented, baseline.global_batch_size
    if baseline.model_flops_per_sample is not None and batch is not None:
        return batch * baseline.model_flops_per_sample, "model_flops"
    gpu_s, peak_flops = baseline.gpus * (document.step_time_s or 0.0), documented_peak_flops(baseline)
    if gpu_s and document.tflops_per_gpu is not None:
        factor = RECOMPUTATION_FACTOR if baseline.activation_recomputation else 1.0
        return document.tflops_per_gpu * 1e12 / factor * gpu_s, TFLOPS_PER_GPU.key
    if gpu_s and document.mfu is not None and peak_flops is not None:
        return document.mfu * peak_flops * gpu_s, MFU.key
    return None, ""


def mfu_note(baseline: Baseline, known: float | None = None) -> str:
    """The note on a row's MFU: the source of FLOPs that are not the row's own, or the reason for a missing MFU.

    ``known`` is the peak from the session's option, or a job's calibration; by default it is the documented one.
    """
    if baseline.judged_by.series is not Series.STEPS:
        return ""
    flops, key = model_flops(baseline)
    if flops is None:
        return "no FLOPs: neither formula nor document gives them"
    if documented_peak_flops(baseline, known) is None:
        near = nearest(baseline.dtype, [dtype for name, dtype in PEAKS if name == baseline.accelerator])
        return f"no peak: the table of peaks has no {baseline.accelerator} in {baseline.dtype}{near}"
    return "" if key == "model_flops" else "FLOPs as the document counts them"
