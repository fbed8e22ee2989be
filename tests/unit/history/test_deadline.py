"""A call that may never return is waited for as long as said, and a signal ends the wait."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pytest

from pytest_gsw.history import deadline
from pytest_gsw.history.deadline import OverdueError, within


def test_an_answer_is_handed_on() -> None:
    assert within(60, lambda: 7, pytest.fail) == 7


def test_an_error_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0, pytest.fail)


def test_a_call_that_does_not_return_is_abandoned() -> None:
    never, abandoned = threading.Event(), []
    with pytest.raises(OverdueError, match=r"^no answer within 0\.01 s$"):
        within(0.01, never.wait, abandoned.append)
    never.set()
    assert len(abandoned) == 1


def test_a_signal_that_comes_just_before_the_wait_ends_it_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    never, abandoned, waits = threading.Event(), [], []

    def wait(_futures: Iterable[Future[Any]], timeout: float) -> None:
        """Python tells of such a signal when the wait is over."""
        waits.append(timeout)
        raise KeyboardInterrupt

    monkeypatch.setattr(deadline, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        within(300, never.wait, abandoned.append)
    never.set()
    assert waits == [1.0]
    assert len(abandoned) == 1
