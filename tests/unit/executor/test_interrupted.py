"""Ctrl-C at any moment of a submission leaves no job behind that nobody knows."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_gsw.errors import JobError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.row_state import RowTable
from pytest_gsw.jobs.model import Job
from tests.unit.executor.test_executor import POLL_S, Clock, FakeLauncher, ManyThreads, spec


def interrupted_after(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Let Ctrl-C hit once, as this method returns."""
    method = getattr(owner, name)

    def once(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        method(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, once)


def interrupted_before(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Let Ctrl-C hit once, as this method is called."""
    method = getattr(owner, name)

    def once(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(owner, name, method)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, once)


def ended(clock: Clock, launcher: FakeLauncher | None = None) -> tuple[str, list[list[str]], list[str]]:
    """What an interrupted session says of its row, which jobs it has cancelled, and which it has submitted."""
    launcher = launcher or ManyThreads(clock)
    executor = Executor(launcher, POLL_S, clock=clock, sleep=clock.sleep)
    with contextlib.suppress(KeyboardInterrupt):
        executor.submit({"a": spec("a")})
        executor.result_of("a")
    executor.interrupt(detach=False)
    with pytest.raises(JobError) as caught:
        executor.result_of("a")
    executor.close()
    return caught.value.fact, launcher.cancelled, launcher.submitted


def test_while_a_submission_is_handed_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_after(monkeypatch, ThreadPoolExecutor, "submit")
    fact, cancelled, submitted = ended(Clock())
    # The thread has begun by then or has not: the row has a job that is cancelled, or none.
    assert (fact, cancelled, submitted) in (
        ("interrupted: job job-a was cancelled", [["a"]], ["a"]),
        ("interrupted: it was never submitted", [], []),
    )


@pytest.mark.parametrize("name", ["activate", "is_shared"])
def test_while_an_answer_is_taken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    interrupted_before(monkeypatch, RowTable, name)
    assert ended(Clock()) == ("interrupted: job job-a was cancelled", [["a"]], ["a"])


@pytest.mark.parametrize("name", ["activate", "is_shared"])
def test_while_an_answer_is_taken_that_the_session_got_itself(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    interrupted_before(monkeypatch, RowTable, name)
    clock = Clock()
    assert ended(clock, FakeLauncher(clock)) == ("interrupted: job job-a was cancelled", [["a"]], ["a"])


@pytest.mark.parametrize("found", [True, False])
def test_while_the_session_submits_by_itself(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    interrupted_after(monkeypatch, FakeLauncher, "submit")
    clock = Clock()
    launcher = FakeLauncher(clock)
    monkeypatch.setattr(launcher, "find", lambda spec, since_s: Job("job-a", spec, since_s) if found else None)
    fact, cancelled, submitted = ended(clock, launcher)
    assert submitted == ["a"]
    assert (fact, cancelled) == (
        ("interrupted: job job-a was cancelled", [["a"]])
        if found
        else ("interrupted: whether it was submitted is not known", [])
    )
