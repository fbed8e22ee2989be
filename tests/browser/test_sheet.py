"""The sheet of a large acceptance in a real browser: on screens, and on four sheets of paper or fewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag

import pytest

from pytest_gsw.reports.from_records import run_reports
from pytest_gsw.reports.pages import write_report
from pytest_gsw.reports.run_report import ReportedRun
from pytest_gsw.results.junit import read_whole_run
from tests.unit.acceptance.runs import large_run, small_run

from .accessibility import TAB, violations
from .chromium import DARK, PHONE, Chromium
from .looks import outside
from .server import Served

#: A sheet of A4 at 96 dpi, without margins of 1 cm.
SHEET = {"width": 718, "height": 1047}
#: Tables that are wider than a sheet of paper.
WIDER = """() => [...document.querySelectorAll('table, dl')].map(one => one.getBoundingClientRect().right)
    .filter(right => right > innerWidth + 1)"""


def _report(run: Path) -> Path:
    records, missing, _ = read_whole_run(run)
    reports = run_reports(records, None, {run.name: ReportedRun(run, missing, exit_status=1)})
    return write_report(reports, run.parents[2] / "handover").parent


@pytest.fixture(scope="module", name="sheet", params=[small_run, large_run], ids=["8 nodes", "256 nodes"])
def _sheet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(_report(request.param(tmp_path_factory.mktemp("sheet")))) as served:
        yield served


def test_it_is_printed_on_four_sheets_and_nothing_is_cut(chromium: Chromium, sheet: Served) -> None:
    with chromium.tab(sheet.url, viewport=SHEET, **DARK) as tab:
        tab.goto("index.html")
        tab.page.emulate_media(media="print")
        assert tab.ask(WIDER) == []
        for paper in ("A4", "Letter"):
            pages = re.findall(rb"/Type\s*/Page\b", tab.page.pdf(format=paper))
            assert 1 <= len(pages) <= 4, paper
        assert tab.complaints == []


def test_the_verdict_is_first_and_both_sides_sign(chromium: Chromium, sheet: Served) -> None:
    with chromium.tab(sheet.url) as tab:
        page = tab.goto("index.html")
        assert page.locator("main h1").inner_text().endswith((": met", ": not met"))
        assert page.locator("main table caption").first.inner_text().startswith("Criteria (")
        assert page.locator(".signatures h2").all_inner_texts() == ["For the supplier", "For the customer"]
        lines = page.locator(".signatures dd").all()
        widths = [box["width"] for line in lines if (box := line.locator("..").bounding_box())]
        assert len(widths) == 6
        assert min(widths) > 300


def test_all_can_read_it_and_links_lead_somewhere(chromium: Chromium, sheet: Served) -> None:
    for options in ({}, {**PHONE, **DARK}):
        with chromium.tab(sheet.url, **TAB, **options) as tab:
            tab.goto("index.html")
            assert outside(tab) == []
            assert violations(tab) == []
            assert tab.complaints == []
    with chromium.tab(sheet.url) as tab:
        for path in ("index.html", next(sheet.directory.glob("runs/*/index.html")).relative_to(sheet.directory)):
            page = tab.goto(f"{path}")
            links = page.locator("a[href]").evaluate_all("links => links.map(link => link.href)")
            assert len(links) > 5
            assert all(sheet.file_of(urldefrag(url)[0]) for url in links), path
        assert tab.complaints == []
