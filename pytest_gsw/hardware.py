"""Accelerators: their names in documents, GPUs of a node, peak FLOP/s with its source, and those of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError

# Peaks are of dense matrix operations, without sparsity. The recipes' READMEs (DGX Cloud Benchmarking) count MFU of
# peaks that differ from NVIDIA's data sheets: 2,450 and 4,900 TFLOP/s of GB200 and GB300, where the data sheets of
# their NVL72 systems have 2,500 and 5,000. The READMEs' peaks are used, because the documented MFU is relative to them.

_DGXC = "the recipes' READMEs (DGX Cloud Benchmarking), 'peak theoretical throughput'"
_H200 = "NVIDIA's H200 data sheet (1,979 and 3,958 TFLOP/s with sparsity), the SXM module's; half of it is dense"
_A100 = "NVIDIA's A100 data sheet (624 TFLOP/s with sparsity); half of it is dense"
_V100 = "the GPT-2 document, citing the V100 data sheet"
_MI300 = "AMD's data sheets of MI300X and MI325X: matrix operations without sparsity"
_MI350 = (
    "AMD's CDNA 4: 256 compute units of 8,192 FP8 operations a clock (BF16 half, FP4 twice) at 2.2 and 2.4 GHz, rounded"
)
_TPU = "Google Cloud's data sheet of the TPU, 'peak compute per chip'"


@dataclass(frozen=True)
class Accelerator:
    """One kind of GPU, or one TPU chip."""

    #: Name in tables. One that is sold with two sizes of memory, at different speeds, has the size behind its name.
    name: str
    #: Peak TFLOP/s by dtype.
    tflops: Mapping[str, float] = field(default_factory=dict)
    #: Source of the peaks.
    source: str = ""
    #: GPUs of one node: DGX and HGX systems and AMD's platforms have eight, a compute tray of an NVL72 and a TPU's host
    #: four. V100 (DGX-1 and DGX-2 differ), GH200, L40S, TPU v5e and v6e have no usual node.
    gpus_per_node: int | None = None
    #: Name in nvidia-smi, if it is not the name here.
    device: str = ""


def _blackwell(bf16: float, fp8: float, nvfp4: float) -> Mapping[str, float]:
    return {"bf16": bf16, "fp8": fp8, "mxfp8": fp8, "nvfp4": nvfp4}


#: NVIDIA's, AMD's and Google's.
ACCELERATORS: tuple[Accelerator, ...] = (
    Accelerator("H100", {"bf16": 989, "fp8": 1979}, _DGXC, 8, device="NVIDIA H100 80GB HBM3"),
    Accelerator("H200", {"bf16": 989, "fp8": 1979}, _H200, 8, device="NVIDIA H200"),
    Accelerator("GB200", _blackwell(2450, 4900, 9800), _DGXC, 4, device="NVIDIA GB200"),
    Accelerator("B200", _blackwell(2250, 4500, 9000), _DGXC, 8, device="NVIDIA B200"),
    Accelerator("GB300", _blackwell(2450, 4900, 14700), _DGXC, 4, device="NVIDIA GB300"),
    Accelerator("B300", _blackwell(2250, 4500, 13500), _DGXC, 8, device="NVIDIA B300"),
    Accelerator("GH200"),
    Accelerator("H20", gpus_per_node=8),
    *(Accelerator(f"A100{memory}", {"bf16": 312, "fp16": 312}, _A100, 8) for memory in ("", "-40GB", "-80GB")),
    Accelerator("A40"),
    Accelerator("L40S"),
    Accelerator("V100"),
    Accelerator("V100-32GB", {"fp16": 125}, _V100, device="Tesla V100-SXM2-32GB"),
    Accelerator("V100-16GB", {"fp16": 120}, _V100, device="Tesla V100-SXM2-16GB"),
    Accelerator("P100"),
    Accelerator("MI355X", {"bf16": 2500, "fp8": 5000, "mxfp8": 5000, "mxfp4": 10100}, _MI350, 8),
    Accelerator("MI350X", {"bf16": 2300, "fp8": 4600, "mxfp8": 4600, "mxfp4": 9200}, _MI350, 8),
    Accelerator("MI325X", {"bf16": 1307.4, "fp8": 2614.9}, _MI300, 8),
    Accelerator("MI300X", {"bf16": 1307.4, "fp8": 2614.9}, _MI300, 8),
    Accelerator("MI250X"),
    Accelerator("TPU7x", {"bf16": 2307, "fp8": 4614}, _TPU, 4),
    Accelerator("TPU-v6e", {"bf16": 918, "fp8": 918}, _TPU, None),
    Accelerator("TPU-v5p", {"bf16": 459, "fp8": 459}, _TPU, 4),
    Accelerator("TPU-v5e", {"bf16": 197}, _TPU, None),
    Accelerator("TPU-v4", {"bf16": 275}, _TPU, 4),
    Accelerator("TPU-v3"),
    Accelerator("TPU-v2"),
)

BY_NAME: Mapping[str, Accelerator] = {one.name: one for one in ACCELERATORS}
#: Behind a name the form of the board and the size of memory, as in ``A100-SXM4-80GB``.
_DETAILS = re.compile(r"(?:[- ]?(sxm|pcie|nvl)\d?|[- ](\d+gb))(?![a-z0-9])", re.IGNORECASE)


def is_same(one: str, other: str) -> bool:
    """True if two names are of one accelerator: a name without its form or its memory covers all of them."""
    (name, *details), (other_name, *others) = _name_and_details(one.lower()), _name_and_details(other.lower())
    return name == other_name and all(not a or not b or a == b for a, b in zip(details, others, strict=False))


@lru_cache(256)
def _name_and_details(name: str) -> tuple[str, ...]:
    """A name without its details, and if there are some, its form and its memory, one of which may be empty."""
    return (_DETAILS.sub("", name), *map("".join, zip(*_DETAILS.findall(name), strict=True)))


#: A GPU's model and its details in the name that its driver has for it: ``NVIDIA A100-SXM4-80GB``.
_DEVICE = re.compile(r"(?<![A-Za-z0-9])([A-Z]{1,3}[0-9]{1,4}[A-Z]{0,2}?)(?=SXM|PCI|NVL|[^A-Za-z0-9]|$)(.*)")


def accelerator_of(device: str) -> str | None:
    """The accelerator of a device's name, as :func:`is_same` takes it: ``A100-SXM-80GB``; ``None`` for other names."""
    # The memory in H100 80GB HBM3 is that of an SXM board.
    if (found := _DEVICE.search(device.replace("HBM3", "SXM"))) is None:
        return None
    name, rest = found.groups()
    # A slice of a GPU is another one. The memory in the name of a GH200 is its CPU's.
    details = [] if name.startswith("GH") else [form or memory for form, memory in _DETAILS.findall(rest)]
    return "-".join((name, *(["MIG"] if "MIG" in rest else []), *details))


