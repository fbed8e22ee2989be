"""Table files to load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline

#: A small table; tests replace parts of it.
TINY = """\
model: tiny
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: site.md
recipe: {directory: tiny, steps: 20}
sequence_length: 1024
tables:
  - dtype: bf16
    rows:
      - {gpus: 8, step_time_s: 1.5, line: 10}
      - {gpus: 16, step_time_s: 0.75, line: 11}
"""


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
