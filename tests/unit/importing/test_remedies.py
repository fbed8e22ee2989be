"""Each line that import prints behind ``add`` is YAML, and resolves the remark above it and no other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gsw.importing.document import Imported, import_document
from pytest_gsw.importing.facts import read_facts

#: Pages on which import has something to remark, by the shapes of public ones.
COLUMNS = """\
# A

| Llama3 70b BF16 (TP=4, XP=2) | Throughput on 8x H100 GPUs (GBS=64) | 16 chips | 32x H100 GPUs (ZZ=1) |
|---|---|---|---|
| Depth | 40 | 80 | 80 |
| MBS | ~1 | 2 | 2.5 |
| Training step time (seconds per step) | 8.7  5 | 9.00 | 4,1 |
| Throughput in tokens per second | ~59918 | 116508 | 7 |
| Throughput in tokens per second | 59919 | 116508 | 8 |
| Model flops utilization | 154.1% | n/a | 54 |
"""
LINES = """\
## Results "A", {b}: c

| GPUs | Batch size | Throughput - TF32* | Throughput - mixed precision* | Speedup | Throughput - mixed precision* | MFU |
|---|---|---|---|---|---|---|
| 8 | 128 | 317 | 580 | 1.83 | 590 | 41.2% |
| 16 | 256 | ~634 | x1160 | 1.83 | | 41 |
| ~32 | 512 | 1268 | 2320 | 1.83 | 1 | 41% |
|  | 512 | 1268 | 2320 | 1.83 | 1 | 41% |
| 64 | 1024 | 1 |

| Layers | Step time (s) |
|---|---|
| 2 | 3.5 |

| GPUs | TP | CP |
|---|---|---|
| 8 | 2 | 1 |

