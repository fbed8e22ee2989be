"""What is told before anything is submitted to a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.messages import wording

from .cluster import SlurmCluster
from .sessions import Misfortune, Site, error


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def test_a_machine_without_sbatch(slurm8: SlurmCluster, site: Site) -> None:
    without = os.pathsep.join(
        path for path in slurm8.environ["PATH"].split(os.pathsep) if not (Path(path) / "sbatch").exists()
    )
    told = site.run(slurm8, Misfortune("perfect", conftest=f"import os\nos.environ['PATH'] = '{without}'\n"))
    assert told.end().seen == error(wording("command not there", command="sbatch"))
