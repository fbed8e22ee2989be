"""The bundled recipe, which is no package: its module is started as a script."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from pytest_gsw.tables.bundled import bundled_baselines

DIRECTORY: Path = bundled_baselines() / "huggingface" / "smoke_gpt"


def training() -> dict[str, Any]:
    """What ``train.py`` defines."""
    return runpy.run_path(str(DIRECTORY / "train.py"))
