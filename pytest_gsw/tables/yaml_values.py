"""Values of a YAML file with their line and column.

Every fault of a file is found in one go. The schema is closed: an unknown key is a fault, because an ignored misspelt
key is a baseline that is not checked.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml

from pytest_gsw.common.files import read_bounded
from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.errors import Fault, FileError
from pytest_gsw.tables.value_types import Field, Fields, Nested, Sequence_, misspelt, nearest

# -- A YAML file becomes nodes with their places: the first half of the only use of PyYAML ----------

# Contents that no table can have are refused here: too large, too deep, or with invisible characters.


# The C loader is ten times as fast; PyYAML has it if libyaml was there when it was built.
if TYPE_CHECKING:
    _FastLoader = yaml.SafeLoader
else:
    _FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NULL = "tag:yaml.org,2002:null"
#: Spellings of a missing value in YAML.
NULLS = frozenset({"", "~", "null", "Null", "NULL"})

#: A table of ten thousand rows is two megabytes; anything larger is not a table.
MAX_BYTES = 64 * 1024 * 1024
#: The schema needs seven levels. libyaml's composer recurses in C, where ten thousands of levels end the process.
MAX_DEPTH = 20
#: Values of one file with its aliases written out: a few lines of aliases of aliases make billions.
MAX_VALUES = 1_000_000


class _TooDeepError(Exception):
    """A file is nested more deeply than a table can be."""


class _Loader(_FastLoader):
    """Composes nodes that are not nested too deeply; tags have no effect."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def descend_resolver(self, current_node: yaml.Node, current_index: int) -> None:
        """Called for each node before it is composed."""
        self._depth += 1
        if self._depth > MAX_DEPTH + 1:  # one more for a scalar in the deepest collection
            raise _TooDeepError

    def ascend_resolver(self) -> None:
        """Called for each node after it was composed."""
        self._depth -= 1

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """The tag of a node without one: fields read the text itself, and need only a missing value's tag."""
        if kind is yaml.ScalarNode:
            return NULL if implicit[0] and value in NULLS else self.DEFAULT_SCALAR_TAG
        return self.DEFAULT_SEQUENCE_TAG if kind is yaml.SequenceNode else self.DEFAULT_MAPPING_TAG


def read_text(path: Path) -> str:
    """The content of a YAML file; a FileError if it cannot be read, is too large, or is no text."""
    try:
        return read_bounded(path, MAX_BYTES).decode("utf-8")
    except OSError as error:
        is_large = error.errno == errno.EFBIG
        why = f"is larger than {MAX_BYTES} bytes; this is no table" if is_large else f"cannot be read: {error.strerror}"
        raise FileError(path, (Fault(1, 1, "", why),)) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FileError(path, (Fault(line, 1, "", "is not UTF-8 text"),)) from error


def compose(path: Path, content: str) -> yaml.Node | None:
    """The file's node graph, with line and column of everything."""
    # The letters of most files show that no scalar holds invisible characters, and that there is no alias.
    is_shown = (content.isascii() and content.replace("\n", "").isprintable()) or UNSAFE.search(content) is None
    is_plain = is_shown and "\\" not in content and "*" not in content
    try:
        has_aliases = not is_plain and _check_events(path, content)
        node: yaml.Node | None = yaml.compose(content, Loader=_Loader)
    except _TooDeepError:
        _check_events(path, content)
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = _syntax_problem(content, line, error)
        if "maximum nesting depth" in message:  # libyaml's own limit, met ahead of ours, in search of a key's end
            with contextlib.suppress(yaml.YAMLError):
                _check_events(path, content, yaml.SafeLoader)
        raise FileError(path, (Fault(line, column, "", f"is not YAML: {message}"),)) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise FileError(path, (Fault(1, 1, "", f"is not YAML: {error}".splitlines()[0]),)) from None
    if has_aliases and _count(node, {}) > MAX_VALUES:
        problem = f"has more than {MAX_VALUES:,} values once its aliases are written out"
        raise FileError(path, (Fault(1, 1, "", problem),))
    return node


