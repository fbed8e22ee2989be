"""Figures of a night as Jenkins' plot plugin reads them: a line of labels and a line of numbers for each build."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from functools import partial

from pytest_gsw.common.words import by_number
from pytest_gsw.reports.night import Night
from pytest_gsw.results.record import Record
from pytest_gsw.tables.metrics import MFU, STEP_TIME, TOKENS_PER_S

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def of_night(night: Night, figure: str) -> str:
    """All rows of a night in one plot."""
    return _csv(night.records, figure)


def by_workload(night: Night) -> Mapping[str, str]:
    """A plot for each figure, workload and dtype, by the name of its file: a plot of all rows has too many lines."""
    alike: dict[str, list[Record]] = {}
    for record in night.records:
        alike.setdefault(_NOT_IN_NAMES.sub("_", f"{record.row.workload}_{record.row.dtype}"), []).append(record)
    figures = {metric.key.removesuffix("_s").replace("_", "-"): metric.key for metric in (STEP_TIME, MFU)}
    plots = {f"{name}-{of}.csv": _csv(rows, key) for name, key in figures.items() for of, rows in alike.items()}
    return {name: text for name, text in plots.items() if text}


def _csv(records: Iterable[Record], figure: str) -> str:
    """A column for each row that has the figure; that of a row that has none tonight has no point in this build."""
    values = {_label(record.row.id): record.figures.measured.get(figure) for record in records}
    known = {label: value for label in sorted(values, key=by_number) if (value := values[label]) is not None}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(known)
    writer.writerow(f"{value:.9g}" for value in known.values())
    return text.getvalue().removesuffix("\n") if known else ""


#: What was measured of it, in the metric's unit.
step_time, mfu, throughput = (partial(of_night, figure=metric.key) for metric in (STEP_TIME, MFU, TOKENS_PER_S))


def _label(row: str) -> str:
    # The plugin's reader takes a backslash for the beginning of an escape, whatever the quotes.
    return " ".join(row.replace("\\", "/").split())
