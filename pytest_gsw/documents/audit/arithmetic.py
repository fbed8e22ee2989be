"""Arithmetic in prose: ``8192 * 252 / 12.84 = 160778`` is found, computed exactly, and compared digit for digit.

The text is anybody's: nothing of it is run. A line is cut into numbers, operators and everything else; what stands on
the left of an equals sign is parsed by the grammar below, with bounds on length, depth and size.

::

    sum     = product (("+" | "-") product)*
    product = factor (("*" | "/") factor)*
    factor  = ("-" | "+") factor | power
    power   = atom ("^" factor)?
    atom    = number | "(" sum ")"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pytest_gsw.documents.audit.written import Written, read_written

#: No line of prose that says anything is longer; what is, is data.
LONGEST_LINE = 2_000
#: The longest expressions of the documents have about forty parts.
_MOST_TOKENS = 200
_DEEPEST = 20
#: Bits of numerator and denominator: powers of powers grow without end.
_MOST_BITS = 8_000
#: Brackets that were never closed are closed at the end; more of them are no slip.
_MOST_UNCLOSED = 3

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<number>
        (?<![\w.$])
        (?:
            \d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?(?![\w,])
            | (?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?(?!\w)
        )
        (?!\.\d)
      )
    | (?P<equals>(?<![=<>!~:+*/-])=(?![=~>]))
    | (?P<operator>\*\*|[*/^+()\u00d7\u00b7-])
    | (?P<word>[\w$]+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SAME = {"**": "^", "\u00d7": "*", "\u00b7": "*", "x": "*", "X": "*"}
#: What makes a result another multiple than the digits say: 22 TFLOPS, 0.34TB, 5 ms.
_PREFIXED = re.compile(
    r"\s{0,2}(?:[kKMGTPE]i?(?:B|FLOPS?|FLOP/s|b|bytes)\b|ms\b|us\b|[KMGT]\b|billion|million|thousand)"
)


@dataclass(frozen=True)
class Token:
    """A number, an operator, an equals sign, or anything else; and where it stands."""

    kind: str
    text: str
    start: int
    end: int


#: What stands before and behind all tokens.
_NOTHING = Token("", "", 0, 0)


@dataclass(frozen=True)
class Equation:
    """An expression and the number that a text says it is."""

    #: The expression as written.
    text: str
    tokens: tuple[Token, ...]
    value: Fraction
    result: Written
    #: Where the result begins in the text.
    result_start: int

    @property
    def is_percent(self) -> bool:
        """Whether the result is a percentage."""
        return self.result.text.endswith("%")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of the expression as written, in order."""
        return tuple(token.text for token in self.tokens if token.kind == "number")

    @property
    def claimed(self) -> Fraction:
        """The value in the result's unit: a percentage's own number."""
        return self.value * 100 if self.is_percent else self.value

    def with_number(self, index: int, number: str) -> Fraction | None:
        """The value, in the result's unit, with another number in place of one of :attr:`numbers`."""
        place = [n for n, token in enumerate(self.tokens) if token.kind == "number"][index]
        other = replace(self.tokens[place], text=number)
        value = evaluate((*self.tokens[:place], other, *self.tokens[place + 1 :]))
        return None if value is None else value * (100 if self.is_percent else 1)


def tokens_of(text: str) -> tuple[Token, ...]:
    """A text cut into tokens, without the space between them."""
    found = []
    for match in _TOKEN.finditer(text[:LONGEST_LINE]):
        kind = "operator" if match[0] in {"x", "X"} else str(match.lastgroup)
        word = _SAME.get(match[0], match[0]) if kind == "operator" else match[0]
        if kind != "space":
            found.append(Token(kind, word, match.start(), match.end()))
    return tuple(found)


def equations(text: str) -> Iterator[Equation]:
    """Every equation of a text whose left side is arithmetic and whose right side is a number."""
    if "=" not in text:
        return
    tokens = tokens_of(text)
    for place, token in enumerate(tokens):
        result = _result(tokens[place + 1 : place + 4], text) if token.kind == "equals" else None
        left = _left(tokens[:place], text) if result is not None else ()
        value = evaluate(left)
        if result is not None and value is not None:
            expression = text[left[0].start : token.start].strip()
            yield Equation(expression, left, value, result, tokens[place + 1].start)


def _result(tokens: Sequence[Token], text: str) -> Written | None:
    """The number behind an equals sign, and its percent sign; ``None`` where it goes on as an expression."""
    number, following, last = (*tokens[:3], _NOTHING, _NOTHING, _NOTHING)[:3]
    if number.kind != "number" or _PREFIXED.match(text, number.end):
        return None
    # A bracket or a dash behind a result belongs to the sentence.
    of_sentence = following.text in {"(", ")"} or (following.text == "-" and last.kind != "number")
    if following.kind == "operator" and not of_sentence:
        return None
    return read_written(number.text + ("%" if following.text == "%" else ""))


