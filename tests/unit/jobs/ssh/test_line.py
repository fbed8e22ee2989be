"""The one process of ssh, and its threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pytest_gsw.jobs.ssh.connection import ConnectionLostError, _Line


def test_an_ssh_that_ends_at_once_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader may see that before another thread has begun."""
    errors: list[Any] = []
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        begin(thread)
        if thread.name == "gsw-ssh-_read":
            thread.join(5.0)

    monkeypatch.setattr(threading, "excepthook", errors.append)
    monkeypatch.setattr(threading.Thread, "start", start)
    line = _Line(("false",))
    with pytest.raises(ConnectionLostError):
        line.send([("hello", {})]).result(5.0)
    assert not errors
