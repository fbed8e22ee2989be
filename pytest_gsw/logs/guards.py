"""Checks of every format's steps, those of plugins included.

A format only parses a line (:class:`~pytest_gsw.logs.formats.base.LineFormat`); its base class separates attempts and
ranks, and handles losses and figures that are not finite. A format that makes a whole
:class:`~pytest_gsw.logs.model.StepLog` itself is checked here: its result, and the lines that it was fed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol, cast

from pytest_gsw.logs.model import LogFormat, Parser, Step, StepLog, Tail
from pytest_gsw.logs.scan import C_RUNTIME, safe_text

#: A figure that is not finite: ``loss nan``, ``took=inf``, ``"loss": NaN``, ``-1.#IND``. Excluded are parts of words
#: and paths, a logger's level ``[INF]``, and Megatron's ``number of nan iterations``.
_NOT_FINITE = re.compile(
    rb"(?<![\w./-])(?!(?<=\[)(?-i:INF)\])[-+]?(?:nan(?! iterations\b)|inf(?:inity)?|%b)(?![\w/-])" % C_RUNTIME,
    re.IGNORECASE,
)
#: Bytes shown before the figure.
_WORDS_BYTES = 40


class GuardedParser(Parser, Protocol):
    """A parser that handles figures, attempts and ranks itself."""

    def tail(self, count: int) -> Tail:
        """The end of :meth:`log`, with ``count`` steps at most."""


def parser_of(log_format: LogFormat) -> GuardedParser:
    """A new parser of a format, with checks around it unless it guards itself."""
    parser = log_format.reader()
    return cast("GuardedParser", parser) if getattr(parser, "guards_itself", False) else _Guarded(parser)


class _Guarded:
    """A parser that adds :attr:`StepLog.fault`, and figures that are not finite in its log or its records."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._first_not_finite: tuple[int, str] | None = None

    def feed(self, offset: int, record: bytes) -> None:
        text = None if self._first_not_finite else not_finite_text(record)
        if text is not None:
            self._first_not_finite = (offset, text)
        self._parser.feed(offset, record)

    def log(self) -> StepLog:
        log = self._parser.log()
        fault = _fault(log)
        if log.not_finite is None and self._first_not_finite is not None:
            offset, text = self._first_not_finite
            index = next((step.index for step in log.steps if step.offset == offset), None)
            log = replace(log, not_finite=(index, text))
        elif log.not_finite is None:
            log = replace(log, not_finite=_not_finite(log.steps))
        return log if fault is None else replace(log, fault=fault)

    def tail(self, count: int) -> Tail:
        log = self.log()
        return Tail(log.attempts, len(log.steps), tuple(log.steps[-count:]), log.not_finite)


def not_finite_text(line: bytes) -> str | None:
    """The first figure of a line that is not finite, with the text before it, safe to display."""
    found = _NOT_FINITE.search(line)
    return None if found is None else safe_text(line[max(0, found.start() - _WORDS_BYTES) : found.end()])


def _not_finite(steps: Sequence[Step]) -> tuple[int | None, str] | None:
    for step in steps:
        value = next((v for v in (step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu) if v is not None), 0.0)
        if not 0 <= value < math.inf:
            return step.index, f"step time {value}"
    return None


def _fault(log: StepLog) -> str | None:
    """A fault that no log can have: steps with no time or two, or with numbers that do not increase."""
    for step in log.steps:
        rates = [step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu]
        if len(rates) - rates.count(None) != 1:
            return f"step {step.index} has {len(rates) - rates.count(None)} times or rates, wanted one"
    for one, other in pairwise(log.steps):
        if (one.index is None) != (other.index is None):
            return "some steps have a number and others have none"
        if one.index is not None and other.index is not None and other.index <= one.index:
            return f"step {other.index} follows step {one.index}: several attempts or ranks are taken for one"
    return None
