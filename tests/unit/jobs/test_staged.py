"""Which release of the recipes is staged, by its own scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.jobs.preflight import Staged, of_other_releases, release_problem, staged_release, staging_summary
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import load_table, load_tables
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


def test_a_recipe_of_another_release_than_the_documents_tag(tmp_path: Path) -> None:
    script = staged(tmp_path, "export GSW_VERSION=25.04\n")
    tagged = replace(GROK, source=Source("readme.md", 7, "v25.02"))
    (problem,) = problems(script, tagged)
    assert problem.startswith("the staged recipe is of release 25.04, and the row's figures are of v25.02\n")


def test_what_is_told_of_a_stage(tmp_path: Path) -> None:
    cluster = Cluster("eos", "slurm", stage=f"{tmp_path}/{{recipe}}")
    for recipe in ("grok1", "llama3.1", "maxtext"):
        staged(tmp_path, "export GSW_VERSION=25.02\n", recipe)
    (line,) = staging_summary(ROWS.values(), cluster)
    assert line == (
        "24 rows are of 24.11.1, 25.01 and 25.01.1, and their recipes are staged as of 25.02 to 25.03: not submitted; "
        "--gsw-release=25.02 runs the rows of that release"
    )
    assert list(staging_summary([GROK], cluster)) == []


#: As recipes of v25.05.01 to v25.05.03 have it, and the first heading of each one's CHANGELOG.
CONSTANT = "export GSW_VERSION=25.05.01\n"
HEADING = "# Changes\n\n## [v{release}] - 2025-07-22\n### Changed\n\n## [v25.05.01] - 2025-06-18\n"


def row_of(release: str, row_id: str = "grok1_314b_bf16[H100x512]") -> Baseline:
    (row,) = (row for path in bundled_releases()[release] for row in load_table(path) if row.id == row_id)
    return row


@pytest.mark.parametrize("release", ["25.05.01", "25.05.02", "25.05.03"])
def test_the_changelog_says_which_of_several_releases_is_staged(tmp_path: Path, release: str) -> None:
    script = staged(tmp_path, CONSTANT)
    (tmp_path / "CHANGELOG").write_text(HEADING.format(release=release))
    found = staged_release(script)
    assert found == Staged(release, tmp_path / "CHANGELOG", 3, f"## [v{release}] - 2025-07-22", is_release=True)
    assert found.releases == (release,)
    for other in ("25.05.01", "25.05.02", "25.05.03"):
        said = problems(script, row_of(other))
        assert bool(said) == (release not in row_of(other).source.releases)
    cluster = Cluster("eos", "slurm", stage=f"{tmp_path}/{{recipe}}")
    (line,) = staging_summary([GROK], cluster)
    assert line.endswith(
        f"staged as of {release}: not submitted; --gsw-release={release} runs the rows of that release"
    )


def test_a_release_that_the_changelog_says_is_told_with_its_figures(tmp_path: Path) -> None:
    script = staged(tmp_path, CONSTANT)
    (tmp_path / "CHANGELOG").write_text(HEADING.format(release="25.05.02"))
    (problem,) = problems(script, row_of("25.05.01"))
    assert problem.startswith(
        "the staged recipe is of release 25.05.02, and the row's figures are of 25.05.01\n"
        "\n"
        f"release    {tmp_path}/CHANGELOG:3  ## [v25.05.02] - 2025-07-22\n"
        "table      baselines/releases/25.05.02/nemo/grok1_314b.yaml has this row's figures of 25.05.02\n"
        "next       stage the recipe of 25.05.01, or take that release's figures: pytest "
    )
    assert "--gsw-release=25.05.02" in problem


@pytest.mark.parametrize("heading", [None, "25.04", "25.05.04"])
@pytest.mark.parametrize("release", ["25.05.01", "25.05.02"])
def test_releases_of_which_nothing_says_which_is_staged_are_named_with_their_figures(
    tmp_path: Path, release: str, heading: str | None
) -> None:
    script = staged(tmp_path, CONSTANT)
    if heading is not None:
        (tmp_path / "CHANGELOG").write_text(HEADING.format(release=heading))
    row = row_of(release)
    of = "25.05.01" if release == "25.05.01" else "25.05.02 to 25.05.05"
    assert problems(script, row) == [
        f"""\
the staged recipe is of release 25.05.01, 25.05.02 or 25.05.03, and the row's figures are of {of}

release    {script}:1  export GSW_VERSION=25.05.01
table      several: step_time_s 16.93 of 25.05.01, 15.933 of 25.05.02, 15.933 of 25.05.03
next       stage a checkout of one release, whose CHANGELOG names it"""
    ]
    # Rows whose figures are the same in all three, and a table of one's own, which says what is right.
    assert problems(script, row_of(release, "grok1_314b_bf16[GB200x256]")) == []
    own = replace(row, location=replace(row.location, path=tmp_path / "own.yaml"))
    assert problems(script, own) == []
    # No release of several that differ is proposed.
    cluster = Cluster("eos", "slurm", stage=f"{tmp_path}/{{recipe}}")
    other = replace(row, source=replace(row.source, releases=("24.11.1",)))
    (line,) = staging_summary([other], cluster)
    assert line == "1 row is of 24.11.1, and its recipe is staged as of 25.05.01, 25.05.02 or 25.05.03: not submitted"


@pytest.mark.parametrize(
    ("tag", "version", "heading"),
    [("25.01.1", "25.01", "25.01"), ("25.02.02", "25.02", "25.02"), ("25.03", "25.02", "25.02")],
)
def test_a_changelog_that_lacks_a_release_whose_figures_are_those_before(
    tmp_path: Path, tag: str, version: str, heading: str
) -> None:
    (tmp_path / "CHANGELOG").write_text(f"## [v{heading}] - 2025-02-11\n")
    script = staged(tmp_path, f"export GSW_VERSION={version}\n")
    assert [row.id for path in bundled_releases()[tag] for row in load_table(path) if problems(script, row)] == []


@pytest.mark.parametrize("version", ["24.11", "v24.11"])
def test_a_table_of_ones_own_may_name_a_release_as_the_script_does(tmp_path: Path, version: str) -> None:
    script = staged(tmp_path, f"export GSW_VERSION={version}\n")
    for releases, wrong in (("24.11",), False), (("24.11.1",), False), (("24.12",), True):
        row = replace(GROK, source=replace(GROK.source, releases=releases))
        assert bool(problems(script, row)) == wrong
