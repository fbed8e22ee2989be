"""facts.yaml: what no cell says, declared once, what it cannot say, and what columns and titles are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.importing.facts import Family, Label, bundled_families, line_to_add, read_facts, read_text, settings_of
from pytest_gsw.importing.tables import Cell
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
    with pytest.raises(ConfigurationError, match="but line 3 of the document states 182; facts fill in missing cells"):
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
    with pytest.raises(ConfigurationError, match=r"facts\.yaml:3: the facts of a are there already"):
        read_facts(path)
    path.write_text("documents: [{document: a, labels: recipe}]\n")
    with pytest.raises(ConfigurationError, match=r"there are no labels of 'recipe'; did you mean 'recipes'\?"):
        read_facts(path)


# ---- What columns, rows, titles and headings are called, as facts.yaml declares it ---------------


def family(tmp_path: Path, labels: str) -> Family:
    path = tmp_path / "facts.yaml"
    path.write_text(f"labels:\n  ours:\n{labels}")
    return read_facts(path).families["ours"]


def said_by(text: str, of: Family, part: str = "titles") -> dict[str, str] | None:
    found = read_text(getattr(of, part), of, Cell(text, 1))
    return None if found is None else {key: stated.text for key, stated in found.items()}


def test_the_bundled_families() -> None:
    assert sorted(bundled_families()) == ["gpt2-experiments", "llm-foundry", "megatron-bridge", "recipes"]


def test_names_are_labels_whatever_their_capitals(tmp_path: Path) -> None:
    ours = family(tmp_path, "    names: {Step  Time (s): step_time_s, Nodes: gpus * 4, MFU: mfu %, Speedup: ~}\n")
    assert ours.names == {
        "step time (s)": Label("step_time_s"),
        "nodes": Label("gpus", "4"),
        "mfu": Label("mfu", "%"),
        "speedup": None,
    }


@pytest.mark.parametrize(
    ("title", "values"),
    [
        ("Llama 3 70b BF16", {"size": "70b", "dtype": "bf16"}),
        ("Llama 3 70b BF16 (TP=8, PP=9)", {"size": "70b", "dtype": "bf16"}),
        ("Llama 3 70b Strong FP8", {"size": "70b", "dtype": "fp8", "case": "strong"}),
        ("Llama 3 70b BF16 (new)", None),
        ("Llama 3 70b BF17", None),
        ("Llama 3 BF16", None),
    ],
)
def test_the_first_template_that_a_title_fits(tmp_path: Path, title: str, values: dict[str, str] | None) -> None:
    ours = family(tmp_path, '    titles: {"{} {size} Strong {dtype}": {case: strong}, "{} {size} {dtype}": {}}\n')
    assert said_by(title, ours) == values


def test_what_a_cell_says_is_declared(tmp_path: Path) -> None:
    ours = family(
        tmp_path,
        '    headings: {"Model: {model}": {}}\n    cells:\n'
        "      - {cell: LLAMA3_70B, model: llama3, size: 70b}\n"
        '      - {cell: "0"}\n      - {cell: "0", column: DS, framework: megatron}\n',
    )
    assert said_by("Model: LLAMA3_70B", ours, "headings") == {"model": "llama3", "size": "70b"}
    assert said_by("Model: Our Own", ours, "headings") == {"model": "our-own"}
    assert (ours.declared_values("ds", "0"), ours.declared_values("TP", "0"), ours.declared_values("TP", "1")) == (
        {"framework": "megatron"},
        {},
        None,
    )


def test_settings_of_a_title() -> None:
    found = settings_of(Cell("Llama (FSDP+DP, TP=8,PP = 9, VP=None)", 3))
    assert [(name, cell.text) for name, cell in found] == [("TP", "8"), ("PP", "9"), ("VP", "None")]


def test_labels_of_a_family_are_added_to(tmp_path: Path) -> None:
    path = tmp_path / "facts.yaml"
    path.write_text('labels: {recipes: {names: {Step: step_time_s}, titles: {"{model}": {}}}}\n')
    recipes = read_facts(path).families["recipes"]
    assert recipes.names["step"] == Label("step_time_s")
    assert recipes.names["gbs"] == Label("global_batch_size")
    assert recipes.titles[0].pattern.fullmatch("any")


def test_the_line_to_add_can_be_added(tmp_path: Path) -> None:
    text = 'Speed "s\\step"'
    path = tmp_path / "facts.yaml"
    path.write_text(line_to_add(Family("ours"), "names", text, "step_time_s"))
    assert read_facts(path).families["ours"].names[text.lower()] == Label("step_time_s")


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("    names: {Step: step_time}\n", "got 'step_time', wanted a key of a row"),
        ("    names: {Step: step_time_s * x}\n", "got 'step_time_s * x', wanted a key of a row"),
        ("    naems: {}\n", "unknown key; did you mean 'names'?"),
        ('    titles: {"{size}": {siez: 70b}}\n', "unknown key; did you mean 'size'?"),
        ("    cells: [{model: a}]\n", "missing 'cell'"),
    ],
)
def test_labels_that_are_wrong(tmp_path: Path, labels: str, problem: str) -> None:
    with pytest.raises(FileError, match=r"facts\.yaml") as error:
        family(tmp_path, labels)
    assert problem in str(error.value)


@pytest.mark.parametrize("template", ["{size} {size}", "{speed} s"])
def test_a_template_that_nothing_states(tmp_path: Path, template: str) -> None:
    with pytest.raises(ConfigurationError, match="twice, or nothing states it"):
        family(tmp_path, f'    titles: {{"{template}": {{}}}}\n')


def test_a_template_is_no_pattern(tmp_path: Path) -> None:
    ours = family(tmp_path, '    titles: {"a.b* [{size}]": {}}\n')
    assert said_by("a.b* [70b]", ours) == {"size": "70b"}
    assert said_by("axb [70b]", ours) is None
