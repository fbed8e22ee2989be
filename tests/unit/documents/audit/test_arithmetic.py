"""Arithmetic in prose: what is found, what it is worth, and that hostile text does no harm."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.documents.audit.arithmetic import LONGEST_LINE, equations, evaluate_text, tokens_of
from tests.endless import it_ends


@pytest.mark.parametrize(
    ("line", "expression", "result", "right"),
    [
        ("E.g. 8192 * 252 / 12.84 = 160778", "8192 * 252 / 12.84", "160778", True),
        ("E.g. 1e12 / 160778 / 86400 = 71.99 days", "1e12 / 160778 / 86400", "71.99", True),
        (
            "MFU = 256 * 2.20E+15 / 7.47 / 128 / 1979E+12 = 29.76% ",
            "256 * 2.20E+15 / 7.47 / 128 / 1979E+12",
            "29.76%",
            True,
        ),
        ("`NUM_NODES` should be `128 / 8 = 16`.", "128 / 8", "16", True),
        ("Since PP*TP=8*4=32, so since", "8*4", "32", True),
        ("E.g., 8 * 8 * 2 = 128 (in the example above)", "8 * 8 * 2", "128", True),
        ("* 3 * 4 = 12 - a bullet", "3 * 4", "12", True),
        (
            "x = 12 * 126 * 16384^2 * (1 + 16/128 + 8192/16384) = 659,545,915,392",
            "12 * 126 * 16384^2 * (1 + 16/128 + 8192/16384)",
            "659,545,915,392",
            True,
        ),
        ("model flops = 8129 * (1 + 2) = 2.17E4", "8129 * (1 + 2)", "2.17E4", False),
        ("a 12 * 3 * (202048 / (2 * 48 * 5120) = 14.798", "12 * 3 * (202048 / (2 * 48 * 5120)", "14.798", True),
        ("flops = 2/3(6 + 3.0) = 6", "2/3(6 + 3.0)", "6", True),
        ("2 (6 + 3) * 2 = 18", "(6 + 3) * 2", "18", True),
        ("2 x 3 = 6", "2 x 3", "6", True),
        ("2 \u00d7 3 = 6", "2 \u00d7 3", "6", True),
        ("2**10 = 1024", "2**10", "1024", True),
    ],
)
def test_an_equation(line: str, expression: str, result: str, right: bool) -> None:
    (equation,) = equations(line)
    assert (equation.text, equation.result.text) == (expression, result)
    assert equation.result.is_rounding_of(equation.claimed) is right
    assert line[equation.result_start :].startswith(result.rstrip("%"))


def test_a_chain_of_equations() -> None:
    line = "100 + 20 + 3.5 = 123.5  = 1.2e2"
    assert [(one.text, one.result.text) for one in equations(line)] == [("100 + 20 + 3.5", "123.5"), ("123.5", "1.2e2")]


@pytest.mark.parametrize(
    "line",
    [
        "(sequence length) * (global batch size) / (training_step_timing) = (throughput in tokens per second)",
        "training step time = 7.47 s",
        "<number of total gpus> * 252 / 576 = 3",
        "N_GPUS / 8 = 16",
        "sqrt(2) * 3 = 4",
        "--gres=gpu:8 --time=6:00:00",
        "TP=4, DP=2, PP=8, gas=256, mbs=2,3",
        "2024-12-09 = 3",
        "a = 12 * 4 = 3 * 16",
        "5 * 4 = 24 - 4",
        "5 * 4 == 20",
        "1.2.3 * 4 = 5",
        "128x H100 = 3",
        "0.34 * 1000 = 340TB",
        "1.4 * 256 = 0.36TB",
        "3 * 4 = 12GB",
        "1 / 0 = 5",
        "3 * = 5",
        ") * 3 = 5",
        "2 ^ 0.5 = 1.41",
    ],
)
def test_what_is_no_equation(line: str) -> None:
    assert list(equations(line)) == []


def test_another_number_in_place_of_one() -> None:
    (equation,) = equations("8129 * (1 + 2) = 24576")
    assert equation.numbers == ("8129", "1", "2")
    assert equation.with_number(0, "8192") == 24576
    (percent,) = equations("1 / 4 = 25%")
    assert percent.with_number(1, "5") == 20


def test_names_stand_for_numbers() -> None:
    names = {"$ms": "52", "$gbs": "512", "$sp": "139.52", "$ng": "64"}
    value = evaluate_text("$ms*4*2*1024*$gbs / ( $sp * $ng * 1e3)", names)
    assert value is not None
    assert float(value) == pytest.approx(24.4257, abs=5e-5)
    assert evaluate_text("$ms * $other", names) is None


expressions = st.recursive(
    st.integers(0, 10**6).map(str) | st.decimals(0, 10**4, places=3).map(str),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=12,
)


@given(expressions)
def test_the_evaluator_agrees_with_python(expression: str) -> None:
    exact = "".join(f"F('{t.text}')" if t.kind == "number" else t.text for t in tokens_of(expression))
    try:
        expected = eval(exact, {"F": Fraction})  # noqa: S307 - the expression is this test's own
    except ZeroDivisionError:
        expected = None
    assert evaluate_text(expression) == expected


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", 14),
        ("2 * 3 ^ 2", 18),
        ("-2 ^ 2", -4),
        ("2 ^ 3 ^ 2", 512),
        ("12 / 4 / 3", 1),
        ("2 - 3 - 4", -5),
        ("2 ^ -1", Fraction(1, 2)),
    ],
)
def test_precedence(expression: str, value: Fraction) -> None:
    assert evaluate_text(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "9^9^9^9^9^9",
        "10^1000000",
        "1e999^8000",
        "(" * 500 + "1" + ")" * 500,
        "-" * 500 + "1",
        "1" + "+1" * 5000,
        "((((9^99)^99)^99)^99)",
        "9" * 1500,
    ],
)
def test_what_is_too_large_is_no_arithmetic(expression: str) -> None:
    with it_ends():
        assert evaluate_text(expression) is None


@pytest.mark.parametrize(
    "line",
    [
        "1*" * 50_000 + "=",
        "=" * 50_000,
        "1," * 50_000 + "=1",
        "(" * 50_000 + "=1",
        "1 = " * 20_000,
        "a" * 100_000 + "=1",
        "1e" * 50_000,
    ],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    with it_ends():
        list(equations(line[:LONGEST_LINE]))
        list(equations(line))


@given(st.text(alphabet="0123456789.,eE+-*/^()= xX%$a\u00d7", max_size=120))
def test_any_text_has_equations_or_none(text: str) -> None:
    for equation in equations(text):
        assert equation.result.unit > 0
        assert 0 <= equation.result_start < len(text)
