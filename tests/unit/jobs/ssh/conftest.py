"""A stand-in for ``ssh``, which runs its last argument by bash on this machine, as a login node does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster, Submission
from pytest_gsw.jobs.ssh import connection
from pytest_gsw.jobs.ssh.connection import Connection
from pytest_gsw.jobs.ssh.login import Login

_SSH = """\
#!/bin/bash
for word; do
    if [[ $word == -G ]]; then echo "hostname 127.0.0.1"; echo "port 22"; exit; fi
done
cd {there}
echo >>starts
. ./before
exec env -i HOME={there}/home PATH={path} bash -c "${{@: -1}}"
"""


class StandIn:
    """The stand-in, whose login node is a directory."""

    def __init__(self, directory: Path, path: str) -> None:
        self.directory = directory
        self._program = directory / "bin" / "ssh"
        for name in ("bin", "home"):
            (directory / name).mkdir(parents=True)
        self._program.write_text(_SSH.format(there=directory, path=path))
        self._program.chmod(0o755)
        self.before("")

    def before(self, commands: str) -> None:
        """Commands of bash that each ``ssh`` runs first, such as an error and its exit."""
        (self.directory / "before").write_text(f"{commands}\n")

    def keep_helper(self) -> None:
        """Let the helper go on without its ssh, as on another machine."""
        self.before('bash -c "${@: -1}"; exit')

    def profile(self, commands: str) -> None:
        """Commands of bash in the user's .bash_profile."""
        (self.directory / "home" / ".bash_profile").write_text(f"{commands}\n")

    @property
    def starts(self) -> int:
        """How often it was started."""
        path = self.directory / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in is the ``ssh`` on the PATH."""
    stand_in = StandIn(tmp_path / "there", os.environ["PATH"])
    monkeypatch.setenv("PATH", f"{stand_in.directory}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(connection, "_BACK_OFF_S", 0.0)
    monkeypatch.setattr(connection, "_LONGEST_BACK_OFF_S", 0.0)
    return stand_in


@pytest.fixture
def login(ssh: StandIn) -> Iterator[Connection]:
    """A connection to it, which is closed after the test."""
    made = Connection("eos-login")
    yield made
    made.close()


@pytest.fixture
def make_login(ssh: StandIn, tmp_path: Path) -> Iterator[Callable[..., Login]]:
    """Make a login of a session in the directory of this name; all sessions are of one run."""
    (tmp_path / "stage").mkdir()
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
