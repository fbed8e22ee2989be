"""The clusters that tests ask for; each is started at most once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.requirements import require

from .cluster import SlurmCluster, missing_requirements


def start(nodes: int, **options: object) -> Iterator[SlurmCluster]:
    """One cluster; a machine that cannot have one skips, or fails if GSW_REQUIRE_SLURM=1 says so."""
    require("GSW_REQUIRE_SLURM", missing_requirements())
    with SlurmCluster(nodes, **options) as cluster:  # type: ignore[arg-type]
        yield cluster


@pytest.fixture(scope="session")
def slurm8() -> Iterator[SlurmCluster]:
    """Eight nodes that are missed soon, a controller that forgets jobs soon, and partitions that preempt."""
    yield from start(8, min_job_age_s=2, slurmd_timeout_s=10, preemption=True)


@pytest.fixture(scope="session")
def slurm32() -> Iterator[SlurmCluster]:
    """32 nodes of 8 GPUs, with accounting."""
    yield from start(32)


@pytest.fixture(scope="session")
def slurm288() -> Iterator[SlurmCluster]:
    """288 nodes of 8 GPUs: the 2304 GPUs of the largest documented rows."""
    yield from start(288)
