"""Blocks: how a table declares the place of a figure in a log, and what makes the log valid.

A block holds shell patterns, in which ``*`` is any text, ``?`` one character, and ``{}`` the number. Runs of blanks and
of characters that draw boxes count as one blank, in patterns and in logs. A pattern is matched from left to right,
without going back: the time is proportional to the length of the line, however hostile that is. So is a regular
expression, of which only a simple kind is possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice, takewhile
from typing import Any, Literal, get_args

BlockStatistic = Literal["min", "max", "median", "mean", "last"]
BLOCK_STATISTICS: tuple[str, ...] = get_args(BlockStatistic)

LONGEST_PATTERN = 200
#: The most texts of a block, each of which is looked for in each line.
_MOST_TEXTS = 8
#: Longest number with its unit, and the most places of one line at which it is looked for.
_LONGEST_NUMBER, _MOST_PLACES = 64, 6
#: Characters between the cells of a table; U+2500 to U+257F are box drawings.
BOX = re.compile(r"[|\u2500-\u257f]")
_LINES = re.compile(r"[\u2500-\u257f]+")

NUMBER_PLACE = "{}"
#: Programs with blocks of their own, in ``tables/programs.yaml``: the texts of their first line. A log is recognized by
#: it, and each one begins a run.
PROGRAMS: Mapping[str, tuple[bytes, ...]] = {
    "hpl": (b"HPLinpack ",),
    "hpcg": (b"HPCG-Benchmark",),
    "stream": (b"STREAM version",),
    "osu": (b"# OSU ",),
    "ior": (b"MPI Coordinated Test of Parallel I/O",),
    "mdtest": (b"mdtest-", b" was launched with "),
    "fio": (b'"fio version"',),
    "nvbandwidth": (b"nvbandwidth Version",),
    "dcgm": (b"ran diagnostic for group",),
    "aiperf": (b"Perf | LLM Metrics",),
    "trtllm-bench": (b"= PERFORMANCE OVERVIEW",),
    "ib_write_bw": (b"RDMA_Write ", b" BW Test"),
}
#: A character or a class of a regular expression with its repetition, or a parenthesis.
_TOKEN = re.compile(
    r"(?P<atom>(?P<plain>\\[\W_]|\[[^]\\^]\]|[^][\\(){}*+?|^$.])|\\[sSdDwW]|\.|\[\^?(?:\\.|[^]\\])+\])(?P<many>[+*?]?)|[()]"
)
#: Characters before a number that are a part of it, and what is behind one.
_OF_NUMBERS, _GOES_ON = "0123456789.,-+", re.compile(r"[.,]?[0-9]|[eE][-+]?[0-9]")
#: The group of the number, and the fewest plain characters that an expression begins with.
NUMBER, _PLAIN_BEGIN = "number", 3
_PATH = re.compile(r"[^][.]+(?:\.[^][.]+|\[(?:\*|[^][]+)\])*")


class BlockError(ValueError):
    """A block that finds no number, or cannot be read; its text says why."""


def normalized(text: str) -> str:
    """A line or a pattern with single blanks, and without boxes."""
    return " ".join(_LINES.sub(" ", text.replace("|", " ")).split())


class _Piece:
    """A text without ``*``: compiled, it is found in linear time."""

    def __init__(self, text: str) -> None:
        self.width = len(text)
        pattern = re.compile(re.escape(text).replace(r"\?", "."), re.DOTALL)
        self.match, self.search, self.places = pattern.match, pattern.search, pattern.finditer


class Pattern:
    """A shell pattern of a whole line; a BlockError if it is none."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"\*+", "*", normalized(text))
        head, place, tail = self.text.partition(NUMBER_PLACE)
        if len(text) > LONGEST_PATTERN or not self.text.isprintable() or not self.text.strip("*{}? "):
            raise BlockError(f"a pattern has plain text, and at most {LONGEST_PATTERN} characters: {text!r}")
        if NUMBER_PLACE in tail or (place and head.endswith("*") and (tail or "*").startswith("*")):
            raise BlockError(f"a pattern has one {NUMBER_PLACE}, next to plain text: {text!r}")
        if any("?" in part for part in self.text.split("*")[1:-1]):
            raise BlockError(f"has '?' between two '*': {text!r}")
        self.has_number = bool(place)
        self._head, self._tail = ([*map(_Piece, part.split("*"))] for part in (head, tail))

    def matches(self, line: str) -> bool:
        """True if it is the pattern of a normalized line."""
        return bool(self.numbers(line)) if self.has_number else _is_rest(self._head, line, 0)

    def numbers(self, line: str) -> list[str]:
        """The texts in place of the number, each without blanks; empty if a normalized line has another pattern.

        The last one is no number in a line with more places than are looked at.
        """
        places = [*islice(self._places(line), _MOST_PLACES + 1)]
        found = [
            text
            for start, end in places
            if (text := line[start:end].strip()) and " " not in text and _is_rest(self._tail, line, end)
        ]
        return found if len(places) <= _MOST_PLACES else [*found, "…"]

    def _places(self, line: str) -> Iterator[tuple[int, int]]:
        """Where the number may begin and end: next to the plain text before it, else next to that behind it."""
        first, *others = self._head
        begin, behind = first.match(line), self._tail[0]
        for piece in others[:-1]:
            begin = begin and piece.search(line, begin.end())
        if begin is None:
            return
        if others and not others[-1].width:
            for found in behind.places(line, begin.end()):
                yield line.rfind(" ", begin.end(), max(found.start() - 1, 0)) + 1 or begin.end(), found.start()
            return
        for found in others[-1].places(line, begin.end()) if others else [begin]:
            start = found.end() + line.startswith(" ", found.end())
            stop = min(start + _LONGEST_NUMBER, len(line))
            end = behind.search(line, start, stop + behind.width) if behind.width else None
            end_of_word = line.find(" ", start, stop)
            yield start, end.start() if end else start if behind.width else stop if end_of_word < 0 else end_of_word


