"""JSON as dataclasses, checked against the types of their fields."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pytest_gsw.common.files import read_bounded

Kind = TypeVar("Kind")
_Fits = Callable[[Any], bool]
_Reader = Callable[[Any, str], Any]

#: Metadata of a field that follows from others, and is not in JSON.
NOT_IN_JSON: Mapping[str, bool] = {"is_in_json": False}


@dataclass(frozen=True)
class Shape:
    """The JSON of one field of a dataclass."""

    required: bool
    #: True if a value of JSON is one of the field's.
    fits: _Fits
    #: Makes the field's value of it; its second argument is the prefix of keys in messages.
    read: _Reader


def plain(value: Any) -> Any:
    """An enum, a dataclass, or a class with ``text`` and ``of_text``, as JSON has it."""
    if isinstance(value, enum.Enum):
        return value.value
    return value.text if hasattr(value, "of_text") else vars(value)


def read(kind: type[Kind], content: Mapping[str, Any], prefix: str = "", **names: str) -> Kind:
    """A dataclass from JSON, which may have further keys; nested objects may not.

    Args:
        kind: The dataclass.
        content: An object of JSON.
        prefix: Prefix of its keys in messages.
        names: By field, its key if that differs from its name.

    Raises:
        ValueError: A key is missing, or its value is not of the field's type; the message names the first.
    """
    found: dict[str, Any] = {}
    for name, shape in shapes(cast(Any, kind)).items():
        key = names.get(name, name)
        if key in content:
            value = content[key]
            if not shape.fits(value):
                raise ValueError(f"'{prefix}{key}' is {shown(value)}")
            found[name] = shape.read(value, f"{prefix}{key}.")
        elif shape.required:
            raise ValueError(f"it has no '{prefix}{key}'")
    return kind(**found)


def read_file(kind: type[Kind], path: Path) -> Kind | None:
    """A dataclass from a file; ``None`` if it is missing or damaged, or of a later release."""
    try:
        return read(kind, json.loads(read_bounded(path)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def check_known(content: Mapping[str, Any], known: Mapping[str, Any] | frozenset[str], prefix: str = "") -> None:
    """Raise a ValueError if JSON has an unknown key."""
    for key in content:
        if key not in known:
            raise ValueError(f"it has an unknown key '{prefix}{key}'")


@cache
def shapes(kind: type) -> Mapping[str, Shape]:
    """The JSON of each field of a dataclass that has one, by name."""
    hints = get_type_hints(kind)
    return {
        known.name: Shape(known.default is MISSING and known.default_factory is MISSING, *_shape(hints[known.name]))
        for known in fields(kind)
        if known.metadata != NOT_IN_JSON
    }


def facts(kind: type, value: Any) -> dict[str, Any]:
    """The fields of a dataclass in JSON by name; a subclass of it may have more."""
    return {name: getattr(value, name) for name in shapes(kind)}


def _as_it_is(value: Any, *_: object) -> Any:
    return value


def _as_tuple(value: Any, *_: object) -> Any:
    return tuple(value)


def _read_nested(kind: Any, value: Mapping[str, Any], prefix: str) -> Any:
    check_known(value, shapes(kind), prefix)
    return read(kind, value, prefix)


def _shape(hint: Any) -> tuple[_Fits, _Reader]:
    """The check and the reader of a field's JSON; made once for each field."""
    arguments, origin = get_args(hint), get_origin(hint) or hint
    if origin is UnionType:
        kinds = {argument: _shape(argument) for argument in arguments}
        checks = tuple(fits for fits, _ in kinds.values())
        (one,) = (read for argument, (_, read) in kinds.items() if argument is not type(None))
        return (
            lambda value: any(check(value) for check in checks),
            lambda value, prefix: None if value is None else one(value, prefix),
        )
    if origin is Mapping:
        is_value, _ = _shape(arguments[1])
        return lambda value: isinstance(value, dict) and all(map(is_value, value.values())), _as_it_is
    if origin is tuple and arguments[-1] is not Ellipsis:
        entries = tuple(_shape(argument)[0] for argument in arguments)
        return (
            lambda value: (
                isinstance(value, list)
                and len(value) == len(entries)
                and all(fits(entry) for fits, entry in zip(entries, value, strict=True))
            ),
            _as_tuple,
        )
    if origin is tuple:
        is_entry, entry = _shape(arguments[0])
        fits: _Fits = lambda value: isinstance(value, list) and all(map(is_entry, value))  # noqa: E731
        if entry is _as_it_is:
            return fits, _as_tuple
        return fits, lambda value, prefix: tuple([entry(one, prefix) for one in value])
    if origin is float:
        return is_number, _as_it_is
    if hasattr(origin, "of_text"):
        return lambda value: isinstance(value, str), lambda value, *_: origin.of_text(value)
    if is_dataclass(origin):
        return lambda value: isinstance(value, dict), partial(_read_nested, origin)
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        words = frozenset(one.value for one in origin)
        return lambda value: isinstance(value, str) and value in words, lambda value, *_: origin(value)
    # JSON has no subclasses, and of Python's types bool alone is one of another's.
    return lambda value: type(value) is origin, _as_it_is


def is_number(value: Any) -> bool:
    """True if a value of JSON is a number that a float can have."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def shown(value: Any) -> str:
    """A value of JSON in a message."""
    try:
        text = json.dumps(value)
    except RecursionError:  # it could be read all the same, by fewer callers
        return "nested too deeply"
    return text if len(text) <= 60 else f"{text[:60]}..."
