"""Logins to a login node that is this machine: the ``ssh`` on the PATH runs the command here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster, Submission
from pytest_gsw.jobs.ssh import connection
from pytest_gsw.jobs.ssh.login import Login

_SSH = """\
#!/bin/bash
[[ " $* " != *" -G "* ]] || exit 1
bash -c "${@: -1}"
"""


@pytest.fixture
def make_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Login]]:
    """Make a login of a session in the directory of this name; all sessions are of one run."""
    program, home = tmp_path / "bin/ssh", tmp_path / "home"
    for place in (program.parent, home, tmp_path / "stage"):
        place.mkdir()
    program.write_text(_SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(connection, "_BACK_OFF_S", 0.0)
    monkeypatch.setattr(connection, "_LONGEST_BACK_OFF_S", 0.0)
    logins = []

    def make(session: str = "session") -> Login:
        mirror = tmp_path / session / "run" / "there"
        mirror.mkdir(parents=True, exist_ok=True)
        cluster = Cluster(
            "eos", "slurm", stage=f"{mirror}{tmp_path}/stage", submission=Submission(host="eos"), mirror=mirror
        )
        logins.append(Login(cluster))
        return logins[-1]

    yield make
    for login in logins:
        login.close()
