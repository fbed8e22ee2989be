"""Tables in HTML: cells with their places, spans, heads of several rows, and what hostile text costs."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gsw.documents.importing import markdown
from pytest_gsw.documents.importing.html_tables import MAX_CELLS, MAX_COLSPAN
from pytest_gsw.documents.importing.markdown import Cell, Document, Unread, parse_document
from tests.endless import it_ends


def parse(text: str, name: str = "doc.md") -> Document:
    return parse_document(name, text)


def texts(document: Document) -> list[list[list[str]]]:
    return [[[cell.text for cell in row] for row in (table.header, *table.rows)] for table in document.tables]


PLAIN = """\
# Runs

<table>
  <thead>
    <tr><th>GPUs</th><th>Step time (s)</th></tr>
  </thead>
  <tbody>
    <tr>
      <td>8</td>
      <td class="best"> <b>2.5</b></td>
    </tr>
  </tbody>
</table>

More prose.
"""


def test_cells_know_their_places() -> None:
    document = parse(PLAIN)
    (table,) = document.tables
    assert table.header == (Cell("GPUs", 5, 13), Cell("Step time (s)", 5, 26))
    assert table.rows == ((Cell("8", 9, 11), Cell("2.5", 10, 28)),)
    assert (table.line, table.headings, table.groups) == (5, ("Runs",), ())
    assert document.unread == ()
    assert 9 not in document.prose
    assert 15 in document.prose


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
        "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>",
        "<TABLE border=1>\n<TR><TH>a<TH>b\n<TR><TD>1<TD>2\n</TABLE>",
        "<table>\n<tr>\n\n<th>a</th>\n\n    <th>b</th>\n\n</tr>\n\n<tr>\n\n<td>\n\n1\n\n</td><td>**2**</td></tr></table>",
        "<center><table><tr><th>a</th><th>b</th></tr>\n<!-- <tr><td>9</td></tr> --><tr><td>1<td>2</table></center>",
        "> <table>\n> <tr><th>a</th><th>b</th></tr>\n> <tr><td>1</td><td>2</td></tr>\n> </table>",
    ],
)
def test_ways_to_write_one_table(text: str) -> None:
    assert texts(parse(text)) == [[["a", "b"], ["1", "2"]]]


def test_marks_and_entities_in_cells() -> None:
    text = (
        "<table><tr><th>a</th><th>b<br>c</th></tr><tr><td>1<sup>2</sup></td><td>x &lt; <code>y</code></td></tr></table>"
    )
    assert texts(parse(text)) == [[["a", "b c"], ["1^2", "x < y"]]]


def test_a_merged_cell_is_in_each_place_that_it_covers() -> None:
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td rowspan=2>1</td><td>2</td><td>3</td></tr><tr><td colspan='2'>OOM</td></tr>"
        "<tr><td>5</td><td>6</td><td>7</td></tr></table>"
    )
    assert texts(parse(text)) == [[["a", "b", "c"], ["1", "2", "3"], ["1", "OOM", "OOM"], ["5", "6", "7"]]]


def test_a_number_over_several_columns_is_none_of_them() -> None:
    text = (
        "<table><tr><th>GPUs</th><th>GBS</th></tr><tr><td colspan=2>64</td></tr><tr><td>1</td><td>2</td></tr></table>"
    )
    assert texts(parse(text))[0][1] == ["64"]
    text = text.replace("GPUs</th>", "GPUs</th><th>c</th>").replace("</tr><tr><td>1", "<td>3</td></tr><tr><td>1")
    assert texts(parse(text))[0][1] == ["64 (over 2 columns)", "64 (over 2 columns)", "3"]


@pytest.mark.parametrize("how", ["hidden", 'style="color: red; display:none"'])
def test_a_hidden_row_is_none(how: str) -> None:
    text = (
        f"<table><tr><th>a</th><th>b</th></tr><tr {how}><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>"
    )
    assert texts(parse(text)) == [[["a", "b"], ["3", "4"]]]


def test_a_row_that_has_lost_a_cell_is_short() -> None:
    """The merged cell behind the gap must not move to the left."""
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td>1</td><td>2</td><td rowspan=2>3</td></tr><tr><td>4</td></tr></table>"
    )
    assert texts(parse(text)) == [[["a", "b", "c"], ["1", "2", "3"], ["4"]]]


def test_a_head_of_two_rows() -> None:
    text = (
        "<table><thead><tr><th rowspan=2>GPUs</th><th colspan=2>FP8</th><th>BF16</th></tr>"
        "<tr><th>x</th><th>y</th><th>y</th></tr></thead><tr><td>8</td><td>1</td><td>2</td><td>3</td></tr></table>"
    )
    (table,) = parse(text).tables
    assert [cell.text for cell in table.header] == ["GPUs", "x", "y", "y"]
    assert table.groups == ("", "FP8", "FP8", "BF16")


def test_a_heading_within_a_table_is_one_cell() -> None:
    text = "<table><tr><th>a</th><th>b</th></tr><tr><th colspan=2>Llama</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert texts(parse(text)) == [[["a", "b"], ["Llama"], ["1", "2"]]]


def test_captions_of_tables() -> None:
    table = "<table><caption>Dense</caption><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    (found,) = parse(f"# A\n\n{table}\n").tables
    assert found.captions == ("Dense",)
    (found,) = parse("<details>\n<summary><b>On H100</b></summary>\n\n|a|b|\n|-|-|\n|1|2|\n\n</details>\n").tables
    assert found.captions == ("On H100",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<details>\n<summary>More</summary>\n|a|b|\n|-|-|\n|1|2|\n</details>\n", "doc.md"),
        ('<Tabs>\n<Tab title="H100">\n\n    |a|b|\n    |-|-|\n    |1|2|\n\n</Tab>\n</Tabs>\n', "doc.mdx"),
    ],
)
def test_tables_of_markdown_within_tags(text: str, name: str) -> None:
    assert texts(parse(text, name)) == [[["a", "b"], ["1", "2"]]]


@pytest.mark.parametrize(
    "text",
    [
        "<!--\n|a|b|\n|-|-|\n|1|2|\n-->\n",
        "<!-- <table><tr><th>a</th></tr><tr><td>1</td></tr></table> -->\n",
        "Use a `<table>` for that.\n\n    |a|b|\n    |-|-|\n    |1|2|\n",
    ],
)
def test_comments_and_code_hold_no_tables(text: str) -> None:
    assert parse(text).tables == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<table><tr><td>1</td></tr>\n", "is an HTML table that does not end"),
        ("<table><tr><td><table></table></td></tr></table>\n", "is an HTML table with a table in it"),
        (
            "<table><thead><tr><th>a</th><th>b</th></tr><tr><th>1</th><th>2</th><th>3</th></tr></thead></table>\n",
            "is an HTML table whose header's rows do not fit each other",
        ),
        (
            "<table><tr>" + "<td colspan=99999>1</td>" * (MAX_CELLS // MAX_COLSPAN) + "<td>2</td></tr></table>",
            f"is an HTML table of more than {MAX_CELLS} cells",
        ),
    ],
)
def test_tables_that_are_not_read(text: str, reason: str) -> None:
    document = parse(text + "\n|a|b|\n|-|-|\n|1|2|\n")
    assert document.unread == (Unread(1, "", reason),)
    assert len(document.tables) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "<table>\n" * 50_000,
        ("<table></table>" * 1_000 + "\n") * 50,
        "<table><tr>" + "<td rowspan=99999>\n" * 30_000,
        "<table>" + "<tr><td colspan=1000 rowspan=65534>x\n" * 20_000 + "</table>",
        "<table>" + "<tr><td rowspan=65534>x\n" * 20_000 + "</table>",
        "<!-- \n" * 100_000,
        "<table><tr><td \n" * 50_000,
        "<details>\n" + "<summary>\n" * 100_000,
        ("<table><tr><td>" + "*" * 3000 + "</table>\n") * 200,
        "<table><tr><td colspan=9999>8<td>1</table>\n\n" * 2_000,
        "<table><tr><td colspan=9999 rowspan=9>8<td>1</table>\n\n" * 2_000,
    ],
    ids=range(11),
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    with it_ends():
        parse(text)


def test_what_cells_span_is_limited_for_the_whole_document() -> None:
    wide = "<table><tr>" + f"<td colspan={MAX_COLSPAN}>1</td>" * 10 + "<td>2</td></tr></table>\n\n"
    plain = "<table><tr><td>1</td><td>2</td></tr></table>\n"
    document = parse(wide * 3 + plain)
    reason = f"is an HTML table of more than {MAX_CELLS} cells, with those that cells above it span"
    assert document.unread == (Unread(5, "", reason),)
    assert [len(table.header) for table in document.tables] == [MAX_CELLS // 2 + 1, MAX_CELLS // 2 + 1, 2]


def test_a_colspan_is_at_most_what_the_html_standard_has() -> None:
    table = parse("<table><tr><td colspan=1000000000>1</td><td>2</td></tr></table>").tables[0]
    assert len(table.header) == 1_001


def test_a_cell_over_many_rows_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = markdown._plain

    def noted(parser: Any, text: str) -> str:
        read.append(text)
        return plain(parser, text)

    monkeypatch.setattr(markdown, "_plain", noted)
    rows = "".join(f"<tr><td>{n}</td></tr>" for n in range(500))
    head = "<tr><th>GPUs</th><th>Note</th></tr>"
    document = f"<table>{head}<tr><td>8</td><td rowspan='501'>*the same* for all</td></tr>{rows}</table>"
    (table,) = parse(document).tables
    assert {row[1].text for row in table.rows} == {"the same for all"}
    assert read.count("*the same* for all") == 1


def test_what_is_longer_than_any_cell_is_left_as_it_stands() -> None:
    document = f"| GPUs | Note |\n|---|---|\n| 8 | {'<!--' * 600} |\n"
    (table,) = parse(document).tables
    assert table.rows[0][1].text == "<!--" * 600
