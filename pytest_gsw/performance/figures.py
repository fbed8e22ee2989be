"""From seconds per step to tokens/s, MFU, TFLOP/s and days, by the documents' own formulas."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_gsw.tables.metrics import CALIBRATION, Series
from pytest_gsw.tables.model import Baseline, Figures

SECONDS_PER_DAY = 86400

#: Forward, backward and the forward pass once more, over forward and backward: (2 + 4 + 2) / (2 + 4).
RECOMPUTATION_FACTOR = 4 / 3


def figures(baseline: Baseline, step_time_s: float | None, peak_flops: float | None) -> Figures:
    """Everything that follows from a step time, for one row.

    tokens/s = sequence length × global batch size / step time;
    samples/s = global batch size / step time;
    days = 1e12 / tokens/s / 86400;
    TFLOP/s = global batch size × FLOPs per sample / step time / GPUs / 1e12;
    MFU = global batch size × model FLOPs / step time / GPUs / peak FLOP/s.

    TFLOP/s count recomputed activations where the row's document does; MFU never does,
    by its definition (PaLM, arXiv 2204.02311, appendix B). Days are not given for
    proxies, as in the documents: a proxy trains no real model.

    Args:
        baseline: The row: batch, sequence length, GPUs and pinned model FLOPs.
        step_time_s: Seconds per step, documented or measured; ``None``, and a number that is not
            finite and above zero, gives no other figure.
        peak_flops: Peak FLOP/s of one GPU; without it there is no MFU.
    """
    possible = step_time_s is not None and 0 < step_time_s < math.inf
    if step_time_s is None or not possible or baseline.global_batch_size is None:
        return Figures(step_time_s=step_time_s)
    length = baseline.sequence_length
    tokens_per_s = None if length is None else length * baseline.global_batch_size / step_time_s
    model_flops_per_s_per_gpu = _model_flops_per_s_per_gpu(baseline, step_time_s)
    recomputed = RECOMPUTATION_FACTOR if baseline.activation_recomputation else 1.0
    return Figures(
        step_time_s=step_time_s,
        tokens_per_s=tokens_per_s,
        samples_per_s=baseline.global_batch_size / step_time_s,
        mfu=None if model_flops_per_s_per_gpu is None or peak_flops is None else model_flops_per_s_per_gpu / peak_flops,
        days_to_train_1t_tokens=None if baseline.proxy or not tokens_per_s else 1e12 / tokens_per_s / SECONDS_PER_DAY,
        tflops_per_gpu=None if model_flops_per_s_per_gpu is None else model_flops_per_s_per_gpu * recomputed / 1e12,
    )


def figures_of(baseline: Baseline, judged_s: float, peak_flops: float | None) -> Figures:
    """What follows from the seconds of what :attr:`Baseline.metric` names.

    ``peak_flops`` is as for :func:`figures`; of a calibrated row, it is the job's calibration.
    """
    judged = baseline.judged_by
    if judged.series is Series.SAVES:
        return Figures(**{judged.key: judged_s})
    if CALIBRATION not in judged.needs:
        return figures(baseline, judged_s, peak_flops)
    peak_flops = peak_flops or baseline.calibration_flops
    assert peak_flops is not None  # a calibrated row has one, or it would not have been loaded
    step_time_s = judged_s / calibration_factor(baseline, peak_flops)
    return replace(figures(baseline, step_time_s, peak_flops), **{judged.key: judged_s})


def calibration_factor(baseline: Baseline, calibration_flops: float) -> float:
    """What makes of a job's step time one of a machine that is as fast as the documented one.

    By it, a machine that multiplies matrices half as fast may take twice as long for a step. The row has a documented
    calibration; the job's is the FLOP/s that a matrix product reached on one GPU or core.
    """
    assert baseline.calibration_flops is not None
    return calibration_flops / baseline.calibration_flops


def _model_flops_per_s_per_gpu(baseline: Baseline, step_time_s: float) -> float | None:
    if baseline.model_flops_per_sample is None or baseline.global_batch_size is None:
        return None
    return baseline.global_batch_size * baseline.model_flops_per_sample / step_time_s / baseline.gpus
