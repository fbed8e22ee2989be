"""Where a history is, for sessions and commands alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.location import history_place, is_postgresql, open_history
from pytest_gsw.history.postgresql import shown_url
from tests.messages import wording

RESULTS = Path("results")
URL = "postgresql://db.example/gsw?user=gsw"
HIDDEN = "got what is no name of a file (it is not shown, because it may hold a password)"


def place(given: str | None, named: str | None = None, base: Path = Path("base")) -> str | Path | None:
    environ: Mapping[str, str] = {} if named is None else {"GSW_HISTORY": named}
    return history_place(given, RESULTS, environ, base)


@pytest.mark.parametrize(
    ("given", "named", "wanted"),
    [
        (None, None, Path("results/history.sqlite")),
        ("a.sqlite", None, Path("base/a.sqlite")),
        ("a.sqlite", "b.sqlite", Path("base/a.sqlite")),
        ("a.sqlite", "none", Path("base/a.sqlite")),
        (None, "b.sqlite", Path("base/b.sqlite")),
        ("/all/a.sqlite", None, Path("/all/a.sqlite")),
        ("~/a.sqlite", None, Path("/home/me/a.sqlite")),
        (None, "~/my nights.sqlite", Path("/home/me/my nights.sqlite")),
        ("none", "b.sqlite", None),
        (None, " NONE ", None),
        (URL, "none", URL),
        (None, f" {URL} ", URL),
        ("release=24.11/history.sqlite", None, Path("base/release=24.11/history.sqlite")),
    ],
)
def test_an_option_counts_before_the_environment(
    given: str | None, named: str | None, wanted: Path | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert place(given, named) == wanted


@pytest.mark.parametrize(
    ("given", "named", "source"),
    [(None, "", "GSW_HISTORY"), (None, " ", "GSW_HISTORY"), ("", None, "--history"), (" ", "b.sqlite", "--history")],
)
def test_an_empty_place_is_no_absent_one(given: str | None, named: str | None, source: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{source} is empty"):
        place(given, named)


def test_without_a_base_a_path_stays_as_it_is_written() -> None:
    assert history_place("a.sqlite", RESULTS, {}) == Path("a.sqlite")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("mysql://gsw:hunter2@db/gsw", "got a URL of 'mysql'"),
        ("sqlite:///gsw.sqlite", "got a URL of 'sqlite'"),
        ("gsw:hunter2@//db://x", HIDDEN),
        ("host=db password=hunter2", HIDDEN),
        ("password=hunter2", HIDDEN),
        ("db gsw password = hunter2", HIDDEN),
        ("a\0hunter2", HIDDEN),
    ],
)
def test_what_is_no_place_is_refused_and_not_shown(text: str, fact: str) -> None:
    wanted = "wanted a SQLite file, a postgresql:// URL, or 'none'"
    with pytest.raises(ConfigurationError) as caught:
        place(text)
    assert str(caught.value) == f"--history: {fact}, {wanted}"
    with pytest.raises(ConfigurationError) as caught:
        history_place(text, RESULTS, {}, option="--gsw-history")
    assert str(caught.value) == f"--gsw-history: {fact}, {wanted}"
    if "\0" not in text:  # which no environment has
        with pytest.raises(ConfigurationError) as caught:
            place(None, text)
        assert str(caught.value) == f"GSW_HISTORY: {fact}, {wanted}"
    assert "hunter2" not in str(caught.value)


def test_a_url_of_postgresql_that_is_none_is_told_when_it_is_opened() -> None:
    assert place("postgresql:gsw:hunter2") == "postgresql:gsw:hunter2"
    with pytest.raises(ConfigurationError, match="its text is not shown"):
        open_history("postgresql:gsw:hunter2")


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    directory = tmp_path / "my runs" / "release = 24.11"
    assert history_place(None, directory, {}) == directory / "history.sqlite"
    assert open_history(str(directory / "history.sqlite")).place == str(directory / "history.sqlite")
    with pytest.raises(ConfigurationError) as caught:
        place("~nobody-of-this-name/a.sqlite")
    assert str(caught.value) == "--history: " + wording("no home", path="'~nobody-of-this-name'")


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
    assert not is_postgresql(".gsw/history.sqlite")
    assert not is_postgresql("postgresql/history.sqlite")
