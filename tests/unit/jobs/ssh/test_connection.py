"""The connection to a login node, by a stand-in for ``ssh``."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.jobs.ssh import connection
from pytest_gsw.jobs.ssh.connection import (
    Connection,
    ConnectionLostError,
    HelperError,
    RefusedRequestError,
    is_passing,
)

from .conftest import StandIn


def run(*command: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "run", {"command": command, "changes": {}, "given": None, "timeout_s": 60, **arguments}


def out(login: Connection, *command: str) -> str:
    return str(login.request([run(*command)]).results[0]["out"])


def helper_of(login: Connection) -> int:
    """The process of the helper."""
    return int(out(login, "bash", "-c", "echo $PPID"))


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are awaited for a moment."""
    monkeypatch.setattr(connection, "LATE_S", 0.2)


def test_requests(login: Connection, ssh: StandIn) -> None:
    assert login.node is None
    assert ssh.starts == 0  # not before it is needed
    answers = login.request([run("echo", "a"), ("owner_of", {"folder": "/none"}), run("cat", given="é")])
    assert [answers.results[0]["out"], answers.results[1], answers.results[2]["out"]] == ["a\n", None, "é"]
    assert login.node is not None
    assert login.node.user_id == os.getuid()
    assert login.node.variables["HOME"] == str(ssh.directory / "home")
    assert (login.requests, ssh.starts, login.lost_text) == (1, 1, "")
    assert "secret" not in repr(login.node)


def test_no_variable_of_this_machine_is_sent(login: Connection, ssh: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    assert "SECRET_TOKEN" not in out(login, "env")


@pytest.mark.parametrize(
    "noise",
    [
        "echo welcome",
        "printf 'no end of a line'",
        "head -c 200000 /dev/urandom",
        "for i in {1..3}; do printf '\\n\\n'; done; echo 0123456789abcdef0123456789abcdef 5 5",
        "echo 'a complaint' >&2",
    ],
)
def test_what_a_login_shell_prints_is_no_answer(login: Connection, ssh: StandIn, noise: str) -> None:
    ssh.before(noise)
    ssh.profile(noise)
    assert out(login, "echo", "a") == "a\n"


def test_a_shell_that_prints_without_end(login: Connection, ssh: StandIn) -> None:
    ssh.before("yes")
    with pytest.raises(ConnectionLostError):
        login.call("hello")


def test_a_shell_that_reads_what_is_for_the_helper(login: Connection, ssh: StandIn) -> None:
    ssh.profile("read -t 60 line")
    with pytest.raises(ConnectionLostError) as caught:
        login.call("hello")
    assert caught.value.tail


def test_answers_in_any_order(login: Connection, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    slow = login.begin([run("cat", str(gate))])
    assert out(login, "echo", "quick") == "quick\n"
    with pytest.raises(TimeoutError):
        slow.result(0.01)
    gate.write_text("slow")
    assert slow.result().results[0]["out"] == "slow"


def test_threads_share_the_connection(login: Connection, ssh: StandIn) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: out(login, "echo", str(number)), range(80))) == [
            f"{number}\n" for number in range(80)
        ]
    assert (login.requests, ssh.starts) == (80, 1)


def test_riders_go_with_the_next_request_of_their_thread(login: Connection, tmp_path: Path) -> None:
    received: list[tuple[Any, bytes]] = []
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name * 3)
    survey = ("survey", {"directories": [], "files": [str(tmp_path / "a")]})
    for name in ("b", "c"):
        login.with_next(
            "survey", {"directories": [], "files": [str(tmp_path / name)]}, lambda *what: received.append(what)
        )
    login.with_next("keep", {"files": {"x": (9, "")}}, lambda *what: received.append(what))  # it fails there
    other = threading.Thread(target=login.call, args=("hello",))
    other.start()
    other.join()
    assert received == []
    answers = login.request([survey, run("echo", "a")])
    # Each result has the bytes of its own files.
    assert answers.blob == b"aaa"
    assert len(answers.results) == 2
    assert [blob for _, blob in received] == [b"bbb", b"ccc"]
    login.call("hello")
    assert len(received) == 2
    assert login.requests == 3


def test_errors_of_the_helper(login: Connection) -> None:
    with pytest.raises(HelperError) as caught:
        login.call("keep", files={"x": (9, "")})
    assert not isinstance(caught.value, RefusedRequestError)
    with pytest.raises(HelperError):
        login.call("no_such_method")
    with pytest.raises(HelperError):
        login.call("run", wrong="argument")
    assert out(login, "echo", "a") == "a\n"  # the connection goes on


