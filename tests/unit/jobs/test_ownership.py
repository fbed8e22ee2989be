"""One owner of a run at a time."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs import ownership
from pytest_gsw.jobs.ownership import Owner, RunLock, owner_of

ELSEWHERE = Owner("login03", 4711, 99, "another kernel pid:[1]", "ada", 1_700_000_000.0)

#: Takes the run that is named, says so, and lets go or is killed.
HOLDER = """\
import sys
from pathlib import Path
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.ownership import RunLock
sys.stdin.readline()
try:
    RunLock(Path(sys.argv[1])).take()
except ConfigurationError:
    print("refused", flush=True)
else:
    print("taken", flush=True)
    sys.stdin.readline()
"""
#: The same on a file system without hard links.
UNLINKED = """\
import errno
import os
def link(*_):
    raise OSError(errno.EXDEV, "Invalid cross-device link")
os.link = link
"""


@pytest.fixture
def hold() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes that take a run as soon as they are told."""
    started: list[subprocess.Popen[str]] = []

    def start(directory: Path, has_links: bool = True) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER if has_links else UNLINKED + HOLDER, str(directory)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def go(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def leave(directory: Path, owner: Owner, number: int = 1, silent_s: float = 0.0) -> Path:
    path = directory / f"owner.{number}"
    path.write_text(json.dumps(asdict(owner)))
    os.utime(path, (time.time() - silent_s,) * 2)
    return path


def owners(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def refusal(directory: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        RunLock(directory).take()
    return str(refused.value)


def test_one_after_the_other(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    first.take()
    assert owners(tmp_path) == ["owner.1"]
    assert (tmp_path / "owner.1").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigurationError):
        second.take()
    first.release()
    assert owner_of(tmp_path) is None
    second.take()
    assert owners(tmp_path) == ["owner.2"]
    second.release()
    second.release()
    assert owners(tmp_path) == ["owner.2"]


def test_who_owns_it_is_told_with_what_to_do(tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]) -> None:
    run = tmp_path / "20261122-045124-abcdef"
    run.mkdir()
    process = hold(run)
    assert go(process) == "taken"
    told = refusal(run)
    assert re.fullmatch(
        rf"the run 20261122-045124-abcdef belongs to another session: process {process.pid} of \S+ on \S+, "
        r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n"
        rf"next: wait until it has ended, or end it \(kill {process.pid}\), and resume then",
        told,
    ), told
    assert owner_of(run) == told


def test_an_owner_on_another_machine(tmp_path: Path) -> None:
    path = leave(tmp_path, ELSEWHERE, silent_s=100)
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_700_000_000))
    assert refusal(tmp_path) == (
        f"the run {tmp_path.name} belongs to another session: process 4711 of ada on login03, since {since}\n"
        "next: wait until it has ended, or end it (kill 4711 on login03), and resume then; if it is dead, resume "
        "10 min after its last sign of life, which was 2 min ago"
    )
    os.utime(path, (time.time() - 601,) * 2)
    RunLock(tmp_path).take()
    assert owners(tmp_path) == ["owner.2"]


def test_its_clock_is_the_file_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, ELSEWHERE, silent_s=5)
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 86400)  # of a machine that is a day ahead
    assert "belongs to another session" in refusal(tmp_path)


def test_an_owner_that_was_killed_is_dead_at_once(tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]) -> None:
    process = hold(tmp_path)
    assert go(process) == "taken"
    process.send_signal(signal.SIGKILL)
    process.wait()
    RunLock(tmp_path).take()


def test_so_is_one_of_which_only_the_exit_code_is_left(
    tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    process = hold(tmp_path)
    assert go(process) == "taken"
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    RunLock(tmp_path).take()


def test_a_worker_waits_for_the_one_before_it(tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]) -> None:
    process = hold(tmp_path)
    assert go(process) == "taken"
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        process.kill()
        process.wait()

    RunLock(tmp_path).take(patience_s=60, sleep=sleep)
    assert len(slept) == 1


