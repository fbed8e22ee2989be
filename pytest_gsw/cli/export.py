"""``pytest-gsw export``: a run for CI servers and for Prometheus."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gsw.cli.answer import Answer, Commands, a_path, answer_to
from pytest_gsw.cli.runs import RUN_HELP, add_history_option, has_history, no_run, opened, run_directory, whole_run
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import RunError
from pytest_gsw.reports.ci import FORMATS, exported_night
from pytest_gsw.reports.night import Night, Run
from pytest_gsw.reports.read import accepted_in
from pytest_gsw.results.record import Record
from pytest_gsw.tables.bundled import bundled_baselines


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    export = commands.add_parser("export", help="write a run for a CI server or for Prometheus")
    export.add_argument("named", metavar="RUN", help=RUN_HELP)
    export.add_argument("--format", choices=tuple(FORMATS), default="markdown", help="which one (default: markdown)")
    export.add_argument("-o", "--output", type=a_path, metavar="FILE", help="write it there (default: print it)")
    add_history_option(export)
    export.set_defaults(run=_export)


def _export(asked: argparse.Namespace) -> Answer:
    directory = run_directory(asked.named)
    if directory is None:
        raise no_run(asked.named)
    text = FORMATS[asked.format](asked_night(asked, directory, *whole_run(directory)))
    return answer_to(asked.output, text, asked.format)


def asked_night(
    asked: argparse.Namespace, directory: Path, records: Sequence[Record], missing: Mapping[str, str]
) -> Night:
    """The run, with its history where there is one: since when rows are too slow, slow nodes, and alarms."""
    run = Run(directory, missing)
    if records and has_history(asked):
        accepted = accepted_in([bundled_baselines()], records)
        try:
            with opened(asked) as history:
                return exported_night(records, run, history, accepted)
        except RunError as error:
            # The night is to be shown in any case.
            sys.stderr.write(f"pytest-gsw {asked.command}: without the history: {quoted(str(error), os.environ)}\n")
    return exported_night(records, run)
