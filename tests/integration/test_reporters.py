"""What other plugins' reports show of rows: allure-pytest, pytest-html."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TWO = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (H100x64 or H100x128)", "--gsw-demo=*x128]=slow:12%")
SLOW = "llama2_70b_fp8[H100x128]"


def allure(folder: Path) -> Mapping[str, dict[str, Any]]:
    """Its results by the names of the tests."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*-result.json")]
    return {one["name"]: one for one in found}


def parameters(result: Mapping[str, Any]) -> Mapping[str, str]:
    return {one["name"]: one["value"] for one in result["parameters"]}


def test_allure_has_the_figures_of_a_row(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*TWO, "--alluredir=allure")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    results = allure(pytester.path / "allure")
    slow = parameters(results[SLOW])
    assert slow["row"] == f"'{SLOW}'"
    assert slow["cluster"] == "'demo'"
    assert slow["gsw_outcome"] == "'regressed'"
    assert float(slow["gsw_throughput_change"]) < -0.1
    assert 5 < float(slow["gsw_measured_step_time_s"]) < 5.2
    labels = {(one["name"], one["value"]) for one in results[SLOW]["labels"]}
    assert {("parentSuite", "demo"), ("suite", "maxtext"), ("subSuite", "llama2_70b")} <= labels
    (attachment,) = [one for one in results[SLOW]["attachments"] if one["name"] == "record"]
    record = json.loads((pytester.path / "allure" / attachment["source"]).read_text(encoding="utf-8"))
    assert record["row"] == SLOW


def test_other_tests_are_left_alone(pytester: pytest.Pytester, table: Path) -> None:
    pytester.makepyfile(test_other="def test_other():\n    pass\n")
    pytester.runpytest("--gsw-cluster=demo", str(table), "test_other.py", "--alluredir=allure", "--html=report.html")
    assert "parameters" not in allure(pytester.path / "allure")["test_other"]
    assert cells(pytester.path / "report.html")["test_other.py::test_other"][2:6] == ["", "", "", ""]


def cells(path: Path) -> Mapping[str, Sequence[str]]:
    """The cells of each test in a report of pytest-html."""
    blob = re.search(r'data-jsonblob="([^"]*)"', path.read_text(encoding="utf-8"))
    assert blob is not None
    tests = json.loads(html.unescape(blob[1]))["tests"]
    return {
        name: [re.sub(r"<[^>]*>", "", html.unescape(cell)) for cell in reports[-1]["resultsTableRow"]]
        for name, reports in tests.items()
    }


def test_html_has_columns_for_the_figures(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*TWO, "--html=report.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = cells(pytester.path / "report.html")
    (slow,) = [row for name, row in found.items() if SLOW in name]
    assert slow[0] == "Failed"
    assert re.fullmatch(r"-1\d\.\d %", slow[2])
    assert re.fullmatch(r"5\.\d+", slow[3])
    assert re.fullmatch(r"3\d\.\d %", slow[4])
    assert slow[5].isdigit()
    text = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "<th>Throughput</th>" in text
    assert "<th>Step time (s)</th>" in text
