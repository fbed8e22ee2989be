"""Tables of Markdown and HTML become cells with their places."""

from __future__ import annotations

import pytest

from pytest_gsw.importing.tables import MAX_PLACES, Cell, Document, parse_document, plain
from tests.endless import it_ends

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"
ROWS = [["a", "b"], ["1", "2"]]


def texts(document: Document) -> list[list[list[str]]]:
    return [[[cell.text for cell in row] for row in (table.header, *table.rows)] for table in document.tables]


def reasons(document: Document) -> list[tuple[int, str]]:
    return [(part.line, part.text) for part in document.left_out]


def test_cells_know_their_places() -> None:
    (table,) = parse_document(f"# Runs\n\ntext\n\n{TABLE}").tables
    assert table.header == (Cell("a", 5, 3), Cell("b", 5, 7))
    assert table.rows == ((Cell("1", 7, 3), Cell("2", 7, 7)),)
    assert (table.line, table.headings) == (5, (Cell("Runs", 1),))


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        "a | b\n---|---\n1 | 2\n",
        "| a | b\n|---|---|\n1 | 2 |\n",
        "  | a | b |\n  |:--|--:|\n  | 1 | 2 | | |\n",
        f"<details>\n\n{TABLE}</details>\n",
        "> | a | b |\n> |---|---|\n> | 1 | 2 |\n",
        TABLE.replace("\n", "\r\n"),
        "| **a** | `b` |\n|---|---|\n| [1](https://x.org/1) | ***2***[^note] |\n",
    ],
)
def test_ways_to_write_one_table(text: str) -> None:
    assert texts(parse_document(text)) == [ROWS]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("1<sup>2</sup>", "1^2"),
        ("~~12~~", "~~12~~"),
        ("<del>12</del>", "~~12"),
        ("4.1*", "4.1*"),
        ("a<br>b", "a b"),
        ("x &lt; 3", "x < 3"),
        (r"a\|b", "a|b"),
        ("8.7  5", "8.7 5"),
    ],
)
def test_a_cell_is_its_words(cell: str, text: str) -> None:
    """What is raised, or struck out, makes no other number."""
    assert plain(cell) == text


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TABLE}```\n",
        f"~~~ text\n{TABLE}~~~\n",
        f"````\n```\n{TABLE}```\n````\n",
        f"<!--\n{TABLE}-->\n",
        f"<!-- a --><!-- \n{TABLE} -->",
        "a | b\n\n---\n",
    ],
)
def test_no_tables(text: str) -> None:
    assert texts(parse_document(text)) == []


def test_what_looks_like_a_comment_hides_nothing() -> None:
    assert texts(parse_document(f"a <!-- b\n\n{TABLE}")) == [ROWS]
    assert texts(parse_document(f"a `<table>` of runs\n\n{TABLE}")) == [ROWS]


def test_headings() -> None:
    text = f"Title\n=====\n\n## One ##\n\n### Deep\n\n{TABLE}\nTwo\n---\n\n{TABLE}\n# **Three**\n{TABLE}"
    headings = [[(one.text, one.line) for one in table.headings] for table in parse_document(text).tables]
    assert headings == [
        [("Title", 1), ("One", 4), ("Deep", 6)],
        [("Title", 1), ("Two", 12)],
        [("Three", 19)],
    ]


def test_two_tables_below_each_other_are_two() -> None:
    assert texts(parse_document(TABLE + TABLE)) == [ROWS, ROWS]


def test_a_row_with_another_number_of_cells_says_so() -> None:
    (table,) = parse_document("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n").tables
    assert [len(row) for row in table.rows] == [1, 3]


def test_a_header_that_its_delimiter_does_not_fit() -> None:
    document = parse_document("| a | b |\n|---|\n| 1 | 2 |\n")
    assert reasons(document) == [(1, "the line below the table's header has another number of cells")]


# ---- HTML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>",
        "<TABLE border=1>\n<TR><TH>a<TH>b\n<TR><TD>1<TD>2\n</TABLE>",
        "<table>\n<tr>\n\n<th>a</th>\n\n    <th>b</th>\n\n</tr>\n\n<tr>\n\n<td>\n\n1\n\n</td><td>**2**</td></tr></table>",
        "<center><table><tr><th>a</th><th>b</th></tr>\n<!-- <tr><td>9</td></tr> --><tr><td>1<td>2</table></center>",
        "> <table>\n> <tr><th>a</th><th>b</th></tr>\n> <tr><td>1</td><td>2</td></tr>\n> </table>",
        "<table><tr><th>a</th><th>b</th></tr><tr hidden><td>8</td><td>9</td></tr><tr><td>1</td><td>2</td></tr></table>",
    ],
)
def test_ways_to_write_one_html_table(text: str) -> None:
    assert texts(parse_document(text)) == [ROWS]


def test_cells_of_html_know_their_places() -> None:
    text = "# Runs\n\n<table>\n  <tr><th>a</th><th>b</th></tr>\n  <tr>\n    <td>1</td><td> <b>2.5</b></td>\n  </tr>\n</table>\n"
    (table,) = parse_document(text).tables
    assert table.header == (Cell("a", 4, 7), Cell("b", 4, 17))
    assert table.rows == ((Cell("1", 6, 5), Cell("2.5", 6, 15)),)


def test_marks_in_cells_of_html() -> None:
    text = "<table><tr><th>a<br>b</th></tr><tr><td>1<sup>2</sup></td></tr><tr><td>x &lt; <i>y</i></td></tr></table>"
    assert texts(parse_document(text)) == [[["a b"], ["1^2"], ["x < y"]]]


def test_a_merged_cell_is_in_each_place_that_it_covers() -> None:
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td rowspan=2>1</td><td>2</td><td>3</td></tr><tr><td colspan='2'>OOM</td></tr>"
        "<tr><td>5</td><td>6</td><td>7</td></tr></table>"
    )
    assert texts(parse_document(text)) == [[["a", "b", "c"], ["1", "2", "3"], ["1", "OOM", "OOM"], ["5", "6", "7"]]]


def test_a_number_over_several_columns_is_none_of_them() -> None:
    text = "<table><tr><th>a</th><th>b</th></tr><tr><td colspan=2>64</td></tr></table>"
    assert texts(parse_document(text))[0][1] == ["64 (over 2 columns)"] * 2


def test_a_row_that_has_lost_a_cell_is_short() -> None:
    """The merged cell behind the gap does not move to the left."""
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td>1</td><td>2</td><td rowspan=2>3</td></tr><tr><td>4</td></tr></table>"
    )
    assert texts(parse_document(text))[0][2] == ["4"]


def test_a_head_of_two_rows_is_one_header() -> None:
    text = (
        "<table><thead><tr><th rowspan=2>GPUs</th><th colspan=2>FP8</th></tr>"
        "<tr><th>x</th><th>y</th></tr></thead><tr><td>8</td><td>1</td><td>2</td></tr></table>"
    )
    assert texts(parse_document(text)) == [[["GPUs", "FP8 x", "FP8 y"], ["8", "1", "2"]]]


def test_a_caption_is_the_innermost_heading() -> None:
    table = "<table><caption>On H100</caption><tr><th>a</th></tr><tr><td>1</td></tr></table>"
    (found,) = parse_document(f"# A\n\n{table}\n").tables
    assert [one.text for one in found.headings] == ["A", "On H100"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<table><tr><td>1", "an HTML table that does not end"),
        ("<table><tr><td><table></table></td></tr></table>", "an HTML table with another one in it, or in its line"),
        ("<table></table>", "an HTML table without cells"),
        (
            "<table><tr>" + "<td colspan=1000 rowspan=0>x</td>" * 30 + "</tr></table>",
            f"an HTML table of more than {MAX_PLACES} cells",
        ),
    ],
)
def test_html_that_is_not_read(text: str, reason: str) -> None:
    assert reasons(parse_document(text)) == [(1, reason)]


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr>" + "<td>" * 200_000,
        "<table>\n" * 20_000,
        "<table>\n" * 5_000 + "</table>",
        "<table><tr>" + "<td rowspan=9>" * 20_000 + "</table>",
        "<!--" * 100_000,
        "|" * 20_000 + "\n" + "-|" * 20_000,
        ("| a" * 50 + "|\n") * 500,
        "[" * 50_000 + "](" * 50_000,
        "*a" * 100_000,
        "<" * 200_000,
        "# " * 100_000,
    ],
    ids=lambda text: text[:10],
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    with it_ends():
        parse_document(f"| a | b |\n|---|---|\n| {text} | 1 |\n{text}")
