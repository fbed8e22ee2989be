"""Rows with blanks: they are no faults of their file, and what is said of them is enough to fill them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.tables.load import Table, blank_error, facts_of, read_table
from pytest_gsw.tables.stated_rows import stated_rows
from tests.unit.tables.texts import ENTRY, HEAD, TINY, change

#: As the importer writes it: blanks of the file, of a table and of rows.
IMPORTED = """\
model: tiny
size: 1b
framework:  # BLANK: the document does not say
accelerator: H100
document: README.md
recipe:
  directory:  # BLANK: the document does not say
  steps: 20
sequence_length: 1024
tables:
  - title: "Tiny BF16"  # table at line 5
    dtype: bf16
    gpus_per_node: 8
    rows:
      - {gpus:  8, step_time_s: 1.5, line: 7}
  - title: "Tiny"  # table at line 12
    dtype:  # BLANK: the document does not say
    rows:
      # BLANK gpus_per_node: 16 GPUs do not fill whole nodes of 3
      - {gpus: 16, gpus_per_node: ~, step_time_s: 0.75, line: 14}
      - {gpus: 32, gpus_per_node: ~, step_time_s: 0.375, line: 14}
      # BLANK tokens_per_s: '8 k' cannot be read
      - {gpus: 64, gpus_per_node: 8, tokens_per_s: ~, line: 15}
