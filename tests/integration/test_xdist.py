"""Under pytest-xdist: whatever the number of workers, each row is submitted once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines
from tests.integration.conftest import SIX_ROWS, junit, properties, suite_properties
from tests.signals import end, hear_hangup

SIX = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8")


def submitted(directory: Path) -> list[str]:
    """The rows of all submissions in the journals of all runs, sorted; a line that is being written is left out."""
    texts = [path.read_text().rpartition("\n")[0] for path in directory.glob(".gsw/runs/*/journal.jsonl")]
    events = [json.loads(line) for text in texts for line in text.splitlines() if line]
    return sorted(event["row"] for event in events if event["event"] == "submitted")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dist", ["load", "loadscope", "loadfile", "loadgroup", "worksteal"])
def test_each_row_is_submitted_once(pytester: pytest.Pytester, six_rows: list[str], dist: str) -> None:
    result = pytester.runpytest_subprocess(*SIX, "-n2", f"--dist={dist}", "--junitxml=junit.xml")
    result.assert_outcomes(passed=6)
    assert submitted(pytester.path) == sorted(row.partition("::")[2] for row in six_rows)
    assert len(list(pytester.path.glob(".gsw/runs/*"))) == 1
    assert len(list(pytester.path.glob(".gsw/runs/*/records/*.json"))) == 6
    cases = junit(pytester.path / "junit.xml").values()
    assert {properties(case)["gsw_outcome"] for case in cases} == {"passed"}
    assert {case.attrib["classname"] for case in cases} == {"demo.maxtext.llama2_70b"}
    assert all(case.attrib["time"] == f"{float(properties(case)['gsw_job_run_s']):.3f}" for case in cases)
    assert {"gsw_cluster", "gsw_run", "gsw_version_pytest_gsw"} <= set(suite_properties(pytester.path / "junit.xml"))
    result.stdout.fnmatch_lines(["llama2_70b_fp8[[]* PASSED     throughput * %  4.* s/step  MFU * % *%]"])


def test_other_tests_run_beside_the_rows(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_other(number):
            pass
        """
    )
    shutil.copy(bundled_baselines() / "paxml" / "gpt3_175b.yaml", pytester.path)
    result = pytester.runpytest_subprocess(
        "--gsw-cluster=demo",
        "-n2",
        "--junitxml=junit.xml",
        "gpt3_175b.yaml",
        "test_other_tests_run_beside_the_rows.py",
    )
    result.assert_outcomes(passed=25)
    assert len(submitted(pytester.path)) == 5


def test_a_failure_is_one_failure(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*SIX, "-n2", "--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x512]=oom")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4, failed=1, errors=1)
    result.stdout.fnmatch_lines(["throughput * tokens/s is 10.* % below the documented * (allowed 5 %)"])


def test_exitfirst_cancels_the_rest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")
    result = pytester.runpytest_subprocess(*SIX, "-n2", "-x", "--gsw-demo=*x64]=fail", "--gsw-demo=*x2048]=stall")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    # The stalled job at least: how many of the others had ended by then is a matter of the machine.
    result.stdout.re_match_lines([r"gsw: (1 job was|[2-5] jobs were) still pending or running, and cancelled$"])


def test_a_replay(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess(*SIX, "-n2")
    (run,) = pytester.path.glob(".gsw/runs/*")
    result = pytester.runpytest_subprocess("-n2", "--gsw-cluster=demo", f"--gsw-replay={run}")
    result.assert_outcomes(passed=6)


def test_every_row_skipped_is_no_success(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.skip(reason="rack 7 is down"))
        """
    )
    result = pytester.runpytest_subprocess(*SIX, "-n2")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["gsw: none of 6 rows was judged: all were skipped (-rs tells why)"])


def test_a_row_whose_worker_crashes_is_the_same_test_case(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import os

        def pytest_runtest_setup(item):
            if "H100x64]" in item.name:
                os._exit(3)
        """
    )
    pytester.runpytest_subprocess(*SIX, "-n2", "--max-worker-restart=0", "--junitxml=junit.xml")
    case = junit(pytester.path / "junit.xml")["llama2_70b_fp8[H100x64]"]
    assert case.find("error") is not None
    assert case.attrib["classname"] == "demo.maxtext.llama2_70b"