def _left(tokens: Sequence[Token], text: str) -> tuple[Token, ...]:
    """The whole expression at the end of some tokens; empty where a name or a call is part of it."""
    start = len(tokens)
    while start > 0 and tokens[start - 1].kind in {"number", "operator"}:
        start -= 1
    before = tokens[start - 1] if start > 0 else _NOTHING
    run = _without_lead(_multiplied(tokens[start:]), before, text)
    if run and run[0].text == "(" and before.kind == "word" and before.end == run[0].start:
        return ()  # a call
    if before.kind == "equals" and len(run) == 1 and run[0].kind == "number":
        return tuple(run)
    if len(run) > _MOST_TOKENS or not any(token.text in {"*", "/", "^", "+"} for token in run):
        return ()
    unclosed = sum({"(": 1, ")": -1}.get(token.text, 0) for token in run)
    closing = Token("operator", ")", run[-1].end, run[-1].end)
    return (*run, *[closing] * unclosed) if 0 < unclosed <= _MOST_UNCLOSED else tuple(run)


def _multiplied(run: Sequence[Token]) -> list[Token]:
    """The tokens with a sign where a bracket right behind a number means a product: ``2/3(a + b)``."""
    found: list[Token] = []
    for token in run:
        last = found[-1] if found else _NOTHING
        if token.text == "(" and last.kind == "number" and last.end == token.start:
            found.append(Token("operator", "*", token.start, token.start))
        found.append(token)
    return found


def _without_lead(run: Sequence[Token], before: Token, text: str) -> Sequence[Token]:
    """The tokens from where the expression begins: behind a bullet, or behind a number that is none of it."""
    if before is _NOTHING and run and run[0].text in {"*", "-", "+"} and text[: run[0].start].strip() == "":
        run = run[1:]  # a bullet
    for place in range(len(run) - 1, 0, -1):
        if run[place - 1].kind == "number" and (run[place].kind == "number" or run[place].text == "("):
            return run[place:]  # "on 64 GPUs" has a word between; "step 5 3 * 4" has not
    named = before is not _NOTHING and before.kind != "equals"
    return [] if named and run and run[0].text in {"*", "/", "^", "+", "-", ")"} else run


def evaluate(tokens: Sequence[Token]) -> Fraction | None:
    """The value of an expression, exact; ``None`` where it is none, or more than can be wanted."""
    if not tokens or len(tokens) > _MOST_TOKENS + _MOST_UNCLOSED:
        return None
    try:
        parser = _Parser(tokens)
        value = parser.sum(0)
    except (_NotArithmeticError, ZeroDivisionError):
        return None
    return value if parser.at == len(tokens) else None


def evaluate_text(text: str, names: Mapping[str, str] | None = None) -> Fraction | None:
    """The value of a text that is an expression and nothing else, of ``names`` (``$ms``) that stand for numbers."""
    numbers = names or {}
    return evaluate(
        [
            replace(token, kind="number", text=numbers[token.text])
            if token.kind == "word" and token.text in numbers
            else token
            for token in tokens_of(text)
        ]
    )


class _NotArithmeticError(Exception):
    """The tokens are no expression, or one that is too large."""


_OPERATIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
#: How tightly each of them binds.
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}


class _Parser:
    """A parser by recursive descent; each method takes its part from the tokens and returns its value."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.at = 0

    def sum(self, depth: int, weakest: int = 1) -> Fraction:
        """A sum, or a product in it; ``depth`` is how many brackets and signs it stands in."""
        value = self._factor(depth)
        while (binds := _BINDS.get(self._peek(), 0)) >= weakest:
            operate = _OPERATIONS[self._take()]
            value = _bounded(operate(value, self.sum(depth, binds + 1)))
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > _DEEPEST:
            raise _NotArithmeticError
        if self._peek() in {"-", "+"}:
            sign = self._take()
            value = self._factor(depth + 1)
            return -value if sign == "-" else value
        value = self._atom(depth)
        if self._peek() == "^":
            self._take()
            return _power(value, self._factor(depth + 1))
        return value

    def _atom(self, depth: int) -> Fraction:
        if self._peek() == "(":
            self._take()
            value = self.sum(depth + 1)
            if self._peek() != ")":
                raise _NotArithmeticError
            self._take()
            return value
        if self.at < len(self._tokens) and self._tokens[self.at].kind == "number":
            number = read_written(self._take())
            if number is not None:
                return number.value
        raise _NotArithmeticError

    def _peek(self) -> str:
        if self.at >= len(self._tokens) or self._tokens[self.at].kind == "number":
            return ""
        return self._tokens[self.at].text

    def _take(self) -> str:
        self.at += 1
        return self._tokens[self.at - 1].text


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > _MOST_BITS:
        raise _NotArithmeticError
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(int(exponent)) > _MOST_BITS:
        raise _NotArithmeticError
    return base ** int(exponent)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise _NotArithmeticError
    return value
