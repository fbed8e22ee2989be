"""The report of a real run, as Jenkins serves it, in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from tests.sample import fewer

from .accessibility import TAB, violations
from .chromium import DARK, PHONE, Chromium, Tab
from .crawl import Page, crawl
from .night import CREEPING, HOSTILE, NOISY, Run
from .server import Served

#: One row of each kind that looks different.
KINDS = {
    "regressed": "llama2_70b_fp8[H100x128]",
    "improved": "llama3.1_405b_fp8[H100x192]",
    "inconclusive": NOISY,
    "drift": CREEPING,
    "error with steps": "llama2_70b_bf16[H100x512]",
    "error with a cause": "gpt3_175b_fp8[H100x512]",
    "error on nodes": "mixtral_8x7b_bf16[H100x128]",
    "error without a log": "mixtral_8x7b_fp8[H100x32]",
    "expected failure": "mixtral_8x7b_bf16[H100x8-mbs4]",
    "passed": "llama2_70b_fp8[H100x2048]",
    "hostile": "trap_1b_bf16[H100x8]",
}

_GROUND_AND_TEXT = """() => {
    const channels = color => color.match(/[\\d.]+/g).map(Number);
    const luminance = ([red, green, blue]) => {
        const linear = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    };
    const ground = [document.body, document.documentElement].map(element => getComputedStyle(element).backgroundColor)
        .map(channels).find(color => color.length === 3 || color[3] > 0);
    const dark = matchMedia('(prefers-color-scheme: dark)').matches && !matchMedia('print').matches;
    return [ground ? luminance(ground) : (dark ? 0 : 1), luminance(channels(getComputedStyle(document.body).color))];
}"""


@pytest.fixture(scope="module")
def visit(chromium: Chromium, report: Served) -> tuple[Mapping[str, Page], list[str]]:
    """All pages, and what went wrong on the way."""
    with chromium.tab(report.url) as tab:
        return crawl(tab, report), tab.complaints


@pytest.fixture(scope="module")
def pages(visit: tuple[Mapping[str, Page], list[str]]) -> Mapping[str, Page]:
    return visit[0]


def page_of(pages: Mapping[str, Page], row: str) -> Page:
    """The page of a row, or of its workload."""
    own = [page for page in pages.values() if any(row in heading for heading in page.headings)]
    shared = [page for path, page in pages.items() if path.startswith("workloads/") and row in page.text]
    (page,) = own or shared
    return page


def looked_at(pages: Mapping[str, Page]) -> list[str]:
    """The pages that are not of rows, one of each kind of row, and those of two nodes."""
    rows = {page_of(pages, row).path for row in KINDS.values()}
    nodes = {*sorted(path for path in pages if path.startswith("nodes/"))[2:]}
    others = (
        path for path, page in pages.items() if path not in nodes and not any("[" in one for one in page.headings)
    )
    return [*rows, *(path for path in others if path not in rows)]


def test_the_run_is_one_of_everything(run: Run) -> None:
    outcomes = Counter(record.outcome for record in run.records.values())
    assert outcomes == {
        "passed": 46, "improved": 2, "regressed": 3, "inconclusive": 1, "expected_failure": 1, "error": 9,
    }  # fmt: skip
    assert [row for row, record in run.records.items() if record.drift] == [CREEPING]
    assert [row for row, record in run.records.items() if record.jobs.attempts and record.outcome == "passed"] == [
        "mixtral_8x7b_bf16[H100x64]"
    ]
    assert "1 skipped, 1 deselected" in run.output  # the inconclusive one, and the row for B200


def test_nothing_is_said_on_the_console_and_nothing_is_asked_of_others(
    visit: tuple[Mapping[str, Page], list[str]],
) -> None:
    pages, complaints = visit
    assert complaints == []
    assert not [
        (page.path, page.forbidden, page.handlers) for page in pages.values() if page.forbidden or page.handlers
    ]


def test_every_row_has_a_page_and_every_page_is_linked(pages: Mapping[str, Page], run: Run, report: Served) -> None:
    assert len(run.records) >= 60
    for row in run.records:
        page_of(pages, row)
    files = {path.relative_to(report.directory).as_posix() for path in report.directory.rglob("*.html")}
    assert files == {unquote(path) for path in pages}


def test_links_lead_somewhere(pages: Mapping[str, Page], report: Served) -> None:
    for page in pages.values():
        assert page.links, page.path
        for written, url in page.links:
            target, anchor = urldefrag(url)
            assert report.file_of(target), f"{page.path}: {written}"
            if anchor:
                assert unquote(anchor) in pages[target.removeprefix(report.url)].anchors, f"{page.path}: {written}"


def test_style_and_pictures_are_there(pages: Mapping[str, Page]) -> None:
    for page in pages.values():
        assert page.language, page.path
        assert page.title, page.path
        assert len(page.headings) == 1, page.path
        assert page.sheets > 0, page.path
        assert "Times" not in page.font, page.path  # Chromium's own
        for width, text, told in page.pictures:
            assert width > 100, f"{page.path}: {text}"
            assert text, f"{page.path}: a picture is not described"
            assert told, f"{page.path}: {text}: no point says what it is"
    assert page_of(pages, KINDS["regressed"]).pictures
    assert page_of(pages, KINDS["drift"]).pictures


def test_a_phone_scrolls_down_only(chromium: Chromium, report: Served, pages: Mapping[str, Page]) -> None:
    wide = {}
    with chromium.tab(report.url, **PHONE) as tab:
        for path in fewer(looked_at(pages), [*pages]):
            tab.goto(path)
            widths = tab.ask("() => [document.documentElement.scrollWidth, innerWidth, visualViewport.scale]")
            if widths != [360, 360, 1]:
                wide[path] = widths
        assert tab.complaints == []
    assert wide == {}


def test_text_stands_out_in_the_light_in_the_dark_and_on_paper(
    chromium: Chromium, report: Served, pages: Mapping[str, Page]
) -> None:
    a4 = {"width": 718, "height": 1047}  # at 96 dpi, without margins of 1 cm
    with chromium.tab(report.url, viewport=a4) as tab:
        for path in looked_at(pages):
            tab.page.emulate_media(media="screen", color_scheme="light")
            tab.goto(path)
            ground, text = tab.ask(_GROUND_AND_TEXT)
            assert ground > 0.9 > 0.1 > text, path
            tab.page.emulate_media(color_scheme="dark")
            ground, text = tab.ask(_GROUND_AND_TEXT)
            assert ground < 0.05 < 0.6 < text, path
            tab.page.emulate_media(media="print")
            ground, text = tab.ask(_GROUND_AND_TEXT)
            assert ground > 0.9 > 0.1 > text, path
            assert tab.ask("() => document.documentElement.scrollWidth") <= a4["width"], path
        tab.goto("index.html")
        assert tab.page.pdf(format="A4").startswith(b"%PDF-")
        assert tab.complaints == []


@pytest.mark.parametrize(
    ("number", "options"),
    [pytest.param(0, {}, id="desktop in the light"), pytest.param(1, {**PHONE, **DARK}, id="phone in the dark")],
)
def test_everybody_can_read_it(
    chromium: Chromium, report: Served, pages: Mapping[str, Page], number: int, options: Mapping[str, Any]
) -> None:
    """axe-core takes seconds for a page: for each change, each is looked at in one way."""
    found = {}
    with chromium.tab(report.url, **TAB, **options) as tab:
        for path in fewer(sorted(looked_at(pages))[number::2], looked_at(pages)):
            tab.goto(path)
            found[path] = violations(tab)
    assert {path: problems for path, problems in found.items() if problems} == {}


def focused(tab: Tab) -> tuple[str, str | None, bool]:
    """What has the focus: its element's name, where it leads, and whether it can be seen."""
    name, target, box = tab.ask(
        "() => { const it = document.activeElement, box = it.getBoundingClientRect();"
        " return [it.localName, it.getAttribute('href'), [box.left, box.top, box.width, box.height]]; }"
    )
    left, top, width, height = box
    return name, target, left >= 0 and top >= 0 and width > 1 and height > 1


