"""``pytest-gsw export``: a run for CI servers and for Prometheus."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gsw.cli.answer import Answer, Commands, answer_to
from pytest_gsw.cli.runs import RUNS, add_history_option, has_history, opened, run_directory, whole_run
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.reports.ci import FORMATS, exported_night
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.read import accepted_in
from pytest_gsw.results.record import Record
from pytest_gsw.tables.bundled import bundled_baselines


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    export = commands.add_parser("export", help="write a run for a CI server or for Prometheus")
    export.add_argument("run_directory", metavar="RUN", help="a run's directory, such as .gsw/runs/ID, or its id")
    export.add_argument("--format", choices=tuple(FORMATS), default="markdown", help="which one (default: markdown)")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there (default: print it)")
    add_history_option(export)
    export.set_defaults(run=_export)


def _export(asked: argparse.Namespace) -> Answer:
    directory = run_directory(asked.run_directory) if asked.run_directory else None
    if directory is None:
        raise ConfigurationError(f"there is no run '{asked.run_directory}'\nnext: ls {RUNS}")
    text = FORMATS[asked.format](_night(asked, *whole_run(directory)))
    return answer_to(asked.output, text, asked.format)


def _night(asked: argparse.Namespace, records: Sequence[Record], missing: Mapping[str, str]) -> Night:
    """The run, with its history where there is one: since when rows are too slow, slow nodes, and alarms."""
    if records and has_history(asked):
        accepted = accepted_in([bundled_baselines()], records)
        try:
            with opened(asked) as history:
                return exported_night(records, missing, history, accepted)
        except RunError as error:
            # The night is to be shown in any case.
            sys.stderr.write(f"pytest-gsw export: without the history: {quoted(str(error), os.environ)}\n")
    return exported_night(records, missing)
