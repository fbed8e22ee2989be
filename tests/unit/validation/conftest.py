"""A log of a run that went well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.validation.ended import IDENTITY, step_lines


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log-maxtext_llama2_70b_128_481221.out"
    path.write_text(IDENTITY + step_lines(range(50)))
    return path
