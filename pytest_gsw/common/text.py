"""Texts that many messages share."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone, tzinfo
from functools import lru_cache
from typing import Literal, TypeAlias

#: Sort key of a name by its numbers.
ByNumber: TypeAlias = tuple[tuple[int, str], ...]


def plural(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 row``, ``2 rows``; by default, the plural is the noun with an "s"."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def listed(counts: Mapping[str, int]) -> str:
    """Numbers with their words, but for zeros: ``2 slower, 1 removed``."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def enumerated(texts: Iterable[str], word: Literal["and", "or"] = "and") -> str:
    """Texts for a sentence: ``tp``, ``tp and pp``, ``tp, pp or dp``; there is one at least."""
    *first, last = texts
    return f"{', '.join(first)} {word} {last}" if first else last


def named(names: Sequence[str], most: int) -> str:
    """Names separated by commas, ``most`` of them at most: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def at_line(document: str, line: int | None) -> str:
    """A place in a document: ``readme.md:31``, or the document alone."""
    return document if line is None else f"{document}:{line}"


@lru_cache(maxsize=20_000)
def by_number(name: str) -> ByNumber:
    """Sort key of names by the numbers in them: ``[H100x8]``, ``[H100x8-b]``, ``[H100x16]``."""
    texts_and_numbers = enumerate(re.split(r"([0-9]+)", name.rstrip("]")))
    # A number of any length is compared by its digits.
    return tuple([(len(part.lstrip("0")) if place % 2 else 0, part) for place, part in texts_and_numbers])


def rounded(count: float, noun: str) -> str:
    """A number as a whole one with its noun, thousands separated: ``1 row``, ``2,304 GPUs``."""
    text = f"{count:,.0f}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


def hours_text(hours: float) -> str:
    """A number of hours: whole from ten on, else with a tenth."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


def duration(seconds: float) -> str:
    """Seconds for display: ``11m02s``, ``1h03m``, ``42s``."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def calendar(time_s: float | None, zone: tzinfo | None = None) -> datetime | None:
    """A time in a zone, by default this machine's; ``None`` if the calendar does not have it."""
    try:
        return None if time_s is None else datetime.fromtimestamp(time_s, timezone.utc).astimezone(zone)
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return None


def day(time_s: float) -> str:
    """The day of a time on this machine's calendar, ``2026-11-20``; empty if the calendar has none."""
    return minute(time_s).partition(" ")[0]


def minute(time_s: float) -> str:
    """A time to the minute on this machine's clock, ``2026-11-20 21:23``: it distinguishes runs of one day.

    Empty if the calendar has no such time.
    """
    found = calendar(time_s)
    return "" if found is None else f"{found:%Y-%m-%d %H:%M}"


def moment(time_s: float) -> str:
    """A time on this machine's clock, ``2026-11-20 21:23:41``."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))


def percent(fraction: float) -> str:
    """A change with its sign: ``+12.2 %``."""
    return f"{round(fraction * 100, 1) + 0.0:+.1f} %"  # adding zero turns -0.0, "-0.0 %", into a zero


def share(fraction: float) -> str:
    """A share of the whole: ``42.7 %``."""
    return f"{fraction * 100:.1f} %"


def command(*arguments: str) -> str:
    """A command that can be pasted into a shell."""
    return shlex.join(arguments)


def one_line(text: str) -> str:
    """A text with single blanks in place of its line feeds and indents."""
    return " ".join(text.split())


def shortened(text: str, most: int) -> str:
    """At most ``most`` characters of a text, the last an ellipsis if some are left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def workflow_command(level: str, properties: Mapping[str, object], message: str) -> str:
    """An annotation for GitHub's runner: ``::error file=x.yaml,line=7::message``."""
    listed = ",".join(f"{name}={escaped(str(value), in_property=True)}" for name, value in properties.items())
    return f"::{level} {listed}::{escaped(message)}"


def escaped(text: str, *, in_property: bool = False) -> str:
    """A text in the escaped form of GitHub's runner, on one line."""
    escapes = {"%": "%25", "\r": "%0D", "\n": "%0A", **({":": "%3A", ",": "%2C"} if in_property else {})}
    return "".join(escapes.get(letter, letter) for letter in text)


def positive(text: str) -> float | None:
    """The number in a text; ``None`` if it is none above 0, or not finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


# -- Columns of text: the only door to tabulate ----------------------------------------------------


def plain_table(rows: Iterable[Sequence[object]], *columns: str, style: str = "plain") -> str:
    """Cells as lines of text.

    A column is given by its heading; one that begins with ``>`` is aligned to the right. With the style ``simple``
    there is a line below the headers.
    """
    from tabulate import tabulate  # a session that only collects writes no table

    headers = [column.removeprefix(">") for column in columns]
    align = ["right" if column.startswith(">") else "left" for column in columns]
    return tabulate(rows, headers=headers, colalign=align, tablefmt=style, disable_numparse=True)
