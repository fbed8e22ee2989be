"""Under pytest-xdist: whatever the number of workers, each row is submitted once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines
from tests.integration.conftest import junit, properties, suite_properties
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
