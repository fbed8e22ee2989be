"""Equations of a text: each by itself, and days with the throughput that they are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.arithmetic import Equation
from pytest_gsw.documents.audit.figures import TRILLION, Row
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.text import Statement, Text
from pytest_gsw.documents.audit.written import Written, decimal, read_written, scientific, slips, spelt, swapped
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.peaks import PEAKS

#: Equations that slips are looked for in: each takes thousands of computations.
_MOST_EXPLAINED = 50
_MOST_NUMBERS = 12
#: What a result with a dozen digits may be off by, where whatever computed it had seven.
_CALCULATOR = Fraction(1, 10**7)


def equations(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Each equation computed again."""
    explained = 0
    for statement in text.statements:
        finding = _equation(text, statement, rows, explained=explained < _MOST_EXPLAINED)
        explained += finding is not None
        yield finding


def _equation(text: Text, statement: Statement, rows: Sequence[Row], *, explained: bool) -> Finding | None:
    equation, written = statement.equation, statement.equation.result
    value = equation.claimed
    if written.is_rounding_of(value):
        return None
    off = abs(written.value - value)
    close = off < written.unit or off < abs(value) * _CALCULATOR
    if written.is_cut_of(value):
        why = explain.cut(spelt(value, written.unit / 100, written.text))
    elif off < written.unit:
        why = explain.LAST_DIGIT
    elif close:
        why = Explanation(Kind.LAST_DIGIT, "right to seven digits, as single precision has them")
    else:
        why = next(_slips(equation, rows), explain.UNKNOWN) if explained else explain.UNKNOWN
    return text.finding(
        statement.line,
        statement.column,
        written.text,
        written.written_like_this(value),
        equation.text,
        why,
        severity=Severity.ROUNDING if close else Severity.by_size(written.value, value),
    )


def _slips(equation: Equation, rows: Sequence[Row]) -> Iterator[Explanation]:
    """What one change to an equation makes it right, the likeliest first."""
    written = equation.result
    numbers = [
        (number, partial(_fits, equation, index)) for index, number in enumerate(equation.numbers[:_MOST_NUMBERS])
    ]
    for number, fits in numbers:
        yield from (explain.swap(text, number) for text in swapped(number) if fits(text))
    exact = sorted({flops for row in rows if (flops := row.computed_flops) is not None})
    for number, fits in numbers:
        given = read_written(number)
        for flops in exact:
            if given is not None and given.value != flops and given.states(flops) and fits(f"{decimal(flops):.9e}"):
                text = f"{scientific(flops)} gives it: model FLOPs before they were rounded to {number}"
                yield Explanation(Kind.FORMULA, text)
    peaks = {key: Fraction(peak.flops) for key, peak in PEAKS.items()}
    for number, fits in numbers:
        given = read_written(number)
        for key, flops in peaks.items() if given is not None and given.value in peaks.values() else ():
            if given is not None and flops != given.value and fits(f"{decimal(flops):.9e}"):
                text = f"{scientific(flops)} FLOP/s, {explain.peak_words(*key)}, gives it"
                yield Explanation(Kind.WRONG_PEAK, text)
    alone = explain.value(written, equation.claimed)
    if alone is not None:
        yield alone
    for number, fits in numbers:
        yield from (explain.typo(text, number) for text in slips(number) if fits(text))


def _fits(equation: Equation, index: int, number: str) -> bool:
    """Whether another number in place of one of the equation's makes it right."""
    value = equation.with_number(index, number)
    return value is not None and equation.result.is_rounding_of(value)


def _shape(statement: Statement) -> str:
    """The operators of an equation: ``*/`` is that of tokens per second, ``//`` that of days."""
    return "".join(token.text for token in statement.equation.tokens if token.kind != "number")


def tokens_equation(statement: Statement) -> tuple[Written, Written, Written] | None:
    """Sequence length, batch and step time of an equation of tokens per second, ``None`` where it is none."""
    if _shape(statement) != "*/" or statement.equation.is_percent or statement.equation.result.value < 100:
        return None
    sequence, batch, seconds = (read_written(number) for number in statement.equation.numbers)
    if sequence is None or batch is None or seconds is None or sequence.unit != 1 or batch.unit != 1:
        return None
    return sequence, batch, seconds


def chains(text: Text) -> Iterator[Finding | None]:
    """Days are computed from the throughput of the example before."""
    tokens: Written | None = None
    for statement in text.statements:
        if tokens_equation(statement) is not None:
            tokens = statement.equation.result
        numbers = [read_written(number) for number in statement.equation.numbers]
        if _shape(statement) != "//" or tokens is None or None in numbers:
            continue
        total, rate, day = (number for number in numbers if number is not None)
        if total.value != TRILLION or day.value != SECONDS_PER_DAY:
            continue
        if tokens.states(rate.value) or rate.states(tokens.value):
            yield None
            continue
        token = next(token for token in statement.equation.tokens if token.text == rate.text)
        yield text.finding(
            statement.line,
            statement.column_of(token),
            f"{rate.text} tokens/s",
            f"{tokens.text} tokens/s",
            "the throughput of the example before",
            explain.value(rate, tokens.value) or Explanation(Kind.ANOTHER_RUN, "the examples are of two runs"),
            severity=Severity.by_size(rate.value, tokens.value),
        )
