"""``pytest-gsw junit``: a run's JUnit file, rebuilt from its records."""

from __future__ import annotations

import argparse

from pytest_gsw.cli.answer import Answer, Commands, a_path, answer_to
from pytest_gsw.cli.export import asked_night
from pytest_gsw.cli.report import NAME
from pytest_gsw.cli.runs import RUN_HELP, add_history_option, no_run, run_directory, whole_run
from pytest_gsw.reports.rows import page_names
from pytest_gsw.reports.since import since_facts
from pytest_gsw.results.rebuild import counts, junit_text, rebuild_junit


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    junit = commands.add_parser("junit", help="rebuild a run's JUnit file from its records")
    junit.add_argument("named", metavar="RUN", help=RUN_HELP)
    junit.add_argument("-o", "--output", type=a_path, metavar="FILE", help="write it there (default: print it)")
    junit.add_argument("--strict", action="store_true", help="rows faster than the tolerance allows are failures")
    add_history_option(junit)
    junit.set_defaults(run=_junit)


def _junit(asked: argparse.Namespace) -> Answer:
    directory = run_directory(asked.named)
    if directory is None:
        raise no_run(asked.named)
    records, missing = whole_run(directory)
    names = page_names(record.row.node_id for record in records)
    pages = {node_id: directory / NAME / "rows" / f"{name}.html" for node_id, name in names.items()}
    night = asked_night(asked, directory, records, missing)
    since = {row.record.row.node_id: since_facts(row.since) for row in night.rows}
    root = rebuild_junit(directory, records, missing, strict=asked.strict, pages=pages, since=since)
    found = (f"{number} {name.removesuffix('s') if number == 1 else name}" for name, number in counts(root).items())
    return answer_to(asked.output, junit_text(root), ", ".join(found))
