"""What imports of older results have in common: jobs that no session ran become records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.performance.measurement import Measurement, TimedStep
from pytest_gsw.performance.peaks import documented_peak_flops
from pytest_gsw.performance.repeats import Repeats
from pytest_gsw.performance.verdict import Outcome, judge
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.record import Record
from pytest_gsw.results.recording import Asked, Found, Ran, record_of
from pytest_gsw.runs.measure import summarize
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.definition import definition_hash, experiment_hash
from pytest_gsw.tables.model import Baseline

#: Whether a history has a job already: row, cluster, the job's id.
Known: TypeAlias = Callable[[str, str, str], bool]


@dataclass(frozen=True)
class Imported:
    """What is to be added to a history, and what is left out and why."""

    records: tuple[Record, ...] = ()
    left_out: tuple[str, ...] = ()
    #: Jobs that the history has already.
    known: int = 0
    #: What the source does not say, and so was not checked.
    notes: tuple[str, ...] = ()


def run_id(job_id: str, source: Path) -> str:
    """The run of an imported job, the same whenever it is imported: a history takes it once."""
    return f"import-{job_id}-{hashlib.sha256(os.fsencode(source.resolve())).hexdigest()[:8]}"


def figure_alone(row: Baseline, judged_s: float) -> Measurement:
    """A measurement of which only its result is known, and not its steps."""
    found = summarize(row, (TimedStep(None, judged_s),), judged_s, documented_peak_flops(row))
    return replace(found, steps=0, series_s=())


def imported_record(
    row: Baseline, cluster: str, source: Path, job: JobFacts, measurement: Measurement, image: str | None
) -> Record:
    """The record of an imported job, judged by the document alone.

    Raises:
        ValueError: A number is not finite and above zero.
    """
    verdict = judge(row, measurement, row.tolerance)
    if verdict.outcome is not Outcome.INCONCLUSIVE:  # what is believed needs no reason
        verdict = replace(verdict, given_reason=None)
    node_id, definition = f"{_table(row.location.path)}::{row.id}", definition_hash(row, image)
    asked = Asked(run_id(job.id, source), node_id, row, cluster, row.tolerance, Repeats(), None)
    ran = Ran(
        None,
        replace(job, judged_s=measurement.judged_s),
        attempts=(),
        repeats=(),
        simulated=False,
        definition=definition,
        experiment=experiment_hash(row),
        image=image,
        image_from="",
    )
    fact = f"{measurement.judged_s:.4g} s, imported from {from_here(source)}"
    found = Found(verdict.outcome.value, fact, measurement=measurement, verdict=verdict)
    return quoted(record_of(asked, ran, found, None), os.environ)


def _table(path: Path) -> str:
    """A table's name as the node ids of sessions have it."""
    bundled = bundled_baselines()
    return (path.relative_to(bundled.parent) if path.is_relative_to(bundled) else from_here(path)).as_posix()
