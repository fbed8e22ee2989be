"""A report on the disk: every file whole, and the first page last, so that it never names what is not there yet."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from pytest_gsw.common.files import make_directory, write_whole
from pytest_gsw.common.words import enumerated
from pytest_gsw.history.model import cluster_of
from pytest_gsw.history.store import History
from pytest_gsw.reports.build import judged_by
from pytest_gsw.reports.html.layout import html_text
from pytest_gsw.reports.html.nights import (
    FOLDER,
    NIGHTS,
    folder_of,
    kept_page,
    kept_text,
    link_beside,
    link_rows,
    listed_runs,
    nights_page,
    pages_there,
    prune,
)
from pytest_gsw.reports.html.pages import INDEX, JOBS, jobs_page, jobs_plot, night_page
from pytest_gsw.reports.html.row_page import log_ends_of, row_page
from pytest_gsw.reports.run_report import Listed, RunReport

#: The first page, and the folders of the others.
_ROWS, _STYLE = "rows", "report.css"


def write_report(nights: Sequence[RunReport], directory: Path, history: History | None = None) -> Path:
    """Write the pages of one run or of several; the newest is on the first page, which is returned.

    Args:
        nights: The reports of the runs, the newest first.
        directory: Where to write; it is made if it is not there.
        history: The runs before; ``None`` where there are none.

    Raises:
        HistoryError: The history did not answer.
        OSError: A file cannot be written.
    """
    then_s = {} if history is None else judged_by((row for night in nights for row in night.rows), history)
    newest, *others = nights
    written = {
        newest.run_id: INDEX,
        **{night.run_id: f"{FOLDER}/{folder_of(night.run_id)}/{INDEX}" for night in others},
    }
    runs_known = listed_runs(nights)
    pages = _pages_of_rows(nights, written)
    for night in others:
        siblings = [(other, f"../../{written[other.run_id]}") for other in nights if other is not night]
        home = directory / FOLDER / folder_of(night.run_id)
        _write_night(night, home, siblings, pages, then_s, root="../../", has_index=bool(runs_known))
    siblings = [(night, written[night.run_id]) for night in others]
    links = _write_night(newest, directory, siblings, pages, then_s, has_index=bool(runs_known))
    link_rows(directory, newest.clusters, {f"{_ROWS}/{row.name}.html" for row in newest.rows})
    if runs_known:
        _write_index(nights, directory, runs_known, written, links)
    there = pages_there(directory, runs_known, written)
    kept = _kept(newest)
    first = night_page(newest, siblings, links, there.get, places={**there, **kept} if runs_known and kept else None)
    _write_page(directory / INDEX, first)
    return directory / INDEX


def _write_index(
    nights: Sequence[RunReport],
    directory: Path,
    runs: Sequence[Listed],
    written: Mapping[str, str],
    links: Sequence[tuple[str, str]],
) -> None:
    """Keep the newest run's first page, lead from each run to the next one, and list them all."""
    newest = nights[0]
    of_kept = [("Newest run", INDEX), ("Runs", NIGHTS)]
    kept = _kept(newest)
    for run_id, address in kept.items():
        page = night_page(newest, (), of_kept, lambda _: None, root="../")
        make_directory(directory / FOLDER)
        write_whole(directory / address, kept_text(page, run_id, newest.clusters))
        prune(directory)
    there = pages_there(directory, runs, written)
    link_beside(directory, {**there, **kept})
    clusters = sorted({cluster for night in nights for cluster in night.clusters})
    _write_page(directory / NIGHTS, nights_page(runs, there, enumerated(clusters), links))


def _kept(night: RunReport) -> Mapping[str, str]:
    """Where a run's first page is kept; nothing of a replay, which is no run among the others."""
    return {} if night.replay_of else {night.run_id: kept_page(night.run_id)}


def _pages_of_rows(nights: Iterable[RunReport], addresses: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """By row and run, the newest first, where the row's page is, as seen from the report's directory."""
    found: dict[str, dict[str, str]] = {}
    for night in nights:
        home = addresses.get(night.run_id, INDEX).removesuffix(INDEX)
        for row in night.rows:
            found.setdefault(row.record.row.node_id, {})[night.run_id] = f"{home}{_ROWS}/{row.name}.html"
    return found


def _write_night(
    night: RunReport,
    directory: Path,
    others: Sequence[tuple[RunReport, str]],
    pages: Mapping[str, Mapping[str, str]],
    then_s: Mapping[tuple[str, str], Mapping[str, float]],
    root: str = "",
    *,
    has_index: bool,
) -> list[tuple[str, str]]:
    """Write the pages of a night, from which the root leads to the report's directory; the names of its pages.

    The first page of the newest night comes last of all.
    """
    make_directory(directory / _ROWS)
    style = resources.files(__package__ or "").joinpath(_STYLE).read_text(encoding="utf-8")
    write_whole(directory / _STYLE, style)
    links = [("This run", INDEX), ("Jobs", JOBS)]
    links += [("Runs", f"{root}{NIGHTS}")] if has_index else []
    for row in night.rows:
        of_runs = pages[row.record.row.node_id].items()
        # The page itself is no link, and stands among the others.
        beside = {run_id: "" if run_id == night.run_id else f"../{root}{address}" for run_id, address in of_runs}
        ends = log_ends_of(row, night.run.directory)
        of_row = then_s.get((row.record.row.id, cluster_of(row.record)), {})
        _write_page(directory / _ROWS / f"{row.name}.html", row_page(row, night, ends, links, beside, of_row))
    _write_page(directory / JOBS, jobs_page(night, jobs_plot(night), links))
    if root:
        _write_page(directory / INDEX, night_page(night, others, links))
    return links


def _write_page(path: Path, root: ET.Element) -> None:
    write_whole(path, html_text(root))
