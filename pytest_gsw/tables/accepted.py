"""What clusters have accepted for the rows of a table: a list in a file of its own beside the table.

:mod:`pytest_gsw.ageing` writes that file whole. Tables that have the list in themselves are read as well.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.errors import Fault, FileError
from pytest_gsw.tables import fields as f
from pytest_gsw.tables import metrics
from pytest_gsw.tables.bundled import accepted_file
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.tables.yamlfile import Value, Values, read_mapping


def read_spread(raw: str) -> float:
    """A spread as it is written, as a fraction."""
    return f.read_percent(raw, "a percentage such as 0.8%", lambda percent: percent >= 0)


def _read_date(raw: str) -> str:
    try:
        date = datetime.date.fromisoformat(raw)
    except ValueError:
        date = None
    if date is None or date.isoformat() != raw:  # from Python 3.11 on, 20261120 is read as well
        raise ValueError(f"got '{raw}', wanted a date such as 2026-11-20")
    return raw


#: The figures that a cluster may have accepted, by what a row's verdict rests on.
ACCEPTED_FIGURES: Mapping[str, str] = {name: metric.key for name, metric in metrics.JUDGED.items()}

#: What a cluster has accepted for a row; ``pytest-gsw baseline propose`` writes such entries.
ACCEPTED_FIELDS: f.Fields = {
    "row": f.text("Id of the row, one of the table's.", required=True),
    "cluster": f.pattern(
        rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{f.LONGEST_NAME - 1}}}",
        "the name of a cluster, such as eos",
        "The cluster on which the figure counts.",
        required=True,
    ),
    metrics.STEP_TIME.key: f.number("Accepted time of one training step, seconds."),
    metrics.CALIBRATED_STEP_TIME.key: f.number(
        "Accepted calibrated time of one training step, seconds, for rows judged by it."
    ),
    metrics.SAVE_TIME.key: f.number("Accepted time of saving one checkpoint, seconds, for rows judged by it."),
    "jobs": f.whole("Jobs whose median the figure is.", required=True),
    "spread": f.Field(
        read_spread,
        "a percentage such as 0.8%",
        "Standard deviation of these jobs, in percent of their median.",
        {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,12})? ?%$"},
        required=True,
    ),
    "job_ids": f.text("Ids of these jobs.", required=True),
    "image": f.text("The container image that they ran, where that is known."),
    "date": f.Field(
        _read_date,
        "a date such as 2026-11-20",
        "When the newest of them ended.",
        {"type": "string", "format": "date"},
        required=True,
    ),
    "definition": f.pattern(
        r"[0-9a-f]{12}",
        "a definition such as 3f2a9c1d0e4b",
        "The definition that they were measured under; under another one the figure does not count.",
        required=True,
    ),
}

#: Every key of a file of accepted figures.
ACCEPTED_FILE_FIELDS: f.Fields = {
    "accepted": f.Sequence_(
        ACCEPTED_FIELDS, "Figures that clusters have accepted beside the documented ones.", required=True
    ),
}

#: A row and a cluster.
Key = tuple[str, str]


def accepted_beside(table: Path) -> Sequence[Value]:
    """The entries of the file beside a table, none where there is no such file; a FileError where it is wrong."""
    path = accepted_file(table)
    # A link that leads nowhere is a file that cannot be read, and no file that is not there.
    entries: Sequence[Value] = (
        read_mapping(path, ACCEPTED_FILE_FIELDS)["accepted"].value if os.path.lexists(path) else ()
    )
    return entries


def with_accepted(
    table: Path, rows: Sequence[Baseline], inside: Sequence[Value], blank: Collection[str] = ()
) -> tuple[Baseline, ...]:
    """A table's rows with what clusters have accepted for them.

    ``inside`` are entries that stand in the table itself, in which :func:`accepted_faults` has found no fault.
    ``blank`` are the ids of rows that cannot run: whether a figure is one of theirs is not known yet.

    Raises:
        FileError: The file beside the table is wrong, or has a figure that stands in the table as well.
    """
    beside = [entry for entry in accepted_beside(table) if entry_key(entry.value)[0] not in blank]
    if not inside and not beside:
        return tuple(rows)
    taken = {entry_key(entry.value): f"line {entry.line} of {table.name}" for entry in inside}
    faults = accepted_faults(beside, {row.id: row for row in rows}, table.name, taken)
    if faults:
        raise FileError(accepted_file(table), tuple(faults))
    by_row: dict[str, dict[str, Accepted]] = {}
    for entry in (*inside, *beside):
        row, cluster = entry_key(entry.value)
        by_row.setdefault(row, {})[cluster] = accepted_of(entry.value)
    return tuple(replace(row, accepted=by_row[row.id]) if row.id in by_row else row for row in rows)


def entry_key(entry: Values) -> Key:
    """Row and cluster of an entry."""
    return entry["row"].value, entry["cluster"].value


def accepted_of(entry: Values) -> Accepted:
    """The figure of an entry that is right."""
    values = {key: value.value for key, value in entry.items() if key != "row"}
    judged_s = next(values.pop(key) for key in ACCEPTED_FIGURES.values() if key in values)
    return Accepted(judged_s=judged_s, **values)


def accepted_faults(
    entries: Sequence[Value],
    rows: Mapping[str, Baseline] | None,
    where: str = "this file",
    elsewhere: Mapping[Key, str] | None = None,
) -> list[Fault]:
    """What is wrong with accepted figures as a whole, each key by itself being right.

    ``rows`` is ``None`` where the table is wrong: then figures are not held against their rows. ``where`` is what the
    rows stand in, ``elsewhere`` where other figures stand, by row and cluster.
    """
    taken = dict(elsewhere or {})
    faults = []
    for number, entry in enumerate(entries):
        key = row_id, cluster = entry_key(entry.value)
        problems = []
        if key in taken:
            problems.append(f"{cluster} has accepted a figure for {row_id} in {taken[key]} already")
        taken.setdefault(key, f"line {entry.line}")
        if rows is not None:
            problems += _row_problems(entry.value, row_id, rows, where)
        faults += [Fault(entry.line, entry.column, f"accepted[{number}]", problem) for problem in problems]
    return faults


def _row_problems(entry: Values, row_id: str, rows: Mapping[str, Baseline], where: str) -> list[str]:
    row = rows.get(row_id)
    if row is None:
        return [f"there is no row '{row_id}' in {where}{f.nearest(row_id, rows)}"]
    if row.judged_s is None:
        return [f"the document has no figure for {row_id}, so that none can stand beside it"]
    wanted = ACCEPTED_FIGURES[row.metric]
    others = [key for key in ACCEPTED_FIGURES.values() if key in entry and key != wanted]
    missing = [] if wanted in entry else [f"missing '{wanted}', on which the verdict of {row_id} rests"]
    return [*missing, *(f"has {key}, but the verdict of {row_id} rests on {wanted}" for key in others)]
