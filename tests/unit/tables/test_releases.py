"""Releases of the recipes: what a recipe's constant stands for, and what tables say of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.hardware import is_same
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_table, load_tables, table_files
from pytest_gsw.tables.model import Source
from pytest_gsw.tables.release_rows import releases_for
from pytest_gsw.tables.releases import by_age, releases_of

TABLE = """\
model: own
size: 1b
framework: nemo
accelerator: H100
gpus_per_node: 8
releases: {releases}
recipe: {{directory: own, steps: 3}}
sequence_length: 1024
global_batch_size: 8
tables:
  - dtype: bf16
    releases: ["25.10"]
    rows: [{{gpus: 8, step_time_s: 0.7}}]
  - dtype: fp8
    rows: [{{gpus: 8, step_time_s: 0.5}}]
"""


#: The tables of several releases are the same.
bundled = cache(load_table)


def written(directory: Path, releases: str) -> Path:
    path = directory / "own.yaml"
    path.write_text(TABLE.format(releases=releases))
    return path


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("24.11", ("24.11.1",)),
        ("25.01", ("25.01", "25.01.1")),
        ("25.02", ("25.02", "25.02.01", "25.02.02", "25.03")),
        ("25.04", ("25.04",)),
        ("25.04.01", ("25.04.01", "25.04.02")),
        ("v25.01", ("25.01", "25.01.1")),
        ("25.10.1", ("25.10",)),
        ("25.12", ("25.12", "25.12.01", "25.12.02")),
        ("26.02.01", ("26.02.01",)),
        ("26.05.00", ("26.05",)),
        ("26.06.00", ("26.06.00", "26.06.01")),
        ("26.11", ("26.11",)),  # of a release that is not known, the release itself
        ("demo", ()),
        ("", ()),
    ],
)
def test_the_releases_that_a_constant_of_the_scripts_stands_for(version: str, releases: tuple[str, ...]) -> None:
    assert releases_of(version) == releases


def test_a_table_has_its_own_releases_or_the_files(tmp_path: Path) -> None:
    rows = load_table(written(tmp_path, "[24.11.1, 25.10]"))
    assert {row.workload.dtype: row.source.releases for row in rows} == {
        "bf16": ("25.10",),
        "fp8": ("24.11.1", "25.10"),
    }


@pytest.mark.parametrize(
    ("releases", "message"),
    [
        ("[v25.02]", "releases[0]: got 'v25.02', wanted a release without its v, such as 25.02.01"),
        ('["25.02", 25.02]', "releases[1]: '25.02' is there twice"),
        ("25.02", "releases: wanted a list"),
        ("[{a: b}]", "releases[0]: wanted a release without its v, such as 25.02.01"),
    ],
)
def test_what_names_no_release_is_a_fault(tmp_path: Path, releases: str, message: str) -> None:
    with pytest.raises(FileError) as error:
        load_table(written(tmp_path, releases))
    assert message in str(error.value)


def test_the_five_documents_say_whose_figures_they_are() -> None:
    found = {row.recipe.directory: row.source.releases for row in load_tables() if row.source.releases}
    early = ("24.11.1", "25.01", "25.01.1")
    later = ("25.02", "25.02.01", "25.02.02", "25.03", "25.04", "25.04.01", "25.04.02")
    assert found == {"paxml": early, "llama3.1": early, "maxtext": early, "grok1": later}


def test_a_releases_tables_are_those_that_hold_for_it() -> None:
    grok = bundled_baselines() / "nemo" / "grok1_314b.yaml"
    assert grok in bundled_releases()["25.03"]
    assert grok not in bundled_releases()["25.01"]
    for release, paths in bundled_releases().items():
        assert all(release in row.source.releases for path in paths for row in bundled(path))


def test_a_releases_own_table_takes_the_place_of_a_documents() -> None:
    name, root = Path("maxtext", "llama2_70b.yaml"), bundled_baselines()
    for release in ("24.11.1", "25.01", "25.01.1"):
        assert root / "releases" / "24.11.1" / name in bundled_releases()[release]
        assert root / name not in bundled_releases()[release]
    # No other is left out.
    for path in sorted((root / "releases").glob("2*/*/*.yaml")):
        for row in load_table(path):
            assert all(path in bundled_releases()[release] for release in row.source.releases)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Source("a.md", 7), ""),
        (Source("a.md", 7, "v25.02"), "release v25.02"),
        (
            Source("a.md", 7, "v25.01", ("25.01",), "Grok 1", "Performance"),
            '"Grok 1", release 25.01, section "Performance"',
        ),
        (Source("a.md", 7, None, ("25.01", "25.01.1"), "Grok 1"), '"Grok 1", releases 25.01 and 25.01.1'),
        (Source("a.md", 7, None, ("1", "2", "3", "4")), "releases 1 to 4"),
    ],
)
def test_a_source_in_words(source: Source, words: str) -> None:
    assert source.in_words == words


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("H100", "h100", True),
        ("V100", "V100-32GB", True),
        ("v100-32gb", "V100", True),
        ("V100-16GB", "V100-32GB", False),
        ("H100", "GH100", False),
        ("TPU-v5p", "TPU", False),
        ("H100-MIG", "H100", False),
    ],
)
def test_a_name_without_its_memory_is_of_all_of_that_name(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is is_same(other, one) is same


def test_releases_are_ordered_by_year_and_month_whichever_kind_they_are_of() -> None:
    releases = ["nemo:25.09", "25.10", "24.11.1", "25.05.05", "25.05", "nemo:26.06.01", "nemo:26.06"]
    assert sorted(releases, key=by_age) == [
        *("24.11.1", "25.05", "25.05.05", "nemo:25.09", "25.10", "nemo:26.06", "nemo:26.06.01")
    ]


@pytest.mark.parametrize("accelerator", ["H100", "V100-16GB", "GB200", "CPU", "H200"])
def test_the_releases_for_an_accelerator_are_those_with_a_row_that_can_run(accelerator: str) -> None:
    def have(paths: Sequence[Path]) -> bool:
        return any(is_same(row.accelerator, accelerator) for path in paths for row in bundled(path))

    found = [release for release, paths in bundled_releases().items() if have(paths)]
    own = [""] if have(table_files(bundled_baselines())) else []
    assert releases_for(accelerator) == (*found, *own)
