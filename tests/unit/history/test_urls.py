"""URLs of PostgreSQL: what is shown of them, and what is refused because nobody can tell what is secret in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history import open_history
from pytest_gsw.history.place import is_postgresql
from pytest_gsw.history.postgresql import shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db.example/gsw", "postgresql://db.example/gsw"),
        ("postgres://db.example:5433/gsw", "postgres://db.example:5433/gsw"),
        ("postgresql://gsw@db.example/gsw", "postgresql://***@db.example/gsw"),
        ("postgresql://gsw:pw@db.example/gsw", "postgresql://***@db.example/gsw"),
        ("postgresql://gsw:p%40ss%2Fw@[::1]:5432,b:1/gsw", "postgresql://***@[::1]:5432,b:1/gsw"),
        ("postgresql://gsw:@db.example", "postgresql://***@db.example"),
        ("postgresql:///gsw?host=/run/postgresql", "postgresql:///gsw?host=/run/postgresql"),
        (
            "postgresql://db/gsw?user=me&password=pw&sslpassword=pw2&sslmode=require",
            "postgresql://db/gsw?user=me&password=***&sslpassword=***&sslmode=require",
        ),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert is_postgresql(url)
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://gsw:hunter@2@db/gsw",
        "postgresql://gsw:hunt/er2@db/gsw",
        "postgresql://gsw:hunt?er2@db/gsw",
        "postgresql://gsw:hunt#er2@db/gsw",
        "postgresql://gsw:hunt er2@db/gsw",
        "postgresql:gsw:hunter2",
        "POSTGRESQL://gsw:hunter2@db/gsw",
        "postgresql://db/gsw?p%61ssword=hunter2",
        "postgresql://db/gsw?user=a&hunter2",
        "postgresql://db/gsw?password=hunter2@x",
    ],
)
def test_what_may_be_read_in_two_ways_is_refused_and_not_shown(url: str) -> None:
    assert is_postgresql(url)
    with pytest.raises(ConfigurationError) as caught:
        shown_url(url)
    assert str(caught.value) == (
        "the history is named by no URL of PostgreSQL (its text is not shown, because it may hold a password)\n"
        "wanted: postgresql://HOST:PORT/DATABASE?user=NAME, or with user and password before the host, in which '@' "
        "is written %40, '/' %2F, '?' %3F and '#' %23\n"
        "next: leave the password out, and put it into ~/.pgpass"
    )


@given(password=st.text(st.characters(codec="ascii"), min_size=1))
def test_no_password_is_ever_shown(password: str) -> None:
    url = f"postgresql://u:QQ{password}QQ@h/d"
    assert "QQ" not in said_of(url)


def said_of(url: str) -> str:
    """How a URL is shown, or why it is none."""
    try:
        return shown_url(url)
    except ConfigurationError as error:
        return str(error)


def test_other_databases_are_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_history("mysql://gsw:hunter2@db/gsw")
    assert str(caught.value) == "the history: got a URL of 'mysql', wanted a SQLite file or a postgresql:// URL"


def test_paths_are_no_urls() -> None:
    assert not is_postgresql(".gsw/history.sqlite")
    assert not is_postgresql("postgresql/history.sqlite")
