"""The contract suite as a site runs it, and a launcher whose ids are text through all that reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gsw.cli import main

PODS = """
import os
import subprocess
import time

from pytest_gsw import Job, JobState, JobStatus
from pytest_gsw.jobs.layout import find_log


class Pods:
    name = "pods"
    log_wait_s = 0.0
    poll_interval_s = 0.1
    parallel_submissions = 1
    jobs_outlive_session = False

    def command(self, spec):
        return ("bash", str(spec.script))

    def submit(self, spec):
        job = Job(f"pod-{spec.gpus}.server", spec, time.time())
        environment = {**os.environ, **spec.environment, "SLURM_JOB_ID": job.id, "SLURM_JOB_NUM_NODES": str(spec.nodes)}
        environment["GSW_LOCAL"] = "1"  # the script does without srun
        subprocess.run(self.command(spec), cwd=spec.directory, env=environment, check=True)
        return job

    def find(self, spec, since_s):
        return None

    def poll(self, jobs):
        done = JobStatus(JobState.COMPLETED, exit_code=0, end_s=time.time())
        return {job.spec.row_id: done for job in jobs}

    def cancel(self, jobs):
        pass

    def find_log(self, job):
        return find_log(job.spec.stage, job.spec.log_glob, job.id, nccl_trace=False)

    def batch_output(self, job):
        return None

    def close(self):
        pass


def pytest_gsw_make_launcher(cluster):
    return Pods() if cluster.scheduler == "pods" else None
"""
ROWS = ("--gsw-cluster=ours", "-k", "llama2_70b_fp8 and (H100x64 or H100x128)", "-q")


def test_ids_of_jobs_are_text_wherever_they_go(
    pytester: pytest.Pytester, recipes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makeconftest(PODS)
    (pytester.path / "clusters.yaml").write_text(
        f"clusters: {{ours: {{scheduler: pods, gpus: 256, stage: {pytester.path}/stage, recipes: {recipes}}}}}\n"
    )
    options = ("--gsw-tolerance=50%", "--gsw-history=h.sqlite", "--gsw-report=report")
    assert pytester.runpytest(*ROWS, *options).parseoutcomes()["passed"] == 2
    (run,) = pytester.path.glob(".gsw/runs/*")
    records = [json.loads(path.read_text()) for path in run.glob("records/*.json")]
    assert {record["job"]["id"] for record in records} == {"pod-64.server", "pod-128.server"}
    assert "pod-64.server" in "".join(page.read_text() for page in (pytester.path / "report").rglob("*.html"))
    replayed = ("-k", "llama2_70b_fp8 and (H100x64 or H100x128)", "--gsw-tolerance=50%")
    for source in (run, "stage"):
        result = pytester.runpytest(*replayed, f"--gsw-replay={source}")
        assert result.parseoutcomes()["passed"] == 2
    capsys.readouterr()
    assert main(["history", "--history=h.sqlite", "--csv"]) == 0
    assert "pod-128.server" in capsys.readouterr().out
    assert pytester.runpytest(*ROWS, "--gsw-tolerance=50%", "--gsw-resume=last").parseoutcomes()["passed"] == 2


def test_a_key_that_a_launcher_does_not_use_ends_the_session_before_it_begins(
    pytester: pytest.Pytester, recipes: Path
) -> None:
    pytester.makeconftest(PODS)
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n  ours:\n    scheduler: pods\n    constraint: ib\n"
        f"    stage: {pytester.path}/stage\n    recipes: {recipes}\n"
    )
    result = pytester.runpytest(*ROWS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: *clusters.yaml: 1 problem",
            (
                "  *clusters.yaml:4:17    clusters.ours.constraint: the launcher 'pods' of the scheduler 'pods' does not "
                "use it; leave it out"
            ),
        ]
    )
    assert not (pytester.path / "stage").exists()


def test_the_contract_finds_what_is_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import re

        import pytest

        from pytest_gsw import Step, StepLog
        from pytest_gsw.jobs.local import LocalLauncher
        from pytest_gsw.testing import LauncherContract, LogFormatContract


        class Old(LocalLauncher):
            def poll(self, jobs):
                return {job.id: status for job, status in zip(jobs, super().poll(jobs).values())}


        class TestOld(LauncherContract):
            @pytest.fixture
            def launcher(self, tmp_path):
                return Old(2, work_directory=tmp_path)


        class Naive:
            name = "tick"
            dialects = ((b"tick ",),)
            first_index = 1
            wraps = False
            shows_progress = True

            def reader(self):
                return NaiveParser()


        class NaiveParser:
            def __init__(self):
                self.steps = ()

            def feed(self, offset, record):
                m = re.search(rb"tick (\\d+) took ([\\d.]+) s", record)
                if m:
                    self.steps += (Step(int(m[1]), seconds=float(m[2]), offset=offset),)

            def log(self):
                return StepLog("tick", self.steps, attempts=1)


        class TestNaive(LogFormatContract):
            @pytest.fixture
            def log_format(self):
                return Naive()

            def line(self, index, seconds, loss):
                return f"tick {index} took {seconds} s, loss {loss}\\n".encode()
        """
    )
    result = pytester.runpytest("-k", "TestNaive or end_well or never_was or shape", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["E * AssertionError: poll() answers by *, wanted row ids: *"])
    assert result.parseoutcomes()["failed"] >= 1
