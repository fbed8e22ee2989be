"""What comes of whole documents: joined, repaired, left out, left blank."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.documents.importing import Imported, Unread, import_document
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.load import load_table, read_table
from pytest_gsw.tables.model import Baseline
from tests.unit.documents.importing.conftest import README, Read


def loaded(found: Imported, folder: Path) -> dict[str, Baseline]:
    rows: dict[str, Baseline] = {}
    for name, text in found.yaml_text.items():
        path = folder / name.replace("/", "-")
        path.write_text(text)
        rows |= {row.id: row for row in load_table(path)}
    return rows


def change(*pairs: tuple[str, str]) -> str:
    text = README
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def said(found: Imported) -> list[str]:
    return [f"{remark.line} {row} {remark.key}: {remark.message}" for row, remark in found.remarks]


YAML = """\
# yaml-language-server: $schema=../baseline.schema.json
# tiny.md, table at line 9, as imported. Figures are the document's, digit for digit; 'line' is that of the judged
# figure. A comment behind a key is the line that states it.

model: tiny
size: 7b
framework: maxtext
dtype: bf16
accelerator: H100
gpus_per_node: 8  # line 5
document: tiny.md
recipe:
  directory: maxtext  # the document does not say: by convention
  steps: 50  # line 3
model_flops: 1.9e+14  # line 7

sequence_length: 4096  # line 7
tp: 1
micro_batch_size: 2
statistic: last  # line 3

tables:
  - title: "Maxtext Tiny 7b BF16 (TP=1, MBS=2)"  # table at line 9
    section: "Tiny 7B with MaxText"
    line: 11
    rows:
      - {gpus:  64, global_batch_size: 128, step_time_s: 2.048, tokens_per_s:    256000, mfu: 18.76%, days_to_train_1t_tokens: 45.21}
      - {gpus: 128, global_batch_size: 256, step_time_s:  2.05, tokens_per_s: 511500.49, mfu: 18.74%, days_to_train_1t_tokens: 22.63}
