"""Nothing is lost: sessions that are killed, interrupted or detached, and resumed, on a real Slurm."""

from __future__ import annotations

import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pytest_gsw.demo
from tests.defaults import set_defaults
from tests.integration.conftest import junit, properties, records, tiny_table
from tests.messages import wording
from tests.sample import fewer

from .cluster import SlurmCluster
from .sessions import PLUGIN_ALONE

ROWS = 40


@pytest.fixture
def project(tmp_path: Path, slurm32: SlurmCluster) -> Path:
    """A project with forty small rows, and a cluster that is the real Slurm."""
    rows = (f"gpus: 8, case: r{n:02d}, step_time_s: {1 + n / 100}, line: {n + 1}" for n in range(ROWS))
    tables = tmp_path / "site"
    tables.mkdir()
    (tables / "tiny.yaml").write_text(tiny_table(*rows))
    (tmp_path / "recipes" / "tiny").mkdir(parents=True)
    shutil.copy(Path(pytest_gsw.demo.__file__).parent / "launch.sh", tmp_path / "recipes" / "tiny")
    (tmp_path / "clusters.yaml").write_text(
        f"""\
defaults: {{poll_interval: 0.5}}
clusters:
  here:
    scheduler: slurm
    gres: gpu:8
    stage: {tmp_path}/stage
    recipes: {tmp_path}/recipes
    environment: {{GSW_PYTHON: {sys.executable}, GSW_DEMO_SECONDS: "2"}}
"""
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\ngsw_baselines = site\n")
    slurm32.cancel_all()
    return tmp_path


def start(project: Path, slurm: SlurmCluster, *options: str) -> subprocess.Popen[str]:
    """A session of its own, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=project,
        env=slurm.environ | PLUGIN_ALONE | {"PATH": f"{project}/bin{os.pathsep}{slurm.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(session: subprocess.Popen[str], timeout_s: float = 120) -> str:
    out, _ = session.communicate(timeout=timeout_s)
    return out


def jobs_by_name(slurm: SlurmCluster, project: Path, since: str) -> collections.Counter[str]:
    """How many jobs of each name the project's one run has had in all."""
    (run,) = (project / ".gsw" / "runs").iterdir()
    names = slurm.run("sacct", "-X", "-n", "-P", "-S", since, "-o", "JobName").split()
    return collections.Counter(name for name in names if name.startswith(f"gsw-{run.name}-"))


def test_killed_at_many_moments_no_job_is_lost_and_none_is_submitted_twice(
    project: Path, slurm32: SlurmCluster
) -> None:
    moments = random.Random(20)  # noqa: S311 - moments, not secrets
    since = time.strftime("%Y-%m-%dT%H:%M:%S")

    def has_begun() -> bool:
        return any(path.stat().st_size for path in project.glob(".gsw/runs/*/journal.jsonl"))

    for number in range(fewer(8, 20)):
        if not has_begun():  # a session that was killed before its first line has left no run
            shutil.rmtree(project / ".gsw", ignore_errors=True)
        session = start(project, slurm32, "--gsw-resume=last" if has_begun() else "--gsw-cluster=here")
        if number >= 3:  # the first ones may end before there is anything to resume, the others must not
            slurm32.wait_until(has_begun, "a journal", 60)
        time.sleep(moments.uniform(0.4, 3.0))
        session.send_signal(signal.SIGKILL)
        finish(session)
    out = finish(start(project, slurm32, "--gsw-resume=last", "--junitxml=junit.xml"))
    assert f"{ROWS} passed" in out, out
    assert len(junit(project / "junit.xml")) == ROWS
    (run,) = (project / ".gsw" / "runs").iterdir()
    records = [json.loads(path.read_text()) for path in run.glob("records/*.json")]
    assert len(records) == ROWS
    assert {record["outcome"] for record in records} == {"passed"}
    names = jobs_by_name(slurm32, project, since)
    assert len(names) == ROWS
    assert set(names.values()) == {1}, names


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_cancels_everything_at_once_and_says_so(
    project: Path, slurm32: SlurmCluster, number: signal.Signals
) -> None:
    counted = project / "bin" / "scancel"
    counted.parent.mkdir()
    scancel = shutil.which("scancel", path=slurm32.environ["PATH"])
    counted.write_text(f'#!/bin/bash\necho "$#" >>{project}/scancels\nexec {scancel} "$@"\n')
    counted.chmod(0o755)
    session = start(project, slurm32, "--gsw-cluster=here", "--junitxml=junit.xml")
    slurm32.wait_until(lambda: len(slurm32.run("squeue", "-h").splitlines()) >= ROWS - 5, "jobs", 60)
    session.send_signal(number)
    out = finish(session)
    assert session.returncode == pytest.ExitCode.INTERRUPTED, out
    cases = junit(project / "junit.xml")
    assert len(cases) == ROWS
    interrupted = [case for case in cases.values() if "interrupted: job " in ("".join(case.itertext()))]
    finished = [case for case in cases.values() if properties(case)["gsw_outcome"] == "passed"]
    assert len(interrupted) + len(finished) == ROWS
    assert interrupted
    assert len(records(project)) == ROWS
    slurm32.wait_until(lambda: not slurm32.run("squeue", "-h").strip(), "an empty queue", 30)
    assert len((project / "scancels").read_text().splitlines()) == 1  # one for all
    # What is printed as the next command runs the rows whose jobs were cancelled, and those that had none.
    (run,) = project.glob(".gsw/runs/*")
    goes_on = f"pytest --gsw-resume={run.name} --junitxml=junit.xml"
    assert wording("goes on", command=goes_on) + "\n" in out
    out = finish(start(project, slurm32, f"--gsw-resume={run.name}", "--junitxml=junit.xml"))
    assert f"{ROWS} passed" in out, out
    told = "".join("".join(case.itertext()) for case in interrupted)
    cancelled = set(re.findall(r"interrupted: job (\d+) was cancelled", told))
    attempts = [properties(case).get("gsw_attempt_1", "") for case in junit(project / "junit.xml").values()]
    again = {text.partition(" ")[0] for text in attempts if text.endswith(": its session ended early")}
    assert again
    assert again <= cancelled  # a job may have ended before its cancellation came


def test_a_job_that_somebody_else_cancels_is_an_error_of_its_row(project: Path, slurm32: SlurmCluster) -> None:
    clusters = project / "clusters.yaml"
    # None ends before it is cancelled.
    clusters.write_text(clusters.read_text().replace('SECONDS: "2"', 'SECONDS: "300"'))
    session = start(project, slurm32, "--gsw-cluster=here", "--gsw-detach", "-k", "r00 or r01")
    slurm32.wait_until(lambda: len(slurm32.run("squeue", "-h").splitlines()) == 2, "jobs", 60)
    session.send_signal(signal.SIGINT)
    finish(session)
    slurm32.cancel_all()
    out = finish(start(project, slurm32, "--gsw-resume=last"))
    assert "2 errors" in out, out
    assert out.count(" ended CANCELLED") >= 2


def test_a_detached_session_leaves_its_jobs_to_be_resumed(project: Path, slurm32: SlurmCluster) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    session = start(project, slurm32, "--gsw-cluster=here", "--gsw-detach", "-k", "r0 or r1")
    slurm32.wait_until(lambda: len(slurm32.run("squeue", "-h").splitlines()) >= 18, "jobs", 60)
    session.send_signal(signal.SIGINT)
    out = finish(session)
    assert "interrupted: job " in out
    assert "was left running" in out
    (run,) = project.glob(".gsw/runs/*")
    assert wording("goes on", command=f"pytest --gsw-resume={run.name}") + "\n" in out
    out = finish(start(project, slurm32, f"--gsw-resume={run.name}"))
    assert "20 passed, 20 deselected" in out, out
    assert sum(jobs_by_name(slurm32, project, since).values()) == 20


def test_limits_hold(project: Path, slurm32: SlurmCluster) -> None:
    (project / "conftest.py").write_text(
        "import subprocess\n"
        "def pytest_gsw_job_state_changed():\n"
        "    queue = subprocess.run(['squeue', '-h', '-t', 'pending,running'], capture_output=True, text=True).stdout\n"
        "    with open('taken.txt', 'a') as taken:\n"
        "        taken.write(f'{len(queue.splitlines())}\\n')\n"
    )
    set_defaults(project, poll_interval=0.5, max_gpus=40)
    out = finish(start(project, slurm32, "--gsw-cluster=here", "-k", "r0"))
    assert "10 passed" in out, out
    assert 1 <= max(int(line) for line in (project / "taken.txt").read_text().split()) <= 5


def test_a_run_of_nothing_cannot_be_resumed(project: Path, slurm32: SlurmCluster) -> None:
    session = start(project, slurm32, "--gsw-resume=last")
    out = finish(session)
    assert session.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --gsw-resume: " + wording("nothing to resume", path=f"{project}/.gsw/runs") in out


def test_rows_that_cannot_be_submitted_any_more_keep_none_that_was_from_being_judged(
    project: Path, slurm32: SlurmCluster
) -> None:
    set_defaults(project, poll_interval=0.5, max_jobs=1)
    session = start(project, slurm32, "--gsw-cluster=here", "-k", "r00 or r01 or r02")
    slurm32.wait_until(lambda: bool(slurm32.run("squeue", "-h", "-t", "running").strip()), "a job", 60)
    session.send_signal(signal.SIGKILL)
    finish(session)
    slurm32.wait_until(lambda: not slurm32.run("squeue", "-h").strip(), "an empty queue", 60)
    (project / "recipes" / "tiny" / "launch.sh").unlink()
    out = finish(start(project, slurm32, "--gsw-resume=last"))
    assert "1 passed, 37 deselected, 2 errors" in out, out
    assert out.count(wording("no script", path=f"{project}/recipes/tiny/launch.sh") + "\n") == 2