def names(pytester: pytest.Pytester) -> list[str]:
    """The names of all test cases of the JUnit file, sorted; one that stands twice is there twice."""
    suite = ET.parse(pytester.path / "junit.xml")  # noqa: S314 - our own file
    return sorted(case.attrib["name"] for case in suite.iter("testcase"))


#: Ends the worker, once.
CRASHES = """
import os
from pathlib import Path

def crash():
    try:
        Path("crashed").touch(exist_ok=False)
    except FileExistsError:
        return
    os._exit(3)
"""


def test_a_row_whose_worker_crashes_is_one_error(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CRASHES
        + """
def pytest_runtest_setup(item):
    if "H100x64]" in item.name:
        crash()
"""
    )
    result = pytester.runpytest_subprocess(*SIX, "-n2", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ llama2_70b_fp8[[]H100x64] _*",
            "5 passed, 1 error",
            "worker 'gw?' crashed while running '*[[]H100x64]': 1",
            "    row (llama2_70b_fp8[[]H100x64])",
        ]
    )
    assert names(pytester) == sorted(row.partition("::")[2] for row in SIX_ROWS)
    error = junit(pytester.path / "junit.xml")["llama2_70b_fp8[H100x64]"].find("error")
    assert error is not None
    assert re.fullmatch(
        r"worker 'gw[01]' crashed while running '.*::llama2_70b_fp8\[H100x64\]'", error.attrib["message"]
    )


def test_a_worker_that_crashes_while_it_waits_for_jobs_is_no_row_s_error(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CRASHES
        + """
def pytest_gsw_job_state_changed(baseline):
    if baseline.gpus == 512:
        crash()
"""
    )
    result = pytester.runpytest_subprocess(*SIX, "-n2", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(
        [
            "worker 'gw?' crashed while running '<rows of pytest-gsw>'",
            "It looked after all rows at once, and no row had its turn. A worker in its place judges them.",
            "6 passed",
        ]
    )
    cases = junit(pytester.path / "junit.xml")
    assert [name for name, case in cases.items() if case.find("error") is not None] == ["<rows of pytest-gsw>"]
    assert cases["<rows of pytest-gsw>"].attrib["classname"] == "demo.cluster"
    assert len(names(pytester)) == 7


def beside_the_rows(pytester: pytest.Pytester, workers: str) -> list[str]:
    """The names of the test cases of a session of six rows and four other tests, of which one has crashed."""
    shutil.copy(bundled_baselines() / "maxtext" / "llama2_70b.yaml", pytester.path)
    pytester.makepyfile(
        test_beside="""
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_beside(number):
            pass
        """
    )
    selected = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 or test_beside", "llama2_70b.yaml", "test_beside.py")
    result = pytester.runpytest_subprocess(*selected, workers, "--junitxml=junit.xml", timeout=120)
    result.assert_outcomes(passed=9, failed=1)
    return names(pytester)


#: The names of all of its test cases.
BESIDE = sorted([*(f"test_beside[{n}]" for n in range(4)), *(row.partition("::")[2] for row in SIX_ROWS)])


@pytest.mark.parametrize("name", ["H100x64]", "H100x1024]", "test_beside[0]", "test_beside[3]"])
def test_one_worker_that_is_replaced_runs_all_that_is_left(pytester: pytest.Pytester, name: str) -> None:
    pytester.makeconftest(CRASHES + f"def pytest_runtest_call(item):\n    if '{name}' in item.name: crash()\n")
    assert beside_the_rows(pytester, "-n1") == BESIDE


def test_a_crash_leaves_the_test_cases_of_other_workers_alone(pytester: pytest.Pytester) -> None:
    """The row crashes when the session that has the screen has heard of its set-up, and then of another test."""
    pytester.makeconftest(
        CRASHES
        + """
import time

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Screen())

class Screen:
    def pytest_runtest_logreport(self, report):
        Path(f"{report.nodeid.partition('[')[2]} {report.when}").touch()

def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.01)

def pytest_runtest_setup(item):
    if "test_beside" in item.name:
        wait_for("H100x64] setup" if item.name == "test_beside[0]" else "H100x64] ???")

def pytest_runtest_call(item):
    if "H100x64]" in item.name:
        wait_for("0] teardown")
        crash()
"""
    )
    assert beside_the_rows(pytester, "-n2") == BESIDE


def test_dist_each_is_refused(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*SIX, "-n2", "--dist=each")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dist=each would submit every row once for each worker; leave it out"])


#: A launcher that writes down what it is asked to end.
CANCELS = """
from pathlib import Path
from pytest_gsw.jobs.local import LocalLauncher

class Own(LocalLauncher):
    def cancel(self, jobs):
        with open("cancelled.txt", "a") as file:
            file.writelines(f"{job.id}\\n" for job in jobs)
        super().cancel(jobs)

    def close(self):
        self.cancel = super().cancel  # by which it ends processes whatever the session wants
        super().close()

def pytest_gsw_make_launcher(cluster, run_directory):
    return Own(cluster.gpus, work_directory=run_directory / "batch")
"""


@pytest.fixture
def session(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[bytes]]:
    """A session of two workers whose six jobs are all under way, with the conftest.py above.

    However the set-up or the test ends, the session is asked to end, which ends its jobs.
    """
    monkeypatch.setenv("GSW_DEMO_SECONDS", "600")
    pytester.makeconftest(CANCELS)
    pytester.makepyfile(test_beside="def test_beside(): pass")
    options = getattr(request, "param", ())
    command = [*pytester._getpytestargs(), *SIX, "-n2", "--junitxml=junit.xml", "-p", "no:cacheprovider", *options]
    with (pytester.path / "out.txt").open("wb") as output:
        process = pytester.popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=hear_hangup,
        )
    try:
        deadline_s = time.monotonic() + 120
        while len(submitted(pytester.path)) < 6:
            assert time.monotonic() < deadline_s
            assert process.poll() is None, (pytester.path / "out.txt").read_text()
            time.sleep(0.05)
        yield process
    finally:
        end(process)