def gpus_per_node(name: str) -> int | None:
    """GPUs of one node by an accelerator, such as ``A100`` or ``H100-80GB``; ``None`` if that varies."""
    known = BY_NAME.get(name) or BY_NAME.get(_DETAILS.sub("", name))
    return None if known is None else known.gpus_per_node


# -- The accelerators of this machine: its GPUs, or its cores

#: Accelerator of a machine without GPUs: its cores then count as GPUs.
CPU = "CPU"

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Accelerators:
    """The hardware of a machine for training."""

    #: Name in tables: ``H200``, or :data:`CPU`.
    name: str
    #: GPUs, or cores.
    number: int


def find_accelerators(environ: Mapping[str, str]) -> Accelerators:
    """The GPUs that this process may use, or its cores if it may use none.

    ``CUDA_VISIBLE_DEVICES`` has the same effect as for CUDA, and HIP reads it, too: if it names none, there is none.

    Raises:
        ConfigurationError: nvidia-smi or amd-smi fails: a machine with a broken driver is not one without GPUs.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is not None and visible.strip() in {"", "-1"} else _gpus(environ)
    if not names:
        return Accelerators(CPU, len(os.sched_getaffinity(0)))
    chosen = ["0"] * len(names) if visible is None else visible.split(",")
    first = int(chosen[0]) if chosen[0].isdecimal() else 0
    device = names[first] if first < len(names) else names[0]
    name = _table_name(device)
    # A slice of a GPU must not be compared with the figures of a whole one.
    return Accelerators(f"{name}-MIG" if chosen[0].startswith("MIG-") else name, min(len(names), len(chosen)))


#: How the GPUs of each maker are listed, and their names in the answer.
_LISTS_GPUS = (
    (("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"), re.compile(r"^[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)),
    (("amd-smi", "static", "--asic", "--json"), re.compile(r'"market_name": *"([^"]*)"')),
)


def _gpus(environ: Mapping[str, str]) -> list[str]:
    """The names of all GPUs of the machine; none if neither nvidia-smi nor amd-smi is installed."""
    for (program, *options), names in _LISTS_GPUS:
        path = shutil.which(program, path=environ.get("PATH"))
        if path is None:
            continue
        try:
            answer = subprocess.run(
                [path, *options], env=environ, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _driver_error(program, str(error), environ) from error
        if answer.stdout.strip() == "No devices were found":
            continue
        if answer.returncode:
            raise _driver_error(program, (answer.stdout + answer.stderr).strip(), environ)
        if found := names.findall(answer.stdout):
            return found
    return []


def _driver_error(program: str, output: str, environ: Mapping[str, str]) -> ConfigurationError:
    return ConfigurationError(
        f"{program} fails: the GPUs of this machine are unknown\n{redact(output, environ)}\n"
        f"next: {program}; or, to train on the cores, export CUDA_VISIBLE_DEVICES="
    )


def _table_name(device: str) -> str:
    """A GPU's name in tables, from its driver's; GPUs that tables lack keep their own."""
    names = {one.device: one.name for one in ACCELERATORS if one.device}
    model = re.sub(r"^NVIDIA |^AMD Instinct | OAM$", "", device)
    return names.get(device) or re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-") or "GPU"
