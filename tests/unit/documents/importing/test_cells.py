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
    other_readings,
    read_number,
    to_rate,
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


@pytest.mark.parametrize(
    ("text", "mark"),
    [("7.47*", "*"), ("7.47 †", "†"), ("7.47 [1]", "[1]"), ("7.47¹", "¹"), ("7.47[^a-note]", "[^a-note]")],
)
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


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("8.7  5", ("8.75",)),
        ("1 0 24", ("1024",)),
        ("1\u2009234\u202f567", ("1234567",)),
        ("8.75", ()),
        ("8.7 x", ()),
        ("8,309", ("8.309",)),
        ("8,3 s", ("8.3 s",)),
        ("41,2 %", ("41.2 %",)),
        ("121.250,69", ("121250.69",)),
        ("117.965", ("117965",)),
        ("1,045,961", ()),
        ("37556 (36108)", ("37556", "36108")),
        ("1,024 / 2,048", ("1,024", "2,048")),
        ("1/d", ()),
        ("~200", ()),
        ("\u2248 200", ()),
    ],
)
def test_what_else_a_cell_may_say(text: str, readings: tuple[str, ...]) -> None:
    assert other_readings(text) == readings


@pytest.mark.parametrize(
    ("text", "unit", "digits"),
    [
        ("37.5k", "", "37.5e+3"),
        ("37.5k", "k", "37.5e+3"),
        ("37.5", "k", "37.5e+3"),
        ("1.2M", "", "1.2e+6"),
        ("37500", "", "37500"),
        ("37500 tok/s", "", "37500"),
        ("37.5 ktok/s", "", "37.5e+3"),
        ("37.5 GB", "", None),
        ("37.5 ms", "", None),
    ],
)
def test_thousands_of_a_rate_keep_their_digits(text: str, unit: str, digits: str | None) -> None:
    number = read_number(text)
    assert isinstance(number, Number)
    assert to_rate(number, unit, ("tok/s", "tokens/s")) == digits


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
