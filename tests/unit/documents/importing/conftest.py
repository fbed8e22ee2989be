"""Documents to import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.documents.importing import DocumentFacts, Imported, import_document

DOCUMENTS = Path(__file__).parents[3] / "documents"

#: A recipe's README in small; tests replace parts of it.
README = """\
# Tiny 7B with MaxText

Judged by the last training step. A total of 50 steps.

`N_GPUS_PER_NODE` is 8 for DGX H100.

The model flops for Tiny 7b for GBS=1 is 1.9E+14. Sequence length is 4096.

| Maxtext Tiny 7b BF16 (TP=1, MBS=2) | Throughput on 64x H100 GPUs (GBS=128) | Throughput on 128 H100 GPUs (GBS=256) |
|---|:---:|---:|
| Training step time (seconds per step) | 2.048 | 2.05 |
| Throughput in tokens per second | 256000 | 511500.49 |
| Model flops utilization | 18.76% | 18.74% |
| Time to train 1T tokens in days | 45.21 | 22.63 |
"""

Read = Callable[..., Imported]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str | bytes, name: str = "tiny.md", facts: DocumentFacts | None = None) -> Imported:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return import_document(path, facts)

    return read_text
