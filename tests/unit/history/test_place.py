"""Where a history is, for sessions and commands alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.place import history_place, open_history

RESULTS = Path("results")
URL = "postgresql://db.example/gsw?user=gsw"


def place(given: str | None, named: str | None = None, base: Path = Path("base")) -> str | Path | None:
    environ: Mapping[str, str] = {} if named is None else {"GSW_HISTORY": named}
    return history_place(given, RESULTS, environ, base)


@pytest.mark.parametrize(
    ("given", "named", "wanted"),
    [
        (None, None, Path("results/history.sqlite")),
        (None, "", Path("results/history.sqlite")),
        ("", " ", Path("results/history.sqlite")),
        ("a.sqlite", None, Path("base/a.sqlite")),
        ("a.sqlite", "b.sqlite", Path("base/a.sqlite")),
        ("a.sqlite", "none", Path("base/a.sqlite")),
        (None, "b.sqlite", Path("base/b.sqlite")),
        ("", "b.sqlite", Path("base/b.sqlite")),
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


def test_without_a_base_a_path_stays_as_it_is_written() -> None:
    assert history_place("a.sqlite", RESULTS, {}) == Path("a.sqlite")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("mysql://gsw:hunter2@db/gsw", "got a URL of 'mysql'"),
        ("sqlite:///gsw.sqlite", "got a URL of 'sqlite'"),
        ("gsw:hunter2@//db://x", "got what is no name of a file (it is not shown, because it may hold a password)"),
        ("host=db password=hunter2", "got what is no name of a file (it is not shown, because it may hold a password)"),
        ("password=hunter2", "got what is no name of a file (it is not shown, because it may hold a password)"),
        (
            "db gsw password = hunter2",
            "got what is no name of a file (it is not shown, because it may hold a password)",
        ),
        ("a\0hunter2", "got what is no name of a file (it is not shown, because it may hold a password)"),
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


def test_a_home_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError) as caught:
        place("~nobody-of-this-name/a.sqlite")
    assert str(caught.value) == "--history: nobody knows the home directory of '~nobody-of-this-name'"
