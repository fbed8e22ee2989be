"""The configuration that Megatron-Bridge writes beside a job's log is held against the row."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import Identity
from pytest_gsw.nvidia.evidence import configuration_beside
from tests.unit.nvidia.ended import measured
from tests.unit.validation.ended import IDENTITY, step_lines

CONFIGURATION = """\
_target_: megatron.bridge.training.config.ConfigContainer
mixed_precision:
  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
  bf16: true
  fp4: null
  fp4_recipe: nvfp4
  fp8: hybrid
  fp8_recipe: tensorwise
model:
  context_parallel_size: 1
  transformer:
    seq_length: 77
  seq_length: 4096
  tensor_model_parallel_size: 4
train:
  global_batch_size: 256
  micro_batch_size: null
"""


def written(directory: Path, text: str = CONFIGURATION) -> Path:
    path = directory / "configs" / "ConfigContainer.yaml"
    path.parent.mkdir()
    path.write_text(text)
    return path


def said_by(directory: Path, text: str = CONFIGURATION) -> Identity:
    written(directory, text)
    found = configuration_beside(directory / "log.out")
    assert found is not None
    return found.identity


def test_what_is_read_of_it(tmp_path: Path) -> None:
    said = said_by(tmp_path)
    assert (said.sequence_length, said.global_batch_size, said.micro_batch_size) == (4096, 256, None)
    assert (said.tp, said.cp, said.pp, said.quantization) == (4, 1, None, "fp8_tensorwise")


@pytest.mark.parametrize(
    ("old", "new", "quantization"),
    [
        ("fp8_recipe: tensorwise", "fp8_recipe: mxfp8", "mxfp8"),
        ("fp8: hybrid", "fp8: null", "none"),
        ("fp4: null", "fp4: e2m1", "nvfp4"),
        ("  fp4: null\n", "", "fp8_tensorwise"),
        ("  fp8: hybrid\n", "", None),
        ("mixed_precision:\n", "mixed_precision: bf16_mixed\nother:\n", None),
    ],
)
def test_what_it_computes_in(tmp_path: Path, old: str, new: str, quantization: str | None) -> None:
    said = said_by(tmp_path, CONFIGURATION.replace(old, new))
    assert said.quantization == quantization


def test_a_run_without_one(tmp_path: Path) -> None:
    assert configuration_beside(tmp_path / "log.out") is None


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "model:\n  seq_length: many\n", "\x00\n" * 9])
def test_one_that_says_nothing(tmp_path: Path, text: str) -> None:
    said = said_by(tmp_path, text)
    assert (said.sequence_length, said.quantization) == (None, None)


def test_a_run_of_another_length_is_not_the_rows(log: Path) -> None:
    log.write_text(IDENTITY + step_lines(range(50)))
    path = written(log.parent, CONFIGURATION.replace("4096", "8192").replace("  global_batch_size: 256\n", ""))
    with pytest.raises(
        LogError, match=r"the run was not the row's: .*sequence length 8192 in the log, 4096 in the row"
    ) as it:
        measured(log)
    assert ("said in", str(path)) in it.value.evidence
