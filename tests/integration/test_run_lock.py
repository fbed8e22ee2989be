"""One owner of a run at a time."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError, TakenOverError
from pytest_gsw.jobs.run_lock import NAME, RunLock
from tests.messages import wording
from tests.unit.jobs.owners import leave_owner

#: Long enough for what must not expire, and short where it must.
LONG_S, SHORT_S = 600.0, 0.5
#: So long that a machine with other work does not take a living owner for a frozen one.
FROZEN_S = 3.0
#: After which something hangs; no machine is so slow.
GIVE_UP_S = 300.0

#: Takes the run that is named, says so, and lets go or is killed.
HOLDER = """\
import sys
from pathlib import Path
from pytest_gsw.errors import ConfigurationError, TakenOverError
from pytest_gsw.jobs.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
for told in sys.stdin:
    try:
        if told == "take\\n":
            lock.take()
            print("taken", flush=True)
        else:
            lock.check()
            print("owned", flush=True)
    except ConfigurationError:
        print("refused", flush=True)
    except TakenOverError as error:
        print(error, flush=True)
"""


class Holder:
    """A process that takes a run and checks it as it is told."""

    def __init__(self, directory: Path, lease_s: float = LONG_S, beat_s: float = 0.01) -> None:
        command = [sys.executable, "-c", HOLDER, str(directory), str(lease_s), str(beat_s)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        self.tell(what)
        return self.answer()


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    """Start processes that take a run as soon as they are told."""
    started: list[Holder] = []

    def start(*arguments: object) -> Holder:
        started.append(Holder(*arguments))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


def leave(directory: Path, lease_s: float = LONG_S, **changes: object) -> Path:
    return leave_owner(directory, lease_s, **changes)


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def refusal(
    directory: Path, lease_s: float = LONG_S, beat_s: float = 1.0, tell: Callable[[str], None] = lambda _: None
) -> str:
    with pytest.raises(ConfigurationError) as refused:
        RunLock(directory, lease_s, beat_s).take(tell)
    return str(refused.value)


def test_one_after_the_other(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path, LONG_S, 0.01), RunLock(tmp_path, LONG_S, 0.01)
    first.take()
    first.check()
    assert files(tmp_path) == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert wording("owned elsewhere") in refusal(tmp_path, beat_s=0.01)
    assert not second.is_free()
    first.release()
    assert second.is_free()
    second.take()
    second.check()
    second.release()
    second.release()
    assert files(tmp_path) == []


def test_who_owns_it_is_told_with_what_to_do(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    run = tmp_path / "20261122-045124-abcdef"
    run.mkdir()
    holder = hold(run)
    assert holder.ask("take") == "taken"
    told: list[str] = []
    refused = refusal(run, beat_s=5.0, tell=told.append)
    who = rf"the run 20261122-045124-abcdef belongs to another session: process {holder.process.pid} on \S+"
    advice = rf"wait until it has ended, or end it \(kill {holder.process.pid} on \S+\), and resume then"
    assert re.fullmatch(rf"{who}\nnext: {advice}", refused), refused
    (line,) = told
    assert re.fullmatch(f"gsw: {who}" + wording("waiting for life", time="605 s"), line), line


def test_an_owner_on_another_machine_is_watched_for_a_whole_lease(tmp_path: Path) -> None:
    path = leave(tmp_path, SHORT_S)
    os.utime(path, (1, 1))  # its age counts for nothing: clocks differ
    began_s = time.monotonic()
    lock = RunLock(tmp_path, SHORT_S, SHORT_S / 2)
    lock.take()
    assert time.monotonic() - began_s >= SHORT_S
    lock.check()


def test_an_owner_on_another_machine_that_gives_a_sign_of_life(tmp_path: Path) -> None:
    path = leave(tmp_path)
    assert refusal(tmp_path, tell=lambda _: os.utime(path, (2, 2))) == (
        f"the run {tmp_path.name} belongs to another session: process 4711 on login03\n"
        "next: wait until it has ended, or end it (kill 4711 on login03), and resume then"
    )


def test_a_clock_that_is_ahead_takes_nothing_over(
    tmp_path: Path, hold: Callable[..., Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = hold(tmp_path)
    assert holder.ask("take") == "taken"
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 86400)
    assert wording("owned elsewhere") in refusal(tmp_path)
    assert holder.ask("check") == "owned"


def test_an_owner_that_was_killed_is_dead_at_once(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(tmp_path)
    assert holder.ask("take") == "taken"
    holder.process.send_signal(signal.SIGKILL)
    holder.process.wait()
    assert RunLock(tmp_path, LONG_S).is_free()
    RunLock(tmp_path, LONG_S).take(pytest.fail)


def test_one_of_which_only_the_exit_code_is_left_is_watched(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    holder = hold(tmp_path, SHORT_S, SHORT_S / 2)
    assert holder.ask("take") == "taken"
    holder.process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, holder.process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    RunLock(tmp_path, SHORT_S, SHORT_S / 2).take()


def test_an_owner_of_another_start_is_dead_at_once(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, LONG_S)
    lock.take()
    content = (tmp_path / NAME).read_text()
    lock.release()
    (tmp_path / NAME).write_text(re.sub("start=.*", "start=1", content))
    RunLock(tmp_path, LONG_S).take(pytest.fail)


def test_an_owner_that_ends_while_it_is_watched(tmp_path: Path) -> None:
    path = leave(tmp_path)
    lock = RunLock(tmp_path, LONG_S)
    lock.take(lambda _: path.unlink())
    lock.check()


def test_a_frozen_owner_that_wakes_up_submits_nothing_more(tmp_path: Path, hold: Callable[..., Holder]) -> None:
    frozen = hold(tmp_path, FROZEN_S, FROZEN_S / 4)
    assert frozen.ask("take") == "taken"
    assert frozen.ask("check") == "owned"
    frozen.process.send_signal(signal.SIGSTOP)
    lock = RunLock(tmp_path, FROZEN_S, FROZEN_S / 4)
    lock.take()
    frozen.tell("check")  # the first thing that it does
    frozen.process.send_signal(signal.SIGCONT)
    assert frozen.answer() == wording("taken over")
    frozen.process.communicate()
    lock.check()  # of which the other's end took nothing
    assert not RunLock(tmp_path, LONG_S).is_free()


def test_a_damaged_file_stops_nobody(tmp_path: Path) -> None:
    contents = [
        *(b"{", b"[]", b"\0" * 64, b"9" * 5000, b"\xff\xfe", b"filelock/2\n"),
        b"filelock/2\npid=-1\nhost=a\nmode=lease\n",
        b"filelock/2\npid=1\nhost=login03\nmode=lease\ntoken=ab\nduration=1e999\n",
    ]
    runs = [tmp_path / str(number) for number in range(len(contents) + 2)]
    for run in runs:
        run.mkdir()
    for run, content in zip(runs, contents, strict=False):
        (run / NAME).write_bytes(content)
    os.mkfifo(runs[-2] / NAME)
    target = tmp_path / "precious"
    target.write_text("content")
    (runs[-1] / NAME).symlink_to(target)
    locks = [RunLock(run, LONG_S) for run in runs]
    with ThreadPoolExecutor(len(locks)) as pool:  # each is looked at for two seconds
        list(pool.map(RunLock.take, locks))
    for lock in locks:
        lock.check()
    assert target.read_text() == "content"


def test_what_is_no_file_is_of_no_session(tmp_path: Path) -> None:
    link, directory, told = tmp_path / "link", tmp_path / "directory", list[str]()
    link.mkdir()
    (link / NAME).symlink_to("nowhere")
    run = RunLock(link, LONG_S)
    assert run.is_free()
    run.take(told.append)
    run.check()
    assert (told, (link / NAME).is_symlink()) == ([], False)
    run.release()
    (directory / NAME).mkdir(parents=True)
    assert RunLock(directory).is_free()
    with pytest.raises(ConfigurationError, match="Is a directory"):
        RunLock(directory).take(told.append)


def test_an_owner_whose_file_is_damaged_submits_nothing_more(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, LONG_S)
    lock.take()
    (tmp_path / NAME).write_text("{")
    with pytest.raises(TakenOverError, match=wording("taken over")):
        lock.check()


@pytest.mark.parametrize("content", ["", "filelock/2\npid=1\nhost=a\nmode=of a later release\n"])
def test_a_file_that_may_be_a_living_ones_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / NAME
    path.write_text(content)
    told = refusal(tmp_path, SHORT_S, SHORT_S / 2)
    assert told.startswith(wording("owned", run=tmp_path.name))
    assert path.read_text() == content
    if not content:
        assert told.endswith(f"next: {path}" + wording("lock names none"))


def test_a_lease_of_another_length_is_left_alone(tmp_path: Path) -> None:
    path = leave(tmp_path, 1.0)
    before = path.read_bytes()
    assert "process 4711 on login03" in refusal(tmp_path)
    assert path.read_bytes() == before
    assert not RunLock(tmp_path, LONG_S).is_free()


def test_a_name_of_a_machine_is_shown_without_control_characters(tmp_path: Path) -> None:
    path = leave(tmp_path, host="a\x1b[31mb")
    assert "\x1b" not in refusal(tmp_path, tell=lambda _: os.utime(path, (2, 2)))


def one_takes(directory: Path, holders: list[Holder]) -> None:
    for holder in holders:
        holder.tell("take")
    answers = [holder.answer() for holder in holders]
    assert sorted(answers) == ["refused"] * 3 + ["taken"]
    assert holders[answers.index("taken")].ask("check") == "owned"
    assert files(directory) == [NAME]


def test_of_many_that_take_a_dead_ones_place_at_once_exactly_one_succeeds(
    tmp_path: Path, hold: Callable[..., Holder]
) -> None:
    leave(tmp_path, 1.0)
    one_takes(tmp_path, [hold(tmp_path, 1.0, 0.1) for _ in range(4)])


def test_of_many_that_take_a_killed_ones_place_at_once_exactly_one_succeeds(
    tmp_path: Path, hold: Callable[..., Holder]
) -> None:
    killed = hold(tmp_path)
    assert killed.ask("take") == "taken"
    killed.process.kill()
    killed.process.wait()
    one_takes(tmp_path, [hold(tmp_path) for _ in range(4)])


def test_signs_of_life(tmp_path: Path) -> None:
    lock = RunLock(tmp_path, LONG_S, 0.001)
    lock.take()
    os.utime(tmp_path / NAME, (1, 1))
    give_up_s = time.monotonic() + GIVE_UP_S
    while (tmp_path / NAME).stat().st_mtime == 1:
        assert time.monotonic() < give_up_s
        time.sleep(0.001)
    lock.check()
    lock.release()


def test_a_run_that_was_not_touched_for_a_lease_is_free(tmp_path: Path) -> None:
    path = leave(tmp_path)
    assert not RunLock(tmp_path, LONG_S).is_free()
    os.utime(path, (time.time() - LONG_S - 1,) * 2)
    assert RunLock(tmp_path, LONG_S).is_free()
    assert path.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.ESTALE])
def test_a_file_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def write(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        told = refusal(tmp_path)
    assert told.startswith(f"the owner of the run {tmp_path.name} is unknown: {os.strerror(number)}: {tmp_path}")
    assert told.endswith(wording("lock file system", path=tmp_path))
    assert files(tmp_path) == []
    RunLock(tmp_path, LONG_S).take(pytest.fail)
