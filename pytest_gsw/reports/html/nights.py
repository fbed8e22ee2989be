"""Runs beside each other: the index of a cluster's runs, the pages that are kept of earlier ones, and their links.

A report is written over that of the run before. Of each run its first page stays, ``nights/RUN.html``: what it came to
is to be found again, and a page for each row of each night would be gigabytes.
"""

from __future__ import annotations

import posixpath
import re
import xml.etree.ElementTree as ET
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from pytest_gsw.common.files import write_whole
from pytest_gsw.common.words import command, counted
from pytest_gsw.reports.html.layout import (
    Content,
    command_line,
    element,
    html_text,
    markup,
    page,
    plain,
    section,
    table,
    time_element,
)
from pytest_gsw.reports.html.strip import by_kind, nights_strip
from pytest_gsw.reports.run_report import KINDS, Listed, RunReport
from pytest_gsw.results import attention
from pytest_gsw.results.attention import Attention

#: The index, and the folder of earlier runs' pages.
NIGHTS, FOLDER = "nights.html", "nights"

#: First pages of so many runs are kept, and so many runs are listed.
KEPT, _LISTED = 30, 200

#: What leads from a run to those before and after it, in a page that was written when the one after was not known.
_BESIDE = "beside"
_BESIDE_TEXT = re.compile(rf'<p class="run" id="{_BESIDE}">.*?</p>', re.DOTALL)

#: What says on a kept page on which clusters its run was, and how that begins.
_CLUSTERS = "data-clusters"
_KEPT_MAIN = f'<main id="main" {_CLUSTERS}="'
#: A link from a kept page to a row's page, or what is left of it while that page is of another cluster.
_TO_ROW = re.compile(r'(<a [^<>]*?\b)(?:href|data-row)="\.\./(rows/[^"#]+)')


def folder_of(run_id: str) -> str:
    """A run's name in addresses."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", run_id)[:100] or "run"


def kept_page(run_id: str) -> str:
    """The address of the page that is kept of a run."""
    return f"{FOLDER}/{folder_of(run_id)}.html"


def listed_runs(nights: Iterable[RunReport]) -> tuple[Listed, ...]:
    """The runs of the history and of a report, the oldest first; nothing where the history is not known."""
    known = {one.run_id: one for night in nights for one in night.listed}
    if known:
        tonight = (night.as_listed for night in nights if not night.replay_of)
        known |= {one.run_id: replace(one, time_s=known.get(one.run_id, one).time_s) for one in tonight}
    return tuple(sorted(known.values(), key=lambda one: (one.time_s, one.run_id)))


def pages_there(directory: Path, runs: Iterable[Listed], written: Mapping[str, str]) -> dict[str, str]:
    """The addresses of the runs' pages that are there, seen from the report's directory, in the order of the runs."""
    found = {}
    for run in runs:
        whole = f"{FOLDER}/{folder_of(run.run_id)}/index.html"
        places = (written.get(run.run_id, whole), kept_page(run.run_id))
        address = next((one for one in places if one in written.values() or (directory / one).is_file()), None)
        if address is not None:
            found[run.run_id] = address
    return found


def prune(directory: Path) -> None:
    """Leave the newest of the pages that are kept: names of runs begin with their time."""
    for path in sorted((directory / FOLDER).glob("*.html"))[:-KEPT]:
        path.unlink()


def beside(address: str, pages: Sequence[str], here: int) -> ET.Element:
    """What leads from a page at an address to the runs before and after its own, of which the places are given."""

    def link(place: int, text: str) -> Content:
        target = pages[place] if 0 <= place < len(pages) else None
        return target and element("a", text, href=posixpath.relpath(target, posixpath.dirname(address) or "."))

    links = [one for one in (link(here - 1, "the run before"), link(here + 1, "the run after")) if one is not None]
    parts: list[Content] = [links[0], ", ", links[1]] if len(links) == 2 else list(links)
    return element("p", *parts, class_="run", id=_BESIDE)


def link_beside(directory: Path, pages: Mapping[str, str]) -> None:
    """Lead from each run's page to the runs before and after it, as they are now."""
    places = list(pages.values())
    for number, address in enumerate(places):
        path = directory / address
        text = path.read_text(encoding="utf-8")
        new = markup(beside(address, places, number))
        linked = _BESIDE_TEXT.sub(lambda _, new=new: new, text, count=1)  # type: ignore[misc]
        if linked != text:
            write_whole(path, linked)


