from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from unittest.mock import patch

import pytest

from pytest_gsw.logs import scan
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gsw.logs.model import StepLog


class WriteLog(Protocol):
    def __call__(self, content: bytes, name: str = "run.log") -> Path: ...


class Read(Protocol):
    def __call__(self, format_name: str, content: bytes, block_bytes: int = 1 << 20) -> StepLog: ...


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    def write(content: bytes, name: str = "run.log") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def read(write_log: WriteLog) -> Read:
    def reading(format_name: str, content: bytes, block_bytes: int = 1 << 20) -> StepLog:
        with patch.object(scan, "BLOCK_BYTES", block_bytes):
            return read_log(write_log(content), FORMATS[format_name])

    return reading
