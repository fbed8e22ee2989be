"""The owner of a run on a login node."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import RunError, TakenOverError
from pytest_gsw.jobs.ssh import login as logins
from pytest_gsw.jobs.ssh.login import Login

from .conftest import StandIn

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


def _submit(login: Login, command: list[str], searches: list[list[str]], **changes: Any) -> Any:
    login.own()
    arguments = {"command": command, "searches": searches, "name": "gsw-a", "directory": "/", "timeout_s": 9.0}
    nothing = {"changes": {}, "search_changes": {}, "places": [], "makes": []}
    call = {"key": "a.1", "settle_s": 0.0, "is_alone": False, **arguments, **nothing, **changes}
    return login.connection.request([("submit", call)]).results[0]


@pytest.mark.parametrize(("accounting", "is_again"), [("true", True), ("false", False)])
def test_a_submission_without_an_answer_is_repeated_only_if_accounting_knows_no_job(
    make_login: MakeLogin, tmp_path: Path, accounting: str, is_again: bool
) -> None:
    """squeue forgets jobs that have ended."""
    login, made = make_login(), tmp_path / "made"
    script = f"echo >>{made}; [ $(wc -l <{made}) != 1 ] || kill -9 $$; echo 7"
    for _ in range(2):
        _submit(login, ["bash", "-c", script], [["true"], [accounting]])
    assert len(made.read_text().splitlines()) == 1 + is_again


def test_a_job_whose_key_cannot_be_kept_is_known(make_login: MakeLogin, tmp_path: Path) -> None:
    login = make_login()
    keys = Path(login.folder) / "keys"
    answer = _submit(login, ["bash", "-c", f"rm -r {keys}; echo 7"], [])
    assert (answer["code"], answer["out"]) == (0, "7\n")


def test_a_recipe_is_sent_without_what_is_not_its_own(make_login: MakeLogin, tmp_path: Path) -> None:
    login, recipe = make_login(), tmp_path / "site/llama"
    (recipe / ".git").mkdir(parents=True)
    (tmp_path / "key").write_text("secret")
    for name in (".env", ".git/config", "launch.sh"):
        (recipe / name).write_text("text")
    (recipe / "key").symlink_to(tmp_path / "key")
    (recipe / "model").write_bytes(b"\xff")
    login.own()
    assert login.send_recipe(recipe) == ["key", "model"]
    sent = Path(login.there(str(recipe)))
    assert [path.name for path in sent.iterdir()] == ["launch.sh"]
    assert login.send_recipe(recipe) == []


def test_the_name_of_a_recipe_may_begin_with_that_of_another(make_login: MakeLogin, tmp_path: Path) -> None:
    login = make_login()
    login.own()
    for name in ("llama", "llama2"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "launch.sh").write_text(name)
        login.send_recipe(tmp_path / "site" / name)
    for name in ("llama", "llama2"):
        assert Path(login.there(str(tmp_path / "site" / name / "launch.sh"))).read_text() == name


def test_what_a_submission_leaves_in_the_background_is_not_awaited(make_login: MakeLogin, tmp_path: Path) -> None:
    """A launch script may, and that process has its output and its lock."""
    login, pid = make_login(), tmp_path / "pid"
    answer = _submit(login, ["bash", "-c", f"setsid sleep 60 & echo $! >{pid}; echo 7; echo note >&2"], [])
    try:
        assert (answer["code"], answer["out"], answer["err"]) == (0, "7\n", "note\n")
        assert login.connection.call("state_of", key="a.1")["state"] == "taken"
        assert _submit(login, ["false"], []) == answer
        os.kill(int(pid.read_text()), 0)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_run_can_be_fetched_from_its_first_job_on(make_login: MakeLogin, tmp_path: Path) -> None:
    (tmp_path / "first/run").mkdir(parents=True)
    (tmp_path / "first/run/journal.jsonl").write_text("a line\n")
    make_login("first").own()
    assert make_login("second").fetch_run()
    assert (tmp_path / "second/run/journal.jsonl").read_text() == "a line\n"


def test_on_a_file_system_without_locks_a_submission_may_be_under_way(
    ssh: StandIn, make_login: MakeLogin, tmp_path: Path
) -> None:
    site, made = tmp_path / "site", tmp_path / "made"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import errno, fcntl\n\ndef flock(*_):\n    raise OSError(errno.ENOSYS, 'no locks')\n\nfcntl.flock = flock\n"
    )
    ssh.profile(f"export PYTHONPATH={site}")
    login = make_login()
    for _ in range(2):
        _submit(login, ["bash", "-c", f"echo >>{made}; kill -9 $$"], [["true"], ["true"]])
    assert len(made.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("here", "there", "then"),
    [("a\n", "a\nb\n", "a\nb\n"), ("a\nb\n", "a\n", "a\nb\n"), ("a\nc\n", "a\nb\n", "a\nc\n")],
)
def test_a_run_that_went_on_elsewhere_is_fetched_again(
    here: str, there: str, then: str, make_login: MakeLogin, tmp_path: Path
) -> None:
    for name, text in (("first", there), ("second", here)):
        (tmp_path / name / "run").mkdir(parents=True)
        (tmp_path / name / "run/journal.jsonl").write_text(text)
    make_login("first").own()
    assert make_login("second").fetch_run() == (here != then)
    assert (tmp_path / "second/run/journal.jsonl").read_text() == then


def test_launch_scripts_of_a_directory_run_one_at_a_time_behind_a_lost_connection(
    ssh: StandIn, make_login: MakeLogin, tmp_path: Path
) -> None:
    ssh.keep_helper()
    login, places = make_login(), [tmp_path / name for name in ("begun", "go", "done")]
    begun, go, done = places
    login.own()
    wait = f"for _ in {{1..1500}}; do [ -e {go} ] && break; sleep 0.02; done"  # an end, also of a test that fails
    first = ["bash", "-c", f"touch {begun}; {wait}; sleep 0.3; touch {done}; echo 7"]
    line = login.connection._line
    assert line is not None
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(_submit, login, first, [], is_alone=True)
        while not begun.exists():
            time.sleep(0.01)
        login.connection.lose(line, "cut")
        assert isinstance(lost.exception(), RunError)
    go.touch()
    answer = _submit(login, ["bash", "-c", f"ls {done}"], [], is_alone=True, key="b.1")
    assert answer["out"] == f"{done}\n"


def test_files_of_which_less_was_kept_are_sent_as_a_whole(make_login: MakeLogin, tmp_path: Path) -> None:
    """A request of an earlier connection may come late."""
    login, journal = make_login(), tmp_path / "session/run/journal.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("a\nb\n")
    login.own()
    kept = Path(login.folder, "session", "journal.jsonl")
    for write in (login.keep, login.keep_with_next):
        kept.write_text("a\n")
        with journal.open("a") as file:
            file.write("c\n")
        write()
        login.connection.call("hello")
        login.keep()
        assert kept.read_text() == journal.read_text()
