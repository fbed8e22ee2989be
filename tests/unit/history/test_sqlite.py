"""The history in a SQLite file."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, HistoryUnusableError
from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import Record
from tests.messages import wording
from tests.unit.history.behaviour import SchemaBehaviour, StoreBehaviour, WriterBehaviour, everything
from tests.unit.history.runs import KEY, run_record, stored_points


class TestStore(StoreBehaviour):
    pass


class TestWriters(WriterBehaviour):
    pass


class TestSchema(SchemaBehaviour):
    pass


#: Runs, replays of them in later runs, and what the same row of the same run was recorded as later.
RECORDS = st.builds(
    lambda number, run, recorded_s, outcome, definition: run_record(
        number,
        5.0 + number / 10 + recorded_s / 1000,
        run_id=f"202611{run:02d}-210000-7f3a",
        recorded_s=recorded_s,
        outcome=outcome,
        definition=definition,
    ),
    number=st.integers(0, 3),
    run=st.integers(1, 4),
    recorded_s=st.floats(1, 100),
    outcome=st.sampled_from(["passed", "regressed", "error"]),
    definition=st.sampled_from(["0123456789ab", "ffffffffffff"]),
)


@given(
    records=st.lists(RECORDS, max_size=12, unique_by=lambda record: (record.run.id, record.run.recorded_s)),
    seed=st.randoms(use_true_random=False),
)
def test_neither_order_nor_repetition_matters(records: list[Record], seed: random.Random) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        open_history(Path(directory, "once.sqlite")) as once,
        open_history(Path(directory, "often.sqlite")) as often,
    ):
        once.add(records)
        again = records + seed.sample(records, len(records) // 2)
        seed.shuffle(again)
        while again:
            some = seed.randint(1, 4)
            often.add(again[:some])
            again = again[some:]
        assert everything(often) == everything(once)


def test_the_journal_works_on_network_file_systems(place: str) -> None:
    with open_history(place) as history:
        history.add([run_record(0)])
    with contextlib.closing(sqlite3.connect(place)) as connection, connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    connection.close()


def test_the_database_of_another_program_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect("jobs.sqlite3")) as connection, connection:
        connection.execute("CREATE TABLE jobs (job_id INTEGER)")
    connection.close()
    with open_history("jobs.sqlite3") as history, pytest.raises(HistoryUnusableError) as caught:
        history.add([run_record(0)])
    assert str(caught.value) == (
        "jobs.sqlite3 is the database of another program: it has the tables jobs\n"
        "next: name another file with --history=FILE"
    )


def test_a_file_that_is_no_database_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("no database" * 100)
    with open_history(Path("notes.txt")) as history, pytest.raises(HistoryError) as caught:
        history.series()
    assert str(caught.value) == wording("history is none", history="notes.txt", why="file is not a database")


def test_a_file_that_cannot_be_made_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("a file")
    with open_history("results/history.sqlite") as history, pytest.raises(HistoryUnavailableError) as caught:
        history.add([run_record(0)])
    assert str(caught.value) == wording("history is not made", path="results/history.sqlite", why="File exists")
    Path("results").unlink()
    with history:
        assert history.add([run_record(0)]) == 1  # it may be asked again


def test_a_link_that_leads_to_itself_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop.sqlite").symlink_to("loop.sqlite")
    with open_history("loop.sqlite") as history:
        assert history.place == str(tmp_path / "loop.sqlite")
        with pytest.raises(HistoryUnavailableError) as caught:
            stored_points(history, KEY)
    assert str(caught.value) == "the history loop.sqlite cannot be used now: unable to open database file"


def test_a_name_that_is_none_says_so() -> None:
    with open_history(Path("a\0b")) as history, pytest.raises(HistoryError, match=r"null (byte|character)"):
        stored_points(history, KEY)


def test_a_locked_file_is_away_and_takes_the_record_later(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.history.database.BUSY_TIMEOUT_S", 0.1)
    with open_history(place) as history:
        history.add([run_record(0)])
        other = sqlite3.connect(place, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HistoryUnavailableError) as caught:
            history.add([run_record(1)])
        assert str(caught.value) == wording("history is away", history=place, why="database is locked")
        other.execute("ROLLBACK")
        other.close()
        history.add([run_record(1)])
        assert len(stored_points(history, KEY)) == 2