def test_a_helper_that_dies(login: Connection, ssh: StandIn) -> None:
    process = helper_of(login)
    waiting = login.begin([run("sleep", "2")])
    os.kill(process, signal.SIGKILL)
    with pytest.raises(ConnectionLostError) as caught:
        waiting.result()
    assert "eos-login" in caught.value.fact
    assert login.lost_text
    assert out(login, "echo", "a") == "a\n"
    assert login.lost_text == ""
    assert ssh.starts == 2


@pytest.mark.usefixtures("_soon")
def test_no_answer(login: Connection, ssh: StandIn) -> None:
    process = helper_of(login)
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(ConnectionLostError) as caught:
        login.request([run("true")], 0.0)
    assert is_passing(caught.value.fact)
    assert out(login, "echo", "a") == "a\n"
    assert ssh.starts == 2


@pytest.mark.usefixtures("_soon")
def test_no_answer_to_the_first_request(login: Connection, ssh: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_S", 0.1)
    ssh.before("exec sleep 600")
    with pytest.raises(ConnectionLostError) as caught:
        login.call("hello")
    assert is_passing(caught.value.fact)
    ssh.before("")
    monkeypatch.setattr(connection, "LATE_S", 45.0)
    login.call("hello")


def test_no_attempt_before_it_is_due(login: Connection, ssh: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh.before("echo 'ssh: connect to host eos-login port 22: Connection refused' >&2; exit 255")
    monkeypatch.setattr(login, "_back_off_s", 600.0)
    for _ in range(5):
        with pytest.raises(ConnectionLostError, match="refused"):
            login.call("hello")
    assert ssh.starts == 1
    assert 0 < login.due_in_s <= 600
    assert "refused" in login.lost_text


def test_the_login_node_is_met_after_each_connection(login: Connection) -> None:
    met: list[str] = []
    login.on_connected = lambda: met.append(out(login, "echo", "met"))
    out(login, "true")
    assert met == ["met\n"]
    os.kill(helper_of(login), signal.SIGKILL)
    _until_lost(login)
    out(login, "true")
    assert met == ["met\n", "met\n"]


def _until_lost(login: Connection) -> None:
    deadline_s = time.monotonic() + 60
    while login._line is not None and not login._line.has_ended:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_login_node_that_is_not_as_it_was(login: Connection, ssh: StandIn) -> None:
    def refuse() -> None:
        raise HelperError("it does not see the folder")

    login.on_connected = refuse
    with pytest.raises(ConnectionLostError, match="does not see the folder"):
        out(login, "true")
    assert "does not see the folder" in login.lost_text
    login.on_connected = lambda: None
    assert out(login, "echo", "a") == "a\n"


def test_a_connection_that_is_closed(login: Connection, ssh: StandIn) -> None:
    process = helper_of(login)
    waiting = login.begin([run("sleep", "2")])
    login.close()
    with pytest.raises(ConnectionLostError):
        waiting.result()
    with pytest.raises(ConnectionLostError):
        login.call("hello")
    assert ssh.starts == 1
    deadline_s = time.monotonic() + 60
    while Path(f"/proc/{process}").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    login.close()


def test_ctrl_c_does_not_end_it(login: Connection) -> None:
    """It is in a session of its own, whose terminal has no keys."""
    login.call("hello")
    assert login._line is not None
    assert os.getsid(login._line._process.pid) != os.getsid(0)


def test_no_thread_is_left(login: Connection, ssh: StandIn) -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("gsw-ssh")]

    out(login, "true")
    assert len(threads()) == 3
    os.kill(helper_of(login), signal.SIGKILL)
    _until_lost(login)
    out(login, "true")
    login.close()
    assert threads() == []


@pytest.mark.parametrize(
    ("said", "advice", "passes"),
    [
        ("Host key verification failed.", "host key", False),
        ("eos-login: Permission denied (publickey).", "ssh-add", False),
        ("Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures", "ssh-add", False),
        ("ssh: Could not resolve hostname eos-login: Name or service not known", "~/.ssh/config", False),
        ("/home/u/.ssh/config: line 3: Bad configuration option: hots", "configuration of ssh", False),
        ("Bad owner or permissions on /home/u/.ssh/config", "configuration of ssh", False),
        ("bash: line 1: python3: command not found", "python3 3.6", False),
        ("SyntaxError: invalid syntax", "python3 3.6", False),
        ("ssh: connect to host eos-login port 22: Connection refused", "eos-login true", True),
        ("ssh: connect to host eos-login port 22: Connection timed out", "eos-login true", True),
        ("ssh: connect to host eos-login port 22: No route to host", "eos-login true", True),
        ("kex_exchange_identification: Connection closed by remote host", "eos-login true", True),
        ("client_loop: send disconnect: Broken pipe", "eos-login true", True),
        ("", "eos-login true", True),
    ],
)
def test_errors_of_ssh(login: Connection, ssh: StandIn, said: str, advice: str, passes: bool) -> None:
    ssh.before(f"echo '{said}' >&2; exit 255")
    with pytest.raises(ConnectionLostError) as caught:
        login.call("hello")
    assert said in caught.value.fact
    assert advice in caught.value.advice
    assert is_passing(caught.value.fact) == passes
    assert [name for name, _ in caught.value.evidence] == ["command"]
    assert "python3" not in dict(caught.value.evidence)["command"]  # nothing that nobody would type
    with pytest.raises(ConnectionLostError) as again:
        login.call("hello")
    assert advice in again.value.advice


def test_another_host_key(login: Connection, ssh: StandIn) -> None:
    """The decisive line is amid a banner of at signs."""
    lines = (
        "@@@@@@@@@@@@@@@@@@@@@",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
        "@@@@@@@@@@@@@@@@@@@@@",
        "Offending key in known_hosts:1",
    )
    ssh.before("".join(f"echo '{line}' >&2\n" for line in lines) + "exit 255")
    with pytest.raises(ConnectionLostError) as caught:
        login.call("hello")
    assert "IDENTIFICATION HAS CHANGED" in caught.value.fact
    assert "administrators" in caught.value.advice
    assert not is_passing(caught.value.fact)


@pytest.mark.parametrize("last", ["SyntaxError: invalid syntax", "ImportError: No module named typing"])
def test_a_python_that_is_too_old_to_read_the_program(login: Connection, ssh: StandIn, last: str) -> None:
    python = ssh.directory / "old" / "python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/bash\necho '{last}' >&2; exit 1\n")
    python.chmod(0o755)
    ssh.profile(f"PATH={python.parent}:$PATH")
    with pytest.raises(ConnectionLostError) as caught:
        login.call("hello")
    assert "3.6" in caught.value.advice


