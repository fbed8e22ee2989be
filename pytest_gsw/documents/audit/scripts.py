"""One-line scripts of a text: what they print, and whose step time they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.document import Document, Script, Spot
from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.spots import Place, times_of, whose, with_time
from pytest_gsw.documents.audit.written import spelt
from pytest_gsw.tables.metrics import STEP_TIME

#: What the documents' scripts call the facts of a row.
_NAMES = {
    STEP_TIME.key: ("sp", "throughput", "step_time", "time"),
    "size": ("ms", "msize"),
    "gpus": ("ng", "ngpus", "gpus"),
    "nodes": ("nnodes",),
    "global_batch_size": ("gbs", "global_batch_size"),
    "micro_batch_size": ("mbs", "micro_batch_size"),
    "gradient_accumulation_steps": ("gas", "ga", "pp_chunks"),
    "dp": ("dp", "dp_size"),
}


def scripts(place: Place, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """What each script prints, and the step time that it takes."""
    for script in document.scripts:
        if script.result is not None:
            yield _script_result(place, script, script.result)
        yield _script_row(place, script, rows)


def _script_result(place: Place, script: Script, spot: Spot) -> Finding | None:
    written = spot.written
    if written.states(script.value):
        return None
    given = ", ".join(f"{name} = {variable.written.text}" for name, variable in script.variables.items())
    return place.finding(
        spot.line,
        spot.column,
        written.text,
        spelt(script.value, min(written.unit, Fraction(1, 10))),
        f"{script.text} with {given}",
        explain.value(written, script.value) or Explanation(Kind.UNKNOWN, explain.NOTHING),
    )


def _variable(script: Script, key: str) -> Spot | None:
    return next((script.variables[name] for name in _NAMES[key] if name in script.variables), None)


def _script_row(place: Place, script: Script, rows: Sequence[Row]) -> Finding | None:
    """A script's run among the table's: the rows of its size, GPUs and batch have its step time, or none is its."""
    time, size, gpus, nodes = (_variable(script, key) for key in (STEP_TIME.key, "size", "gpus", "nodes"))
    batch = _script_batch(script)
    if time is None or size is None or batch is None or (gpus is None and nodes is None):
        return None
    name = f"{size.written.text}b"
    of_size = [row for row in rows if row.text("size").lower() == name]
    same = [
        row
        for row in of_size
        if row.value("global_batch_size") == batch
        and (gpus is None or row.value("gpus") == gpus.written.value)
        and (nodes is None or row.value("gpus") == nodes.written.value * (row.value("gpus_per_node") or 0))
    ]
    if not same or with_time(same, time.written):
        return None
    return place.finding(
        time.line,
        time.column,
        f"{time.written.text} s",
        times_of(same),
        f"the rows of {name} on {same[0].text('gpus')} GPUs with a batch of {batch}",
        whose(of_size, time.written),
        severity=Severity.CONTRADICTION if script.result is not None else Severity.NOTICE,
    )


def _script_batch(script: Script) -> Fraction | None:
    whole = _variable(script, "global_batch_size")
    if whole is not None:
        return whole.written.value
    parts = [_variable(script, key) for key in ("micro_batch_size", "gradient_accumulation_steps", "dp")]
    batch = Fraction(1)
    for part in parts:
        if part is None:
            return None
        batch *= part.written.value
    return batch
