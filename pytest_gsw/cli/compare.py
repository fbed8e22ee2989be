"""``pytest-gsw compare``: two runs, row by row, the worst first."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tabulate import tabulate

from pytest_gsw.cli.answer import Answer, Commands
from pytest_gsw.cli.history import RESULTS, add_history_option, exists, opened
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted, percent
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.comparison import CONFIDENCE, Comparison, RowRatio, compare_runs, series_of
from pytest_gsw.history.model import SeriesKey
from pytest_gsw.history.place import history_place
from pytest_gsw.history.store import History
from pytest_gsw.performance.noise import REFERENCE_JOBS, Noise, noise_of
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    compare = commands.add_parser("compare", help="compare two runs row by row")
    compare.add_argument("before", metavar="RUN_A", help="a run's directory, or its id in the history")
    compare.add_argument("after", metavar="RUN_B", help="the run that is compared with it")
    add_history_option(compare)
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV: one line for each row")
    form.add_argument("--json", action="store_true", help="print JSON: one object")
    compare.set_defaults(run=_compare)


def _compare(asked: argparse.Namespace) -> Answer:
    before, after = _of_directory(asked.before), _of_directory(asked.after)
    if before is not None and after is not None:
        noises = _known_noises(asked, before, after)
    elif _has_history(asked):
        with opened(asked) as history:
            before, after = (_run(given, history) for given in (asked.before, asked.after))
            noises = _noises(history, before, after)
    else:
        raise ConfigurationError(_no_run(asked.before if before is None else asked.after))
    compared = quoted(compare_runs(before, after, noises), os.environ)
    status = 1 if _is_worse(compared) else 0
    if asked.json:
        return Answer(json.dumps(_facts(asked, compared), indent=2, allow_nan=False), status)
    return Answer(_csv(compared) if asked.csv else _text(compared), status)


def _has_history(asked: argparse.Namespace) -> bool:
    """Whether there is a history to ask; one that is asked for by name has to be there."""
    place = history_place(asked.history, RESULTS)
    return exists(place) or (place is not None and asked.history is not None)


def _known_noises(asked: argparse.Namespace, *runs: Sequence[Record]) -> Mapping[SeriesKey, Noise]:
    """By how much the jobs of each row differ; nothing where no history tells: directories are compared without one.

    Raises:
        ConfigurationError: The history that is asked for by name is none.
    """
    try:
        if not _has_history(asked):
            return {}
        with opened(asked) as history:
            return _noises(history, *runs)
    except (ConfigurationError, RunError) as error:
        if asked.history is not None and isinstance(error, ConfigurationError):
            raise
        why = quoted(str(error), os.environ)
        sys.stderr.write(f"pytest-gsw compare: without the history, noise is what is usual: {why}\n")
        return {}


def _run(given: str, history: History) -> tuple[Record, ...]:
    """The records of a run: of a directory, of one among the results, or of the history.

    Raises:
        ConfigurationError: There is no such run.
    """
    found = _of_directory(given)
    if found is None:
        found = history.records(given)
        if not found:
            raise ConfigurationError(_no_run(given, f", and none in the history {history.shown}"))
    return found


def _of_directory(given: str) -> tuple[Record, ...] | None:
    """The records of a run that has a directory, which is named or among the results.

    Raises:
        ConfigurationError: One of them cannot be read.
    """
    for directory in (Path(given), RESULTS / "runs" / given):
        if (directory / "records").is_dir():
            records, unreadable = read_run(directory)
            if unreadable:
                raise ConfigurationError(next(iter(unreadable.values())))
            return records
    return None


def _no_run(given: str, where: str = "") -> str:
    return f"there is no run '{given}' in {RESULTS / 'runs'}{where}\nnext: ls {RESULTS / 'runs'}"


def _noises(history: History, *runs: Sequence[Record]) -> Mapping[SeriesKey, Noise]:
    """By how much the newest jobs of each row differ."""
    times_s = history.times_of(series_of(*runs), last=REFERENCE_JOBS)
    return {key: noise_of(of_row) for key, of_row in times_s.items()}


def _is_worse(compared: Comparison) -> bool:
    return any(row.change == "slower" for row in compared.rows) or any(other.lost for other in compared.others)


def _text(compared: Comparison) -> str:
    lines = []
    if compared.rows:
        table = [_line(row) for row in compared.rows]
        headers = ("row", "before", "after", "throughput", f"{CONFIDENCE * 100:g} % interval", "noise", "")
        align = ("left", "right", "right", "right", "right", "right", "left")
        lines += [tabulate(table, headers=headers, colalign=align, tablefmt="simple", disable_numparse=True)]
        if any(row.noise.jobs == 0 for row in compared.rows):
            lines.append("* of fewer jobs than tell their noise: what is usual")
        lines.append("")
    lines += [f"not compared: {other.row} {other.why}" for other in compared.others]
    return "\n".join([*lines, _sum(compared)])


def _line(row: RowRatio) -> Sequence[str]:
    interval = f"{percent(row.low - 1)} to {percent(row.high - 1)}"
    noise = f"{row.noise.sigma * 100:.1f} %{'' if row.noise.jobs else '*'}"
    change = "" if row.change == "same" else row.change
    return row.row, f"{row.before_s:.4g} s", f"{row.after_s:.4g} s", percent(row.ratio - 1), interval, noise, change


def _sum(compared: Comparison) -> str:
    changes = [row.change for row in compared.rows]
    counts = {
        "slower": changes.count("slower"),
        "faster": changes.count("faster"),
        "within noise": changes.count("same"),
        "not compared": len(compared.others),
    }
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{counted(len(compared.rows) + len(compared.others), 'row')}: {parts}"


def _facts(asked: argparse.Namespace, compared: Comparison) -> Mapping[str, object]:
    return {
        "before": asked.before,
        "after": asked.after,
        "confidence": CONFIDENCE,
        "rows": [{**asdict(row), "change": row.change} for row in compared.rows],
        "not_compared": [asdict(other) for other in compared.others],
    }


def _csv(compared: Comparison) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "before_s", "after_s", "ratio", "low", "high", "sigma", "jobs", "change", "why_not"))
    for row in compared.rows:
        numbers = (row.before_s, row.after_s, row.ratio, row.low, row.high, row.noise.sigma)
        writer.writerow((row.row, *(f"{number:.6g}" for number in numbers), row.noise.jobs, row.change, ""))
    for other in compared.others:
        writer.writerow((other.row, *[""] * 7, "lost" if other.lost else "", other.why))
    return text.getvalue().removesuffix("\n")
