"""Tables of Markdown and HTML become cells with their places, and cells plain numbers and names."""

from __future__ import annotations

import pytest

from pytest_gsw.importing.tables import MAX_PLACES, Cell, Document, parse_document, plain, read_cell
from tests.endless import it_ends
from tests.messages import wording

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
    assert (table.line, table.headings) == (5, (Cell("Runs", 1, 1),))


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


@pytest.mark.parametrize(
    ("code", "header", "row"),
    [
        ("Size  BW   Samples\n16 GB 260.2 GB/s 65\n", ["Size", "BW", "Samples"], ["16 GB", "260.2 GB/s", "65"]),
        ("│ Size │ BW │\n│ 8 │ 2.50 │\n", ["Size", "BW"], ["8", "2.50"]),
        ("0: #  size  busbw #wrong\n0:  1024  20 0\n", ["size", "busbw", "#wrong"], ["1024", "20", "0"]),
        ("size|root\n8|-1\n", ["size", "root"], ["8", "-1"]),
    ],
)
def test_a_table_in_code_is_read_if_it_is_named(code: str, header: list[str], row: list[str]) -> None:
    text = f"# Runs\n```\n{code}9 9 9\n```\n{TABLE}"
    (table, other) = parse_document(text, {3: [4]}).tables
    assert texts(Document((table,), ())) == [[header, row]]
    assert (table.line, table.rows[0][0].line, [one.text for one in table.headings]) == (3, 4, ["Runs"])
    assert texts(Document((other,), ())) == texts(parse_document(text)) == [ROWS]


def test_yaml_before_a_document_has_no_headings() -> None:
    (table,) = parse_document(f"---\ntitle: a\n# note\n---\n\n{TABLE}").tables
    assert (table.headings, table.line) == ((), 6)
    (table,) = parse_document(f"---\n\n# One\n\n---\n\n{TABLE}").tables  # lines are drawn
    assert [one.text for one in table.headings] == ["One"]


def test_headings() -> None:
    text = f"Title\n=====\n\n## One ##\n\n### Deep\n\n{TABLE}\nTwo\n---\n\n{TABLE}\n# **Three**\n{TABLE}"
    headings = [[(one.text, one.line) for one in table.headings] for table in parse_document(text).tables]
    assert headings == [
        [("Title", 1), ("One", 4), ("Deep", 6)],
        [("Title", 1), ("Two", 12)],
        [("Three", 19)],
    ]


def test_odd_tables() -> None:
    # Two tables below each other are two.
    assert texts(parse_document(TABLE + TABLE)) == [ROWS, ROWS]
    # A row with another number of cells says so.
    (table,) = parse_document("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n").tables
    assert [len(row) for row in table.rows] == [1, 3]
    # A header that its delimiter does not fit.
    document = parse_document("| a | b |\n|---|\n| 1 | 2 |\n")
    assert reasons(document) == [(1, wording("another number of cells"))]
    # What looks like a comment hides nothing.
    assert texts(parse_document(f"a <!-- b\n\n{TABLE}")) == [ROWS]
    assert texts(parse_document(f"a `<table>` of runs\n\n{TABLE}")) == [ROWS]


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


def test_merged_cells_of_html() -> None:
    # A merged cell is in each place that it covers.
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td rowspan=2>1</td><td>2</td><td>3</td></tr><tr><td colspan='2'>OOM</td></tr>"
        "<tr><td>5</td><td>6</td><td>7</td></tr></table>"
    )
    assert texts(parse_document(text)) == [[["a", "b", "c"], ["1", "2", "3"], ["1", "OOM", "OOM"], ["5", "6", "7"]]]
    # A number over several columns is none of them.
    text = "<table><tr><th>a</th><th>b</th></tr><tr><td colspan=2>64</td></tr></table>"
    assert texts(parse_document(text))[0][1] == ["64 (over 2 columns)"] * 2
    # The merged cell behind the gap does not move to the left.
    text = (
        "<table><tr><th>a</th><th>b</th><th>c</th></tr>"
        "<tr><td>1</td><td>2</td><td rowspan=2>3</td></tr><tr><td>4</td></tr></table>"
    )
    assert texts(parse_document(text))[0][2] == ["4"]


