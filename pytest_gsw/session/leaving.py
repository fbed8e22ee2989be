"""What a session leaves for those who did not watch it: ``--gsw-report``, and what GitHub Actions takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_gsw.common.files import from_here, write_whole
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.store import History
from pytest_gsw.reports.ci import TEXTS
from pytest_gsw.reports.ci.annotations import github
from pytest_gsw.reports.ci.markdown import markdown
from pytest_gsw.reports.html import Run, accepted_in, write_report
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.read import exported_night
from pytest_gsw.reports.told import Once
from pytest_gsw.results.rebuild import read_whole_run
from pytest_gsw.results.record import Record
from pytest_gsw.session.alarming import SessionAlarms
from pytest_gsw.session.nights import history_at
from pytest_gsw.session.settings import Settings
from pytest_gsw.tables.model import Accepted


def leave_report(settings: Settings, exit_status: int, environ: Mapping[str, str], known: SessionAlarms) -> list[str]:
    """Write the report with the files for CI, and what GitHub Actions takes.

    Args:
        settings: The session's.
        exit_status: How it ends.
        environ: The process's environment.
        known: What the history knows to be wrong, by the session's own night as well.

    Returns:
        Lines to print.

    Raises:
        OSError: A file cannot be written.
    """
    records, missing = read_whole_run(settings.run_directory)
    said: list[str] = []
    with history_at(settings.history) as history:
        accepted = accepted_in(settings.baselines, records)
        once = None if history is None else Once(history, known.nights)
        run = Run(from_here(settings.run_directory), missing, exit_status, known.found)
        night = _night(records, run, history, said, once)
        if settings.report is not None:
            index = _write(settings, records, history, run, accepted, said, once)
            for text in TEXTS.values():
                write_whole(settings.report / text.file, f"{text.of(night).rstrip()}\n")
            said.append(f"gsw: the report is {from_here(index)}")
    if environ.get("GITHUB_ACTIONS") != "true":
        return said
    if place := environ.get("GITHUB_STEP_SUMMARY"):
        with Path(place).open("a", encoding="utf-8") as summary:  # others write there, too
            summary.write(f"{markdown(night)}\n")
    return [*said, *github(night).splitlines()]


def _night(
    records: tuple[Record, ...],
    run: Run,
    history: History | None,
    said: list[str],
    once: Once | None,
) -> Night:
    try:
        return exported_night(records, run, history, known=once)
    except HistoryError as error:
        said.append(f"gsw: the report does without the history: {error}")
        return exported_night(records, run)


def _write(
    settings: Settings,
    records: tuple[Record, ...],
    history: History | None,
    run: Run,
    accepted: Mapping[str, Mapping[str, Accepted]] | None,
    said: list[str],
    once: Once | None,
) -> Path:
    assert settings.report is not None  # else nothing is written
    runs = {settings.run_id: run}
    if history is not None and not said:
        try:
            return write_report(records, history, settings.report, runs=runs, accepted=accepted, known=once)
        except HistoryError as error:
            said.append(f"gsw: the report does without the history: {error}")
    return write_report(records, None, settings.report, runs=runs, accepted=accepted)
