"""``pytest-gsw rows --diff``: two releases of a recipe, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Gsw

TABLE = """\
model: tiny
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: {document}
recipe: {{directory: tiny, steps: 20}}
sequence_length: 1024
global_batch_size: 64
tables:
  - dtype: bf16
    rows:
{rows}"""
BEFORE = (
    "gpus: 8, step_time_s: 1.0, tokens_per_s: 65536, mfu: 40%, line: 10",
    "gpus: 16, step_time_s: 0.5, line: 11",
    "gpus: 24, step_time_s: 0.4, line: 12",
    "gpus: 32, step_time_s: 0.3, line: 13",
    "gpus: 40, step_time_s: 0.25, line: 14",
)
AFTER = (
    "gpus: 8, step_time_s: 1.25, tokens_per_s: 52428.8, mfu: 32%, line: 20",
    "gpus: 16, step_time_s: 0.4, line: 21",
    "gpus: 24, step_time_s: 0.4, tolerance: 3%, micro_batch_size: 2, proxy: true, line: 22",
    "gpus: 32, expected_failure: out_of_memory, line: 23",
    "gpus: 48, step_time_s: 0.2, line: 24",
)


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(tmp_path)
    for name, rows in {"a.yaml": BEFORE, "b.yaml": AFTER}.items():
        lines = "".join(f"      - {{{row}}}\n" for row in rows)
        Path(name).write_text(TABLE.format(document=f"{name}.md", rows=lines))
    return "a.yaml", "b.yaml"


def test_the_whole_text(releases: tuple[str, str], gsw: Gsw) -> None:
    assert gsw("rows", "--diff", *releases, status=1).out == (
        "row                        seconds        throughput  changed\n"
        "---------------------  -----------  ----------------  --------------------------------------------------------------------\n"
        "tiny_1b_bf16[H100x32]  0.3 -> none                    step_time_s 0.3 -> none; expected_failure none -> out_of_memory\n"
        "tiny_1b_bf16[H100x8]     1 -> 1.25  -20.0 % (slower)  step_time_s 1 -> 1.25; tokens_per_s 65536 -> 52428.8; mfu 40% -> 32%\n"
        "tiny_1b_bf16[H100x24]          0.4                    tolerance 5% -> 3%; proxy false -> true; micro_batch_size none -> 2\n"
        "tiny_1b_bf16[H100x16]   0.5 -> 0.4  +25.0 % (faster)  step_time_s 0.5 -> 0.4\n"
        "\n"
        "removed: tiny_1b_bf16[H100x40]\n"
        "added: tiny_1b_bf16[H100x48]\n"
        "5 rows before, 5 after: 1 slower, 1 faster, 2 otherwise changed, 1 removed, 1 added\n"
    )
    found: dict[str, Any] = json.loads(gsw("rows", "--json", "--diff", *releases, status=1).out)
    assert (found["before"], found["after"]) == (5, 5)
    assert [(change["id"][18:-1], change["kind"]) for change in found["changes"]] == [
        ("32", "changed"),
        ("8", "changed"),
        ("24", "changed"),
        ("16", "changed"),
        ("40", "removed"),
        ("48", "added"),
    ]
    assert found["changes"][1]["judged_s"] == {"before": 1.0, "after": 1.25}
    assert found["changes"][1]["figures"]["mfu"] == {"before": 0.4, "after": 0.32}
    assert found["changes"][1]["throughput_change"] == pytest.approx(-0.2)
    assert found["changes"][4]["judged_s"] == {"before": 0.25, "after": None}
    assert found["changes"][0]["throughput_change"] is None


def test_no_difference_but_in_words_and_places(releases: tuple[str, str], gsw: Gsw) -> None:
    text = Path("a.yaml").read_text()
    Path("c.yaml").write_text(text.replace("a.yaml.md", "c.md").replace("line: 1", "notes: a word, line: 7"))
    assert gsw("rows", "--diff", "a.yaml", "c.yaml").out == "5 rows, no difference\n"
    assert json.loads(gsw("rows", "--json", "--diff", "a.yaml", "c.yaml").out)["changes"] == []


def compared(gsw: Gsw, before: str, after: str, head: tuple[str, str] = ("", "")) -> dict[str, Any]:
    for name, row in {"c.yaml": before, "d.yaml": after}.items():
        Path(name).write_text(TABLE.format(document="x.md", rows=f"      - {{{row}, line: 1}}\n").replace(*head))
    (change,) = json.loads(gsw("rows", "--json", "--diff", "c.yaml", "d.yaml", status=1).out)["changes"]
    found: dict[str, Any] = change
    return found


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("step_time_s: 1", "step_time_s: 1, global_batch_size: 128", 1.0),
        ("step_time_s: 1", "step_time_s: 2, global_batch_size: 128", 0.0),
        ("step_time_s: 4.324", "step_time_s: 12.972, global_batch_size: 192", 0.0),
        ("step_time_s: 1", "step_time_s: 1, sequence_length: 512", -0.5),
        ("step_time_s: 1", "step_time_s: 1.25", -0.2),
        ("step_time_s: 1", "metric: checkpoint_save_time, checkpoint_save_time_s: 17.9", None),
        # Of saving a checkpoint, the batch says nothing.
        (
            "metric: checkpoint_save_time, checkpoint_save_time_s: 10",
            "metric: checkpoint_save_time, checkpoint_save_time_s: 20, global_batch_size: 128",
            -0.5,
        ),
    ],
)
def test_throughput_is_of_tokens_and_not_of_steps(
    releases: tuple[str, str], gsw: Gsw, before: str, after: str, change: float | None
) -> None:
    found = compared(gsw, f"gpus: 8, {before}", f"gpus: 8, {after}")
    assert found["throughput_change"] == (None if change is None else pytest.approx(change))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("step_time_s: 1", "step_time_s: 2", -0.5),
        ("step_time_s: 1", "step_time_s: 2, global_batch_size: 64", None),
        ("step_time_s: 1, tokens_per_s: 100", "step_time_s: 2, tokens_per_s: 120, global_batch_size: 64", 327.68 - 1),
        ("step_time_s: 1, samples_per_s: 10", "step_time_s: 2, samples_per_s: 15, sequence_length: 512", -0.25),
        ("step_time_s: 1", "step_time_s: 2, sequence_length: 512", None),
    ],
)
def test_throughput_where_a_batch_is_not_known(
    releases: tuple[str, str], gsw: Gsw, before: str, after: str, change: float | None
) -> None:
    found = compared(gsw, f"gpus: 8, {before}", f"gpus: 8, {after}", ("global_batch_size: 64\ntables", "tables"))
    assert found["throughput_change"] == (None if change is None else pytest.approx(change))


def test_secrets_are_hidden_in_both_forms(releases: tuple[str, str], gsw: Gsw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", "swordfish")
    text = Path("a.yaml").read_text()
    head = "steps: 20, environment: {{DB_PASSWORD: {}, NOTE: {}}}"
    for name, words in {"c.yaml": ("hunter", "x"), "d.yaml": ("letmein", "swordfish")}.items():
        Path(name).write_text(text.replace("steps: 20", head.format(*words)))
    for form in ([], ["--json"]):
        out = gsw("rows", *form, "--diff", "c.yaml", "d.yaml", status=1).out
        assert not [word for word in ("hunter", "letmein", "swordfish") if word in out]
    hidden = "  recipe.environment.DB_PASSWORD *** -> ***; recipe.environment.NOTE x -> ***\n"
    assert hidden in gsw("rows", "--diff", "c.yaml", "d.yaml", status=1).out


def test_two_rows_of_one_name(releases: tuple[str, str], gsw: Gsw) -> None:
    Path("twice").mkdir()
    for name in ("one.yaml", "two.yaml"):
        Path("twice", name).write_text(Path("a.yaml").read_text())
    assert gsw("rows", "--diff", "twice", "b.yaml", status=2).err == (
        "pytest-gsw rows: two rows are called tiny_1b_bf16[H100x8]:\n"
        "  twice/one.yaml:13\n  twice/two.yaml:13\nnext: compare files one by one\n"
    )
