"""The owner of a run on a login node."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import RunError, TakenOverError
from pytest_gsw.jobs.ssh import login as logins
from pytest_gsw.jobs.ssh.login import Login

MakeLogin = Callable[..., Login]


def _lose(login: Login) -> None:
    line = login.connection._line
    assert line is not None
    login.connection.lose(line, "cut")


def test_a_folder_that_is_gone_is_not_made_anew_by_a_connection(make_login: MakeLogin, tmp_path: Path) -> None:
    """Else the second connection after that would find it, without the keys of what was submitted."""
    login = make_login()
    login.own()
    shutil.rmtree(tmp_path / "stage/.gsw")
    _lose(login)
    for _ in range(3):
        with pytest.raises(RunError):
            login.connection.call("state_of", key="a.1")
    assert not (tmp_path / "stage/.gsw").exists()


def test_a_closed_session_gives_the_run_to_another_place_at_once(make_login: MakeLogin) -> None:
    first, second = make_login("first"), make_login("second")
    first.own()
    first.release()
    second.own()
    second.check_owner()


def test_a_killed_session_gives_the_run_to_the_next_one_of_its_directory_at_once(make_login: MakeLogin) -> None:
    make_login().own()
    make_login().own()


def test_a_session_that_lives_keeps_its_run(make_login: MakeLogin, monkeypatch: pytest.MonkeyPatch) -> None:
    first, lines = make_login("first"), list[str]()
    first.own()
    owner = Path(first.folder, "owner.json")
    os.utime(owner, (time.time() - 60.0,) * 2)
    monkeypatch.setattr(time, "sleep", lambda _: os.utime(owner))  # its next sign
    with pytest.raises(TakenOverError):
        make_login("second").own(lines.append)
    assert len(lines) == 1


def test_a_session_that_was_taken_over_asks_for_nothing_more(
    make_login: MakeLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "OWNER_GONE_S", 0.0)
    first, second = make_login("first"), make_login("second")
    first.own()
    second.own()
    _lose(first)
    for _ in range(3):
        with pytest.raises(TakenOverError):
            first.connection.call("state_of", key="a.1")
    second.check_owner()
