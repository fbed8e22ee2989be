"""Submissions whose answer a lost connection has swallowed, and logs that are not here."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError, NotFetchedError, NotListedError, SchedulerUnreachableError
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.ssh import mirror
from pytest_gsw.jobs.ssh.launcher import LoginClient, SshLauncher
from pytest_gsw.jobs.ssh.login import Login
from pytest_gsw.jobs.states import JobState, JobStatus


def test_a_launch_script_that_runs_on_behind_a_lost_connection_may_submit_its_job(
    make_login: Callable[..., Login], tmp_path: Path
) -> None:
    """Its row is no error yet: it is looked for, and the script runs once."""
    login, begun, go = make_login(), tmp_path / "begun", tmp_path / "go"
    (tmp_path / "recipe").mkdir()
    recipe, stage = login.mirror.here(tmp_path / "recipe"), login.mirror.here(tmp_path / "stage")
    spec = JobSpec("a", "gsw-a", recipe / "launch.sh", recipe, stage, 1, 8, {})
    launcher = SshLauncher(login, tmp_path / "work")
    script = f"echo >>{begun}; kill -9 $PPID; for _ in {{1..1500}}; do [ -e {go} ] && break; sleep 0.02; done"
    with pytest.raises(SchedulerUnreachableError):
        LoginClient(login).launch(("bash", "-c", script), spec, tmp_path / "out")
    with pytest.raises(NotListedError):
        launcher.find(spec, 0.0)
    go.touch()
    assert len(begun.read_text().splitlines()) == 1


def test_a_log_that_cannot_be_written_here_is_no_lost_connection(
    make_login: Callable[..., Login], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its row would be waited for as long, in silence."""
    login = make_login()
    stage = login.mirror.here(tmp_path / "stage")
    job = Job("7", JobSpec("a", "gsw-a", stage / "l.sh", stage, stage, 1, 8, {}, log_glob="log_{job_id}.out"), 0.0)
    (tmp_path / "stage/log_7.out").write_text("steps")
    launcher = SshLauncher(login, tmp_path / "work")
    monkeypatch.setattr(SlurmLauncher, "poll", lambda *_: {"a": JobStatus(JobState.COMPLETED)})
    launcher.poll([job])
    assert launcher.find_log(job).read_text() == "steps"
    (tmp_path / "stage/log_7.out").write_text("others")
    monkeypatch.setattr(mirror, "_write", full_disk)
    launcher.poll([job])
    with pytest.raises(LogError) as error:
        launcher.find_log(job)
    assert not isinstance(error.value, NotFetchedError)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
