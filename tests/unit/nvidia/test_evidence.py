"""What llmb-run and Megatron-Bridge write beside a log is held against the row."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import Identity
from pytest_gsw.nvidia.evidence import Task, configuration_of_log, evidence_of_log, task_of_log
from pytest_gsw.nvidia.launchers import _metadata_below
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from tests.messages import wording
from tests.unit.nvidia.ended import measured, run
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import IDENTITY, raised, step_lines

CONFIG = """\
job_info:
  job_id: '481221'
  launcher_type: nemo
workload_info:
  gsw_version: 24.11.1
model_info:
  model_size: 70b
  dtype: fp8
  model_name: llama2
  scale: 128
  gpu_type: h100
cluster_info:
  cluster_name: eos
job_config:
  profile_enabled: false
  proxy: false
  env_overrides: {}
  model_overrides: {}
"""


@pytest.fixture
def config(log: Path) -> Path:
    path = log.parent / "llmb-config_481221.yaml"
    path.write_text(CONFIG)
    return path


def told(config: Path) -> Task:
    task = task_of_log(config, "481221")
    assert task is not None
    return task


def test_the_rows_own_task(log: Path, config: Path) -> None:
    assert measured(log).judged == 4.56
    # The release that llmb-run alone states.
    row = replace(LLAMA2_FP8_X128, source=replace(LLAMA2_FP8_X128.source, releases=("24.11.1",)))
    log.write_text((IDENTITY + step_lines(range(50))).replace("GSW_VERSION=24.11 ", ""))
    assert read_steps(row, run(log), FORMATS[row.workload.log_format])[1]["release"] == "24.11.1"
    config.unlink()
    assert "release" not in read_steps(row, run(log), FORMATS[row.workload.log_format])[1]


@pytest.mark.parametrize(
    ("own", "other", "name"),
    [
        ("scale: 128", "scale: 256", "GPUs"),
        ("model_size: 70b", "model_size: 8b", "model size"),
        ("dtype: fp8", "dtype: bf16", "dtype"),
        ("job_id: '481221'", "job_id: '7'", "job"),
        ("model_name: llama2", "model_name: qwen3", "model"),
        ("gpu_type: h100", "gpu_type: gb200", "accelerator"),
        ("proxy: false", "proxy: true", "proxy"),
    ],
)
def test_another_task(log: Path, config: Path, own: str, other: str, name: str) -> None:
    config.write_text(CONFIG.replace(own, other))
    error = raised(LogError, measured, log)
    assert error.fact == wording("another run", names=name)
    assert ("said in", str(config)) in error.evidence


@pytest.mark.parametrize(
    ("own", "other", "what"),
    [
        ("model_overrides: {}", "model_overrides:\n    gbs: 512\n    max_steps: 50", "global batch size"),
        ("env_overrides: {}", "env_overrides:\n    NCCL_DEBUG: INFO\n    SEQ_LEN: '8192'", "sequence length"),
    ],
)
def test_a_task_with_settings_of_its_own(log: Path, config: Path, own: str, other: str, what: str) -> None:
    config.write_text(CONFIG.replace(own, other))
    with pytest.raises(LogError, match=what):
        measured(log)


@pytest.mark.parametrize("name", ["Llama-2", "llama2_mlperf", "llama2_70b", "llama2-70b-finetune"])
def test_a_model_by_another_spelling(log: Path, config: Path, name: str) -> None:
    config.write_text(CONFIG.replace("model_name: llama2", f"model_name: {name}").replace("h100", "H100"))
    assert measured(log).judged == 4.56


def test_a_task_that_is_not_comparable_or_boosted(config: Path) -> None:
    # A task that is not comparable.
    assert told(config).not_comparable is None
    config.write_text(CONFIG.replace("profile_enabled: false", "profile_enabled: true"))
    assert told(config).not_comparable == "profile_enabled in llmb-config_481221.yaml"
    config.write_text(f"{CONFIG}  mbridge_args: []\n")
    assert told(config).not_comparable is None
    config.write_text(f"{CONFIG}  mbridge_args:\n  - --moe_a2a_overlap\n  - 'true'\n")
    assert told(config).not_comparable == "mbridge_args in llmb-config_481221.yaml"
    # The boost of one cluster.
    assert told(config).environment == {"vboost": "true"}
    config.write_text(CONFIG.replace("eos", "dgx"))
    assert told(config).environment == {}


def test_a_job_that_llmb_run_has_not_launched(tmp_path: Path) -> None:
    assert task_of_log(tmp_path / "run.log", "7") is None
    (tmp_path / "llmb-config_7.yaml").mkdir()
    assert task_of_log(tmp_path / "run.log", "7") is None


@pytest.mark.parametrize(
    ("images", "image"),
    [
        ("  - nvcr.io#nvidia/nemo:26.04.00\n", "nvcr.io#nvidia/nemo:26.04.00"),
        ("  - 'nvcr.io#nvidia/nemo:26.04.00'\n", "nvcr.io#nvidia/nemo:26.04.00"),
        ("  - nvcr.io#nvidia/nemo:26.04.00\n  - nvcr.io#nvidia/nemo:26.02.00\n", None),
        ("", None),
        (
            "  - nvcr.io#nvidia/nemo:26.04.00\njob_config:\n  mbridge_args:\n  - --fast\n",
            "nvcr.io#nvidia/nemo:26.04.00",
        ),
    ],
)
def test_the_one_image_of_a_task(config: Path, images: str, image: str | None) -> None:
    config.write_text(f"{CONFIG}container_info:\n  images:\n{images}")
    assert told(config).identity.image == image


MX_TASK = CONFIG.replace("llama2", "qwen3").replace("size: 70b", "size: 235b").replace("h100", "gb200")


def mx_row(dtype: str = "mxfp8", **attributes: str) -> Baseline:
    row = replace(
        LLAMA2_FP8_X128,
        workload=replace(LLAMA2_FP8_X128.workload, model="qwen3", size="235b", dtype=dtype),
        accelerator="GB200",
    )
    return replace(row, attributes=attributes)


@pytest.mark.parametrize(
    ("recipe", "own", "other"), [("mxfp8", "FP8-MX", "FP8-CS"), ("tensorwise", "FP8-CS", "FP8-MX")]
)
@pytest.mark.parametrize("accelerator", ["gb200", "h100"])
def test_what_ran_says_more_of_fp8_than_the_launch_script(
    config: Path, accelerator: str, recipe: str, own: str, other: str
) -> None:
    config.write_text(MX_TASK.replace("gb200", accelerator))
    (config.parent / "configs").mkdir()
    bridge = config.parent / "configs/ConfigContainer.yaml"
    bridge.write_text(f"mixed_precision:\n  fp8: hybrid\n  fp8_recipe: {recipe}\n")
    for precision, is_row in ((own, True), (other, False)):
        row = replace(mx_row("fp8", precision=precision), accelerator=accelerator.upper())
        assert told(config).is_of(row) is is_row
    assert told(config).is_of(replace(mx_row(), accelerator=accelerator.upper())) is (recipe == "mxfp8")


def test_a_log_says_more_of_fp8_than_the_launch_script(config: Path) -> None:
    config.write_text(MX_TASK)
    assert [told(config).is_of(mx_row(dtype)) for dtype in ("mxfp8", "fp8", "bf16")] == [True, True, False]
    assert told(config).differing(mx_row(), "mxfp8") == told(config).differing(mx_row(), "fp8") == ()
    assert [one.text for one in told(config).differing(mx_row(), "fp8_blockwise")] == [
        wording("differs", ran="fp8", wanted="mxfp8")
    ]


def test_a_job_of_mxfp8_is_measured_and_one_that_its_log_says_was_none_is_not(log: Path, config: Path) -> None:
    config.write_text(MX_TASK)
    log.write_text(step_lines(range(50)))
    assert measured(log, mx_row()).judged == 4.56
    log.write_text(f"Config param quantization: fp8_gpu\n{step_lines(range(50))}")
    with pytest.raises(LogError, match=wording("differs", ran="precision fp8_gpu", wanted="mxfp8")):
        measured(log, mx_row())


# ---- The configuration that Megatron-Bridge writes beside a job's log is held against the row ----

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
    found = configuration_of_log(directory / "log.out")
    assert found is not None
    return found.identity


def test_what_is_read_of_it(tmp_path: Path) -> None:
    said = said_by(tmp_path)
    assert (said.sequence_length, said.global_batch_size, said.micro_batch_size) == (4096, 256, None)
    assert (said.degrees, said.quantization) == ({"tp": 4, "cp": 1}, "fp8_tensorwise")


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
    assert configuration_of_log(tmp_path / "log.out") is None


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "model:\n  seq_length: many\n", "\x00\n" * 9])
def test_one_that_says_nothing(tmp_path: Path, text: str) -> None:
    said = said_by(tmp_path, text)
    assert (said.sequence_length, said.quantization) == (None, None)


def test_a_run_of_another_length_is_not_the_rows(log: Path) -> None:
    path = written(log.parent, CONFIGURATION.replace("4096", "8192").replace("  global_batch_size: 256\n", ""))
    error = raised(LogError, measured, log)
    assert error.fact.startswith(wording("other set-up", differs=""))
    assert ("sequence length", wording("differs", ran=8192, wanted=4096)) in error.evidence
    assert ("said in", str(path)) in error.evidence


@pytest.mark.parametrize("name", ["llmb-config_481221.yaml", "configs/ConfigContainer.yaml"])
@pytest.mark.parametrize(
    "kind", ["directory", "link", "loop", "pipe", "device", "binary", "empty", "broken", "large", "cut"]
)
def test_evidence_that_is_there_and_cannot_be_read_is_named(log: Path, name: str, kind: str) -> None:
    path = log.parent / name
    path.parent.mkdir(exist_ok=True)
    texts = {
        "binary": bytes(range(256)) * 99,
        "empty": b"",
        "broken": b"job_info: {{{\nmodel: [\n",
        "large": (CONFIG + CONFIGURATION).encode() + b"#" * (5 << 20),
        "cut": b"job_info:\nmodel:\n  seq_length: 4096\n",
    }
    match kind:
        case "directory":
            path.mkdir()
        case "link" | "loop" | "device":
            path.symlink_to({"link": "nowhere", "loop": path.name, "device": "/dev/zero"}[kind])
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(texts[kind])
    if kind == "cut" and name.startswith("llmb"):
        path.write_bytes(b"job_info:\n")
    error = raised(LogError, evidence_of_log, log, "481221")
    assert (path.name in error.fact, error.evidence) == (True, (("file", str(path)),))


def test_evidence_that_is_not_there_is_none(log: Path) -> None:
    assert evidence_of_log(log, "481221") == []
    (log.parent / "configs").touch()
    assert evidence_of_log(log, "481221") == []


def test_metadata_are_searched_to_a_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "deepseek_v3" / "pretrain" / "torchtitan" / "metadata.yaml"
    deep = tmp_path.joinpath(*"abcdefgh") / "metadata.yaml"
    for path in (kept, deep, tmp_path / ".git" / "metadata.yaml"):
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    _metadata_below.cache_clear()
    assert _metadata_below(str(tmp_path)) == (kept,)
    monkeypatch.setattr("pytest_gsw.nvidia.launchers._MOST_DIRECTORIES", 3)
    _metadata_below.cache_clear()
    assert _metadata_below(str(tmp_path)) == ()
    assert _metadata_below(str(tmp_path / "gone")) == ()
