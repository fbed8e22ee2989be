"""Each release's own scripts, unedited, under pytest-gsw on a real Slurm.

``GSW_RECIPES`` is a clone of them; where there are clones of NeMo-Run and Megatron-Bridge, too, these run as they are pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.conftest import start

from .clones import NEMO_RUN, RECIPES
from .projects import prepare
from .releases import LARGE, LEFT_OVER, RELEASES, Release

pytestmark = pytest.mark.skipif(not RECIPES, reason="GSW_RECIPES=DIR, a clone of the recipes, is not given")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    yield from start(32)


@pytest.fixture(scope="module")
def large() -> Iterator[SlurmCluster]:
    yield from start(288)


def run(release: Release, cluster: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    """A session of the rows, of which each is told as expected."""
    if release.exported and release.tag >= "v25.04" and not NEMO_RUN:
        pytest.skip("GSW_NEMO_RUN=DIR, a clone of NeMo-Run, is not given")
    project = prepare(release, cluster, tmp_path)
    found = project.end(project.start())
    matrix += [
        f"| {release.tag} | {recipe} | `{row}` {release.remark} | {found.get(row, 'not run')} |"
        for row, (recipe, _) in release.rows.items()
    ]
    wrong = {
        row: found.get(row) for row, (_, wanted) in release.rows.items() if wanted not in found.get(row, "not run")
    }
    assert wrong == {}, project.output
    assert {*found} == {*release.rows}


def name_of(release: Release) -> str:
    return "-".join(filter(None, [release.tag, release.accelerator, release.remark]))


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_release(release: Release, cluster: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    run(release, cluster, tmp_path, matrix)


@pytest.mark.parametrize("release", LARGE, ids=name_of)
def test_as_large_as_they_come(release: Release, large: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    run(release, large, tmp_path, matrix)


@pytest.mark.parametrize("release", LEFT_OVER, ids=name_of)
def test_what_a_shell_has_left_changes_no_run(
    release: Release, cluster: SlurmCluster, tmp_path: Path, matrix: list[str]
) -> None:
    run(release, cluster, tmp_path, matrix)
    (log,) = (*tmp_path.glob("stage/llama3.1/results/*/bf16/8b/8/*.out"), *tmp_path.glob(".gsw/runs/*/batch/*.launch"))
    text = log.read_text()
    assert re.search(r"trainer\.max_steps=50 |-ms 50 |--max_steps=50 ", text), text
    assert not re.search(r"model\.tensor_model_parallel_size=4|-tp \d", text), text
