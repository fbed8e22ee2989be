"""What comes of whole documents: rows, settings that are joined, names, model FLOPs, blanks, and their YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gsw.importing.document import import_document
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.tables.load import read_table
from tests.messages import wording
from tests.unit.importing.conftest import DECLARED, Read, said, values

COLUMNS = """\
# A

| Llama3 70b BF16 (TP=4, PP=2, VP=5) | Throughput on 8x H100 GPUs (GBS=64) | Throughput on 16 H100 GPUs (GBS=128) |
|---|---|---|
| Layers | 40 | 80 |
| PP | 1 | 2 |
| VP | n/a | 5 |
| Training step time (seconds per step) | 8.75 | 9.00 |
| Model flops utilization | 54.1% | n/a |
"""


def test_columns_are_runs(read: Read) -> None:
    found = read(COLUMNS)
    assert [row.id for row in found.rows] == ["llama3_70b_bf16[H100x8]", "llama3_70b_bf16[H100x16]"]
    first, second = values(found, 0), values(found, 1)
    # A row of the table counts before its title, and "n/a" there means none.
    keys = ("layers", "tp", "pp", "vp", "global_batch_size")
    assert [first.get(key) for key in keys] == ["40", "4", "1", None, "64"]
    assert [second.get(key) for key in keys] == ["80", "4", "2", "5", "128"]
    assert (first["step_time_s"], first["mfu"], "mfu" in second) == ("8.75", "54.1%", False)
    assert {row.values["line"].text for row in found.rows} == {"8"}
    assert (found.remarks, found.left_out) == ((), ())


@pytest.mark.parametrize(
    ("old", "new", "message", "add"),
    [
        ("| Layers |", "| Depth |", "5: the row 'Depth' is not declared", '{"Depth": {key: KEY}}'),
        ("(TP=4,", "(XP=4,", "3: the setting 'XP' is not declared", '{"XP": {key: KEY}}'),
        (
            "Throughput on 16 H100",
            "16",
            "3: the column '16 GPUs (GBS=128)' is not declared",
            '{"16 GPUs": {gpus: VALUE}}',
        ),
        (
            "Llama3 70b BF16",
            "Llama3",
            "3: the title 'Llama3 (TP=4, PP=2, VP=5)' is not declared",
            '{"Llama3": {}}',
        ),
    ],
)
def test_a_label_that_is_not_declared_is_named(read: Read, old: str, new: str, message: str, add: str) -> None:
    found = read(COLUMNS.replace(old, new))
    assert said(found) == [message]
    assert found.remarks[0].add == f"labels: {{recipes: {add}}}"


RUNS = """\
## 26.06 NeMo Container

### LoRA Performance

#### Model: LLAMA3_70B

