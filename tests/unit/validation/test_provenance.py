"""Which container image and versions a run used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.validation.agreement import provenance_in

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
    assert provenance_in(log).versions == expected


def test_a_version_without_an_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"NCCL version 2" + b"." * 1_000 + b"\n")
    assert len(provenance_in(log).versions["nccl"]) == 41


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="log"):
        provenance_in(tmp_path / "log")


LINE = (
    "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b FW_VERSION=2024.12.09 IMAGE={} JOB_ID=481221 BASE_CONFIG=''\n"
)


@pytest.mark.parametrize(
    ("log", "image"),
    [
        (LINE.format("'/lustre/stage/nvidia+jax+maxtext-2024.12.09.sqsh'"), "nvidia+jax+maxtext-2024.12.09.sqsh"),
        (LINE.format("/stage/x.sqsh"), "x.sqsh"),
        (LINE.format("'nvcr.io/nvidia/nemo:24.09'"), "nvcr.io/nvidia/nemo:24.09"),
        ("0: " + LINE.format("'a.sqsh'") + "1: " + LINE.format("'a.sqsh'"), "a.sqsh"),
        (LINE.format("'first.sqsh'") + "step 1\n" + LINE.format("'second.sqsh'"), "second.sqsh"),
        (LINE.format("'\x1b[31mred.sqsh'"), "red.sqsh"),
        (LINE.format("'/stage/x.sqsh'") + "+ echo " + LINE.format("'$IMAGE'"), "x.sqsh"),
        ("+ echo " + LINE.format("'${IMAGE}'"), None),
        (LINE.format("''"), None),
        (LINE.replace("IMAGE={} ", ""), None),
        ("completed step: 1, seconds: 4.3\n", None),
        (LINE.format("'x.sqsh'").strip(), None),  # a line without its end is not whole
        ("", None),
    ],
)
def test_the_image_that_a_log_names(tmp_path: Path, log: str, image: str | None) -> None:
    path = tmp_path / "run.log"
    path.write_text(log)
    assert provenance_in(path).image == image
