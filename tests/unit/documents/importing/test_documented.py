"""What the audit reads of a document: also what import puts right or leaves out."""

from __future__ import annotations

from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import Read

HEAD = """\
# Tiny 7B with MaxText

Judged by the last training step. A total of 50 steps. `N_GPUS_PER_NODE` is 8.

The model flops for Tiny 7b for GBS=1 is 1.9E+14. Sequence length is 4096.
"""
SWAPPED = f"""{HEAD}
| Tiny 7b BF16 | 64x H100 GPUs | 128x H100 GPUs |
|---|---|---|
| TP | 1 | 1 |
| PP | 1 | 1 |
| DP | 64 | 128 |
| MBS | 2 | 2 |
| GA | 1 | 1 |
| GBS | 182 | 256 |
| Training step time (seconds per step) | 2.048 | 2.050 |
| Throughput in tokens per second | 256000 | 511500.49 |
| Model flops utilization | 18.76% | 18.74% |
"""
ONE_MFU = f"""{HEAD}
| Tiny 7b BF16 (MBS=2) | 64x H100 GPUs (GBS=128) | 128x H100 GPUs (GBS=256) | 256x H100 GPUs (GBS=512) |
|---|---|---|---|
| Training step time (seconds per step) | 2.048 | 2.050 | 2.060 |
| Model flops utilization | 18.76% | 18.74% | 6.22% |
"""
LAYERS = """\
| Layers | 8 | 32 | 32 |
"""


def contradictions(one: Imported) -> list[tuple[str | None, str, str, str]]:
    found = audit([Source("tiny.md", one.documented)]).findings
    return [(each.row, each.identity, each.documented, each.computed) for each in found]


def test_a_batch_that_import_puts_right_is_audited_as_it_is_documented(read: Read) -> None:
    one = read(SWAPPED)
    assert [row.values["global_batch_size"].text for row in one.rows] == ["128", "256"]
    assert [row.values["global_batch_size"].text for row in one.documented] == ["182", "256"]
    assert ("tiny_7b_bf16[H100x64]", "global_batch_size", "182", "128") in contradictions(one)


def test_flops_that_other_rows_of_the_model_confirm(read: Read) -> None:
    one = read(ONE_MFU)
    assert [each[:2] for each in contradictions(one)] == [("tiny_7b_bf16[H100x256]", "mfu")]


def test_flops_of_a_smaller_model_are_no_contradiction(read: Read) -> None:
    smaller = ONE_MFU.replace("18.76%", "5.1%").replace("6.22%", "18.65%")
    one = read(smaller.replace("|---|---|---|---|\n", "|---|---|---|---|\n" + LAYERS))
    assert "model_flops" not in one.documented[0].values
    assert contradictions(one) == []
