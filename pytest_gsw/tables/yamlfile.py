"""Nodes of a YAML file become values that know their line and column.

Every fault of a file is found in one go. The schema is closed: a key that is not known is
a fault, because a misspelt key that is ignored is a baseline that is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import yaml

from pytest_gsw.errors import Fault, FileError
from pytest_gsw.tables.fields import LONGEST_NAME, Field, Fields, Nested, Sequence_, misspelt, nearest
from pytest_gsw.tables.nodes import NULL, compose, fault_at, pieces_behind, read_text

_Node = TypeVar("_Node", bound=yaml.Node)


class Value(NamedTuple):
    """A value and where it stands: a tuple, because a large selection has a hundred thousand of them."""

    #: ``None`` of a key that is blank, or wrong.
    value: Any
    mark: yaml.Mark

    @property
    def line(self) -> int:
        """Counts from 1."""
        return self.mark.line + 1

    @property
    def column(self) -> int:
        """Counts from 1."""
        return self.mark.column + 1


Values = Mapping[str, Value]

#: The place of a value whose place is not kept.
NOWHERE = yaml.Mark("", 0, 0, 0, None, 0)


def read_mapping(path: Path, fields: Fields) -> Values:
    """Read a YAML file whose top is a mapping with these keys.

    Scalars become what their :class:`Field` reads, nested mappings dictionaries of
    :class:`Value`, lists tuples of :class:`Value`.

    Raises:
        FileError: With every fault of the file.
    """
    return mapping_of(path, read_text(path), fields)


def mapping_of(path: Path, content: str, fields: Fields) -> Values:
    """What :func:`read_mapping` gives for this content of a file."""
    values, faults = mapping_with_faults(path, content, fields)
    if faults:
        raise FileError(path, tuple(faults))
    return values


def mapping_with_faults(path: Path, content: str, fields: Fields) -> tuple[Values, list[Fault]]:
    """The values of a file that may be wrong, and its faults; the value of a wrong key is ``None``.

    Raises:
        FileError: It is no YAML, or no mapping.
    """
    root = compose(path, content)
    faults: list[Fault] = []
    if not isinstance(root, yaml.MappingNode):
        problem = "is empty" if root is None else "wanted a mapping of keys at the top of the file"
        raise FileError(path, (Fault(1, 1, "", problem),))
    return _mapping(root, fields, "", faults), faults


def read_free_mapping(path: Path, key: str, fields: Fields) -> Mapping[str, Value]:
    """Read a YAML file with one top key that maps free names to such mappings; a FileError has every fault."""
    root = compose(path, read_text(path))
    faults: list[Fault] = []
    found: dict[str, Value] = {}
    if not isinstance(root, yaml.MappingNode) or [k.value for k, _ in root.value] != [key]:
        raise FileError(path, (Fault(1, 1, "", f"wanted one key '{key}' at the top of the file"),))
    names = root.value[0][1]
    if not isinstance(names, yaml.MappingNode):
        raise FileError(path, (fault_at(names, key, "wanted a mapping of names"),))
    for name_node, node in names.value:
        name = _key(name_node, key, faults)
        if name is None:
            continue
        if re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}", name) is None:
            wanted = f"a name of at most {LONGEST_NAME} letters, digits, '.', '_' and '-'"
            faults.append(fault_at(name_node, key, f"got '{name}', wanted {wanted}"))
        if name in found:
            faults.append(fault_at(name_node, f"{key}.{name}", "is there twice"))
        if isinstance(node, yaml.MappingNode):
            found[name] = _value(name_node, _mapping(node, fields, f"{key}.{name}", faults))
        else:
            faults.append(fault_at(node, f"{key}.{name}", "wanted a mapping of keys"))
    if faults:
        raise FileError(path, tuple(faults))
    return found


def _key(node: yaml.Node, path: str, faults: list[Fault]) -> str | None:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    faults.append(fault_at(node, path, "wanted a plain word as the key"))
    return None


def _mapping(
    node: yaml.MappingNode, fields: Fields, path: str, faults: list[Fault], required: Collection[str] | None = None
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    seen: set[str] = set()
    told = 0
    for at, (key_node, value_node) in enumerate(node.value):
        key = _key(key_node, path, faults) if at >= told else None
        if key is None:
            continue
        field = fields.get(key)
        if key in seen:
            faults.append(fault_at(key_node, _below(path, key), "is there twice"))
        elif field is None:
            pieces = pieces_behind(node, at)
            if pieces:
                fault, told = _cut(node, at - 1, pieces, fields, path), at + len(pieces)
                # In the place of what is said of the first piece alone.
                if faults and (faults[-1].line, faults[-1].column) == (fault.line, fault.column):
                    faults.pop()
                faults.append(fault)
                continue
            faults.append(fault_at(key_node, _below(path, key), f"unknown key{nearest(key, fields)}"))
            for meant in misspelt(key, fields):  # it is not missing as well
                values.setdefault(meant, _value(key_node, None))
        elif isinstance(field, Field):
            try:
                values[key] = Value(_scalar(value_node, field), value_node.start_mark)
            except ValueError as error:
                faults.append(fault_at(value_node, _below(path, key), str(error)))
                values[key] = _value(value_node, None)
        else:
            values[key] = _read(value_node, field, _below(path, key), faults) or _value(value_node, None)
        seen.add(key)
    missing = [key for key in (_required(fields) if required is None else required) if key not in seen]
    faults += [fault_at(node, path, f"missing '{key}'") for key in missing]
    return values


def _cut(node: yaml.MappingNode, at: int, pieces: Collection[str], fields: Fields, path: str) -> Fault:
    """The fault of a value that commas have cut."""
    key, value = node.value[at]
    field, whole = fields.get(key.value), ",".join([str(value.value), *pieces])
    problem = f"got '{whole}', of which a comma ends the value; put it into quotes"
    if isinstance(field, Field):
        try:
            field.read(whole)
        except ValueError as error:
            problem = str(error)
    return fault_at(value, _below(path, key.value), problem)


def _required(fields: Fields) -> tuple[str, ...]:
    return tuple(key for key, field in fields.items() if field.required)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _read(node: yaml.Node, field: Nested | Sequence_, path: str, faults: list[Fault]) -> Value | None:
    if isinstance(field, Nested):
        if not isinstance(node, yaml.MappingNode):
            faults.append(fault_at(node, path, "wanted a mapping of keys"))
            return None
        if field.fields is not None:
            return _value(node, _mapping(node, field.fields, path, faults))
        if field.each is not None:
            return _value(node, _named(node, field, field.each, path, faults))
        return _value(node, _texts(node, field, path, faults))
    if not isinstance(node, yaml.SequenceNode):
        faults.append(fault_at(node, path, "wanted a list"))
        return None
    if field.required and not node.value:
        faults.append(fault_at(node, path, "is empty, wanted at least one entry"))
        return None
    if isinstance(field.item, Field):
        return _value(node, tuple(_listed(node, field.item, path, faults)))
    if isinstance(field.item, Nested):
        read = (_read(item, field.item, f"{path}[{number}]", faults) for number, item in enumerate(node.value))
        return _value(node, tuple(item for item in read if item is not None))
    items = []
    required = _required(field.item or {})
    for number, item in enumerate(node.value):
        item_path = f"{path}[{number}]"
        if field.item is None and isinstance(item, yaml.ScalarNode):
            items.append(_value(item, item.value))
        elif field.item is not None and isinstance(item, yaml.MappingNode):
            items.append(_value(item, _mapping(item, field.item, item_path, faults, required)))
        else:
            faults.append(fault_at(item, item_path, f"wanted a {'text' if field.item is None else 'mapping'}"))
            items.append(_value(item, None))
    return _value(node, tuple(items))


def _listed(node: yaml.SequenceNode, field: Field, path: str, faults: list[Fault]) -> Iterator[Any]:
    """The values of a list that are right, each once."""
    seen: set[str] = set()
    for number, item in enumerate(node.value):
        try:
            value = _scalar(item, field)
            if item.value in seen:
                raise ValueError(f"'{item.value}' is there twice")  # noqa: TRY301 - told as every fault of a value is
        except ValueError as error:
            faults.append(fault_at(item, f"{path}[{number}]", str(error)))
        else:
            seen.add(item.value)
            yield value


#: By the kind of its values: what the names of a mapping are made of, and what each value is to be.
_OF_KIND: Mapping[type[yaml.Node], tuple[str, str]] = {
    yaml.MappingNode: ("a-z, 0-9", "a mapping of keys"),
    yaml.SequenceNode: ("a-z, 0-9", "a list"),
    yaml.ScalarNode: ("letters, digits", "a text"),
}


def _entries(
    node: yaml.MappingNode, kind: type[_Node], field: Nested, path: str, faults: list[Fault]
) -> Iterator[tuple[str, str, _Node]]:
    """Key, path and value of each entry of a mapping whose name is free and right and whose value is of a kind."""
    letters, wanted = _OF_KIND[kind]
    seen: set[str] = set()
    for key_node, value_node in node.value:
        key = _key(key_node, path, faults)
        if key is None:
            continue
        key_path = f"{path}.{key}"
        if re.fullmatch(field.names, key) is None:
            name = field.wanted or f"a name of {letters} and '_'"
            faults.append(fault_at(key_node, key_path, f"wanted {name}"))
        elif not isinstance(value_node, kind):
            faults.append(fault_at(value_node, key_path, f"wanted {wanted}"))
        elif key in seen:
            faults.append(fault_at(key_node, key_path, "is there twice"))
        else:
            yield key, key_path, value_node
        seen.add(key)


def _named(
    node: yaml.MappingNode, field: Nested, each: Fields | Sequence_, path: str, faults: list[Fault]
) -> dict[str, Any]:
    """A mapping of free names to mappings with these keys, or to lists; a list that is wrong is ``None``."""
    if isinstance(each, Sequence_):
        lists = _entries(node, yaml.SequenceNode, field, path, faults)
        return {key: _read(value, each, key_path, faults) for key, key_path, value in lists}
    entries = _entries(node, yaml.MappingNode, field, path, faults)
    return {key: _mapping(value, each, key_path, faults) for key, key_path, value in entries}


def _texts(node: yaml.MappingNode, field: Nested, path: str, faults: list[Fault]) -> dict[str, str]:
    """A mapping of free names to texts; booleans and numbers keep the spelling of the file."""
    texts: dict[str, str] = {}
    for key, key_path, value in _entries(node, yaml.ScalarNode, field, path, faults):
        try:
            texts[key] = field.read(value.value)
        except ValueError as error:
            faults.append(fault_at(value, key_path, str(error)))
    return texts


def _scalar(node: yaml.Node, field: Field) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"wanted {field.wanted}")  # noqa: TRY004 - of the text, as all that a field refuses
    if node.tag == NULL:
        if field.may_be_blank:
            return None
        advice = "" if field.required else "; leave the key out where there is none"
        raise ValueError(f"is empty, wanted {field.wanted}{advice}")
    return field.read(node.value)


def _value(node: yaml.Node, value: Any) -> Value:
    return Value(value, node.start_mark)


@dataclass(frozen=True)
class Stated:
    """One value as written (``52.59%``, ``1.82E+15``), and where (line and column from 1)."""

    text: str
    line: int
    column: int


#: A file as it is spelt: mappings and lists of scalars that know their places.
Spelt: TypeAlias = "Stated | Mapping[str, Spelt] | Sequence[Spelt]"


def read_spelling(path: Path) -> Spelt:
    """The texts of a YAML file, digit for digit: ``52.50`` is not 52.5 here; a FileError where it is no YAML."""
    root = compose(path, read_text(path))
    return {} if root is None else _spelt(root)


def _spelt(node: yaml.Node) -> Spelt:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _spelt(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_spelt(item) for item in node.value]
    place = _value(node, None)
    return Stated(str(node.value), place.line, place.column)