def rows_worker(directory: Path) -> int:
    """The process of the worker that has the rows."""
    (owner,) = directory.glob(".gsw/runs/*/owner.*")
    pid: int = json.loads(owner.read_text())["pid"]
    return pid


@pytest.mark.parametrize(
    ("whom", "number"),
    [("controller", signal.SIGTERM), ("worker", signal.SIGTERM), ("controller and worker", signal.SIGHUP)],
)
def test_a_signal_ends_all_jobs(
    pytester: pytest.Pytester, session: subprocess.Popen[bytes], whom: str, number: signal.Signals
) -> None:
    pids = {"controller": session.pid, "worker": rows_worker(pytester.path)}
    for name in whom.split(" and "):  # a terminal that is closed tells both
        os.kill(pids[name], number)
    assert session.wait(120) == pytest.ExitCode.INTERRUPTED, (pytester.path / "out.txt").read_text()
    cases = junit(pytester.path / "junit.xml")
    assert sum("interrupted: job " in "".join(case.itertext()) for case in cases.values()) == 6
    assert len(set((pytester.path / "cancelled.txt").read_text().split())) == 6
    assert "replacing crashed worker" not in (pytester.path / "out.txt").read_text()
    assert len(submitted(pytester.path)) == 6


@pytest.mark.parametrize("session", [("--gsw-detach",)], indirect=True)
def test_with_detach_jobs_stay(pytester: pytest.Pytester, session: subprocess.Popen[bytes]) -> None:
    session.send_signal(signal.SIGTERM)
    assert session.wait(120) == pytest.ExitCode.INTERRUPTED
    cases = junit(pytester.path / "junit.xml")
    assert sum(" was left running" in "".join(case.itertext()) for case in cases.values()) == 6
    assert not (pytester.path / "cancelled.txt").exists()


def test_a_controller_that_was_killed(pytester: pytest.Pytester, session: subprocess.Popen[bytes]) -> None:
    """Its workers see their channel close; the rows' worker ends its jobs before it is ended itself."""
    (owner,) = pytester.path.glob(".gsw/runs/*/owner.*")
    session.kill()
    deadline_s = time.monotonic() + 120
    while not json.loads(owner.read_text())["released"]:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert len(set((pytester.path / "cancelled.txt").read_text().split())) == 6
