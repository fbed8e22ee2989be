"""What other plugins' reports show of rows: allure-pytest, pytest-html."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

SLOW = "tiny_1b_bf16[H100x8]"


def allure(folder: Path) -> Mapping[str, dict[str, Any]]:
    """Its results by the names of the tests."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*-result.json")]
    return {one["name"]: one for one in found}


def parameters(result: Mapping[str, Any]) -> Mapping[str, str]:
    return {one["name"]: one["value"] for one in result["parameters"]}


def cells(path: Path) -> Mapping[str, Sequence[str]]:
    """The cells of each test in a report of pytest-html."""
    blob = re.search(r'data-jsonblob="([^"]*)"', path.read_text(encoding="utf-8"))
    assert blob is not None
    tests = json.loads(html.unescape(blob[1]))["tests"]
    return {
        name: [re.sub(r"<[^>]*>", "", html.unescape(cell)) for cell in reports[-1]["resultsTableRow"]]
        for name, reports in tests.items()
    }


def test_other_reports_have_the_figures_of_rows_and_leave_tests_alone(pytester: pytest.Pytester, table: Path) -> None:
    pytester.makepyfile(test_other="def test_other():\n    pass\n")
    rows = ("--gsw-cluster=demo", str(table), "-k", "x8 or other", "--gsw-demo=*H100x8]=slow:12%", "test_other.py")
    result = pytester.runpytest(*rows, "--alluredir=allure", "--html=report.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    results = allure(pytester.path / "allure")
    assert "parameters" not in results["test_other"]
    slow = parameters(results[SLOW])
    assert (slow["row"], slow["cluster"], slow["gsw_outcome"]) == (f"'{SLOW}'", "'demo'", "'regressed'")
    assert float(slow["gsw_throughput_change"]) < -0.1
    assert 1.1 < float(slow["gsw_measured_step_time_s"]) < 1.15
    labels = {(one["name"], one["value"]) for one in results[SLOW]["labels"]}
    assert {("parentSuite", "demo"), ("suite", "maxtext"), ("subSuite", "tiny_1b")} <= labels
    (attachment,) = [one for one in results[SLOW]["attachments"] if one["name"] == "record"]
    record = json.loads((pytester.path / "allure" / attachment["source"]).read_text(encoding="utf-8"))
    assert record["row"] == SLOW

    found = cells(pytester.path / "report.html")
    assert found["test_other.py::test_other"][2:6] == ["", "", "", ""]
    (of_slow,) = [row for name, row in found.items() if SLOW in name]
    assert of_slow[0] == "Failed"
    assert re.fullmatch(r"-1\d\.\d %", of_slow[2])
    assert re.fullmatch(r"1\.1\d+", of_slow[3])
    assert re.fullmatch(r"\d\.\d %", of_slow[4])
    assert of_slow[5].isdigit()
    text = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "<th>Throughput</th>" in text
    assert "<th>Step time (s)</th>" in text


def test_a_row_that_could_not_be_measured_is_broken_in_allure(pytester: pytest.Pytester, table: Path) -> None:
    rows = ("--gsw-cluster=demo", str(table), "--gsw-demo=*H100x8]=slow:12%;*H100x16]=oom", "--alluredir=allure")
    pytester.runpytest(*rows, "-k", "H100").assert_outcomes(failed=1, errors=1)
    found = {name: result["status"] for name, result in allure(pytester.path / "allure").items()}
    assert found == {SLOW: "failed", "tiny_1b_bf16[H100x16]": "broken"}
