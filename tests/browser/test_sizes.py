"""Reports of few and of many rows and runs, seen on screens of three widths and on paper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import unquote, urldefrag

import pytest

from benchmarks.report_scale import LAST_S, SEED, record
from pytest_gsw.history.alarms import acknowledge
from pytest_gsw.history.location import open_history
from pytest_gsw.reports.from_records import HistoryReader, run_reports
from pytest_gsw.reports.pages import write_report
from pytest_gsw.reports.run_report import ReportedRun
from pytest_gsw.results.record import Record
from tests.unit.results.records import varied

from .accessibility import TAB, violations
from .chromium import DARK, Chromium
from .crawl import crawl
from .looks import higher_than, outside, pictures
from .server import Served
from .sixty import write_sixty

#: A sheet of A4 at 96 dpi, without margins of 1 cm.
SHEET = {"width": 718, "height": 1047}
#: The last day of an acknowledgement, far from now.
FAR_S = 4e9
#: The widths of all that is to be as wide as the page.
WIDTHS = """() => [...document.querySelectorAll('main > p, section > .cards, .changes, .commands pre, .wide table, figure')]
    .map(one => Math.round(one.getBoundingClientRect().width)).filter(width => width)"""
#: Tables that are wider than their place.
CUT = """() => [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)
    .map(one => one.querySelector('caption').innerText)"""


@pytest.fixture(
    scope="module",
    params=[
        (5, 1),
        (60, 31),
        pytest.param((1000, 1), marks=pytest.mark.nightly),
        pytest.param((12, 200), marks=pytest.mark.nightly),
    ],
    ids=lambda size: "{} rows {} runs".format(*size),
)
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, set[str]]]:
    """A report, and one page of each kind that it has."""
    rows, runs = request.param
    noise = random.Random(SEED)  # noqa: S311 - noise, not cryptography
    directory = tmp_path_factory.mktemp("sizes")
    current_run: list[Record] = []
    with open_history(directory / "history.sqlite") as history:
        for number in range(runs):
            made = (record(number, runs, row, noise) for row in range(rows))
            current_run = [varied(one, batch=8 * one.row.gpus) for one in made]
            history.add(current_run)
        for alarm in HistoryReader(history).alarms(current_run)[:1]:
            why = "the firmware of switch leaf-07 is being replaced, ticket 4412"
            history.decide(acknowledge(alarm, why=why, owner="Robin Doe", until_s=FAR_S, time_s=LAST_S))
        report = directory / "report"
        runs_of = {current_run[0].run.id: ReportedRun(directory / "run", exit_status=1)}
        write_report(run_reports(current_run, history, runs_of), report)
    of_kind = {one.outcome: one for one in current_run}
    names = {of_kind[word].row.id.replace("[", "_").rstrip("]") for word in of_kind}
    found = [path for name in names for path in report.glob(f"runs/*/rows/{name}.html")]  # none if it passed as before
    found += [*sorted(report.glob("workloads/*.html"))[:2], *sorted(report.glob("nodes/*.html"))[:2]]
    found += [*report.glob("*.html"), *report.glob("runs/*/*.html")]
    pages = {path.relative_to(report).as_posix() for path in found}
    with Served(report) as served:
        yield served, pages


@pytest.mark.parametrize("width", [390, pytest.param(1024, marks=pytest.mark.nightly), 1440])
def test_nothing_is_cut_and_nothing_stands_on_another(
    chromium: Chromium, many: tuple[Served, set[str]], width: int
) -> None:
    served, pages = many
    with chromium.tab(served.url, viewport={"width": width, "height": 900}) as tab:
        for path in sorted(pages):
            tab.goto(path)
            assert outside(tab) == [], path
            for found in pictures(tab):
                assert (found["texts"], found["covered"], found["untold"]) == ([], 0, 0), path
            if width == 1440:  # every column is in sight
                assert tab.ask(CUT) == [], path
                assert len(set(tab.ask(WIDTHS))) <= 1, path
            if width == 1024:  # and on smaller screens that of owners of alarms
                assert not [caption for caption in tab.ask(CUT) if "alarm" in caption], path
        assert tab.complaints == []


def test_on_paper_nothing_is_cut_by_the_end_of_a_sheet(chromium: Chromium, many: tuple[Served, set[str]]) -> None:
    served, pages = many
    with chromium.tab(served.url, viewport=SHEET, **DARK) as tab:
        tab.page.emulate_media(media="print")
        for path in sorted(pages):
            tab.goto(path)
            assert outside(tab) == [], path
            assert higher_than(tab, SHEET["height"]) == [], path


@pytest.fixture(scope="module", params=[False, True], ids=["night", "sweep"])
def sixty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The report of the last of sixty nights, and of a sweep of 48 nodes."""
    index = write_sixty(tmp_path_factory.mktemp("sixty"), sweep=request.param)
    with Served(index.parent) as served:
        yield served


def test_a_phone_shows_a_night_on_four_screens(chromium: Chromium, sixty: Served) -> None:
    with chromium.tab(sixty.url, viewport={"width": 390, "height": 844}) as tab:
        tab.goto("index.html")
        assert tab.ask("() => document.documentElement.scrollHeight") <= 4 * 844
        # The name and the change of an alarm need no sideways scroll.
        assert tab.ask("() => [...document.querySelectorAll('.changes .scroll')].length") == 0
        assert outside(tab) == []


def test_everybody_can_read_matrix_map_and_nodes(chromium: Chromium, sixty: Served) -> None:
    with chromium.tab(sixty.url, **TAB) as tab:
        for path in ("index.html", "nodes.html", "nodes/n017.html", "runs.html"):
            tab.goto(path)
            assert violations(tab) == [], path


def test_each_cell_of_a_matrix_is_a_link_that_leads_somewhere(chromium: Chromium, sixty: Served) -> None:
    with chromium.tab(sixty.url) as tab:
        pages = crawl(tab, sixty)
        assert tab.complaints == []
    for page in pages.values():
        for written, url in page.links:
            target, anchor = urldefrag(url)
            assert sixty.file_of(target), f"{page.path}: {written}"
            if anchor:
                assert unquote(anchor) in pages[target.removeprefix(sixty.url)].anchors, f"{page.path}: {written}"
