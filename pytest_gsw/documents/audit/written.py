"""Numbers as they are written: which values their digits stand for, and which slips of a digit there are.

``24.7`` stands for every value from 24.65 to 24.75 if it was rounded, and from 24.7 to 24.8 if it was cut.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache

#: A number has no more characters; what has is no figure.
_LONGEST = 60

#: Powers of ten that a figure may have; more is no figure, and takes time.
_LARGEST = 300

#: Units of the last digit that computing in another order may make.
_ROUNDED_OTHERWISE = 2

_NUMBER = re.compile(
    r"(?P<digits>\d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?|\d{1,40}(?:\.\d{0,30})?|\.\d{1,30})(?P<exponent>[eE][+-]?\d{1,3})?"
    r"\s{0,3}(?P<unit>%|s|sec|seconds|d|days)?",
)


@dataclass(frozen=True)
class Span:
    """A closed interval of values."""

    low: Fraction
    high: Fraction

    def __contains__(self, value: Fraction) -> bool:
        return self.low <= value <= self.high

    def overlap(self, other: Span) -> Span | None:
        """What both have in common, ``None`` where that is nothing."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Span(low, high) if low <= high else None


@dataclass(frozen=True)
class Written:
    """A number, and the value of a one in its last digit."""

    text: str
    value: Fraction
    unit: Fraction

    @property
    def rounded(self) -> Span:
        """The values that these digits stand for if they were rounded."""
        return Span(self.value - self.unit / 2, self.value + self.unit / 2)

    @property
    def cut(self) -> Span:
        """The values that these digits stand for if they were cut, or rounded down."""
        return Span(self.value, self.value + self.unit)

    @property
    def either(self) -> Span:
        """The values that these digits stand for, however they were made."""
        return Span(self.value - self.unit / 2, self.value + self.unit)

    def is_rounding_of(self, value: Fraction) -> bool:
        """Whether this is how the value is written with so many digits."""
        return abs(value - self.value) * 2 <= self.unit

    def is_cut_of(self, value: Fraction) -> bool:
        """Whether the value begins with these digits."""
        return self.value <= value < self.value + self.unit

    def states(self, value: Fraction) -> bool:
        """Whether the value is written so, rounded or cut."""
        return self.is_rounding_of(value) or self.is_cut_of(value)

    def written_like_this(self, value: Fraction) -> str:
        """A value with as many digits, and in the same form: percent, exponent, thousands."""
        return spelt(value, self.unit, self.text)


@lru_cache(maxsize=4096)
def read_written(text: str) -> Written | None:
    """The number of a cell or of a YAML scalar, ``None`` where it is none.

    Thousands may have commas; digits that were torn apart (``8.7  5``) belong together; ``%``, seconds and
    days may follow and do not change the value.
    """
    if len(text) > _LONGEST:
        return None
    joined = re.sub(r"(?<=[\d.])\s{1,4}(?=\d)", "", text.strip())
    match = _NUMBER.fullmatch(joined)
    if match is None:
        return None
    number = Decimal(match["digits"].replace(",", "") + (match["exponent"] or ""))
    if abs(number.adjusted()) > _LARGEST:
        return None
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # the pattern has neither NaN nor infinity
    return Written(text.strip(), Fraction(number), power_of_ten(exponent))


def power_of_ten(exponent: int) -> Fraction:
    """Ten to a whole power, which may be negative."""
    return Fraction(10) ** exponent


def decimal(value: Fraction) -> Decimal:
    """A fraction as a decimal number, to 28 digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(value: Fraction, unit: Fraction) -> Fraction:
    """A value rounded (half up) to a multiple of a unit."""
    return Fraction(decimal(value / unit).to_integral_value(ROUND_HALF_UP)) * unit


def spelt(value: Fraction, unit: Fraction, like: str = "") -> str:
    """A value to a unit, in the form of another number: percent, exponent, thousands."""
    percent, thousands = "%" if like.rstrip().endswith("%") else "", "," if "," in like else ""
    if re.search(r"\d[eE]", like):
        places = max(0, _magnitude(value) - _magnitude(unit))
        sign = "+" if re.search(r"[eE]\+", like) else ""
        mantissa, _, power = f"{decimal(value):.{places}e}".partition("e")
        return f"{mantissa}{'E' if 'E' in like else 'e'}{sign if int(power) >= 0 else ''}{int(power)}"
    if unit >= 1:
        return f"{int(_rounded(value, unit)):{thousands}}{percent}"
    return f"{decimal(_rounded(value, unit)):{thousands}.{-_magnitude(unit)}f}{percent}"


def short(value: Fraction, inside: Span, fewest: int = 0) -> str:
    """A value with the fewest decimals that keep it inside of a span; its end, where digits are cut, is none of it."""
    for places in range(fewest, 13):
        shortened = _rounded(value, power_of_ten(-places))
        if inside.low <= shortened < inside.high:
            return f"{decimal(shortened):.{places}f}"
    return f"{decimal(value):.12g}"


def about(value: Fraction, digits: int = 6) -> str:
    """A value with so many digits at most, however large it is: ``139.72``, ``1.82e15``."""
    number = decimal(value)
    shortened = Decimal(f"{number:.{digits - 1}e}").normalize()
    if -5 <= shortened.adjusted() <= digits:
        return f"{shortened:f}"
    return f"{shortened:e}".replace("e+", "e")


def scientific(value: Fraction) -> str:
    """A number of FLOPs or FLOP/s with five digits: ``9.895e14``."""
    return about(value, 5)


def share(value: Fraction) -> str:
    """A fraction in whole percent."""
    return f"{decimal(value):.0%}"


def decimals(written: Written) -> int:
    """How many digits a number has behind the point."""
    return max(0, -_magnitude(written.unit))


def _magnitude(value: Fraction) -> int:
    """The power of ten of the first digit."""
    return decimal(abs(value)).adjusted() if value else 0


def _places(text: str) -> list[int]:
    return [n for n, letter in enumerate(text) if letter.isdigit()]


def swapped(text: str) -> Iterator[str]:
    """The number with two neighbouring digits swapped, each way that makes another number."""
    for a, b in itertools.pairwise(_places(text)):
        if text[a] != text[b]:
            yield f"{text[:a]}{text[b]}{text[a + 1 : b]}{text[a]}{text[b + 1 :]}"


def slips(text: str) -> Iterator[str]:
    """The number with one digit replaced, each way that may be a slip of the hand.

    A last digit that is one or two off is of another rounding, and no number begins with a zero that it had not.
    """
    places = _places(text)
    for place in places:
        for digit in "0123456789":
            near = place == places[-1] and abs(int(digit) - int(text[place])) <= _ROUNDED_OTHERWISE
            leading = place == places[0] and digit == "0"
            if digit != text[place] and not near and not leading:
                yield f"{text[:place]}{digit}{text[place + 1 :]}"