"""


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Table]:
    """Read this content as ``baselines/own/t.yaml`` of the working directory."""
    monkeypatch.chdir(tmp_path)

    def read_content(content: str) -> Table:
        path = Path("baselines/own/t.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return read_table(path)

    return read_content


@pytest.mark.parametrize(
    ("old", "new", "row", "fact"),
    [
        ("gpus_per_node: 8", "gpus_per_node: ~", "tiny_1b_bf16[H100x8]", "gpus_per_node is blank"),
        ("gpus_per_node: 8", "gpus_per_node:", "tiny_1b_bf16[H100x8]", "gpus_per_node is blank"),
        ("dtype: bf16", "dtype: null", "tiny_1b_BLANK[H100x8]", "dtype is blank"),
        ("model: tiny", "model:", "BLANK_1b_bf16[H100x8]", "model is blank"),
        ("size: 1b", "size:", "tiny_BLANK_bf16[H100x8]", "size is blank"),
        ("accelerator: H100", "accelerator:", "tiny_1b_bf16[BLANKx8]", "accelerator is blank"),
        ("directory: tiny", "directory: ~", "tiny_1b_bf16[H100x8]", "recipe.directory is blank"),
        ("steps: 20", "steps: ~", "tiny_1b_bf16[H100x8]", "recipe.steps is blank"),
        ("document: site.md", "document: ~", "tiny_1b_bf16[H100x8]", "document is blank"),
        ("framework: maxtext", "framework: ~", "tiny_1b_bf16[H100x8]", "framework is blank"),
    ],
)
def test_a_blank_of_all_rows_is_an_error_of_each(
    read: Callable[[str], Table], old: str, new: str, row: str, fact: str
) -> None:
    table = read(change(old, new))
    assert table.rows == ()
    assert [blank.id for blank in table.blanks] == [row, row.replace("x8", "x16")]
    assert [blank_error(blank).fact for blank in table.blanks] == [fact, fact]


@pytest.mark.parametrize(
    ("old", "new", "row", "fact"),
    [
        ("gpus: 8,", "gpus: ~,", "tiny_1b_bf16[H100xBLANK]", "gpus is blank"),
        ("gpus: 8,", "gpus: 8, case: ~,", "tiny_1b_bf16[H100x8-BLANK]", "case is blank"),
        ("step_time_s: 1.5", "step_time_s: ~", "tiny_1b_bf16[H100x8]", "step_time_s is blank"),
        ("step_time_s: 1.5", "tokens_per_s: ~", "tiny_1b_bf16[H100x8]", "tokens_per_s is blank"),
        ("line: 10", "line: ~", "tiny_1b_bf16[H100x8]", "line is blank"),
        ("gpus: 8,", "gpus: 8, dtype: ~,", "tiny_1b_BLANK[H100x8]", "dtype is blank"),
        ("gpus: 8,", "gpus: 8, tolerance: ~, metric: ~,", "tiny_1b_bf16[H100x8]", "tolerance and metric are blank"),
    ],
)
def test_a_blank_of_one_row_stops_that_row_alone(
    read: Callable[[str], Table], old: str, new: str, row: str, fact: str
) -> None:
    table = read(change(old, new))
    assert [row.id for row in table.rows] == ["tiny_1b_bf16[H100x16]"]
    (blank,) = table.blanks
    assert (blank.id, blank_error(blank).fact) == (row, fact)


def test_what_is_nearer_counts(read: Callable[[str], Table]) -> None:
    # A blank counts before what stands further out.
    (row,) = read(change("gpus: 8,", "gpus: 8, sequence_length: ~,")).blanks
    assert [(blank.key, blank.is_own) for blank in row.blanks] == [("sequence_length", True)]
    # A value counts before a blank further out.
    table = read(change("dtype: bf16", "dtype: bf16\n    sequence_length: 2048").replace("length: 1024", "length:"))
    assert [row.workload.sequence_length for row in table.rows] == [2048, 2048]
    assert table.blanks == ()


def test_rows_whose_names_are_blank_may_be_others_when_filled_in(read: Callable[[str], Table]) -> None:
    table = read(change("gpus: 8,", "gpus: ~,").replace("gpus: 16,", "gpus: ~,"))
    assert [row.id for row in table.blanks] == ["tiny_1b_bf16[H100xBLANK]", "tiny_1b_bf16[H100xBLANK-line13]"]


def test_what_else_of_a_row_with_a_blank_is_a_fault(read: Callable[[str], Table]) -> None:
    # Two rows of one name are a fault blank or not.
    with pytest.raises(FileError) as error:
        read(change("gpus: 16,", "gpus: 8, sequence_length: ~,"))
    assert str(error.value) == (
        "baselines/own/t.yaml: 1 problem\n"
        "  baselines/own/t.yaml:13:9    tables[0].rows[1]: has the id tiny_1b_bf16[H100x8] of line 12; "
        "give it a 'case' of its own"
    )
    # What else a row with a blank lacks is a fault.
    with pytest.raises(FileError) as error:
        read(change("dtype: bf16", "title: one").replace("gpus: 8,", "gpus: 12, sequence_length: ~,"))
    assert [fault.problem for fault in error.value.faults] == [
        "12 GPUs do not fill whole nodes of 8",
        "missing 'dtype' (here, at its table or at the file)",
        "missing 'dtype' (here, at its table or at the file)",
    ]


def test_what_waits_until_a_row_is_complete(read: Callable[[str], Table]) -> None:
    # How many steps a log must hold waits for the framework.
    table = read(TINY.replace("framework: maxtext", "framework: ~").replace(", steps: 20", ""))
    assert [blank_error(row).fact for row in table.blanks] == ["framework is blank"] * 2
    # An accepted figure waits until its row is complete.
    text = change("gpus: 8,", "gpus: 8, sequence_length: ~,")
    assert [row.id for row in read(text).blanks] == ["tiny_1b_bf16[H100x8]"]
    Path("baselines/own/t.accepted.yaml").write_text(f"accepted:\n{ENTRY}")
    assert [row.id for row in read(text).blanks] == ["tiny_1b_bf16[H100x8]"]


def test_what_is_said_of_blanks_that_import_wrote(read: Callable[[str], Table]) -> None:
    first, second, third, figure = read(IMPORTED).blanks
    unsaid = "the document does not say"
    error = blank_error(first)
    assert error.fact == f"framework and recipe.directory are blank: {unsaid}"
    assert error.evidence == (
        ("row", "baselines/own/t.yaml:15"),
        ("blank", f"baselines/own/t.yaml:3  framework, a name such as maxtext: {unsaid}"),
        ("blank", f"baselines/own/t.yaml:7  recipe.directory, a relative directory such as maxtext: {unsaid}"),
    )
    assert error.advice.splitlines()[2:] == facts_of([first])
    assert (second.id, third.id) == ("tiny_1b_BLANK[H100x16]", "tiny_1b_BLANK[H100x32]")
    assert [blank.reason for blank in second.blanks] == [*[unsaid] * 3, "16 GPUs do not fill whole nodes of 3"]
    assert [blank.reason for blank in third.blanks] == [blank.reason for blank in second.blanks]
    assert blank_error(second).fact == "framework, recipe.directory, dtype and gpus_per_node are blank"
    assert blank_error(figure).advice.splitlines()[0] == (
        "type them into the table, or into baselines/facts.yaml next to its entries for the document, and "
        "pytest-gsw import README.md -o baselines --overwrite:"
    )


def test_the_facts_of_all_blanks(read: Callable[[str], Table]) -> None:
    assert (
        "\n".join(facts_of(read(IMPORTED).blanks))
        == """\
