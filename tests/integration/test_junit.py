"""``--junitxml``: what Jenkins reads."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.integration.conftest import junit, properties

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


@pytest.fixture
def mixed(pytester: pytest.Pytester) -> Path:
    """A session with every outcome."""
    pytester.runpytest(
        "--gsw-cluster=demo",
        "-k",
        "llama2_70b_fp8 or zero-id11",
        "--gsw-demo=*x128]=slow:12%",
        "--gsw-demo=*x256]=oom",
        "--gsw-demo=*x512]=fast:15%",
        "--junitxml=junit.xml",
    ).assert_outcomes(passed=4, failed=1, errors=1, xfailed=1, deselected=134)
    return pytester.path / "junit.xml"


def test_the_file_is_valid(mixed: Path) -> None:
    assert_valid(mixed)


def test_the_counts(mixed: Path) -> None:
    suite = ET.parse(mixed).getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }


def test_the_facts_of_a_row(mixed: Path) -> None:
    facts = properties(junit(mixed)["llama2_70b_fp8[H100x64]"])
    assert set(facts) == {
        "gsw_row",
        "gsw_outcome",
        "gsw_fact",
        "gsw_cluster",
        "gsw_simulated",
        "gsw_reason",
        "gsw_tolerance",
        "gsw_limit",
        "gsw_gpus",
        "gsw_reference",
        "gsw_compared",
        "gsw_definition",
        "gsw_image",
        "gsw_measured_step_time_s",
        "gsw_measured_tokens_per_s",
        "gsw_measured_samples_per_s",
        "gsw_measured_mfu",
        "gsw_measured_days_to_train_1t_tokens",
        "gsw_measured_tflops_per_gpu",
        "gsw_documented_step_time_s",
        "gsw_documented_tokens_per_s",
        "gsw_documented_days_to_train_1t_tokens",
        "gsw_statistic",
        "gsw_steps",
        "gsw_median_step_s",
        "gsw_mean_step_s",
        "gsw_p90_step_s",
        "gsw_spike_fraction",
        "gsw_warm_up_steps",
        "gsw_job_id",
        "gsw_job_state",
        "gsw_job_exit_code",
        "gsw_job_nodes",
        "gsw_job_queue_s",
        "gsw_job_run_s",
        "gsw_log",
        "gsw_baseline",
        "gsw_document",
        "gsw_source",
    }
    assert facts["gsw_documented_tokens_per_s"] == "121250.69"
    assert facts["gsw_job_state"] == "COMPLETED"
    assert facts["gsw_simulated"] == "True"
    assert facts["gsw_document"].endswith(".txt:31")
    assert facts["gsw_source"].endswith(", releases 24.11.1, 25.01 and 25.01.1")


def test_class_names_are_the_tables(mixed: Path) -> None:
    assert {case.attrib["classname"] for case in junit(mixed).values()} == {
        "baselines.maxtext.llama2_70b.yaml",
        "baselines.deepspeed.gpt2.yaml",
    }


def test_the_errors_message_is_the_fact(mixed: Path) -> None:
    error = junit(mixed)["llama2_70b_fp8[H100x256]"].find("error")
    assert error is not None
    assert "failed with exit code 1: " in error.attrib["message"]
    assert error.text is not None
    assert "cause" in error.text


def test_attachments_of_a_session_are_where_jenkins_reads_them(pytester: pytest.Pytester) -> None:
    faults = ("--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=oom")
    options = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (x64 or x128 or x256)", "--junitxml=junit.xml")
    pytester.runpytest(*options, *faults, "-o", "junit_logging=system-out")
    for name, case in junit(pytester.path / "junit.xml").items():
        out = case.find("system-out")
        assert out is not None, name
        lines = [line for line in (out.text or "").splitlines() if line.startswith("[[ATTACHMENT|")]
        assert lines, name
        for line in lines:
            assert Path(line.removeprefix("[[ATTACHMENT|").removesuffix("]]")).is_file()
    pytester.runpytest(*options, *faults)
    assert all(case.find("system-out") is None for case in junit(pytester.path / "junit.xml").values())
