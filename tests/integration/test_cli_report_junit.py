"""``pytest-gsw report --format=junit``: the file that a session would have written, had it not died."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record, write_record
from pytest_gsw.session.junit_replay import junit_of_run
from tests.defaults import set_defaults
from tests.integration.conftest import Gsw, junit, properties, suite_properties
from tests.integration.test_junit import assert_says_all_of_a_session, assert_valid
from tests.messages import wording
from tests.unit.results.records import JOB, SLOW, varied


def session(pytester: pytest.Pytester, *options: str) -> tuple[Path, Path]:
    """A session's own JUnit file and its run's directory."""
    pytester.runpytest("--gsw-cluster=demo", "--junitxml=junit.xml", *options)
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    return pytester.path / "junit.xml", directory


def rebuilt(gsw: Gsw, directory: Path, *options: str) -> Path:
    path = directory / "rebuilt.xml"
    gsw("report", "--format=junit", directory, f"--output={path}", *options)
    return path


def suite(path: Path) -> dict[str, str]:
    found = ET.parse(path).getroot().find("testsuite")  # noqa: S314 - our own file
    assert found is not None
    return {name: found.attrib[name] for name in ("name", "tests", "failures", "errors", "skipped")}


def elements(case: ET.Element) -> list[tuple[str, str | None]]:
    """What happened to a row."""
    return [(child.tag, child.get("type")) for child in case]


def assert_alike(own: Path, again: Path) -> None:
    """Both files tell the same, but for the wording of the texts."""
    assert_valid(again)
    assert suite(again) == suite(own)
    assert suite_properties(again) == suite_properties(own)
    theirs, ours = junit(own), junit(again)
    assert set(ours) == set(theirs)
    for name, case in theirs.items():
        assert ours[name].attrib == case.attrib
        assert set(case.attrib) == {"name", "classname", "time"}
        assert properties(ours[name]) == properties(case)
        assert elements(ours[name]) == elements(case)


def test_the_same_as_pytests_own(pytester: pytest.Pytester, gsw: Gsw) -> None:
    set_defaults(pytester.path, strict=True)
    own, directory = session(
        pytester,
        "-k",
        "llama2_70b_fp8 or zero-id11 or hf-zero2-offload]",
        "--gsw-demo=*x128]=slow:12%",
        "--gsw-demo=*x256]=oom",
        "--gsw-demo=*x512]=fast:15%",
        "--gsw-demo=*x1024]=nan",
        "--gsw-demo=*hf-zero2-offload]=slow:0%",
    )
    again = directory.relative_to(pytester.path) / "rebuilt.xml"
    told = gsw("report", "--format=junit", again.parent, f"--output={again}", "--strict").out
    assert told == f"{again}: 8 tests, 3 failures, 2 errors, 1 skipped\n"
    assert_alike(own, again)
    assert_valid(own)
    assert_says_all_of_a_session(own, directory)
    outcomes = {properties(case)["gsw_outcome"] for case in junit(again).values()}
    assert outcomes == {"passed", "improved", "regressed", "unexpected_success", "error", "expected_failure"}
    for name, case in junit(own).items():
        element, other = case[-1], junit(again)[name][-1]
        if element.tag == "failure":
            assert other.text == element.text
        assert other.attrib == element.attrib
    # A record does not say how strict its session was.
    lenient = rebuilt(gsw, directory)
    assert suite(lenient)["failures"] == "2"
    # A replay is repeated by its own command.
    pytester.runpytest(f"--gsw-replay={directory}", "-k", "H100x128", "--junitxml=replay.xml")
    (replay,) = set((pytester.path / ".gsw" / "runs").iterdir()) - {directory}
    again = rebuilt(gsw, replay)
    assert_alike(pytester.path / "replay.xml", again)
    (failure,) = ET.parse(again).getroot().iter("failure")  # noqa: S314 - our own file
    assert wording("rerun", command=f"pytest --gsw-replay={relative_path(directory)} 'baselines/maxtext") in (
        failure.text or ""
    )


def test_a_profiled_session(pytester: pytest.Pytester, gsw: Gsw) -> None:
    own, directory = session(pytester, "-k", "grok1_314b_fp8 and H100x512", "--gsw-profile=nsight")
    again = rebuilt(gsw, directory)
    assert_alike(own, again)
    (case,), (other,) = junit(own).values(), junit(again).values()
    assert other[-1].attrib == case[-1].attrib


# ---- Records that no session of the demo writes ---------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_record(tmp_path, SLOW)
    return tmp_path


def root_of(directory: Path, records: Sequence[Record], missing: Mapping[str, str] | None = None) -> ET.Element:
    text = junit_of_run(directory, records, missing or {}, strict=False, since={})
    return ET.fromstring(text)  # noqa: S314 - our own file


def only(root: ET.Element) -> ET.Element:
    (case,) = root.iter("testcase")
    return case


def test_an_error_has_what_the_record_keeps(run: Path) -> None:
    fact = "job 481221 failed with exit code 1: CUDA out of memory"
    job = replace(JOB, state=JobState.FAILED, exit_code=1)
    record = varied(SLOW, outcome="error", fact=fact, measured={}, steps=0, job=job)
    error = only(root_of(Path("runs/7f3a"), [record])).find("error")
    assert error is not None
    assert error.attrib == {"message": f'failed on setup with "{fact}"'}
    assert error.text == (
        f"{fact}\n"
        "\n"
        "baseline   baselines/maxtext/llama2_70b.yaml:41  (readme.md:31)\n"
        "job        slurm 481221 FAILED 1:0 in 11m02s on pool0-[0017-0032]\n"
        "log        /stage/results/24.11/fp8/70b/128/log-maxtext_llama2_70b_128_481221.out\n"
        "again      pytest --gsw-cluster=eos 'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'\n"
        "offline    pytest --gsw-cluster=eos --gsw-replay=runs/7f3a "
        "'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'"
    )


def test_rows_without_a_record_are_errors(run: Path) -> None:
    why = "interrupted: job 481230 was running"
    root = root_of(run, [SLOW], {"baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x512]": why})
    (suite,) = root
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "1", "1", "0"]
    case = next(case for case in root.iter("testcase") if case.attrib["name"] == "grok1_314b_fp8[H100x512]")
    assert case.attrib["classname"] == "replay.nemo.grok1_314b"  # of its table, where no session has noted it
    assert properties(case) == {
        "gsw_row": "grok1_314b_fp8[H100x512]",
        "gsw_outcome": "error",
        "gsw_fact": why,
    }
    error = case.find("error")
    assert error is not None
    assert (error.attrib["message"], error.text) == (f'failed on setup with "{why}"', why)


def test_what_xml_forbids_and_nobody_sees_is_left_out(tmp_path: Path) -> None:
    record = varied(
        SLOW, outcome="error", fact='bell \x07, red \x1b[31m, <&">\n, half \ud83d, nobody \uffff, left \u202e, ü 漢'
    )
    path = tmp_path / "junit.xml"
    path.write_text(junit_of_run(tmp_path, [record], {}, strict=False, since={}), encoding="ascii")
    assert_valid(path)
    (error,) = ET.parse(path).getroot().iter("error")  # noqa: S314 - our own file
    shown = 'bell , red , <&">\n, half \ufffd, nobody , left , ü 漢'
    assert properties(junit(path)[record.row.id])["gsw_fact"] == shown
    assert (error.text or "").startswith(f"{shown}\n")


def test_the_time_is_that_of_the_jobs(run: Path) -> None:
    later = varied(
        SLOW, node_id="other", job=replace(JOB, submit_s=1795212060.0, start_s=1795213000.25, end_s=1795213000.5)
    )
    root = root_of(run, [SLOW, later, varied(SLOW, node_id="no job", job=None)])
    assert [case.attrib["time"] for case in root.iter("testcase")] == ["662.000", "0.250", "0.000"]


def test_without_a_file_it_is_printed(run: Path, gsw: Gsw) -> None:
    out = gsw("report", "--format=junit", run).out
    assert out.startswith('<?xml version="1.0" encoding="utf-8"?><testsuites')
    assert out.isascii()
    assert only(ET.fromstring(out)).attrib["name"] == SLOW.row.id  # noqa: S314 - our own file


def test_a_pipe_and_a_device_are_written_to_and_stay(run: Path, gsw: Gsw) -> None:
    pipe = run / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        gsw("report", "--format=junit", run, "-o", pipe)
        assert os.read(reader, 21) == b'<?xml version="1.0" e'
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    # Whoever is root in a container would have a file there from then on.
    assert (
        gsw("report", "--format=junit", run, "-o", "/dev/full", status=2).err
        == "pytest-gsw report: /dev/full cannot be written: No space left on device\n"
    )


def test_what_is_no_run(tmp_path: Path, gsw: Gsw) -> None:
    assert gsw("report", "--format=junit", str(tmp_path / "gone"), status=2).err == (
        "pytest-gsw report: " + wording("no directory", path=tmp_path / "gone") + "\n" + wording("next run") + "\n"
    )
    assert (
        gsw("report", "--format=junit", tmp_path, status=2).err
        == "pytest-gsw report: " + wording("no records", path=tmp_path) + "\nnext: ls .gsw/runs\n"
    )


def test_an_output_that_cannot_be_written(run: Path, gsw: Gsw) -> None:
    file = run / "file"
    file.write_text("")
    for output, why in ((file / "junit.xml", "File exists"), (run / "records", "Is a directory")):
        assert (
            gsw("report", "--format=junit", run, "-o", output, status=2).err
            == f"pytest-gsw report: {output} cannot be written: {why}\n"
        )
    assert sorted(found.name for found in run.iterdir()) == ["file", "records"]
