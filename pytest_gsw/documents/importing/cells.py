"""What one cell says: a number with its unit, nothing, or something that cannot be read as either."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pytest_gsw.tables.metrics import DAYS_TO_TRAIN, SAMPLES_PER_S, TFLOPS_PER_GPU, TOKENS_PER_S, TOKENS_PER_S_PER_GPU

#: What documents write where there is no figure.
_NOTHING = frozenset(
    {"", "-", "--", "---", "\u2013", "\u2014", "na", "n/a", "n.a.", "none", "null", "tbd", "?", "x", "\u2026", "..."}
)
_OUT_OF_MEMORY = frozenset({"oom", "out of memory", "cuda oom", "oom error"})

#: A plain number, with or without separators between thousands and an exponent.
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?"
_NUMBER = re.compile(
    rf"(?P<number>{_DIGITS})"
    r"(?:[ ]?(?P<unit>%|[A-Za-zµ][A-Za-z/]{0,20}))?"
    rf"(?:[ ]?\(?(?:±|\+/-|\+-)[ ]?(?P<spread>{_DIGITS})[ ]?(?:%|[A-Za-z]{{1,8}})?\)?)?"
    r"(?P<mark>[ ]?(?:\*{1,3}|†|‡|\[\d{1,2}\]|[¹²³⁴]))?",
    re.ASCII,
)
_SPLIT_DIGITS = re.compile(r"[0-9][0-9.]*(?:[ ]+[0-9][0-9.]*)+")


@dataclass(frozen=True)
class Number:
    """A number as a document writes it."""

    #: The digits, without separators between thousands and without the unit: ``1234.50``.
    digits: str
    #: ``%``, ``s``, ``ms``, ``B`` … as written, or nothing.
    unit: str = ""
    #: A footnote mark behind it, or nothing.
    mark: str = ""

    @property
    def value(self) -> Decimal:
        """The number itself."""
        return Decimal(self.digits)


@dataclass(frozen=True)
class Unreadable:
    """A cell that holds something, and not what its row or column is about."""

    text: str


def is_nothing(text: str) -> bool:
    """Whether a cell says that there is no figure: it is empty, or ``NA``, ``n/a``, ``-`` and the like."""
    return text.strip().lower() in _NOTHING


def is_out_of_memory(text: str) -> bool:
    """Whether a cell says that the run went out of memory."""
    return text.strip().lower().rstrip(".!") in _OUT_OF_MEMORY


def read_number(text: str) -> Number | Unreadable | None:
    """The number in a cell; ``None`` where it says that there is none."""
    text = text.strip()
    if is_nothing(text):
        return None
    match = _NUMBER.fullmatch(text)
    if match is None or not Decimal(match["number"].replace(",", "")).is_finite():
        return Unreadable(text)
    return Number(match["number"].replace(",", ""), match["unit"] or "", (match["mark"] or "").strip())


def joined_digits(text: str) -> str | None:
    """The number that a cell holds once the blanks inside of it are taken out: ``8.75`` of ``8.7  5``.

    That is a guess until something proves it; ``None`` where a cell is not of that kind.
    """
    text = text.strip()
    if _SPLIT_DIGITS.fullmatch(text) is None:
        return None
    number = read_number(re.sub(r"[ ]+", "", text))
    return number.digits if isinstance(number, Number) else None


#: Units of figures that are no times, as cells write them.
UNITS: Mapping[str, Collection[str]] = {
    DAYS_TO_TRAIN.key: ("d", "day", "days"),
    TOKENS_PER_S.key: ("tok/s", "tokens/s"),
    TOKENS_PER_S_PER_GPU: ("tok/s", "tokens/s", "tok/s/gpu", "tokens/s/gpu"),
    SAMPLES_PER_S.key: ("samples/s", "it/s"),
    TFLOPS_PER_GPU.key: ("tflops", "tflop/s", "tflop/s/gpu", "tf"),
}
#: Powers of ten to seconds.
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "s/step", "s/it", "s/iter"), 0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds", "ms/step", "ms/it"), -3),
    **dict.fromkeys(("us", "usec", "µs", "microseconds"), -6),
}


def to_seconds(number: Number, unit: str) -> str | None:
    """A time's digits in seconds, none of them lost (``17.96068`` of 17960.68 ms); ``None`` where that is no time.

    Its own unit counts, else the one that its row or column says, else it is in seconds.
    """
    power = _SECONDS.get(number.unit.lower() or unit.lower() or "s")
    if power is None:
        return None
    return number.digits if power == 0 else f"{number.value.scaleb(power):f}"
