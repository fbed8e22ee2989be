"""The one process of ssh, and its threads."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.ssh import connection
from pytest_gsw.jobs.ssh.connection import Connection, ConnectionLostError, Pending, _Line
from pytest_gsw.jobs.ssh.login import Login

from .conftest import StandIn


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
    profile: str, ssh: StandIn, make_login: Callable[..., Login], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh.profile(profile)
    attempts: list[Any] = []
    monkeypatch.setattr(connection, "_Line", lambda command: attempts.append(command) or _Line(command))
    with pytest.raises(ConfigurationError, match="login shell"):
        make_login().node()
    assert len(attempts) == 1


_TWO_ADDRESSES = """\
#!/bin/bash
case " $* " in
*" -G "*) printf 'hostname eos.example\\nport 22\\n%s' "$MORE" ;;
*HostName=192.0.2.1*) echo "ssh: connect to host 192.0.2.1: Connection refused" >&2; exit 255 ;;
*) echo "$*" >>"$CALLS"; exec bash -c "${@: -1}" ;;
esac
"""


@pytest.mark.parametrize(("more", "names"), [("", "-oHostName=192.0.2.2"), ("controlpath /run/cm\n", "-T eos")])
def test_a_name_of_several_hosts(
    more: str, names: str, ssh: StandIn, make_login: Callable[..., Login], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is down is passed over, and a master that may have the name in its socket's path is used."""
    addresses = [(0, 0, 0, "", (f"192.0.2.{number}", 22)) for number in (2, 1)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    monkeypatch.setenv("MORE", more)
    login = make_login()
    monkeypatch.setenv("CALLS", str(ssh.directory / "calls"))
    (ssh.directory / "bin/ssh").write_text(_TWO_ADDRESSES)
    login.node()
    (call,) = (ssh.directory / "calls").read_text().splitlines()
    assert names in call
    assert ("HostName" in call) == (not more)


_SLOW = """\
import json, sys, time
request = sys.stdin.buffer
request.read(int(request.readline()))
request.read(int(request.readline()))
text = json.dumps({"id": 1, "time_s": 0, "results": [{"is": None, "bytes": 327680}]})
sys.stdout.write("\\n%s %d %d\\n%s" % (sys.argv[1], len(text), 20 * 16384, text))
for _ in range(20):
    time.sleep(0.05)
    sys.stdout.write("x" * 16384)
    sys.stdout.flush()
"""


def test_files_that_arrive_slowly_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LATE_S", 0.5)
    line = _Line((sys.executable, "-c", _SLOW, connection._MARKER))
    answer = Pending(Connection("eos"), line, line.send([("read", {})]), 1, [], 0.0).result()
    assert len(answer.blob) == 20 * 16384
    line.end("")
