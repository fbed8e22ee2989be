"""A YAML file becomes nodes that know their places: the first half of the only door to PyYAML.

What no table can be is refused here: what is too large, too deep, or holds what is not seen.
"""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.errors import Fault, FileError

# The C loader is ten times as fast; PyYAML has it wherever libyaml was there when it was built.
if TYPE_CHECKING:
    _FastLoader = yaml.SafeLoader
else:
    _FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NULL = "tag:yaml.org,2002:null"
#: How YAML spells that there is no value.
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
    """Composes nodes that are not nested too deeply; a tag says no more than what the YAML says by itself."""

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
        """The tag of a node that has none: fields read the text itself, and ask only whether there is a value."""
        if kind is yaml.ScalarNode:
            return NULL if implicit[0] and value in NULLS else self.DEFAULT_SCALAR_TAG
        return self.DEFAULT_SEQUENCE_TAG if kind is yaml.SequenceNode else self.DEFAULT_MAPPING_TAG


def read_text(path: Path) -> str:
    """The content of a YAML file; a FileError where it cannot be read, is too large, or is no text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FileError(path, (Fault(1, 1, "", f"is larger than {MAX_BYTES} bytes; this is no table"),))
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise FileError(path, (Fault(1, 1, "", f"cannot be read: {error.strerror}"),)) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FileError(path, (Fault(line, 1, "", "is not UTF-8 text"),)) from error


def compose(path: Path, content: str) -> yaml.Node | None:
    """The file's node graph, which knows line and column of everything."""
    try:
        has_aliases = not _is_plain(content) and _check_events(path, content)
        node: yaml.Node | None = yaml.compose(content, Loader=_Loader)
    except _TooDeepError:
        _check_events(path, content)
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        if "maximum nesting depth" in said:  # libyaml's own limit, met ahead of ours, in search of a key's end
            with contextlib.suppress(yaml.YAMLError):
                _check_events(path, content, yaml.SafeLoader)
        raise FileError(path, (Fault(line, column, "", f"is not YAML: {said}"),)) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise FileError(path, (Fault(1, 1, "", f"is not YAML: {error}".splitlines()[0]),)) from None
    if has_aliases and _count(node, {}) > MAX_VALUES:
        problem = f"has more than {MAX_VALUES:,} values once its aliases are written out"
        raise FileError(path, (Fault(1, 1, "", problem),))
    return node


def _is_plain(content: str) -> bool:
    """Whether a look at its letters tells that no scalar holds what is not seen, and that there is no alias."""
    if "\\" in content or "*" in content:
        return False
    return (content.isascii() and content.replace("\n", "").isprintable()) or UNSAFE.search(content) is None


def _check_events(path: Path, content: str, loader: Any = _Loader) -> bool:
    """Refuse what is nested too deeply to be composed, and control characters; whether there are aliases."""
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
    """How many values a node is with its aliases written out; more than allowed where it holds itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = MAX_VALUES + 1  # what an alias inside of it to itself is worth
        pairs = isinstance(node, yaml.MappingNode)
        children = [child for pair in node.value for child in pair] if pairs else node.value
        counts[id(node)] = min(1 + sum(_count(child, counts) for child in children), MAX_VALUES + 1)
    return counts[id(node)]


def pieces_behind(node: yaml.MappingNode, at: int) -> list[str]:
    """What stands behind commas of the value before a key: YAML ends values there, as in ``{step_time_s: 4,324}``."""
    pieces: list[str] = []
    end = node.value[at - 1][1].end_mark.index if at and node.flow_style else None
    for key, value in itertools.islice(node.value, at, None):
        is_empty = isinstance(value, yaml.ScalarNode) and value.start_mark.index == value.end_mark.index
        if end is None or key.start_mark.index != end + 1 or not is_empty or not isinstance(key, yaml.ScalarNode):
            break
        pieces.append(key.value)
        end = key.end_mark.index
    return pieces


def fault_at(place: yaml.Node | yaml.Event, key: str, problem: str) -> Fault:
    """A fault at a node of a file."""
    mark = place.start_mark
    assert mark is not None  # everything that comes from a file has its place in it
    return Fault(mark.line + 1, mark.column + 1, _one_line(key), _one_line(problem))


def _one_line(text: str) -> str:
    """A text with something of the file in it as one printable line: it goes to terminals and CI servers."""
    short = text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)
