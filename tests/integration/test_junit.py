"""``--junitxml``: what Jenkins reads."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import pytest

from pytest_gsw.tables.bundled import bundled_baselines
from tests.integration.conftest import junit, properties, suite_properties

# Elements, their attributes and children, as the schema of Jenkins' xUnit plugin (junit-10.xsd) has them. The one
# thing beyond it: properties of a test case, which Jenkins' JUnit plugin reads with keepProperties and which pytest
# itself writes for user_properties.
SCHEMA = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "time", "classname"},
        {"properties", "skipped", "error", "failure", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "skipped": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "failure": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}, "property": {"name", "value"}}


def assert_valid(path: Path) -> None:
    for element in ET.parse(path).getroot().iter():  # noqa: S314 - our own file
        attributes, children = SCHEMA[element.tag]
        assert set(element.attrib) <= attributes, (element.tag, element.attrib)
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
        assert {child.tag for child in element} <= children


def assert_says_all_of_a_session(path: Path, run: Path) -> None:
    """Of its own file: facts of the run, and of each row that it has judged."""
    assert suite_properties(path) == {
        "gsw_cluster": "demo",
        "gsw_run": run.name,
        "gsw_version_pytest_gsw": version("pytest-gsw"),
        "gsw_version_pytest": pytest.__version__,
        "gsw_version_python": python_version(),
    }
    cases = junit(path)
    assert {case.attrib["classname"] for case in cases.values()} == {
        "demo.maxtext.llama2_70b",
        "demo.deepspeed.gpt2_52b",
        "demo.huggingface.gpt2_52b",
    }
    for case in cases.values():
        assert case.attrib["time"] == f"{float(properties(case)['gsw_job_run_s']):.3f}"
        assert case.attrib["time"] != "0.000"
        fact = properties(case)["gsw_fact"]
        for element in case:
            if element.tag in {"failure", "error"}:
                assert (element.text or "").startswith(fact)
                assert "\n" not in element.attrib["message"]
            elif element.tag == "skipped":
                assert element.attrib["message"] == fact
    error = cases["llama2_70b_fp8[H100x256]"].find("error")
    assert error is not None
    message = r'failed on setup with "job \d+ failed with exit code 1: XLA out of memory"'
    assert re.fullmatch(message, error.attrib["message"])
    failure = cases["llama2_70b_fp8[H100x128]"].find("failure")
    assert failure is not None
    assert re.fullmatch(r"-1\d\.\d % throughput, allowed -5 %", failure.attrib["message"])
    assert "cause" in (error.text or "")
    facts = properties(cases["llama2_70b_fp8[H100x64]"])
    assert facts["gsw_documented_tokens_per_s"] == "121250.69"
    assert (facts["gsw_job_state"], facts["gsw_simulated"]) == ("COMPLETED", "True")
    assert facts["gsw_document"].endswith(".txt:31")
    assert facts["gsw_source"].endswith(", releases 24.11.1, 25.01 and 25.01.1")


@pytest.mark.parametrize(("family", "duration"), [("xunit1", "total"), ("xunit2", "call")])
def test_it_is_so_in_every_kind_of_file(pytester: pytest.Pytester, family: str, duration: str) -> None:
    shutil.copy(bundled_baselines() / "maxtext" / "llama2_70b.yaml", pytester.path)
    pytester.makepyfile(test_other="def test_other():\n    pass\n")
    pytester.runpytest(
        *("--gsw-cluster=demo", "--gsw-demo=*x128]=oom", "--junitxml=junit.xml", "--junitprefix=night"),
        *("-o", f"junit_family={family}", "-o", f"junit_duration_report={duration}"),
        *("llama2_70b.yaml", "test_other.py", "-k", "(fp8 and (x64 or x128)) or other"),
    ).assert_outcomes(passed=2, errors=1)
    cases = junit(pytester.path / "junit.xml")
    other = cases.pop("test_other")
    assert other.attrib["classname"] == "night.test_other"
    assert len(cases) == 2
    for case in cases.values():
        assert case.attrib["classname"] == "night.demo.maxtext.llama2_70b"
        has_call = duration == "total" or case.find("error") is None
        assert case.attrib["time"] == f"{float(properties(case)['gsw_job_run_s']) if has_call else 0:.3f}"


def test_a_row_that_is_skipped_for_want_of_a_cluster_is_called_as_others_are(
    pytester: pytest.Pytester, table: Path
) -> None:
    pytester.runpytest(str(table), "--junitxml=junit.xml")
    cases = junit(pytester.path / "junit.xml").values()
    assert {case.attrib["classname"] for case in cases} == {"none.maxtext.tiny_1b"}
    assert {element.tag for case in cases for element in case} == {"skipped"}


def test_the_message_of_what_is_not_the_row_s_own_failure_is_that_failure_s(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
import pytest

def pytest_runtest_call(item):
    if "x64]" in item.name:
        raise RuntimeError("the hook broke")

def pytest_collection_modifyitems(items):
    for item in items:
        if "x128]" in item.name:
            item.add_marker(pytest.mark.xfail(reason="we know", strict=True))
"""
    )
    pytester.runpytest("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (x64] or x128])", "--junitxml=junit.xml")
    cases = junit(pytester.path / "junit.xml")
    told = {name: [element.get("message") for element in case.iter("failure")] for name, case in cases.items()}
    assert told["llama2_70b_fp8[H100x64]"] == ["RuntimeError: the hook broke"]
    assert told["llama2_70b_fp8[H100x128]"] == ["[XPASS(strict)] we know"]
