"""The clusters that tests ask for; each is started at most once a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .cluster import SlurmCluster, missing_requirements


def start(nodes: int, **options: object) -> Iterator[SlurmCluster]:
    """One cluster; a machine that cannot have one skips, or fails if GSW_REQUIRE_SLURM=1 says so."""
    problem = missing_requirements()
    if problem is not None:
        if os.environ.get("GSW_REQUIRE_SLURM") == "1":
            pytest.fail(f"GSW_REQUIRE_SLURM=1, but {problem}")
        pytest.skip(problem)
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
