"""A report on the disk: every file whole, and the first page last, so that it never names what is not there yet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from pytest_gsw.files import write_whole
from pytest_gsw.history.store import History
from pytest_gsw.quoting import quoted
from pytest_gsw.report import pages, plots
from pytest_gsw.report.elements import html_text, svg_text
from pytest_gsw.report.evidence import LogEnd, log_ends
from pytest_gsw.report.night import Night, Row, Run, nights_by_run
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Accepted

#: The first page.
INDEX = "index.html"


def write_report(
    records: Iterable[Record],
    history: History | None,
    directory: Path,
    *,
    runs: Mapping[str, Run] | None = None,
    accepted: Mapping[str, Mapping[str, Accepted]] | None = None,
) -> Path:
    """Write the report of one run or of several; the newest is on the first page.

    Args:
        records: The records of all of them.
        history: The nights before; ``None`` where there are none.
        directory: Where to write; it is made if it is not there.
        runs: What the records do not say, by run id.
        accepted: By row and cluster, what clusters have accepted.

    Returns:
        The first page.

    Raises:
        HistoryError: The history did not answer.
        OSError: A file cannot be written.
    """
    # A session quotes what it records; a record of an earlier release may hold anything.
    shown = [quoted(record, os.environ) for record in records]
    nights = nights_by_run(shown, history, runs or {}, accepted)
    newest, *others = nights
    addresses = {night.run_id: f"nights/{_folder(night.run_id)}/{INDEX}" for night in others}
    for night in others:
        siblings = [(other, f"../../{addresses.get(other.run_id, INDEX)}") for other in nights if other is not night]
        _write_night(night, directory / "nights" / _folder(night.run_id), siblings)
    return _write_night(newest, directory, [(night, addresses[night.run_id]) for night in others])


def _folder(run_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", run_id)[:100] or "run"


def _write_night(night: Night, directory: Path, others: Sequence[tuple[Night, str]]) -> Path:
    for folder in ("rows", "plots"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    style = resources.files(__package__ or "").joinpath("report.css").read_text(encoding="utf-8")
    write_whole(directory / "report.css", style)
    links = [("Night", INDEX)]
    for row in night.rows:
        _write_row(row, night, directory, links)
    index = directory / INDEX
    write_whole(index, html_text(pages.night_page(night, others, links)))
    return index


def _write_row(row: Row, night: Night, directory: Path, links: Sequence[tuple[str, str]]) -> None:
    pictures: dict[str, tuple[str, plots.Plot]] = {}
    for what, plot in (("steps", plots.steps_plot(row.record)), ("nights", plots.history_plot(row))):
        if plot is not None:
            name = f"{row.name}-{what}.svg"
            write_whole(directory / "plots" / name, svg_text(plot.svg))
            pictures[what] = (f"../plots/{name}", plot)
    record = row.record
    ends: tuple[LogEnd, ...] = ()
    if row.kind in {"error", "regressed", "inconclusive"}:
        ends = log_ends(
            record.log, record.job.id if record.job else "", night.run.directory, failed=row.kind == "error"
        )
    page = pages.row_page(row, night, pictures, ends, links)
    write_whole(directory / "rows" / f"{row.name}.html", html_text(page))
