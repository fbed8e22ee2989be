"""Work that must be linear in what others write, and would never end if it were not."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class EndlessError(Exception):
    """The work had not ended when there was no more point in waiting for it."""


@contextmanager
def it_ends(within_s: float = 120) -> Iterator[None]:
    """Interrupt the block when it does not end, so that a test fails which would hang; nothing is measured.

    Args:
        within_s: Many times what linear work takes, of this process's own processor time: other processes cannot use it up.
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise EndlessError(f"no end after {within_s} s of processor time: is the work linear in its input?")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
