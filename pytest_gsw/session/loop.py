"""The order in which a session's items run: other tests first, then rows as their jobs end."""

from __future__ import annotations

import gc
import signal
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from pytest_gsw.common.signals import taking_signals
from pytest_gsw.errors import RunError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.session.item import BaselineItem, blank_rows
from pytest_gsw.session.start import Start

#: What ends a session in order: Ctrl-C, a CI server's request, a terminal that was closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Whether a session of this process has frozen what Python's collector is to pass over.
_frozen = False


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP while rows are submitted and run.

    While the session submits rows, runs other tests or waits for jobs, they raise KeyboardInterrupt at once. While a
    row is measured and reported, which takes no time, they are kept until that is done, so that no row is torn apart.
    """

    def __init__(self) -> None:
        self.waiting = True
        self.seen = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self.seen = True
        if self.waiting:
            self.waiting = False
            raise KeyboardInterrupt(signal.Signals(number).name)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """What is done in here may be interrupted."""
        if self.seen:
            raise KeyboardInterrupt
        self.waiting = True
        try:
            yield
        finally:
            self.waiting = False


def run_unready(session: pytest.Session, start: Start, told: list[pytest.Item]) -> None:
    """Run the items of rows that cannot be submitted: what they tell is told before anything is.

    Args:
        session: The session.
        start: Its rows, none of which is submitted yet.
        told: What is run is added here.

    Raises:
        pytest.Session.Failed: ``-x`` or ``--maxfail`` ends the session.
        pytest.Session.Interrupted: Something else asks the session to stop.
    """
    items = [*blank_rows(session.items), *start.unready]
    for position, item in enumerate(items):
        is_last = len(items) == len(session.items) == position + 1
        told.append(item)
        _run(session, item, items[position + 1] if position + 1 < len(items) else None if is_last else session)


def run_session(
    session: pytest.Session, fleet: Fleet, interrupts: Interrupts, told: Collection[pytest.Item], *, detach: bool
) -> None:
    """Run all items of the session but those that were told.

    Raises:
        KeyboardInterrupt: After an interruption, once every row has been reported.
        pytest.Session.Failed: ``-x`` or ``--maxfail`` ends the session.
        pytest.Session.Interrupted: Something else asks the session to stop.
    """
    waiting = _waiting(session, fleet, told)
    done = set(told)
    others = [item for item in session.items if not isinstance(item, BaselineItem) and item not in done]
    skipped = [item for item in _rows(session) if item.baseline.id not in waiting and item not in done]
    if not others:
        _leave_to_the_end(session.config)
    first = [*others, *skipped]
    for position, item in enumerate(first):
        last = position + 1 == len(first)
        _run(session, item, session if last else first[position + 1])
    interrupts.waiting = False
    try:
        for row_id in _in_order(fleet, waiting, interrupts):
            item = waiting.pop(row_id)
            _run(session, item, session if waiting else None)
    except session.Interrupted:
        raise  # --stepwise and the like end a session in order; pytest makes them KeyboardInterrupts too
    except KeyboardInterrupt:
        _interrupt(session, fleet, waiting, detach)
        raise


def _leave_to_the_end(config: pytest.Config) -> None:
    """Let Python's collector pass over what there is by now, and at the session's end over all there is.

    Of a session of rows alone nothing is garbage: it would look through all of it time and again, to find that.
    """
    global _frozen  # by the process, as what is frozen is
    if _frozen:  # by an earlier session in this process, whose rows are garbage by now
        gc.unfreeze()
        gc.collect()
    elif gc.get_freeze_count():  # by somebody else, who wants it to stay so
        return
    _frozen = True
    gc.freeze()
    config.add_cleanup(gc.freeze)


def interrupt_session(session: pytest.Session, fleet: Fleet, told: Collection[pytest.Item], *, detach: bool) -> None:
    """Report all rows of a session that was interrupted while it submitted them.

    Args:
        session: The session.
        fleet: Its fleet; a row that it does not know yet has no job, and is not reported.
        told: Rows that were reported before.
        detach: Whether jobs go on.

    Raises:
        KeyboardInterrupt: Not all jobs could be cancelled.
    """
    _interrupt(session, fleet, _waiting(session, fleet, told), detach)


def _rows(session: pytest.Session) -> list[BaselineItem]:
    return [item for item in session.items if isinstance(item, BaselineItem)]


def _waiting(session: pytest.Session, fleet: Fleet, told: Collection[pytest.Item]) -> dict[str, BaselineItem]:
    """The rows that have a job or are to have one, by id."""
    done = set(told)
    rows = (item for item in _rows(session) if item not in done)
    return {item.baseline.id: item for item in rows if fleet.phase(item.baseline.id) is not None}


def _in_order(fleet: Fleet, waiting: Mapping[str, BaselineItem], interrupts: Interrupts) -> Iterator[str]:
    """The rows in the order in which their jobs end, but canaries before all others, which they may excuse."""
    held: deque[str] = deque()
    canaries = sum(item.baseline.canary for item in waiting.values())
    while waiting:
        if held and not canaries:
            yield held.popleft()
            continue
        with interrupts.wait():
            row_id = fleet.next_over()
        if row_id not in waiting:
            continue  # it was told before anything was submitted
        if waiting[row_id].baseline.canary:
            canaries -= 1
            yield row_id
        else:
            held.append(row_id)


def _interrupt(session: pytest.Session, fleet: Fleet, waiting: dict[str, BaselineItem], detach: bool) -> None:
    """Report what has ended by now, and the rest as interrupted."""
    problem: RunError | None = None
    try:
        fleet.interrupt(detach)
    except RunError as error:
        problem = error  # the session's end tries again, and says so
    for row_id in list(waiting):
        item = waiting.pop(row_id)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=session if waiting else None)
    if problem is not None:
        raise KeyboardInterrupt from problem


def _run(session: pytest.Session, item: pytest.Item, nextitem: Any) -> None:
    """Run one item as pytest's own loop does.

    ``nextitem`` tells which fixtures are still needed. Which row comes next is not known
    before its job has ended; that the session goes on is, and that is what the session
    itself stands for here.
    """
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)


@contextmanager
def handling_signals() -> Iterator[Interrupts]:
    """Take signals while rows are submitted and run."""
    interrupts = Interrupts()
    with taking_signals(interrupts, SIGNALS):
        yield interrupts
