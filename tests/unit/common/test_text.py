"""Words that many messages are made of, to the letter."""

from __future__ import annotations

import time

import pytest

from pytest_gsw.common.text import by_number, command, day, duration, enumerated, minute, percent


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.12156, "+12.2 %"),
        (-0.108, "-10.8 %"),
        (0.0, "+0.0 %"),
        (-0.0004, "+0.0 %"),
        (-0.0006, "-0.1 %"),
        (1, "+100.0 %"),
    ],
)
def test_changes_have_a_sign_and_nought_has_none_of_its_own(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_a_command_can_be_pasted() -> None:
    assert command("pytest", "-k", "a and b", "x.yaml::y[1]") == "pytest -k 'a and b' 'x.yaml::y[1]'"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (662, "11m02s"), (3600, "1h00m"), (86399, "23h59m")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("texts", "sentence"), [(["tp"], "tp"), (["tp", "pp"], "tp and pp"), (["tp", "pp", "dp"], "tp, pp and dp")]
)
def test_texts_in_a_sentence(texts: list[str], sentence: str) -> None:
    assert enumerated(iter(texts)) == sentence


def test_numbers_in_names_count_where_they_are_sorted() -> None:
    names = ["a_7.5b[H100x8]", "a_7.5b[H100x8-mbs2]", "a_7.5b[H100x8-mbs10]", "a_7.5b[H100x016]", "a_7.5b[H100x16]"]
    names += ["a_18.4b[H100x8]", "b", "b0", f"b{'9' * 5000}"]
    shuffled = names[::-1]
    assert sorted(shuffled, key=by_number) == names


def test_runs_of_one_day_are_told_apart() -> None:
    noon_s = time.mktime((2026, 11, 20, 12, 4, 59, 0, 0, -1))
    assert (day(noon_s), minute(noon_s), minute(noon_s + 360)) == ("2026-11-20", "2026-11-20 12:04", "2026-11-20 12:10")


@pytest.mark.parametrize("time_s", [1e300, float("nan"), float("inf")])
def test_a_time_that_no_calendar_has_is_not_said(time_s: float) -> None:
    assert (day(time_s), minute(time_s)) == ("", "")
