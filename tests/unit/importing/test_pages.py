"""Pages by the shapes of public ones, typed by hand: all their figures are read, or named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.importing.document import Imported, import_document
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.importing.tables import FIGURES
from pytest_gsw.tables.bundled import benchmarks, bundled_baselines
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.stated_rows import StatedRow, stated_rows
from tests.messages import wording
from tests.unit.importing.conftest import Read, said, values

OF_MODEL = (
    "    model: llama3\n    framework: maxtext\n    sequence_length: 4096\n    recipe: {directory: llama3, steps: 50}\n"
)


def labels(*lines: str) -> str:
    return "".join(f"    {line}\n" for line in ("recipes:", *(f"  {line}" for line in lines))).replace(
        "    recipes", "  recipes"
    )


def figures(found: Imported) -> list[tuple[str, dict[str, str]]]:
    """Each row's name without model and dtype, and its figures."""
    return [
        (row.id.partition("[")[2].rstrip("]"), {k: v for k, v in values(found, number).items() if k in FIGURES})
        for number, row in enumerate(found.rows)
    ]


def test_slices_of_chips(read: Read) -> None:
    """The text of a cell has the count and, by its label, the chips of a slice."""
    page = (
        "### 32B model\n| Hardware | TFLOP/sec/chip | MFU |\n|---|---|---|\n"
        "| 1x v5p-128 | 300 | 65.3% |\n| 2x v5p-128 | 290 | 63.1% |\n| 1x v5p-512 | 280 | 61.0% |\n"
    )
    ours = labels(
        '"Hardware | {gpus * 64}x v5p-128": {accelerator: v5p}',
        '"Hardware | {gpus * 256}x v5p-512": {accelerator: v5p}',
        '"# {size} model": {}',
        "TFLOP/sec/chip: {key: tflops_per_gpu}",
    )
    found = read(page, OF_MODEL + "    dtype: bf16\n", ours)
    assert (said(found), found.left_out) == ([], ())
    assert [values(found, number)["size"] for number in range(3)] == ["32b"] * 3
    assert figures(found) == [
        ("v5px64", {"tflops_per_gpu": "300", "mfu": "65.3%"}),
        ("v5px128", {"tflops_per_gpu": "290", "mfu": "63.1%"}),
        ("v5px256", {"tflops_per_gpu": "280", "mfu": "61.0%"}),
    ]


def test_a_line_is_a_row_for_each_set_of_settings(read: Read) -> None:
    page = (
        "| GPUs | Batch size / GPU (TF32) | Batch size / GPU (FP16) | Throughput - TF32* | Throughput - mixed precision* "
        "| Speedup (TF32 to FP16) | Speedup |\n|---|---|---|---|---|---|---|\n"
        "| 1 | 16 | 32 | 317 | 580 | 1.83 | 1 |\n| 8 | 16 | 32 | N/A | 4,591 | 1.83 | 7.9 |\n"
    )
    ours = labels(
        '"Batch size / GPU ({dtype})": {key: micro_batch_size}',
        '"Throughput - {dtype}*": {key: samples_per_s}',
        '"Throughput - mixed precision*": {key: samples_per_s, dtype: fp16}',
        '"Speedup{}": {}',
    )
    found = read(page, OF_MODEL + "    accelerator: A100\n", ours)
    assert said(found) == []
    assert [(row.id, values(found, number)["micro_batch_size"]) for number, row in enumerate(found.rows)] == [
        ("llama3_tf32[A100x1]", "16"),
        ("llama3_fp16[A100x1]", "32"),
        ("llama3_fp16[A100x8]", "32"),
    ]
    assert [row["samples_per_s"] for _, row in figures(found)] == ["317", "580", "4591"]


