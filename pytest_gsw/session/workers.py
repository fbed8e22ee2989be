"""Signals under pytest-xdist: whichever of its processes is told to end, the rows' worker ends its jobs and says so.

The session that has the screen hands SIGTERM and SIGHUP on to its workers, and waits for these: the rows' worker ends
its jobs, reports each row as interrupted and stops; the others stop after the test that they run. Ctrl-C, which a
terminal sends to all of them, ends the session that has the screen at once, as pytest-xdist has it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Any

import pytest

from pytest_gsw.common.signals import taking_signals
from pytest_gsw.errors import RunError
from pytest_gsw.session import xdist
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.loop import SIGNALS, Interrupts
from pytest_gsw.session.screen import write
from pytest_gsw.session.stash import CLUSTER_TOLD, FLEET, NOT_READY, SETTINGS
from pytest_gsw.session.terminals import leave_closed, terminals

_HELD = pytest.StashKey[contextlib.ExitStack]()
_INTERRUPTS = pytest.StashKey[Interrupts]()


class _HandedOn:
    """What the session that has the screen does with a signal: it hands on the first, and ends at once by the next."""

    def __init__(self) -> None:
        self.seen = False
        #: The processes of the workers on this machine, by the workers' names.
        self.workers: dict[str, int] = {}
        self._terminals = terminals()

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if number == signal.SIGHUP:
            leave_closed(self._terminals)
        if self.seen or not self.workers:
            raise KeyboardInterrupt(signal.Signals(number).name)
        self.seen = True
        for pid in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


_HANDED_ON = pytest.StashKey[_HandedOn]()


def take_signals(config: pytest.Config) -> None:
    """Take signals from now on, in a session of pytest-xdist; in others pytest's own handling stays."""
    held = config.stash[_HELD] = contextlib.ExitStack()
    if xdist.is_worker(config):
        interrupts = config.stash[_INTERRUPTS] = Interrupts()
        interrupts.waiting = False
        held.enter_context(taking_signals(interrupts, SIGNALS))
    elif config.pluginmanager.hasplugin("dsession"):
        handed_on = config.stash[_HANDED_ON] = _HandedOn()
        held.enter_context(taking_signals(handed_on, (signal.SIGTERM, signal.SIGHUP)))


def leave_signals(config: pytest.Config) -> None:
    """Let others look after signals again."""
    if _HELD in config.stash:
        config.stash[_HELD].close()


def add_worker(node: Any) -> None:
    """Note a worker that is about to start.

    Raises:
        KeyboardInterrupt: The session is ending: this one stands for a worker that a signal has ended before it
            took any.
    """
    handed_on = node.config.stash.get(_HANDED_ON, None)
    if handed_on is None:
        return
    if handed_on.seen:
        raise KeyboardInterrupt
    if node.gateway.spec.popen:
        handed_on.workers[node.gateway.id] = node.gateway._rinfo().pid  # noqa: SLF001 - as pytest-cov does


def drop_worker(node: Any) -> None:
    """Note that a worker has ended, whose process's number may soon be another's, and say what it had to say."""
    handed_on = node.config.stash.get(_HANDED_ON, None)
    if handed_on is not None:
        handed_on.workers.pop(node.gateway.id, None)
    if xdist.has_failed(node):
        node.config.stash[NOT_READY] = True
    told = xdist.handed_over(node)
    if told is not None:
        from pytest_gsw.history.texts import ClusterTold  # few workers have as many rows

        node.config.stash[CLUSTER_TOLD] = ClusterTold(*told)
    for line in xdist.messages_of(node):
        write(node.config, line)


def wait_for(item: BaselineItem) -> None:
    """Let a worker wait for a row's job; a signal ends the wait for all of its rows, and they say so."""
    fleet = item.config.stash.get(FLEET, None)
    interrupts = item.config.stash.get(_INTERRUPTS, None)
    if fleet is None or interrupts is None or fleet.phase(item.baseline.id) is None:
        return
    try:
        with interrupts.wait():
            fleet.wait_for(item.baseline.id)
    except KeyboardInterrupt:
        if not fleet.interrupted:
            with contextlib.suppress(RunError):  # the session's end tries again, and says so
                fleet.interrupt(item.config.stash[SETTINGS].detach)


def stop_if_interrupted(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a worker's session that got a signal, once all its rows are reported."""
    interrupts = item.config.stash.get(_INTERRUPTS, None)
    if interrupts is not None and interrupts.seen and not isinstance(nextitem, BaselineItem):
        item.session.shouldstop = "interrupted by a signal"
