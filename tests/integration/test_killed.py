"""A session that is killed: the rows that it never judged are errors in whatever is told of its run later."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw
from tests.messages import wording

ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (x64 or x128 or x256)")
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


def test_rows_that_a_killed_session_never_judged_are_errors_in_all_reports(gsw: Gsw, pytester: pytest.Pytester) -> None:
    """Of three rows two have a record, and one is known to the history."""
    pytester.runpytest(*ROWS).assert_outcomes(passed=3, deselected=138)
    (before,) = Path(".gsw", "runs").iterdir()
    pytester.makeconftest(KILL.format(count=2))
    pytester.runpytest_subprocess(*ROWS)
    Path("conftest.py").unlink()
    (killed,) = set(Path(".gsw", "runs").iterdir()) - {before}

    gsw("report", killed, "-o", "out")
    index = re.sub(r"\s+", " ", text_of(Path("out/index.html")))
    assert wording("page counts", counts="1 error", rows="3 rows", cluster="demo, ") in index
    (never,) = set(re.findall(r"::(\S+) : the session ended before this row was judged", index))
    typed = index.partition("What to type next")[2]
    assert typed.startswith(f" go on with 1 row that the session did not judge pytest --gsw-resume={killed.name} ")
    # pytest-gsw alone names the same command.
    assert f"next   pytest --gsw-resume={killed.name}\n" in gsw().out
    listed = index.partition("All rows")[2]
    assert "3 rows, the worst first" in listed
    assert listed.index(f"{never} ✖ error") < listed.index("✔ passed")

    pytester.runpytest(*ROWS, "--gsw-report=report").assert_outcomes(passed=3, deselected=138)
    runs = re.sub(r"\s+", " ", text_of(Path("report/runs.html")))
    assert re.search(rf"{killed.name} ✖ 2 ✔ 1 3 night ", runs), runs

    pytester.runpytest(f"--gsw-resume={killed.name}").assert_outcomes(passed=3, deselected=138)
