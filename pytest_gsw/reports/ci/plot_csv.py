"""One figure of a night as Jenkins' plot plugin reads it: a line of labels and a line of numbers for each build."""

from __future__ import annotations

import csv
import io
from functools import partial

from pytest_gsw.reports.night import Night
from pytest_gsw.tables.metrics import MFU, STEP_TIME, TOKENS_PER_S


def _csv(night: Night, figure: str) -> str:
    """A column for each row that has the figure; that of a row that has none tonight has no point in this build."""
    values = {_label(record.row.id): record.figures.measured.get(figure) for record in night.records}
    known = {label: value for label, value in sorted(values.items()) if value is not None}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(known)
    writer.writerow(f"{value:.9g}" for value in known.values())
    return text.getvalue().removesuffix("\n") if known else ""


#: What was measured of it, in the metric's unit.
step_time, mfu, throughput = (partial(_csv, figure=metric.key) for metric in (STEP_TIME, MFU, TOKENS_PER_S))


def _label(row: str) -> str:
    # The plugin's reader takes a backslash for the beginning of an escape, whatever the quotes.
    return " ".join(row.replace("\\", "/").split())
