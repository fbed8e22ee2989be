"""Damaged documents: no traceback, no figure that the source does not hold, none at another row."""

from __future__ import annotations

import re
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.documents.importing import DocumentFacts, Imported, import_document
from pytest_gsw.documents.importing.facts import Facts
from pytest_gsw.documents.importing.labels import FIGURES
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.load import read_table
from tests.unit.documents.importing.conftest import DOCUMENTS, README

TEXTS = {"README": README, **{path.name: path.read_text() for path in sorted(DOCUMENTS.glob("*.txt"))}}

names = st.sampled_from(sorted(TEXTS))


#: Figures that contradict each other stay as documented.
KNOWN = DocumentFacts(whole=Facts(acknowledged=dict.fromkeys((*FIGURES, "global_batch_size"), "known")))


def imported(content: str | bytes, facts: DocumentFacts | None = None) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.md"
        path.write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
        return import_document(path, facts)


def read_or_refused(content: str | bytes) -> Imported | None:
    try:
        return imported(content)
    except ConfigurationError:
        return None


def figures(of: Imported) -> dict[tuple[str, str], Decimal]:
    """Figures by row and key; rows are named without their case, which damage elsewhere may change."""
    return {
        (re.sub(r"(x\d+)[^\]]*\]", r"\1]", row.id) + f" {row.values['line'].text if 'tflops_per_gpu' in row.values else ''}", key):
        Decimal(row.values[key].text.rstrip("%"))
        for row in of.rows
        for key in FIGURES
        if key in row.values
    }  # fmt: skip


def check_loads(of: Imported) -> None:
    """What is written is a table, or has blanks that say so."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in of.yaml_text.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            blank = {row for file, row, *_ in of.blanks if file == name}
            table = read_table(path)
            assert {row.id for row in table.blanks} == blank
            assert {row.id for row in table.rows} <= {row.id for row in of.rows} - blank


def check_held(of: Imported) -> None:
    """Each figure's digits stand in the document where the row says."""
    for row in of.rows:
        for key in FIGURES:
            if key not in row.values:
                continue
            stated = row.values[key]
            there = of.lines[stated.line - 1][stated.column - 1 :].split("|")[0]
            digits = re.sub(r"\D", "", stated.text).strip("0")
            assert digits in re.sub(r"\D", "", there), (row.id, key, stated, there)


@settings(deadline=None)
@given(names, st.data())
def test_a_lost_cell_moves_no_figure(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    lines = text.split("\n")
    rows = [n for n, line in enumerate(lines) if line.count("|") > 2 and "---" not in line]
    n = data.draw(st.sampled_from(rows))
    cells = lines[n].split("|")
    lost = data.draw(st.integers(0, len(cells) - 1))
    lines[n] = "|".join(cells[:lost] + cells[lost + 1 :])
    check_no_other(text, "\n".join(lines))


@settings(deadline=None)
@given(names, st.data())
def test_a_lost_pipe_moves_no_figure(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    lines = text.split("\n")
    rows = [n for n, line in enumerate(lines) if line.count("|") > 2]
    n = data.draw(st.sampled_from(rows))
    pipes = [match.start() for match in re.finditer(r"\|", lines[n])]
    at = data.draw(st.sampled_from(pipes))
    lines[n] = lines[n][:at] + data.draw(st.sampled_from(["", " "])) + lines[n][at + 1 :]
    check_no_other(text, "\n".join(lines))


@settings(deadline=None)
@given(names, st.data())
def test_a_lost_line_moves_no_figure(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    lines = text.split("\n")
    rows = [n for n, line in enumerate(lines) if line.count("|") > 1]
    n = data.draw(st.sampled_from(rows))
    lines[n] = ""
    check_no_other(text, "\n".join(lines))


def check_no_other(text: str, damaged: str) -> None:
    after = imported(damaged)
    known = figures(imported(text, KNOWN))
    for place, value in figures(after).items():
        assert known.get(place) == value, place
    check_held(after)
    check_loads(after)


#: What damages: pieces of Markdown, odd numbers, characters that are digits elsewhere or change what is seen.
_BITS = st.sampled_from(
    [
        *("|", "||", "\t", " ", "\\|", "-", "---|---", "\n", "\r\n", "0", "9", ".", ",", "%", "`", "```\n", "**"),
        *("<table>", "&nbsp;", "NA", "1e400", "nan", "inf", "-5", "1,2,3", "OOM", "x H100 GPUs", "\x00", "\x1b[31m"),
        *("\u00b2", "\u0663", "\uff17", "\u202e", "\ufeff", "\u2028"),
    ]
)


@settings(deadline=None)
@given(names, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), _BITS), min_size=1, max_size=12))
def test_any_damage_is_survived(name: str, damages: list[tuple[float, int, str]]) -> None:
    text = TEXTS[name]
    for where, length, bit in damages:
        at = int(where * len(text))
        text = text[:at] + bit + text[at + length :]
    if (found := read_or_refused(text)) is not None:
        check_held(found)
        check_loads(found)


@settings(deadline=None)
@given(names, st.sampled_from(["utf-16", "utf-8-sig", "cp1252", "latin-1"]))
def test_other_encodings(name: str, encoding: str) -> None:
    text = TEXTS[name]
    found = imported(text.encode(encoding, errors="replace"))
    assert figures(found) == figures(imported(text))


@settings(deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes(content: bytes) -> None:
    if (found := read_or_refused(content)) is not None:
        check_loads(found)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_whole_document_is_held_and_loads(name: str) -> None:
    found = imported(TEXTS[name])
    assert found.rows
    check_held(found)
    check_loads(found)
