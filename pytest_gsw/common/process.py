"""Threads, signals and the garbage collector of this process."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")


def run_in_background(call: Callable[[], Result], name: str) -> Future[Result]:
    """Run a call in a thread of this name; the future has its result or its error.

    Python does not wait for that thread at exit, unlike an executor's: a call that never returns does not block the
    exit.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # raised where the call is awaited
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future


@contextmanager
def taking_signals(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    """Handle signals with this handler.

    A SIGHUP that is ignored stays ignored: that is the purpose of ``nohup``. An ignored SIGINT only means that a shell
    has started the session in the background; a SIGINT that is sent all the same is meant to end it.
    """
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    wanted = [number for number in numbers if not (nohup and number == signal.SIGHUP)]
    try:
        previous = {number: signal.signal(number, handler) for number in wanted}
    except ValueError:  # not the main thread, which alone may handle signals
        yield
        return
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while very many objects without cycles are made: it would visit them in vain."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
