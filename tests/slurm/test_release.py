"""Recipes that say which release they are, on a real Slurm: a row is judged by the figures of that release alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.messages import wording

from .cluster import SlurmCluster
from .sessions import PASSED, REGRESSED, TABLE, Misfortune, Site, error

#: The recipes' constant, and their line in the log.
RECIPE = """\
export GSW_VERSION={version}
{{ echo "$(identity) GSW_VERSION=$GSW_VERSION"; steps 0 19 {seconds}; }} >>"$log"
"""
OF_25_01 = 'releases: ["25.01", "25.01.1"]\n'


def recipe(version: str, seconds: str = "1.000") -> Misfortune:
    return Misfortune(RECIPE.format(version=version, seconds=seconds), table=OF_25_01 + TABLE)


@pytest.fixture(scope="module")
def site(slurm8: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("releases"))
    yield site
    site.close()
    slurm8.cancel_all()


def test_the_release_of_the_figures_is_judged(site: Site, slurm8: SlurmCluster) -> None:
    assert site.run(slurm8, recipe("25.01")).end().seen == PASSED
    assert site.run(slurm8, recipe("25.01", "1.250")).end().seen == REGRESSED


def test_another_release_that_is_staged_is_never_submitted(site: Site, slurm8: SlurmCluster) -> None:
    session = site.run(slurm8, recipe("25.02"))
    seen, job = session.end()
    fact = "the staged recipe is of release 25.02 to 25.03, and the row's figures are of 25.01 and 25.01.1"
    assert seen == error(fact), session.output
    assert job == ""


@pytest.mark.parametrize("seconds", ["1.000", "1.250", "0.500"])
def test_another_release_that_only_the_log_tells_is_never_judged(
    site: Site, slurm8: SlurmCluster, seconds: str
) -> None:
    session = site.run(slurm8, recipe("$(echo 24.11)", seconds))
    seen, job = session.end()
    assert seen == error(wording("release differs", ran="24.11.1", documented="25.01 and 25.01.1"))
    assert job
