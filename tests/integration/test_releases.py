"""The bundled tables of the recipes' releases; with a checkout of the recipes, how they are made.

``GSW_RECIPES`` is a clone of NVIDIA/dgxc-benchmarking that has its tags, ``GSW_MEGATRON_BRIDGE`` one of Megatron-Bridge,
``GSW_NEMO_RL`` of NVIDIA-NeMo/RL, and ``GSW_TPU_RECIPES`` of AI-Hypercomputer/tpu-recipes.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
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
from pytest_gsw.tables.load import load_table, read_tables, table_files
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.stated_rows import StatedRow, stated_rows
from tests.integration.conftest import Gsw

ROOT = Path(__file__).resolve().parents[2]
RELEASES = bundled_releases()
#: One for each release with which figures have changed.
DIRECTORIES = sorted(path.parent for path in (bundled_baselines() / RELEASES_DIRECTORY).glob("2*/facts.yaml"))
#: By release of the NeMo container, of Megatron-Bridge's summaries.
BRIDGE = sorted((bundled_baselines() / RELEASES_DIRECTORY).glob("2*/megatron-bridge"))
TABLES = sorted(path for directory in DIRECTORIES for path in directory.glob("*/*.yaml"))
BRIDGE_TABLES = sorted(path for directory in BRIDGE for path in directory.glob("*.yaml"))
OF_RECIPES = {name: paths for name, paths in RELEASES.items() if not {*paths} & {*BRIDGE_TABLES}}
#: Of NVIDIA-NeMo/Megatron-Bridge, whose summaries are bundled.
COMMIT = "067f987df03b8355b03192d88d70f1709fedf51a"
#: The directories of no release but the cards: the variable that names a checkout of the documents, and their commit.
BY_PATH = {
    "nemo-rl": ("GSW_NEMO_RL", "7ea279abfbeb698b092856d0dab61e7cf39bc909"),
    "ironwood": ("GSW_TPU_RECIPES", "c8cfe2f689081d36701a101cd73a70965d80926b"),
}


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
    recipes = [(release, *counts(release)) for release in OF_RECIPES]
    assert page_table(["release", "tables", "rows"], recipes) in page
    bridge = []
    for directory in BRIDGE:
        release = f"nemo:{directory.parent.name}"
        chips = sorted({row.accelerator for row in read_tables(RELEASES[release]).rows})
        bridge.append((release, *counts(release), ", ".join(chips)))
    assert page_table(["container", "tables", "rows", "accelerators"], bridge) in page
    by_path = []
    for name in ("cards", *BY_PATH, "primus"):
        found = read_tables([bundled_baselines() / RELEASES_DIRECTORY / name])
        rows = len(found.rows) + len(found.blanks)
        chips = sorted({row.accelerator for row in found.rows})
        tables = len({row.location.path for row in (*found.rows, *found.blanks)})
        by_path.append((f"`{name}`", tables, rows, ", ".join(chips)))
    assert page_table(["directory", "tables", "rows", "accelerators"], by_path) in page


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
    rows = [row for path in tables for row in load_table(path) if row.documented.value is None]
    without: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        peak_flops = documented_peak_flops(row)
        mfu = performance_figures(row, row.documented.step_time_s, peak_flops).mfu
        stated = row.documented.tflops_per_gpu or row.documented.mfu
        assert mfu is not None or not (stated and peak_flops), row.id
        if mfu is None:
            without[row.workload.framework, row.workload.name, mfu_note(row)] += 1
    assert len(rows) == 673 + 22 + 2
    # Their READMEs state samples/s alone, and AMD's guides FLOP/s that are not the model's.
    why = "no FLOPs: neither formula nor document gives them"
    of_amd = {("megatron", name, why): 1 for name in ("gdn_300m", "kda_300m")}
    assert without == {("hf", "llama2_70b", why): 14, ("hf", "mistral_7b", why): 12, **of_amd}


# ---- Megatron-Bridge's summaries -------------------------------------------------------------------


def test_the_rows_of_megatron_bridge() -> None:
    for directory in BRIDGE:
        release = directory.parent.name
        found = read_tables(RELEASES[f"nemo:{release}"])
        assert not found.blanks
        assert len({row.id for row in found.rows}) == len(found.rows)
        for row in found.rows:
            assert row.workload.framework == "megatron-bridge"
            assert row.criterion.statistic == "mean[35:44]"
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
    assert {row.criterion.statistic for row in found.rows} == {"mean[-10:]"}
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


# ---- Tables of no release, which are selected by their path ----------------------------------------


def by_path(name: str) -> tuple[Baseline, ...]:
    return read_tables([bundled_baselines() / RELEASES_DIRECTORY / name]).rows


@pytest.mark.parametrize(("name", "rows"), [("nemo-rl", 19), ("ironwood", 22), ("primus", 2)])
def test_every_row_of_no_release_can_run_and_no_session_has_it_unasked(name: str, rows: int) -> None:
    found = read_tables([bundled_baselines() / RELEASES_DIRECTORY / name])
    assert not found.blanks
    assert len({row.id for row in found.rows}) == len(found.rows) == rows
    there = {row.location.path for row in found.rows}
    assert not there & {path for paths in (*RELEASES.values(), table_files(bundled_baselines())) for path in paths}


@pytest.mark.parametrize("name", [*BY_PATH, "primus"])
def test_rows_of_no_release_run_on_the_demo(pytester: pytest.Pytester, name: str) -> None:
    place = bundled_baselines() / RELEASES_DIRECTORY / name
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={place}")
    result.assert_outcomes(passed=len(by_path(name)))


def test_a_cluster_of_gpus_never_has_the_rows_of_tpus(pytester: pytest.Pytester) -> None:
    place = bundled_baselines() / RELEASES_DIRECTORY / "ironwood"
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n  gpus: {scheduler: local, accelerator: H100, gpus_per_node: 8, stage: stage}\n"
        "  tpus: {scheduler: local, accelerator: TPU7x, gpus_per_node: 4, stage: stage}\n"
    )
    asked = pytester.runpytest("--gsw-cluster=gpus", f"--gsw-baselines={place}", "--collect-only", "-q")
    asked.assert_outcomes(deselected=22)
    unasked = pytester.runpytest("--gsw-cluster=tpus", "--collect-only", "-q")
    assert unasked.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    (advice,) = [line for line in unasked.outlines if line.startswith("next: ")]
    again = pytester.runpytest(*shlex.split(advice.partition(": pytest ")[2]), "--collect-only", "-q")
    assert len([line for line in again.outlines if "[TPU7xx" in line]) == 22


def test_rates_of_reinforcement_learning_follow_from_the_step_time() -> None:
    """The document's equation, with the average length, which has answers alone; the rates count prompts, too."""
    directory = bundled_baselines() / RELEASES_DIRECTORY / "nemo-rl"
    settled = {row.id for path in table_files(directory) for row in stated_rows(path) if row.acknowledged}
    assert settled == {"nemotron3_nano_30b_bf16[H100x128-0.6-1-step-off]"}
    for row in by_path("nemo-rl"):
        names = ("generation_batch_size", "average_length", "step_time_s")
        samples, length, seconds = (float(row.attributes[name].replace(",", "")) for name in names)
        assert row.documented.value is not None
        times = row.documented.value / (samples * length / seconds / row.gpus)
        assert (1 < times < 1.25) != (row.id in settled), row.id