| GPUs | TP | CP |
|---|---|---|
| 8 | 4 | 1 |
"""
CONTRADICTIONS = """\
| Size | Precision | GPUs | Seq | GBS | MBS | TP | PP | DP | Step time (s) | Tokens/s | Tokens/s/GPU |
|---|---|---|---|---|---|---|---|---|---|---|---|
| 8b | BF16 | 8 | 4096 | 64 | 1 | 1 | 1 | 8 | 2.0 | 131072 | 16384 |
| 8b | BF16 | 16 | 4096 | 64 | 3 | 1 | 1 | 8 | 1.0 | 131072 | 16385 |
| 8b | BF16 | 16 | 4096 | 64 | 1 | 1 | 1 | 16 | 1.0 | 262144 | 11111 |
"""
FACTS = {
    COLUMNS: {},
    LINES: {"dtype": "bf16", "accelerator": "A100", "size": "7b"},
    CONTRADICTIONS: {"accelerator": "H100"},
}
LABELS = {
    COLUMNS: {"Speedup": {}},
    LINES: {
        "Throughput - TF32*": {"key": "samples_per_s", "dtype": "tf32"},
        "Throughput - mixed precision*": {"key": "samples_per_s", "dtype": "fp16"},
    },
    CONTRADICTIONS: {"Seq": {"key": "sequence_length"}},
}
#: What a user writes in place of a word in capitals, by the key before it.
VALUES = {"gpus": "24", "mfu": "41%", "NAME": "own", "KEY": "attributes.own", "VALUE": "12", "accelerator": "GB200"}


def facts_of(page: str) -> dict[str, Any]:
    entry = {"document": "doc.md", "model": "llama3", "framework": "nemo", "sequence_length": "8192", **FACTS[page]}
    return {"labels": {"recipes": LABELS[page]}, "documents": [entry]}


def imported(tmp_path: Path, page: str, facts: Mapping[str, Any]) -> Imported:
    document, path = tmp_path / "doc.md", tmp_path / "facts.yaml"
    document.write_text(page, encoding="utf-8")
    path.write_text(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return import_document(document, read_facts(path).of("doc.md"))


def filled_in(value: Any, key: str = "") -> Any:
    """A remedy with values in place of words in capitals."""
    if isinstance(value, dict):
        return {name: filled_in(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled_in(inner) for inner in value]
    return VALUES.get(key, VALUES[value]) if value in {"KEY", "VALUE", "NAME"} else value


def applied(facts: Mapping[str, Any], add: str) -> dict[str, Any]:
    """The facts with a line that was printed; a part of a document goes to its entry."""
    remedy = filled_in(yaml.safe_load(add))
    result: dict[str, Any] = yaml.safe_load(yaml.safe_dump(facts, sort_keys=False))
    for name, labels in remedy.pop("labels", {}).items():
        result["labels"][name] = {**result["labels"].get(name, {}), **labels}
    (document,) = result["documents"]
    document["tables"] = [*document.get("tables", []), *remedy.pop("tables", [])]
    document.update(remedy)
    return result


def remarks(found: Imported) -> list[tuple[int, str]]:
    """What is remarked; of a row, without its name, which settings of others are part of."""
    return [(remark.line, re.sub(r"^\S+\[\S*\](, |: )", "", remark.text)) for remark in found.remarks]


def check_remedy(tmp_path: Path, page: str, facts: Mapping[str, Any], number: int) -> dict[str, Any]:
    found = imported(tmp_path, page, facts)
    changed = applied(facts, found.remarks[number].add)
    before, after = Counter(remarks(found)), Counter(remarks(imported(tmp_path, page, changed)))
    resolved = remarks(found)[number]
    assert after[resolved] == before[resolved] - 1, found.remarks[number]
    others = {remark for remark in before - after if remark != resolved}
    # Rows may differ once a column is read.
    assert not [text for _, text in others if not text.startswith("nothing distinguishes")], found.remarks[number]
    return changed


PAGES = [
    pytest.param(page, id=name) for name, page in (("columns", COLUMNS), ("lines", LINES), ("wrong", CONTRADICTIONS))
]


@pytest.mark.parametrize("page", PAGES)
def test_each_remedy_resolves_its_remark_and_no_other(tmp_path: Path, page: str) -> None:
    found = imported(tmp_path, page, facts_of(page))
    with_remedy = [number for number, remark in enumerate(found.remarks) if remark.add]
    assert len(with_remedy) >= 3
    for number in with_remedy:
        check_remedy(tmp_path, page, facts_of(page), number)


@pytest.mark.parametrize("page", PAGES)
def test_all_remedies_one_by_one_leave_nothing_that_has_one(tmp_path: Path, page: str) -> None:
    facts = facts_of(page)
    for _ in range(60):
        found = imported(tmp_path, page, facts)
        number = next((number for number, remark in enumerate(found.remarks) if remark.add), None)
        if number is None:
            return
        facts = check_remedy(tmp_path, page, facts, number)
    pytest.fail("a remedy makes a remark that has another one, without an end")


_CELLS = st.sampled_from(
    ["8", "~8", "8.7 5", "n/a", "", "0", "1e3", '"', "a: {b", "128 and 256", "12 %", "x|y", "- {", "[1]"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([COLUMNS, LINES, CONTRADICTIONS]), st.lists(st.tuples(st.integers(0, 60), _CELLS), max_size=6))
def test_remedies_of_pages_with_any_cells(tmp_path: Path, page: str, cells: list[tuple[int, str]]) -> None:
    facts, pieces = facts_of(page), page.split("|")
    for at, cell in cells:
        place = at % len(pieces)
        if "\n" not in pieces[place] and "---" not in pieces[place]:
            pieces[place] = f" {cell} "
    text = "|".join(pieces)
    found = imported(tmp_path, text, facts)
    for number, remark in enumerate(found.remarks):
        assert not remark.add or isinstance(yaml.safe_load(remark.add), dict)
        if remark.add and number == 0:
            check_remedy(tmp_path, text, facts, number)
