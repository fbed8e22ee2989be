"""The rows of logs: by their names and places, else by what they state.

A row is never guessed: it is the only one that the log does not contradict, and unless its name shows it, the log names
its model and states its number of GPUs and its dtype.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.text import enumerated, named
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import Match, job_id_in, log_glob, looks_like_a_log, loose_logs, slurm_job_id
from pytest_gsw.jobs.model import FoundLog
from pytest_gsw.logs import reader, scan
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import StepLog
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.agreement import Compared, compare

#: The most rows, and the most differences from one, in a line.
_ROWS_SHOWN, _DIFFERENCES_SHOWN = 3, 3
#: A log names its model here, if it does.
_SEARCHED_BYTES = 1 << 20
_WORDS = re.compile(r"[a-z]+|[0-9]+")
_SIZE_BY_LAYERS = "size by layers and hidden size"
#: A size is rounded, and may or may not have the embeddings in it.
_SIZE_TOLERANCE = 0.05


#: A log's job and rows, by its name.
_Candidate: TypeAlias = tuple[str, tuple[Baseline, ...]]
#: A row, and all values that a log and the row state.
_Compared: TypeAlias = tuple[Baseline, Sequence[Compared]]


def match_logs(directory: Path, rows: Sequence[Baseline], found: Sequence[FoundLog]) -> Iterator[Match]:
    """All logs below a directory that are named as recipes name them, and all that lie loose in it, with their rows.

    Links are not followed. ``found`` are logs that plugins have found, whatever they are named.
    """
    globs = [
        (row, Path(log_glob(of.framework, of.model, of.size, of.dtype, row.gpus)))
        for row in rows
        if (of := row.workload).size is not None  # without one, its logs may be named like those of any size
    ]
    by_plugins = {log.path: log for log in found}
    for path in dict.fromkeys((*loose_logs(directory), *_named_logs(directory), *by_plugins)):
        if path in by_plugins:
            yield match_found(by_plugins[path], rows)
            continue
        job_id, of_name = _candidate(path, globs)
        if len(of_name) == 1:
            yield Match(path, job_id, row=of_name[0])
        elif not of_name and looks_like_a_log(path.name):
            yield Match(path, job_id, why="is named like the log of no row")
        else:
            yield match_log(path, of_name or rows, job_id)


def match_found(log: FoundLog, rows: Sequence[Baseline]) -> Match:
    """The row of a log that a plugin has found, among those that it names, else by what the log states."""
    of_log = [row for row in rows if row.id in log.rows]
    if len(of_log) == 1:
        return Match(log.path, log.job_id, row=of_log[0])
    stated = match_log(log.path, of_log or rows, log.job_id if of_log else "")
    return replace(stated, job_id=log.job_id)


#: Suffix of directories with NCCL traces, runs of ten steps.
_TRACED = "-nccl-trace"


def _named_logs(directory: Path) -> Iterator[Path]:
    """Files named like a log below a directory, in the order of their paths."""
    for place, below, names in os.walk(directory):
        below[:] = sorted(name for name in below if not name.endswith(_TRACED))
        for name in sorted(names):
            path = Path(place, name)
            if looks_like_a_log(name) and path.is_file() and not path.is_symlink():
                yield path


def _candidate(path: Path, globs: Sequence[tuple[Baseline, Path]]) -> _Candidate:
    """The rows that match a log by its directory and its name, else by its name."""
    by_name = [(row, glob, job_id) for row, glob in globs if (job_id := job_id_in(path.name, glob.name)) is not None]
    placed = [match for match in by_name if path.parent.match("/".join(match[1].parts[-4:-1]))]
    chosen = placed or by_name
    return (chosen[0][2], tuple(row for row, _, _ in chosen)) if chosen else ("", ())


def match_log(path: Path, rows: Sequence[Baseline], job_id: str = "") -> Match:
    """The row of a log among some, by the identity that its beginning states; the rest of it is not read.

    Args:
        path: The log.
        rows: The rows.
        job_id: Its job, if its name shows the job and that it is of one of these rows.
    """
    by_name = job_id or slurm_job_id(path.name)
    try:
        log = reader.read_beginning(path)
        compared = [(row, [*compare(row, log.identity, job_id=by_name), *_more_compared(row, log)]) for row in rows]
        row = _find_row(path, compared, is_named=bool(job_id))
    except LogError as error:
        return Match(path, by_name or path.stem, why=error.fact)
    job = by_name or log.identity.job_id or path.stem
    return Match(path, job, why=row) if isinstance(row, str) else Match(path, job, row=row)


def _more_compared(row: Baseline, log: StepLog) -> Iterator[Compared]:
    """The format of the steps, and the size of a GPT by its layers, if the document states the size alone."""
    if log.format and row.criterion.read is None and row.workload.log_format in FORMATS:
        yield Compared(
            "log format", log.format, row.workload.log_format, "format", agrees=log.format == row.workload.log_format
        )
    layers, hidden, size = log.identity.layers, log.identity.hidden_size, row.workload.parameters_in_billions
    if row.workload.formula == "gpt2" and row.workload.all_layers is None and layers and hidden and size is not None:
        billions = 12 * layers * hidden**2 / 1e9
        agrees = math.isclose(billions, float(size), rel_tol=_SIZE_TOLERANCE)
        yield Compared(_SIZE_BY_LAYERS, f"{billions:.3g}b", str(row.workload.size), "layers", agrees=agrees)


def _find_row(path: Path, compared: Sequence[_Compared], *, is_named: bool) -> Baseline | str:
    """The row of a log, or the reason why there is none."""
    fitting = [pair for pair in compared if all(value.agrees is not False for value in pair[1])]
    if not fitting:
        return _nearest(compared)
    stated = [(row, set(_FACTS) if is_named else set(_stated(path, row, values))) for row, values in fitting]
    stated = [pair for pair in stated if "model" in pair[1]] or stated
    missing = [fact for fact in _FACTS if not all(fact in facts for _, facts in stated)]
    if len(stated) == 1 and not missing:
        return stated[0][0]
    unstated = f"does not state its {enumerated(missing)}" if missing else ""
    ids = [row.id for row, _ in stated]
    which = "" if len(ids) == 1 else f"{len(ids)} rows: " if len(ids) <= _ROWS_SHOWN else f"{len(ids)} rows"
    rows = ", ".join(ids) if len(ids) <= _ROWS_SHOWN else ""
    return ", and ".join(filter(None, (unstated, f"may be of {which}{rows}")))


#: What identifies a row.
_FACTS = ("model", "number of GPUs", "dtype")


def _stated(path: Path, row: Baseline, values: Sequence[Compared]) -> Iterator[str]:
    """The facts that a log states as a row does."""
    agreed = {value.name.partition(" by TP")[0] for value in values if value.agrees}
    by_name = "model" in agreed and ("model size" in agreed or row.workload.size is None)
    if by_name or _SIZE_BY_LAYERS in agreed or ({"layers", "hidden size"} <= agreed and _mentions(path, row)):
        yield "model"
    if "GPUs" in agreed:
        yield "number of GPUs"
    if not agreed.isdisjoint({"dtype", "precision"}):
        yield "dtype"


def _nearest(compared: Sequence[_Compared]) -> str:
    """The values in which a log differs from the row that is the most like it."""
    differing = [(row, [value for value in values if value.agrees is False], -len(values)) for row, values in compared]
    if not differing:
        return "is of no row"
    row, values, _ = min(differing, key=lambda of_row: (len(of_row[1]), of_row[2]))
    texts = named([f"{value.name} {value.text}" for value in values], _DIFFERENCES_SHOWN)
    return f"is of no row; {row.id} is the nearest: {texts}"


def _mentions(path: Path, row: Baseline) -> bool:
    """True if the beginning of a log has the name of a row's model, in any spelling: ``Llama-3.1-8B``."""
    words = rb"[^a-z0-9\n]{0,2}".join(word.encode() for word in _WORDS.findall(row.workload.name.lower()))
    with reader.reading(path), scan.opened(path) as file:
        head = file.read(0, _SEARCHED_BYTES).lower()
    return re.search(rb"(?<![a-z0-9])%b(?![a-z0-9]|\.[0-9])" % words, head) is not None