"""


def test_the_yaml_to_the_letter(read: Read, tmp_path: Path) -> None:
    found = read(README)
    assert found.yaml_text == {"maxtext/tiny_7b.yaml": YAML}
    assert (found.remarks, found.left_out, found.blanks) == ((), (), ())
    rows = loaded(found, tmp_path)
    assert list(rows) == ["tiny_7b_bf16[H100x64]", "tiny_7b_bf16[H100x128]"]
    assert rows["tiny_7b_bf16[H100x128]"].documented.step_time_s == 2.05


def test_figures_know_their_place(read: Read) -> None:
    (row, _) = read(README).rows
    assert row.file == "tiny.md"
    stated = row.values["mfu"]
    assert (stated.text, stated.line, stated.column) == ("18.76%", 13, 29)


def test_a_blank_inside_a_number_that_the_throughput_proves(read: Read, tmp_path: Path) -> None:
    found = read(change(("| 2.048 |", "| 2.0  48 |")))
    assert said(found) == [
        "11 tiny_7b_bf16[H100x64] step_time_s: the cell reads '2.0  48': it is 2.048, as 4096 * 128 / 2.048 = 256000"
    ]
    assert loaded(found, tmp_path)["tiny_7b_bf16[H100x64]"].documented.step_time_s == 2.048
    text = found.yaml_text["maxtext/tiny_7b.yaml"]
    assert "# step_time_s: the cell reads '2.0  48': it is 2.048, as 4096 * 128 / 2.048 = 256000 (line 11)" in text


@pytest.mark.parametrize("cell", ["2.1  48", "2.04?8", "about 2", "2,04", "2.048 GB"])
def test_what_nothing_proves_is_left_blank(read: Read, tmp_path: Path, cell: str) -> None:
    found = read(change(("| 2.048 |", f"| {cell} |")))
    assert said(found) == [f"11 tiny_7b_bf16[H100x64] step_time_s: left blank: the cell reads '{cell}'"]
    assert found.blanks == (
        ("maxtext/tiny_7b.yaml", "tiny_7b_bf16[H100x64]", "step_time_s", f"the cell reads '{cell}'"),
    )
    assert "tiny_7b_bf16[H100x64]" not in loaded(found, tmp_path)
    (blank,) = read_table(tmp_path / "maxtext-tiny_7b.yaml").blanks
    assert (blank.id, [(one.key, one.reason) for one in blank.blanks]) == (
        "tiny_7b_bf16[H100x64]",
        [("step_time_s", f"the cell reads '{cell}'")],
    )


def test_a_throughput_that_cannot_be_read_costs_no_row(read: Read, tmp_path: Path) -> None:
    found = read(change(("| 256000 |", "| 25a6000 |")))
    assert said(found) == ["12 tiny_7b_bf16[H100x64] tokens_per_s: left blank: the cell reads '25a6000'"]
    assert loaded(found, tmp_path)["tiny_7b_bf16[H100x64]"].documented.tokens_per_s is None


def test_a_short_row_is_not_read(read: Read) -> None:
    found = read(change(("| 18.76% | 18.74% |", "| 18.74% |")))
    reason = "left blank: the row has 2 cells and the header 3: its cells cannot be told to their columns"
    assert said(found) == [f"13 {row.id} mfu: {reason}" for row in found.rows]


def test_cells_beyond_the_header_that_are_empty_do_no_harm(read: Read, tmp_path: Path) -> None:
    found = read(change(("| 18.76% | 18.74% |", "| 18.76% | 18.74% |  | |  |")))
    assert found.remarks == ()
    assert loaded(found, tmp_path)["tiny_7b_bf16[H100x128]"].documented.mfu == 0.1874


@pytest.mark.parametrize("nothing", ["NA", "n/a", "", "-"])
def test_no_figure_is_none(read: Read, tmp_path: Path, nothing: str) -> None:
    found = read(change(("| 45.21 |", f"| {nothing} |")))
    assert found.remarks == ()
    assert loaded(found, tmp_path)["tiny_7b_bf16[H100x64]"].documented.days_to_train_1t_tokens is None


@pytest.mark.parametrize(
    ("first", "second", "read_as", "what"),
    [
        ("18.76", "18.74%", "18.76%", "has no percent sign: taken as 18.76%"),
        ("0.1876", "0.1874", "18.76%", "is a fraction, as all cells of its kind: taken as 18.76%"),
    ],
)
def test_a_share_without_its_percent_sign(read: Read, first: str, second: str, read_as: str, what: str) -> None:
    found = read(change(("| 18.76% | 18.74% |", f"| {first} | {second} |")))
    assert found.rows[0].values["mfu"].text == read_as
    assert said(found)[0] == f"13 tiny_7b_bf16[H100x64] mfu: '{first}' {what}"


def test_percentages_without_any_sign_need_no_remark(read: Read) -> None:
    found = read(change(("| 18.76% | 18.74% |", "| 18.76 | 18.74 |")))
    assert [row.values["mfu"].text for row in found.rows] == ["18.76%", "18.74%"]
    assert found.remarks == ()


def test_figures_that_no_gpu_reaches_are_left_out(read: Read) -> None:
    text = change(("Time to train 1T tokens in days", "Model TFLOP"), ("| 45.21 | 22.63 |", "| 1.855E+14 | 185.2 |"))
    found = read(text)
    assert [row.values["tflops_per_gpu"].text for row in found.rows if "tflops_per_gpu" in row.values] == ["185.2"]
    assert said(found) == [
        "11 tiny_7b_bf16[H100x64] tflops_per_gpu: left out: 1.855E+14 TFLOP/s is more than one H100 can do in bf16"
    ]


def test_a_fraction_among_percentages_is_not_guessed(read: Read) -> None:
    found = read(change(("| 18.76% | 18.74% |", "| 0.19 | 18.74% |")))
    assert "mfu" not in found.rows[0].values
    assert said(found) == ["13 tiny_7b_bf16[H100x64] mfu: left blank: the cell reads '0.19'"]


def test_milliseconds(read: Read) -> None:
    found = read(change(("(seconds per step)", "(ms)"), ("| 2.048 | 2.05 |", "| 2048.0 | 2,050 |")))
    assert [row.values["step_time_s"].text for row in found.rows] == ["2.0480", "2.050"]


def test_gpus_in_words_of_the_title_are_none(read: Read) -> None:
    found = read(change(("Maxtext Tiny 7b BF16 (TP=1, MBS=2)", "Tiny 7b BF16 H100 (TP=1)")))
    assert [row.values["gpus"].text for row in found.rows] == ["64", "128"]


def test_settings_of_a_table_win_over_those_of_its_title(read: Read, tmp_path: Path) -> None:
    text = change(
        ("(TP=1, MBS=2)", "(TP=8, PP=9, VP=7)"),
        ("|---|:---:|---:|\n", "|---|:---:|---:|\n| PP | 3 | 9 |\n| VP | n/a | 7 |\n"),
    )
    rows = loaded(read(text), tmp_path)
    first, second = (row.parallelism for row in rows.values())
    assert (first.tp, first.pp, first.vp) == (8, 3, None)
    assert (second.tp, second.pp, second.vp) == (8, 9, 7)


def test_a_degree_of_zero_is_none(read: Read, tmp_path: Path) -> None:
    text = change((" (TP=1, MBS=2)", " (VP=7)"), ("|---|:---:|---:|\n", "|---|:---:|---:|\n| VP | 0 | 7 |\n"))
    assert [row.parallelism.vp for row in loaded(read(text), tmp_path).values()] == [None, 7]


CONFIGURATIONS = """
# H100 configurations

