"""What llmb-run says of a job is held against the row."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.runs.llmb import boost_of, task_of
from tests.unit.runs.ended import IDENTITY, measured, step_lines

CONFIG = """\
job_info:
  job_id: '481221'
  launcher_type: nemo
workload_info:
  gsw_version: 24.11.1
model_info:
  model_size: 70b
  dtype: fp8
  scale: 128
  gpu_type: h100
cluster_info:
  cluster_name: eos
"""


@pytest.fixture
def config(log: Path) -> Path:
    log.write_text(IDENTITY + step_lines(range(50)))
    path = log.parent / "llmb-config_481221.yaml"
    path.write_text(CONFIG)
    return path


def test_the_rows_own_task(log: Path, config: Path) -> None:
    assert measured(log).judged_s == 4.56


@pytest.mark.parametrize(
    ("own", "other", "name"),
    [
        ("scale: 128", "scale: 256", "GPUs"),
        ("model_size: 70b", "model_size: 8b", "model size"),
        ("dtype: fp8", "dtype: bf16", "dtype"),
        ("job_id: '481221'", "job_id: '7'", "job"),
    ],
)
def test_another_task(log: Path, config: Path, own: str, other: str, name: str) -> None:
    config.write_text(CONFIG.replace(own, other))
    with pytest.raises(LogError) as caught:
        measured(log)
    assert caught.value.fact == f"the log belongs to another run, by its {name}"
    assert ("said in", str(config)) in caught.value.evidence


def test_a_job_that_llmb_run_has_not_launched(tmp_path: Path) -> None:
    assert task_of(tmp_path / "llmb-config_7.yaml") is None
    assert boost_of(tmp_path / "llmb-config_7.yaml") == {}


def test_the_boost_of_one_cluster(config: Path) -> None:
    assert boost_of(config) == {"vboost": "true"}
    config.write_text(CONFIG.replace("eos", "dgx"))
    assert boost_of(config) == {}


@pytest.mark.parametrize(
    ("images", "image"),
    [
        ("  - nvcr.io#nvidia/nemo:26.04.00\n", "nvcr.io#nvidia/nemo:26.04.00"),
        ("  - 'nvcr.io#nvidia/nemo:26.04.00'\n", "nvcr.io#nvidia/nemo:26.04.00"),
        ("  - nvcr.io#nvidia/nemo:26.04.00\n  - nvcr.io#nvidia/nemo:26.02.00\n", None),
        ("", None),
    ],
)
def test_the_one_image_of_a_task(config: Path, images: str, image: str | None) -> None:
    config.write_text(f"{CONFIG}container_info:\n  images:\n{images}")
    task = task_of(config)
    assert task is not None
    assert task.image == image
