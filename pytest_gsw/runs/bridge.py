"""What Megatron-Bridge writes beside a job's log: the configuration that ran, ``configs/ConfigContainer.yaml``.

NeMo-Run mounts the experiment's directory into the container, and Megatron-Bridge's launch scripts have it written
there. It is YAML of a known shape; a few keys of its first two levels are read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.files import text_of
from pytest_gsw.logs.model import Identity

_MOST_BYTES = 4 << 20
_SECTION = re.compile(r"([a-z_]{1,40}):")
_FACT = re.compile(r"  ([a-z0-9_]{1,60}): '?([A-Za-z0-9_.-]{1,60})'?")
#: By section and key, the field of an identity.
_NUMBERS = {
    ("model", "seq_length"): "sequence_length",
    ("model", "tensor_model_parallel_size"): "tp",
    ("model", "pipeline_model_parallel_size"): "pp",
    ("model", "context_parallel_size"): "cp",
    ("model", "expert_model_parallel_size"): "ep",
    ("train", "global_batch_size"): "global_batch_size",
    ("train", "micro_batch_size"): "micro_batch_size",
}
_PRECISION = "mixed_precision"


class Configuration(NamedTuple):
    """How a run was set up, by its own configuration."""

    path: Path
    identity: Identity


def configuration_beside(log: Path) -> Configuration | None:
    """The configuration of a log's run; ``None`` where there is none."""
    place = f"{log.parent}/configs/ConfigContainer.yaml"
    text = text_of(place, _MOST_BYTES)
    if text is None:
        return None
    facts = _facts_in(text)
    numbers: dict[str, Any] = {
        field: int(facts[key]) for key, field in _NUMBERS.items() if re.fullmatch(r"[0-9]{1,12}", facts.get(key, ""))
    }
    return Configuration(Path(place), Identity(quantization=_quantization(facts), **numbers))


def _facts_in(text: str) -> dict[tuple[str, str], str]:
    section, facts = "", {}
    for line in text.splitlines():
        head, fact = _SECTION.fullmatch(line.rstrip()), _FACT.fullmatch(line.rstrip())
        if head is not None:
            section = head[1]
        elif fact is not None:
            facts[section, fact[1]] = fact[2]
        elif line[:1].strip():
            section = ""
    return facts


def _quantization(facts: dict[tuple[str, str], str]) -> str | None:
    """What is computed in fewer bits, by name: ``mxfp8``, ``nvfp4``, ``fp8_tensorwise``."""
    said = {key: value for (section, key), value in facts.items() if section == _PRECISION}
    if "fp8" not in said:
        return None
    if said.get("fp4", "null") != "null":
        return said.get("fp4_recipe", "nvfp4")
    if said["fp8"] == "null":
        return "none"
    recipe = said.get("fp8_recipe", "")
    return recipe if recipe == "mxfp8" else f"fp8_{recipe}"
