"""Signals that end what a process has started in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def taking_signals(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    """Let signals be handled by this.

    A SIGHUP that is ignored stays so: ``nohup`` means that. An ignored SIGINT means only that a shell has started the
    session in the background; who sends one all the same wants it to end.
    """
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    wanted = [number for number in numbers if not (nohup and number == signal.SIGHUP)]
    try:
        previous = {number: signal.signal(number, handler) for number in wanted}
    except ValueError:  # not the main thread, which alone may take signals
        yield
        return
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
