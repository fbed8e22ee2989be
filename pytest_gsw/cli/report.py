"""``pytest-gsw report``: runs as a static report, for a browser and for Jenkins."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.cli.answer import Answer, Commands, a_path
from pytest_gsw.cli.runs import (
    RUN_HELP,
    add_history_option,
    has_history,
    opened,
    records_in,
    run_directory,
    whole_run,
)
from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import counted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.store import History
from pytest_gsw.reports.html import Run, accepted_in, write_report
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_id import RUNS
from pytest_gsw.results.summary import counts_line
from pytest_gsw.tables.bundled import bundled_baselines

#: Where a run's report is in its directory by default.
NAME = "report"


@dataclass(frozen=True)
class _Asked:
    """One run that is asked for."""

    run_id: str
    records: tuple[Record, ...]
    run: Run
    #: Whether its directory is there, and not only its records in the history.
    is_here: bool


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    report = commands.add_parser("report", help="write runs as pages for a browser, which need no server and no script")
    report.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    report.add_argument("-o", "--output", type=a_path, metavar="DIR", help=f"where to write (default: RUN/{NAME})")
    add_history_option(report)
    report.add_argument(
        "--baselines", action="append", type=a_path, metavar="PATH", help="tables with accepted figures"
    )
    report.set_defaults(run=_report)


def _report(asked: argparse.Namespace) -> Answer:
    # A night can be shown without others.
    with opened(asked) if has_history(asked) else contextlib.nullcontext() as history:
        found = [_asked(given, history) for given in dict.fromkeys(asked.runs)]
        directory = asked.output or _default_output(found)
        records = [record for one in found for record in one.records]
        runs = {one.run_id: one.run for one in found}
        accepted = accepted_in(asked.baselines or [bundled_baselines()], records)
        try:
            index = write_report(records, history, directory, runs=runs, accepted=accepted)
        except OSError as error:
            raise ConfigurationError(f"the report cannot be written: {error.strerror}: {error.filename}") from None
    return Answer(f"{index}: {_said(found)}")


def _asked(given: str, history: History | None) -> _Asked:
    """A run of a directory, or of the history; a ConfigurationError where there is none, or nothing in it."""
    found = run_directory(given)
    if found is None:
        records = records_in(history, given)
        run_id = records[0].run.id
        return _Asked(run_id, records, Run(RUNS / run_id), is_here=False)
    directory = from_here(found)
    records, missing = whole_run(directory)
    run_id = records[0].run.id if records else directory.name
    return _Asked(run_id, records, Run(directory, missing), is_here=True)


def _default_output(found: Sequence[_Asked]) -> Path:
    if len(found) > 1:
        raise ConfigurationError(f"where is the report of {len(found)} runs to be written?\nnext: add -o DIR")
    (one,) = found
    if not one.is_here:
        raise ConfigurationError(f"run {one.run_id} is in the history and has no directory here\nnext: add -o DIR")
    return one.run.directory / NAME


def _said(found: Sequence[_Asked]) -> str:
    if len(found) > 1:
        return counted(len(found), "run")
    (one,) = found
    return counts_line(one.records, len(one.run.missing))
