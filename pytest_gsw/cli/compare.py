"""``pytest-gsw compare``: two runs, row by row, the worst first."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_gsw.acceptance.sheet import RowFigure, Sheet, read_sheet
from pytest_gsw.cli.arguments import Ini
from pytest_gsw.cli.output import Answer, changes_facts, quoted_answer
from pytest_gsw.cli.run_arguments import NOISE_NOTE, known_history, noise_cell, records_in, run_directory
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import listed, percent, plain_table, plural
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history import cluster_series, store
from pytest_gsw.history.comparison import (
    Comparison,
    NotCompared,
    RowRatio,
    changes_text,
    compare_each,
    compare_runs,
    has_other_definition,
)
from pytest_gsw.history.model import SeriesKey
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.stats.noise import CONFIDENCE, Noise, ratio_sd
from pytest_gsw.tables.metrics import Figure, common_change_label


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.after is None:
        raise ConfigurationError(
            f"{args.before} is compared with nothing: RUN_B is not given\n"
            f"next: pytest-gsw compare RUN {args.before}, with a run of {args.ini.runs}"
        )
    first, second = (read_sheet(Path(given)) for given in (args.before, args.after))
    if first is not None and second is not None:
        return _compare_sheets(args, first, second)
    before, after = _of_directory(args.ini, args.before), _of_directory(args.ini, args.after)
    if before is not None and after is not None:
        noises = _read_noises(args, before, after)
    else:
        with known_history(args) as history:
            before = records_in(args.ini, history, args.before) if before is None else before
            after = records_in(args.ini, history, args.after) if after is None else after
            noises = _noises(history, before, after)
    compared = compare_runs(before, after, noises)
    return quoted_answer(args, _facts(args, compared), _text(compared), compared.status)


def _compare_sheets(args: argparse.Namespace, before: Sheet, after: Sheet) -> Answer:
    """Two acceptances beside each other: criteria and coverage, then their rows by the figures of the sheets."""
    first, second = ({row.name: row for row in sheet.rows} for sheet in (before, after))
    compared = compare_each(first, second, _ratio)
    facts = [dict([("verdict", sheet.verdict), *_criteria(sheet)]) for sheet in (before, after)]
    lines = [(name, facts[0].get(name, ""), facts[1].get(name, "")) for name in dict.fromkeys([*facts[0], *facts[1]])]
    heads = ("acceptance", before.acceptance.name, after.acceptance.name)
    text = f"{plain_table(lines, *heads, style='simple')}\n\n{_text(compared)}"
    content = {**_facts(args, compared), "acceptance": dict(zip(("before", "after"), facts, strict=True))}
    return quoted_answer(args, content, text, compared.status)


def _criteria(sheet: Sheet) -> Iterator[tuple[str, str]]:
    yield from ((one.name, one.text) for one in sheet.criteria)
    for group in sheet.coverage:
        yield f"{group.kind} covered", f"{group.covered} of {group.of}"


def _ratio(before: RowFigure, after: RowFigure) -> RowRatio | NotCompared:
    if before.figure is None or after.figure is None:
        which = "first" if before.figure is None else "second"
        return NotCompared(before.name, f"has no figure in the {which} sheet", before.figure is not None)
    if has_other_definition(before.row, after.row):
        return NotCompared(before.name, "has another definition")
    then, now = (Figure(after.row.judged_metric, figure) for figure in (before.figure, after.figure))
    noise, ratio = max((before.noise, after.noise), key=lambda noise: noise.sigma), now.speed(then.value)
    sd = ratio_sd(noise, before.jobs, after.jobs)
    return RowRatio(before.name, then, now, ratio, ratio, ratio, noise, sd=sd)


def _read_noises(args: argparse.Namespace, *runs: Sequence[Record]) -> Mapping[SeriesKey, Noise]:
    """The noise of each row by the history; nothing without one: directories are compared all the same.

    Raises:
        ConfigurationError: The history that is named is none.
    """
    try:
        with known_history(args) as history:
            return _noises(history, *runs)
    except (ConfigurationError, RunError) as error:
        if args.history is not None and isinstance(error, ConfigurationError):
            raise
        why = redact(str(error), os.environ)
        sys.stderr.write(f"pytest-gsw compare: without the history, noise is what is usual: {why}\n")
        return {}


def _of_directory(ini: Ini, given: str) -> tuple[Record, ...] | None:
    """The records of a run that has a directory; a ConfigurationError if one cannot be read."""
    directory = run_directory(ini, given, holding="records")
    if directory is None:
        return None
    records, unreadable = read_run(directory)
    if unreadable:
        raise ConfigurationError(next(iter(unreadable.values())))
    return records


def _noises(history: store.History | None, *runs: Sequence[Record]) -> Mapping[SeriesKey, Noise]:
    """The noise of each row: that of its first runs, to which the compared runs add nothing."""
    histories = {} if history is None else cluster_series.histories_of_records(history, itertools.chain(*runs))
    return {key: noise for key, past in histories.items() if (noise := past.noise()) is not None}


def _text(compared: Comparison) -> str:
    lines = []
    if compared.rows:
        table = [_line(row) for row in compared.rows]
        columns = (
            "row",
            ">before",
            ">after",
            f">{common_change_label(row.after.metric for row in compared.rows) or 'change'}",
            f">{CONFIDENCE * 100:g} % interval",
            ">noise",
            "",
        )
        lines.append(plain_table(table, *columns, style="simple"))
        if any(row.noise.jobs == 0 for row in compared.rows):
            lines.append(NOISE_NOTE)
        lines += _changes(compared.rows)
        lines.append("")
    lines += [f"not compared: {other.row} {other.why}" for other in compared.others]
    return "\n".join([*lines, _sum(compared)])


def _changes(rows: Sequence[RowRatio]) -> list[str]:
    """The changes of the environment between the runs, each once, with its rows."""
    told = grouped([(changes_text(row.changes), row.row) for row in rows if row.changes])
    return [f"changed: {text} ({'all rows' if len(of) == len(rows) else _names(of)})" for text, of in told.items()]


def _names(rows: Sequence[str]) -> str:
    """The first row, and the number of others."""
    return rows[0] if len(rows) == 1 else f"{rows[0]} and {plural(len(rows) - 1, 'more row')}"


def _line(row: RowRatio) -> Sequence[str]:
    limits = sorted(row.after.metric.change_by(limit - 1) for limit in (row.low, row.high))
    interval, shown = " to ".join(map(percent, limits)), percent(row.after.change(row.before.value))
    noise = noise_cell(row.noise)
    change = "" if row.change == "same" else row.change
    return row.row, row.before.text, row.after.text, shown, interval, noise, change


def _sum(compared: Comparison) -> str:
    changes = [row.change for row in compared.rows]
    counts = {
        "slower": changes.count("slower"),
        "faster": changes.count("faster"),
        "within noise": changes.count("same"),
        "not compared": len(compared.others),
    }
    return f"{plural(len(compared.rows) + len(compared.others), 'row')}: {listed(counts)}"


def _facts(args: argparse.Namespace, compared: Comparison) -> Mapping[str, object]:
    return {
        "before": args.before,
        "after": args.after,
        "confidence": CONFIDENCE,
        "rows": [_row_facts(row) for row in compared.rows],
        "not_compared": compared.others,
    }


def _row_facts(row: RowRatio) -> Mapping[str, object]:
    metric = row.after.metric
    return {
        "row": row.row,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "change": row.change,
        "metric": metric.key,
        "unit": metric.unit,
        "before": row.before.value,
        "after": row.after.value,
        "noise": row.noise,
        "changes": changes_facts(row.changes),
    }
