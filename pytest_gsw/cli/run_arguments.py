"""Runs and the history, as subcommands find and show them."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_gsw.cli.arguments import VERBS, Ini
from pytest_gsw.common.files import at_home
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.database import HistoryError
from pytest_gsw.history.location import VARIABLE, open_history
from pytest_gsw.history.model import SeriesKey
from pytest_gsw.history.store import History
from pytest_gsw.jobs.journal import NAME as JOURNAL
from pytest_gsw.results import manifest, runs_directory
from pytest_gsw.results.record import Record
from pytest_gsw.stats.noise import Noise
from pytest_gsw.tables.model import row_matches
from pytest_gsw.tables.value_types import nearest

#: The note below a table in which :func:`noise_cell` has marked a row.
NOISE_NOTE = "* too few jobs to measure the row's noise: the usual value is used"


@contextlib.contextmanager
def opened(args: argparse.Namespace, *, make: bool = False) -> Iterator[History]:
    """The history that the arguments name; with ``make``, a missing one is created.

    Raises:
        ConfigurationError: There is none.
        RunError: An operation on it failed.
    """
    place = args.ini.history(args.history)
    if place is None:
        raise ConfigurationError(
            f"{'--history' if args.history else VARIABLE} says 'none': there is no history\n"
            "next: name one with --history=PLACE"
        )
    if not make and not exists(place):
        raise ConfigurationError(
            f"there is no history {place}\n{_next(args.ini)}, or name another one with --history=PLACE"
        )
    with open_history(place) as history:
        try:
            yield history
        except HistoryError as error:
            raise RunError(str(error)) from None


def _next(ini: Ini) -> str:
    """The next command for a history without runs."""
    has_runs = any(ini.runs.glob("*"))
    return f"next: pytest-gsw history --add {ini.runs}/*" if has_runs else "next: run rows, pytest --gsw-cluster=NAME"


def exists(place: str | Path | None) -> bool:
    """True if there is a history at a place; a server is not asked."""
    return isinstance(place, str) or (place is not None and os.path.lexists(place))


@contextlib.contextmanager
def known_history(args: argparse.Namespace) -> Iterator[History | None]:
    """The history, ``None`` if there is none; one that is given by name has to exist, see :func:`opened`."""
    place = args.ini.history(args.history)
    if exists(place) or (place is not None and args.history is not None):
        with opened(args) as history:
            yield history
    else:
        yield None


def run_directory(ini: Ini, given: str, holding: str = "") -> Path | None:
    """The directory of a run, by its path, its id, or as the last; ``None`` if none has this file.

    Raises:
        ConfigurationError: It begins with an unknown home directory.
    """
    if given == runs_directory.LAST:
        return manifest.newest_run(ini.runs, JOURNAL, runs_directory.RECORDS)
    try:
        places = (at_home(given), ini.runs / given)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    return next((path for path in places if given and (path / holding).is_dir()), None)


def records_in(ini: Ini, history: History | None, given: str) -> tuple[Record, ...]:
    """The records of a run without a directory; a ConfigurationError if the history lacks it."""
    runs = [] if history is None else [*history.runs()]
    run = runs[-1] if given == runs_directory.LAST and runs else given
    if history is None or run not in runs:
        raise missing_run(ini, given, history, runs)
    return history.records(run)


def missing_run(
    ini: Ini, given: str, history: History | None = None, in_history: Sequence[str] = ()
) -> ConfigurationError:
    """The error for a run that is neither here nor in the history."""
    also = "" if history is None else f", and none in the history {history.shown}"
    if given == runs_directory.LAST:
        return ConfigurationError(f"there is no run in {ini.runs}{also}\n{_next(ini)}")
    fact = f"there is no directory {given}" if "/" in given else f"there is no run '{given}' in {ini.runs}"
    return runs_directory.no_run(f"{fact}{also}", Path(given).name, ini.runs, in_history)


def clusters_of(history: History, args: argparse.Namespace) -> Sequence[str]:
    """The clusters of a history, or the given one; a ConfigurationError if it has none, or not this one."""
    known = sorted({key.cluster for key in history.series()})
    if not known:
        raise ConfigurationError(f"the history {history.shown} has no measured job\n{_next(args.ini)}")
    given: str | None = args.cluster
    if given is not None and given not in known:
        of = ", ".join(known)
        raise ConfigurationError(
            f"--cluster: the history {history.shown} is of {of}, not of {given}{nearest(given, known)}"
        )
    return known if given is None else [given]


def series_of(history: History, args: argparse.Namespace) -> Sequence[SeriesKey]:
    """The series of rows, by patterns, and of a cluster; a ConfigurationError if one of them matches nothing."""
    clusters_of(history, args)
    known = sorted({key.row for key in history.series((), args.cluster)})
    for pattern in args.rows:
        if not any(row_matches(pattern, row) for row in known):
            near = nearest(pattern, [*known, *(verb.rpartition(" ")[2] for verb in VERBS)])
            raise ConfigurationError(
                f"the history {history.shown} has no row '{pattern}'{near}\nnext: pytest-gsw history"
            )
    return history.series(args.rows, args.cluster)


def noise_cell(noise: Noise) -> str:
    """Noise as tables show it, with a mark if it is the usual value."""
    return f"{noise.sigma * 100:.1f} %{'' if noise.jobs else '*'}"