| Size | Precision | GPUs | SeqLen | Layers | TP | PP | VP | MBS | GBS | GA |
|------|-----------|------|--------|--------|----|----|----|-----|-----|----|
| 7b   | BF16/FP8  | 64   | 8192   | 32     | 2  | 1  | NA | 1   | 128 | 4  |
| 7b   | BF16/FP8  | 128  | 8192   | 32     | 2  | 2  | 8  | 1   | 256 | 8  |
| 7b   | FP8       | 128  | 8192   | 32     | 4  | 2  | 8  | 1   | 256 | 8  |
| 70b  | BF16/FP8  | 128  | 8192   | 80     | 8  | 2  | 8  | 1   | 256 | 8  |

# GB200 configurations

| Size | Precision | GPUs | SeqLen | TP |
|------|-----------|------|--------|----|
| 7b   | BF16      | 64   | 8192   | 16 |
"""


def test_a_configuration_is_joined_by_what_fits(read: Read, tmp_path: Path) -> None:
    text = CONFIGURATIONS + change((" (TP=1, MBS=2)", ""), (" Sequence length is 4096.", ""), (" (GBS=128)", ""))
    text = text.replace("| 256000 | 511500.49 |", "| 512000 | 1023000.98 |").replace(
        "| 45.21 | 22.63 |", "| 22.61 | 11.31 |"
    )
    found = read(text)
    first, second = loaded(found, tmp_path).values()
    assert (first.sequence_length, first.layers, first.parallelism.tp, first.parallelism.vp) == (8192, 32, 2, None)
    assert (first.global_batch_size, first.gradient_accumulation_steps) == (128, 4)
    assert (second.parallelism.tp, second.parallelism.pp, second.parallelism.vp) == (2, 2, 8)
    assert found.remarks == ()


def test_two_configurations_that_fit_are_not_chosen_from(read: Read) -> None:
    text = CONFIGURATIONS.replace("| FP8       |", "| BF16      |") + change((" (TP=1, MBS=2)", ""))
    found = read(text.replace("Sequence length is 4096.", "").replace(" | NA |", " | NA |"))
    assert "tp" not in found.rows[1].values
    assert [line for line in said(found) if " tp: " in line] == [
        f"24 {found.rows[1].id} tp: not joined: 2 configurations fit, with 2 and 4"
    ]


def test_a_configuration_that_contradicts_the_title(read: Read) -> None:
    found = read(CONFIGURATIONS + change((" Sequence length is 4096.", "")))
    message = "1 here, 2 in the configuration: what stands with the figures was taken"
    assert f"24 tiny_7b_bf16[H100x64] tp: {message}" in said(found)
    assert found.rows[0].values["tp"].text == "1"


def test_weak_and_strong_scaling_are_different_rows(read: Read, tmp_path: Path) -> None:
    strong = README[README.index("| Maxtext") :]
    strong = "".join(strong.splitlines(keepends=True)[:3])  # the step times
    strong = strong.replace("BF16 (", "BF16 Strong Scaling (").replace("(GBS=128)", "(GBS=512) Strong Scaling")
    rows = loaded(read(f"{README}\n{strong}"), tmp_path)
    assert list(rows)[2:] == ["tiny_7b_bf16[H100x64-strong-scaling]", "tiny_7b_bf16[H100x128-strong-scaling]"]
    assert rows["tiny_7b_bf16[H100x64-strong-scaling]"].global_batch_size == 512


RUNS = """\
# Llama 3.1 8B on our cluster

NVIDIA H200, sequence length 8192, NeMo.

