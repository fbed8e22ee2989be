from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.documents.importing import DocumentFacts, facts_of, read_facts
from pytest_gsw.errors import ConfigurationError, FileError
from tests.unit.documents.importing.conftest import README, Read

Facts = Callable[[str], DocumentFacts]


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    def facts_of(text: str) -> DocumentFacts:
        path = tmp_path / "facts.yaml"
        path.write_text(f"documents:\n  - document: tiny.md\n{text}")
        return read_facts(path)["tiny.md"]

    return facts_of


def test_facts_fill_in_what_is_not_there(read: Read, facts: Facts) -> None:
    text = README.replace(" Sequence length is 4096.", "").replace("Judged by the last training step. ", "")
    found = read(
        text,
        facts=facts(
            """\
    sequence_length: 4096
    release: v1
    comment: All of it.
    recipe: {logged_steps: 20}
    files:
      - path: maxtext/tiny_7b.yaml
        tolerance: 7%
        comment: |
          Two lines
          of the file.
    tables:
      - line: 9
        title: A title of ours
        statistic: median[-10:]
        comment: The only table.
        acknowledged: {scaling: "known"}
        rows:
          - {line: 11, gpus: 128, case: ours, comment: One row., attributes: {night: "3"}, acknowledged: {mfu: cut}}
"""
        ),
    )
    (yaml,) = found.yaml_text.values()
    lines = yaml.splitlines()
    assert "release: v1" in lines
    assert lines[3:8] == ["#", "# All of it.", "#", "# Two lines", "# of the file."]
    for line in (
        "sequence_length: 4096",
        "tolerance: 7%",
        "  logged_steps: 20",
        "statistic: median[-10:]",
        "  # The only table.",
        '  - title: "A title of ours"  # table at line 9',
        '      scaling: "known"',
        "      # One row.",
    ):
        assert line in lines, line
    assert lines[-2].endswith('attributes: {night: "3"},')
    assert lines[-1] == '         acknowledged: {mfu: "cut"}}'
    assert [row.id for row in found.rows] == ["tiny_7b_bf16[H100x64]", "tiny_7b_bf16[H100x128-ours]"]
    assert found.rows[1].acknowledged == {"mfu": "cut", "scaling": "known"}


def test_facts_cannot_change_what_a_table_states(read: Read, facts: Facts) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(README, facts=facts("    tables:\n      - {line: 9, global_batch_size: 64}\n"))
    assert str(caught.value) == (
        "facts of tiny.md: global_batch_size is 64, but line 9 of the document states 128; "
        "facts fill in what is not there"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "    tables:\n      - {line: 8}\n",
            "facts of a table at line 8, where there is none; tables of rows are at: 9",
        ),
        (
            "    tables:\n      - {line: 9, rows: [{line: 11, gpus: 32}]}\n",
            "facts of a row of 32 GPUs at line 11, where there is none",
        ),
        ("    tables:\n      - {line: 9, rows: [{line: 12}]}\n", "facts of a row at line 12, where there is none"),
        (
            "    files:\n      - {path: nemo/tiny.yaml}\n",
            "facts of a file nemo/tiny.yaml, which the document does not give; it gives: maxtext/tiny_7b.yaml",
        ),
    ],
)
def test_facts_of_what_is_not_there(read: Read, facts: Facts, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(README, facts=facts(text))
    assert str(caught.value) == message


@pytest.mark.parametrize("key", ["step_time_s: 1", "tokens_per_s: 1", "mfu: 5%"])
def test_facts_hold_no_figures(facts: Facts, key: str) -> None:
    with pytest.raises(FileError) as caught:
        facts(f"    {key}\n")
    assert [fault.problem.split(";")[0] for fault in caught.value.faults] == ["unknown key"]


def test_a_document_is_there_once(facts: Facts) -> None:
    with pytest.raises(ConfigurationError, match=r"facts\.yaml:3: the facts of tiny\.md are there already"):
        facts("  - document: tiny.md\n")


RUNS = """\
# Results

DGX H100 with 8 GPUs in a node. Sequence length is 4096. NeMo. A total of 50 steps.

| Model | Nodes | Precision | GBS | Step time (s) |
|---|---|---|---|---|
| LLAMA3_8B | 1 | BF16 | 64 | 2.5 |
| 8b | 2 | FP8 | 64 | 1.3 |
| 8b | 4 | | 128 | 1.4 |
"""


def test_a_fact_of_a_table_is_of_the_rows_whose_cells_say_nothing(read: Read, facts: Facts) -> None:
    found = read(RUNS, facts=facts("    tables:\n      - {line: 5, model: gpt3, dtype: mxfp8}\n"))
    assert sorted(row.id for row in found.rows) == [
        "gpt3_8b_fp8[H100x16]",
        "gpt3_8b_mxfp8[H100x32]",
        "llama3_8b_bf16[H100x8]",
    ]


def test_a_fact_of_a_row_cannot_change_its_model(read: Read, facts: Facts) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(RUNS, facts=facts("    tables:\n      - {line: 5, rows: [{line: 7, model: gpt3}]}\n"))
    assert str(caught.value) == (
        "facts of tiny.md: model is gpt3, but line 7 of the document states LLAMA3_8B; facts fill in what is not there"
    )


def test_a_row_of_nodes_is_found_by_its_gpus(read: Read, facts: Facts) -> None:
    text = "    tables:\n      - line: 5\n        rows:\n"
    found = read(RUNS, facts=facts(f"{text}          - {{line: 8, gpus: 16, model: gpt3, framework: megatron}}\n"))
    (row,) = (row for row in found.rows if row.values["line"].text == "8")
    assert (row.id, row.values["framework"].text) == ("gpt3_8b_fp8[H100x16]", "megatron")
    assert "megatron/gpt3_8b.yaml" in {file.path for file in found.files}


def test_facts_of_the_longest_end_of_a_path(tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text("documents: [{document: README.md}, {document: grok1/README.md}, {document: b/grok1/README.md}]\n")
    known = read_facts(path)
    assert facts_of(tmp_path / "grok1" / "README.md", known).name == "grok1/README.md"
    assert facts_of(tmp_path / "b" / "grok1" / "README.md", known).name == "b/grok1/README.md"
    assert facts_of(tmp_path / "notgrok1" / "README.md", known).name == "README.md"
    assert facts_of(tmp_path / "other.md", known) == DocumentFacts("other.md")


def test_a_fact_of_a_document_counts_before_the_model_that_its_text_names(read: Read, facts: Facts) -> None:
    text = README.replace("| Maxtext Tiny 7b BF16", "| Maxtext BF16")
    assert [row.id for row in read(text).rows] == ["tiny_7b_bf16[H100x64]", "tiny_7b_bf16[H100x128]"]
    found = read(text, facts=facts("    model: megatron\n"))
    assert [row.id for row in found.rows] == ["megatron_7b_bf16[H100x64]", "megatron_7b_bf16[H100x128]"]
