from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.history.database import HistoryError, HistoryUnavailableError, SqliteDatabase
from pytest_gsw.history.location import open_history
from pytest_gsw.history.spool import Delivered, Spool
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record, read_record, write_record
from tests.messages import wording
from tests.unit.history.runs import KEY, run_record, stored_points


class Killed(BaseException):
    """The session ends here."""


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """End the session at one of its steps: a statement of SQL, the renaming or the removal of a file."""
    left = [steps]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*arguments, **named)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (SqliteDatabase, "execute"),
            (SqliteDatabase, "execute_each"),
            (os, "replace"),
            (Path, "unlink"),
        ):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        yield


class Away(History):
    """A history that does not answer, or takes nothing of some runs."""

    def __init__(self, place: str, bad: set[str]) -> None:
        super().__init__(open_history(place)._database)
        self.bad = bad
        self.away = False

    def __enter__(self) -> Away:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def add(self, records: Any) -> int:
        listed = list(records)
        if self.away:
            raise HistoryUnavailableError("no answer")
        if any(record.run.id in self.bad for record in listed):
            raise HistoryError("not this one")
        return super().add(listed)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def waiting(spool: Spool) -> list[str]:
    return sorted(path.name for path in spool._directory.iterdir()) if spool._directory.is_dir() else []


def runs(place: str) -> list[str]:
    with open_history(place) as history:
        return [point.run_id for point in stored_points(history, KEY)]


def test_what_is_put_waits_and_is_delivered(spool: Spool, place: str) -> None:
    path = spool.put(run_record(0))
    spool.put(run_record(1))
    assert path.is_file()
    assert len(waiting(spool)) == 2
    with open_history(place) as history:
        assert spool.deliver(history) == Delivered(2)
        assert spool.deliver(history) == Delivered()
    assert waiting(spool) == []
    assert runs(place) == [run_record(0).run.id, run_record(1).run.id]


def test_nothing_to_deliver_asks_nothing_of_the_history(spool: Spool, tmp_path: Path) -> None:
    assert spool.deliver(open_history(tmp_path / "a" / "b")) == Delivered()
    assert not (tmp_path / "a").exists()


def test_a_history_that_is_away_leaves_all_where_it_is(spool: Spool, place: str) -> None:
    for number in range(3):
        spool.put(run_record(number))
    with Away(place, set()) as history:
        history.away = True
        assert spool.deliver(history) == Delivered(0, 3, "no answer")
        history.away = False
        assert spool.deliver(history) == Delivered(3)


def test_a_record_that_the_history_does_not_take_keeps_no_other_from_it(spool: Spool, place: str) -> None:
    for number in range(4):
        spool.put(run_record(number))
    with Away(place, {run_record(1).run.id}) as history:
        assert spool.deliver(history) == Delivered(3, 1, "not this one")
    assert len(waiting(spool)) == 1
    assert runs(place) == [run_record(number).run.id for number in (0, 2, 3)]


def test_a_file_that_is_no_record_stays_and_is_named(spool: Spool, place: str, tmp_path: Path) -> None:
    spool.put(run_record(0))
    (tmp_path / "spool" / "0.json").write_text("{")
    (tmp_path / "spool" / "1.json").write_bytes(b"")
    (tmp_path / "spool" / ".draft.json.4711").write_text("{")
    with open_history(place) as history:
        delivered = spool.deliver(history)
    assert (delivered.count, delivered.left, delivered.why) == (1, 0, None)
    assert [text.partition(" is no record:")[0] for text in delivered.unreadable] == [
        str(tmp_path / "spool" / "0.json"),
        str(tmp_path / "spool" / "1.json"),
    ]
    assert waiting(spool) == [".draft.json.4711", "0.json", "1.json"]


def test_a_later_record_of_the_same_row_is_another_file(spool: Spool, place: str) -> None:
    spool.put(run_record(0, 5.0, recorded_s=1.0))
    spool.put(run_record(0, 6.0, recorded_s=2.0))
    assert len(waiting(spool)) == 2
    with open_history(place) as history:
        assert spool.deliver(history) == Delivered(2)
        assert [point.judged for point in stored_points(history, KEY)] == [6.0]


