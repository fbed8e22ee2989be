"""``pytest-gsw import``, as it is typed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_gsw.cli import main

ROOT = Path(__file__).resolve().parents[2]
#: The five documents' tables, formulas and examples at their own lines; GSW_DOCUMENTS may name the originals.
DOCUMENTS = Path(os.environ.get("GSW_DOCUMENTS", ROOT / "tests" / "documents"))
README = """\
# Llama 3 8B

NeMo, BF16. Judged by the last training step. A total of 50 steps. Sequence length is 8192.

| Llama3 8b BF16 | 8x H100 GPUs (GBS=128) | 16x H100 GPUs (GBS=256) |
|---|---|---|
| Training step time (seconds per step) | 2.0 | 2.1 |
| Throughput in tokens per second | 524288 | 998644 |

| Model | Checkpoint Size |
|---|---|
| 8b | ~100 GB |
"""


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    path = tmp_path / "llama3" / "README.md"
    path.parent.mkdir()
    path.write_text(README)
    return path


def test_the_five_documents_give_the_bundled_tables_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "baselines" / "facts.yaml", tmp_path)
    documents = sorted(DOCUMENTS.glob("*.txt"))
    assert len(documents) == 5
    assert main(["import", *map(str, documents), "-o", str(tmp_path)]) == 0
    there = {path.relative_to(ROOT / "baselines"): path.read_text() for path in (ROOT / "baselines").rglob("*.yaml")}
    there = {
        path: text for path, text in there.items() if path.parts[0] != "releases"
    }  # tests/integration/test_releases.py
    del there[Path("huggingface/smoke_gpt.yaml")]  # measured by this project itself
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert sorted(made) == sorted(there)
    for name, text in there.items():
        assert made[name] == text, name
    out = capsys.readouterr().out
    assert "fill in" not in out
    assert "left out" not in out


def test_import_over_the_bundled_tables_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    baselines = tmp_path / "baselines"
    shutil.copytree(ROOT / "baselines", baselines)
    before = {path: path.stat().st_mtime_ns for path in baselines.rglob("*")}
    assert main(["import", *map(str, sorted(DOCUMENTS.glob("*.txt"))), "-o", str(baselines)]) == 0
    assert {path: path.stat().st_mtime_ns for path in baselines.rglob("*")} == before
    assert capsys.readouterr().out.count("rows, unchanged") == 7


def test_what_it_says(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == (
        "README.md: 2 rows\n"
        "  left out   line 10: the table 'Model' has no GPU counts\n"
        f"{tmp_path / 'out' / 'nemo' / 'llama3_8b.yaml'}: 2 rows, written\n"
    )


def test_what_was_imported_is_collected(pytester: pytest.Pytester, readme: Path) -> None:
    assert main(["import", str(readme), "-o", str(pytester.path / "tables")]) == 0
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=tables")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("cell", "instead", "left"),
    [
        ("", "", False),
        ("| 2.0 |", "| ~2 |", True),  # a blank
        ("| 998644 |", "| about 1e6 |", True),  # a cell that is not taken, and no blank
        ("| 998644 |", "| 1048576 |", True),  # refuted
        ("| 2.0 | 2.1 |", "| 2.000 | 2.117 |", True),  # a contradiction that stays
        ("| 2.1 |", "| 2,1 |", True),  # proven, and other than the document writes it
    ],
)
def test_strict_fails_where_anything_is_left_to_look_at(
    readme: Path, tmp_path: Path, cell: str, instead: str, left: bool
) -> None:
    readme.write_text(README.replace(cell, instead) if cell else README)
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    assert main(["import", "--strict", str(readme), "-o", str(tmp_path / "out")]) == int(left)


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
        "next: pytest-gsw diff TABLES README.md, then the same again with --overwrite\n"
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


def test_two_documents_of_one_name(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "README.md"
    other.write_text(README)
    assert main(["import", str(readme), str(other), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        f"pytest-gsw import: {readme} and {other} have the same name, by which rows say where they come from\n"
        "next: import them one after the other, each into a directory of its own; or name more of their paths in facts.yaml, "
        f"such as {{document: {tmp_path.name}/README.md}}\n"
    )


def test_two_documents_of_one_name_that_facts_tell_apart(readme: Path, tmp_path: Path) -> None:
    other = tmp_path / "llama4" / "README.md"
    other.parent.mkdir()
    other.write_text(README.replace("3 8B", "4 9B").replace("3 8b", "4 9b"))
    out = tmp_path / "out"
    out.mkdir()
    named = ("llama3/README.md", "llama4/README.md")
    facts = "".join(f"  - {{document: {name}, releases: ['25.02'], tolerance: 7%}}\n" for name in named)
    (out / "facts.yaml").write_text(f"documents:\n{facts}")
    assert main(["import", str(readme), str(other), "-o", str(out)]) == 0
    tables = {path.name: path.read_text() for path in out.rglob("nemo/*.yaml")}
    assert sorted(tables) == ["llama3_8b.yaml", "llama4_9b.yaml"]
    for name, text in zip(named, (tables["llama3_8b.yaml"], tables["llama4_9b.yaml"]), strict=True):
        assert f'document: "{name}"\nreleases: ["25.02"]\n' in text
        assert "tolerance: 7%\n" in text


def test_tables_below_a_directory_of_tables_have_its_schema(readme: Path, tmp_path: Path) -> None:
    above, below = tmp_path / "tables", tmp_path / "tables" / "releases" / "25.02"
    assert main(["import", str(readme), "-o", str(above)]) == 0
    assert main(["import", str(readme), "-o", str(below)]) == 0
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")] == [Path("tables/baseline.schema.json")]
    first = (below / "nemo" / "llama3_8b.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../../../baseline.schema.json"
    assert (below / "nemo" / "../../../baseline.schema.json").is_file()


def test_two_documents_of_one_model(readme: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "v2.md"
    other.write_text(README)
    assert main(["import", str(readme), str(other), "-o", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.yaml")) == ["llama3_8b-v2.yaml", "llama3_8b.yaml"]
    nemo = tmp_path / "out" / "nemo"
    said = (
        f"look at {nemo / 'llama3_8b-v2.yaml'}: 2 rows called as in {nemo / 'llama3_8b.yaml'}, such as "
        "llama3_8b_bf16[H100x8]: a session takes one of these tables, not both\n"
    )
    assert said in capsys.readouterr().out
    (nemo / "llama3_8b.yaml").unlink()
    assert main(["import", str(readme), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert f"look at {nemo / 'llama3_8b.yaml'}: 2 rows called as in {nemo / 'llama3_8b-v2.yaml'}, such as " in out
    assert main(["import", "--strict", str(readme), "-o", str(tmp_path / "out")]) == 1
    capsys.readouterr()
    # What is blank tells nothing of names yet; a row that cannot run yet has one.
    for model, told in (("", 0), ("Llama3 8b", 1)):
        for name in ("v3.md", "v4.md"):
            (tmp_path / name).write_text(
                README.replace("Llama 3 8B", "").replace("Llama3 8b", model).replace(" 8192", "")
            )
        documents = [str(tmp_path / name) for name in ("v3.md", "v4.md")]
        assert main(["import", *documents, "-o", str(tmp_path / f"blank{told}")]) == 0
        assert capsys.readouterr().out.count("look at " + str(tmp_path)) == told


def test_documents_whose_names_differ_little(readme: Path, tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("v2.md", "V2.md", "v2.txt")]
    for other in others:
        other.write_text(README)
    assert main(["import", str(readme), *map(str, others), "-o", str(tmp_path / "out")]) == 0
    names = ["llama3_8b-v2-2.yaml", "llama3_8b-v2-3.yaml", "llama3_8b-v2.yaml", "llama3_8b.yaml"]
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.yaml")) == names


def test_no_such_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path / "none.md"), "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"pytest-gsw import: {tmp_path / 'none.md'} cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize("arguments", [[], ["tables"]], ids=["configured", "named"])
def test_facts_beside_tables_are_no_table(pytester: pytest.Pytester, readme: Path, arguments: list[str]) -> None:
    assert main(["import", str(readme), "-o", str(pytester.path / "tables")]) == 0
    (pytester.path / "tables" / "facts.yaml").write_text("documents: [{document: README.md}]\n")
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=tables", *arguments)
    result.assert_outcomes(passed=2)
