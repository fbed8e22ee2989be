"""What comes with pytest-gsw is held to the contract that a site's own launchers and formats are held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.logs.formats import FORMATS
from pytest_gsw.logs.model import LogFormat, Step
from pytest_gsw.testing import LauncherContract, LogFormatContract
from tests.unit.logs import lines


class TestLocal(LauncherContract):
    @pytest.fixture
    def launcher(self, tmp_path: Path) -> LocalLauncher:
        return LocalLauncher(2, work_directory=tmp_path / "batch", kill_grace_s=0.3)


class TestMaxtext(LogFormatContract):
    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["maxtext"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.maxtext(index, seconds, loss)


class TestPaxml(LogFormatContract):
    prints_loss = False
    numbered = False

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["paxml"]

    def head(self) -> bytes:
        return lines.paxml_start()

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.paxml(seconds)


class TestNemo(LogFormatContract):
    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["nemo"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.printer(index, index, seconds, loss=loss)


class TestMegatron(LogFormatContract):
    prints_loss = False  # of the line that is written here

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["megatron"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.megatron(index, str(round(float(seconds) * 1000, 3)))


class TestTorchtitan(LogFormatContract):
    prints_loss = False  # of the line that is written here

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["torchtitan"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.titan(index, str(round(1000 / float(seconds), 6)) if seconds != "nan" else "nan")

    def seconds_of(self, step: Step) -> float | None:
        return step.tokens_per_s_per_gpu and 1000 / step.tokens_per_s_per_gpu


class TestDeepspeedPipeline(LogFormatContract):
    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["deepspeed"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.pipe(index, seconds, loss)
