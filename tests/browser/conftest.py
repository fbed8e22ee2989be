"""One browser and one run for all tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import require
from tests.slurm.conftest import start

from .chromium import Chromium, missing_requirements
from .night import Run, run_everything
from .server import Served


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A machine that cannot have one skips, or fails if GSW_REQUIRE_BROWSER=1 says so."""
    require("GSW_REQUIRE_BROWSER", missing_requirements())
    with Chromium() as running:
        yield running


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on a Slurm of its own, which ends with it."""
    (run,) = (run_everything(cluster, tmp_path_factory.mktemp("night")) for cluster in start(288))
    return run


def write_report(run: Path, target: Path, *options: str) -> None:
    """Report on a run, as a user does."""
    command = [sys.executable, "-m", "pytest_gsw.cli", "report", str(run), "-o", str(target), *options]
    done = subprocess.run(command, cwd=run.parents[2], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def report(chromium: Chromium, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The run's report, served as Jenkins would."""
    directory = tmp_path_factory.mktemp("report")
    write_report(run.run, directory)
    with Served(directory) as served:
        yield served
