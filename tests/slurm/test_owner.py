"""A run has one owner, and its jobs are looked after whatever ends the session: on a real Slurm."""

from __future__ import annotations

import collections
import contextlib
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_gsw.demo
from pytest_gsw.jobs.journal import read_lines
from tests.integration.conftest import junit, tiny_table
from tests.messages import wording
from tests.signals import hear_hangup

from .cluster import SlurmCluster
from .conftest import start as start_cluster
from .sessions import PLUGIN_ALONE
from .test_resume import finish, jobs_by_name, start

ROWS = 8

#: pytest in a process whose controlling terminal is its own.
OWN_TERMINAL = """\
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv[0] = "pytest"
runpy.run_module("pytest", run_name="__main__")
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """Ten nodes of a cluster in which limits hold."""
    yield from start_cluster(10, limits=True)


@pytest.fixture
def project(tmp_path: Path, slurm: SlurmCluster) -> Path:
    """A project with eight small rows on that cluster."""
    rows = (f"gpus: 8, case: r{n}, step_time_s: {1 + n / 100}, line: {n + 1}" for n in range(ROWS))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "tiny.yaml").write_text(tiny_table(*rows))
    (tmp_path / "recipes" / "tiny").mkdir(parents=True)
    shutil.copy(Path(pytest_gsw.demo.__file__).parent / "launch.sh", tmp_path / "recipes" / "tiny")
    (tmp_path / "pytest.ini").write_text("[pytest]\ngsw_baselines = site\n")
    takes(tmp_path, 3)
    slurm.cancel_all()
    return tmp_path


def takes(project: Path, seconds: float) -> None:
    """How long its jobs take."""
    (project / "clusters.yaml").write_text(
        f"""\
defaults: {{poll_interval: 0.5}}
clusters:
  here:
    scheduler: slurm
    gres: gpu:8
    stage: {project}/stage
    recipes: {project}/recipes
    environment: {{GSW_PYTHON: {sys.executable}, GSW_DEMO_SECONDS: "{seconds}"}}
"""
    )


def queue(slurm: SlurmCluster) -> list[str]:
    return slurm.run("squeue", "-h", "-o", "%i").split()


#: Leaves a file of the session's own once it has heard of its jobs.
HEARS = """
import os
from pathlib import Path

def pytest_gsw_job_state_changed():
    Path(f"heard-{os.getpid()}").touch()
