"""The faults of simulated runs, and the option text that assigns them to rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.model import row_matches
from pytest_gsw.tables.value_types import nearest

#: Every fault as written, and its effect. ``P%`` is a percentage, ``N`` a whole number.
FAULTS: Mapping[str, str] = {
    "slow:P%": "every step takes P % longer",
    "fast:P%": "every step takes P % less time",
    "slow-once:P%": "every step of the row's first job takes P % longer; those of further ones do not",
    "noise:P%": "each job is slower or faster as a whole, with a standard deviation of P %",
    "fail": "a Python traceback after a few steps, exit code 1",
    "oom": "one rank runs out of GPU memory before its first step, exit code 1",
    "oom-kill": "killed after a third of the steps, as by Slurm when a node's memory is used up",
    "stall": "stops writing after half the steps and never ends",
    "nan": "the loss is NaN from half way on; speed and exit code are those of a healthy run",
    "short": "stops without a word after 60 % of the steps, exit code 0",
    "wrong-identity": "the log states another model size",
    "wrong-settings": "the log states half of the row's sequence length, and twice its micro-batch",
    "no-log": "no log is left, exit code 0",
    "truncated": "the log ends inside the figure of the last step, exit code 0",
    "cancel": "the job cancels itself after its last step",
    "exit:N": "a healthy log, exit code N (1 to 255)",
}

_ARGUMENTS = {usage.partition(":")[0]: usage.partition(":")[2] for usage in FAULTS}
_EXIT_CODES = range(1, 256)


@dataclass(frozen=True)
class Fault:
    """One fault for the rows whose id matches a pattern."""

    #: A row id in which only ``*`` and ``?`` are special; the brackets of ids are not.
    pattern: str
    #: A word of :data:`FAULTS`: ``slow``.
    word: str
    #: The number behind the word's colon: 12 for ``slow:12%``; 0 for none.
    argument: float = 0.0

    def matches(self, row_id: str) -> bool:
        """True if the row of this id has the fault."""
        return row_matches(self.pattern, row_id)

    @property
    def time_factor(self) -> float:
        """Factor on the time of every step."""
        sign = {"slow": 1, "slow-once": 1, "fast": -1}.get(self.word, 0)
        return 1 + sign * self.argument / 100


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Read ``PATTERN=FAULT;PATTERN=FAULT…``, the value of ``--gsw-demo``.

    Raises:
        ConfigurationError: A part is no ``PATTERN=FAULT``, or its fault is not in :data:`FAULTS`.
    """
    return tuple(_parse_fault(part) for part in _parts(text))


def fault_texts(text: str) -> tuple[str, ...]:
    """Each fault of ``--gsw-demo`` as written; raises the errors of :func:`parse_faults`."""
    parse_faults(text)
    return _parts(text)


def fault_of(row_id: str, faults: Iterable[Fault]) -> Fault | None:
    """The fault of one row: the last that matches it."""
    return next((fault for fault in reversed(tuple(faults)) if fault.matches(row_id)), None)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _parse_fault(part: str) -> Fault:
    pattern, equals, fault = (piece.strip() for piece in part.rpartition("="))
    if not equals or not pattern:
        raise ConfigurationError(f"--gsw-demo: got '{part}', wanted PATTERN=FAULT such as 'llama2*=slow:12%'")
    word, colon, argument = fault.partition(":")
    if word not in _ARGUMENTS:
        raise ConfigurationError(
            f"--gsw-demo: unknown fault '{word}' in '{part}'{nearest(word, _ARGUMENTS)}\n{_help_text()}"
        )
    number = _argument(word, argument)
    if number is None or bool(colon) != bool(_ARGUMENTS[word]):
        raise ConfigurationError(f"--gsw-demo: got '{fault}' in '{part}', wanted '{_usage(word)}'\n{_help_text()}")
    return Fault(pattern, word, number)


def _argument(word: str, text: str) -> float | None:
    """The number after a fault's colon; 0 if the fault takes none, ``None`` if it is wrong."""
    match _ARGUMENTS[word]:
        case "P%" if re.fullmatch(r"\d+(\.\d+)?%", text):
            percent = float(text[:-1])
            return None if word == "fast" and percent >= 100 else percent
        case "N" if re.fullmatch(r"\d{1,3}", text) and int(text) in _EXIT_CODES:
            return int(text)
        case "" if not text:
            return 0.0
        case _:
            return None


def _usage(word: str) -> str:
    return f"{word}:{_ARGUMENTS[word]}" if _ARGUMENTS[word] else word


def _help_text() -> str:
    width = max(map(len, FAULTS))
    return "\n".join(["faults:", *(f"  {usage:<{width}}  {meaning}" for usage, meaning in FAULTS.items())])
