"""The recipe on this machine, as the README has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_every_row_of_smoke_gpt_passes(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--gsw-cluster=local", "-k", "smoke_gpt", "--gsw-confirm=2"],
        cwd=tmp_path,
        env=os.environ | {"NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ran = [line for line in ended.stdout.splitlines() if " PASSED " in line]
    assert len(ran) == min(2, len(os.sched_getaffinity(0)))
    assert all(" of measured peak " in line for line in ran)