| GPUs | GBS | Precision | Step time (ms) | Tokens/s/GPU | Comment |
|---:|---:|---|---:|---:|---|
| 8 | 128 | BF16 | 1,234.5 | 106,184 | first |
|  |  |  |  |  |  |
| **16** | 256 | FP8 | 1,240 | 105,700 |
| 32 | 512 | BF16 | OOM | | |
| 64 | 1024 | 1.25 | 104,858 | x |
"""


def test_rows_as_runs(read: Read, tmp_path: Path) -> None:
    found = read(RUNS)
    rows = loaded(found, tmp_path)
    assert list(rows) == ["llama3.1_8b_bf16[H200x8]", "llama3.1_8b_fp8[H200x16]", "llama3.1_8b_bf16[H200x32]"]
    first = rows["llama3.1_8b_bf16[H200x8]"]
    assert (first.documented.step_time_s, first.documented.tokens_per_s, first.notes) == (1.2345, 849472, "first")
    assert (first.framework, first.sequence_length, first.gpus_per_node) == ("nemo", 8192, 8)
    assert rows["llama3.1_8b_bf16[H200x32]"].expected_failure == "out_of_memory"
    assert said(found) == [
        "11  row: left out: the row has 5 cells and the header 6: its cells cannot be told to their columns"
    ]


def test_a_short_run_counts_where_its_figures_agree(read: Read) -> None:
    """The second row lacks its comment; that its cells are in their columns is proven by tokens per second."""
    assert len(read(RUNS).rows) == 3
    assert len(read(RUNS.replace("105,700", "99,700")).rows) == 2


def test_nodes_instead_of_gpus(read: Read, tmp_path: Path) -> None:
    text = "# Llama3 8B, H100, BF16, NeMo\n\nSequence length 8192\n\n| Nodes | GBS | Step time (s) |\n|---|---|---|\n| 4 | 64 | 1.5 |\n"
    assert [row.gpus for row in loaded(read(text), tmp_path).values()] == [32]


def test_samples_per_second_alone_leave_the_batch_blank(read: Read) -> None:
    text = "Sequence length 2048\n\n| LLAMA2 70b BF16 | Train samples per second on 8x H100 GPUs\n|---|---|\n| Training samples per second | 1.247\n"
    found = read(text)
    assert [(key, reason) for _, _, key, reason in found.blanks if key == "global_batch_size"] == [
        ("global_batch_size", "the document does not say, and the step time follows from it and samples_per_s")
    ]


def test_tables_that_are_no_baselines_are_listed(read: Read) -> None:
    text = """
| Data Type | GB200 | H100 |
|---|---|---|
| FP8 | 4900 | 1979 |

| Model | Checkpoint Size | Supported Scales |
|---|---|---|
| 15b | ~204 GB | 16-2048 |

| | 64x H100 GPUs |
|---|---|
| Power | 10 kW |

| Step time | MFU |
|---|---|
| 1.5 | 40% |
"""
    assert read(text).left_out == (
        Unread(2, "Data Type", "has no GPU counts"),
        Unread(6, "Model", "has no GPU counts"),
        Unread(10, "", "has GPU counts, and no row of figures such as step time or throughput"),
        Unread(14, "Step time", "has figures, and no GPU counts"),
    )


#: How a document computes model FLOPs, ``{}`` before the lines with the numbers.
NOTES = """
    attention flops = 12 * (number of layers) * (hidden size)^2 * (1 + (number of query groups)/(number of attention heads) + (sequence length)/(hidden size))
    mlp flops = 18 * (number of layers) * (FFN size) * (hidden size)
    embedding flops = 6 * (vocab size) * (hidden size)
{}
    attention flops = 12 * 32 * 4096^2 * (1 + 8/32 + 4096/4096) = 1
    mlp flops = 18 * 32 * 14336 * 4096 = 1
    embedding flops = 6 * 128256 * 4096 = 1
"""


def test_flops_of_smaller_models_follow_from_the_notes(read: Read) -> None:
    notes = NOTES.format("")
    text = change(("|---|:---:|---:|\n", "|---|:---:|---:|\n| Layers | 16 | 32 |\n"), ("| 18.76% |", "| NA |")) + notes
    small, full = read(text).rows
    assert full.values["model_flops"].text == "1.9e+14"
    expected = 4096 * (12 * 16 * 4096**2 * 2.25 + 18 * 16 * 14336 * 4096 + 6 * 128256 * 4096)
    assert int(small.values["model_flops"].text) == expected
    assert small.values["architecture.query_groups"].text == "8"


@pytest.mark.parametrize("heading", ["Tiny 7b calculation:", ""])
def test_the_notes_numbers_are_not_those_of_another_size(read: Read, tmp_path: Path, heading: str) -> None:
    larger = """
