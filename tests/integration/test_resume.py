"""``--gsw-resume``: a run has one owner, and what it lacks or has too much is said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import pytest_gsw.demo
from pytest_gsw.common.text import minute
from pytest_gsw.jobs.journal import NAME, Journal
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.run_lock import RunLock
from tests.integration.conftest import junit, properties
from tests.messages import wording


@pytest.fixture
def run(pytester: pytest.Pytester, table: Path) -> Path:
    """The directory of a run whose rows have ended, and whose records are gone."""
    pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-m", "gsw(accelerator='H100')")
    (directory,) = pytester.path.glob(".gsw/runs/*")
    for record in directory.glob("records/*.json"):
        record.unlink()
    return directory


def resume(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--gsw-resume=last", "--gsw-baselines=site", "--junitxml=junit.xml", *options)


def test_a_run_that_lives_is_not_resumed(pytester: pytest.Pytester, run: Path) -> None:
    lock = RunLock(run, beat_s=0.01)
    lock.take()
    before = (run / NAME).read_bytes()
    result = resume(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: " + wording("owned", run=run.name) + f": process {os.getpid()} on *",
            "next: " + wording("no lock", process=os.getpid(), host="*"),
        ]
    )
    result.stdout.fnmatch_lines([f"gsw: the run {run.name} belongs to *" + wording("waiting for life", time="185 s")])
    lock.check()
    lock.release()
    assert (run / NAME).read_bytes() == before


def test_the_rows_of_a_run_are_collected_alone(pytester: pytest.Pytester, run: Path) -> None:
    result = resume(pytester, "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.OK
    assert len([line for line in result.outlines if "::" in line]) == 2
    assert not [*run.glob("records/*.json")]


def test_what_of_the_run_was_judged_already_is_said(pytester: pytest.Pytester, run: Path) -> None:
    begun = minute(json.loads((run / NAME).read_text().splitlines()[0])["time_s"])
    told = f"gsw: goes on with run {run.name}, begun {begun}: "
    first = resume(pytester)
    first.assert_outcomes(passed=2, deselected=1)
    assert wording("rows judged", done=f"{told}0", rows=2, left="2 are") in first.outlines
    assert wording("rows judged", done=f"{told}2", rows=2, left="none is") in resume(pytester).outlines
    next(run.glob("records/*.json")).unlink()
    assert wording("row judged", done=f"{told}1", rows=2, left="1 is") in resume(pytester).outlines


@pytest.mark.parametrize("place", ["ini", "addopts", "environment", "cluster"])
def test_a_tolerance_that_has_changed_since_does_not_change_a_verdict(
    pytester: pytest.Pytester, table: Path, place: str
) -> None:
    """Of a run whose row regressed, the records are lost: a resumed session would pass it by a wider tolerance."""

    def write(tolerance: str) -> None:
        of_cluster = f", tolerance: {tolerance}" if place == "cluster" else ""
        where = f"scheduler: local, accelerator: H100, gpus: 64, stage: {pytester.path}/stage"
        Path("clusters.yaml").write_text(
            f"clusters: {{here: {{{where}, recipes: {pytester.path}/recipes{of_cluster}}}}}"
        )
        option = f"--gsw-tolerance={tolerance}"
        ini = f"gsw_tolerance = {tolerance}" if place == "ini" else f"addopts = {option}" if "addopts" in place else ""
        pytester.makeini(f"[pytest]\n{ini}\n")
        pytester._monkeypatch.setenv("PYTEST_ADDOPTS", option if place == "environment" else "")

    recipe = pytester.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    shutil.copy(Path(pytest_gsw.demo.__file__).parent / "launch.sh", recipe / "launch.sh")
    table.write_text(table.read_text().replace("step_time_s: 1.000, tokens_per_s: 65536", "step_time_s: 1.000"))
    rows = ("--gsw-baselines=site", "-k", "H100x8", "--junitxml=junit.xml")
    write("3%")
    pytester._monkeypatch.setenv("GSW_DEMO", "*=slow:8%")
    first = pytester.runpytest("--gsw-cluster=here", *rows)
    first.assert_outcomes(failed=1, deselected=2)
    (run,) = pytester.path.glob(".gsw/runs/*")
    next(run.glob("records/*.json")).unlink()
    write("50%")
    result = pytester.runpytest("--gsw-resume=last", *rows)
    assert result.parseoutcomes()["failed"] == 1
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [wording("as then", option="--gsw-tolerance", value="3%", now="50%"), "*(allowed 3 %)*"]
    )
    assert properties(junit(Path("junit.xml"))["tiny_1b_bf16[H100x8]"])["gsw_tolerance"] == "0.03"
    # What is typed is meant.
    assert pytester.runpytest("--gsw-resume=last", *rows, "--gsw-tolerance=50%").ret == pytest.ExitCode.OK


def test_rows_that_are_gone_are_errors_with_their_jobs(pytester: pytest.Pytester, run: Path, table: Path) -> None:
    table.write_text(table.read_text().replace("gpus: 16,", "gpus: 16, case: renamed,"))
    result = resume(pytester)
    result.assert_outcomes(passed=1, errors=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lost = "tiny_1b_bf16[H100x16]"
    assert (
        f"{lost} was a row of this run, and is not there any more: renamed, removed or skipped; " in result.stdout.str()
    )
    case = junit(pytester.path / "junit.xml")[lost]
    assert case.attrib["classname"] == "demo.maxtext.tiny_1b"  # as its run has noted it
    (error,) = case.iter("error")
    assert wording("not judged by its session", state="COMPLETED") in "".join(error.itertext())


@pytest.mark.parametrize("named", ["site", "site/tiny.yaml", "."])
def test_a_row_that_is_gone_from_a_file_that_is_named_was_not_left_out(
    pytester: pytest.Pytester, run: Path, table: Path, named: str
) -> None:
    table.write_text(table.read_text().replace("gpus: 16,", "gpus: 16, case: renamed,"))
    result = resume(pytester, named)
    result.assert_outcomes(passed=1, errors=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_rows_of_files_that_are_not_named_are_left_out(pytester: pytest.Pytester, run: Path) -> None:
    resume(pytester, "site/tiny.yaml::tiny_1b_bf16[H100x8]").assert_outcomes(passed=1)


def test_rows_that_are_left_out_on_purpose_keep_their_jobs(pytester: pytest.Pytester, run: Path) -> None:
    lines = (run / NAME).read_bytes().split(b"\n")
    # As a session that died before the jobs of both rows had ended.
    (run / NAME).write_bytes(b"\n".join(line for line in lines if b'"ended"' not in line))
    job = next(json.loads(line)["job"] for line in lines if b'"submitted"' in line and b"x16" in line)
    result = resume(pytester, "-k", "x8")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines([wording("not selected", jobs="gsw: 1 job", job=job)])
    # What was left out once is still part of the run.
    resume(pytester).assert_outcomes(passed=2, deselected=1)


@pytest.fixture
def left_running(pytester: pytest.Pytester, table: Path) -> None:
    """A run of a cluster with Slurm, of which two jobs go on and one has ended; Ctrl-C hits where a test says."""
    pytester.makefile(".yaml", clusters="clusters: {eos: {scheduler: slurm, accelerator: H100, stage: stage}}")
    row, other = "tiny_1b_bf16[H100x8]", "tiny_1b_bf16[H100x16]"
    journal = Journal(pytester.path / ".gsw" / "runs" / "20260101-000000-abcdef")
    journal.session("eos", [f"site/tiny.yaml::{one}" for one in (row, other, "tiny_1b_bf16[B200x8]")])
    specs = [JobSpec(one, f"gsw-{one[-4:-1]}", *[Path()] * 3, nodes=1, gpus=8, environment={}) for one in (row, other)]
    journal.intents(specs, 1.0)
    journal.submitted(Job("71", specs[0], 1.0))
    journal.close()


@pytest.mark.parametrize("place", ["pytest_collection_modifyitems(items)", "pytest_gsw_make_launcher()"])
def test_ctrl_c_before_the_jobs_are_taken_over_says_which_run_on(
    pytester: pytest.Pytester, left_running: None, place: str
) -> None:
    pytester.makeconftest(f"def {place}:\n    raise KeyboardInterrupt\n")
    result = pytester.runpytest_inprocess("--gsw-resume=last", "--gsw-baselines=site", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "gsw: 2 jobs of the run may run on: 71, one called gsw-x16",
            "next: pytest --gsw-resume=20260101-000000-abcdef goes on with them; scancel 71 ends it",
        ]
    )


def test_an_interrupted_session_shows_a_few_rows_and_ends_with_how_to_go_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rows, of which all jobs run: three are shown, all are counted and in JUnit, and the command is the last line."""
    monkeypatch.setenv("GSW_DEMO_SECONDS", "600")
    pytester.makeconftest(
        """\
import os, signal
from pytest_gsw.executor.executor import Executor

wait = Executor._wait

def interrupted(self):
    Executor._wait = wait
    for _ in range(2):  # a second one changes nothing
        os.kill(os.getpid(), signal.SIGINT)

Executor._wait = interrupted
"""
    )
    rows = "llama2_70b_fp8 or llama3.1_405b_fp8"
    result = pytester.runpytest_subprocess("--gsw-cluster=demo", "-k", rows, "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    count = sum(case.find("error") is not None for case in junit(pytester.path / "junit.xml").values())
    assert count > 10
    outcomes = result.parseoutcomes()
    assert (outcomes["errors"], outcomes["interrupted"]) == (3, count - 3)
    assert sum(line.startswith("ERROR ") for line in result.outlines) == 3
    (run,) = (pytester.path / ".gsw" / "runs").iterdir()
    last = [line for line in result.outlines if line.strip()][-1]
    assert last == wording("goes on", command=f"pytest --gsw-resume={run.name} --junitxml=junit.xml")