def test_the_keyboard_goes_past_the_navigation(chromium: Chromium, report: Served, pages: Mapping[str, Page]) -> None:
    with chromium.tab(report.url) as tab:
        for path in ("index.html", page_of(pages, KINDS["regressed"]).path):
            tab.goto(path)
            tab.page.keyboard.press("Tab")
            name, target, seen = focused(tab)
            assert (name, seen) == ("a", True)
            assert target is not None
            assert target.startswith("#")
            tab.page.keyboard.press("Enter")
            tab.page.keyboard.press("Tab")
            inside = "() => document.querySelector('main, [role=main]').contains(document.activeElement)"
            assert tab.ask(inside), path
            outline = tab.ask("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", path
        assert tab.complaints == []


def test_hostile_text_of_a_real_row_is_text(pages: Mapping[str, Page]) -> None:
    assert HOSTILE in page_of(pages, KINDS["hostile"]).text


def test_from_the_first_page_to_a_cause(chromium: Chromium, report: Served, run: Run) -> None:
    """In the morning: what is wrong, since when and why, in a click or two."""
    with chromium.tab(report.url) as tab:
        page = tab.goto("index.html")
        failed, broken = KINDS["regressed"], KINDS["error with a cause"]
        assert page.locator("main section h2").first.get_attribute("id") == "lately"
        assert page.locator(".card.new h3").inner_text().startswith("New (")
        # No click: a card has the loss, what it is held against, since when, and the command.
        card = page.locator("li.card", has=page.get_by_role("link", name=failed, exact=True))
        assert "below the documented 230,153" in card.inner_text()
        assert "since" in card.inner_text()
        assert failed in card.locator("code").inner_text()

        # One click: the row's page has its runs, each point with its value, run and job.
        card.get_by_role("link", name=failed, exact=True).click()
        assert page.locator("h1").inner_text() == failed
        jobs = [job.id for job in run.records[failed].jobs.all]
        titles = page.locator("figure.plot title").all_text_contents()
        of_run = ", ".join(jobs)  # of several jobs it has the median
        told = f"median of jobs {of_run}" if len(jobs) > 1 else f"job {of_run}"
        assert any(re.search(rf", {told}\b", title) for title in titles), (jobs, titles)

        # And one for a row that could not be measured: the log's own line.
        page.go_back()
        page.get_by_role("link", name=broken, exact=True).first.click()
        fact = run.records[broken].fact
        assert fact in page.locator("main").inner_text()

        # All runs are one click from each page.
        page.get_by_role("link", name="Runs", exact=True).click()
        assert run.run.name in page.locator("main").inner_text()
        assert tab.complaints == []
