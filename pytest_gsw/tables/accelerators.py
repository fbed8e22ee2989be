"""Accelerators: how documents write their names, GPUs of a node, and peak FLOP/s with its source.

Peaks are of dense matrix operations, without sparsity. The recipes' READMEs (DGX Cloud Benchmarking) count MFU of
peaks that differ from NVIDIA's data sheets: 2,450 and 4,900 TFLOP/s of GB200 and GB300, where the data sheets of their
NVL72 systems have 2,500 and 5,000. The READMEs' stand here, because the documented MFU is of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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

    #: As tables name it. One that is sold with two sizes of memory, at different speeds, has it behind its name.
    name: str
    #: Peak TFLOP/s by dtype.
    tflops: Mapping[str, float] = field(default_factory=dict)
    #: Who says so.
    source: str = ""
    #: GPUs of one node: DGX and HGX systems and AMD's platforms have eight, a compute tray of an NVL72 and a TPU's host
    #: four. V100 (DGX-1 and DGX-2 differ), GH200, L40S, TPU v5e and v6e have no usual node.
    gpus_per_node: int | None = None
    #: What nvidia-smi calls it.
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
#: The size of memory behind a name, as in ``A100-80GB``.
_MEMORY = re.compile(r"-\d+GB$", re.IGNORECASE)


def is_same(one: str, other: str) -> bool:
    """True if two names are of one accelerator: a name without its memory stands for all of that name."""
    one, other = one.lower(), other.lower()
    return one == other or _MEMORY.sub("", one) == other or one == _MEMORY.sub("", other)


def gpus_per_node(name: str) -> int | None:
    """GPUs of one node by an accelerator, such as ``A100`` or ``H100-80GB``; ``None`` where that varies."""
    known = BY_NAME.get(name) or BY_NAME.get(name.rpartition("-")[0])
    return None if known is None else known.gpus_per_node