def test_columns_of_figures_with_their_accelerator_and_count(read: Read) -> None:
    page = (
        "| Model | v5e-256 (bf16) | v5p-128 (bf16) | v5e-256 (int8) |\n|---|---|---|---|\n"
        "| Gemma-2b | 51% | 52% | 61% |\n| Gemma-7b | 53% | 54% | 63% |\n"
    )
    ours = labels(
        '"v5e-{gpus} ({dtype})": {key: mfu, accelerator: v5e}',
        '"v5p-{gpus * 0.5} ({dtype})": {key: mfu, accelerator: v5p}',
        '"Model | Gemma-{size}": {model: gemma}',
    )
    found = read(page, "    framework: maxtext\n    sequence_length: 4096\n", ours)
    assert said(found) == []
    assert [(row.id, values(found, number)["mfu"]) for number, row in enumerate(found.rows)] == [
        ("gemma_2b_bf16[v5ex256]", "51%"),
        ("gemma_2b_bf16[v5px64]", "52%"),
        ("gemma_2b_int8[v5ex256]", "61%"),
        ("gemma_7b_bf16[v5ex256]", "53%"),
        ("gemma_7b_bf16[v5px64]", "54%"),
        ("gemma_7b_int8[v5ex256]", "63%"),
    ]


def test_settings_and_notes_within_cells(read: Read) -> None:
    page = (
        "#### 8B on 16 H100s\n| Parallelism | TPS/GPU | Total | |\n|---|---|---|---|\n"
        "| FSDP 8, CP 2 | 3,890 | ~62,240 tokens/s | a |\n| FSDP 4, CP 4 | 2,540* | ~40,640 tokens/s | b |\n"
    )
    ours = labels(
        '"# {size} on {gpus} H100s": {accelerator: H100}',
        '"Parallelism | FSDP {fsdp}, CP {cp}": {}',
        "TPS/GPU: {key: tokens_per_s_per_gpu}",
        '"TPS/GPU | {tokens_per_s_per_gpu}*": {}',
        '"Total | ~{tokens_per_s} tokens/s": {}',
        '"column 4": {key: attributes.run}',
    )
    found = read(page, OF_MODEL + "    dtype: bf16\n", ours)
    assert said(found) == []
    assert [(values(found, n)["fsdp"], values(found, n)["cp"]) for n in (0, 1)] == [("8", "2"), ("4", "4")]
    assert [row for _, row in figures(found)] == [
        {"tokens_per_s_per_gpu": "3890", "tokens_per_s": "62240"},
        {"tokens_per_s_per_gpu": "2540", "tokens_per_s": "40640"},
    ]


@pytest.mark.parametrize(
    ("header", "first", "second"),
    [("Vanilla | Async", "Vanilla", "Async"), ("Tokens/s | Tokens/s", "Tokens/s", "Tokens/s (2)")],
)
def test_two_columns_of_one_key_are_refused_by_name(read: Read, header: str, first: str, second: str) -> None:
    page = f"| GPUs | {header} | MFU |\n|---|---|---|---|\n| 8 | 100 | 120 | 41% |\n| 16 | 200 | 240 | 42% |\n"
    ours = labels("Vanilla: {key: tokens_per_s}", "Async: {key: tokens_per_s}")
    facts = OF_MODEL + "    dtype: bf16\n    accelerator: H100\n"
    found = read(page, facts, ours)
    assert said(found) == ["1: " + wording("same two", one=first, other=second, key="tokens_per_s")]
    assert found.remarks[0].add == f'labels: {{recipes: {{"{second}": {{key: tokens_per_s, case: NAME}}}}}}'
    assert [row for _, row in figures(found)] == [{"mfu": "41%"}, {"mfu": "42%"}]
    assert {blank[2:] for blank in found.blanks} >= {("tokens_per_s", found.remarks[0].text)}
    told = labels("Vanilla: {key: tokens_per_s}", f'"{second}": {{key: tokens_per_s, case: async}}')
    assert [row["tokens_per_s"] for _, row in figures(read(page, facts, told)) if "tokens_per_s" in row] == [
        *("100", "120", "200", "240")
    ]


def test_a_title_of_a_family_declares_no_column(read: Read) -> None:
    page = "| GPUs | Throughput FP8 | MFU |\n|---|---|---|\n| 8 | 100 | 41% |\n"
    assert said(read(page, OF_MODEL)) == ["1: " + wording("two columns", name="Throughput FP8")]


