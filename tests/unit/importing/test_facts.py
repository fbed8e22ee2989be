"""facts.yaml: what no cell says, declared once, what it cannot say, and what columns and titles are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.importing.facts import read_facts
from tests.messages import wording
from tests.unit.importing.conftest import DECLARED, Read, said, values

TEXT = """\
# A

| Llama3 70b BF16 | 8x H100 GPUs (GBS=64) | 16x H100 GPUs (GBS=128) |
|---|---|---|
| Training step time (seconds per step) | 8.7  5 | 9.0 |
| Throughput in tokens per second | 59918 | 116508 |
"""


def test_the_nearest_fact_counts_and_no_fact_counts_before_a_cell(read: Read) -> None:
    facts = (
        DECLARED
        + "    tp: 1\n    pp: 1\n    global_batch_size: 7\n    tables:\n      - line: 3\n        pp: 2\n        cp: 2\n"
        "        rows:\n          - {line: 5, gpus: 16, cp: 4, case: own}\n"
    )
    first, second = (values(read(TEXT, facts), number) for number in (0, 1))
    assert (first["tp"], first["pp"], first["cp"], first["global_batch_size"]) == ("1", "2", "2", "64")
    assert (second["tp"], second["pp"], second["cp"], second["case"]) == ("1", "2", "4", "own")


def test_a_figure_whose_cell_cannot_be_read_is_a_fact_of_its_row(read: Read) -> None:
    found = read(TEXT)
    assert values(found).get("step_time_s") is None
    assert said(found) == [
        "5: llama3_70b_bf16[H100x8], step_time_s: refused: the cell reads '8.7 5', which is no plain number"
    ]
    assert found.remarks[0].add == "tables: [{line: 3, rows: [{line: 5, gpus: 8, step_time_s: VALUE}]}]"
    facts = DECLARED + "    tables:\n      - line: 3\n        rows: [{line: 5, gpus: 8, step_time_s: 8.75}]\n"
    found = read(TEXT, facts)
    assert (values(found)["step_time_s"], said(found)) == ("8.75", [])


def test_a_fact_takes_the_place_of_a_cell_that_the_row_contradicts(read: Read) -> None:
    text = TEXT.replace("8.7  5", "8.75").replace("GBS=128", "GBS=182")
    rows = "    tables:\n      - line: 3\n        rows: [{line: 5, gpus: 16, global_batch_size: 128}]\n"
    own = DECLARED + "    micro_batch_size: 1\n    gradient_accumulation_steps: 8\n    tp: 1\n    pp: 1\n"
    with pytest.raises(
        ConfigurationError, match="but " + wording("stated value", line=3, value="182; " + wording("fill in"))
    ):
        read(text, own + rows)  # the batch alone contradicts nothing that its cells say
    text = text.replace("| Throughput", "| MBS | 1 | 1 |\n| GA | 8 | 8 |\n| DP | 8 | 16 |\n| Throughput")
    assert values(read(text, DECLARED + rows), 1)["global_batch_size"] == "128"


def test_a_fact_that_contradicts_a_cell_is_refused(read: Read) -> None:
    facts = DECLARED + "    tables:\n      - line: 3\n        rows: [{line: 5, gpus: 16, step_time_s: 8.0}]\n"
    with pytest.raises(ConfigurationError, match=r"step_time_s is 8\.0, but line 5 of the document states 9\.0"):
        read(TEXT, facts)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            "    tables: [{line: 4}]\n",
            "facts of a table at line 4 of doc.md, where there is none; tables of rows are at: 3",
        ),
        ("    tables: [{line: 3, rows: [{line: 6}]}]\n", "facts of a row at line 6 of doc.md, where there is none"),
        (
            "    tables: [{line: 3, rows: [{line: 5, gpus: 32}]}]\n",
            "facts of a row of 32 GPUs at line 5 of doc.md, where",
        ),
        ("    tables: [{line: 8, code: [9]}]\n", "facts of a table at line 8 of doc.md, where there is none"),
        ("    tables: [{line: 3, code: [99]}]\n", "facts of a table at line 3 of doc.md, where there is none"),
        ("    files: [{path: nemo/x.yaml}]\n", "facts of a file nemo/x.yaml, which doc.md does not give; it gives: "),
    ],
)
def test_facts_of_what_the_document_does_not_have(read: Read, facts: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(TEXT, DECLARED + facts)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("documents: [{document: a, step_time_s: 1}]", "unknown key"),
        ("documents: [{document: a, tables: [{line: 1, mfu: 5%}]}]", "unknown key"),
        ("documents: [{document: a, tables: [{line: 1, rows: [{line: 1, mfu: 5}]}]}]", "got '5', wanted a percentage"),
        ("documents: [{document: a, dtype: fp 8}]", "got 'fp 8', wanted a name such as fp8"),
        ("documents: [{document: a, path: ../a.yaml}]", "got '../a.yaml', wanted a path such as"),
        ("documents: [{line: 1}]", "missing 'document'"),
    ],
)
def test_facts_that_are_wrong(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text(content)
    with pytest.raises(FileError) as error:
        read_facts(path)
    assert problem in str(error.value)


def test_a_document_twice_and_labels_of_no_family(tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text("documents:\n  - document: a\n  - document: a\n")
    with pytest.raises(ConfigurationError, match="facts\\.yaml:3: " + wording("facts are there", name="a")):
        read_facts(path)
    path.write_text("documents: [{document: a, labels: recipe}]\n")
    with pytest.raises(ConfigurationError, match=r"there are no labels of 'recipe'; did you mean 'recipes'\?"):
        read_facts(path)


CODE = """\
## H100
```
# size  busbw
1024  2.50 GB/s
2048  2.75
4096
```
"""
OF_CODE = (
    "    model: all_reduce\n    framework: nccl-tests\n    dtype: float\n    gpus: 8\n"
    "    path: site/{framework}-{model}.yaml\n    recipe: {directory: nccl, steps: 1}\n"
    "    files: [{path: site/nccl-tests-all_reduce.yaml, tolerance: 3%}]\n"
)
LABELS = '  recipes: {"size": {}, "busbw": {key: busbw_gbs}, "# {accelerator}": {}}\n'


@pytest.mark.parametrize(("lines", "figures"), [("4, 5", ["2.50", "2.75"]), ("5", ["2.75"])])
def test_lines_of_code_are_rows_if_facts_name_them(read: Read, lines: str, figures: list[str]) -> None:
    found = read(CODE, f"{OF_CODE}    tables: [{{line: 3, code: [{lines}]}}]\n", LABELS)
    assert [row.values["value"].text for row in found.rows] == figures
    assert {values(found, number)["tolerance"] for number in range(len(figures))} == {"3%"}
    assert list(found.yaml_text) == ["site/nccl-tests-all_reduce.yaml"]


def test_code_that_is_no_row_is_refused_and_other_code_is_not_read(read: Read) -> None:
    with pytest.raises(ConfigurationError, match=wording("no such line", line=6, document="doc\\.md")):
        read(CODE, f"{OF_CODE}    tables: [{{line: 3, code: [5, 6]}}]\n", LABELS)
    assert read(CODE, OF_CODE.partition("    files")[0], LABELS).rows == ()
