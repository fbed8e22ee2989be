"""``pytest-gsw import``, as it is typed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_gsw.cli import main

ROOT = Path(__file__).resolve().parents[2]
#: The five documents' tables and headings at their own lines; GSW_DOCUMENTS may name the originals.
DOCUMENTS = Path(os.environ.get("GSW_DOCUMENTS", ROOT / "tests" / "documents"))
README = """\
# Llama 3 8B

| Llama3 8b BF16 | 8x H100 GPUs (GBS=128) | 16x H100 GPUs (GBS=256) |
|---|---|---|
| Training step time (seconds per step) | 2.0 | 2.1 |
| Throughput in tokens per second | 524288 | 998644 |

| Model | Checkpoint Size |
|---|---|
| 8b | ~100 GB |
"""
FACTS = """\
documents:
  - document: {name}
    model: llama3
    framework: nemo
    sequence_length: 8192
    recipe: {{steps: 50}}
"""


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    path = tmp_path / "llama3" / "README.md"
    path.parent.mkdir()
    path.write_text(README)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "facts.yaml").write_text(FACTS.format(name="README.md"))
    return path


def test_the_five_documents_give_the_bundled_tables_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "baselines" / "facts.yaml", tmp_path)
    documents = sorted(DOCUMENTS.glob("*.txt"))
    assert len(documents) == 5
    assert main(["import", "--strict", *map(str, documents), "-o", str(tmp_path)]) == 0
    there = {path.relative_to(ROOT / "baselines"): path.read_text() for path in (ROOT / "baselines").rglob("*.yaml")}
    there = {path: text for path, text in there.items() if path.parts[0] != "releases"}
    del there[Path("huggingface/smoke_gpt.yaml")]  # measured by this project itself
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert sorted(made) == sorted(there)
    for name, text in there.items():
        assert made[name] == text, name
    out = capsys.readouterr().out
    assert not [word for word in ("fill in", "look at", "left out") if word in out]


def test_what_it_says(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == (
        "README.md: 2 rows\n"
        "  left out   line 8: no column that is declared as a figure or a GPU count: "
        "'Model', 'Checkpoint Size'\n"
        f"{tmp_path / 'out' / 'nemo' / 'llama3_8b.yaml'}: 2 rows, written\n"
    )


def test_what_was_imported_is_collected(pytester: pytest.Pytester, readme: Path, tmp_path: Path) -> None:
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={tmp_path / 'out'}")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("cell", "instead", "said", "add"),
    [
        ("", "", "", ""),
        (
            "| 2.0 |",
            "| ~2 |",
            "line 5: llama3_8b_bf16[H100x8], step_time_s: refused: the cell reads '~2', which is no plain number",
            "rows: [{line: 5, gpus: 8, step_time_s: VALUE}]",
        ),
        (
            "| 998644 |",
            "| 1048576 |",
            "line 6: llama3_8b_bf16[H100x16]: refused: tokens_per_s is 1048576, and 8192 * 256 / 2.1 s = 998644",
            'acknowledged: {tokens_per_s: "WHY IT STAYS"}',
        ),
        (
            "Throughput in tokens per second",
            "Tokens a second",
            "line 6: the row 'Tokens a second' is not declared",
            'labels: {recipes: {names: {"Tokens a second": KEY}}}',
        ),
        (
            "| 16x H100 GPUs (GBS=256) |",
            "| Two nodes (GBS=256) |",
            "line 3: the column 'Two nodes (GBS=256)' is not declared",
            'labels: {recipes: {runs: {"Two nodes": {}}}}',
        ),
    ],
)
def test_what_is_refused_and_what_is_not_declared_are_named_with_the_line_to_add(
    readme: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cell: str,
    instead: str,
    said: str,
    add: str,
) -> None:
    readme.write_text(README.replace(cell, instead) if cell else README)
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert (f"  look at    {said}\n             add {add}\n" in out) == bool(said)
    assert main(["import", "--strict", str(readme), "-o", str(tmp_path / "out")]) == int(bool(said))


def test_a_table_that_differs_is_kept(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["import", str(readme), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    table = tmp_path / "out" / "nemo" / "llama3_8b.yaml"
    accepted = "\naccepted:\n  # eos\n  - row: llama3_8b_bf16[H100x8]\n"
    table.write_text(table.read_text() + accepted)
    assert main(command) == 0
    assert capsys.readouterr().out.endswith("2 rows, unchanged\n")
    readme.write_text(README.replace("| 2.0 |", "| 2.2 |").replace("| 524288 |", "| 476625 |"))
    assert main(command) == 1
    assert capsys.readouterr().out.endswith(
        f"{table}: 2 rows, NOT written: the file is there and differs\n"
        "next: look at what differs, with pytest-gsw rows --diff; then the same again with --overwrite\n"
    )
    assert "step_time_s: 2.0," in table.read_text()
    assert main([*command, "--overwrite"]) == 0
    assert capsys.readouterr().out.endswith("2 rows, replaced\n")
    assert "step_time_s: 2.2," in table.read_text()
    assert table.read_text().endswith(accepted)


def test_a_document_without_rows_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "empty.md"
    document.write_text("# Nothing\n")
    assert main(["import", str(document), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().out == "empty.md: 0 rows\n"


def release(below: Path) -> Path:
    """A release of three READMEs, of which one has no tables of training."""
    for name, text in {"llama3": README, "llama4": README.replace("3 8", "4 9"), "docs": "# None\n"}.items():
        (below / name).mkdir(parents=True, exist_ok=True)
        (below / name / "README.md").write_text(text.replace("Llama3 8b", "Llama3 8b" if name == "llama3" else "L4 9b"))
    return below


def test_a_whole_release_is_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """READMEs of one name are told apart by their paths."""
    out = tmp_path / "out"
    assert main(["import", str(release(tmp_path / "v1")), "-o", str(out), "--release=v1"]) == 1
    said = capsys.readouterr().out
    assert "llama3/README.md: 2 rows\n" in said
    assert (
        "llama4/README.md: 2 rows, NOT written: no cell and no fact says the model and framework\n"
        "             add documents: [{document: llama4/README.md, model: NAME, framework: NAME}]\n"
    ) in said
    assert "docs/README.md" not in said
    assert not list(out.rglob("*.yaml"))
    out.mkdir()
    (out / "facts.yaml").write_text(
        FACTS.format(name="llama3/README.md") + FACTS.format(name="llama4/README.md").removeprefix("documents:\n")
    )
    assert main(["import", "--strict", str(tmp_path / "v1"), "-o", str(out)]) == 0
    tables = {path.stem: path.read_text() for path in out.rglob("nemo/*.yaml")}
    assert sorted(tables) == ["llama3_8b", "llama3_9b"]
    assert 'document: "llama4/README.md"\n' in tables["llama3_9b"]


def test_tables_below_a_directory_of_tables_have_its_schema(readme: Path, tmp_path: Path) -> None:
    above, below = tmp_path / "out", tmp_path / "out" / "releases" / "25.02"
    facts = f"--facts={above / 'facts.yaml'}"
    assert main(["import", str(readme), "-o", str(above)]) == 0
    assert main(["import", str(readme), "-o", str(below), facts]) == 0
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")] == [Path("out/baseline.schema.json")]
    first = (below / "nemo" / "llama3_8b.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../../../baseline.schema.json"
    assert (below / "nemo" / "../../../baseline.schema.json").is_file()


def test_two_documents_of_one_model(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [tmp_path / name for name in ("v2.md", "V2.md")]
    facts = [FACTS.format(name=name).removeprefix("documents:\n") for name in ("v2.md", "V2.md", "README.md")]
    (tmp_path / "out" / "facts.yaml").write_text("documents:\n" + "".join(facts))
    for other in others:
        other.write_text(README)
    assert main(["import", str(readme), *map(str, others), "-o", str(tmp_path / "out")]) == 0
    nemo = tmp_path / "out" / "nemo"
    names = ["llama3_8b-v2-2.yaml", "llama3_8b-v2.yaml", "llama3_8b.yaml"]
    assert sorted(path.name for path in nemo.iterdir()) == names
    said = (
        f"look at {nemo / 'llama3_8b-v2.yaml'}: 2 rows called as in {nemo / 'llama3_8b.yaml'}, such as "
        "llama3_8b_bf16[H100x8]: a session takes one of these tables, not both\n"
    )
    assert said in capsys.readouterr().out
    assert main(["import", "--strict", str(readme), "-o", str(tmp_path / "out")]) == 1


def test_what_has_to_be_given(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(readme)]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw import: -o says which directory the tables go to\nnext: add -o DIR, or --check to write none\n"
    )
    assert main(["import", str(readme), "-o", str(tmp_path), "--labels=recipe"]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw import: --labels: there are no labels of 'recipe'; did you mean 'recipes'?\n"
    )


@pytest.mark.parametrize("arguments", [[], ["tables"]], ids=["configured", "named"])
def test_facts_beside_tables_are_no_table(pytester: pytest.Pytester, readme: Path, arguments: list[str]) -> None:
    tables = pytester.path / "tables"
    tables.mkdir()
    (tables / "facts.yaml").write_text(FACTS.format(name="README.md"))
    assert main(["import", str(readme), "-o", str(tables)]) == 0
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=tables", *arguments)
    result.assert_outcomes(passed=2)


# ---- Arithmetic alone ------------------------------------------------------------------------------


def test_the_figures_of_a_document_are_checked(
    readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["import", "--check", str(readme), f"--facts={tmp_path / 'out' / 'facts.yaml'}"]
    assert main(command) == 0
    assert capsys.readouterr().out == "2 rows: 0 contradictions, 0 off by less than 0.25 %, 0 acknowledged\n"
    readme.write_text(README.replace("998644", "1048576"))
    assert main(command) == 1
    assert capsys.readouterr().out == (
        "README.md:6: llama3_8b_bf16[H100x16]: tokens_per_s is 1048576, and 8192 * 256 / 2.1 s = 998644\n"
        "2 rows: 1 contradiction, 0 off by less than 0.25 %, 0 acknowledged\n"
        'next: put it right, or say at the row why it stays: acknowledged: {tokens_per_s: "WHY IT STAYS"}\n'
    )
    readme.write_text(README.replace("998644", "998000").replace("2.1", "2.100"))
    assert main(command) == 0
    assert main([*command, "--strict"]) == 1
    assert "= 998644 (less than 0.25 % off)\n" in capsys.readouterr().out


def test_the_figures_of_tables_are_checked(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["import", str(readme), "-o", str(out)]) == 0
    capsys.readouterr()
    table = out / "nemo" / "llama3_8b.yaml"
    table.write_text(table.read_text().replace("998644", "1048576"))
    line = 1 + table.read_text().splitlines().index(
        "      - {gpus: 16, global_batch_size: 256, step_time_s: 2.1, tokens_per_s: 1048576}"
    )
    for given in (out, table):
        assert main(["import", "--check", str(given)]) == 1
        first, *_ = capsys.readouterr().out.splitlines()
        assert (
            first
            == f"{table}:{line}: llama3_8b_bf16[H100x16]: tokens_per_s is 1048576, and 8192 * 256 / 2.1 s = 998644"
        )
    text = table.read_text()
    table.write_text(text.replace("1048576}", '1048576, acknowledged: {tokens_per_s: "of two runs"}}'))
    assert main(["import", "--check", str(table)]) == 0
    assert " = 998644 (acknowledged: of two runs)\n" in capsys.readouterr().out


def test_the_bundled_tables_contradict_themselves_nowhere_that_is_not_acknowledged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", "--check", str(ROOT / "baselines"), str(ROOT / "baselines" / "releases")]) == 0
    assert " rows: 0 contradictions, " in capsys.readouterr().out