| System | #-GPUs | Precision | GBS | FSDP | TP | Tokens / sec / GPU | Model TFLOP / sec / GPU |
|---|---|---|---|---|---|---|---|
| DGX-GB300 | 8 | FP8-MX | 32 | 0 | n/a | 7,447 | 2072[^note] |
|  |  |  |  |  |  |  |  |
| DGX-H100 | 8 | MXFP8 | 32 | 8 | 2 | 2643 | 735 |
"""
OF_BRIDGE = (
    "    labels: megatron-bridge\n    by_release: nemo\n    framework: megatron-bridge\n    sequence_length: 4096\n"
    "    recipe: {directory: scripts, steps: 50}\n"
)


def test_rows_are_runs(read: Read) -> None:
    found = read(RUNS, OF_BRIDGE)
    assert [row.id for row in found.rows] == [
        "llama3_70b_mxfp8[GB300x8-26.06-lora]",
        "llama3_70b_mxfp8[H100x8-26.06-lora]",
    ]
    first, second = values(found, 0), values(found, 1)
    keys = ("tokens_per_s_per_gpu", "tflops_per_gpu", "fsdp", "tp", "gpus_per_node")
    assert [first.get(key) for key in keys] == ["7447", "2072", None, None, "4"]
    assert (second["fsdp"], second["tp"], second["gpus_per_node"]) == ("8", "2", "8")
    (file,) = found.files
    assert (file.path, file.facts.given["releases"]) == ("26.06/megatron-bridge/llama3_70b.yaml", ("nemo:26.06",))
    assert said(found) == []


def test_tables_that_are_not_read(read: Read) -> None:
    # Tables below headings that facts skip are not read.
    found = read(RUNS, OF_BRIDGE + '    skip: ["26.06 NeMo Container"]\n')
    assert found.rows == ()
    assert [part.text for part in found.left_out] == ["a table below '26.06 NeMo Container', which facts skip"]
    # A column that is not declared and a short row.
    found = read(RUNS.replace("| TP |", "| XP |").replace("| 2643 | 735 |", "| 2643 |"), OF_BRIDGE)
    assert said(found) == ["7: " + wording("two columns", name="XP"), "11: a row of 7 cells below a header of 8"]
    assert len(found.rows) == 1
    # A row of another length is refused.
    found = read(COLUMNS.replace("| 8.75 | 9.00 |", "| 8.75 |"))
    assert [blank[2] for blank in found.blanks] == ["step_time_s", "step_time_s"]
    assert "8: a row of 2 cells below a header of 3" in said(found)[0]


def test_other_tables_are_left_out(read: Read) -> None:
    text = "| Model | Checkpoint |\n|---|---|\n| 8b | 100 GB |\n\n| Layers | Training step time (seconds per step) |\n|---|---|\n| 2 | 3 |\n"
    found = read(text)
    assert [(part.line, part.text) for part in found.left_out] == [
        (1, "no column that is declared as a figure or a GPU count: 'Model', 'Checkpoint'"),
    ]
    assert said(found) == ["5: no GPU count: 'Layers', 'Training step time (seconds per step)'"]
    assert found.remarks[0].add == "tables: [{line: 5, gpus: VALUE}]"
    found = read(text, DECLARED + "    dtype: bf16\n    accelerator: H100\n    tables: [{line: 5, gpus: 8}]\n")
    assert [row.id for row in found.rows] == ["llama3_bf16[H100x8]"]


def test_nodes_attributes_and_what_a_row_says_of_others(read: Read) -> None:
    text = "| Nodes | Size | DS | Speed | Time (ms) |\n|---|---|---|---|---|\n| 4 | 52B | N | OOM | |\n| 4 | 52B | Y | | 17960.60 |\n"
    facts = (
        "    labels: gpt2-experiments\n    gpus_per_node: 4\n    model: gpt2\n    dtype: fp16\n    accelerator: V100\n"
    )
    found = read(text, facts + "    sequence_length: 1024\n    architecture: {formula: gpt2}\n")
    second, first = values(found, 0), values(found, 1)
    assert (first["gpus"], first["framework"], first["expected_failure"]) == ("16", "megatron", "out_of_memory")
    assert (second["framework"], second["log_format"]) == ("deepspeed", "megatron")
    assert (second["checkpoint_save_time_s"], second["metric"]) == ("17.96060", "checkpoint_save_time")
    assert first["model_flops"] == "3.19488e+14"
    assert "model_flops" not in second  # of saving a checkpoint there are none
    assert {file.path for file in found.files} == {"megatron/gpt2_52b.yaml", "deepspeed/gpt2_52b.yaml"}


# ---- Settings that stand in a table of their own ----------------------------------------------------

SETTINGS = """\
# H100s specifications

| Size | Precision | GPUs | SeqLen | TP | DP | GBS |
|---|---|---|---|---|---|---|
| 70b | BF16/FP8 | 8 | 4096 | 4 | 2 | 64 |
| 70b | FP8 | 16 | 4096 | 8 | 2 | 128 |
| 8b | BF16 | 16 | 8192 | 1 | 16 | 128 |

# GB200 specifications

| Size | Precision | GPUs | SeqLen | TP | DP | GBS |
|---|---|---|---|---|---|---|
| 70b | BF16 | 8 | 4096 | 2 | 4 | 64 |

# Performance

