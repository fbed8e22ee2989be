"""The recipe on this machine, as the README has it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.defaults import set_defaults
from tests.sample import fewer

from .session import session


def test_every_row_of_smoke_gpt_passes(tmp_path: Path) -> None:
    # Others may use this machine, too, and slow the training down more than the calibration.
    options = (
        "--gsw-cluster=local",
        "-k",
        fewer("smoke_gpt and CPUx1", "smoke_gpt"),  # two ranks train in test_slurm.py
        "--gsw-tolerance=75%",
        "--gsw-report=report",
    )
    set_defaults(tmp_path, max_gain="100%")
    ended = session(tmp_path, os.environ | {"CUDA_VISIBLE_DEVICES": ""}, *options, timeout_s=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ran = [line for line in ended.stdout.splitlines() if " PASSED " in line]
    assert len(ran) == min(fewer(1, 2), len(os.sched_getaffinity(0)))
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (tmp_path / "report").glob("workloads/smoke_gpt*.html")
    )
    assert pages.count('<h2 id="row-smoke_gpt') == pages.count("MFU of measured peak") == len(ran)