def link_rows(directory: Path, clusters: Sequence[str], rows: Container[str]) -> None:
    """Lead from kept pages to those pages of rows that were just written, where both are of the same clusters."""
    here = f'{_KEPT_MAIN}{escape(_named(clusters))}"'
    for path in (directory / FOLDER).glob("*.html"):
        text = path.read_text(encoding="utf-8", errors="replace")
        if _KEPT_MAIN not in text:
            continue  # somebody else's page
        name = "href" if here in text else "data-row"
        linked = _TO_ROW.sub(lambda m, name=name: f'{m[1]}{name}="../{m[2]}' if m[2] in rows else m[0], text)  # type: ignore[misc]
        if linked != text:
            write_whole(path, linked)


def _named(clusters: Sequence[str]) -> str:
    return plain(", ".join(clusters))


def kept_text(root: ET.Element, run_id: str, clusters: Sequence[str]) -> str:
    """The text of a run's first page as it is kept: its rows lead to their newest pages."""
    for link in root.iter("a"):
        target = link.get("href", "")
        if target.startswith("rows/"):
            link.set("href", f"../{target}")
        elif target.startswith(("jobs.html", FOLDER)):
            del link.attrib["href"]
    main = next(root.iter("main"))
    main.set(_CLUSTERS, _named(clusters))
    said = element("p", "Rows lead to their newest pages here; all pages of this run are written by", class_="run")
    again = command_line(command("pytest-gsw", "report", run_id, "-o", f"report-{folder_of(run_id)}"))
    main.extend([said, again])
    return html_text(root)


def nights_page(
    runs: Sequence[Listed], pages: Mapping[str, str], cluster: str, links: Sequence[tuple[str, str]]
) -> ET.Element:
    """The index of runs, the newest first."""
    shown = runs[-_LISTED:][::-1]
    kinds = [kind for kind in KINDS if any(kind in by_kind(one.outcomes) for one in shown)]
    # A phone has room for the first ones: what a run came to is worth more than when it was, which its name says.
    heads = ["run", *(attention.BY_KIND[kind].word for kind in kinds), "rows", "when"]
    lines = [_line(one, kinds, pages.get(one.run_id)) for one in shown]
    if any(one.had_incident for one in shown):
        heads.insert(1, attention.INCIDENT.kind)
        for line, one in zip(lines, shown, strict=True):
            line.insert(1, _cell(attention.REGRESSED, int(one.had_incident)))
    title = f"Runs on {cluster}"
    caption = f"{counted(len(shown), 'run')}, the newest first; pytest-gsw report RUN writes the pages of one"
    main = [
        element("h1", title),
        section("strip", "By verdict", nights_strip(runs, pages.get)),
        section("runs", "All runs", table("runs", caption, heads, lines)),
    ]
    return page(title, main, links, here=NIGHTS)


def _line(run: Listed, kinds: Iterable[str], address: str | None) -> list[Content]:
    counts = by_kind(run.outcomes)
    name: Content = run.run_id if address is None else element("a", run.run_id, href=address)
    cells = [_cell(attention.BY_KIND[kind], counts.get(kind, 0)) for kind in kinds]
    return [name, *cells, f"{sum(counts.values())}", time_element(run.time_s)]


def _cell(needs: Attention, count: int) -> ET.Element:
    return element("td", f"{needs.sign} {count}", class_=needs.kind) if count else element("td")
