"""The published architectures of the documented models, as far as model FLOPs depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Numbers of a model's architecture by their keys in ``architecture``, and who says so."""

    numbers: Mapping[str, int]
    source: str


def _published(source: str, **numbers: int) -> Published:
    return Published(numbers, source)


#: By model and size. Vocabularies that recipes pad to a multiple are left out.
PUBLISHED: Mapping[tuple[str, str], Published] = {
    ("gpt3", "175b"): _published("arXiv 2005.14165, table 2.1", layers=96, hidden_size=12288),
    ("llama2", "70b"): _published(
        "config.json of meta-llama/Llama-2-70b-hf",
        layers=80,
        hidden_size=8192,
        ffn_size=28672,
        attention_heads=64,
        query_groups=8,
        vocabulary_size=32000,
    ),
    ("llama3.1", "405b"): _published(
        "arXiv 2407.21783, table 3; config.json of meta-llama/Llama-3.1-405B",
        layers=126,
        hidden_size=16384,
        ffn_size=53248,
        attention_heads=128,
        query_groups=8,
        vocabulary_size=128256,
    ),
    ("grok1", "314b"): _published(
        "run.py of xai-org/grok-1",
        layers=64,
        hidden_size=6144,
        ffn_size=32768,
        attention_heads=48,
        query_groups=8,
        experts_top_k=2,
        vocabulary_size=131072,
    ),
}


def published(model: str, size: str) -> Published | None:
    """What is published of a model, ``None`` where nothing is known here."""
    return PUBLISHED.get((model.lower(), size.lower()))
