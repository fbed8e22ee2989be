"""The bundled tables of the recipes' releases; with a checkout of the recipes, how they are made.

``GSW_RECIPES`` is a clone of NVIDIA/dgxc-benchmarking that has its tags, ``GSW_MEGATRON_BRIDGE`` one of Megatron-Bridge.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.importing.document import import_document
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.stats.figures import documented_peak_flops, mfu_note
from pytest_gsw.stats.figures import figures as performance_figures
from pytest_gsw.tables.bundled import RELEASES_DIRECTORY, bundled_baselines, bundled_releases, is_table
from pytest_gsw.tables.load import StatedRow, load_table, read_tables, stated_rows
from tests.integration.conftest import Gsw

ROOT = Path(__file__).resolve().parents[2]
RELEASES = bundled_releases()
#: One for each release with which figures have changed.
DIRECTORIES = sorted(path.parent for path in (bundled_baselines() / RELEASES_DIRECTORY).glob("*/facts.yaml"))
#: By release of the NeMo container, of Megatron-Bridge's summaries.
BRIDGE = sorted((bundled_baselines() / RELEASES_DIRECTORY).glob("2*/megatron-bridge"))
TABLES = sorted(path for directory in DIRECTORIES for path in directory.glob("*/*.yaml"))
BRIDGE_TABLES = sorted(path for directory in BRIDGE for path in directory.glob("*.yaml"))
OF_RECIPES = {name: paths for name, paths in RELEASES.items() if not {*paths} & {*BRIDGE_TABLES}}
#: Of NVIDIA-NeMo/Megatron-Bridge, whose summaries are bundled.
COMMIT = "067f987df03b8355b03192d88d70f1709fedf51a"


#: What a README states of a row.
FIGURES = ("gpus", "step_time_s", "samples_per_s")

RECIPES = os.environ.get("GSW_RECIPES")
needs_recipes = pytest.mark.skipif(RECIPES is None, reason="GSW_RECIPES names no checkout of the recipes")


def test_the_releases_that_are_bundled() -> None:
    assert sorted(OF_RECIPES) == [
        *("24.11.1", "25.01", "25.01.1", "25.02", "25.02.01", "25.02.02", "25.03", "25.04", "25.04.01", "25.04.02"),
        *("25.05", "25.05.01", "25.05.02", "25.05.03", "25.05.04", "25.05.05"),
    ]


def page_table(heads: list[str], lines: list[tuple[str, int, int, str]]) -> str:
    """A table of the page of releases: equal releases in succession share a line."""
    text = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key, group in itertools.groupby(lines, key=lambda line: line[1:]):
        releases = ", ".join(line[0] for line in group)
        text.append(f"| {releases} | {' | '.join(map(str, key))} |")
    return "\n".join(text) + "\n"


def counts(release: str) -> tuple[int, int]:
    return len(RELEASES[release]), len(read_tables(RELEASES[release]).rows)


def test_the_tables_of_the_page_are_those_of_the_data() -> None:
    page = (ROOT / "docs" / "releases.md").read_text()
    recipes = []
    for release in OF_RECIPES:
        directories = sorted({row.recipe.directory for row in read_tables(RELEASES[release]).rows})
        recipes.append((release, *counts(release), ", ".join(directories)))
    assert page_table(["release", "tables", "rows", "recipes"], recipes) in page
    bridge = []
    for directory in BRIDGE:
        release = f"nemo:{directory.parent.name}"
        chips = sorted({row.accelerator for row in read_tables(RELEASES[release]).rows})
        bridge.append((release, *counts(release), ", ".join(chips)))
    assert page_table(["container", "tables", "rows", "accelerators"], bridge) in page


@pytest.mark.parametrize("release", OF_RECIPES)
def test_every_row_of_a_release_can_run(release: str) -> None:
    found = read_tables(RELEASES[release])
    assert not found.blanks
    assert [row.id for row in found.rows if row.judged is None] == []
    assert {release in row.source.releases for row in found.rows} == {True}
    assert [name for name, count in Counter(row.id for row in found.rows).items() if count > 1] == []


def test_recipes_that_submit_by_themselves_are_launched_so() -> None:
    rows = [row for path in TABLES for row in load_table(path)]
    by_themselves = {(row.source.release, row.recipe.directory) for row in rows if row.recipe.launcher == "nemo-run"}
    others = {(row.source.release, row.recipe.directory) for row in rows if row.recipe.launcher is None}
    early = {directory for release, directory in by_themselves if str(release) < "v25.05"}
    assert early == {"llama3/finetuning", "ft_llama3", "llama3.1", "nemotron"}
    assert {directory for release, directory in others if str(release) > "v25.02"} == {"maxtext", "nemo_megatron"}
    assert not by_themselves & others


def test_every_row_has_an_mfu_or_says_why_not() -> None:
    tables = [path for path in (bundled_baselines() / RELEASES_DIRECTORY).rglob("*.yaml") if is_table(path)]
    rows = [row for path in tables for row in load_table(path)]
    without: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        peak_flops = documented_peak_flops(row)
        mfu = performance_figures(row, row.documented.step_time_s, peak_flops).mfu
        stated = row.documented.tflops_per_gpu or row.documented.mfu
        assert mfu is not None or not (stated and peak_flops), row.id
        if mfu is None:
            without[row.framework, row.workload, mfu_note(row)] += 1
    assert len(rows) == 673
    # Their READMEs state samples/s alone.
    why = "no FLOPs: neither formula nor document gives them"
    assert without == {("hf", "llama2_70b", why): 14, ("hf", "mistral_7b", why): 12}


# ---- Megatron-Bridge's summaries -------------------------------------------------------------------


def test_the_rows_of_megatron_bridge() -> None:
    for directory in BRIDGE:
        release = directory.parent.name
        found = read_tables(RELEASES[f"nemo:{release}"])
        assert not found.blanks
        assert len({row.id for row in found.rows}) == len(found.rows)
        for row in found.rows:
            assert row.framework == "megatron-bridge"
            assert row.statistic == "mean[35:44]"
            assert row.source.releases == (f"nemo:{release}",)
            assert f"{release} NeMo Container" in row.source.section


@pytest.mark.skipif("GSW_MEGATRON_BRIDGE" not in os.environ, reason="GSW_MEGATRON_BRIDGE names no checkout of it")
def test_import_makes_the_tables_of_megatron_bridge_again_byte_for_byte(gsw: Gsw, tmp_path: Path) -> None:
    names = list(read_facts(bundled_baselines() / RELEASES_DIRECTORY / "facts.yaml").documents)
    for name in names:
        repository, at = os.environ["GSW_MEGATRON_BRIDGE"], f"{COMMIT}:{name}"
        shown = subprocess.run(["git", "-C", repository, "show", at], capture_output=True, check=True)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(shown.stdout)
    made = tmp_path / "baselines" / "releases"
    made.mkdir(parents=True)
    shutil.copy(ROOT / "baselines" / "baseline.schema.json", tmp_path / "baselines")
    shutil.copy(bundled_baselines() / RELEASES_DIRECTORY / "facts.yaml", made)
    gsw("import", tmp_path, "-o", made)
    found = {made / path.relative_to(bundled_baselines() / RELEASES_DIRECTORY): path for path in BRIDGE_TABLES}
    assert sorted(made.glob("*/*/*.yaml")) == sorted(found)
    assert [path.read_text() for path in found] == [path.read_text() for path in found.values()]


def test_the_rows_of_verification_cards_are_there_to_be_selected() -> None:
    cards = bundled_baselines() / RELEASES_DIRECTORY / "cards"
    found = read_tables([cards])
    assert (len(found.rows), len(found.blanks)) == (14, 7)
    assert {row.statistic for row in found.rows} == {"mean[-10:]"}
    assert {blank.key for row in found.blanks for blank in row.blanks} == {"sequence_length"}
    assert not any(cards in path.parents for paths in RELEASES.values() for path in paths)


def test_rows_of_cards_run_on_the_demo(pytester: pytest.Pytester) -> None:
    cards = bundled_baselines() / RELEASES_DIRECTORY / "cards"
    found = read_tables([cards])
    rows = (found.rows[0].id, found.blanks[0].id)
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={cards}", "-k", " or ".join(rows))
    assert result.parseoutcomes().items() >= {"passed": 1, "errors": 1}.items()  # a blank stops its row


@pytest.mark.skipif("GSW_MEGATRON_BRIDGE" not in os.environ, reason="GSW_MEGATRON_BRIDGE names no checkout of it")
def test_import_makes_the_tables_of_verification_cards_again_byte_for_byte(gsw: Gsw, tmp_path: Path) -> None:
    git = ["git", "-C", os.environ["GSW_MEGATRON_BRIDGE"]]
    below = "examples/model_verification_cards/"
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", COMMIT, below], capture_output=True, check=True, text=True
    )
    for name in listed.stdout.splitlines():
        if name.endswith("/card.yaml"):
            shown = subprocess.run([*git, "show", f"{COMMIT}:{name}"], capture_output=True, check=True)
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_bytes(shown.stdout)
    made = tmp_path / "baselines" / "releases" / "cards"
    made.mkdir(parents=True)
    shutil.copy(ROOT / "baselines" / "baseline.schema.json", tmp_path / "baselines")
    gsw("import", "--cards", str(tmp_path / "examples"), "-o", made)
    bundled = bundled_baselines() / RELEASES_DIRECTORY / "cards"
    assert texts_below(made) == texts_below(bundled)


def texts_below(directory: Path) -> dict[Path, str]:
    return {path.relative_to(directory): path.read_text() for path in directory.rglob("*.*")}


# ---- With a checkout of the recipes ----------------------------------------------------------------


def readme(release: str, path: str, below: Path) -> Path:
    """A README of one release, in a directory as in the repository."""
    assert RECIPES is not None
    shown = subprocess.run(["git", "-C", RECIPES, "show", f"v{release}:{path}"], capture_output=True, check=True)
    copy = below / release / path
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(shown.stdout)
    return copy


@needs_recipes
@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_import_makes_the_tables_of_a_release_again_byte_for_byte(gsw: Gsw, directory: Path, tmp_path: Path) -> None:
    for name in read_facts(directory / "facts.yaml").documents:
        readme(directory.name, name, tmp_path / "readmes")
    made = tmp_path / "baselines" / "releases" / directory.name
    made.mkdir(parents=True)
    shutil.copy(ROOT / "baselines" / "baseline.schema.json", tmp_path / "baselines")
    shutil.copy(directory / "facts.yaml", made)
    gsw("import", str(tmp_path / "readmes" / directory.name), "-o", made)
    assert texts_below(made) == texts_below(directory)


@needs_recipes
@pytest.mark.parametrize("release", OF_RECIPES)
def test_a_release_has_the_figures_of_its_own_readmes(release: str, tmp_path: Path) -> None:
    """Each README with tables of training is bundled, or what it says is what an earlier release's says."""
    assert RECIPES is not None
    listed = subprocess.run(
        ["git", "-C", RECIPES, "ls-tree", "-r", "--name-only", f"v{release}"],
        capture_output=True,
        check=True,
        text=True,
    )
    labels = read_facts(None)
    names = [name for name in listed.stdout.splitlines() if re.search(r"/README\w*\.md$", name, re.IGNORECASE)]
    read = (import_document(readme(release, name, tmp_path), labels.of(name), checked=False) for name in names)
    documented = [row for one in read for row in one.rows]
    bundled = [row for path in RELEASES[release] for row in stated_rows(path)]
    read_only, bundled_only = Counter(map(figures, documented)), Counter(map(figures, bundled))
    read_only, bundled_only = read_only - bundled_only, bundled_only - read_only
    # The step time of one cell, '8.7  5', is typed in facts.
    assert [one[:-1] for one in bundled_only] == list(read_only)
    assert bundled_only.total() <= 1


def figures(row: StatedRow) -> tuple[Any, ...]:
    """What a row is of, and the figures that tell it from another release's."""
    texts = (row.values[key].text for key in ("dtype", "accelerator"))
    numbers = (float(row.values[key].text) for key in FIGURES if key in row.values)
    return (*texts, *numbers)
