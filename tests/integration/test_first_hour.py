"""The commands of docs/first-hour.md, in their order, on the logs of a staging area, and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import put_on_path
from tests.shown import as_pattern, blocks

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
    python = f'exec "{sys.executable}"'
    put_on_path(
        pytester.path / "bin",
        monkeypatch,
        sbatch="exit 1",
        scontrol="exit 1",
        pytest=f'{python} -m pytest "$@"',
        **{"pytest-gsw": f'{python} -c "import sys; from pytest_gsw.cli import main; sys.exit(main())" "$@"'},
    )
    for name, value in {"STAGE_PATH": str(stage), "COLUMNS": "100", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    work = pytester.mkdir("work")
    for line, commands, exit_status, output in blocks(PAGE.read_text()):
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", commands], cwd=work, capture_output=True, text=True, check=False
        )
        printed = ended.stdout + ended.stderr
        assert ended.returncode == exit_status, f"{PAGE.name}:{line}\n{printed}"
        assert output is not None
        assert re.fullmatch(as_pattern(output), printed), f"{PAGE.name}:{line}\n{printed}"
