"""Table files to load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], tuple[Baseline, ...]]:
    """Load this content as ``t.yaml`` of the working directory."""
    monkeypatch.chdir(tmp_path)

    def load_content(content: str | bytes) -> tuple[Baseline, ...]:
        path = Path("t.yaml")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load_table(path)

    return load_content


@pytest.fixture
def message(load: Callable[[str | bytes], object]) -> Callable[[str | bytes], str]:
    """The whole text of the error that loading this content as ``t.yaml`` raises."""

    def raised(content: str | bytes) -> str:
        with pytest.raises(FileError) as error:
            load(content)
        return str(error.value)

    return raised
