"""What columns, rows, titles and headings are called, as facts.yaml declares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.importing.facts import Family, Label, bundled_families, line_to_add, read_facts, read_text, settings_of
from pytest_gsw.importing.tables import Cell


def family(tmp_path: Path, labels: str) -> Family:
    path = tmp_path / "facts.yaml"
    path.write_text(f"labels:\n  ours:\n{labels}")
    return read_facts(path).families["ours"]


def said(text: str, of: Family, part: str = "titles") -> dict[str, str] | None:
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
    assert said(title, ours) == values


def test_what_a_cell_says_is_declared(tmp_path: Path) -> None:
    ours = family(
        tmp_path,
        '    headings: {"Model: {model}": {}}\n    cells:\n'
        "      - {cell: LLAMA3_70B, model: llama3, size: 70b}\n"
        '      - {cell: "0"}\n      - {cell: "0", column: DS, framework: megatron}\n',
    )
    assert said("Model: LLAMA3_70B", ours, "headings") == {"model": "llama3", "size": "70b"}
    assert said("Model: Our Own", ours, "headings") == {"model": "our-own"}
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
    assert said("a.b* [70b]", ours) == {"size": "70b"}
    assert said("axb [70b]", ours) is None
