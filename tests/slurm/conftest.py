"""The clusters that tests ask for. One runs at a time, and each is started once a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .cluster import SlurmCluster, missing_requirements


def _cluster(nodes: int, **options: object) -> Iterator[SlurmCluster]:
    problem = missing_requirements()
    if problem is not None:
        if os.environ.get("GSW_REQUIRE_SLURM") == "1":
            pytest.fail(f"GSW_REQUIRE_SLURM=1, but {problem}")
        pytest.skip(problem)
    with SlurmCluster(nodes, **options) as cluster:  # type: ignore[arg-type]
        yield cluster


@pytest.fixture(scope="session")
def slurm32() -> Iterator[SlurmCluster]:
    """32 nodes of 8 GPUs, with accounting."""
    yield from _cluster(32, min_job_age_s=300)


@pytest.fixture(scope="session")
def slurm288() -> Iterator[SlurmCluster]:
    """288 nodes of 8 GPUs: the 2304 GPUs of the largest documented rows."""
    yield from _cluster(288)
