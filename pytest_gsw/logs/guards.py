"""What must hold of every format's steps, whoever wrote the format.

A format only says what a line tells (:class:`~pytest_gsw.logs.formats.base.LineFormat`); attempts, ranks, losses
and figures that are not finite are sorted out behind it. One that makes a whole :class:`~pytest_gsw.logs.model.StepLog`
itself is not trusted with them: what it returns is looked through here, and so are the lines that it was given.
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

#: A figure that is not finite: ``loss nan``, ``took=inf``, ``"loss": NaN``, ``-1.#IND``; no part of a word or of a
#: path, no level ``[INF]`` of a logger, and not what Megatron counts as ``number of nan iterations``.
_NOT_FINITE = re.compile(
    rb"(?<![\w./-])(?!(?<=\[)(?-i:INF)\])[-+]?(?:nan(?! iterations\b)|inf(?:inity)?|%b)(?![\w/-])" % C_RUNTIME,
    re.IGNORECASE,
)
#: What is shown of the line before it.
_WORDS_BYTES = 40


class GuardedParser(Parser, Protocol):
    """A parser that is trusted with figures, attempts and ranks."""

    def tail(self, count: int) -> Tail:
        """The end of what :meth:`log` says, with so many steps at most."""


def parser_of(log_format: LogFormat) -> GuardedParser:
    """A new parser of a format; what one that does not guard itself says is looked through."""
    parser = log_format.reader()
    return cast("GuardedParser", parser) if getattr(parser, "guards_itself", False) else _Guarded(parser)


class _Guarded:
    """A parser whose log gets its :attr:`StepLog.fault`, and what is not finite in it or in the records."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._lost: tuple[int, str] | None = None

    def feed(self, offset: int, record: bytes) -> None:
        text = None if self._lost else not_finite_text(record)
        if text is not None:
            self._lost = (offset, text)
        self._parser.feed(offset, record)

    def log(self) -> StepLog:
        log = self._parser.log()
        fault = _fault(log)
        if log.not_finite is None and self._lost is not None:
            offset, text = self._lost
            index = next((step.index for step in log.steps if step.offset == offset), None)
            log = replace(log, not_finite=(index, text))
        elif log.not_finite is None:
            log = replace(log, not_finite=_not_finite(log.steps))
        return log if fault is None else replace(log, fault=fault)

    def tail(self, count: int) -> Tail:
        log = self.log()
        return Tail(log.attempts, len(log.steps), tuple(log.steps[-count:]), log.not_finite)


def not_finite_text(line: bytes) -> str | None:
    """The first figure of a line that is not finite, with the words before it, fit to be shown."""
    found = _NOT_FINITE.search(line)
    return None if found is None else safe_text(line[max(0, found.start() - _WORDS_BYTES) : found.end()])


def _not_finite(steps: Sequence[Step]) -> tuple[int | None, str] | None:
    for step in steps:
        value = next((v for v in (step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu) if v is not None), 0.0)
        if not 0 <= value < math.inf:
            return step.index, f"step time {value}"
    return None


def _fault(log: StepLog) -> str | None:
    """What no log holds: steps without a time, with two, or that do not count on."""
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