| Llama3 70b BF16 | 8x H100 GPUs | 16x H100 GPUs |
|---|---|---|
| Training step time (seconds per step) | 8.75 | 9.00 |
"""


def test_settings_go_to_the_rows_that_they_are_of(read: Read) -> None:
    """By GPU count, size, dtype and accelerator, as far as each says them."""
    found = read(SETTINGS)
    keys = ("sequence_length", "tp", "dp", "global_batch_size")
    assert [values(found)[key] for key in keys] == ["4096", "4", "2", "64"]
    assert "tp" not in values(found, 1)
    assert said(found) == [
        "6: settings of 16 GPUs fit no row",
        "7: settings of 16 GPUs fit no row",
        "13: settings of 8 GPUs fit no row",
    ]


def test_settings_that_differ_are_not_chosen_from(read: Read) -> None:
    text = SETTINGS.replace("# GB200 specifications", "# Others")
    found = read(text)
    assert "tp" not in values(found)
    assert "19: " + wording("settings of lines", lines="5, 13", gpus=8, keys="dp, tp") in said(found)[-1:]
    facts = DECLARED + "    tables: [{line: 11, accelerator: GB200}]\n"
    assert values(read(text, facts))["tp"] == "4"
    # What a row states itself narrows them, too.
    narrowed = text.replace("8x H100 GPUs", "8x H100 GPUs (GBS=64)").replace("| 2 | 4 | 64 |", "| 2 | 4 | 32 |")
    assert values(read(narrowed))["tp"] == "4"


# ---- Names, model FLOPs, blanks ---------------------------------------------------------------------


def test_rows_are_told_apart_by_their_settings(read: Read) -> None:
    row = "| DGX-H100 | 8 | MXFP8 | 32 | 8 | 2 | 2643 | 735 |\n"
    text = RUNS + row.replace("| 32 |", "| 64 |") + row.replace("| 2 |", "| 4 |") + row
    found = read(text, OF_BRIDGE)
    assert [row.id.partition("26.06-lora")[2] for row in found.rows] == [
        "]",
        "-gbs32-tp2]",
        "-gbs64]",
        "-gbs32-tp4]",
        "-gbs32-tp2-run2]",
    ]
    assert said(found) == [
        "14: llama3_70b_mxfp8[H100x8-26.06-lora-gbs32-tp2-run2]: nothing distinguishes it from the row of line 11: it is run 2 of these"
    ]


def test_a_row_with_the_name_of_a_numbered_one_is_told_which_that_is(read: Read) -> None:
    row = "| DGX-H100 | 8 | MXFP8 | 32 | 8 | 2 | 2643 | 735 |\n"
    facts = "    tables: [{line: 7, rows: [{line: 13, case: 26.06-lora-run2}]}]\n"
    found = read(RUNS + row * 2, OF_BRIDGE + facts)
    ids = [row.id.partition("26.06-lora")[2] for row in found.rows]
    assert ids == ["]", "]", "-run2]", "-run2-run2]"]
    assert [text.partition("row of ")[2] for text in said(found)] == [
        "line 11: " + wording("several runs", number=2),
        "line 12: " + wording("several runs", number=2),
    ]


def test_model_flops_of_a_smaller_model_follow_from_the_formula(read: Read) -> None:
    architecture = "    architecture: {formula: gpt3, layers: 80, hidden_size: 1024, vocabulary_size: 2048}\n"
    found = read(COLUMNS, f"{DECLARED}{architecture}    model_flops: 1e15\n")
    first, second = values(found, 0), values(found, 1)
    assert (first["proxy"], int(first["model_flops"])) == (
        "true",
        8192 * (24 * 40 * 1024**2 + 12 * 40 * 1024 * 8192 + 48 * 40 * 1024**2 + 6 * 2048 * 1024),
    )
    assert (second.get("proxy"), second["model_flops"]) == (None, "1e15")


def test_what_is_missing_is_blank(read: Read) -> None:
    found = read(COLUMNS.replace("(GBS=64)", "").replace("| 8.75 |", "| ~9 |"), "    tp: 1\n")
    blanks: dict[str, set[str]] = {}
    for _, _, key, reason in found.blanks:
        blanks.setdefault(key, set()).add(reason)
    unsaid = {"the document does not say"}
    assert blanks == {
        "model": unsaid,
        "framework": unsaid,
        "sequence_length": unsaid,
        "step_time_s": {wording("no plain number", cell="'~9'")},
    }


def test_a_throughput_without_a_batch_gives_no_step_time(read: Read) -> None:
    text = COLUMNS.replace("Training step time (seconds per step)", "Throughput in tokens per second")
    ((*_, key, reason),) = read(text.replace("(GBS=64)", "")).blanks
    assert key == "global_batch_size"
    assert reason == wording("follows", key="tokens_per_s")


def test_figures_that_contradict_each_other_are_refused_with_both(read: Read) -> None:
    text = COLUMNS + "| Throughput in tokens per second | 59918 | 131072 |\n"
    found = read(text)
    equation = "tokens_per_s is 131072, and 8192 * 128 / 9.00 s = 116508"
    assert said(found) == [f"10: llama3_70b_bf16[H100x16]: refused: {equation}"]
    assert [blank[1:] for blank in found.blanks] == [
        ("llama3_70b_bf16[H100x16]", "step_time_s", f"{equation} (line 8 of the document)")
    ]
    assert {"step_time_s", "tokens_per_s"}.isdisjoint(values(found, 1))
    assert f"# tokens_per_s: refused: {equation} (line 8)" in "".join(found.yaml_text.values())
    assert values(read(text, checked=False), 1)["tokens_per_s"] == "131072"
    known = '    tables:\n      - line: 3\n        rows: [{line: 8, gpus: 16, acknowledged: {tokens_per_s: "of two runs"}}]\n'
    found = read(text, DECLARED + known)
    assert (values(found, 1)["tokens_per_s"], said(found)) == ("131072", [])


def test_an_mfu_that_is_refuted_goes_alone(read: Read) -> None:
    found = read(COLUMNS, DECLARED + "    model_flops: 1e15\n")
    assert said(found) == [
        "9: llama3_70b_bf16[H100x8]: refused: mfu is 54.1%, and 64 * 1e15 FLOPs / 8.75 s / 8 GPUs / 9.89e+14 FLOP/s = 92.4455%"
    ]
    assert ("mfu" in values(found), values(found)["step_time_s"], list(found.blanks)) == (False, "8.75", [])


# ---- The YAML of imported rows, and that it says of each row what the document and facts say -----

TEXT = """\
# Llama 3

