"""The lines in which a recipe's ranks say whose run it is: ``GSW: MODEL=… DTYPE=… JOB_ID=…`` (v24.11 to v25.04)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pytest_gsw.common.words import shortened
from pytest_gsw.logs.model import Contradiction, Identity
from pytest_gsw.logs.settings import number_of
from pytest_gsw.logs.text import safe_text

#: What such a line holds.
RECIPE_MARKER = b"GSW: MODEL="
_RECIPE = re.compile(rb"\bGSW: (MODEL=.{1,4000})")
_FIELD = re.compile(rb"\b([A-Z][A-Z_]{1,40})=('[^']{0,400}'|[^\s']{0,400})")
_SHOWN_CHARACTERS = 120

#: What a line says in whole numbers, by its names; those behind the first are of recipes that add them.
NUMBERS = {
    "SEQ_LEN": "sequence_length",
    "GBS": "global_batch_size",
    "MBS": "micro_batch_size",
    "NUM_LAYERS": "layers",
    **{name.upper(): name for name in ("tp", "pp", "cp", "ep", "dp")},
}
_TEXTS = {
    "FRAMEWORK": "framework",
    "MODEL": "model",
    "MODEL_SIZE": "size",
    "DTYPE": "dtype",
    "JOB_ID": "job_id",
    "GSW_VERSION": "release",
    "IMAGE": "image",
}
_GPUS = ("JOB_NUM_NODES", "GPUS_PER_NODE")
#: The field of an identity, by the name that a line has for it.
_OURS = {**_TEXTS, **NUMBERS, **dict.fromkeys(_GPUS, "gpus")}
_KNOWN = frozenset(name.encode() for name in _OURS)


class RecipeLine(NamedTuple):
    """What one line says, by its own names, safe to show."""

    said: Mapping[str, str]
    #: Whose value the line ends with; of a torn line it is not whole.
    last: str


class _Said(NamedTuple):
    """A value, and the last line that has it."""

    value: str
    offset: int
    #: Whether the line ends with it.
    is_last: bool


def recipe_line(record: bytes) -> RecipeLine | None:
    """What a recipe's own line says; ``None`` for others, and for the command that is to print it."""
    if RECIPE_MARKER not in record:
        return None
    line = _RECIPE.search(record)
    return None if line is None else _parsed(line[1])


@lru_cache(maxsize=64)
def _parsed(line: bytes) -> RecipeLine | None:
    """What the line says; each of some thousand ranks prints the same one. Code that it quotes may hold a ``$``."""
    said, last = {}, ""
    for field in _FIELD.finditer(line):
        if field[1] in _KNOWN:
            name = field[1].decode()
            said[name] = shortened(safe_text(field[2].strip(b"'\"")), _SHOWN_CHARACTERS)
            last = name if not line[field.end() :].strip() else ""
    if any("$" in value for value in said.values()):
        return None
    return RecipeLine({name: value for name, value in said.items() if value}, last)


class RecipeLines:
    """What the lines say that stand before the first step of a run. Where two differ, the last counts."""

    def __init__(self) -> None:
        #: The newest two that contradict each other: what is before is of no account if Slurm requeued the job there.
        self.contradiction: Contradiction | None = None
        self._newest: RecipeLine | None = None
        self._offset = 0
        #: What the lines before the newest one say.
        self._before: dict[str, _Said] = {}

    def feed(self, offset: int, line: RecipeLine) -> None:
        """Take the next line."""
        # All ranks print the same line, as a rule, which is then the same object.
        if self._newest is not None and line is not self._newest:
            self._before = self._known(self._newest)
            found = [one for name in line.said if (one := self._contradicted(name, line, offset)) is not None]
            self.contradiction = max(found, key=lambda one: one.first_at, default=self.contradiction)
        self._newest, self._offset = line, offset

    def identity(self) -> Identity:
        """What the lines say together, with the place of each."""
        if self._newest is None:
            return Identity()
        known = self._known(self._newest)
        said: dict[str, Any] = {"gpus": _gpus(known)}
        for name, one in known.items():
            if name not in _GPUS:
                said[_OURS[name]] = number_of(one.value.encode()) if name in NUMBERS else one.value
        return Identity(**said, places={_OURS[name]: one.offset for name, one in known.items()})

    def _known(self, newest: RecipeLine) -> dict[str, _Said]:
        """What all lines say; what a torn one breaks off is known from another."""
        said = {name: _Said(value, self._offset, name == newest.last) for name, value in newest.said.items()}
        if not self._before:
            return said
        torn = {newest.last} if self._is_torn(newest) else set()
        return {**self._before, **{name: one for name, one in said.items() if name not in torn}}

    def _is_torn(self, line: RecipeLine) -> bool:
        """Whether the line breaks off within a value that another line has whole."""
        before, value = self._before.get(line.last), line.said.get(line.last)
        return before is not None and value != before.value and before.value.startswith(value or "")

    def _contradicted(self, name: str, line: RecipeLine, offset: int) -> Contradiction | None:
        before, value = self._before.get(name), line.said[name]
        if before is None or _named(value) == _named(before.value):
            return None
        if (name == line.last and self._is_torn(line)) or (before.is_last and value.startswith(before.value)):
            return None
        return Contradiction(name, before.value, value, before.offset, offset)


def _named(value: str) -> str:
    """A value without the place where it lies: one image is a file here and another one there."""
    return value.rpartition("/")[2].lower()


def _gpus(known: Mapping[str, _Said]) -> int | None:
    nodes, each = (known[name].value if name in known else "" for name in _GPUS)
    digits = (nodes + each).isascii() and nodes.isdigit() and each.isdigit() and len(nodes + each) < 16
    return int(nodes) * int(each) if digits else None
