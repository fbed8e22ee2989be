"""Which signals a session takes."""

from __future__ import annotations

import signal

import pytest

from pytest_gsw.common.process import taking_signals
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
