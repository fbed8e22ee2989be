"""Equations of a text: each by itself, and days with the throughput that they are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.document import Document, Statement
from pytest_gsw.documents.audit.figures import TRILLION, Row
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.spots import Place
from pytest_gsw.documents.audit.written import Written, decimal, read_written, scientific, slips, spelt, swapped
from pytest_gsw.performance.figures import SECONDS_PER_DAY
from pytest_gsw.performance.peaks import PEAKS

#: Equations that slips are looked for in: each takes thousands of computations.
_MOST_EXPLAINED = 50
_MOST_NUMBERS = 12
#: What a result with a dozen digits may be off by, where whatever computed it had seven.
_CALCULATOR = Fraction(1, 10**7)


def equations(place: Place, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Each equation computed again."""
    explained = 0
    for statement in document.statements:
        finding = _equation(place, statement, rows, explained=explained < _MOST_EXPLAINED)
        explained += finding is not None
        yield finding


def _equation(place: Place, statement: Statement, rows: Sequence[Row], *, explained: bool) -> Finding | None:
    equation, written = statement.equation, statement.equation.result
    value = equation.claimed
    if written.is_rounding_of(value):
        return None
    off = abs(written.value - value)
    close = off < written.unit or off < abs(value) * _CALCULATOR
    if written.is_cut_of(value):
        more = spelt(value, written.unit / 100, written.text)
        explanations = [Explanation(Kind.CUT, f"{more} was cut, not rounded")]
    elif off < written.unit:
        explanations = [Explanation(Kind.LAST_DIGIT, explain.LESS_THAN_A_UNIT)]
    elif close:
        explanations = [Explanation(Kind.LAST_DIGIT, "right to seven digits, as single precision has them")]
    else:
        explanations = list(_equation_slips(statement, rows)) if explained else []
    return place.finding(
        statement.line,
        statement.column,
        written.text,
        written.written_like_this(value),
        equation.text,
        *(explanations or [Explanation(Kind.UNKNOWN, explain.NOTHING)]),
        severity=Severity.ROUNDING if close else Severity.CONTRADICTION,
    )


def _equation_slips(statement: Statement, rows: Sequence[Row]) -> Iterator[Explanation]:
    """What one change to an equation makes it right, the likeliest first."""
    equation, written = statement.equation, statement.equation.result
    numbers = list(enumerate(equation.numbers))[:_MOST_NUMBERS]

    def fits(index: int, text: str) -> bool:
        value = equation.with_number(index, text)
        return value is not None and written.is_rounding_of(value)

    for index, number in numbers:
        for text in swapped(number):
            if fits(index, text):
                yield Explanation(Kind.DIGITS_SWAPPED, f"{text} gives it: two digits of {number} are swapped")
                return
    exact = {flops for row in rows if (flops := row.computed_flops) is not None}
    for index, number in numbers:
        given = read_written(number)
        for flops in sorted(exact):
            if given is None or given.value == flops or not given.states(flops):
                continue
            if fits(index, f"{decimal(flops):.9e}"):
                text = f"{scientific(flops)} gives it: model FLOPs before they were rounded to {number}"
                yield Explanation(Kind.FORMULA, text)
                return
    peaks = {key: Fraction(peak.flops) for key, peak in PEAKS.items()}
    for index, number in numbers:
        given = read_written(number)
        if given is None or given.value not in peaks.values():
            continue
        for (accelerator, dtype), flops in peaks.items():
            if flops != given.value and fits(index, f"{decimal(flops):.9e}"):
                text = f"{scientific(flops)} FLOP/s, the peak of {accelerator} {dtype.upper()}, gives it"
                yield Explanation(Kind.WRONG_PEAK, text)
                return
    alone = explain.value(written, equation.claimed)
    if alone is not None:
        yield alone
        return
    for index, number in numbers:
        for text in slips(number):
            if fits(index, text):
                yield Explanation(Kind.TYPO, f"{text} gives it: one digit of {number} is wrong")
                return


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


def chains(place: Place, document: Document) -> Iterator[Finding | None]:
    """Days are computed from the throughput of the example before."""
    tokens: Written | None = None
    for statement in document.statements:
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
        column = statement.column - (statement.equation.result_start - token.start)
        yield place.finding(
            statement.line,
            max(1, column),
            f"{rate.text} tokens/s",
            f"{tokens.text} tokens/s",
            "the throughput of the example before",
            explain.value(rate, tokens.value) or Explanation(Kind.ANOTHER_RUN, "the examples are of two runs"),
        )
