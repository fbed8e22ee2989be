"""A session that is killed: the rows that it never judged are errors in whatever is told of its run later."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8")
#: The session ends with so many rows judged, of which the last has its record and is not kept for the history.
KILL = """
import os, signal
told = []

def pytest_gsw_run_recorded(record):
    told.append(record)
    if len(told) == {count}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def text_of(path: Path) -> str:
    return re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*ROWS, *options)


@pytest.fixture
def killed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run of six rows, of which five have a record, and four are known to the history."""
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")
    run(pytester).assert_outcomes(passed=6, deselected=135)
    (before,) = Path(".gsw", "runs").iterdir()
    pytester.makeconftest(KILL.format(count=5))
    run(pytester)
    Path("conftest.py").unlink()
    (directory,) = set(Path(".gsw", "runs").iterdir()) - {before}
    return directory


def test_a_later_report_counts_its_rows_as_errors(pytester: pytest.Pytester, killed: Path) -> None:
    run(pytester, "--gsw-report=report").assert_outcomes(passed=6, deselected=135)
    runs = re.sub(r"\s+", " ", text_of(Path("report/nights.html")))
    assert re.search(rf"{killed.name} \S+ \S+ 6 ✖ 2 ✔ 4", runs), runs
    index = text_of(Path("report/index.html"))
    assert "2 error, 4 passed" in index
    mended = index.partition("Mended (2)")[2].partition("</h3>")[0]
    assert "was error" in mended