| Maxtext Tiny 70b BF16 (TP=4, MBS=1) | 64x H100 GPUs (GBS=128) |
|---|---|
| Training step time (seconds per step) | 18.5 |
| Model flops utilization | 20.1% |
"""
    found = read(README + larger + NOTES.format(heading))
    assert [one.values["size"].text for one in found.rows] == ["7b", "7b", "70b"]
    assert not any(key.startswith("architecture.") for one in found.rows for key in one.values)
    assert loaded(found, tmp_path)["tiny_70b_bf16[H100x64]"].model_layers is None


def test_the_recipe_is_named_after_the_directory_of_its_readme(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-recipe"
    folder.mkdir()
    (folder / "README.md").write_text(README)
    (text,) = import_document(folder / "README.md").yaml_text.values()
    assert "  directory: tiny-recipe  # the document does not say: by convention\n" in text


def test_gpus_that_fill_no_nodes(read: Read) -> None:
    found = read(change(("on 64x H100", "on 100x H100")))
    assert [blank[2:] for blank in found.blanks] == [("gpus_per_node", "100 GPUs do not fill whole nodes of 8")]


def test_a_document_without_tables(read: Read) -> None:
    found = read("# Nothing\n")
    assert (found.rows, found.yaml_text) == ((), {})


def test_no_such_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        import_document(tmp_path / "none.md")


def test_models_systems_and_precisions_in_columns(read: Read, tmp_path: Path) -> None:
    text = """\
# Performance summary of NeMo

| Model | System | #-GPUs | Precision | GBS | Sequence Length | TP | VP | Tokens / sec / GPU | Model TFLOP / sec / GPU |
|-------|--------|--------|-----------|-----|-----------------|----|----|--------------------|-------------------------|
| LLAMA3_70B | DGX-GB200 | 64 | FP8-CS | 128 | 8192 | 1 | n/a | 4250 | 1909 |
| LLAMA3_70B | DGX-H100 | 64 | BF16 | 128 | 8192 | 4 | 5 | 1,623 | 736 |
| LLAMA3_8B | DGX-H100 | 8 | FP8-CS | 128 | 8192 | 1 | n/a | 12,115 | 690 |
"""
    rows = loaded(read(text), tmp_path)
    assert list(rows) == ["llama3_70b_fp8[GB200x64]", "llama3_70b_bf16[H100x64]", "llama3_8b_fp8[H100x8]"]
    row = rows["llama3_70b_bf16[H100x64]"]
    assert (row.gpus_per_node, row.parallelism.tp, row.parallelism.vp) == (8, 4, 5)
    assert row.documented.step_time_s == pytest.approx(8192 * 128 / (1623 * 64))


def test_a_column_gpu_that_names_them(read: Read) -> None:
    text = """\
## H100 80GB BF16

| Model | SeqLen (T) | # GPUs | GPU | MFU | GlobalBatchSize | Throughput (S/s) | Throughput (T/s) | GlobalBatchSize (T) |
|-------|------------|--------|-----|-----|-----------------|------------------|------------------|---------------------|
| 70b | 2048 | 64 | h100_80gb | 42.57 | 2048 | 32 | 66523 | 4194304 |
"""
    (row,) = read(text).rows
    stated = {key: value.text for key, value in row.values.items()}
    assert (stated["gpus"], stated["accelerator"], stated["size"]) == ("64", "H100", "70b")
    assert stated["global_batch_size"] == "2048"
    assert stated["attributes.global_batch_size_t"] == "4194304"


def test_a_long_row_whose_settings_are_all_shared_is_yaml(read: Read, tmp_path: Path) -> None:
    """One row has nothing but figures, and two lines are too long for one."""
    text = "# Tiny 7B with NeMo\n\nBF16 on 8 H100 GPUs. Sequence length is 4096. GBS is 64. A total of 50 steps.\n\n"
    words = "a rather long column of words"
    header = "| Modules | Step time (s) | TFLOP/s/GPU | Remark | Other |\n|---|---|---|---|---|\n"
    rows = "".join(
        f"| {what} | {time_s} | 70.1 | {words * 3} | {words * 3} |\n" for what, time_s in (("[]", 2.5), ("core", 2.6))
    )
    found = read(text + header + rows)
    assert len(found.rows) == 2
    for name, table in found.yaml_text.items():
        path = tmp_path / name.replace("/", "-")
        path.write_text(table)
        read_table(path)
        assert "{," not in table
