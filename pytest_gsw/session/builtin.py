"""What pytest-gsw itself answers to its hooks, after all others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster, uses_gpus
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import JobSpec, Launcher
from pytest_gsw.jobs.ownership import SubmissionLock
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.spec import make_job_spec
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.session.settings import SETTINGS, environment_of, read_settings
from pytest_gsw.tables.model import Baseline


def launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """The launchers that come with pytest-gsw: the batch shells of this machine's jobs write to the directory."""
    directory, environ = run_directory / "batch", environment_of(config)
    if cluster.scheduler == "slurm":
        return SlurmLauncher(environ, lock=SubmissionLock(run_directory.name), work_directory=directory)
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


def job_spec(config: pytest.Config, baseline: Baseline, cluster: Cluster) -> JobSpec:
    """The recipe's own launch contract."""
    settings = config.stash.get(SETTINGS, None) or read_settings(config)
    return make_job_spec(
        baseline, cluster, run_id=settings.run_id, profile=settings.profile, time_limit_s=settings.time_limit_s
    )


def log_format(baseline: Baseline) -> LogFormat | None:
    """The log formats that come with pytest-gsw."""
    return FORMATS.get(baseline.log_format)
