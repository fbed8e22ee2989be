"""The certification's file: what it asks for, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.nvidia.evidence import Case
from pytest_gsw.nvidia.suite import Suite, read_suite

SUITE = """\
config:
  scale: 256
  repeats: 3
  profile: true
workloads:
  gb200:
    - pretrain_llama3.1_70b:
        dtypes: ['fp8', 'nvfp4']
    - pretrain_qwen3_235b:
        dtypes: [bf16]
  h100:
    - pretrain_kimi-k2_1t:
        dtypes: [fp8]
"""


def read(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "exemplar.yaml"
    path.write_text(text)
    return read_suite(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(FileError) as caught:
        read(tmp_path, text)
    return [str(fault) for fault in caught.value.faults]


def test_a_suite_is_its_cases_at_one_scale(tmp_path: Path) -> None:
    suite = read(tmp_path, SUITE)
    assert suite.gpus == 256
    assert suite.repeats == 2  # the third is profiled
    assert suite.accelerators == ("gb200", "h100")
    assert suite.cases == (
        Case("gb200", "llama3.1_70b", "fp8"),
        Case("gb200", "llama3.1_70b", "nvfp4"),
        Case("gb200", "qwen3_235b", "bf16"),
        Case("h100", "kimi-k2_1t", "fp8"),
    )


def test_what_is_not_given_is_what_the_files_own_reader_takes(tmp_path: Path) -> None:
    suite = read(tmp_path, "config: {}\nworkloads: {h100: [{pretrain_qwen3_235b: {dtypes: [bf16]}}]}\n")
    assert (suite.gpus, suite.repeats) == (512, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  scale: 256\n", "  scales: 256\n", "2:3     config.scales: unknown key; did you mean 'scale'?"),
        ("        dtypes: [bf16]\n", "        dtypes: []\n", "10:17   workloads.gb200[1].pretrain_qwen3_235b.dtypes: is empty, wanted at least one entry"),
        ("        dtypes: [bf16]\n", "        dtypes: [bf16]\n        scale: 8\n", "11:9    workloads.gb200[1].pretrain_qwen3_235b.scale: unknown key"),
        ("    - pretrain_qwen3_235b:\n", "    - finetune_qwen3_235b:\n", "9:7     workloads.gb200[1].finetune_qwen3_235b: wanted a workload such as pretrain_llama3.1_70b"),
        ("    - pretrain_qwen3_235b:\n", "    - pretrain_llama3.1_70b:\n", "9:7     workloads.gb200[1].pretrain_llama3.1_70b: is there twice"),
        ("  h100:\n    - pretrain_kimi-k2_1t:\n        dtypes: [fp8]\n", "  h100: []\n", "11:9    workloads.h100: is empty, wanted at least one entry"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert SUITE.count(old) == 1
    assert told in faults(tmp_path, SUITE.replace(old, new))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config: {}\nworkloads: {}\n", "2:12    workloads: is empty, wanted at least one accelerator"),
        ("config: {}\nworkloads: {h100: [{}]}\n", "2:20    workloads.h100[0]: has 0 workloads, wanted one an entry"),
        (
            "config: {}\nworkloads: {h100: [{pretrain_a: {dtypes: [fp8]}, pretrain_b: {dtypes: [fp8]}}]}\n",
            "2:20    workloads.h100[0]: has 2 workloads, wanted one an entry",
        ),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(tmp_path: Path, text: str, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults(tmp_path, text)), faults(tmp_path, text)


def test_a_suite_of_more_cases_than_any_has_is_refused(tmp_path: Path) -> None:
    entries = "".join(f"    - pretrain_a{n}: {{dtypes: [bf16, fp8]}}\n" for n in range(501))
    assert faults(tmp_path, f"config: {{}}\nworkloads:\n  h100:\n{entries}") == ["3:3     workloads: has more than 1000 cases"]  # fmt: skip
