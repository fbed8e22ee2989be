"""Submissions whose answer a lost connection has swallowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import NotListedError, SchedulerUnreachableError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.ssh.launcher import LoginClient, SshLauncher
from pytest_gsw.jobs.ssh.login import Login


def test_a_launch_script_that_runs_on_behind_a_lost_connection_may_submit_its_job(
    make_login: Callable[..., Login], tmp_path: Path
) -> None:
    """Its row is no error yet: it is looked for, and the script runs once."""
    login, begun, go = make_login(), tmp_path / "begun", tmp_path / "go"
    (tmp_path / "recipe").mkdir()
    recipe, stage = login.mirror.here(tmp_path / "recipe"), login.mirror.here(tmp_path / "stage")
    spec = JobSpec("a", "gsw-a", recipe / "launch.sh", recipe, stage, 1, 8, {})
    launcher = SshLauncher(login, tmp_path / "work")
    script = f"echo >>{begun}; kill -9 $PPID; until [ -e {go} ]; do sleep 0.02; done"
    with pytest.raises(SchedulerUnreachableError):
        LoginClient(login).launch(("bash", "-c", script), spec, tmp_path / "out")
    with pytest.raises(NotListedError):
        launcher.find(spec, 0.0)
    go.touch()
    assert len(begun.read_text().splitlines()) == 1
