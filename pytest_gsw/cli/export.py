"""``pytest-gsw export``: a run for CI servers and for Prometheus."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pytest_gsw.cli.answer import Answer, Commands, write_answer
from pytest_gsw.cli.history import RESULTS, add_history_option, exists, opened
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.place import history_place
from pytest_gsw.reports.ci import FORMATS, quoted_night
from pytest_gsw.reports.ci.history import since_of
from pytest_gsw.reports.ci.night import is_slow
from pytest_gsw.results.rebuild import read_whole_run
from pytest_gsw.results.record import Record


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    export = commands.add_parser("export", help="write a run for a CI server or for Prometheus")
    export.add_argument("run_directory", metavar="RUN", help="a run's directory, such as .gsw/runs/ID, or its id")
    export.add_argument("--format", choices=tuple(FORMATS), default="markdown", help="which one (default: markdown)")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there (default: print it)")
    add_history_option(export)
    export.set_defaults(run=_export)


def _export(asked: argparse.Namespace) -> Answer:
    directory = _directory(asked.run_directory)
    records, missing = read_whole_run(directory)
    if not records and not missing:
        raise ConfigurationError(f"there are no records in {directory}\nnext: ls {RESULTS / 'runs'}")
    text = FORMATS[asked.format](quoted_night(records, missing, _since(asked, records), os.environ))
    if asked.output is None:
        return Answer(text)
    write_answer(asked.output, text)
    return Answer(f"{asked.output}: {asked.format}")


def _directory(given: str) -> Path:
    """The directory of a run that is named by it or by its id.

    Raises:
        ConfigurationError: There is none.
    """
    for directory in (Path(given), RESULTS / "runs" / given):
        if given and directory.is_dir():
            return directory
    raise ConfigurationError(f"there is no run '{given}'\nnext: ls {RESULTS / 'runs'}")


def _since(asked: argparse.Namespace, records: Iterable[Record]) -> Mapping[str, str]:
    """Since when rows that are too slow are so, by their node ids, as far as there is a history that tells it."""
    slow = [record for record in records if is_slow(record)]
    if not slow or (asked.history is None and not exists(history_place(None, RESULTS))):
        return {}
    try:
        with opened(asked) as history:
            return since_of(history, slow)
    except RunError as error:
        # The night is to be shown in any case.
        sys.stderr.write(f"pytest-gsw export: without the history: {quoted(str(error), os.environ)}\n")
        return {}
