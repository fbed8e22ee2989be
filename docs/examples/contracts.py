"""The contracts of a launcher and of a log format, for those of docs/hooks.md. Copy it as a module of tests."""

import os

import pytest
from flux_launcher import FluxLauncher

from conftest import TickFormat
from pytest_gsw.testing import LauncherContract, LogFormatContract


class TestFlux(LauncherContract):
    job_id_variable = "FLUX_ENCLOSING_ID"

    @pytest.fixture
    def launcher(self):
        return FluxLauncher(f"contract-{os.getpid()}")


class TestTick(LogFormatContract):
    @pytest.fixture
    def log_format(self):
        return TickFormat()

    def line(self, index, seconds, loss):
        return f"tick {index} took {seconds} s, loss {loss}\n".encode()
