"""A site's log format is held to its shape before anything is submitted."""

from __future__ import annotations

from typing import Any

from pytest_gsw import LineFormat
from pytest_gsw.hooks.checks import format_problems

REFUSED = "parse: no longer called, write reader(), see pytest_gsw_log_format in docs/hooks.md"


class Tick(LineFormat):
    name = "tick"
    dialects = ((b"tick ",),)


def test_a_format_of_lines_is_sound() -> None:
    assert format_problems(Tick()) == []


def test_a_loop_over_lines_of_its_own_is_refused() -> None:
    class Old(Tick):
        def parse(self, lines: Any) -> Any:
            return lines

    class Bare:
        name, dialects, first_index, wraps, shows_progress = "bare", ((b"tick ",),), None, False, True

        def parse(self, lines: Any) -> Any:
            return lines

    assert format_problems(Old()) == [REFUSED]
    assert format_problems(Bare()) == ["reader: missing, wanted reader()", REFUSED]


def test_what_its_reader_returns_is_looked_at() -> None:
    class Odd(Tick):
        def reader(self) -> Any:
            return object()

    class Minutes(Tick):
        unit = "minutes"

    assert format_problems(Odd()) == [
        "reader().feed: missing, wanted feed(offset, record)",
        "reader().log: missing, wanted log()",
    ]
    assert format_problems(Minutes()) == ["reader: raised ValueError: 'minutes' is not a valid Unit"]