def test_a_fact_of_a_figure_goes_to_the_row_of_its_column(read: Read) -> None:
    page = "| GPUs | TF32 | FP16 | MFU |\n|---|---|---|---|\n| 8 | ~100 | ~200 | ~40% |\n"
    ours = labels("TF32: {key: samples_per_s, dtype: tf32}", "FP16: {key: samples_per_s, dtype: fp16}")
    rows = "{line: 3, gpus: 8, dtype: fp16, samples_per_s: 200}, {line: 3, gpus: 8, mfu: 40%}"
    found = read(page, f"{OF_MODEL}    accelerator: H100\n    tables: [{{line: 1, rows: [{rows}]}}]\n", ours)
    assert figures(found) == [("H100x8", {}), ("H100x8", {"samples_per_s": "200"}), ("H100x8", {"mfu": "40%"})]


# ---- Benchmarks ------------------------------------------------------------------------------------


def texts(row: StatedRow) -> dict[str, str]:
    """All values of a row as they are written."""
    return {key: stated.text for key, stated in row.values.items()}


def by_line(row: dict[str, str]) -> int:
    return int(row["line"])


OF_BANDWIDTHS = read_facts(bundled_baselines() / "nccl" / "facts.yaml").documents
SIZES = {"128 MiB": 1 << 27, "2 GiB": 1 << 31, "8 GiB": 1 << 33, "16 GiB": 1 << 34}


def boxed(row: dict[str, str]) -> tuple[str, str]:
    """Header and row of a report in a box."""
    cells = f"16 GB      {row['attributes.algbw']} GB/s  {row['value']} GB/s  65"
    return f"│    {'Size       AlgBW        BusBW        Samples':58}  │", f"│    {cells:58}  │"


def printed(row: dict[str, str]) -> tuple[str, str]:
    """The same of an output of nccl-tests, with the rank that it is of."""
    size, algbw = SIZES[row["at"]], row["attributes.algbw"]
    head = "0: #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
    return head, f"0: {size:>12}  {size // 4:>12}  float  sum  -1  51.5  {algbw}  {row['value']}  0  52  1.0  2.00  0"


@pytest.mark.parametrize("name", OF_BANDWIDTHS)
def test_a_page_of_bandwidths_in_code_gives_the_bundled_rows(tmp_path: Path, name: str) -> None:
    """Each bundled bandwidth, digit for digit, by the bundled facts, in a block of code at the lines that they name."""
    facts = OF_BANDWIDTHS[name]
    bundled = [texts(row) for table in benchmarks() for row in stated_rows(table)]
    rows = {int(row["line"]): row for row in bundled if row["document"] == name}
    tables = {line: rows[table.given["code"][0]] for line, table in facts.tables.items()}
    page = [""] * (max(facts.tables) + 60)
    for line, row in tables.items():
        is_boxed = name.startswith("cluster-readiness-engine")
        header, cells = boxed(row) if is_boxed else printed(row)
        heading = f"## {row['attributes.platform']} {row['accelerator']}" if is_boxed else "## Runs"
        page[line - 3 : line] = [heading, "```", header]
        page[by_line(row) - 1 : by_line(row) + 1] = [cells, "```"]
    document = tmp_path / "doc.md"
    document.write_text("\n".join(page))
    found = import_document(document, facts)
    assert (said(found), list(found.blanks)) == ([], [])
    made = [tmp_path / path for path in found.yaml_text]
    for path, text in zip(made, found.yaml_text.values(), strict=True):
        path.write_text(text)
    assert {path.name for path in made} <= {path.name for path in benchmarks()}
    again = [texts(row) for path in made for row in stated_rows(path)]
    assert sorted(again, key=by_line) == sorted(rows.values(), key=by_line)
    for path in made:
        (same,) = (table for table in benchmarks() if table.name == path.name)
        assert [row.recipe for row in load_table(path)] == [row.recipe for row in load_table(same)]