def test_heads_of_html_tables() -> None:
    # A head of two rows is one header.
    text = (
        "<table><thead><tr><th rowspan=2>GPUs</th><th colspan=2>FP8</th></tr>"
        "<tr><th>x</th><th>y</th></tr></thead><tr><td>8</td><td>1</td><td>2</td></tr></table>"
    )
    assert texts(parse_document(text)) == [[["GPUs", "FP8 x", "FP8 y"], ["8", "1", "2"]]]
    # A caption is the innermost heading.
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


# ---- Cells say plain numbers and names, or are refused -------------------------------------------


@pytest.mark.parametrize(
    ("key", "cell", "value"),
    [
        ("step_time_s", "8.85", "8.85"),
        ("step_time_s", "0.50", "0.50"),
        ("step_time_s", "8.85 s", "8.85"),
        ("step_time_s", "8850ms", "8.850"),
        ("tokens_per_s", "1,048,576", "1048576"),
        ("tokens_per_s", "37.5k", "37500.0"),
        ("tokens_per_s_per_gpu", "1035 tokens/s/GPU", "1035"),
        ("mfu", "54.1%", "54.1%"),
        ("mfu", "54.1 %", "54.1%"),
        ("tflops_per_gpu", "661 TFLOP/s", "661"),
        ("days_to_train_1t_tokens", "24.7 days", "24.7"),
        ("gpus", "1,024", "1024"),
        ("dtype", "FP8", "fp8"),
        ("size", "70B", "70b"),
        ("model", "Llama 3.1", "llama-3.1"),
        ("accelerator", "A100-80GB", "A100-80GB"),
        ("notes", "05-26", "05-26"),
        ("attributes.ds", "N", "N"),
        ("attributes.bucket", "na", "na"),
        *(("step_time_s", cell, "") for cell in ("", "-", "n/a", "NA", "\u2014")),
        ("vp", "None", ""),
    ],
)
def test_what_a_cell_says(key: str, cell: str, value: str) -> None:
    assert read_cell(key, cell) == value


@pytest.mark.parametrize(
    ("key", "cell", "factor", "value"),
    [
        ("checkpoint_save_time_s", "17960.60", "0.001", "17.96060"),
        ("sequence_length", "4", "1024", "4096"),
        ("gpus", "8", "4", "32"),
        ("mfu", "41.25", "%", "41.25%"),
        ("mfu", "41.25%", "%", "41.25%"),
    ],
)
def test_the_unit_that_a_label_declares(key: str, cell: str, factor: str, value: str) -> None:
    assert read_cell(key, cell, factor) == value


@pytest.mark.parametrize(
    ("key", "cell", "reason"),
    [
        ("step_time_s", "8.7 5", "the cell reads '8.7 5', which is no plain number"),
        ("step_time_s", "~200", "the cell reads '~200', which is no plain number"),
        ("step_time_s", "8,309", "the cell reads '8,309', which is no plain number"),
        (
            "step_time_s",
            "2 h",
            "the cell reads '2 h', wanted 's', 'sec', 'secs', 'seconds', 's/step', 'ms' behind the number",
        ),
        ("step_time_s", "0.0", "the cell reads '0.0', wanted a number above 0"),
        ("step_time_s", "1e999", "got '1e999', wanted a number above 0, such as 4.324"),
        ("tokens_per_s", "37556 (36108)", "the cell reads '37556 (36108)', which is no plain number"),
        ("tokens_per_s", "121.250,69", "the cell reads '121.250,69', which is no plain number"),
        ("tokens_per_s", "4.1*", "the cell reads '4.1*', which is no plain number"),
        ("mfu", "23.4", "the cell reads '23.4', wanted '%' behind the number"),
        ("gpus", "64-512", "the cell reads '64-512', which is no plain number"),
        ("gpus", "8.5", "the cell reads '8.5', wanted a whole number above 0"),
        ("gpus", "0248", "the cell reads '0248', which is no plain number"),
        ("gpus", "8k", "the cell reads '8k', wanted no unit behind the number"),
        ("dtype", "FP8-CS (FP8-MX)", "got 'fp8-cs (fp8-mx)', wanted a name such as fp8"),
        ("accelerator", "DGX H100", "got 'DGX H100', wanted a name such as H100"),
        ("mfu", "118.8%", "got '118.8%', wanted a percentage such as 5%"),
    ],
)
def test_what_is_refused(key: str, cell: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"wanted|no plain number") as error:
        read_cell(key, cell)
    assert str(error.value) == reason
