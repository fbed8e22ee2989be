"""The private parts of pytest and of its plugins are as the package expects them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_gsw.session.junit_file import case_reports
from pytest_gsw.session.pytest_private import (
    break_case,
    check_expression,
    is_selected,
    junit_of,
    log_case,
    progress_width,
    write_junit,
)


def test_the_writer_of_a_session_names_test_cases_and_takes_properties(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfigure("--junitxml=junit.xml", "--junitprefix=night")
    xml = junit_of(config)
    assert xml is not None
    xml.pytest_sessionstart()
    xml.add_global_property("of", "suite")
    for report in case_reports("a/b.yaml::row[x]@n1", "passed", None, [("of", "row")], took_s=2.5):
        log_case(xml, report, "eos.nemo.b", "row[x]@n1")
        xml.pytest_runtest_logreport(report)
    xml.pytest_sessionfinish()
    (suite,) = ET.parse(pytester.path / "junit.xml").getroot()  # noqa: S314 - our own file
    assert [one.attrib for one in suite.iter("property")] == [{"name": "of", "value": of} for of in ("suite", "row")]
    (case,) = suite.iter("testcase")
    assert case.attrib == {"classname": "night.eos.nemo.b", "name": "row[x]@n1", "time": "2.500"}
    assert junit_of(pytester.parseconfig()) is None


def test_a_file_is_written_without_a_session(tmp_path: Path) -> None:
    reports = case_reports("a.yaml::row", "skipped", None, (), wasxfail="as documented")
    write_junit(tmp_path / "junit.xml", [("of", "suite")], [("eos.nemo.a", "row", reports)])
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
    assert (suite.attrib["tests"], suite.attrib["skipped"]) == ("1", "1")
    (skipped,) = suite.iter("skipped")
    assert skipped.attrib == {"type": "pytest.xfail", "message": "as documented"}


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ((), len(" [100%]")),
        (("-s",), 0),
        (("-o", "console_output_style=count"), len(" [12/12]")),
        (("-o", "console_output_style=classic"), 0),
    ],
)
def test_the_progress_after_a_line(pytester: pytest.Pytester, options: tuple[str, ...], width: int) -> None:
    config = pytester.parseconfigure("--capture=fd", *options)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    assert progress_width(reporter, 12) == width


def test_the_short_summary_has_the_whole_id_of_a_tile(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from pytest_gsw.session.pytest_private import show_whole_id

        def pytest_runtest_logreport(report):
            report.nodeid = "a.yaml::row[x8]@n1"
            show_whole_id(report)
        """
    )
    pytester.makepyfile("def test_one():\n    assert False\n")
    pytester.runpytest().stdout.fnmatch_lines(["FAILED a.yaml::row[[]x8[]]@n1 - *"])


def test_xdist_starts_no_workers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xdist")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of these tests
    pytester.makeconftest(
        """
        import pytest
        from pytest_gsw.session.pytest_private import turn_off_xdist

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(config):
            print("turned off", turn_off_xdist(config), turn_off_xdist(config))
        """
    )
    pytester.makepyfile("import os\n\ndef test_one():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n")
    result = pytester.runpytest_subprocess("-n2", "-s")
    result.assert_outcomes(passed=1)
    assert "turned off True False" in result.outlines


def test_a_failed_test_is_broken_in_allure(pytester: pytest.Pytester) -> None:
    pytest.importorskip("allure_pytest")
    pytester.makeconftest(
        """
        import pytest
        from pytest_gsw.session.pytest_private import break_case

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(item):
            report = yield
            if report.failed:
                break_case(item.config)
            return report
        """
    )
    pytester.makepyfile("def test_one():\n    assert False\n")
    pytester.runpytest_subprocess("--alluredir=allure").assert_outcomes(failed=1)
    (found,) = (pytester.path / "allure").glob("*-result.json")
    assert '"status": "broken"' in found.read_text()
    break_case(pytester.parseconfig())  # without Allure nothing happens


@pytest.mark.parametrize("text", ["a and", "(a", "a b", "a = 1", "(" * 900, "not " * 5000 + "a"])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no expression|is nested too deeply"):
        check_expression(text)


@pytest.mark.parametrize(
    ("rows", "marks", "selected"),
    [
        ("", "", True),
        ("LLAMA3 and not x16", "", True),
        ("llama3 and x16", "", False),
        ("", "gsw(gpus=8)", True),
        ("", "gsw(gpus=16)", False),
        ("llama3", "gsw and not proxy", True),
        ("llama2", "gsw", False),
    ],
)
def test_an_item_is_selected_as_by_pytest(pytester: pytest.Pytester, rows: str, marks: str, selected: bool) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    gsw\n    proxy\n")
    item = pytester.getitem("import pytest\n@pytest.mark.gsw(gpus=8)\ndef test_llama3_x8(): pass", "test_llama3_x8")
    assert check_expression(rows) == rows
    assert is_selected(item, rows, marks) is selected
    result = pytester.runpytest("--collect-only", "-q", "-k", rows, "-m", marks, item.path)
    assert ("test_llama3_x8" in result.stdout.str()) is selected
