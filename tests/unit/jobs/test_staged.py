"""Which release of the recipes is staged, by its own scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.jobs.staged import Staged, of_other_releases, release_problem, staged_release, told_of_stage
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline, Source

ROWS = {row.id: row for row in load_tables()}
GROK = ROWS["grok1_314b_fp8[H100x64]"]


def staged(root: Path, text: str, recipe: str = "grok1") -> Path:
    script = root / recipe / "launch.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    return script


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("export GSW_VERSION=25.02\n", "25.02"),
        ("#!/bin/bash\nset -eu\n  GSW_VERSION='25.04.01'  # of launch.sh\n", "25.04.01"),
        ("export GSW_VERSION=25.02\nGSW_VERSION=25.02\n", "25.02"),
        ("export GSW_VERSION=25.02\nexport GSW_VERSION=25.04\n", None),
        ('export GSW_VERSION=${GSW_VERSION?"is not set"}\n', None),
        ("# export GSW_VERSION=25.02\n", None),
        ("export GSW_VERSION=$(cat version)\nGSW_VERSION_SUFFIX=1\n", None),
        ("export GSW_VERSION=demo\n", None),
        ("", None),
    ],
)
def test_what_a_launch_script_says(tmp_path: Path, text: str, version: str | None) -> None:
    found = staged_release(staged(tmp_path, text))
    assert (found and found.version) == version


def test_where_the_launch_script_says_it(tmp_path: Path) -> None:
    found = staged_release(staged(tmp_path, "#!/bin/bash\n\nexport GSW_VERSION=25.02 # x\n"))
    assert found is not None
    assert (found.line, found.text) == (3, "export GSW_VERSION=25.02 # x")


@pytest.mark.parametrize("recipe", ["grok1", "deepseek_v3/pretrain/megatron_bridge"])
def test_what_the_file_of_a_checkout_says_where_the_script_says_nothing(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "release.yaml").write_text("# one version for all\n\nllmb_version: '26.06.00'\nother: 1\n")
    found = staged_release(staged(tmp_path, "#!/bin/bash\n", recipe))
    assert found == Staged("26.06.00", tmp_path / "release.yaml", 3, "llmb_version: '26.06.00'")
    own = staged_release(staged(tmp_path, "export GSW_VERSION=25.10\n", recipe))
    assert own is not None
    assert own.version == "25.10"
    # Whoever says two releases in the script itself may be run as either.
    several = "export GSW_VERSION=25.02\nexport GSW_VERSION=25.04\n"
    assert staged_release(staged(tmp_path, several, recipe)) is None


@pytest.mark.parametrize(
    "text", ["llmb_version: 'main'\n", "", "  llmb_version: '26.02'\n", "llmb_version: '1'\nllmb_version: '2'\n"]
)
def test_what_a_file_of_a_checkout_says_without_a_release(tmp_path: Path, text: str) -> None:
    (tmp_path / "release.yaml").write_text(text)
    assert staged_release(staged(tmp_path, "#!/bin/bash\n")) is None


def test_a_recipes_own_file_of_that_name_does_not_hide_that_of_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_bytes(b"llmb_version: '26.02'\r\n")
    script = staged(tmp_path, "#!/bin/bash\n")
    (script.parent / "release.yaml").write_text("maintainer: somebody\n")
    assert staged_release(script) == Staged("26.02", tmp_path / "release.yaml", 1, "llmb_version: '26.02'")


def test_no_script_says_nothing(tmp_path: Path) -> None:
    assert staged_release(tmp_path / "grok1" / "launch.sh") is None


def problems(script: Path, row: Baseline = GROK) -> list[str]:
    eos = Cluster("eos", "slurm")
    return [str(release_problem(row, staged, eos)) for row, staged in of_other_releases([(row, script)])]


def test_a_recipe_of_another_release_cannot_be_judged_by_the_row(tmp_path: Path) -> None:
    assert problems(tmp_path / "grok1" / "launch.sh") == []  # nothing is there yet
    script = staged(tmp_path, "export GSW_VERSION=25.04\n")
    assert problems(script) == []
    script.write_text("export GSW_VERSION=24.10\n")
    assert problems(script) == [
        f"""\
the staged recipe is of release 24.10, and the row's figures are of 25.02 to 25.04.02

release    {script}:1  export GSW_VERSION=24.10
table      no bundled table has this row for 24.10
next       stage the recipe of 25.04.02, or write the figures of 24.10 into a table of your own, \
with releases: ["24.10"], and name it with --gsw-baselines"""
    ]
    assert problems(script, replace(GROK, source=replace(GROK.source, releases=()))) == []


def test_a_checkout_of_another_release_cannot_be_judged_by_the_row(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text("llmb_version: '26.02'\n")
    (problem,) = problems(staged(tmp_path, "#!/bin/bash\nexport WORKLOAD_TYPE=pretrain\n"))
    assert problem.startswith(
        "the staged recipe is of release 26.02, and the row's figures are of 25.02 to 25.04.02\n"
        "\n"
        f"release    {tmp_path}/release.yaml:1  llmb_version: '26.02'\n"
    )


def test_a_recipe_of_another_release_than_the_documents_tag(tmp_path: Path) -> None:
    script = staged(tmp_path, "export GSW_VERSION=25.04\n")
    tagged = replace(GROK, source=Source("readme.md", 7, "v25.02"))
    (problem,) = problems(script, tagged)
    assert problem.startswith("the staged recipe is of release 25.04, and the row's figures are of v25.02\n")


def test_what_is_told_of_a_stage(tmp_path: Path) -> None:
    cluster = Cluster("eos", "slurm", stage=f"{tmp_path}/{{recipe}}")
    for recipe in ("grok1", "llama3.1", "maxtext"):
        staged(tmp_path, "export GSW_VERSION=25.02\n", recipe)
    (line,) = told_of_stage(ROWS.values(), cluster)
    assert line == (
        "24 rows are of 24.11.1, 25.01 and 25.01.1, and their recipes are staged as of 25.02 to 25.03: not submitted; "
        "--gsw-release=25.02 runs the rows of that release"
    )
    assert list(told_of_stage([GROK], cluster)) == []
