"""The common parts of all pages: their frame, tables, lists of facts and commands.

Jenkins shows reports with ``default-src 'none'; img-src 'self'; style-src 'self'`` in a sandbox: no script runs, no
element has a style, and no link opens a window. Each colour has a word or a sign with it.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from html import escape
from typing import TypeAlias

from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import calendar, shortened
from pytest_gsw.reports import reported_row, run_report, texts
from pytest_gsw.results.attention import BY_KIND, Attention
from pytest_gsw.results.record import Record

#: The columns for which most phones have room.
_NARROW = 4
#: The most nodes of a list that are links to their own pages.
_NAMED_NODES = 4
#: The address of the list of all nodes.
NODES = "nodes.html"
#: The class of cells of numbers.
NUMBER = "number"


def page(title: str, main: Iterable[Content], links: Sequence[tuple[str, str]], *, here: str = "") -> ET.Element:
    """A whole page; its addresses are relative to the report's directory."""
    named = [
        element("li", element("a", name, href=address, aria_current="page" if address == here else None))
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
            element("link", rel="stylesheet", href="report.css"),
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
    """A table that scrolls by itself if it is wider than the page; nothing if it has no lines.

    Its name is unique on the page. Headings of numbers have a leading ">", or their class. The first cell of a line is
    its head; of the others, an element that is a cell stays as it is.
    """
    numeric = [head.startswith(">") if isinstance(head, str) else _is_number(head) for head in heads]
    heads = [head.removeprefix(">") if isinstance(head, str) else head for head in heads]
    body = [
        element("tr", _cell(first, "th", scope="row"), *map(_cell_of_column, rest, numeric[1:]))
        for first, *rest in lines
    ]
    if not body:
        return None
    columns = (
        element("th", head, scope="col", class_=NUMBER if is_number else None)
        for head, is_number in zip(heads, numeric, strict=True)
    )
    return element(
        "div",
        element(
            "table",
            element("caption", element("span", caption), id=f"{name}-caption"),
            element("thead", element("tr", *columns)),
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


def _is_number(head: ET.Element | None) -> bool:
    return head is not None and head.get("class") == NUMBER


def _cell_of_column(content: Content, is_number: bool) -> ET.Element:
    cell = _cell(content)
    if is_number:
        cell.set("class", f"{cell.get('class', '')} {NUMBER}".lstrip())
    return cell


def several(text: str) -> Content:
    """A cell of a table; in a list, each thing has a line."""
    return element("td", text.replace(", ", ",\n"), class_="lines") if ", " in text else text


def listing(entries: Iterable[ET.Element], kind: str = "rows") -> ET.Element | None:
    """A list; nothing without entries."""
    listed = element("ul", *entries, class_=kind)
    return listed if len(listed) else None


def section(name: str, heading: str, *contents: Content) -> ET.Element | None:
    """A part of a page under its heading; nothing if it is empty."""
    there = [content for content in contents if content is not None]
    if not there:
        return None
    return element("section", element("h2", heading, id=name), *there)


def folded(summary: str, *contents: Content) -> ET.Element | None:
    """Contents under their summary; nothing without contents."""
    there = [content for content in contents if content is not None]
    return element("details", element("summary", summary), *there) if there else None


def fact_list(facts: Iterable[tuple[str, Content]]) -> ET.Element | None:
    """Facts with their names, without empty ones."""
    there = ((name, value) for name, value in facts if value is not None and value != "")
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in there]
    return element("dl", *pairs, class_="facts") if pairs else None


def command_line(text: str) -> ET.Element:
    """A command to be copied."""
    return element("pre", element("code", text), class_="command")


def command_list(listed: Iterable[tuple[str, str]]) -> ET.Element | None:
    """Commands, each after its purpose; nothing if there are none."""
    pairs = [element("div", element("dt", what), element("dd", command_line(text))) for what, text in listed]
    return element("dl", *pairs, class_="commands") if pairs else None


def sign(kind: str) -> ET.Element:
    """The sign of a kind of row, for readers who see it: a word is next to it."""
    return element("span", BY_KIND[kind].sign, aria_hidden="true")


def kind_cell(needs: Attention) -> ET.Element:
    """A cell with the sign and the word of a kind of row."""
    return element("td", sign(needs.kind), f" {needs.word}", class_=needs.kind)


def change(row: reported_row.ReportedRow) -> ET.Element | None:
    """The change of a row's throughput against its reference."""
    metric, reference, shown = row.record.judged_metric, row.record.reference, texts.percent(row.record.change)
    of = "vs document" if reference == "documented" else f"vs {reference}"
    return element("strong", f"{shown} {metric.change_label} {of}") if shown else None


def row_link(row: reported_row.ReportedRow) -> ET.Element:
    """A link to a row's page or section."""
    return element("a", row.record.row.id, href=row.address)


def node_links(nodes: str, report: run_report.RunReport) -> Content:
    """A node list of which each of a few nodes is a link to its page, and a longer one a link to all nodes."""
    names = expand(nodes.replace(", ", ","))
    if not any(name in report.nodes for name in names):
        return texts.shown_nodes(nodes)
    if len(names) > _NAMED_NODES:
        return element("a", texts.shown_nodes(nodes), href=NODES)
    links = (element("a", name, href=report.nodes.get(name)) for name in names)
    return element("span", *[part for link in links for part in (", ", link)][1:])


def node_cell(nodes: str, report: run_report.RunReport) -> Content:
    """A cell with the nodes of one job, or of several, a line each."""
    return several(texts.shown_nodes(nodes)) if ", " in nodes else node_links(nodes, report)


def simulated_note(records: Iterable[Record]) -> ET.Element | None:
    """A note that figures are made up, if any are."""
    if not any(record.run.simulated for record in records):
        return None
    return element("p", "This is a simulation: no GPU was used, the figures are made up.", class_="note")


def time_element(time_s: float) -> ET.Element:
    """A time, for people and for programs."""
    moment = calendar(time_s)
    if moment is None:
        return element("span", "at a time that is not known")
    return element("time", texts.minute(time_s), datetime=moment.isoformat(timespec="seconds"))


#: The contents of an element.
Content: TypeAlias = "ET.Element | str | None"

#: Elements without an end tag.
_EMPTY = frozenset({"br", "hr", "img", "link", "meta"})

#: The longest text on a page: a record of ten megabytes is no reason for a page of ten megabytes.
LONGEST_TEXT = 2000


def element(tag: str, /, *contents: Content, **attributes: str | float | None) -> ET.Element:
    """An element with its contents and attributes, without those that are ``None``.

    Names of attributes have ``_`` for ``-``, and one at the end if they are words of Python (``class_``).
    """
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(_name(name), _value(value))
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
    """A text fit for a page: of bounded length, without control characters that change its surroundings."""
    return shortened(printable(text), LONGEST_TEXT)


def html_text(root: ET.Element, up: str = "") -> str:
    """The text of a page; ``up`` is the path from its directory to the report's, of which its addresses are."""
    for part in root.iter() if up else ():
        if (address := part.get("href", "#")) and not address.startswith("#"):
            part.set("href", f"{up}{address}")
    parts = ["<!DOCTYPE html>\n"]
    _write(root, parts.append)
    return "".join([*parts, "\n"])


#: The attributes and texts of a page are mostly the same few.
_attribute, _text = lru_cache(maxsize=4096)(escape), lru_cache(maxsize=4096)(partial(escape, quote=False))


def _write(node: ET.Element, write: Callable[[str], object]) -> None:
    # ElementTree's own writer looks for a namespace in each name, which takes as long as all this.
    write(f"<{node.tag}")
    for name, value in node.items():
        write(f' {name}="{_attribute(value)}"')
    write(">")
    if node.tag not in _EMPTY:
        if node.text:
            write(_text(node.text))
        for child in node:
            _write(child, write)
        write(f"</{node.tag}>")
    if node.tail:
        write(_text(node.tail))


def _value(value: str | float) -> str:
    return plain(value) if isinstance(value, str) else f"{value:.7g}"


@lru_cache
def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
