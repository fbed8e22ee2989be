"""What all pages share: their frame, tables, lists of facts and commands.

Jenkins shows reports with ``default-src 'none'; img-src 'self'; style-src 'self'`` in a sandbox: no script runs, no
style stands in an element, and no link opens a window. What is said by a colour is said by a word or a sign as well.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from html import escape
from typing import TypeAlias

from pytest_gsw.common.redact import printable
from pytest_gsw.common.words import shortened
from pytest_gsw.reports.html.texts import minute, moment, percent
from pytest_gsw.reports.run_report import Row
from pytest_gsw.results.attention import BY_KIND
from pytest_gsw.results.record import Record

#: Columns that a phone has room for, mostly.
_NARROW = 4


def page(
    title: str, main: Iterable[Content], links: Sequence[tuple[str, str]], *, here: str = "", root: str = ""
) -> ET.Element:
    """A whole page."""
    named = [
        element("li", element("a", name, href=f"{root}{address}", aria_current="page" if address == here else None))
        for name, address in links
    ]
    return element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            element("link", rel="stylesheet", href=f"{root}report.css"),
        ),
        element(
            "body",
            element("a", "Skip to the content", href="#main", class_="skip"),
            element("header", element("nav", element("ul", *named), aria_label="Report")),
            element("main", *main, id="main"),
            element("footer", element("p", "pytest-gsw")),
        ),
        lang="en",
    )


def table(name: str, caption: str, heads: Sequence[Content], lines: Iterable[Sequence[Content]]) -> ET.Element | None:
    """A table that is scrolled by itself where it is wider than the page; nothing where it has no lines.

    Its name is the only one such on the page. The first cell of a line is its head; of the others, an element that is a
    cell stays as it is.
    """
    body = [element("tr", _cell(first, "th", scope="row"), *(_cell(one) for one in rest)) for first, *rest in lines]
    if not body:
        return None
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption), id=f"{name}-caption"),
            element("thead", element("tr", *(element("th", head, scope="col") for head in heads))),
            element("tbody", *body),
        ),
        class_="scroll wide" if len(heads) > _NARROW else "scroll",
        role="region",
        aria_labelledby=f"{name}-caption",
        tabindex=0,
    )


def _cell(content: Content, tag: str = "td", **attributes: str) -> ET.Element:
    if isinstance(content, ET.Element) and content.tag == "td":
        return content
    return element(tag, content or None if isinstance(content, str) else content, **attributes)


def several(text: str) -> Content:
    """A cell of a table; where it lists several things, each has a line."""
    return element("td", text.replace(", ", ",\n"), class_="lines") if ", " in text else text


def section(name: str, heading: str, *contents: Content) -> ET.Element | None:
    """A part of a page under its heading; nothing where there is nothing in it."""
    there = [content for content in contents if content is not None]
    if not there:
        return None
    return element("section", element("h2", heading, id=name), *there)


def fact_list(facts: Iterable[tuple[str, str]]) -> ET.Element | None:
    """Facts with their names; those that are empty are left out."""
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts if value]
    return element("dl", *pairs, class_="facts") if pairs else None


def command_line(text: str) -> ET.Element:
    """A command to be copied."""
    return element("pre", element("code", text), class_="command")


def sign(kind: str) -> ET.Element:
    """The sign of a kind of row, for those who see it: a word stands beside."""
    return element("span", BY_KIND[kind].sign, aria_hidden="true")


def change(row: Row) -> ET.Element | None:
    """By how much a row's throughput differs from what it is held against."""
    return None if row.change is None else element("strong", f"{percent(row.change)} throughput")


def row_link(row: Row) -> ET.Element:
    """A link to a row's page, from beside the first one."""
    return element("a", row.record.row.id, href=f"rows/{row.name}.html")


def simulated_note(records: Iterable[Record]) -> ET.Element | None:
    """That figures are made up, where any are."""
    if not any(record.run.simulated for record in records):
        return None
    return element("p", "This is a simulation: no GPU was used, the figures are made up.", class_="note")


def time_element(time_s: float) -> ET.Element:
    """A time, for people and for programs."""
    found = moment(time_s)
    if found is None:
        return element("span", "at a time that is not known")
    return element("time", minute(time_s), datetime=found.isoformat(timespec="seconds"))


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
