"""What comes with pytest-gsw is held to the contract that a site's own launchers and formats are held to."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

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


class BuiltInContract(LogFormatContract):
    """The contract of a registered format."""

    name: ClassVar[str]

    @pytest.fixture
    def log_format(self) -> LogFormat:
        return FORMATS[self.name]


class TestMaxtext(BuiltInContract):
    name = "maxtext"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.maxtext(index, seconds, loss)


class TestPaxml(BuiltInContract):
    name = "paxml"
    prints_loss = False
    numbered = False

    def head(self) -> bytes:
        return lines.paxml_start()

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.paxml(seconds)


class TestNemo(BuiltInContract):
    name = "nemo"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.printer(index, index, seconds, loss=loss)


class TestMegatron(BuiltInContract):
    name = "megatron"
    prints_loss = False  # of the line that is written here

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.megatron(index, str(round(float(seconds) * 1000, 3)))


class TestTorchtitan(BuiltInContract):
    name = "torchtitan"
    prints_loss = False  # of the line that is written here

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.titan(index, str(round(1000 / float(seconds), 6)) if seconds != "nan" else "nan")

    def seconds_of(self, step: Step) -> float | None:
        return step.tokens_per_s_per_gpu and 1000 / step.tokens_per_s_per_gpu


class TestMegatronBridge(BuiltInContract):
    name = "megatron"
    prints_loss = False
    numbered = False

    def head(self) -> bytes:
        return b"[after dataloaders are built] datetime: 2031-02-03 04:05:06 \n"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return f"Step Time : {seconds}s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n".encode()


class TestHuggingFace(BuiltInContract):
    """One figure for the whole run, with the losses before it."""

    name = "huggingface"
    numbered = False
    steps = 1

    def head(self) -> bytes:
        return b"***** Running training *****\n"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return f"{{'loss': {loss}, 'grad_norm': 2.5, 'learning_rate': 5e-05, 'epoch': 1.0}}\n".encode() + lines.summary(
            str(round(1000 / float(seconds), 6))
        )

    def seconds_of(self, step: Step) -> float | None:
        return step.samples_per_s and 1000 / step.samples_per_s


class TestDeepspeedEngine(BuiltInContract):
    name = "deepspeed"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        rate = str(round(1000 / float(seconds), 6))
        return f"step: {index}, loss: {loss}\n".encode() + lines.throughput(index, rate)

    def seconds_of(self, step: Step) -> float | None:
        return step.samples_per_s and 1000 / step.samples_per_s


class TestDeepspeedPipeline(BuiltInContract):
    name = "deepspeed"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.pipe(index, seconds, loss)


class TestAutomodel(BuiltInContract):
    name = "automodel"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.automodel(index, f"{float(seconds):.6f}", loss=f"{float(loss):.4f}")


class TestComposer(BuiltInContract):
    name = "composer"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.composer(index, f"{1000 / float(seconds):.4f}", loss=f"{float(loss):.4f}")

    def seconds_of(self, step: Step) -> float | None:
        return step.tokens_per_s_per_gpu and 1000 / step.tokens_per_s_per_gpu


class TestNanotron(BuiltInContract):
    name = "nanotron"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.nanotron(index, str(round(1000 * float(seconds), 3)), loss)


class TestOlmoCore(BuiltInContract):
    name = "olmo-core"

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        return lines.olmo_core(index, f"{1000 / float(seconds):.6f}", loss)

    def seconds_of(self, step: Step) -> float | None:
        return step.tokens_per_s_per_gpu and 1000 / step.tokens_per_s_per_gpu


#: Formats with tests of their own: one block has all figures of a step, or of the whole run.
OF_BLOCKS = {"nemo-rl", "nccl-tests", "serving", "mllog"}


def test_every_format_of_lines_is_held_to_the_contract() -> None:
    assert {contract.name for contract in BuiltInContract.__subclasses__()} == FORMATS.keys() - OF_BLOCKS
    assert {name for name, _, _ in lines.FORMS.values()} == FORMATS.keys() - OF_BLOCKS
