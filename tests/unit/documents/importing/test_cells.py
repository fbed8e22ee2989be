from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.documents.importing.cells import (
    Number,
    Unreadable,
    is_nothing,
    is_out_of_memory,
    joined_digits,
    read_number,
    to_seconds,
)


@pytest.mark.parametrize(
    ("text", "digits", "unit"),
    [
        ("7.47", "7.47", ""),
        (" 7.60 ", "7.60", ""),
        ("21", "21", ""),
        ("0.5", "0.5", ""),
        ("1,045,961.09", "1045961.09", ""),
        ("52.59%", "52.59", "%"),
        ("52.59 %", "52.59", "%"),
        ("150s", "150", "s"),
        ("17960.68 ms", "17960.68", "ms"),
        ("18B", "18", "B"),
        ("5e8", "5e8", ""),
        ("1.82E+15", "1.82E+15", ""),
        ("4.32 ± 0.02", "4.32", ""),
        ("4.32 s (+/- 2%)", "4.32", "s"),
    ],
)
def test_numbers(text: str, digits: str, unit: str) -> None:
    assert read_number(text) == Number(digits, unit)


@pytest.mark.parametrize(("text", "mark"), [("7.47*", "*"), ("7.47 †", "†"), ("7.47 [1]", "[1]"), ("7.47¹", "¹")])
def test_a_footnote_mark_is_told_apart(text: str, mark: str) -> None:
    assert read_number(text) == Number("7.47", "", mark)


@pytest.mark.parametrize("text", ["", "NA", "n/a", "na", " - ", "\u2014", "TBD", "None", "?"])
def test_no_figure(text: str) -> None:
    assert is_nothing(text)
    assert read_number(text) is None


@pytest.mark.parametrize(
    "text",
    ["8.7  5", "7.47 7.58", "7,47", "1,2,3", "12,34,567", "~204 GB", "-5", "4.3.2", "nan", "inf", "1e9999", "\uff17.\uff14\uff17", "8..5", "about 7"],
)  # fmt: skip
def test_what_is_no_number_is_not_guessed(text: str) -> None:
    assert read_number(text) == Unreadable(text)


@pytest.mark.parametrize(("text", "digits"), [("8.7  5", "8.75"), ("1 0 24", "1024"), ("8.75", None), ("8.7 x", None)])
def test_digits_with_blanks_between_them(text: str, digits: str | None) -> None:
    assert joined_digits(text) == digits


@pytest.mark.parametrize("text", ["OOM", "oom", "Out of memory", "CUDA OOM!"])
def test_out_of_memory(text: str) -> None:
    assert is_out_of_memory(text)


@pytest.mark.parametrize(
    ("number", "unit", "seconds"),
    [
        (Number("7.60"), "", "7.60"),
        (Number("90.5", "s"), "", "90.5"),
        (Number("19652.80"), "ms", "19.65280"),
        (Number("1234.5", "ms"), "s", "1.2345"),
        (Number("1.5", "s"), "ms", "1.5"),
        (Number("26", "GB"), "s", None),
    ],
)
def test_seconds_keep_all_digits(number: Number, unit: str, seconds: str | None) -> None:
    assert to_seconds(number, unit) == seconds


@given(st.decimals(min_value=Decimal("0.0001"), max_value=10**12, places=4, allow_nan=False), st.booleans())
def test_any_number_is_read_as_it_stands(value: Decimal, separated: bool) -> None:
    text = f"{value:,f}" if separated else f"{value:f}"
    found = read_number(text)
    assert isinstance(found, Number)
    assert found.value == value
    assert found.digits == text.replace(",", "")
