"""Trees of elements for pages and pictures: what is put into one is text, and no text becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import lru_cache
from html import escape
from typing import TypeAlias

from pytest_gsw.common.redact import printable
from pytest_gsw.common.words import shortened

#: What an element may hold.
Content: TypeAlias = "ET.Element | str | None"

#: What has no end, and nothing in it.
_EMPTY = frozenset({"br", "hr", "img", "link", "meta"})

#: No text of a page is longer: a record of ten megabytes is no reason for a page of ten megabytes.
LONGEST_TEXT = 2000


def element(tag: str, /, *contents: Content, **attributes: str | float | None) -> ET.Element:
    """An element with its contents; of these and of its attributes ``None`` is left out.

    Names of attributes have ``_`` for ``-``, and one at the end where they are words of Python (``class_``).
    """
    made = ET.Element(tag, {_name(name): _value(value) for name, value in attributes.items() if value is not None})
    last: ET.Element | None = None
    for content in contents:
        if isinstance(content, ET.Element):
            made.append(content)
            last = content
        elif content is not None and last is None:
            made.text = (made.text or "") + plain(content)
        elif content is not None and last is not None:
            last.tail = (last.tail or "") + plain(content)
    return made


def plain(text: str) -> str:
    """A text fit for a page: nothing that changes how what stands beside it is read, and of bounded length."""
    return shortened(printable(text), LONGEST_TEXT)


def html_text(root: ET.Element) -> str:
    """The text of a page."""
    return f"<!DOCTYPE html>\n{markup(root)}\n"


def markup(root: ET.Element) -> str:
    """An element as it stands in a page."""
    parts: list[str] = []
    _write(root, parts.append)
    return "".join(parts)


def _write(one: ET.Element, write: Callable[[str], object]) -> None:
    # ElementTree's own looks for a namespace in each of its names, which takes as long as all this.
    write(f"<{one.tag}")
    for name, value in one.items():
        write(f' {name}="{escape(value)}"')
    write(">")
    if one.tag not in _EMPTY:
        if one.text:
            write(escape(one.text, quote=False))
        for child in one:
            _write(child, write)
        write(f"</{one.tag}>")
    if one.tail:
        write(escape(one.tail, quote=False))


def _value(value: str | float) -> str:
    return plain(value) if isinstance(value, str) else f"{value:.7g}"


@lru_cache
def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
