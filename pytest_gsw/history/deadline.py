"""A limit to how long an answer is waited for that may never come."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from pytest_gsw.common.aside import aside

Result = TypeVar("Result")

#: The longest single wait: a signal that arrives just before one begins is seen only when it is over.
_WAIT_S = 1.0


class OverdueError(Exception):
    """There was no answer in time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:g} s")


def within(limit_s: float, call: Callable[[], Result], abandon: Callable[[Future[Result]], None]) -> Result:
    """What a call returns or raises, in a thread of its own.

    Ctrl-C ends the wait. ``abandon`` is told of a call that is not waited for any more; it may make that end, and see
    to what it leaves.

    Raises:
        OverdueError: It has not returned in time.
    """
    future = aside(call, "gsw-history")
    give_up_s = time.monotonic() + limit_s
    try:
        while not future.done() and (left_s := give_up_s - time.monotonic()) > 0:
            wait([future], min(left_s, _WAIT_S))
    except BaseException:
        abandon(future)
        raise
    if not future.done():
        abandon(future)
        raise OverdueError(limit_s)
    return future.result()
