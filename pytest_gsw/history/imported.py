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
from pytest_gsw.performance.doubts import is_too_good
from pytest_gsw.performance.figures import figures, figures_of
from pytest_gsw.performance.peaks import documented_peak_flops
from pytest_gsw.performance.verdict import Outcome, Reason, Verdict, compare
from pytest_gsw.results.facts import FigureFacts, JobFacts, Jobs, RunFacts, Timing
from pytest_gsw.results.record import Record
from pytest_gsw.results.recording import row_facts
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.definition import definition_hash
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


def imported_record(
    row: Baseline,
    cluster: str,
    source: Path,
    job: JobFacts,
    judged_s: float,
    image: str | None,
    *,
    calibration_flops: float | None = None,
) -> Record:
    """The record of an imported job."""
    peak = documented_peak_flops(row)
    assert row.judged_s is not None  # a row without a documented figure is not imported
    outcome, reason = compare(judged_s, row.judged_s, row.tolerance), None
    if is_too_good((judged_s,), row.judged_s, max(row.max_gain, row.tolerance)):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.TOO_GOOD
    found = Record(
        row=row_facts(
            row, f"{_table(row.location.path)}::{row.id}", definition_hash(row, image), tolerance=row.tolerance
        ),
        run=RunFacts(run_id(job.id, source), cluster, simulated=False, log=job.log, image=image),
        outcome=outcome.value,
        fact=f"{judged_s:.4g} s, imported from {from_here(source)}",
        figures=FigureFacts(
            documented=dict(vars(row.documented)),
            implied=dict(vars(figures(row, row.documented.step_time_s, peak))),
            measured=dict(vars(figures_of(row, judged_s, calibration_flops or peak))),
            calibration_flops=calibration_flops,
        ),
        jobs=Jobs(replace(job, judged_s=judged_s)),
        timing=Timing(row.statistic),
        verdict=Verdict(outcome, judged_s, row.judged_s, row.tolerance, jobs_s=(judged_s,), given_reason=reason),
    )
    return quoted(found, os.environ)


def _table(path: Path) -> str:
    """A table's name as the node ids of sessions have it."""
    bundled = bundled_baselines()
    return (path.relative_to(bundled.parent) if path.is_relative_to(bundled) else from_here(path)).as_posix()
