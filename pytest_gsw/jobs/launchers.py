"""The launchers that come with pytest-gsw."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pytest_gsw.clusters.local import uses_gpus
from pytest_gsw.clusters.model import Cluster
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Launcher
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher


def launcher_of(
    cluster: Cluster, directory: Path, environ: Mapping[str, str], lock: SubmissionLock | None = None
) -> Launcher | None:
    """How jobs start on a cluster; ``None`` where only a plugin of pytest knows.

    The batch shells of this machine's jobs write to the directory; a submission to Slurm holds the lock meanwhile.
    """
    if cluster.scheduler == "slurm":
        return SlurmLauncher(environ, lock=lock, work_directory=directory)
    if cluster.scheduler == "local":
        return LocalLauncher(
            cluster.gpus or len(list(Path("/dev").glob("nvidia[0-9]*"))),
            work_directory=directory,
            real_gpus=uses_gpus(cluster),
            # Simulated jobs sleep; what each takes of a core is its Python's start.
            max_processes=8 * (os.cpu_count() or 1) if cluster.simulated else None,
            environ=environ,
        )
    return None
