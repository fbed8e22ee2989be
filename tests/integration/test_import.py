"""``pytest-gsw import``, as it is typed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import is_table
from pytest_gsw.tables.stated_rows import stated_rows
from tests.integration.conftest import Gsw
from tests.messages import wording

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


def test_the_five_documents_give_the_bundled_tables_byte_for_byte(tmp_path: Path, gsw: Gsw) -> None:
    shutil.copy(ROOT / "baselines" / "facts.yaml", tmp_path)
    documents = sorted(DOCUMENTS.glob("*.txt"))
    assert len(documents) == 5
    out = gsw("import", "--strict", *documents, "-o", tmp_path).out
    there = {path.relative_to(ROOT / "baselines"): path.read_text() for path in (ROOT / "baselines").rglob("*.yaml")}
    there = {path: text for path, text in there.items() if path.parts[0] not in {"releases", "nccl"}}
    del there[Path("huggingface/smoke_gpt.yaml")]  # measured by this project itself
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert sorted(made) == sorted(there)
    for name, text in there.items():
        assert made[name] == text, name
    assert not [word for word in ("fill in", "look at", "left out") if word in out]


def test_what_was_imported_is_collected(gsw: Gsw, pytester: pytest.Pytester, readme: Path, tmp_path: Path) -> None:
    gsw("import", readme, "-o", tmp_path / "out")
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
            "tables: [{line: 3, rows: [{line: 5, gpus: 8, step_time_s: VALUE}]}]",
        ),
        (
            "| 524288 |",
            "| ~500000 |",
            (
                "line 6: llama3_8b_bf16[H100x8], tokens_per_s: refused: the cell reads '~500000', which is no plain "
                "number; the row's own line is 5"
            ),
            "tables: [{line: 3, rows: [{line: 5, gpus: 8, tokens_per_s: VALUE}]}]",
        ),
        (
            "| 998644 |",
            "| 1048576 |",
            "line 6: llama3_8b_bf16[H100x16]: refused: tokens_per_s is 1048576, and 8192 * 256 / 2.1 s = 998644",
            'tables: [{line: 3, rows: [{line: 5, gpus: 16, acknowledged: {tokens_per_s: "WHY IT STAYS"}}]}]',
        ),
        (
            "Throughput in tokens per second",
            "Tokens a second",
            "line 6: the row 'Tokens a second' is not declared",
            'labels: {recipes: {"Tokens a second": {key: KEY}}}',
        ),
        (
            "| 16x H100 GPUs (GBS=256) |",
            "| Two nodes (GBS=256) |",
            "line 3: the column 'Two nodes (GBS=256)' is not declared",
            'labels: {recipes: {"Two nodes": {gpus: VALUE}}}',
        ),
    ],
)
def test_what_is_refused_and_what_is_not_declared_are_named_with_the_line_to_add(
    readme: Path,
    tmp_path: Path,
    gsw: Gsw,
    cell: str,
    instead: str,
    said: str,
    add: str,
) -> None:
    readme.write_text(README.replace(cell, instead) if cell else README)
    out = gsw("import", readme, "-o", tmp_path / "out").out
    assert (f"  look at    {said}\n             add {add}\n" in out) == bool(said)
    gsw("import", "--strict", readme, "-o", tmp_path / "out", status=int(bool(said)))


def test_a_table_that_differs_is_kept(readme: Path, tmp_path: Path, gsw: Gsw) -> None:
    command = ["import", str(readme), "-o", tmp_path / "out"]
    gsw(*command)
    table = tmp_path / "out" / "nemo" / "llama3_8b.yaml"
    assert gsw(*command).out.endswith("2 rows, unchanged\n")
    readme.write_text(README.replace("| 2.0 |", "| 2.2 |").replace("| 524288 |", "| 476625 |"))
    assert gsw(*command, status=1).out.endswith(
        f"{table}: 2 rows, NOT written: the file is there and differs\n"
        "next: commit the tables, the same again with --overwrite, then git diff\n"
    )
    assert "step_time_s: 2.0," in table.read_text()
    assert gsw(*command, "--overwrite").out.endswith("2 rows, replaced\n")
    assert "step_time_s: 2.2," in table.read_text()


def test_every_next_step_names_the_facts_that_were_given(readme: Path, tmp_path: Path, gsw: Gsw) -> None:
    readme.write_text(README.replace("| 2.0 |", "| ~2 |"))
    facts = tmp_path / "facts2.yaml"
    facts.write_text(FACTS.format(name="README.md").replace("    sequence_length: 8192\n", ""))
    out = gsw("import", readme, "-o", tmp_path / "out", f"--facts={facts}").out
    steps = [line for line in out.splitlines() if line.startswith("next: ")]
    assert [str(facts) in step for step in steps] == [True, True]


def release(below: Path) -> Path:
    """A release of three READMEs, of which one has no tables of training."""
    for name, text in {"llama3": README, "llama4": README.replace("3 8", "4 9"), "docs": "# None\n"}.items():
        (below / name).mkdir(parents=True, exist_ok=True)
        (below / name / "README.md").write_text(text.replace("Llama3 8b", "Llama3 8b" if name == "llama3" else "L4 9b"))
    return below


def test_a_whole_release_is_one_command(tmp_path: Path, gsw: Gsw) -> None:
    """READMEs of one name are told apart by their paths."""
    out = tmp_path / "out"
    said = gsw("import", str(release(tmp_path / "v1")), "-o", out, "--release=v1", status=1).out
    assert "llama3/README.md: 2 rows\n" in said
    assert (
        "llama4/README.md: 2 rows, NOT written: no cell and no fact has the model and framework\n"
        "             add documents: [{document: llama4/README.md, model: NAME, framework: NAME}]\n"
    ) in said
    assert "  fill in    " in said
    assert "unknown/" not in said  # no such table is written
    assert (
        f"\nnext: mkdir -p {out}, then write the lines behind 'add' into {out}/facts.yaml, at their documents (labels at its top)"
        in said
    )
    assert "docs/README.md" not in said
    assert not list(out.rglob("*.yaml"))
    out.mkdir()
    (out / "facts.yaml").write_text(
        FACTS.format(name="llama3/README.md") + FACTS.format(name="llama4/README.md").removeprefix("documents:\n")
    )
    gsw("import", "--strict", str(tmp_path / "v1"), "-o", out)
    tables = {path.stem: path.read_text() for path in out.rglob("nemo/*.yaml")}
    assert sorted(tables) == ["llama3_8b", "llama3_9b"]
    assert 'document: "llama4/README.md"\n' in tables["llama3_9b"]


# ---- Arithmetic alone ------------------------------------------------------------------------------


def test_the_figures_of_a_document_are_checked(readme: Path, tmp_path: Path, gsw: Gsw) -> None:
    command = ["import", "--check", str(readme), f"--facts={tmp_path / 'out' / 'facts.yaml'}"]
    assert gsw(*command).out == "2 rows: 0 contradictions, 0 off by less than 0.25 %, 0 acknowledged\n"
    readme.write_text(README.replace("998644", "1048576"))
    assert gsw(*command, status=1).out == (
        "README.md:6: llama3_8b_bf16[H100x16]: tokens_per_s is 1048576, and 8192 * 256 / 2.1 s = 998644\n"
        "2 rows: 1 contradiction, 0 off by less than 0.25 %, 0 acknowledged\n"
        'next: put it right, or say at the row why it stays: acknowledged: {tokens_per_s: "WHY IT STAYS"}\n'
    )
    readme.write_text(README.replace("998644", "998000").replace("2.1", "2.100"))
    gsw(*command)
    assert "= 998644 (less than 0.25 % off)\n" in gsw(*command, "--strict", status=1).out


def test_the_bundled_tables_contradict_themselves_nowhere_that_is_not_acknowledged(gsw: Gsw) -> None:
    paths = [ROOT / "baselines", *(ROOT / "baselines" / name for name in ("releases", "nccl"))]
    tables = [path for path in (ROOT / "baselines").rglob("*.yaml") if is_table(path)]
    rows = sum(len(stated_rows(path)) for path in tables)
    assert "\n" + wording("checked", rows=rows, contradictions=0) in gsw("import", "--check", *paths).out