def test_no_client_of_ssh(login: Connection, ssh: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(ssh.directory))
    for _ in range(2):
        with pytest.raises(ConnectionLostError) as caught:
            login.call("hello")
        assert "openssh-client" in caught.value.advice
        assert not is_passing(caught.value.fact)


@pytest.mark.parametrize(
    ("shown", "addresses", "hosts"),
    [
        ("hostname eos.example", ["10.0.0.2", "10.0.0.1"], ["10.0.0.1 eos.example", "10.0.0.2 eos.example"]),
        ("hostname eos\nport 2022", ["10.0.0.2", "10.0.0.1"], ["10.0.0.1 [eos]:2022", "10.0.0.2 [eos]:2022"]),
        ("hostname eos.example", ["10.0.0.1", "10.0.0.1"], []),
        ("hostname eos.example\nproxyjump gate", ["10.0.0.2", "10.0.0.1"], []),
        ("hostname eos.example\nhostkeyalias eos", ["10.0.0.2", "10.0.0.1"], []),
        ("", ["10.0.0.2", "10.0.0.1"], []),
    ],
)
def test_one_of_several_addresses(
    ssh: StandIn, monkeypatch: pytest.MonkeyPatch, shown: str, addresses: list[str], hosts: list[str]
) -> None:
    (ssh.directory / "bin" / "ssh").write_text(f"#!/bin/bash\nprintf '{shown}\\n'\n")
    monkeypatch.setattr(connection.socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (ip, 0)) for ip in addresses])
    options = [
        tuple(f"-o{key}={value}" for key, value in zip(("HostName", "HostKeyAlias"), host.split(), strict=True))
        for host in hosts
    ]
    assert connection._addresses_of("eos", ()) == options


@pytest.mark.parametrize("ahead_s", [0.0, 3600.0, -3600.0])
def test_the_clock_of_the_login_node(login: Connection, ahead_s: float) -> None:
    now_s = time.time()
    login.note_clock(now_s + ahead_s, now_s - 1.0)
    assert abs(login.now_s() - now_s - ahead_s) < 60


def test_an_ssh_that_ends_at_once(ssh: StandIn) -> None:
    """It may have ended before all that serves it has begun."""
    ssh.before("exit 255")
    for _ in range(30):
        login = Connection("eos-login")
        with pytest.raises(ConnectionLostError, match="255"):
            login.call("hello")
        login.close()
