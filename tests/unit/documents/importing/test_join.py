"""What stands outside of a row's table and gives it a global batch size: a local one, and the data-parallel ranks."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import Read

TABLE = """\
# torchtitan runs

{text}

| Parallelism | Sequence Length | TPS/GPU |
|---|---|---|
| {name} | 8192 | 4,000 |
"""
SETUP = "**Table 1** Llama 3.1 8B in BF16. 32 H100 GPUs. Local batch size 3."


def batch(found: Imported) -> str | None:
    (row,) = found.rows
    stated = row.values.get("global_batch_size")
    return None if stated is None else stated.text


def said(found: Imported) -> list[str]:
    return [f"{remark.line} {remark.key}: {remark.message}" for _, remark in found.remarks]


@pytest.mark.parametrize(
    ("name", "expected", "ranks"),
    [
        ("FSDP=32", "96", "fsdp 32"),
        ("FSDP 8, CP 4", "24", "fsdp 8"),
        ("FSDP 2, TP 8, PP 2", "6", "fsdp 2"),
        ("DP 4, FSDP=8", "96", "dp 4 * fsdp 8"),
        ("FSDP 1, CP 32", "3", "fsdp 1"),
    ],
)
def test_a_local_batch_size_and_ranks_that_fill_the_gpus(read: Read, name: str, expected: str, ranks: str) -> None:
    found = read(TABLE.format(text=SETUP, name=name))
    assert batch(found) == expected
    assert f"3 global_batch_size: not stated: it is {expected}, as local batch size 3 * {ranks}" in said(found)
    assert "local_batch_size" not in found.rows[0].values
    assert found.blanks == ()


@pytest.mark.parametrize("name", ["FSDP", "FSDP 2", "TP 8", "FSDP 8, TP 8", "FSDP=8"])
def test_ranks_that_do_not_follow_are_named(read: Read, name: str) -> None:
    found = read(TABLE.format(text=SETUP, name=name))
    assert batch(found) is None
    (reason,) = (reason for _, _, key, reason in found.blanks if key == "global_batch_size")
    assert reason.startswith(
        "the document has a local batch size of 3 (line 3), and does not say how many data-parallel ranks there are"
    )


def test_accumulated_steps_may_be_part_of_a_local_batch_or_not(read: Read) -> None:
    text = SETUP.replace("size 3.", "size 3, gradient accumulation steps 2.")
    assert batch(read(TABLE.format(text=text, name="FSDP=32"))) is None


def test_a_global_batch_size_that_is_stated_stays(read: Read) -> None:
    text = SETUP.replace("size 3.", "size 3, global batch size 192.")
    found = read(TABLE.format(text=text, name="FSDP=32"))
    assert (batch(found), said(found)) == ("192", [])


def test_a_column_of_local_batch_sizes(read: Read) -> None:
    table = "| GPUs | FSDP | Local batch size | Sequence length | TPS/GPU |\n|---|---|---|---|---|\n| 32 | 32 | 3 | 8192 | 4000 |\n"
    found = read(f"# torchtitan\n\nLlama 3.1 8B in BF16 on H100.\n\n{table}")
    assert batch(found) == "96"


def test_another_frameworks_local_batch_may_be_of_anything(read: Read) -> None:
    found = read(TABLE.format(text=SETUP, name="FSDP=32").replace("torchtitan", "NeMo"))
    assert batch(found) is None


OF_A_GPU = """\
# Results of GPT

`docker run ghcr.io/nvidia/jax:{image}-2024-03-04`, 5B in BF16 on H100, sequence length 2048.

| #GPUs | FSDP | TP | {column} | Sequences/sec |
|---|---|---|---|---|
| 64 | 32 | 2 | 4 | 250.5 |
"""


@pytest.mark.parametrize(
    ("image", "column", "expected"),
    [
        ("pax", "BS / GPU", "256"),
        ("pax", "Batch size per GPU", "256"),
        ("maxtext", "Per-device batch size", "256"),
        ("maxtext", "BS of a model replica", None),
        ("gpu", "BS / GPU", None),
    ],
)
def test_the_batch_of_one_gpu_where_the_framework_is_configured_by_it(
    read: Read, image: str, column: str, expected: str | None
) -> None:
    found = read(OF_A_GPU.format(image=image, column=column))
    assert batch(found) == expected
    message = "7 global_batch_size: not stated: it is 256, as 4 of each GPU * 64 GPUs"
    assert (message in said(found)) == (expected is not None)


def test_the_batch_of_one_gpu_says_nothing_beside_accumulation(read: Read) -> None:
    text = OF_A_GPU.format(image="pax", column="BS / GPU")
    assert batch(read(text.replace("| TP |", "| GA |"))) is None