## Settings

| GPUs | SeqLen | TP |
|---|---|---|
| 8 | 8192 | 4 |
| 16 | 8192 | 4 |

## Performance

| Llama3 70b BF16 (MBS=1) | 8x H100 GPUs (GBS=64) | 16x H100 GPUs (GBS=128) |
|---|---|---|
| Training step time (seconds per step) | 8.750 | 10 |
| Model flops utilization | n/a | 54.1% |
"""
FACTS = """\
    model: llama3
    framework: nemo
    release: v1
    releases: ["25.02"]
    comment: |
      A comment of two
      lines.
    architecture: {formula: gpt3, layers: 80, hidden_size: 1024, vocabulary_size: 2048}
    model_flops: 1e15
    statistic: mean[5:20]
    tolerance: 7%
    recipe: {directory: llama3, steps: 50, environment: {GBS: "{global_batch_size}"}}
    acknowledged: {mfu: "of the file"}
    tables:
      - line: 12
        comment: Of the table.
        rows:
          - {line: 14, gpus: 16, case: own, notes: "a note", attributes: {run: "2"}, comment: Of the row., acknowledged: {mfu: "of the row"}}
"""
YAML = """\
# yaml-language-server: $schema=../baseline.schema.json
# doc.md, table at line 12, as imported. Figures are the document's, digit for digit; 'line' is that of the judged
# figure. Behind a key from elsewhere is its line; what has none is declared.
#
# A comment of two
# lines.

model: llama3
size: 70b
framework: nemo
dtype: bf16
accelerator: H100
gpus_per_node: 8  # the document does not say: by convention
document: doc.md
release: v1
releases: ["25.02"]
recipe:
  directory: llama3
  steps: 50
  environment:
    GBS: "{global_batch_size}"
acknowledged:
  mfu: "of the file"

architecture:
  formula: gpt3
  layers: 80
  hidden_size: 1024
  vocabulary_size: 2048
model_flops: 1e15

sequence_length: 8192  # lines 7 and 8
tp: 4  # lines 7 and 8
micro_batch_size: 1
statistic: mean[5:20]
tolerance: 7%

tables:
  # Of the table.
  - title: "Llama3 70b BF16 (MBS=1)"  # table at line 12
    section: "Llama 3 / Performance"
    line: 14
    rows:
      - {gpus:  8,            global_batch_size:  64, step_time_s: 8.750}
      # Of the row.
      - {gpus: 16, case: own, global_batch_size: 128, step_time_s:    10, mfu: 54.1%, notes: "a note", attributes: {run: "2"},
         acknowledged: {mfu: "of the row"}}
