"""What recipes leave unsaid because everybody knows it; the YAML says of each that it is not from the document."""

from __future__ import annotations

from collections.abc import Mapping

#: GPUs of one node by accelerator. DGX and HGX systems and AMD's platforms have eight; a compute tray of GB200 NVL72
#: four. V100 (DGX-1 and DGX-2 differ), GH200, L40S and TPUs have no usual node.
_GPUS_PER_NODE: Mapping[str, int] = {
    **dict.fromkeys(("A100", "H20", "H100", "H200", "B200", "B300"), 8),
    **dict.fromkeys(("MI300X", "MI325X", "MI350X", "MI355X"), 8),
    **dict.fromkeys(("GB200", "GB300"), 4),
}


def gpus_per_node(accelerator: str) -> int | None:
    """GPUs of one node by an accelerator, such as ``A100`` or ``A100-80GB``; ``None`` where that varies."""
    return _GPUS_PER_NODE.get(accelerator.partition("-")[0])


#: Directories of the recipes of frameworks that have one for all models; the others have one for each model.
RECIPE_DIRECTORIES: Mapping[str, str] = {"paxml": "paxml", "maxtext": "maxtext"}
