"""The commands of docs/first-hour.md, in their order, on the logs of a staging area, and what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.conftest import check_page, put_on_path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-hour.md"
ROWS = "llama2_70b_fp8 and (H100x64 or H100x128 or H100x256)"
SIMULATED = re.compile(r"\A.*\n|(?<= )GSW_VERSION=demo FW_VERSION=simulation IMAGE='simulation'")


@pytest.fixture
def stage(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A staging area with the logs of three jobs, one of them slow: the demo's, without the words that say so."""
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")
    pytester.runpytest("--gsw-cluster=demo", "-k", ROWS, "--gsw-demo=*x128]=slow:12%", "--gsw-results=demo")
    (written,) = pytester.path.glob("demo/runs/*/stage/results/demo")
    place = pytester.path / "stage"
    for log in written.rglob("*.out"):
        copy = place / "results" / "25.01" / log.relative_to(written)
        copy.parent.mkdir(parents=True)
        copy.write_text(SIMULATED.sub(lambda found: "GSW_VERSION=25.01" if found.start() else "", log.read_text()))
    (place / "launch.sh").write_text("#!/bin/bash\nexport GSW_VERSION=25.01\n")
    return place


def test_the_first_hour(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, stage: Path) -> None:
    put_on_path(pytester.path / "bin", monkeypatch, sbatch="exit 1", scontrol="exit 1")
    monkeypatch.setenv("STAGE_PATH", str(stage))
    check_page(PAGE, pytester.mkdir("work"), monkeypatch)
