"""The clusters that tests ask for."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.requirements import require

from .cluster import SlurmCluster, missing_requirements

#: The clusters that run now.
_running: list[SlurmCluster] = []

_LOGS = pytest.StashKey[Path]()


@pytest.fixture(scope="session", autouse=True)
def _daemons_logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the daemons' logs go when a test fails: a cluster's own directory ends with it."""
    request.config.stash[_LOGS] = tmp_path_factory.mktemp("daemons-of-failed-tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what the daemons of all running clusters have logged by the time a test fails, and say where."""
    report = yield
    if report.failed and _running and _LOGS in item.config.stash:
        place = item.config.stash[_LOGS]
        numbers = itertools.count(1)
        for cluster in _running:
            copy = next(path for path in (place / f"{item.name}-{number}" for number in numbers) if not path.exists())
            with contextlib.suppress(OSError):
                cluster.copy_logs(copy)
                report.sections.append(("Slurm's daemons", f"logs of {cluster.directory}: {copy}"))
    return report


def start(nodes: int, **options: object) -> Iterator[SlurmCluster]:
    """One cluster; a machine that cannot have one skips, or fails if GSW_REQUIRE_SLURM=1 says so."""
    require("GSW_REQUIRE_SLURM", missing_requirements())
    with SlurmCluster(nodes, **options) as cluster:  # type: ignore[arg-type]
        _running.append(cluster)
        try:
            yield cluster
        finally:
            _running.remove(cluster)


@pytest.fixture(scope="module")
def slurm8() -> Iterator[SlurmCluster]:
    """Eight nodes that are missed soon, a controller that forgets jobs soon, and partitions that preempt.

    Each file has its own: where a controller has lost its state, job ids begin again, and a node that has seen an id
    before may miss the launch of the next job that bears it, so that Slurm itself cancels that job.
    """
    yield from start(8, min_job_age_s=2, slurmd_timeout_s=10, preemption=True)


@pytest.fixture(scope="module")
def slurm32() -> Iterator[SlurmCluster]:
    """32 nodes of 8 GPUs, with accounting; each file has its own, as of the one above."""
    yield from start(32)


@pytest.fixture(scope="session")
def slurm288() -> Iterator[SlurmCluster]:
    """288 nodes of 8 GPUs: the 2304 GPUs of the largest documented rows."""
    yield from start(288)
