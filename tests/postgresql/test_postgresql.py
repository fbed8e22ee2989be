"""The history in a real PostgreSQL server."""

from __future__ import annotations

import builtins
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, HistoryUnusableError
from pytest_gsw.history.location import open_history
from pytest_gsw.history.spool import Delivered, Spool
from tests.unit.history.behaviour import SchemaBehaviour, StoreBehaviour, WriterBehaviour
from tests.unit.history.runs import KEY, run_record, stored_points

from .server import PASSWORD, PostgresqlServer


class TestStore(StoreBehaviour):
    pass


class TestWriters(WriterBehaviour):
    pass


class TestSchema(SchemaBehaviour):
    pass


def test_a_server_that_is_killed_mid_run_loses_nothing(mortal: PostgresqlServer, place: str, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    with open_history(place) as history:
        spool.put(run_record(0))
        assert spool.deliver(history) == Delivered(1)
        mortal.kill()
        for number in (1, 2):
            spool.put(run_record(number))
            delivered = spool.deliver(history)
            assert (delivered.count, delivered.left) == (0, number)
            assert delivered.why is not None
            assert delivered.why.startswith(f"the history {history.shown} does not answer: ")
            assert PASSWORD not in delivered.why
        with pytest.raises(HistoryUnavailableError):
            stored_points(history, KEY)
        mortal.start()
        assert spool.deliver(history) == Delivered(2)
        assert len(stored_points(history, KEY)) == 3


def test_a_connection_that_the_server_has_ended_is_made_again(mortal: PostgresqlServer, place: str) -> None:
    with open_history(place) as history:
        history.add([run_record(0)])
        mortal.stop()
        mortal.start()
        history.add([run_record(1)])
        assert len(stored_points(history, KEY)) == 2


def wait_for_end(process_id: int) -> None:
    deadline_s = time.monotonic() + 30
    while Path(f"/proc/{process_id}").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_transaction_that_is_cut_off_is_not_half_there(
    mortal: PostgresqlServer, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_history(place) as history:
        history.add([run_record(0)])
        database = history._database
        real = database.execute_each
        ((process_id,),) = database.execute("SELECT pg_backend_pid()")

        def cut_off(sql: str, many: Any) -> Any:
            if "gsw_body" in sql:
                mortal.kill()
                wait_for_end(process_id)  # which may answer once more before it notices
            return real(sql, many)

        with monkeypatch.context() as patch:
            patch.setattr(database, "execute_each", cut_off)
            with pytest.raises(HistoryUnavailableError):
                history.add([run_record(1)])
        mortal.start()
        assert len(history.runs()) == 1
        history.add([run_record(1)])
        assert len(stored_points(history, KEY)) == 2


def test_a_server_that_is_not_there_says_so_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://gsw:{PASSWORD}@/gsw?host={tmp_path}"
    with open_history(url) as history, pytest.raises(HistoryUnavailableError) as caught:
        history.add([run_record(0)])
    # What follows is libpq's, and psycopg's releases begin it in different ways.
    assert str(caught.value).startswith(
        f"the history postgresql://***@/gsw?host={tmp_path} does not answer: connection "
    )
    assert f"{tmp_path}/.s.PGSQL.5432" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_wrong_password_is_not_shown(place: str) -> None:
    wrong = place.replace(PASSWORD, "hunter2-wrong")
    with open_history(wrong) as history, pytest.raises(HistoryUnavailableError) as caught:
        history.series()
    assert "hunter2" not in str(caught.value)
    assert 'password authentication failed for user "gsw"' in str(caught.value)


def test_a_user_who_may_not_write_is_told_so(place: str) -> None:
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reads'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with open_history(place) as history:
        history.add([run_record(0)])
        connection = history._database._connected()  # type: ignore[attr-defined]
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    url = place.replace(f"gsw:{PASSWORD}@", "reader:reads@")
    with open_history(url) as history:
        assert len(stored_points(history, KEY)) == 1
        with pytest.raises(HistoryError) as caught:
            history.add([run_record(1)])
        assert str(caught.value) == f"the history {history.shown} refused: permission denied for table gsw_record"
        assert len(stored_points(history, KEY)) == 1  # the connection is still good


def test_without_psycopg_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError) as caught:
        open_history(f"postgresql://gsw:{PASSWORD}@db.example/gsw")
    assert "postgresql://***@db.example/gsw needs psycopg" in str(caught.value)


def test_a_database_that_does_not_keep_texts_as_they_are_is_refused(server: PostgresqlServer) -> None:
    import psycopg

    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS plain")
        connection.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with open_history(server.url_of("plain")) as history, pytest.raises(HistoryUnusableError) as caught:
        history.add([run_record(0)])
    assert "the encoding SQL_ASCII, wanted UTF8\nnext: createdb --encoding=UTF8" in str(caught.value)


@pytest.mark.parametrize("asked", ["&client_encoding=LATIN1", "&client_encoding=SQL_ASCII"])
def test_texts_are_the_same_whatever_a_client_is_told(place: str, asked: str) -> None:
    with open_history(place + asked) as history:
        history.add([run_record(0, row="lläma€")])
        (key,) = history.series()
        assert key.row == "lläma€"
