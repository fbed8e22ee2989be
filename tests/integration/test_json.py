"""The live file of a run, its session as JSON lines; and the run on one screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import records
from tests.messages import wording


def lines(directory: Path) -> list[dict[str, Any]]:
    (live,) = directory.glob(".gsw/runs/*/live.jsonl")
    return [json.loads(line) for line in live.read_text().splitlines()]


def test_a_session_as_json_lines_and_on_one_screen(pytester: pytest.Pytester) -> None:
    faults = ("--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=oom", "--gsw-demo=*x512]=fast:12%")
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "llama2_70b_fp8", *faults)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines(
        [
            wording("page counts", counts="=+ throughput", rows="6 rows", cluster="demo vs document =+"),
            r"GPUs +64 +128 +256 +512 +1024 +2048",
            r"llama2_70b fp8 +[+-]0\.\d % +REGRESSED -1\d\.\d % +ERROR +IMPROVED \+1\d\.\d %( +[+-]0\.\d %){2}",
            r"",
            r"3 passed, 1 improved, 1 regressed, 1 error",
            r"next: look again at llama2_70b_fp8\[H100x128\]: pytest .*",
        ],
        consecutive=True,
    )
    first, *rows, last = lines(pytester.path)
    assert (first["event"], first["cluster"], len(first["rows"])) == ("session", "demo", 6)
    assert {one["event"] for one in rows} == {"row"}
    found = records(pytester.path)
    assert len(found) == len(rows) == 6
    assert all(one["record"] in found for one in rows)
    assert last == {
        "event": "end",
        "run_id": first["run_id"],
        "outcomes": {"passed": 3, "regressed": 1, "error": 1, "improved": 1},
        "exit_status": 1,
    }
    # A session that goes on adds to the file.
    next(pytester.path.glob(".gsw/runs/*/records/*x64.json")).unlink()
    pytester.runpytest("--gsw-resume=last")
    both = lines(pytester.path)
    assert [one["event"] for one in both] == 2 * ["session", *6 * ["row"], "end"]
    assert len({one["run_id"] for one in both if "run_id" in one}) == 1


def test_a_terminal_that_knows_no_unicode(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("COLUMNS", "40")
    result = pytester.runpytest_subprocess("--gsw-cluster=demo", "-k", "gpt3_175b and x128")
    result.assert_outcomes(passed=1, deselected=140)
    assert result.stdout.str().isascii()
