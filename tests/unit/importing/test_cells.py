"""Cells say plain numbers and names, or are refused."""

from __future__ import annotations

import pytest

from pytest_gsw.importing.tables import read_cell


@pytest.mark.parametrize(
    ("key", "cell", "value"),
    [
        ("step_time_s", "8.85", "8.85"),
        ("step_time_s", "0.50", "0.50"),
        ("step_time_s", "8.85 s", "8.85"),
        ("step_time_s", "8850ms", "8.850"),
        ("tokens_per_s", "1,048,576", "1048576"),
        ("tokens_per_s", "37.5k", "37500.0"),
        ("tokens_per_s_per_gpu", "1035 tokens/s/GPU", "1035"),
        ("mfu", "54.1%", "54.1%"),
        ("mfu", "54.1 %", "54.1%"),
        ("tflops_per_gpu", "661 TFLOP/s", "661"),
        ("days_to_train_1t_tokens", "24.7 days", "24.7"),
        ("gpus", "1,024", "1024"),
        ("dtype", "FP8", "fp8"),
        ("size", "70B", "70b"),
        ("model", "Llama 3.1", "llama-3.1"),
        ("accelerator", "A100-80GB", "A100-80GB"),
        ("notes", "05-26", "05-26"),
        ("attributes.ds", "N", "N"),
        ("attributes.bucket", "na", "na"),
        *(("step_time_s", cell, "") for cell in ("", "-", "n/a", "NA", "\u2014")),
        ("vp", "None", ""),
    ],
)
def test_what_a_cell_says(key: str, cell: str, value: str) -> None:
    assert read_cell(key, cell) == value


@pytest.mark.parametrize(
    ("key", "cell", "factor", "value"),
    [
        ("checkpoint_save_time_s", "17960.60", "0.001", "17.96060"),
        ("sequence_length", "4", "1024", "4096"),
        ("gpus", "8", "4", "32"),
        ("mfu", "41.25", "%", "41.25%"),
        ("mfu", "41.25%", "%", "41.25%"),
    ],
)
def test_the_unit_that_a_label_declares(key: str, cell: str, factor: str, value: str) -> None:
    assert read_cell(key, cell, factor) == value


@pytest.mark.parametrize(
    ("key", "cell", "reason"),
    [
        ("step_time_s", "8.7 5", "the cell reads '8.7 5', which is no plain number"),
        ("step_time_s", "~200", "the cell reads '~200', which is no plain number"),
        ("step_time_s", "8,309", "the cell reads '8,309', which is no plain number"),
        (
            "step_time_s",
            "2 h",
            "the cell reads '2 h', wanted 's', 'sec', 'secs', 'seconds', 's/step', 'ms' behind the number",
        ),
        ("step_time_s", "0.0", "the cell reads '0.0', wanted a number above 0"),
        ("step_time_s", "1e999", "got '1e999', wanted a number above 0, such as 4.324"),
        ("tokens_per_s", "37556 (36108)", "the cell reads '37556 (36108)', which is no plain number"),
        ("tokens_per_s", "121.250,69", "the cell reads '121.250,69', which is no plain number"),
        ("tokens_per_s", "4.1*", "the cell reads '4.1*', which is no plain number"),
        ("mfu", "23.4", "the cell reads '23.4', wanted '%' behind the number"),
        ("gpus", "64-512", "the cell reads '64-512', which is no plain number"),
        ("gpus", "8.5", "the cell reads '8.5', wanted a whole number above 0"),
        ("gpus", "0248", "the cell reads '0248', which is no plain number"),
        ("gpus", "8k", "the cell reads '8k', wanted no unit behind the number"),
        ("dtype", "FP8-CS (FP8-MX)", "got 'fp8-cs (fp8-mx)', wanted a name such as fp8"),
        ("accelerator", "DGX H100", "got 'DGX H100', wanted a name such as H100"),
        ("mfu", "118.8%", "got '118.8%', wanted a percentage such as 5%"),
    ],
)
def test_what_is_refused(key: str, cell: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"wanted|no plain number") as error:
        read_cell(key, cell)
    assert str(error.value) == reason
