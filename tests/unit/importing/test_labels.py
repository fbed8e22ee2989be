"""Labels: one form for the texts of columns, rows, titles, headings and cells, and what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.importing.facts import Family, Key, bundled_families, read_facts, settings_of
from pytest_gsw.importing.tables import Cell, plain
from pytest_gsw.tables.metrics import DOCUMENTED, FURTHER
from tests.endless import it_ends


def family(tmp_path: Path, labels: str, name: str = "ours") -> Family:
    path = tmp_path / "facts.yaml"
    path.write_text(f"labels:\n  {name}:\n{labels}", encoding="utf-8")
    return read_facts(path).families[name]


def meaning(of: Family, text: str) -> tuple[str, dict[str, str]] | None:
    """Key and values of a text."""
    found = of.meaning(text, Cell(text, 1, 1))
    return None if found is None else (found.key.name, {key: cell.text for key, cell in found.values.items()})


def test_the_bundled_families() -> None:
    assert sorted(bundled_families()) == ["gpt2-experiments", "llm-foundry", "megatron-bridge", "recipes"]


def test_a_label_is_the_whole_text_whatever_its_capitals_and_spaces(tmp_path: Path) -> None:
    ours = family(
        tmp_path, "    Step  Time (s): {key: step_time_s * 0.001}\n    Speedup: {}\n    MFU: {key: mfu %, dtype: fp8}\n"
    )
    found = ours.meaning("step time (S)", Cell("", 1, 1))
    assert found is not None
    assert found.key == Key("step_time_s", "0.001")
    assert meaning(ours, "Speedup") == ("", {})
    assert meaning(ours, "MFU") == ("mfu", {"dtype": "fp8"})
    assert meaning(ours, "Step Time") is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Llama 3 70b BF16", {"size": "70b", "dtype": "bf16"}),
        ("Llama 3 70b BF16 (TP=8, PP=9)", {"size": "70b", "dtype": "bf16"}),
        ("Llama 3 70b Strong FP8", {"size": "70b", "dtype": "fp8", "case": "strong"}),
        ("Llama 3 70b BF16 (new)", None),
        ("Llama 3 70b BF17", None),
        ("Llama 3 BF16", None),
        ("# Llama 3 70b BF16", None),
        ("Model | Llama 3 70b BF16", None),
    ],
)
def test_the_first_label_that_a_text_fits(tmp_path: Path, text: str, values: dict[str, str] | None) -> None:
    ours = family(tmp_path, '    "{} {size} Strong {dtype}": {case: strong}\n    "{} {size} {dtype}": {}\n')
    assert meaning(ours, text) == (None if values is None else ("", values))


@pytest.mark.parametrize(
    ("label", "text", "found"),
    [
        ('"{gpus * 64}x v5p-128": {accelerator: v5p}', "2x v5p-128", ("", {"gpus": "128", "accelerator": "v5p"})),
        ('"v5e-{gpus} ({dtype})": {key: mfu}', "v5e-256 (bf16)", ("mfu", {"gpus": "256", "dtype": "bf16"})),
        ('"{size} MFU": {key: mfu}', "16B MFU", ("mfu", {"size": "16b"})),
        ('"# {release} results": {}', "# 25.07 results", ("", {"release": "25.07"})),
        ('"# Model: {model}": {}', "# Model: Our Own", ("", {"model": "our-own"})),
        ('"GPU | h100_80gb": {accelerator: H100}', "gpu | H100_80GB", ("", {"accelerator": "H100"})),
        ('"{} | OOM": {expected_failure: out_of_memory}', "Any | oom", ("", {"expected_failure": "out_of_memory"})),
        ('"TPS | {tokens_per_s}*": {}', "TPS | 4,096.5*", ("", {"tokens_per_s": "4096.5"})),
        ('"P | FSDP {fsdp}, CP {cp}": {}', "P | FSDP 4, CP 2", ("", {"fsdp": "4", "cp": "2"})),
        ('"N | {nodes}x{gpus_per_node}": {}', "N | 2x8", ("", {"nodes": "2", "gpus_per_node": "8"})),
        ('"C | {attributes.compile}, {}": {}', "C | yes, no", ("", {"attributes.compile": "yes"})),
        ('"P | {mfu %} percent": {}', "P | 41.5 percent", ("", {"mfu": "41.5%"})),
        ('"{gpus}x {accelerator}": {}', "0x H100", None),
        ('"a {model}": {}', "a ", None),
        ('"a.b* [{size}]": {}', "a.b* [70b]", ("", {"size": "70b"})),
        ('"a.b* [{size}]": {}', "axb [70b]", None),
    ],
)
def test_places_in_any_text(tmp_path: Path, label: str, text: str, found: tuple[str, dict[str, str]] | None) -> None:
    assert meaning(family(tmp_path, f"    {label}\n"), text) == found


def test_a_word_in_a_place_may_have_a_meaning_of_its_own(tmp_path: Path) -> None:
    ours = family(tmp_path, '    "# Model: {model}": {}\n    "Model | LLAMA3_70B": {model: llama3, size: 70b}\n')
    assert meaning(ours, "# Model: LLAMA3_70B") == ("", {"model": "llama3", "size": "70b"})


@pytest.mark.parametrize("key", [*DOCUMENTED, *FURTHER])
def test_each_metric_can_be_a_label(tmp_path: Path, key: str) -> None:
    assert meaning(family(tmp_path, f"    Column: {{key: {key}}}\n"), "Column") == (key, {})


def test_settings_of_a_title() -> None:
    found = settings_of(Cell("Llama (FSDP+DP, TP=8,PP = 9, VP=None)", 3, 1))
    assert [(name, cell.text) for name, cell in found] == [("TP", "8"), ("PP", "9"), ("VP", "None")]


def test_labels_of_a_family_are_added_to(tmp_path: Path) -> None:
    recipes = family(tmp_path, '    GPUs: {key: nodes}\n    "{model} of {size}": {}\n', "recipes")
    assert meaning(recipes, "GPUs") == ("nodes", {})
    assert meaning(recipes, "GBS") == ("global_batch_size", {})
    assert meaning(recipes, "Ours of 8B") == ("", {"model": "ours", "size": "8b"})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=60))
def test_the_line_to_add_declares_any_text(tmp_path: Path, text: str) -> None:
    text = plain(text.replace("{", "").replace("}", ""))
    if not text or text in {"names", "runs", "titles", "headings", "cells"}:
        return
    line = Family("ours").line_to_add(text, "key: step_time_s")
    assert yaml.safe_load(line) == {"labels": {"ours": {text: {"key": "step_time_s"}}}}
    path = tmp_path / "facts.yaml"
    path.write_text(line, encoding="utf-8")
    assert meaning(read_facts(path).families["ours"], text) == ("step_time_s", {})


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("    Step: {key: step_time}\n", "got 'step_time', wanted a key of a row, a metric, or one with a factor"),
        ("    Step: {key: step_time_s * x}\n", "got 'step_time_s * x', wanted a key of a row"),
        ("    Step: {kye: step_time_s}\n", "unknown key; did you mean 'key'?"),
        ('    "{size}": {siez: 70b}\n', "unknown key; did you mean 'size'?"),
        ("    Step: step_time_s\n", "labels.ours.Step: wanted a mapping of keys"),
        # The forms before labels were one table.
        *(
            (f"    {former}\n", 'as in {"GPUs": {key: gpus}, "# {release} results": {}, "GPU | h100_80gb": ')
            for former in (
                *("names: {Step: step_time_s}", 'runs: {"{gpus}x": {}}', 'titles: {"{size}": {}}'),
                *('headings: {"{release}": {}}', "cells: [{cell: OOM, expected_failure: out_of_memory}]"),
            )
        ),
    ],
)
def test_labels_that_are_wrong(tmp_path: Path, labels: str, problem: str) -> None:
    with pytest.raises(FileError, match=r"facts\.yaml") as error:
        family(tmp_path, labels)
    assert problem in str(error.value)


@pytest.mark.parametrize("place", ["speed", "gpus * x", "attributes.", "GPUS"])
def test_a_place_for_what_is_no_key(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigurationError, match=r"facts\.yaml:3: .* but that is no key"):
        family(tmp_path, f'    "{{{place}}} s": {{}}\n')


@pytest.mark.parametrize("text", ["a" * 300, "1" * 300, "1x" * 150, "70b " * 75, "a1 " * 100, " " * 300])
def test_a_hostile_text_is_matched_in_one_pass(tmp_path: Path, text: str) -> None:
    places = " ".join(["{}{size}{}{gpus}x"] * 10)
    ours = family(tmp_path, f'    "{places}": {{}}\n    "{"{}a" * 60}": {{}}\n    "{"{model}1{}" * 18}": {{}}\n')
    with it_ends():
        for _ in range(1000):
            meaning(ours, f"{text}!")