def test_every_table_says_which_version_of_its_document_it_is_of() -> None:
    """Tables are newer or older than the package: each has its document, and its release or commit."""
    for path in (bundled_baselines() / RELEASES_DIRECTORY).rglob("*.yaml"):
        if is_table(path):
            for row in read_tables([path]).rows:
                assert row.source.document != path.name
                assert row.source.release or row.attributes.get("commit"), row.id
    commits = dict.fromkeys(BRIDGE, COMMIT)
    commits |= {bundled_baselines() / RELEASES_DIRECTORY / name: commit for name, (_, commit) in BY_PATH.items()}
    for directory, commit in commits.items():
        for path in filter(is_table, directory.rglob("*.yaml")):
            comment, _, _ = path.read_text().partition("\nmodel: ")
            assert f"at {commit[:8]}" in " ".join(comment.split()), path


def test_a_site_takes_newer_tables_than_its_packages(gsw: Gsw, pytester: pytest.Pytester, tmp_path: Path) -> None:
    """As the page of releases has it: the package's facts, a newer document, and the site's own directory."""
    document, site = tmp_path / "docs" / "about" / "performance-summary.md", tmp_path / "site"
    document.parent.mkdir(parents=True)
    site.mkdir()
    text = (bundled_baselines() / RELEASES_DIRECTORY / "nemo-rl" / "facts.yaml").read_text()
    (site / "facts.yaml").write_text(text[: text.index("    tables:\n")])  # its lines are the older document's
    head = (
        "Algorithm|Model|On/Off policy|T-Max Sequence Length|G-Average Seq len|#-GPUs|G-GBS|T-GBS|Generation [TP,PP]|"
        "Training [TP,CP,EP,PP,VPP]|Tokens / sec / GPU|Total Step time(s)"
    )
    cells = "GRPO|DeepSeek V3|On policy|1,536|700|256|512|512|[32,1]|[1,1,16,16,n/a]|14.0|120"
    rows = "\n".join(f"| {' | '.join(line.split('|'))} |" for line in (head, "|".join(["---"] * 12), cells))
    document.write_text(f"# Performance\n\n## NeMo RL v0.9\n\n### H100 BF16 Benchmarks\n\n{rows}\n")
    gsw("import", "--strict", tmp_path, "-o", site)
    (row,) = read_tables([site]).rows
    assert (row.id, row.source.release, row.documented.value) == (
        "deepseek_v3_bf16[H100x256-0.9-on-policy]",
        "0.9",
        14.0,
    )
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={site}")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("name", BY_PATH)
def test_import_makes_tables_of_no_release_again_byte_for_byte(gsw: Gsw, tmp_path: Path, name: str) -> None:
    variable, commit = BY_PATH[name]
    if variable not in os.environ:
        pytest.skip(f"{variable} names no checkout of its documents")
    bundled = bundled_baselines() / RELEASES_DIRECTORY / name
    for document in read_facts(bundled / "facts.yaml").documents:
        shown = subprocess.run(
            ["git", "-C", os.environ[variable], "show", f"{commit}:{document}"], capture_output=True, check=True
        )
        (tmp_path / document).parent.mkdir(parents=True)
        (tmp_path / document).write_bytes(shown.stdout)
    made = tmp_path / "baselines" / "releases" / name
    made.mkdir(parents=True)
    shutil.copy(ROOT / "baselines" / "baseline.schema.json", tmp_path / "baselines")
    shutil.copy(bundled / "facts.yaml", made)
    gsw("import", "--strict", tmp_path, "-o", made)
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
