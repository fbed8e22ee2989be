"""Completion in shells after ``pytest-gsw``: rows, clusters and runs, by argcomplete.

A shell that completes runs the command itself, with a variable set; no other call comes here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pytest_gsw.cli.arguments import Ini, read_ini
from pytest_gsw.cli.run_arguments import WORDS
from pytest_gsw.clusters import cluster_files, known_clusters
from pytest_gsw.errors import GswError
from pytest_gsw.results.runs_directory import LAST
from pytest_gsw.tables.load import read_tables


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end the process; without argcomplete nothing happens.

    Args:
        parser: The parser of the command line.
    """
    try:
        import argcomplete
    except ImportError:
        return
    for action in _actions(parser):
        words = words_for(action)
        if words is not None:
            action.completer = words  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def words_for(action: argparse.Action) -> Callable[..., list[str]] | None:
    """The completer of an argument; ``None`` for files and free text."""
    metavar = str(action.metavar)
    if metavar.startswith("RUN"):
        return _runs
    if action.dest == "rows":
        return _rows_or_runs
    if action.dest == "row":
        return _rows
    return _clusters if action.dest == "cluster" else None


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its subcommands."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            for below in action.choices.values():
                yield from _actions(below)


def _rows(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The ids of rows, of the tables that the line names, else of the bundled ones."""
    try:
        rows, blanks = read_tables(_ini().tables(getattr(parsed_args, "baselines", None)))
    except (GswError, OSError):
        return []
    return _starting_with(prefix, sorted({*(row.id for row in rows), *(row.id for row in blanks)}))


def _rows_or_runs(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Rows of ``pytest-gsw history``, its words in place of rows, and the runs after these."""
    if parsed_args.rows and parsed_args.rows[0] in WORDS:
        return _runs(prefix)
    return [*_starting_with(prefix, () if parsed_args.rows else WORDS), *_rows(prefix, parsed_args)]


def _runs(prefix: str, **_: object) -> list[str]:
    """The ids of the runs here, the newest first, the word for that, and directories."""
    from argcomplete.completers import DirectoriesCompleter

    ids = sorted((path.name for path in _ini().runs.glob("*")), reverse=True)
    return [*_starting_with(prefix, [LAST, *ids]), *DirectoriesCompleter()(prefix)]


def _clusters(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The clusters that a session which is started here would find."""
    try:
        files = cluster_files(getattr(parsed_args, "clusters", None) or _ini().clusters, (Path.cwd(),), os.environ)
        return _starting_with(prefix, known_clusters(files))
    except (GswError, OSError):
        return []


def _ini() -> Ini:
    """The ini file; of one that cannot be read, nothing: a shell that completes shows no message."""
    try:
        return read_ini()
    except GswError:
        return Ini()


def _starting_with(prefix: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(prefix)]