"""


def test_a_whole_table(read: Read, tmp_path: Path) -> None:
    ((name, text),) = read(TEXT, FACTS).yaml_text.items()
    assert (name, text) == ("nemo/llama3_70b.yaml", YAML)
    (tmp_path / "t.yaml").write_text(text)
    first, second = read_table(tmp_path / "t.yaml").rows
    assert (first.id, second.id) == ("llama3_70b_bf16[H100x8]", "llama3_70b_bf16[H100x16-own]")
    assert (second.documented.mfu, second.attributes, second.parallelism.tp) == (0.541, {"run": "2"}, 4)


def test_blanks_say_why(read: Read, tmp_path: Path) -> None:
    ((_, text),) = read(TEXT.replace("| 8.750 |", "| ~9 |").replace("BF16", ""), DECLARED).yaml_text.items()
    assert "dtype:  # BLANK: " + wording("blank") + "\n" in text
    assert (
        "      # BLANK step_time_s: the cell reads '~9', which is no plain number\n"
        "      - {gpus:  8, global_batch_size:  64, step_time_s: ~}\n"
    ) in text
    (tmp_path / "t.yaml").write_text(text)
    table = read_table(tmp_path / "t.yaml")
    assert [[blank.key for blank in row.blanks] for row in table.blanks] == [["dtype", "step_time_s"], ["dtype"]]


_CELLS = st.one_of(
    st.sampled_from(
        ["8.75", "8,75", "n/a", "", "OOM", "~", "1e3", "12 (11)", "4.1*", "16 s", "<sup>1</sup>", "7%", "a: {b", '"#']
    ),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12),
    st.decimals("0.001", "99999", places=3).map(str),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(_CELLS, min_size=6, max_size=6))
def test_whatever_a_cell_holds_the_table_can_be_read_and_no_figure_is_made_up(tmp_path: Path, cells: list[str]) -> None:
    one, two, three, four, five, six = (cell.replace("|", "").replace("\\", "") for cell in cells)
    text = (
        f"# {five}\n\n| Llama3 70b BF16 | 8x H100 GPUs (GBS=64) | {six} |\n|---|---|---|\n"
        f"| Training step time (seconds per step) | {one} | 1 |\n| Throughput in tokens per second | {two} | 1 |\n"
        f"| {three} | {four} | 1 |\n"
    )
    (tmp_path / "doc.md").write_text(text, encoding="utf-8")
    (tmp_path / "facts.yaml").write_text(f"documents:\n  - document: doc.md\n{DECLARED}")
    found = import_document(tmp_path / "doc.md", read_facts(tmp_path / "facts.yaml").of("doc.md"))
    for yaml_text in found.yaml_text.values():
        (tmp_path / "t.yaml").write_text(yaml_text, encoding="utf-8")
        table = read_table(tmp_path / "t.yaml")
        assert len(table.rows) + len(table.blanks) == len(found.rows)
    for row in found.rows:
        for key in {"step_time_s", "tokens_per_s"} & row.values.keys():
            stated = row.values[key]
            line = text.splitlines()[stated.line - 1]
            assert stated.text.replace(".", "").rstrip("0") in line.replace(",", "").replace(".", ""), (stated, line)


# ---- A rate for each GPU is of training, or the judged figure ---------------------------------------

RATES = """\
| GPUs | GBS | Tokens/s/GPU |
|---|---|---|
| 8 | 512 | {} |
"""
OF_RL = DECLARED + "    dtype: bf16\n    accelerator: H100\n"


def test_the_fact_metric_makes_a_rate_for_each_gpu_the_judged_figure(read: Read) -> None:
    found = values(read(RATES.format("1,102"), OF_RL))
    assert (found["tokens_per_s_per_gpu"], "value" in found, "metric" in found) == ("1102", False, False)
    judged = OF_RL + "    metric: tokens_per_s_per_gpu\n"
    found = values(read(RATES.format("1,102"), judged))
    assert (found["value"], found["metric"]) == ("1102", "tokens_per_s_per_gpu")
    assert "tokens_per_s_per_gpu" not in found
    # An unreadable one is a blank, and its remedy is the figure.
    unread = read(RATES.format("~1,102"), judged)
    assert [blank[2] for blank in unread.blanks] == ["tokens_per_s_per_gpu"]
    (remark,) = unread.remarks
    mended = read(RATES.format("~1,102"), f"{judged}    {remark.add.replace('VALUE', '1102')}\n")
    assert (values(mended)["value"], [*mended.blanks], mended.remarks) == ("1102", [], ())
