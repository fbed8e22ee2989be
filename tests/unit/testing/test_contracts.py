"""What comes with pytest-gsw is held to the contract that a site's own launchers and formats are held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.logs.formats.registry import FORMATS
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


class TestMegatronBridge(LogFormatContract):
    prints_loss = False
    numbered = False

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["megatron"]

    def head(self) -> bytes:
        return b"[after dataloaders are built] datetime: 2031-02-03 04:05:06 \n"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return f"Step Time : {seconds}s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n".encode()


class TestHuggingFace(LogFormatContract):
    """One figure for the whole run, with the losses before it."""

    numbered = False
    steps = 1

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["huggingface"]

    def head(self) -> bytes:
        return b"***** Running training *****\n"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return f"{{'loss': {loss}, 'grad_norm': 2.5, 'learning_rate': 5e-05, 'epoch': 1.0}}\n".encode() + lines.summary(
            str(round(1000 / float(seconds), 6))
        )

    def seconds_of(self, step: Step) -> float | None:
        return step.samples_per_s and 1000 / step.samples_per_s


class TestDeepspeedEngine(LogFormatContract):
    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["deepspeed"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        rate = str(round(1000 / float(seconds), 6))
        return f"step: {index}, loss: {loss}\n".encode() + lines.throughput(index, rate)

    def seconds_of(self, step: Step) -> float | None:
        return step.samples_per_s and 1000 / step.samples_per_s


class TestDeepspeedPipeline(LogFormatContract):
    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS["deepspeed"]

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.pipe(index, seconds, loss)
