"""Rows by runs: a matrix of which each cell is a link, and the index of runs."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_gsw.common.text import plural
from pytest_gsw.reports.html import Content, element, page, row_link, section, table, time_element
from pytest_gsw.reports.reported_row import KINDS, ReportedRow, current_reference, home_of
from pytest_gsw.reports.run_report import RunListEntry, RunReport
from pytest_gsw.reports.texts import percent, without_unit
from pytest_gsw.results import attention, outcomes

#: By run, the names of the rows that have a page in it; runs without pages are missing.
RunPages = Mapping[str, Collection[str]]

#: The standard deviations of a row's own noise beyond which a run that passed has a mark.
_MARKED = 2.0
#: Class and sign of a run that passed, by whether it was slower, faster, or as usual.
_SLOWER, _FASTER, _USUAL = ("slower", "\N{MINUS SIGN}"), ("faster", "+"), ("usual", "\N{MIDDLE DOT}")

#: How the report lists a row, by the word of its outcome.
_ATTENTIONS = {word: outcome.attention.in_report for word, outcome in outcomes.BY_WORD.items()}

#: The address of the index of runs, and the most runs that it lists.
RUN_INDEX, _LISTED = "runs.html", 200


def address_in(row: ReportedRow, run_id: str, pages: RunPages) -> str:
    """The page of a row in a run, or of that run; empty if it has none."""
    if run_id not in pages:
        return ""
    return f"{home_of(run_id)}{f'rows/{row.name}' if row.name in pages[run_id] else 'index'}.html"


def matrix(name: str, rows: Sequence[ReportedRow], report: RunReport, pages: RunPages) -> ET.Element | None:
    """The rows, each with its verdict and a cell for each of the newest runs before; nothing without these."""
    runs = report.matrix_runs
    if not runs:
        return None
    heads: list[Content] = ["row", "now", *(_run_head(run, pages) for run in runs)]
    lines = ([row_link(row), _now(row), *marks(row, runs, pages)] for row in rows)
    caption = f"{plural(len(rows), 'row')} in {plural(len(runs), 'run')} before this one, the newest first; passed, "
    caption += f"but slower (\N{MINUS SIGN}) or faster (+) than usual by {_MARKED:g} times the row's own noise"
    made = table(name, caption, heads, lines)
    if made is not None:
        made.set("class", "scroll matrix")
    return made


def _run_head(run: RunListEntry, pages: RunPages) -> ET.Element:
    address = f"{home_of(run.run_id)}index.html" if run.run_id in pages else f"{RUN_INDEX}#{run.anchor}"
    return element("a", run.when[5:10] or "?", href=address, class_="run", title=run.when)


def _now(row: ReportedRow) -> ET.Element:
    """The verdict of this run: its sign, its word for screen readers, and the change."""
    word, changed = element("span", row.needs.word, class_="vh"), without_unit(percent(row.record.change))
    return element("td", element("a", f"{row.needs.sign} ", word, f" {changed}", href=row.address), class_=row.kind)


def marks(row: ReportedRow, runs: Iterable[RunListEntry], pages: RunPages) -> Iterator[ET.Element | None]:
    """The marks of a row in runs, each a link; ``None`` for a run without the row."""
    points = {point.run_id: point for point in row.past.measured}
    words = {outcome.run_id: outcome.outcome for outcome in row.earlier}
    reference, metric, usual = current_reference(row)[0], row.record.judged_metric, row.usual
    for run in runs:
        word, point = words.get(run.run_id), points.get(run.run_id)
        if word is None:
            yield None
            continue
        needs = _ATTENTIONS[word]
        kind, shown, told = needs.kind, needs.sign, f"{run.when}: {needs.word}"
        if point is not None and usual is not None and needs is attention.PASSED:
            over = -math.log(metric.direction.speed(point.judged, usual[0])) / usual[1]
            kind, shown = _SLOWER if over > _MARKED else _FASTER if over < -_MARKED else _USUAL
        if point is not None and reference:
            told += f" {100 * metric.change(point.judged, reference):+.1f} %".replace("-", "\N{MINUS SIGN}")
        # By hand: a report has ten thousands of them.
        address = address_in(row, run.run_id, pages) or row.address
        mark = ET.Element("a", {"href": address, "title": told, "class": kind})
        mark.text = shown
        yield mark


# -- the index of runs -----------------------------------------------------------------------------


def listed_runs(reports: Iterable[RunReport]) -> tuple[RunListEntry, ...]:
    """The runs of the history and of a report, the oldest first."""
    known = {run.run_id: run for report in reports for run in report.history_runs}
    current_runs = (report.list_entry for report in reports)
    known |= {run.run_id: replace(run, time_s=known.get(run.run_id, run).time_s) for run in current_runs}
    return tuple(sorted(known.values(), key=lambda run: (run.time_s, run.run_id)))


def run_index_page(
    runs: Sequence[RunListEntry], pages: RunPages, cluster: str, links: Sequence[tuple[str, str]]
) -> ET.Element:
    """The index of runs, the newest first."""
    shown = runs[-_LISTED:][::-1]
    kinds = [kind for kind in KINDS if any(kind in _by_kind(run.outcomes) for run in shown)]
    # A phone has room for the first ones: outcomes are worth more than the time, which is in the name.
    heads = ["run", *(f">{attention.BY_KIND[kind].word}" for kind in kinds), ">rows", "kind", "when"]
    lines = [_line(run, kinds, run.run_id in pages) for run in shown]
    title = f"Runs on {cluster}"
    caption = f"{plural(len(shown), 'run')}, the newest first; pytest-gsw report RUN writes the pages of one"
    runs_table = section("runs", "All runs", table("runs", caption, heads, lines))
    return page(title, [element("h1", title), runs_table], links, here=RUN_INDEX)


def _line(run: RunListEntry, kinds: Iterable[str], has_pages: bool) -> list[Content]:
    counts = _by_kind(run.outcomes)
    name = element("a", run.run_id, href=f"{home_of(run.run_id)}index.html" if has_pages else None, id=run.anchor)
    found = [(kind, f"{attention.BY_KIND[kind].sign} {counts[kind]}" if kind in counts else None) for kind in kinds]
    cells = [element("td", shown, class_=kind if shown else None) for kind, shown in found]
    words = [word for word, is_so in (("sweep", run.is_sweep), ("incident", run.had_incident)) if is_so]
    kind = element("td", ", ".join(words) or "night", class_="regressed" if run.had_incident else None)
    return [name, *cells, f"{sum(counts.values())}", kind, time_element(run.time_s)]


def _by_kind(words: Mapping[str, int]) -> dict[str, int]:
    """The number of rows of each kind, the worst first, by the words of their outcomes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[outcomes.of(word).attention.in_report.kind] += count
    return {kind: counts[kind] for kind in KINDS if counts[kind]}
