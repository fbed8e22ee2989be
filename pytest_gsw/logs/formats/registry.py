"""The log formats by name, and which of them a log is taken for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_gsw.logs.formats import deepspeed, huggingface, maxtext, megatron, nemo, paxml, torchtitan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gsw.logs.model import LogFormat

#: In the order of precedence where a log fits several: a framework before the engine that it runs on.
#: Megatron's lines come before those of DeepSpeed's pipeline engine, which tell the same steps; Hugging
#: Face's summary of the run before DeepSpeed's rates.
FORMATS: Mapping[str, LogFormat] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (maxtext, paxml, nemo, megatron, torchtitan, huggingface, deepspeed)
    }
)

#: Formats that look like a known one and are not, by what tells them.
REFUSED: Mapping[str, bytes] = MappingProxyType({"nanotron": b"elapsed_time_per_iteration_ms: "})
