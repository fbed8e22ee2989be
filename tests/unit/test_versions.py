from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.versions import versions_in

BANNER = "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL version 2.21.5+cuda12.4\n", {"nccl": "2.21.5+cuda12.4"}),
        ("n17:42:99 [0] NCCL INFO cudaDriverVersion 12040\n", {"cuda_driver": "12040"}),
        (BANNER, {"driver": "550.54.15", "cuda": "12.4"}),
        (
            "GSW: MODEL=tiny FRAMEWORK=maxtext NCCL_VERSION=2.23.4 DRIVER_VERSION=560.28.03 CUDA_VERSION=12.6\n",
            {"nccl": "2.23.4", "driver": "560.28.03", "cuda": "12.6"},
        ),
        ("NCCL version 2.20.3\nstep 1\nNCCL version 2.21.5\n", {"nccl": "2.21.5"}),
        ("completed step: 0, seconds: 1.0\n", {}),
        ("NCCL version unknown\nDriver Version: N/A\n", {}),
        ("", {}),
    ],
)
def test_the_versions_that_a_log_names(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert versions_in(log) == expected


def test_a_version_without_an_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"NCCL version 2" + b"." * 1_000 + b"\n")
    assert len(versions_in(log)["nccl"]) == 41


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="log"):
        versions_in(tmp_path / "log")
