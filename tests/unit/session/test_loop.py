"""Which signals a session takes."""

from __future__ import annotations

import gc
import signal

import pytest

from pytest_gsw.session import runner
from pytest_gsw.session.runner import handling_signals


@pytest.mark.parametrize(
    ("number", "is_taken"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_a_signal_that_was_ignored(number: signal.Signals, is_taken: bool) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with handling_signals() as interrupts:
            assert (signal.getsignal(number) is interrupts) == is_taken
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Python's collector is asked to do from now on, which it does not do."""
    done: list[str] = []
    for name in ("unfreeze", "collect", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    return done


def test_what_somebody_else_has_frozen_stays_so(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A process with much in it, such as that of these tests, would look through all of it in each session."""
    monkeypatch.setattr(runner, "_frozen", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 7)
    done = called(monkeypatch)
    runner._freeze_collector(request.config)
    assert done == []
    assert not runner._frozen


def test_a_second_session_lets_go_of_what_the_first_has_frozen(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(request.config, "add_cleanup", lambda _: None)
    monkeypatch.setattr(runner, "_frozen", True)  # by the first
    done = called(monkeypatch)
    runner._freeze_collector(request.config)
    assert done == ["unfreeze", "collect", "freeze"]
