"""Figures against the worked examples of the documents."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_gsw.hardware import ACCELERATORS
from pytest_gsw.stats.figures import (
    PEAKS,
    calibration_factor,
    documented_peak_flops,
    figures,
    figures_of,
    mfu_note,
    model_flops,
    peak_flops,
)
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline, Figures
from tests.unit.rows import LLAMA2_FP8_X128

GPT3 = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, sequence_length=2048, model_flops_per_sample=2.20e15),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=256),
    gpus=128,
)
LLAMA2_BF16 = replace(LLAMA2_FP8_X128, batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=128), gpus=64)
LLAMA3_FP8 = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, sequence_length=8192, model_flops_per_sample=2.17e16),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=252),
    gpus=576,
)
GROK_BF16 = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, sequence_length=8192, model_flops_per_sample=4.27e15),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=4096),
    gpus=2048,
)
GPT2_52B = replace(
    LLAMA2_FP8_X128,
    workload=replace(
        LLAMA2_FP8_X128.workload,
        sequence_length=1024,
        model_flops_per_sample=6 * 52e9 * 1024,
        activation_recomputation=True,
    ),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=1024),
    gpus=64,
)


@pytest.mark.parametrize(
    ("row", "step_time_s", "peak_flops", "tokens_per_s", "days", "mfu"),
    [
        (GPT3, 7.47, 1979e12, "70185.81", "164.9", "29.76%"),
        (LLAMA2_BF16, 7.908, 989e12, "66298.43", "174.6", "46.54%"),
        (LLAMA3_FP8, 12.84, 1979e12, "160777.57", "72.0", "37.36%"),
        (GROK_BF16, 24, 989e12, "1398101.33", "8.3", "35.98%"),
    ],
    ids=["gpt3", "llama2", "llama3.1", "grok1"],
)
def test_the_documents_examples(
    row: Baseline, step_time_s: float, peak_flops: float, tokens_per_s: str, days: str, mfu: str
) -> None:
    found = figures(row, step_time_s, peak_flops)
    assert found.step_time_s == step_time_s
    assert f"{found.tokens_per_s:.2f}" == tokens_per_s
    assert f"{found.days_to_train_1t_tokens:.1f}" == days
    assert f"{found.mfu:.2%}" == mfu


def test_tflops_count_the_forward_pass_twice_where_the_document_does_and_mfu_never() -> None:
    found = figures(GPT2_52B, 122, 125e12)
    assert found.tflops_per_gpu == pytest.approx(55.86675409836065, rel=1e-14)
    once = replace(GPT2_52B, workload=replace(GPT2_52B.workload, activation_recomputation=False))
    assert figures(once, 122, 125e12).tflops_per_gpu == pytest.approx(55.86675409836065 * 3 / 4, rel=1e-14)
    assert found.mfu == figures(once, 122, 125e12).mfu
    assert found.mfu == pytest.approx(55.86675409836065 * 3 / 4 / 125, rel=1e-14)


def test_a_proxy_has_everything_but_days() -> None:
    full, proxy = (
        figures(replace(GROK_BF16, workload=replace(GROK_BF16.workload, proxy=proxy)), 24, 989e12)
        for proxy in (False, True)
    )
    assert proxy == replace(full, days_to_train_1t_tokens=None)


def test_there_are_the_figures_of_what_is_known() -> None:
    found = figures(GPT3, 7.47, None)
    assert found.mfu is None
    assert found.tflops_per_gpu is not None
    found = figures(replace(GPT3, workload=replace(GPT3.workload, model_flops_per_sample=None)), 7.47, 1979e12)
    assert (found.mfu, found.tflops_per_gpu) == (None, None)
    assert found.tokens_per_s is not None
    assert found.days_to_train_1t_tokens is not None
    assert figures(replace(GPT3, batch=replace(GPT3.batch, global_batch_size=None)), 7.47, 1979e12) == Figures(
        step_time_s=7.47
    )
    assert figures(GPT3, None, 1979e12) == Figures()


#: Of a document that states TFLOP/s and tokens/s, and no formula: 512 samples in 8.63 s on 8 GPUs.
COUNTED = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, dtype="mxfp8", model_flops_per_sample=None),
    accelerator="GB300",
    gpus=8,
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=512),
    documented=Figures(step_time_s=8.63, tokens_per_s=30376.0 * 8, tflops_per_gpu=699.0),
)
GB300 = 4900e12


def test_flops_are_as_the_document_counts_them_where_it_states_tflops() -> None:
    assert model_flops(COUNTED) == (pytest.approx(699e12 * 8.63 * 8), "tflops_per_gpu")
    documented, slower = figures(COUNTED, 8.63, GB300), figures(COUNTED, 8.63 * 1.25, GB300)
    assert (documented.tflops_per_gpu, documented.mfu) == (pytest.approx(699), pytest.approx(699 / 4900))
    assert (slower.tflops_per_gpu, slower.mfu) == (pytest.approx(699 / 1.25), pytest.approx(699 / 4900 / 1.25))
    found = figures(replace(COUNTED, workload=replace(COUNTED.workload, activation_recomputation=True)), 8.63, GB300)
    assert (found.tflops_per_gpu, found.mfu) == (pytest.approx(699), pytest.approx(699 / 4900 * 3 / 4))
    found = figures(replace(COUNTED, batch=replace(COUNTED.batch, global_batch_size=None)), 8.63, GB300)
    assert (found.tflops_per_gpu, found.mfu) == (pytest.approx(699), pytest.approx(699 / 4900))
    assert (found.tokens_per_s, found.samples_per_s, found.days_to_train_1t_tokens) == (None, None, None)
    row = replace(COUNTED, workload=replace(COUNTED.workload, model_flops_per_sample=1.0e14))
    assert model_flops(row) == (512 * 1.0e14, "model_flops")
    assert figures(row, 8.63, GB300).mfu == pytest.approx(512 * 1.0e14 / 8.63 / 8 / GB300)


def test_flops_are_as_the_document_counts_them_where_it_states_an_mfu() -> None:
    row = replace(COUNTED, documented=Figures(step_time_s=8.63, mfu=0.15))
    assert model_flops(row) == (pytest.approx(0.15 * GB300 * 8.63 * 8), "mfu")
    assert figures(row, 8.63 * 1.25, GB300).mfu == pytest.approx(0.12)
    # Of the document's peak, whatever peak a site has.
    assert figures(row, 8.63, GB300 / 2).mfu == pytest.approx(0.30)
    assert model_flops(replace(row, accelerator="H20")) == (None, "")


@pytest.mark.parametrize("stated", [{"step_time_s": None}, {"tflops_per_gpu": None}])
def test_without_the_documents_time_and_tflops_there_are_no_flops(stated: dict[str, None]) -> None:
    row = replace(COUNTED, documented=replace(COUNTED.documented, **stated))
    assert model_flops(row)[0] is None
    assert figures(row, 8.63, GB300).mfu is None


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (GPT3, ""),
        (COUNTED, "FLOPs as the document counts them"),
        (replace(COUNTED, documented=Figures(step_time_s=8.63)), "no FLOPs: neither formula nor document gives them"),
        (replace(COUNTED, accelerator="H20"), "no peak: the table of peaks has no H20 in mxfp8"),
        (
            replace(COUNTED, accelerator="H100", workload=replace(COUNTED.workload, dtype="bfloat16")),
            "no peak: the table of peaks has no H100 in bfloat16; did you mean 'bf16'?",
        ),
        (
            replace(
                COUNTED,
                criterion=replace(COUNTED.criterion, metric="checkpoint_save_time"),
                documented=Figures(checkpoint_save_time_s=9.0),
            ),
            "",
        ),
    ],
)
def test_what_is_to_be_known_of_an_mfu(row: Baseline, note: str) -> None:
    assert mfu_note(row) == note


@pytest.mark.parametrize("step_time_s", [0.0, -0.0, -7.47, math.inf, -math.inf])
def test_an_impossible_step_time_gives_no_other_figure(step_time_s: float) -> None:
    assert figures(GPT3, step_time_s, 1979e12) == Figures(step_time_s=step_time_s)


def test_a_step_time_that_is_no_number_gives_no_other_figure() -> None:
    found = figures(GPT3, math.nan, 1979e12)
    assert found.step_time_s is not None
    assert math.isnan(found.step_time_s)
    assert replace(found, step_time_s=None) == Figures()


CORES = replace(
    LLAMA2_FP8_X128,
    accelerator="CPU",
    gpus=2,
    workload=replace(LLAMA2_FP8_X128.workload, sequence_length=256, model_flops_per_sample=2.6e10),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=8),
    criterion=replace(LLAMA2_FP8_X128.criterion, metric="calibrated_step_time"),
    calibration_flops=1.0e11,
    documented=Figures(step_time_s=1.5, calibrated_step_time_s=1.5),
)


@pytest.mark.parametrize(("calibration_flops", "step_time_s"), [(1.0e11, 1.5), (0.5e11, 3.0), (2.0e11, 0.75)])
def test_a_machine_that_is_half_as_fast_may_take_twice_as_long(calibration_flops: float, step_time_s: float) -> None:
    assert step_time_s * calibration_factor(CORES, calibration_flops) == 1.5
    found = figures_of(CORES, 1.5, calibration_flops)
    assert (found.calibrated_step_time_s, found.step_time_s) == (1.5, step_time_s)
    assert found.tokens_per_s == pytest.approx(256 * 8 / step_time_s)
    # The share of what the machine can do is the same.
    assert found.mfu == pytest.approx(8 * 2.6e10 / 1.5 / 2 / 1.0e11)


def test_without_a_calibration_of_its_own_the_documented_one_counts() -> None:
    assert figures_of(CORES, 1.5, None) == figures_of(CORES, 1.5, 1.0e11)


def test_figures_of_what_else_is_judged() -> None:
    assert figures_of(LLAMA2_BF16, 7.0, 989e12) == figures(LLAMA2_BF16, 7.0, 989e12)
    saves = replace(LLAMA2_BF16, criterion=replace(LLAMA2_BF16.criterion, metric="checkpoint_save_time"))
    assert figures_of(saves, 7.0, 989e12) == Figures(checkpoint_save_time_s=7.0)


def test_every_peak_has_a_source_and_a_plausible_size() -> None:
    sources = ("data sheet", "README", "compute units")
    assert all(any(kind in one.source for kind in sources) for one in ACCELERATORS if one.tflops)
    assert all(1e14 < flops < 2e16 for flops in PEAKS.values())


@pytest.mark.parametrize(
    ("accelerator", "dtype", "flops"),
    [
        ("H100", "fp8", 1979e12),
        ("H100", "bf16", 989e12),
        ("V100-32GB", "fp16", 125e12),
        ("V100-16GB", "fp16", 120e12),
        ("GB200", "bf16", 2450e12),
        ("GB200", "nvfp4", 9800e12),
        ("GB300", "fp8", 4900e12),
        ("GB300", "mxfp8", 4900e12),
        ("GB300", "nvfp4", 14700e12),
        ("B300", "bf16", 2250e12),
        ("B300", "nvfp4", 13500e12),
        ("B200", "mxfp8", 4500e12),
        ("H200", "fp8", 1979e12),
        ("MI300X", "bf16", 1307.4e12),
        ("MI325X", "fp8", 2614.9e12),
        ("MI350X", "bf16", 2300e12),
        ("MI355X", "mxfp8", 5000e12),
        ("MI355X", "mxfp4", 10100e12),
        ("TPU7x", "bf16", 2307e12),
        ("TPU7x", "fp8", 4614e12),
        ("TPU-v6e", "bf16", 918e12),
        ("TPU-v5p", "bf16", 459e12),
        ("TPU-v5e", "bf16", 197e12),
        ("TPU-v4", "bf16", 275e12),
    ],
)
def test_the_peaks_of_the_documents(accelerator: str, dtype: str, flops: float) -> None:
    assert peak_flops(accelerator, dtype) == flops


@pytest.mark.parametrize(
    ("accelerator", "dtype"), [("H100", "fp16"), ("h100", "fp8"), ("", ""), ("A40", "bf16"), ("H100", "nvfp4")]
)
def test_what_the_table_does_not_know(accelerator: str, dtype: str) -> None:
    assert peak_flops(accelerator, dtype) is None


def test_every_bundled_row_has_a_peak() -> None:
    assert all(documented_peak_flops(row) for row in load_tables([bundled_baselines()]))
    row = replace(load_tables([bundled_baselines() / "maxtext"])[0], calibration_flops=9.5e10)
    assert documented_peak_flops(row) == peak_flops(row.accelerator, row.workload.dtype) == 989e12
    assert documented_peak_flops(replace(row, accelerator="CPU")) == 9.5e10
    # All figures of such a row are of its calibration.
    assert (
        documented_peak_flops(replace(row, criterion=replace(row.criterion, metric="calibrated_step_time"))) == 9.5e10
    )
    assert documented_peak_flops(replace(row, accelerator="CPU", calibration_flops=None)) is None


def test_fp8_is_twice_as_fast_as_bf16() -> None:
    without_units = {"TPU-v5p", "TPU-v6e"}  # Google publishes one figure for both
    for accelerator in {accelerator for accelerator, dtype in PEAKS if dtype == "fp8"} - without_units:
        ratio = PEAKS[accelerator, "fp8"] / PEAKS[accelerator, "bf16"]
        assert ratio == pytest.approx(2, rel=1e-3)
