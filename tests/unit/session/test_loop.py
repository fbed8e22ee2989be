"""Which signals a session takes."""

from __future__ import annotations

import gc
import signal

import pytest

from pytest_gsw.common.process import taking_signals
from pytest_gsw.session import hooks
from pytest_gsw.session.runner import SIGNALS, Interrupts


@pytest.mark.parametrize(
    ("number", "is_taken"), [(signal.SIGINT, True), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_a_signal_that_was_ignored(number: signal.Signals, is_taken: bool) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        interrupts = Interrupts()
        with taking_signals(interrupts, SIGNALS):
            assert (signal.getsignal(number) is interrupts) == is_taken
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_second_session_lets_go_of_what_the_first_has_frozen(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    done: list[str] = []
    for name in ("unfreeze", "collect", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    monkeypatch.setattr(request.config, "add_cleanup", lambda _: None)
    monkeypatch.setattr(hooks, "_frozen", True)  # by the first
    hooks._freeze_collector(request.config)
    assert done == ["unfreeze", "collect", "freeze"]
