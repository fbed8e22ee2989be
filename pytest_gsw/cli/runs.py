"""Runs and the history, as subcommands find and show them."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.errors import HistoryError
from pytest_gsw.history.place import VARIABLE, history_place, open_history
from pytest_gsw.history.store import History
from pytest_gsw.performance.noise import Noise
from pytest_gsw.results.rebuild import read_whole_run
from pytest_gsw.results.record import Record

#: Where sessions keep their results, and the runs in them, by default.
RESULTS = Path(".gsw")
RUNS = RESULTS / "runs"

#: What stands below a table in which :func:`noise_cell` has marked a row.
NOISE_NOTE = "* of fewer jobs than tell their noise: what is usual"


def add_history_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the history."""
    parser.add_argument(
        "--history",
        metavar="PLACE",
        help=f"a file, or postgresql://USER@HOST/DATABASE (default: ${VARIABLE}, else {RESULTS / 'history.sqlite'})",
    )


@contextlib.contextmanager
def opened(asked: argparse.Namespace, *, make: bool = False) -> Iterator[History]:
    """The history that is asked for; it is made where there is none, if it may be.

    Raises:
        ConfigurationError: There is none.
        RunError: It did not do what it was asked.
    """
    place = history_place(asked.history, RESULTS)
    if place is None:
        raise ConfigurationError(
            f"{'--history' if asked.history else VARIABLE} says 'none': there is no history\n"
            "next: name one with --history=PLACE"
        )
    if not make and not exists(place):
        raise ConfigurationError(
            f"there is no history {place}\n"
            f"next: pytest-gsw history --add {RUNS}/*, or name another one with --history=PLACE"
        )
    with open_history(place) as history:
        try:
            yield history
        except HistoryError as error:
            raise RunError(str(error)) from None


def exists(place: str | Path | None) -> bool:
    """Whether there is a history at a place, as far as that can be told without asking a server."""
    return isinstance(place, str) or (place is not None and os.path.lexists(place))


def has_history(asked: argparse.Namespace) -> bool:
    """Whether there is a history, or one is asked for by name, which has to be there."""
    return asked.history is not None or exists(history_place(None, RESULTS))


def run_directory(given: str, holding: str = "") -> Path | None:
    """The directory of a run that is named itself, or by the run's id; ``None`` where there is none that holds this."""
    return next((path for path in (Path(given), RUNS / given) if (path / holding).is_dir()), None)


def whole_run(directory: Path) -> tuple[tuple[Record, ...], dict[str, str]]:
    """The records of a run, and why rows of it have none; a ConfigurationError where nothing tells of any row."""
    records, missing = read_whole_run(directory)
    if not records and not missing:
        raise ConfigurationError(f"there are no records in {directory}\nnext: ls {RUNS}")
    return records, missing


def records_in(history: History | None, given: str) -> tuple[Record, ...]:
    """The records of a run that has no directory; a ConfigurationError where no history has it."""
    records = () if history is None else history.records(given)
    if not records:
        where = "" if history is None else f", and none in the history {history.shown}"
        raise ConfigurationError(f"there is no run '{given}' in {RUNS}{where}\nnext: ls {RUNS}")
    return records


def noise_cell(noise: Noise) -> str:
    """Noise as tables show it, with a mark where it is what is usual."""
    return f"{noise.sigma * 100:.1f} %{'' if noise.jobs else '*'}"
