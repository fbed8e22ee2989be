"""A session of pytest of its own, as users start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.slurm.sessions import PLUGIN_ALONE


def session(
    directory: Path, environ: Mapping[str, str], *options: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a directory to its end; what it prints is kept."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=directory,
        env={**environ, **PLUGIN_ALONE, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
