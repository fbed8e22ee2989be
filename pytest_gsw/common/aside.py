"""A call in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def aside(call: Callable[[], Result], name: str) -> Future[Result]:
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
