"""The one process of ssh, and its threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.ssh import connection
from pytest_gsw.jobs.ssh.connection import Connection, ConnectionLostError, _Line
from pytest_gsw.jobs.ssh.login import Login


def test_an_ssh_that_ends_at_once_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader may see that before another thread has begun."""
    errors: list[Any] = []
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begin(thread)
        if thread.name == "gsw-ssh-_read":
            thread.join(5.0)

    monkeypatch.setattr(threading, "excepthook", errors.append)
    monkeypatch.setattr(threading.Thread, "start", start)
    line = _Line(("false",))
    with pytest.raises(ConnectionLostError):
        line.send([("hello", {})]).result(5.0)
    assert not errors


@pytest.mark.parametrize("profile", ["yes", "head -c 3000000 /dev/zero | tr '\\0' x", "read line"])
def test_a_login_shell_that_spoils_the_channel_is_named_at_once(
    profile: str, make_login: Callable[..., Login], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home/.bash_profile").write_text(f"{profile}\n")
    attempts: list[Any] = []
    monkeypatch.setattr(connection, "_Line", lambda command: attempts.append(command) or _Line(command))
    with pytest.raises(ConfigurationError, match="login shell"):
        make_login().node()
    assert len(attempts) == 1


def test_commands_for_the_user_have_the_options_of_ssh() -> None:
    assert Connection("eos", ["-F", "/a file"]).by_hand == "ssh -F '/a file' eos"
