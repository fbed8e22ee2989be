"""A session that is killed: the rows that it never judged are errors in whatever is told of its run later."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_gsw.cli import main

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
    runs = re.sub(r"\s+", " ", text_of(Path("report/runs.html")))
    assert re.search(rf"{killed.name} ✖ 2 ✔ 4 6 ", runs), runs
    index = text_of(Path("report/index.html"))
    assert "2 errors, 4 passed" in index


def test_its_own_report_lists_them_everywhere_and_says_how_to_go_on(pytester: pytest.Pytester, killed: Path) -> None:
    (only,) = [one for one in Path(".gsw", "runs").iterdir() if one != killed]
    shutil.rmtree(only)
    assert main(["report", str(killed), "-o", "out"]) == 0
    index = re.sub(r"\s+", " ", text_of(Path("out/index.html")))
    assert "1 error of 6 rows on demo, " in index
    (never,) = set(re.findall(r"::(\S+) : the session ended before this row was judged", index))
    typed = index.partition("What to type next")[2]
    assert typed.startswith(f" go on with 1 row that the session did not judge pytest --gsw-resume={killed.name} ")
    # By workload and number of GPUs each row has its cell, and its line in the list of all.
    verdicts, _, listed = index.partition(" Verdicts ")[2].partition("All rows")
    assert verdicts.count("✖ error") == 1
    assert "6 rows, the worst first" in listed
    assert listed.index(f"{never} ✖ error") < listed.index("✔ passed")
    pytester.runpytest_subprocess(f"--gsw-resume={killed.name}").assert_outcomes(passed=6, deselected=135)