@pytest.mark.parametrize(
    "owner",
    [
        replace(Owner.this(), start=1),
        replace(Owner.this(), pid=2**22 + 1),
        Owner.this(),  # of this very process, which holds no run
        replace(ELSEWHERE, released=True),
    ],
    ids=["another start", "no process", "this process", "let go"],
)
def test_owners_that_are_none_any_more(tmp_path: Path, owner: Owner) -> None:
    leave(tmp_path, owner, number=7)
    RunLock(tmp_path).take()
    assert owners(tmp_path) == ["owner.8"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"host": 5}', "\0" * 64, "9" * 5000, "[" * 100_000),
        # A bit that flipped in the figure of the time.
        *(json.dumps({**asdict(ELSEWHERE), "since_s": since_s}) for since_s in (1e30, -1e30, float("nan"))),
    ],
)
def test_a_file_that_says_nothing_counts_by_its_age(tmp_path: Path, content: str) -> None:
    path = tmp_path / "owner.1"
    path.write_text(content)
    assert refusal(tmp_path) == (
        f"the run {tmp_path.name} belongs to another session, and {path} does not tell which\n"
        "next: wait; 10 min after its last change, 0 s ago, it counts for nothing"
    )
    os.utime(path, (1, 1))
    RunLock(tmp_path).take()


def test_of_many_that_take_a_dead_ones_place_at_once_exactly_one_succeeds(
    tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    leave(tmp_path, ELSEWHERE, silent_s=10_000)
    processes = [hold(tmp_path) for _ in range(6)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    assert sorted(answers) == ["refused"] * 5 + ["taken"]
    assert owners(tmp_path) == ["owner.2"]


def test_one_that_saw_an_old_directory_does_not_take_what_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, ELSEWHERE, number=1, silent_s=10_000)
    leave(tmp_path, ELSEWHERE, number=2)
    real, seen = ownership._highest, [1]
    monkeypatch.setattr(ownership, "_highest", lambda directory: seen.pop() if seen else real(directory))
    assert "belongs to another session" in refusal(tmp_path)
    (tmp_path / "owner.2").rename(tmp_path / "owner.3")  # and one whose number was given away and taken back
    seen.append(1)
    assert "belongs to another session" in refusal(tmp_path)
    assert owners(tmp_path) == ["owner.1", "owner.3"]


def test_signs_of_life(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, beat_s=0.001)
    lock.take()
    path = tmp_path / "owner.1"
    os.utime(path, (1, 1))
    deadline_s = time.monotonic() + 300
    while path.stat().st_mtime == 1:
        assert time.monotonic() < deadline_s
    lock.release()
    assert owners(tmp_path) == ["owner.1"]


def test_an_owner_that_slept_too_long_submits_nothing_more(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.take()
    lock.check()
    leave(tmp_path, ELSEWHERE, number=2)
    with pytest.raises(OSError, match="another session has taken the run over"):
        lock.check()
    lock.release()
    assert owners(tmp_path) == ["owner.1", "owner.2"]
    assert json.loads((tmp_path / "owner.2").read_text())["host"] == "login03"


NO_LINKS = [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EMLINK]


@pytest.fixture
def unlinked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links, as FUSE, CIFS and Lustre may be."""
    number: int = getattr(request, "param", errno.EXDEV)

    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("unlinked", NO_LINKS, indirect=True, ids=errno.errorcode.get)
@pytest.mark.usefixtures("unlinked")
def test_a_file_system_without_hard_links(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.take()
    assert "belongs to another session" in refusal(tmp_path)
    lock.release()
    RunLock(tmp_path).take()


@pytest.mark.usefixtures("unlinked")
def test_one_that_died_before_its_file_said_anything(tmp_path: Path) -> None:
    (tmp_path / "owner.1").touch()
    assert "does not tell which" in refusal(tmp_path)
    assert owners(tmp_path) == ["owner.1"]
    os.utime(tmp_path / "owner.1", (time.time() - 601,) * 2)
    RunLock(tmp_path).take()
    assert owners(tmp_path) == ["owner.2"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        request.getfixturevalue("unlinked")
    real, left = os.fsync, [] if has_links else [None]

    def fsync(descriptor: int) -> None:
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        left.pop()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert "cannot be told: No space left on device: " in refusal(tmp_path)
    assert owners(tmp_path) == []
    monkeypatch.setattr(os, "fsync", real)
    RunLock(tmp_path).take()


def test_of_many_without_hard_links_exactly_one_succeeds(
    tmp_path: Path, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    leave(tmp_path, ELSEWHERE, silent_s=10_000)
    processes = [hold(tmp_path, has_links=False) for _ in range(6)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    assert sorted(answers) == ["refused"] * 5 + ["taken"]
    assert owners(tmp_path) == ["owner.2"]


def test_a_link_whose_answer_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    RunLock(tmp_path).take()
    assert owners(tmp_path) == ["owner.1"]


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOLCK, errno.EROFS, errno.EIO])
def test_a_file_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    assert refusal(tmp_path) == (
        f"whether another session owns the run {tmp_path.name} cannot be told: {os.strerror(number)}: {tmp_path}\n"
        f"next: is the file system there, and may you write to it? ls -la {tmp_path}"
    )