documents:
  - document: README.md
    tables:
      - line: 5
        framework:  # a name such as maxtext
        recipe:
          directory:  # a relative directory such as maxtext
      - line: 12
        framework:  # a name such as maxtext
        dtype:  # a name such as fp8
        recipe:
          directory:  # a relative directory such as maxtext
        rows:
          - line: 14
            gpus: 16
            gpus_per_node:  # a whole number above 0
          - line: 14
            gpus: 32
            gpus_per_node:  # a whole number above 0
          - line: 15
            gpus: 64
            tokens_per_s:  # a number above 0"""
    )


def test_a_gpu_count_is_typed_into_the_table(read: Callable[[str], Table]) -> None:
    (row,) = read(change("gpus: 8,", "gpus: ~,").replace("dtype:", "title: T  # table at line 5\n    dtype:")).blanks
    assert blank_error(row).advice == "type it into the table"


def test_the_arithmetic_reads_what_rows_with_blanks_state(read: Callable[[str], Table]) -> None:
    read(IMPORTED)
    first, *_, last = stated_rows(Path("baselines/own/t.yaml"))
    assert (first.id, first.values["step_time_s"].text) == ("tiny_1b_bf16[H100x8]", "1.5")
    assert "framework" not in first.values
    assert {"tokens_per_s", "dtype"}.isdisjoint(last.values)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_lines_are_counted_as_yaml_does(tmp_path: Path, end: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(IMPORTED.replace("\n", end).encode())
    assert [row.document_table for row in read_table(path).blanks] == [5, 12, 12, 12]


def test_a_row_without_a_size(read: Callable[[str], Table]) -> None:
    table = read(HEAD.replace("size: 1b\n", "") + TINY[len(HEAD) :])
    assert [row.id for row in table.rows] == ["tiny_bf16[H100x8]", "tiny_bf16[H100x16]"]
    assert [
        (row.workload.size, row.workload.name, row.name, row.workload.parameters_in_billions) for row in table.rows
    ] == [(None, "tiny", "tiny_bf16", None)] * 2


def test_a_table_without_a_document_is_its_own(read: Callable[[str], Table]) -> None:
    text = TINY.replace("document: site.md\n", "").replace(", line: 10", "").replace(", line: 11", "")
    assert [(row.source.document, row.source.line) for row in read(text).rows] == [("t.yaml", 11), ("t.yaml", 12)]
    # A line is one of a document.
    with pytest.raises(FileError) as error:
        read(TINY.replace("document: site.md\n", ""))
    assert [fault.problem for fault in error.value.faults] == [
        "has a 'line', and no 'document' that it is a line of",
        "has a 'line', and no 'document' that it is a line of",
    ]
