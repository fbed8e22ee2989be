from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.performance.peaks import PEAKS, documented_peak_flops, peak_flops
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables


@pytest.mark.parametrize(("accelerator", "dtype"), PEAKS)
def test_every_peak_has_a_source_and_a_plausible_size(accelerator: str, dtype: str) -> None:
    peak = PEAKS[accelerator, dtype]
    assert any(kind in peak.source for kind in ("data sheet", "README", "compute units"))
    assert 1e14 < peak.flops < 2e16


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


def test_a_calibration_stands_for_the_peak_of_what_the_table_does_not_know() -> None:
    row = replace(load_tables([bundled_baselines() / "maxtext"])[0], calibration_flops=9.5e10)
    assert documented_peak_flops(row) == peak_flops(row.accelerator, row.dtype) == 989e12
    assert documented_peak_flops(replace(row, accelerator="CPU")) == 9.5e10
    # All figures of such a row are of its calibration.
    assert documented_peak_flops(replace(row, metric="calibrated_step_time")) == 9.5e10
    assert documented_peak_flops(replace(row, accelerator="CPU", calibration_flops=None)) is None


def test_fp8_is_twice_as_fast_as_bf16() -> None:
    without_units = {"TPU-v5p", "TPU-v6e"}  # Google publishes one figure for both
    for accelerator in {accelerator for accelerator, dtype in PEAKS if dtype == "fp8"} - without_units:
        ratio = PEAKS[accelerator, "fp8"].flops / PEAKS[accelerator, "bf16"].flops
        assert ratio == pytest.approx(2, rel=1e-3)
