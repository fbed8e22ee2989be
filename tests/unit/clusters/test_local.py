"""What this machine has to train on, by stand-ins for nvidia-smi and amd-smi."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import DEMO, LOCAL, ready_cluster, uses_gpus
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.hardware import CPU, Accelerators, find_accelerators

CORES = len(os.sched_getaffinity(0))


def machine(tmp_path: Path, script: str | None, visible: str | None = None) -> Accelerators:
    """What is found where nvidia-smi does this, or is not there."""
    if script is not None:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/nowhere"}
    return find_accelerators(environ if visible is None else environ | {"CUDA_VISIBLE_DEVICES": visible})


#: Its JSON, cut to the keys around the name; releases from 7.0 on have a key around the list.
AMD_SMI = """\
cat <<'END'
{before}[
    {{"gpu": 0, "asic": {{"market_name": "{name}", "vendor_id": "0x1002", "num_compute_units": 304}}}},
    {{"gpu": 1, "asic": {{"market_name": "{name}", "vendor_id": "0x1002", "num_compute_units": 304}}}}
]{after}
END
"""


@pytest.mark.parametrize(("before", "after"), [("", ""), ('{"gpu_data": ', "}")])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI325X OAM", "MI325X"),
        ("AMD Radeon RX 7900 XTX", "AMD-Radeon-RX-7900-XTX"),
        ("N/A", "N-A"),
    ],
)
@pytest.mark.parametrize("nvidia", [None, "echo 'No devices were found'; exit 6"])
def test_gpus_that_amd_smi_lists(
    tmp_path: Path, name: str, wanted: str, before: str, after: str, nvidia: str | None
) -> None:
    (tmp_path / "amd-smi").write_text(f"#!/bin/sh\n{AMD_SMI.format(name=name, before=before, after=after)}")
    (tmp_path / "amd-smi").chmod(0o755)
    (tmp_path / "cat").symlink_to("/bin/cat")
    assert machine(tmp_path, nvidia) == Accelerators(wanted, 2)
    assert machine(tmp_path, None, "1") == Accelerators(wanted, 1)
    assert machine(tmp_path, "echo 'NVIDIA H200'") == Accelerators("H200", 1)


def test_a_broken_amd_smi_is_no_machine_without_gpus(tmp_path: Path) -> None:
    (tmp_path / "amd-smi").write_text(
        "#!/bin/sh\necho 'Unable to detect any GPU devices, check amdgpu version'; exit 1\n"
    )
    (tmp_path / "amd-smi").chmod(0o755)
    with pytest.raises(
        ConfigurationError, match=r"^amd-smi fails: the GPUs of this machine are unknown\nUnable to detect"
    ):
        machine(tmp_path, None)
    assert machine(tmp_path, None, "") == Accelerators(CPU, CORES)


def names(*gpus: str) -> str:
    return "\n".join(f"echo '{gpu}'" for gpu in gpus)


@pytest.mark.parametrize("script", [None, names(), "echo 'No devices were found'; exit 6"])
def test_a_machine_without_gpus_has_its_cores(tmp_path: Path, script: str | None) -> None:
    assert machine(tmp_path, script) == Accelerators(CPU, CORES)


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        # Of the same chip, and slower: not to be held against the other's figures.
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("NVIDIA", "NVIDIA"),
        ("[N/A]", "N-A"),
        ("???", "GPU"),
    ],
)
def test_names_are_those_of_the_tables_where_tables_have_them(tmp_path: Path, gpu: str, name: str) -> None:
    assert machine(tmp_path, names(gpu, gpu)) == Accelerators(name, 2)


@pytest.mark.parametrize(("visible", "number"), [("3", 1), ("0,1,2", 3), ("0,1,2,3,4", 4)])
def test_only_what_is_visible_counts(tmp_path: Path, visible: str, number: int) -> None:
    assert machine(tmp_path, names(*["NVIDIA H200"] * 4), visible) == Accelerators("H200", number)


@pytest.mark.parametrize("visible", ["", " ", "-1"])
def test_where_no_gpu_is_visible_the_cores_count(tmp_path: Path, visible: str) -> None:
    assert machine(tmp_path, "exit 9", visible) == Accelerators(CPU, CORES)


def test_a_driver_that_is_broken_is_no_machine_without_gpus(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        machine(tmp_path, "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9")
    assert str(caught.value) == (
        "nvidia-smi fails: the GPUs of this machine are unknown\n"
        "NVIDIA-SMI has failed because it could not communicate with the driver.\n"
        "next: nvidia-smi; or, to train on the cores, export CUDA_VISIBLE_DEVICES="
    )


def test_what_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_bytes(b"\x7fELF, of another machine")
    (tmp_path / "nvidia-smi").chmod(0o755)
    with pytest.raises(ConfigurationError, match="Exec format error"):
        machine(tmp_path, None)


@pytest.mark.parametrize(
    ("visible", "name"), [("1", "H200"), ("0", "H100"), ("7", "H100"), ("GPU-8a2e", "H100"), ("MIG-41b7", "H100-MIG")]
)
def test_the_first_visible_gpu_names_the_machine(tmp_path: Path, visible: str, name: str) -> None:
    gpus = names("NVIDIA H100 80GB HBM3", "NVIDIA H200")
    assert machine(tmp_path, gpus, visible) == Accelerators(name, 1)


@pytest.mark.parametrize(
    ("given", "python"), [({}, sys.executable), ({"RUN_CONF_PYTHON": "/venv/python"}, "/venv/python")]
)
def test_the_cluster_of_this_machine(given: dict[str, str], python: str) -> None:
    cluster = ready_cluster(LOCAL, Path("/run"), {"CUDA_VISIBLE_DEVICES": "", **given}, {})
    assert (cluster.accelerator, cluster.gpus, cluster.gpus_per_node) == (CPU, CORES, CORES)
    assert (cluster.stage, cluster.environment) == ("/run/stage", {"RUN_CONF_PYTHON": python})
    assert not uses_gpus(cluster)
    assert uses_gpus(replace(cluster, accelerator="H200"))
    assert not uses_gpus(DEMO)
