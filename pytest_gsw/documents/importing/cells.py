"""What one cell says: a number with its unit, nothing, or something that cannot be read as either."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pytest_gsw.tables.metrics import DAYS_TO_TRAIN, SAMPLES_PER_S, TFLOPS_PER_GPU, TOKENS_PER_S, TOKENS_PER_S_PER_GPU
from pytest_gsw.tables.statistic import parse_statistic

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
    r"(?P<mark>[ ]?(?:\*{1,3}|†|‡|\[\d{1,2}\]|\[\^[A-Za-z0-9_-]{1,40}\]|[¹²³⁴]))?",
    re.ASCII,
)
#: Blanks that may stand in a number, those that typesetters put between thousands among them.
_SPACE = "[ \u00a0\u2009\u202f]"
_SPLIT_DIGITS = re.compile(rf"[0-9][0-9.]*(?:{_SPACE}+[0-9][0-9.]*)+")
#: ``8,309`` is a thousand times 8.309, and which of the two is meant depends on who wrote it.
_EITHER_COMMA = re.compile(r"[1-9]\d{0,2},\d{3}(?![\d.,])", re.ASCII)
#: A number as it is written where a comma stands before the decimals: ``4,5``, ``1.234,5``, ``117.965``.
_DECIMAL_COMMA = re.compile(
    r"(?P<whole>\d{1,3}(?:\.\d{3})+|\d{1,9})(?:,(?P<decimals>\d{1,12}))?(?P<rest>[ ]?\D{0,20})", re.ASCII
)
#: ``37556 (36108)``, ``37556 / 36108``: two figures in one cell.
_TWO_FIGURES = re.compile(
    rf"(?P<a>{_DIGITS}%?)[ ]*(?:\([ ]*(?P<b>{_DIGITS}%?)[ ]*\)|/[ ]*(?P<c>{_DIGITS}%?))", re.ASCII
)


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


def is_either_comma(text: str) -> bool:
    """Whether a comma may stand between thousands, or before decimals, and nothing in the cell says which."""
    return _EITHER_COMMA.match(text.strip()) is not None


def two_figures(text: str) -> tuple[str, str] | None:
    """The two figures of a cell such as ``37556 (36108)``, as two cells would have them."""
    match = _TWO_FIGURES.fullmatch(text.strip())
    return None if match is None else (match["a"], match["b"] or match["c"])


def other_readings(text: str) -> tuple[str, ...]:
    """What else a cell may say, as cells that can be read: each is a guess until something proves it.

    ``8.7  5`` may be 8.75, ``8,309`` may be 8.309, and ``37556 (36108)`` one of the two.
    """
    text = text.strip()
    if _SPLIT_DIGITS.fullmatch(text) is not None:
        return (re.sub(rf"{_SPACE}+", "", text),)
    two = two_figures(text)
    if two is not None:
        return two
    match = _DECIMAL_COMMA.fullmatch(text)
    if match is None or (match["decimals"] is None and "." not in match["whole"]):
        return ()
    decimals = f".{match['decimals']}" if match["decimals"] else ""
    return (match["whole"].replace(".", "") + decimals + match["rest"],)


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


#: Powers of ten by what stands before the unit of a rate: ``37.5k``, "k tokens/s".
_THOUSANDS = {"": 0, "k": 3, "m": 6}


def to_rate(number: Number, unit: str, units: Collection[str]) -> str | None:
    """A rate's digits, none of them lost or made up (``37.5e+3`` of 37.5k); ``None`` where its unit is another.

    Thousands that the cell says count, else those that its row or column says.
    """
    own = number.unit.lower()
    prefix = own[:1] if own[:1] in {"k", "m"} and (own[1:].strip() in {*units, ""}) else ""
    if own and not prefix and own not in units:
        return None
    power = _THOUSANDS.get(prefix or unit.lower())
    return None if power is None else number.digits if power == 0 else f"{number.digits}e+{power}"


_KIND = r"(?:(?P<kind>mean|average|avg\.?|median)(?: (?:of|over|from))?(?: the)? ?)?"
_STEPS = r"(?:(?:training )?(?:steps?|iterations?|iters?))"
_WINDOWS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_KIND}(?:{_STEPS} )?(?P<first>[0-9]{{1,6}}) ?(?:-|\u2013|to) ?(?P<last>[0-9]{{1,6}})(?: {_STEPS})?",
        rf"{_KIND}(?:the )?last (?P<number>[1-9][0-9]{{0,5}})(?: {_STEPS})?",
        rf"{_KIND}from {_STEPS} (?P<first>[0-9]{{1,6}})(?: on)?",
        rf"{_KIND}all(?: {_STEPS})?",
    )
)
_LAST_STEP = re.compile(rf"(?:the )?last {_STEPS}", re.IGNORECASE)


def read_steps(text: str) -> str | None:
    """The statistic that a cell of the steps that a figure is of says: ``mean[5:20]`` of "iterations 5-20"."""
    if _LAST_STEP.fullmatch(text):
        return "last"
    match = next((found for pattern in _WINDOWS if (found := pattern.fullmatch(text)) is not None), None)
    if match is None:
        return None
    groups = match.groupdict()
    kind = "median" if (groups["kind"] or "").lower() == "median" else "mean"
    first = f"-{groups['number']}" if groups.get("number") else groups.get("first") or ""
    last = groups.get("last") or ""
    try:
        return str(parse_statistic(f"{kind}[{first}:{last}]" if first or last else kind))
    except ValueError:  # it ends before it starts
        return None
