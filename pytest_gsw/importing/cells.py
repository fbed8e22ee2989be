"""What a cell says: a plain number with its unit, or a word. Nothing is repaired."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from pytest_gsw.tables.accelerators import ACCELERATORS
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import FILE_FIELDS, ROW_FIELDS
from pytest_gsw.tables.metrics import (
    DAYS_TO_TRAIN,
    DOCUMENTED,
    MFU,
    SAVE_TIME,
    STEP_TIME,
    TFLOPS_PER_GPU,
    TOKENS_PER_S,
    TOKENS_PER_S_PER_GPU,
)

#: Cells that say that there is none.
NOTHING = frozenset({"", "-", "\u2013", "\u2014", "na", "n/a", "none", "null", "~"})
FIGURES = frozenset(DOCUMENTED)
#: Keys whose cells are counts.
COUNTS = frozenset(
    {
        *("gpus", "nodes", "gpus_per_node", "sequence_length", "global_batch_size", "micro_batch_size"),
        *("gradient_accumulation_steps", "layers", "tp", "pp", "cp", "ep", "dp", "vp", "fsdp", "min_steps"),
    }
)
#: Keys whose cells are names.
NAMES = frozenset({"model", "size", "framework", "log_format", "dtype", "accelerator", "case", "release"})
#: Keys of all that a table may state; ``attributes.NAME`` is a column without a key.
KNOWN = FIGURES | COUNTS | NAMES | {"notes", "model_flops", "statistic", "expected_failure"}

_S = {"": "1", "s": "1", "sec": "1", "secs": "1", "seconds": "1", "s/step": "1", "ms": "0.001"}
_RATE = {"": "1", "k": "1000", "tokens/s": "1", "tok/s": "1", "tokens/sec": "1"}
#: By key, the units that may stand behind a number, each with what one of it is.
_UNITS: Mapping[str, Mapping[str, str]] = {
    STEP_TIME.key: _S,
    SAVE_TIME.key: _S,
    MFU.key: {"%": "1"},
    DAYS_TO_TRAIN.key: {"": "1", "d": "1", "days": "1"},
    TOKENS_PER_S.key: _RATE,
    TOKENS_PER_S_PER_GPU: {**_RATE, "tokens/s/gpu": "1", "token/gpu/sec": "1"},
    TFLOPS_PER_GPU.key: {"": "1", "tflop/s": "1", "tflops": "1"},
}
#: Of these a comma may be a decimal one: a time of ``8,309`` seconds is rare.
_NO_COMMA = frozenset({STEP_TIME.key, SAVE_TIME.key, DAYS_TO_TRAIN.key, MFU.key})
_NUMBER = re.compile(
    r"(?P<digits>[1-9][0-9]{0,2}(?:,[0-9]{3}){1,5}|0|[1-9][0-9]{0,14})(?P<rest>(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,3})?)\s?"
    r"(?P<unit>[A-Za-z/%]{0,16})"
)

_DTYPES = sorted({dtype for one in ACCELERATORS for dtype in one.tflops} | {"fp32", "tf32"}, key=len, reverse=True)
_KINDS = sorted({one.name for one in ACCELERATORS}, key=len, reverse=True)
#: What a word of each key looks like within a longer text.
WORDS: Mapping[str, str] = {
    "size": r"[0-9]{1,4}(?:\.[0-9]{1,3})?[bBmM]",
    "dtype": "|".join(map(re.escape, _DTYPES)),
    "accelerator": "|".join(map(re.escape, _KINDS)),
    "release": r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}",
}


class UnreadableError(ValueError):
    """A cell that says nothing that its key can have."""


def is_key(name: str) -> bool:
    """Whether a table may state this key."""
    return name in KNOWN or re.fullmatch(r"attributes\.[A-Za-z_][A-Za-z0-9_]{0,59}", name) is not None


def read_cell(key: str, text: str, factor: str = "") -> str:
    """The value of a cell as tables write it, digit for digit; empty where the cell says that there is none.

    Raises:
        UnreadableError: It is no plain number, or no name, of this key.
    """
    if key.startswith("attributes."):
        return text
    if text.lower() in NOTHING:
        return ""
    if key in FIGURES or key in COUNTS:
        text = _number(key, text, factor)
    elif key in {"model", "case"}:
        text = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.")
    elif key in NAMES - {"accelerator"}:
        text = text.lower()
    field = ROW_FIELDS.get(key) or FILE_FIELDS.get(key)
    try:
        if isinstance(field, Field):
            field.read(text)
    except ValueError as error:
        raise UnreadableError(str(error)) from None
    return text


def _number(key: str, text: str, factor: str) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None or (key in _NO_COMMA and "," in match["digits"]):
        raise UnreadableError(f"the cell reads '{text}', which is no plain number")
    units = {**_UNITS.get(key, {"": "1"}), **({"": "1"} if factor else {})}
    times = units.get(match["unit"].lower())
    if times is None:
        wanted = ", ".join(f"'{unit}'" for unit in units if unit) or "no unit"
        raise UnreadableError(f"the cell reads '{text}', wanted {wanted} behind the number")
    number = match["digits"].replace(",", "") + match["rest"]
    for scale in (times, factor.removesuffix("%")):
        if scale not in {"", "1"}:
            number = f"{Decimal(number) * Decimal(scale):f}"
    if not Decimal(number) or (key in COUNTS and not number.isdigit()):
        raise UnreadableError(
            f"the cell reads '{text}', wanted a {'whole number' if key in COUNTS else 'number'} above 0"
        )
    return f"{number}%" if key == MFU.key else number