class Expression:
    """A regular expression of characters, classes and repetitions, with one group: the number.

    It begins with plain text. A repetition takes all that it can, up to :data:`LONGEST_PATTERN` characters, and gives
    nothing back.

    Raises:
        BlockError: It is another one.
    """

    def __init__(self, text: str) -> None:
        tokens = [*_TOKEN.finditer(text)]
        is_whole = "".join(token[0] for token in tokens) == text and len(text) <= LONGEST_PATTERN
        if not is_whole or [token[0] for token in tokens if token[0] in {"(", ")"}] != ["(", ")"]:
            raise BlockError(
                f"{text!r} is no simple expression around one number: write 'images/sec: {{}}', or a block"
            )
        begin = [*takewhile(lambda token: token["plain"] and not token["many"], tokens)]
        if len(begin) < _PLAIN_BEGIN:
            raise BlockError(f"{text!r} does not begin with {_PLAIN_BEGIN} plain characters")
        try:
            self._begin, self._rest = (re.compile("".join(map(_once, part))) for part in (begin, tokens[len(begin) :]))
        except re.error as error:
            raise BlockError(f"{text!r} is no regular expression: {error}") from None

    def numbers(self, line: str) -> list[str]:
        """The texts of the group; it is no number if it is a part of one, or of more places than are looked at."""
        places = [*islice(self._begin.finditer(line), _MOST_PLACES + 1)]
        matches = [match for place in places if (match := self._rest.match(line, place.end()))]
        found = [
            "…"
            if line[match.start(NUMBER) - 1] in _OF_NUMBERS or _GOES_ON.match(line, match.end(NUMBER))
            else match[NUMBER]
            for match in matches
        ]
        return found if len(places) <= _MOST_PLACES else [*found, "…"]


