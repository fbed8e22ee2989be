"""The YAML of imported rows, and that it says of each row what the document and facts say."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gsw.importing.document import import_document
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.tables.load import read_table
from tests.unit.importing.conftest import DECLARED, Read

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
    assert "dtype:  # BLANK: the document does not say\n" in text
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
