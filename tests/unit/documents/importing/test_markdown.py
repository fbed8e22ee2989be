from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.documents.importing.markdown import Cell, Document, Unread, parse_document, read_document
from pytest_gsw.errors import ConfigurationError


def parse(text: str) -> Document:
    return parse_document("doc.md", text)


def texts(document: Document) -> list[list[list[str]]]:
    return [[[cell.text for cell in row] for row in (table.header, *table.rows)] for table in document.tables]


def test_a_table_with_its_places() -> None:
    (table,) = parse("# Title\n\n| a | b |\n|---|--:|\n| 1 | **2** |\n").tables
    assert table.header == (Cell("a", 3, 3), Cell("b", 3, 7))
    assert table.rows == ((Cell("1", 5, 3), Cell("2", 5, 7)),)
    assert (table.line, table.headings) == (3, ("Title",))


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "a | b\n---|---\n1 | 2",
        "| a | b\n|:-:|---|\n1|2|",
        "|a|b|\n|-|-|\n|\t1\t|  2 |",
    ],
)
def test_outer_pipes_may_be_missing(text: str) -> None:
    assert texts(parse(text)) == [[["a", "b"], ["1", "2"]]]


def test_cells_beyond_the_header_are_kept() -> None:
    assert texts(parse("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| 1 |\n")) == [[["a", "b"], ["1", "2", "3"], ["1"]]]


def test_a_table_right_behind_another() -> None:
    text = "x\na | b |\n---|---|\n1 | 2 |\nc | d |\n---|---|\n3 | 4 |\nprose goes on\n"
    assert texts(parse(text)) == [[["a", "b"], ["1", "2"]], [["c", "d"], ["3", "4"]]]


def test_a_delimiter_of_another_width() -> None:
    assert texts(parse("| a | b | c |\n|---|---|\n| 1 | 2 | 3 |\n")) == [[["a", "b", "c"], ["1", "2", "3"]]]


def test_marks_links_and_entities_in_cells() -> None:
    text = "| a | b |\n|---|---|\n| `x` [y](z) &amp; \\| <br>1 | _2_ |\n"
    assert texts(parse(text)) == [[["a", "b"], ["x y & |  1", "2"]]]


def test_what_is_struck_through_is_not_there() -> None:
    document = parse("| a | b |\n|---|---|\n| ~~1~~ 2 | <del>3</del> 4 |\n| ~~5~~ | ~~6~~ |\n")
    assert texts(document) == [[["a", "b"], ["2", "4"], ["", ""]]]
    assert document.unread == (Unread(4, "5", "is struck through", "row"),)


@pytest.mark.parametrize("cell", ["12<!-- 3 -->4", "12<td>4", "1~~9~~2", "12<b></b>4"])
def test_what_stands_between_digits_separates_them(cell: str) -> None:
    ((_, (found, _)),) = texts(parse(f"| a | b |\n|---|---|\n| {cell} | 2 |\n"))
    assert found in {"12 4", "1 2"}


def test_headings_and_captions() -> None:
    text = (
        "# A\n\n## B\n\n**Performance**\n\n16GB nodes:\n\n|a|b|\n|-|-|\n|1|2|\n\n32GB nodes:\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    first, second = parse(text).tables
    assert first.headings == second.headings == ("A", "B")
    assert first.captions == ("Performance", "16GB nodes")
    assert second.captions == ("Performance", "32GB nodes")


def test_tables_that_are_not_read() -> None:
    text = "```\n| a | b |\n|---|---|\n| 1 | 2 |\n<table>\n```\n\n| c | d | e |\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n"
    document = parse(text)
    assert document.tables == ()
    assert document.unread == (
        Unread(2, "a", "stands in a code block; tables there are not read"),
        Unread(5, "", "stands in a code block; tables there are not read"),
        Unread(8, "c", "has no row of dashes below a header"),
    )


def test_other_line_ends_and_marks_of_encodings(tmp_path: Path) -> None:
    path = tmp_path / "doc.md"
    for content in (b"\xef\xbb\xbf|a|b|\r\n|-|-|\r\n|1|2|\r\n", "|a|b|\n|-|-|\n|1|2|\n".encode("utf-16")):
        path.write_bytes(content)
        assert texts(read_document(path)) == [[["a", "b"], ["1", "2"]]]


def test_what_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_document(tmp_path / "none.md")
    assert str(caught.value) == f"{tmp_path / 'none.md'} cannot be read: No such file or directory"
    path = tmp_path / "binary.md"
    path.write_bytes(b"| a |\0")
    with pytest.raises(ConfigurationError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path} is no text: it holds NUL bytes"


def test_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "markdown_it":
            raise ImportError(name)
        return there(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigurationError) as caught:
        parse("| a |")
    assert (
        str(caught.value)
        == "reading Markdown needs markdown-it-py: pip install '.[import]' in a checkout of pytest-gsw"
    )


def test_text_outside_of_tables_is_told_by_kind() -> None:
    text = "Before\n\n# Runs\nWide\ntext\n| A | B |\n|---|---|\n| 1 | 2 |\n\n- point\n- other\n\n```\ncode\n```\n"
    blocks = [(block.kind, block.lines, block.section, block.level) for block in parse(text).blocks]
    assert blocks == [
        ("text", (1,), 0, 0),
        ("heading", (3,), 1, 1),
        ("text", (4, 5), 1, 0),
        ("text", (10,), 1, 0),
        ("text", (11,), 1, 0),
        ("code", (13, 14, 15), 1, 0),
    ]
