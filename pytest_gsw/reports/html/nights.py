"""Runs beside each other: the index of a cluster's runs, the pages that are kept of earlier ones, and their links.

A report is written over that of the run before. Of each run its first page stays, ``nights/RUN.html``: what it came to
is to be found again, and a page for each row of each night would be gigabytes.
"""

from __future__ import annotations

import posixpath
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from html import escape
from pathlib import Path

from pytest_gsw.common.files import write_whole
from pytest_gsw.common.words import command, counted
from pytest_gsw.history.model import Point
from pytest_gsw.performance.verdict import UNUSUAL
from pytest_gsw.reports.html.charts import in_view
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
from pytest_gsw.reports.html.texts import minute, moment, percent
from pytest_gsw.reports.run_report import KINDS, Listed, Row, RunReport
from pytest_gsw.results import attention, outcomes
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


#: Nights that are shown, and how high a column is, and how wide, in its own units.
SHOWN = 30
_HIGH, _WIDE, _LEAST = 60, 20, 3

#: The curve of a row, in its own units, and what it spans at least, a fraction of throughput.
_CURVE_WIDE, _CURVE_HIGH, _ROOM = 160, 36, 4
_LEAST_SPAN = 0.04


def by_kind(words: Mapping[str, int]) -> dict[str, int]:
    """How many rows there are of each kind, the worst first, by the words of their outcomes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[outcomes.of(word).attention.in_report.kind] += count
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def counts_of(words: Mapping[str, int]) -> str:
    """``3 regressed, 2 errors, 98 passed``."""
    return ", ".join(
        outcomes.ERROR.of_rows(count) if kind == attention.ERROR.kind else f"{count} {attention.BY_KIND[kind].word}"
        for kind, count in by_kind(words).items()
    )


def nights_strip(nights: Iterable[Listed], address_of: Callable[[str], str | None], here: str = "") -> ET.Element:
    """A column for each of the newest nights, the newest at the right; each with its counts, and a link to its page."""
    shown = list(nights)[-SHOWN:]
    most = max((sum(night.outcomes.values()) for night in shown), default=1)
    labels = _labels([night.time_s for night in shown])
    columns = [
        _column(
            night,
            most,
            None if night.run_id == here else address_of(night.run_id),
            label,
            is_here=night.run_id == here,
        )
        for night, label in zip(shown, labels, strict=True)
    ]
    kinds = {kind for night in shown for kind in by_kind(night.outcomes)}
    legend = [_swatch(kind) for kind in KINDS if kind in kinds]
    strip = element("ol", *columns, class_="strip", aria_label="Runs by verdict, the newest last")
    caption = f"The newest runs by verdict, until {minute(shown[-1].time_s)}" if shown else None
    return element("div", element("p", caption, class_="run"), strip, element("p", *legend, class_="legend"))


def _labels(times_s: Sequence[float]) -> list[str]:
    """In what each run differs from the one before, its day, else its hour, else its minute: ``23``, ``16h``, ``:04``.

    The first has its day, or its hour where all are of one day.
    """
    told = [("", "", "") if found is None else _parts(found) for found in map(moment, times_s)]
    days = {day for day, _, _ in told}
    before = [(day if len(days) == 1 else "", "", "") for day, _, _ in told[:1]]
    return [
        next((part for part, known in zip(one, last, strict=True) if part != known), "")
        for one, last in zip(told, [*before, *told], strict=False)
    ]


def _parts(time: datetime) -> tuple[str, str, str]:
    return f"{time:%d}", f"{time:%H}h", f":{time:%M}"


def _column(night: Listed, most: int, address: str | None, label: str, *, is_here: bool) -> ET.Element:
    counts = by_kind(night.outcomes)
    told = f"{minute(night.time_s)}: {'1 incident, ' if night.had_incident else ''}{counts_of(night.outcomes)}"
    worst = attention.BY_KIND[next(iter(counts))].sign if counts else ""
    worst = attention.REGRESSED.sign if night.had_incident else worst
    parts = [
        _bars(counts, most),
        element("span", worst, aria_hidden="true"),
        element("span", label, aria_hidden="true"),
        element("span", told, class_="vh"),
    ]
    if address is None:
        return element("li", element("span", *parts, title=told, class_="here" if is_here else None))
    return element("li", element("a", *parts, title=told, href=address))


def _bars(counts: Mapping[str, int], most: int) -> ET.Element:
    """The counts of one night, the worst on top."""
    bars = []
    bottom = float(_HIGH)
    for kind in reversed(list(counts)):
        height = max(_LEAST, counts[kind] / most * (_HIGH - _LEAST * len(counts)))
        bottom -= height
        bars.append(element("rect", x=1, y=round(bottom, 1), width=_WIDE - 2, height=round(height, 1), class_=kind))
    return element("svg", *bars, viewBox=f"0 0 {_WIDE} {_HIGH}", class_="column", aria_hidden="true")


def _swatch(kind: str) -> ET.Element:
    known = attention.BY_KIND[kind]
    box = element("svg", element("rect", x=1, y=1, width=8, height=8, class_=kind), viewBox="0 0 10 10")
    box.set("class", "swatch")
    box.set("aria-hidden", "true")
    return element("span", box, f" {known.sign} {known.word}")


# -- the curve of a row ----------------------------------------------------------------------------


def row_curve(row: Row) -> ET.Element | None:
    """Throughput over a row's newest nights against what the row is held against; those with errors have crosses.

    Nights that say nothing of the row are squares beside the line.
    """
    verdict = row.verdict
    nights = row.past.measured[-SHOWN:]
    if verdict is None or len(nights) < 2:
        return None
    changes = [verdict.reference_s / night.judged_s - 1 for night in nights]
    failed = [one for one in row.earlier if one.outcome == outcomes.ERROR.word and one.time_s >= nights[0].time_s]
    when = sorted([*(night.time_s for night in nights), *(one.time_s for one in failed)])
    place = {time_s: _across(number, len(when)) for number, time_s in enumerate(when)}
    low, high = in_view(changes, [0.0], _LEAST_SPAN)
    room = max(0.0, _LEAST_SPAN - (high - low)) / 2
    low, high = low - room, high + room

    def up(change: float) -> float:
        return round(_ROOM + (high - min(max(change, low), high)) / (high - low) * (_CURVE_HIGH - 2 * _ROOM), 1)

    places = [(place[night.time_s], up(change)) for night, change in zip(nights, changes, strict=True)]
    told = f"Throughput of {len(nights)} runs from {percent(min(changes))} to {percent(max(changes))}"
    told += f", {percent(changes[-1])} in the newest"
    told += f"; {len(failed)} with errors" if failed else ""
    zero = element("line", x1=0, x2=_CURVE_WIDE, y1=up(0.0), y2=up(0.0), class_="reference")
    line = element("polyline", class_="nights")
    drawn = list(zip(places, nights, strict=True))
    usual = [place for place, night in drawn if night.reason not in UNUSUAL]
    line.set("points", " ".join(f"{x:g},{y:g}" for x, y in usual))  # no text, and longer than texts may be
    marks = [_mark(place, night, row) for place, night in drawn if night.reason in UNUSUAL or night is nights[-1]]
    crosses = [arm for one in failed for arm in _cross(place[one.time_s])]
    return element(
        "svg",
        *(element("title", told), zero, line, *crosses, *marks),
        viewBox=f"0 0 {_CURVE_WIDE} {_CURVE_HIGH}",
        class_="curve",
        role="img",
        aria_label=told,
    )


def _mark(place: tuple[float, float], night: Point, row: Row) -> ET.Element:
    """A night by what it came to: a dot, or a square where it says nothing of the row."""
    x, y = place
    kind = row.kind if night.run_id == row.record.run.id else outcomes.of(night.outcome).attention.in_report.kind
    if night.reason in UNUSUAL:
        return element("rect", x=round(x - 3, 1), y=round(y - 3, 1), width=6, height=6, class_=kind)
    return element("circle", cx=x, cy=y, r=3, class_=kind)


def _across(number: int, of: int) -> float:
    return round(_ROOM + number / max(of - 1, 1) * (_CURVE_WIDE - 2 * _ROOM), 1)


def _cross(x: float) -> list[ET.Element]:
    """A night with an error, at the foot."""
    y, arm = _CURVE_HIGH - _ROOM - 1, 3
    slopes = ((y - arm, y + arm), (y + arm, y - arm))
    return [element("line", x1=x - arm, x2=x + arm, y1=y1, y2=y2, class_="failed") for y1, y2 in slopes]
