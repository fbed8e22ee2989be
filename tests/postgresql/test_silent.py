"""Servers that take connections and never answer: a history is away then, and nobody waits for it for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.history import postgresql
from pytest_gsw.history.database import HistoryUnavailableError
from pytest_gsw.history.location import open_history
from pytest_gsw.history.spool import Delivered, Spool
from tests.unit.history.runs import KEY, run_record, stored_points

from .server import PostgresqlServer
from .silent import SilentServer

ROOT = Path(__file__).parents[2]
#: After which something hangs; no machine is so slow.
GIVE_UP_S = 300.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(postgresql, "CONNECT_TIMEOUT_S", 1)
    monkeypatch.setattr(postgresql, "STATEMENT_TIMEOUT_S", 1)


@contextlib.contextmanager
def stopped(process_id: int) -> Iterator[None]:
    """A process that does nothing for a while."""
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


@pytest.mark.parametrize("greets", [False, True])
def test_a_server_that_is_silent_is_away(greets: bool, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.put(run_record(0))
    with SilentServer(greets=greets) as server, open_history(server.url) as history:
        why = f"the history {history.shown} does not answer: no answer within 1 s"
        assert spool.deliver(history) == Delivered(0, 1, why)
        with pytest.raises(HistoryUnavailableError) as caught:
            stored_points(history, KEY)
        assert str(caught.value) == why


def test_a_server_that_is_stopped_is_away_and_takes_the_record_later(server: PostgresqlServer, place: str) -> None:
    assert server._server is not None
    with open_history(place) as history:
        with stopped(server._server.pid), pytest.raises(HistoryUnavailableError, match=r"no answer within 1 s$"):
            history.add([run_record(0)])
        assert history.add([run_record(0)]) == 1


@pytest.mark.parametrize("statement", ["BEGIN", "SELECT"])
def test_a_connection_that_is_stopped_is_away_and_made_again(
    server: PostgresqlServer, place: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_history(place) as history:
        history.add([run_record(0)])
        database = history._database
        ((process_id,),) = database.execute("SELECT pg_backend_pid()")
        if statement == "BEGIN":  # idle since before
            with stopped(process_id):
                assert len(stored_points(history, KEY)) == 1  # on another connection
        else:
            with pytest.raises(HistoryUnavailableError, match=r"no answer within 1 s$"), stopped(process_id):
                database.execute("SELECT 1")
        assert len(stored_points(history, KEY)) == 1


def test_a_schema_that_another_session_makes_is_waited_for_longer(place: str) -> None:
    with open_history(place) as other, open_history(place) as history:
        with other._database.transaction(write=True):
            other._database.wait_for_schema()
            asked = threading.Thread(target=history.add, args=([run_record(0)],))
            asked.start()
            time.sleep(1.5)
            assert asked.is_alive()
        asked.join()
        assert len(stored_points(history, KEY)) == 1


PROGRAM = """
import sys
from pytest_gsw.history import postgresql
from pytest_gsw.history.location import open_history
from pytest_gsw.history.database import HistoryError
from tests.unit.history.runs import KEY, stored_points
postgresql.CONNECT_TIMEOUT_S = int(sys.argv[2])
print("asks", flush=True)
try:
    stored_points(open_history(sys.argv[1]), KEY)
except HistoryError as error:
    print(error)
"""


def asking(url: str, limit_s: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, url, str(limit_s)]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert asked.stdout is not None
    assert asked.stdout.readline() == "asks\n"
    return asked


@pytest.mark.parametrize("greets", [False, True])
def test_ctrl_c_ends_the_wait(greets: bool) -> None:
    with SilentServer(greets=greets) as server, asking(server.url, 2 * int(GIVE_UP_S)) as asked:
        server.wait_for_client()
        asked.send_signal(signal.SIGINT)
        _, err = asked.communicate(timeout=GIVE_UP_S)
        assert err.endswith("KeyboardInterrupt\n")
