"""The launcher against a real Slurm, held to the contract that a site's own launchers are held to."""

from __future__ import annotations

import pytest

from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.testing import LauncherContract

from .cluster import SlurmCluster


class TestSlurm(LauncherContract):
    options = ("--mem=50M",)

    @pytest.fixture
    def launcher(self, slurm32: SlurmCluster) -> SlurmLauncher:
        return SlurmLauncher(slurm32.environ)
