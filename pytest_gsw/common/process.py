"""A process's own threads and signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")


def run_in_background(call: Callable[[], Result], name: str) -> Future[Result]:
    """What a call returns or raises, in a thread of this name.

    Python does not wait for that thread when it ends, as it does for an executor's: a call that never returns keeps
    nothing from ending.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # it is raised where the call is waited for
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=run, name=name, daemon=True).start()
    return future


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