def test_what_waits_for_one_history_does_not_go_to_another(place: str, tmp_path: Path) -> None:
    server = Spool(tmp_path / "spool", "postgresql://***@db/gsw")
    server.put(run_record(0))
    with open_history(place) as history:
        file = Spool(tmp_path / "spool", history.place)
        file.put(run_record(1))
        assert file.deliver(history) == Delivered(1)
        assert [point.run_id for point in stored_points(history, KEY)] == [run_record(1).run.id]
        assert server.deliver(history) == Delivered(1)  # as the server would have it


def test_a_history_in_a_place_that_is_not_utf_8_has_a_spool(tmp_path: Path) -> None:
    assert Spool(tmp_path, os.fsdecode(b"/h\xe9/history.sqlite")).put(run_record(1)).is_file()


def test_a_record_that_is_written_already_gets_a_second_name(spool: Spool, place: str, tmp_path: Path) -> None:
    written = write_record(tmp_path, run_record(0))
    assert spool.put(run_record(0), written).samefile(written)
    with open_history(place) as history:
        spool.deliver(history)
        assert len(stored_points(history, KEY)) == 1
    assert read_record(written) == run_record(0)


def test_where_files_have_one_name_only_a_record_is_written_again(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    written = write_record(tmp_path, run_record(0))
    kept = spool.put(run_record(0), written)
    assert not kept.samefile(written)
    assert read_record(kept) == read_record(written) == run_record(0)


def test_a_file_that_cannot_be_removed_is_told_and_delivered_again(
    spool: Spool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = spool.put(run_record(0))
    for number in (1, 2):
        spool.put(run_record(number))
    real = Path.unlink

    def refused(self: Path, missing_ok: bool = False) -> None:
        if self == stays:
            raise PermissionError(13, "Permission denied")
        real(self, missing_ok)

    with open_history(place) as history:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refused)
            for count in (2, 0):
                assert spool.deliver(history) == Delivered(
                    count, 1, f"the history has {stays}, which cannot be removed: Permission denied"
                )
        assert waiting(spool) == [stays.name]
        assert spool.deliver(history) == Delivered(1)
    assert runs(place) == [run_record(number).run.id for number in range(3)]


def test_a_spool_that_cannot_be_looked_at_is_told(spool: Spool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.put(run_record(0))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "glob", refused)
    with open_history(place) as history:
        assert spool.deliver(history) == Delivered(
            0, 0, wording("cannot be read", what=spool._directory, why="Permission denied")
        )


def test_more_than_one_batch_is_delivered(spool: Spool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.history.spool._BATCH", 3)
    for number in range(10):
        spool.put(run_record(number))
    with open_history(place) as history:
        assert spool.deliver(history) == Delivered(10)
    assert len(runs(place)) == 10


@given(deaths=st.lists(st.integers(0, 60), min_size=1, max_size=4), count=st.integers(1, 5))
def test_nothing_is_lost_whenever_a_session_is_killed(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[int], count: int
) -> None:
    base = tmp_path_factory.mktemp("killed")
    kept: list[Record] = []
    for generation, steps in enumerate(deaths):
        spool = Spool(base / "spool")
        history = open_history(base / "history.sqlite")
        try:
            with killed_after(steps):
                for number in range(count):
                    record = run_record(generation * 10 + number)
                    spool.put(record)
                    kept.append(record)
                    spool.deliver(history)
        except Killed:
            pass
        finally:
            history.close()
    with open_history(base / "history.sqlite") as history:
        assert Spool(base / "spool").deliver(history).left == 0
        points = {point.run_id for point in stored_points(history, KEY)}
        assert {record.run.id for record in kept} <= points
        assert len(stored_points(history, KEY)) == len(points)
        for record in kept:
            assert history.records(record.run.id) == (record,)