#: Problems of a text without quotes that holds characters of YAML itself, as of ``{stage: /data/{recipe}}``.
_OF_PLAIN_TEXT = ("mapping values", "while parsing a flow", "while scanning for the", "while scanning an alias")
_QUOTES = "; a text with ': ', braces or brackets, or with @, %, & or * in front needs quotes"


def _syntax_problem(content: str, line: int, error: yaml.MarkedYAMLError) -> str:
    """YAML's own message, with the line in which the cause may be; a tab is the cause itself."""
    text = "".join(content.splitlines()[line - 1 : line])
    if re.match(r" *\t", text):
        return f"line {line} is indented with a tab, indent it with spaces"
    message = " ".join(str(part) for part in (error.context, error.problem) if part)
    if message.startswith("while") and error.context_mark and error.context_mark.line + 1 < line:
        return f"{message}; it begins in line {error.context_mark.line + 1}"
    if message.startswith("mapping values") and text.count(":") == 1:
        return f"{message}; compare the indentation with line {line - 1}, in which a colon may lack the space behind it"
    return f"{message}{_QUOTES}" if message.startswith(_OF_PLAIN_TEXT) else message


def _check_events(path: Path, content: str, loader: Any = _Loader) -> bool:
    """Refuse nesting that is too deep to compose, and control characters; true if there are aliases."""
    depth, has_aliases = 0, False
    for event in yaml.parse(content, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise FileError(path, (fault_at(event, "", "is nested too deeply"),))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            has_aliases = True
        elif isinstance(event, yaml.ScalarEvent) and (unsafe := UNSAFE.search(event.value)) is not None:
            # YAML writes them as "\e" or "\0": no screen, no report and no process may get them.
            problem = f"holds U+{ord(unsafe[0]):04X}, which is not seen but changes what is; leave it out"
            raise FileError(path, (fault_at(event, "", problem),))
    return has_aliases


def _count(node: yaml.Node | None, counts: dict[int, int]) -> int:
    """Number of values in a node with its aliases written out; more than allowed if it contains itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = MAX_VALUES + 1  # the count of an alias inside of it to itself
        pairs = isinstance(node, yaml.MappingNode)
        children = [child for pair in node.value for child in pair] if pairs else node.value
        counts[id(node)] = min(1 + sum(_count(child, counts) for child in children), MAX_VALUES + 1)
    return counts[id(node)]


def fault_at(place: yaml.Node | yaml.Event, key: str, problem: str) -> Fault:
    """A fault at a node of a file."""
    mark = place.start_mark
    assert mark is not None  # everything that comes from a file has its place in it
    return Fault(mark.line + 1, mark.column + 1, _one_line(key), _one_line(problem))


def _one_line(text: str) -> str:
    """A text from the file as one printable line: it goes to terminals and CI servers."""
    short = text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


class Value(NamedTuple):
    """A value and its place: a tuple, because a large selection has a hundred thousand of them."""

    #: ``None`` for a key that is blank, or wrong.
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


def mark_at(line: int, column: int) -> yaml.Mark:
    """A place in a file that no parser has read; counts from 0."""
    return yaml.Mark("", 0, line, column, None, 0)


#: The place of a value without a place of its own.
NOWHERE = mark_at(0, 0)


def read_mapping(path: Path, fields: Fields, content: str | None = None) -> Values:
    """Read a YAML file whose top is a mapping with these keys, or this content in its place.

    Scalars become the results of their :class:`Field`, nested mappings dictionaries of :class:`Value`, lists tuples of
    :class:`Value`.

    Raises:
        FileError: With every fault of the file.
    """
    values, faults = mapping_with_faults(path, read_text(path) if content is None else content, fields)
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
    keys = [str(key.value) for key, _ in root.value]
    if not any(key in fields or misspelt(key, fields) for key in keys):
        wanted = ", ".join(_required_keys(fields) or fields)
        problem = f"is of another kind, by its keys {', '.join(keys[:5])}: wanted {wanted}"
        raise FileError(path, (fault_at(root, "", problem),))
    return _mapping(root, fields, "", faults), faults


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
    for key_node, value_node in node.value:
        key = _key(key_node, path, faults)
        if key is None:
            continue
        field = fields.get(key)
        if isinstance(field, (Nested, Sequence_)) and field.short and isinstance(value_node, yaml.ScalarNode):
            field = field.short
        if key in seen:
            faults.append(fault_at(key_node, _below(path, key), "is there twice"))
        elif field is None:
            near = "; a comma ends the value before it" if key[:1].isdigit() else nearest(key, fields)
            faults.append(fault_at(key_node, _below(path, key), f"unknown key{near}"))
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
    missing = [key for key in (_required_keys(fields) if required is None else required) if key not in seen]
    faults += [fault_at(node, path, f"missing '{key}'") for key in missing]
    return values


def _required_keys(fields: Fields) -> tuple[str, ...]:
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
        return _value(node, _read_free_names(node, field, path, faults))
    if not isinstance(node, yaml.SequenceNode):
        faults.append(fault_at(node, path, "wanted a list"))
        return None
    if field.required and not node.value:
        faults.append(fault_at(node, path, "is empty, wanted at least one entry"))
        return None
    if isinstance(field.item, Field):
        return _value(node, tuple(_list_values(node, field.item, path, faults)))
    if isinstance(field.item, Nested):
        read = (_read(item, field.item, f"{path}[{number}]", faults) for number, item in enumerate(node.value))
        return _value(node, tuple(item for item in read if item is not None))
    items = []
    required = _required_keys(field.item or {})
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


def _list_values(node: yaml.SequenceNode, field: Field, path: str, faults: list[Fault]) -> Iterator[Any]:
    """The valid values of a list, each once."""
    seen: set[str] = set()
    for number, item in enumerate(node.value):
        try:
            value = _scalar(item, field)
            if item.value in seen:
                raise ValueError(f"'{item.value}' is there twice")  # noqa: TRY301 - reported like every fault of a value
        except ValueError as error:
            faults.append(fault_at(item, f"{path}[{number}]", str(error)))
        else:
            seen.add(item.value)
            yield value


def _read_free_names(node: yaml.MappingNode, field: Nested, path: str, faults: list[Fault]) -> dict[str, Any]:
    """A mapping of free names to mappings with these keys, to lists (``None`` if wrong), or to texts as spelt."""
    are_texts = field.each is None
    kind: Any = yaml.ScalarNode if are_texts else yaml.MappingNode
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for key_node, value in node.value:
        key = _key(key_node, path, faults)
        if key is None:
            continue
        key_path = f"{path}.{key}"
        if re.fullmatch(field.names, key) is None:
            name = field.wanted or f"a name of {'letters, digits' if are_texts else 'a-z, 0-9'} and '_'"
            faults.append(fault_at(key_node, key_path, f"wanted {name}"))
        elif key in seen:
            faults.append(fault_at(key_node, key_path, "is there twice"))
        elif isinstance(field.each, (Nested, Sequence_)):
            found[key] = _read(value, field.each, key_path, faults)
        elif not isinstance(value, kind):
            faults.append(fault_at(value, key_path, f"wanted {'a text' if are_texts else 'a mapping of keys'}"))
        elif field.each is not None:
            found[key] = _mapping(value, field.each, key_path, faults)
        else:
            try:
                found[key] = field.read(value.value)
            except ValueError as error:
                faults.append(fault_at(value, key_path, str(error)))
        seen.add(key)
    return found


def _scalar(node: yaml.Node, field: Field) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"wanted {field.wanted}")  # noqa: TRY004 - a field refuses a text with a ValueError
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
    """One value as written (``52.59%``, ``1.82E+15``), and its line and column (from 1)."""

    text: str
    line: int
    column: int


#: A file as spelt: mappings and lists of scalars with their places.
Spelt: TypeAlias = "Stated | Mapping[str, Spelt] | Sequence[Spelt]"


def read_spelling(path: Path) -> Spelt:
    """The texts of a YAML file, digit for digit: ``52.50`` is not 52.5 here; a FileError if it is no YAML."""
    root = compose(path, read_text(path))
    return {} if root is None else _to_spelling(root)


def _to_spelling(node: yaml.Node) -> Spelt:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _to_spelling(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_to_spelling(item) for item in node.value]
    place = _value(node, None)
    return Stated(str(node.value), place.line, place.column)
