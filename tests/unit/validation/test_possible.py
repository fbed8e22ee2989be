"""An MFU above one: whose fault it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.errors import LogError, TableError
from pytest_gsw.validation.measure import impossible_measurement, impossible_table
from tests.unit.rows import LLAMA2_FP8_X128

PEAK = 1979e12
LOG = (("log", "/stage/log.out:120"),)
DOCUMENTED = replace(LLAMA2_FP8_X128.documented, mfu=0.4037)
ROW = replace(LLAMA2_FP8_X128, documented=DOCUMENTED)


def test_a_table_whose_own_figures_agree() -> None:
    assert impossible_table(ROW, PEAK) is None
    assert impossible_table(ROW, None) is None
    assert impossible_table(replace(ROW, model_flops_per_sample=None), PEAK) is None


def test_a_table_whose_flops_are_those_of_another_model() -> None:
    error = impossible_table(replace(ROW, model_flops_per_sample=2.17e16), PEAK)
    assert isinstance(error, TableError)
    assert error.fact == "the table contradicts itself: MFU 481.3 % is impossible, and its own 4.556 s gives it"
    assert error.evidence == (
        ("baseline", str(ROW.location)),
        ("document", f"{ROW.source.document}:{ROW.source.line}"),
        ("documented", "4.556 s a step, an MFU of 40.37 %"),
        ("computed", "256 * 2.17e+16 FLOPs / 4.556 s / 128 GPUs / 1.979e+15 FLOP/s = 481.3 %"),
    )
    assert error.advice == "correct model_flops there, or leave it out: the verdict does not rest on it"


def test_a_table_whose_tflops_are_beyond_its_peak() -> None:
    documented = replace(DOCUMENTED, mfu=None, tflops_per_gpu=2474.0)
    error = impossible_table(replace(ROW, model_flops_per_sample=None, documented=documented), PEAK)
    assert isinstance(error, TableError)
    assert error.fact == "the table contradicts itself: MFU 125.0 % is impossible, and its own 4.556 s gives it"
    assert error.evidence[-1] == (
        "computed",
        "256 * 5.636e+15 FLOPs / 4.556 s / 128 GPUs / 1.979e+15 FLOP/s = 125.0 %",
    )
    assert error.advice == "correct tflops_per_gpu there, or leave it out: the verdict does not rest on it"


@pytest.mark.parametrize(
    ("flops", "judged_s", "kind", "fact"),
    [
        (1.82e15, 0.029, LogError, "MFU 6342.5 % is impossible: no hardware takes 0.029 s for a step"),
        (2.17e16, 4.6, TableError, "the table contradicts itself: MFU 481.3 % is impossible, and its own 4.556 s*"),
        (
            3.64e15,
            3.0,
            TableError,
            "the table contradicts itself: 3 s is an MFU of 61.3 % by its mfu, and of 122.6 % by its model_flops",
        ),
    ],
)
def test_whose_fault_a_measured_mfu_is(flops: float, judged_s: float, kind: type, fact: str) -> None:
    row = replace(ROW, model_flops_per_sample=flops)
    mfu = 256 * flops / judged_s / 128 / PEAK
    error = impossible_measurement(row, mfu, judged_s, PEAK, LOG)
    assert type(error) is kind
    assert error.fact == fact or (fact.endswith("*") and error.fact.startswith(fact[:-1]))


def test_without_a_documented_mfu_only_the_documented_step_time_tells() -> None:
    row = replace(ROW, model_flops_per_sample=3.64e15, documented=replace(DOCUMENTED, mfu=None))
    assert isinstance(impossible_measurement(row, 1.226, 3.0, PEAK, LOG), LogError)
