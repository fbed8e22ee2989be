"""A limit to how long somebody is waited for who may never answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


class OverdueError(Exception):
    """There was no answer in time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")


def within(limit_s: float, call: Callable[[], Result], abandon: Callable[[Future[Result]], None]) -> Result:
    """What a call returns or raises, in a thread of its own.

    Nobody waits for that thread when Python ends, as one of an executor's is waited for: a call that never returns
    keeps nothing from ending. Ctrl-C ends the wait at once. ``abandon`` is told of a call that nobody waits for any
    more; it may make that end, and see to what it leaves.

    Raises:
        OverdueError: It has not returned in time.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # it is raised where the call is waited for
            future.set_exception(error)
        else:
            future.set_result(result)

    Thread(target=run, name="gsw-history", daemon=True).start()
    try:
        wait([future], limit_s)
    except BaseException:
        abandon(future)
        raise
    if not future.done():
        abandon(future)
        raise OverdueError(limit_s)
    return future.result()
