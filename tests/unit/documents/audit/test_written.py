"""Numbers as written: their digits, the values they stand for, slips of a digit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.documents.audit.written import Span, Written, read_written, short, slips, spelt, swapped


def written(text: str) -> Written:
    number = read_written(text)
    assert number is not None
    return number


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("24.7", "24.7", "0.1"),
        ("24.70", "24.7", "0.01"),
        ("174762", "174762", "1"),
        ("659,545,915,392", "659545915392", "1"),
        ("45.4%", "45.4", "0.1"),
        ("45.4 %", "45.4", "0.1"),
        ("2.17E+16", "2.17e16", "1e14"),
        ("1e12", "1e12", "1e12"),
        ("8.7  5", "8.75", "0.01"),
        ("137s", "137", "1"),
        ("164.9 days", "164.9", "0.1"),
        ("16.", "16", "1"),
        (" .5 ", "0.5", "0.1"),
    ],
)
def test_a_number_and_its_last_digit(text: str, value: str, unit: str) -> None:
    number = written(text)
    assert (number.value, number.unit) == (Fraction(Decimal(value)), Fraction(Decimal(unit)))


@pytest.mark.parametrize(
    "text", ["", "n/a", "OOM", "1.2.3", "12x", "--5", "-5", "1e9999", "nan", "inf", "1,23", "9" * 61]
)
def test_what_is_no_number(text: str) -> None:
    assert read_written(text) is None


def test_the_values_that_digits_stand_for() -> None:
    number = written("24.7")
    assert number.rounded == Span(Fraction("24.65"), Fraction("24.75"))
    assert number.cut == Span(Fraction("24.7"), Fraction("24.8"))
    assert number.either == Span(Fraction("24.65"), Fraction("24.8"))
    assert number.is_rounding_of(Fraction("24.65"))
    assert not number.is_rounding_of(Fraction("24.76"))
    assert number.is_cut_of(Fraction("24.79"))
    assert not number.is_cut_of(Fraction("24.8"))


@pytest.mark.parametrize(
    ("value", "like", "text"),
    [
        ("24.65", "24.7", "24.7"),
        ("45.463", "45.4%", "45.5%"),
        ("659545915392.4", "659,545,915,391", "659,545,915,392"),
        ("21548286049517570", "2.17E16", "2.15E16"),
        ("21548286049517570", "2.17e+16", "2.15e+16"),
        ("43.1376", "38", "43"),
    ],
)
def test_a_value_in_the_form_of_another(value: str, like: str, text: str) -> None:
    assert written(like).written_like_this(Fraction(value)) == text


def test_the_fewest_digits_that_stay_inside() -> None:
    span = Span(Fraction("20.82798"), Fraction("20.82803"))
    assert short(Fraction("20.828007"), span, 2) == "20.828"
    assert short(Fraction(1, 3), Span(Fraction(1, 3), Fraction(1, 3))) == "0.333333333333"


def test_swapped_digits() -> None:
    assert list(swapped("17.01")) == ["71.01", "10.71", "17.10"]
    assert list(swapped("11")) == []


def test_slips_of_a_digit() -> None:
    assert set(slips("79")) == {"19", "29", "39", "49", "59", "69", "89", "99", *(f"7{n}" for n in range(7))}


def test_a_slip_is_no_rounding_and_no_other_length() -> None:
    assert "06" not in set(slips("16"))
    assert {"0.16", "0.86"} <= set(slips("0.56"))
    assert set(slips("42.12%")).isdisjoint({"42.10%", "42.11%", "42.13%", "42.14%", "42.1%", "02.12%"})
    assert "42.15%" in set(slips("42.12%"))


@given(st.decimals(min_value=Decimal("1e-6"), max_value=Decimal("1e15"), places=6), st.integers(-6, 3))
def test_a_value_is_a_rounding_of_itself(value: Decimal, exponent: int) -> None:
    exact, unit = Fraction(value), Fraction(10) ** exponent
    number = read_written(spelt(exact, unit))
    assert number is not None
    assert abs(number.value - exact) * 2 <= max(unit, Fraction(1, 10**6)) or number.is_rounding_of(exact)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    number = read_written(text)
    assert number is None or number.unit > 0
