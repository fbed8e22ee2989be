"""A launcher that another thread may ask: the session submits and judges while its answer is awaited."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pytest_gsw.executor import executor as executor_module
from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.polls import SETTLE_S
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.states import JobStatus
from tests.unit.executor.conftest import (
    COMPLETED,
    POLL_S,
    RUNNING,
    Clock,
    FakeLauncher,
    error_of,
    executor_of,
    spec,
    started,
    status_of,
)

ROWS = [f"r{number:02}" for number in range(60)]


@dataclass
class Hanging(FakeLauncher):
    """One whose answers wait until they are let go."""

    parallel_submissions: int = 2
    polls_in_a_thread: bool = True
    let_go: Any = field(default_factory=threading.Event)
    asked: Any = field(default_factory=threading.Event)
    raises: Exception | None = None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        self.asked.set()
        assert self.let_go.wait(60)
        if self.raises is not None:
            raise self.raises
        return super().poll(jobs)

    def cancel(self, jobs: Sequence[Job]) -> None:
        super().cancel(jobs)
        self.let_go.set()


@dataclass
class UntilSubmitted(Hanging):
    """One that answers once all rows were submitted."""

    def submit(self, spec: JobSpec) -> Job:
        job = super().submit(spec)
        if len(self.submitted) == len(ROWS):
            self.let_go.set()
        return job


@pytest.fixture
def launcher(clock: Clock) -> Hanging:
    return Hanging(clock)


@pytest.fixture
def executor(launcher: Hanging) -> Executor:
    return executor_of(launcher)


def go_on_until_asked(executor: Executor, launcher: Hanging) -> None:
    while not launcher.asked.is_set():
        executor._pump()
        executor._wait()


def assert_nothing_is_asked() -> None:
    """A thread that has its answer ends."""
    for thread in threading.enumerate():
        if thread.name == "gsw-ask":
            thread.join(60)
            assert not thread.is_alive()


def test_submissions_go_on_while_the_scheduler_takes_its_time_to_answer(clock: Clock) -> None:
    launcher = UntilSubmitted(clock)
    executor = started(launcher, ROWS[:1])
    go_on_until_asked(executor, launcher)
    executor.submit({row: spec(row) for row in ROWS[1:]})
    assert sorted(executor.next_finished() for _ in ROWS) == ROWS
    executor.close()


def test_the_scheduler_is_asked_one_question_at_a_time(launcher: Hanging, executor: Executor, clock: Clock) -> None:
    launcher.script = {"a": [RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    go_on_until_asked(executor, launcher)
    clock.now_s += 10 * POLL_S
    executor._pump()
    assert launcher.polls == []
    launcher.let_go.set()
    assert executor.result_of("a").status is COMPLETED
    assert launcher.polls == [["a"], ["a"]]
    executor.close()


def test_an_error_of_the_question_is_the_sessions(launcher: Hanging, executor: Executor) -> None:
    launcher.raises = RuntimeError("no such cluster")
    launcher.let_go.set()
    executor.submit({"a": spec("a")})
    with pytest.raises(RuntimeError, match="no such cluster"):
        executor.next_finished()
    launcher.raises = None
    assert executor.result_of("a").status is COMPLETED  # it is asked again
    executor.close()
    assert_nothing_is_asked()


@pytest.mark.parametrize("detach", [False, True])
def test_nothing_is_asked_after_the_end_and_a_late_answer_is_nobodys(
    launcher: Hanging, executor: Executor, monkeypatch: pytest.MonkeyPatch, detach: bool
) -> None:
    monkeypatch.setattr(executor_module, "_LAST_POLL_S", 0.0)
    executor.submit({"a": spec("a"), "b": spec("b")})
    go_on_until_asked(executor, launcher)
    executor.interrupt(detach)
    if detach:
        launcher.let_go.set()  # else jobs are cancelled while the answer hangs, and that lets it go
    for row in "ab":
        fate = "left running" if detach else "cancelled"
        assert error_of(executor, row).fact == f"interrupted: job job-{row} was {fate}"
    executor.close(detach)
    assert_nothing_is_asked()
    assert len(launcher.polls) == 1
    assert launcher.cancelled == ([] if detach else [["a", "b"]])


def test_a_scheduler_that_hangs_keeps_no_session_from_ending(
    launcher: Hanging, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def wait(_: object, timeout: float, return_when: object = None) -> None:
        waits.extend([] if return_when else [timeout])  # with it, for submissions

    monkeypatch.setattr(executor_module, "wait", wait)
    executor.submit({"a": spec("a")})
    go_on_until_asked(executor, launcher)
    executor.interrupt(detach=True)
    executor.close(detach=True)
    assert waits == [5.0, 1.0]
    assert launcher.polls == []
    launcher.let_go.set()
    assert_nothing_is_asked()


def test_a_log_that_shows_its_end_meanwhile_brings_the_next_question_forward(clock: Clock) -> None:
    class Last:
        def look(self, *_: object) -> Sample:
            return Sample(steps=10, of=10, finished=finished.is_set())

    finished = threading.Event()
    launcher = Hanging(clock, script={"a": [RUNNING, RUNNING, COMPLETED]})
    executor = started(launcher, "a", watcher=lambda _: cast("Watch", Last()))
    launcher.let_go.set()
    while status_of(executor, "a") is not RUNNING:
        executor._pump()
        executor._wait()
    launcher.let_go.clear()
    launcher.asked.clear()
    go_on_until_asked(executor, launcher)
    asked_s = clock.now_s
    finished.set()
    executor._running_logs.look_s = executor._clock()
    executor._wait()
    launcher.let_go.set()
    assert executor.result_of("a").status is COMPLETED
    assert clock.now_s - asked_s < POLL_S / 2
    assert clock.now_s - asked_s >= SETTLE_S
    executor.close()