def _once(token: re.Match[str]) -> str:
    """A token that gives nothing back, as Python 3.11 writes ``(?>…)``."""
    if not token["many"]:
        return f"(?P<{NUMBER}>" if token[0] == "(" else token[0]
    least, most = {"+": (1, LONGEST_PATTERN), "*": (0, LONGEST_PATTERN), "?": (0, 1)}[token["many"]]
    name = f"at{token.start()}"
    return f"(?=(?P<{name}>{token['atom']}{{{least},{most}}}))(?P={name})"


def anywhere(text: str) -> Pattern:
    """The pattern of lines that hold a text; a BlockError if it is none."""
    return Pattern(f"*{normalized(text)}*")


def _is_rest(pieces: Sequence[_Piece], line: str, at: int) -> bool:
    """True if the pieces, with any text between two of them, are the rest of a line."""
    first, *others = pieces
    found = first.match(line, at)
    for piece in others[:-1]:
        found = found and piece.search(line, found.end())
    if found is None or not others:
        return found is not None and found.end() == len(line)
    start = len(line) - others[-1].width
    return start >= found.end() and others[-1].match(line, start) is not None


@dataclass(frozen=True)
class Block:
    """The place of a figure in a log, and the texts that make the log valid or invalid.

    Raises:
        BlockError: It finds no number, or cannot be read.
    """

    #: Shell pattern of the figure's line; with ``after``, of its row.
    line: str | None = None
    #: Regular expression that is found in the figure's line, in place of ``line``.
    pattern: str | None = None
    #: Text of a table's heading. The rows below it are read, up to a blank line or a rule.
    after: str | None = None
    #: The figure's column: its name in the heading, or its number, from 1.
    column: str | None = None
    #: Path of the figure in a JSON document: ``jobs[0].read.iops``; ``[*]`` is each entry.
    json: str | None = None
    #: Unit that is in the line or in the heading.
    unit_in: str | None = None
    #: Factor on the number of the log.
    times: float = 1.0
    #: The number of such figures in a log, and the statistic that makes one of them.
    each: int = 1
    statistic: BlockStatistic | None = None
    #: Shell patterns of texts in the log, and of texts that it must not hold.
    require: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = [anywhere(text) for text in (self.after, *self.require, *self.refuse) if text is not None]
        has_row, has_column = bool(self.line or self.after), self.column is not None
        has_pattern = self.pattern is not None
        if self.pattern is not None:
            Expression(self.pattern)
        has_place = self.line is not None and Pattern(self.line).has_number
        problems = {
            f"has more than {_MOST_TEXTS} texts in 'require' and 'refuse'": len(texts) > _MOST_TEXTS,
            f"has '{NUMBER_PLACE}' elsewhere than in 'line'": any(text.has_number for text in texts),
            "has no 'line', 'after', 'json' or 'require'": not (has_row or has_pattern or self.json or self.require),
            "has 'pattern' and another place": has_pattern and (has_row or self.json or has_column),
            "has 'json' and a line, or 'column' or 'unit_in' without one": (
                self.json if has_row else has_column or (self.unit_in is not None and not has_pattern)
            ),
            "has a name of a heading as its 'column', and no 'after'": (
                has_column and not str(self.column).isdecimal() and self.after is None
            ),
            f"has to have '{NUMBER_PLACE}' in 'line', or 'column', for the number": has_row and has_place == has_column,
            "has to have both 'each' and 'statistic', or neither": (self.each > 1) != (self.statistic is not None),
            f"has '{self.json}', wanted a path such as jobs[0].read.iops": self.json and not _PATH.fullmatch(self.json),
        }
        for problem, is_there in problems.items():
            if is_there:
                raise BlockError(problem)

    def stated(self) -> dict[str, Any]:
        """The keys that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


def text_block(text: str) -> Block:
    """The block of a text around ``{}``, or of a regular expression.

    Raises:
        BlockError: It is neither.
    """
    if NUMBER_PLACE not in text:
        return Block(pattern=text)
    if "*" in text or "?" in text:
        raise BlockError(f"{text!r} has '*' or '?', which belong into a block: read: {{line: …}}")
    return Block(line=anywhere(text).text)
