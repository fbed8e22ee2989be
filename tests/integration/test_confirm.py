"""``--gsw-confirm`` and ``--gsw-repeat``: rows that have several jobs, and are judged by the median of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import junit, properties, records
from tests.messages import wording

ONE_ROW = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and x64", "--junitxml=junit.xml")
NAME = "llama2_70b_fp8[H100x64]"
GOOD, ONCE, SLOW, FAST = (f"llama2_70b_fp8[H100x{gpus}]" for gpus in (64, 128, 256, 512))


def record(pytester: pytest.Pytester) -> dict[str, Any]:
    """The newest record; the item stays one test case, however many jobs it had."""
    assert [*junit(pytester.path / "junit.xml")] == [NAME]
    return records(pytester.path)[-1]


def test_jobs_until_the_median_of_all_decides(pytester: pytest.Pytester) -> None:
    faults = (f"--gsw-demo={ONCE}=slow-once:12%", f"--gsw-demo={SLOW}=slow:12%", f"--gsw-demo={FAST}=fast:15%")
    set_defaults(pytester.path, strict=True)
    result = pytester.runpytest(
        *("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (x64 or x128 or x256 or x512)", "--junitxml=junit.xml"),
        *("--gsw-confirm=2", *faults),
    )
    result.assert_outcomes(passed=2, failed=2, deselected=137)
    found, cases = {one["row"]: one for one in records(pytester.path)}, junit(pytester.path / "junit.xml")
    assert set(cases) == {GOOD, ONCE, SLOW, FAST}  # a row stays one test case, however many jobs it had
    assert (found[GOOD]["repeats"], found[GOOD]["verdict"]["given_reason"]) == ([], "within tolerance")

    result.stdout.re_match_lines(
        [r"gsw: .* to be confirmed \(1 of 2\); submitted again, without demo-\[01-16\] where .*"]
    )
    once, seen = found[ONCE], properties(cases[ONCE])
    slow, second = (job["judged"] for job in once["repeats"])
    assert slow == pytest.approx(4.556 * 1.12, rel=0.02)
    assert once["measured"]["step_time_s"] == sorted((slow, second, once["job"]["judged"]))[1]
    assert len({*(job["id"] for job in once["repeats"]), once["job"]["id"]}) == 3
    assert (seen["gsw_jobs"], seen["gsw_outcome"]) == ("3", "passed")
    assert seen["gsw_job_1"] == f"{once['repeats'][0]['id']} {slow:.4g} s on demo-[01-16]"

    result.stdout.re_match_lines(
        [
            wording("throughput of jobs", measured="\\d+,\\d+", jobs=2, change="1\\d\\.\\d", side="% below")
            + " .* \\(allowed 5 %\\)",
            r"job 1      \d+ \d\.\d+ s$",
            r"job 2      \d+ \d\.\d+ s$",
            r"median     \d\.\d+ s$",
        ]
    )
    # Two of three are beyond the limit: the third could not bring the median back.
    assert (found[SLOW]["outcome"], len(found[SLOW]["repeats"])) == ("regressed", 1)
    assert (found[FAST]["outcome"], len(found[FAST]["repeats"])) == ("improved", 2)  # which fails with strict


def test_a_replay_of_several_jobs_comes_to_the_same_as_long_as_their_logs_do(pytester: pytest.Pytester) -> None:
    pytester.runpytest(*ONE_ROW, "--gsw-repeat=3", "--gsw-demo=*=slow-once:12%").assert_outcomes(
        passed=1, deselected=140
    )
    first = record(pytester)
    (run,) = pytester.path.glob(".gsw/runs/*")
    replay = (f"--gsw-replay={run}", "--junitxml=junit.xml")
    pytester.runpytest(*replay).assert_outcomes(passed=1)
    again = record(pytester)
    assert again["run_id"] != first["run_id"]
    kept = ("outcome", "fact", "measured", "repeats", "job", "series_s", "verdict")
    assert {name: again[name] for name in kept} == {name: first[name] for name in kept}
    log = Path(first["repeats"][0]["log"])
    log.write_text(log.read_text() + "one line more\n")
    changed = pytester.runpytest(*replay)
    changed.assert_outcomes(errors=1)
    changed.stdout.re_match_lines([wording("log has changed", then="[\\d,]+", now="[\\d,]+")])
    log.unlink()
    pytester.runpytest(*replay).assert_outcomes(errors=1)


def test_ctrl_c_between_two_jobs_judges_no_row_by_too_few(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """\
import os, signal
from pytest_gsw.executor.ended_jobs import EndedJobs

find = EndedJobs.find_logs

def interrupted(self):
    EndedJobs.find_logs = find
    if self.rows.awaiting_log:
        os.kill(os.getpid(), signal.SIGINT)  # the first job has ended, and its log is looked for
    else:
        EndedJobs.find_logs = interrupted
    find(self)

EndedJobs.find_logs = interrupted
"""
    )
    result = pytester.runpytest_subprocess(*ONE_ROW, "--gsw-repeat=3")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    found = record(pytester)
    assert (found["outcome"], found["fact"]) == ("error", wording("too few jobs yet", jobs="1 job"))
    assert found["job"]["judged"] is not None


def test_a_further_job_that_cannot_be_submitted_leaves_those_before_in_the_record(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """\
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.local import LocalLauncher

class Once(LocalLauncher):
    def submit(self, spec):
        if spec.attempt > 1:
            raise SubmissionError("QOSMaxSubmitJobPerUserLimit")
        return super().submit(spec)

def pytest_gsw_make_launcher(cluster, run_directory):
    return Once(64, work_directory=run_directory / "batch", real_gpus=False)
"""
    )
    pytester.runpytest(*ONE_ROW, "--gsw-confirm=2", "--gsw-demo=*=slow:20%").assert_outcomes(errors=1, deselected=140)
    found = record(pytester)
    assert (found["fact"], len(found["repeats"])) == ("QOSMaxSubmitJobPerUserLimit", 1)
    assert found["repeats"][0]["judged"] > 5