"""


def test_one_session_at_a_time(project: Path, slurm: SlurmCluster) -> None:
    (project / "conftest.py").write_text(HEARS)
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    takes(project, 300)
    first = start(project, slurm, "--gsw-cluster=here")
    slurm.wait_until(lambda: len(queue(slurm)) == ROWS, "all jobs", 60)
    # While it lives.
    second = start(project, slurm, "--gsw-resume=last")
    out = finish(second)
    assert second.returncode == pytest.ExitCode.USAGE_ERROR, out
    assert wording("owned elsewhere") + f": process {first.pid} on " in out
    assert f"next: wait until it has ended, or end it (kill {first.pid} on " in out
    # Two at once after its death.
    first.send_signal(signal.SIGKILL)
    finish(first)
    both = [start(project, slurm, "--gsw-resume=last") for _ in range(2)]
    slurm.wait_until(lambda: any(session.poll() is not None for session in both), "one is refused", 60)
    (winner,) = [session for session in both if session.poll() is None]
    (loser,) = [session for session in both if session is not winner]
    assert loser.returncode == pytest.ExitCode.USAGE_ERROR, finish(loser)
    assert wording("owned elsewhere") + f": process {winner.pid} on " in finish(loser)
    slurm.wait_until((project / f"heard-{winner.pid}").exists, "the winner has taken the jobs over", 60)
    winner.send_signal(signal.SIGTERM)
    assert f"{ROWS} errors" in finish(winner)
    slurm.wait_until(lambda: not queue(slurm), "the end of all jobs", 60)
    slurm.wait_until(lambda: len(jobs_by_name(slurm, project, since)) == ROWS, "accounting has all jobs", 60)
    assert set(jobs_by_name(slurm, project, since).values()) == {1}
    locks = Path(os.environ.get("TMPDIR", "/tmp")).glob(f"pytest-gsw-*-{run_of(project).name}.lock")
    assert list(locks) == []


def run_of(project: Path) -> Path:
    (run,) = (project / ".gsw" / "runs").iterdir()
    return run


def test_rows_whose_lines_are_gone_are_found_by_name(project: Path, slurm: SlurmCluster) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    session = start(project, slurm, "--gsw-cluster=here")
    slurm.wait_until(lambda: len(queue(slurm)) == ROWS, "all jobs", 60)
    session.send_signal(signal.SIGKILL)
    finish(session)
    journal = run_of(project) / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    middle = len(lines) // 2
    lines[0] = b"\0" * len(lines[0])
    lines[middle] = lines[middle].replace(b"event", b"evenu")
    journal.write_bytes(b"\n".join([*lines[: middle + 1], b""]))
    # A row that was renamed meanwhile is named with its job, and is an error.
    table = project / "site" / "tiny.yaml"
    table.write_text(
        table.read_text().replace("case: r3", "case: renamed").replace("step_time_s: 1.05", "step_time_s: 1.06")
    )
    out = finish(start(project, slurm, "--gsw-resume=last", "--junitxml=junit.xml"))
    assert f"gsw: {journal}:1 is not readable" in out, out
    assert f"gsw: {journal}:{middle + 1} is not readable" in out
    assert "gsw: so every row of the run is looked up by its job's name before anything is submitted" in out
    assert "1 error" in out
    assert "7 passed" in out
    assert "r3] was a row of this run, and is not there any more: renamed, removed or skipped" in out
    assert set(jobs_by_name(slurm, project, since).values()) == {1}
    assert len(jobs_by_name(slurm, project, since)) == ROWS


def test_a_wrapper_that_fails_after_the_job_was_taken(project: Path, slurm: SlurmCluster) -> None:
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    wrapper = project / "bin" / "sbatch"
    wrapper.parent.mkdir()
    sbatch = shutil.which("sbatch", path=slurm.environ["PATH"])
    wrapper.write_text(
        f'#!/bin/bash\n{sbatch} "$@" >/dev/null || exit\necho "cannot write to the submission log" >&2\nexit 1\n'
    )
    wrapper.chmod(0o755)
    out = finish(start(project, slurm, "--gsw-cluster=here"))
    assert f"{ROWS} passed" in out, out
    assert set(jobs_by_name(slurm, project, since).values()) == {1}


def test_a_limit_on_submissions_is_waited_for(project: Path, slurm: SlurmCluster) -> None:
    takes(project, 1)
    slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "MaxSubmitJobs=3")
    try:
        out = finish(start(project, slurm, "--gsw-cluster=here"))
    finally:
        slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "MaxSubmitJobs=-1")
    assert f"{ROWS} passed" in out, out


#: Sessions of two machines, and a run that is taken over after three seconds without a sign of life.
SHORT_LEASE = """
import tempfile
from pytest_gsw.jobs.run_lock import RunLock
tempfile.tempdir = tempfile.mkdtemp(dir=".")
RunLock.__init__.__defaults__ = (3.0, 0.5)
"""


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_session_that_wakes_up_leaves_the_run_to_its_new_owner(
    project: Path, slurm: SlurmCluster, has_ended: bool
) -> None:
    (project / "conftest.py").write_text(SHORT_LEASE + HEARS)
    clusters = project / "clusters.yaml"
    clusters.write_text(clusters.read_text() + "    max_jobs: 2\n")
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    first = start(project, slurm, "--gsw-cluster=here", "--junitxml=first.xml", "--gsw-report=first")

    def records() -> int:
        return len([*project.glob(".gsw/runs/*/records/*.json")])

    slurm.wait_until(lambda: records() > 0, "a first result", 60)
    first.send_signal(signal.SIGSTOP)
    had = records()
    second = start(project, slurm, "--gsw-resume=last", "--junitxml=second.xml")
    slurm.wait_until((project / f"heard-{second.pid}").exists, "the run is taken over", 60)
    if has_ended:
        assert f"{ROWS} passed" in finish(second)
    first.send_signal(signal.SIGCONT)
    out = finish(first)
    if not has_ended:
        assert f"{ROWS} passed" in finish(second)
    assert first.returncode == 6, out
    assert f"gsw: taken over by {socket.gethostname()} since " in out
    assert not re.search(r"\bagain\b|^next|cancelled", out, re.MULTILINE), out
    cases = junit(project / "first.xml").values()
    assert len(cases) == ROWS
    kinds = collections.Counter(child.tag for case in cases for child in case if child.tag != "properties")
    assert kinds.keys() == {"skipped"}, out
    assert ROWS - had - 2 <= kinds["skipped"] <= ROWS - had
    slurm.wait_until(lambda: len(jobs_by_name(slurm, project, since)) == ROWS, "accounting has all jobs", 60)
    assert set(jobs_by_name(slurm, project, since).values()) == {1}
    assert read_lines((run_of(project) / "journal.jsonl").read_bytes()).damage == ()


@pytest.mark.parametrize("detach", [False, True])
def test_a_terminal_that_is_closed(project: Path, slurm: SlurmCluster, detach: bool) -> None:
    """As of an ssh that is lost: what pytest makes of it is pytest's own, and no job is left that nobody wanted."""
    takes(project, 60)
    ours, its = pty.openpty()
    options = ["--gsw-cluster=here", *(["--gsw-detach"] if detach else [])]
    session = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, "-p", "no:cacheprovider", *options],
        cwd=project, env=slurm.environ | PLUGIN_ALONE, stdin=its, stdout=its, stderr=its, start_new_session=True,
        preexec_fn=hear_hangup,
    )  # fmt: skip
    os.close(its)
    os.set_blocking(ours, False)

    def all_there() -> bool:
        with contextlib.suppress(OSError):
            os.read(ours, 65536)
        return len(queue(slurm)) == ROWS

    slurm.wait_until(all_there, "all jobs", 60)
    os.close(ours)  # the kernel sends SIGHUP
    session.wait(60)
    states = collections.Counter(slurm.run("squeue", "-h", "-t", "pending,running", "-o", "%T").split())
    assert sum(states.values()) == (ROWS if detach else 0), states
    assert session.returncode != pytest.ExitCode.OK
    slurm.cancel_all()
