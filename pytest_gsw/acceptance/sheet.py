"""The sheet of an acceptance: a value that is made of the files of its run alone, and its JSON."""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_gsw.acceptance import state as acceptance
from pytest_gsw.acceptance.state import MET, NOT_MET, OPEN, AcceptanceState, CriterionResult
from pytest_gsw.common.files import read_bounded, sha256_of
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.typed_json import plain, read, shown
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.results import outcomes
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.manifest import read_noted
from pytest_gsw.results.node_facts import Drift, NodeFacts, drift_table
from pytest_gsw.results.record import JobFacts, Record, RowFacts, record_files, used_gpu_hours
from pytest_gsw.results.row_text import attempt_text
from pytest_gsw.results.sweep import Sweep, read_sweep
from pytest_gsw.stats.goodput import Endurance
from pytest_gsw.stats.noise import PRIOR, Noise, interval
from pytest_gsw.tables.bundled import bundled_baselines

#: The file among the pages of a report; the name and the version of its form.
NAME, SCHEMA, VERSION = "sheet.json", "pytest-gsw/sheet", 1

#: How rows are decided, with figures of docs/decisions.md.
METHOD = (
    "The median of a row's jobs against its document: a loss beyond the tolerance and the noise between its jobs fails"
    " (1.65 %, marked *, until it has eight). Of simulated runs of 30 rows, with 59 kinds of noise, 2.4 % have a false"
    " failure; of losses of 7 % and 10 %, 89 % and 98 % fail (docs/decisions.md). Intervals: 95 %, of all rows at once."
)


@dataclass(frozen=True)
class StageFigures:
    """The results of a stage."""

    name: str
    #: Rows that are good, and others that have ended.
    passed: int
    failed: int
    jobs: int
    gpu_hours: float
    #: Of them in jobs that failed.
    lost_gpu_hours: float
    #: From the first submission to the last end.
    hours: float


@dataclass(frozen=True)
class Coverage:
    """The nodes, or the switches or blocks, that are covered."""

    kind: str
    covered: int
    of: int
    #: By name, why a node is not covered, or the nodes of a switch of which none is.
    missing: Mapping[str, str]


@dataclass(frozen=True)
class RowFigure:
    """One row of a stage, its tiles together."""

    #: The row's id, or ``gemm_bf16[H100x8] on tiles``.
    name: str
    #: The row as its first record has it.
    row: RowFacts
    #: By the words of outcomes, the number of records.
    outcomes: Mapping[str, int]
    noise: Noise
    #: The number of measured jobs, and in a line each those before a row's last one, with the reason.
    jobs: int
    repeated: tuple[str, ...]
    endurance: Endurance | None
    #: The median of these jobs, and the reference, in the metric's unit.
    figure: float | None = None
    reference: float | None = None
    #: The interval of its speed over that of the reference: below 1 is slower.
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Sheet:
    """The sheet."""

    schema: str
    version: int
    verdict: str
    acceptance: AcceptanceState
    run: str
    cluster: str
    is_simulated: bool
    #: The first submission and the last end, seconds since the epoch; 0 if nothing ran.
    begun_s: float
    ended_s: float
    criteria: tuple[CriterionResult, ...]
    stages: tuple[StageFigures, ...]
    coverage: tuple[Coverage, ...]
    #: Versions that the nodes of all jobs have, or that logs state.
    versions: tuple[Drift, ...]
    rows: tuple[RowFigure, ...]
    #: The versions of the software that ran it.
    software: Mapping[str, str]
    method: str
    #: By path, the SHA-256 of each file, or why it cannot be read.
    records: Mapping[str, str]
    logs: Mapping[str, str]
    tables: Mapping[str, str]


def sheet_of(directory: Path) -> Sheet | None:
    """The sheet of a run by the files of its directory; ``None`` if it is no acceptance."""
    state, sweep, (found, unreadable) = acceptance.read_state(directory), read_sweep(directory), read_run(directory)
    if state is None:
        return None
    places = {stage.name: place for place, stage in enumerate(state.stages)}
    records = sorted(found, key=lambda record: places.get(record.row.stage, len(places)))
    sweep, criteria = sweep or Sweep("", "", 0), acceptance.criteria_of(state, records)
    verdicts = {OPEN} if unreadable or not criteria else {criterion.verdict for criterion in criteria}
    exceptions = tuple(replace(one, log=one.log and _log(directory, one.log)[0]) for one in state.exceptions)
    jobs = [job for record in records for job in record.jobs.all]
    begun_s, ended_s = _span(jobs)
    rows = grouped([(f"{record.row.row_id}{' on tiles' if record.row.tile else ''}", record) for record in records])
    logs = {job.log for record in records for job in (*record.jobs.all, *record.jobs.search) if job.log}
    tables = {record.row.baseline.rpartition(":")[0] for record in records}
    hashes = {f"records/{name}": sha256_of(directory / "records" / name) for name in record_files(directory)}
    more, noted = max((record.jobs.confirm_jobs for record in records), default=0), read_noted(directory)
    sheet = Sheet(
        schema=SCHEMA,
        version=VERSION,
        verdict=next(verdict for verdict in (NOT_MET, OPEN, MET) if verdict in verdicts),
        acceptance=replace(state, exceptions=exceptions),
        run=directory.absolute().name,
        cluster=noted.cluster,
        is_simulated=any(record.run.simulated for record in records),
        begun_s=begun_s,
        ended_s=ended_s,
        criteria=criteria,
        stages=tuple(_figures(stage.name, records, sweep) for stage in state.stages),
        coverage=tuple(_coverage(state, records, sweep)),
        versions=_versions(records, sweep),
        rows=tuple(_row(name, of_row, len(rows)) for name, of_row in rows.items()),
        software=noted.versions,
        method=f"{METHOD} Further jobs of a row that is too slow, before it fails: up to {more}.",
        records=hashes | {path: why.removeprefix(f"{directory / path} ") for path, why in unreadable.items()},
        logs=dict(_log(directory, log) for log in sorted(logs)),
        tables={table: sha256_of(_table(directory, table)) for table in sorted(tables)},
    )
    return redact(sheet, os.environ)


def sheet_text(sheet: Sheet) -> str:
    """The sheet as JSON."""
    return f"{json.dumps(vars(sheet), default=plain, allow_nan=False, indent=1)}\n"


def read_sheet(place: Path) -> Sheet | None:
    """The sheet at a path, or in a directory; ``None`` if there is none.

    Raises:
        ConfigurationError: It cannot be read.
    """
    path = place if place.name == NAME else place / NAME
    try:
        return read(Sheet, json.loads(read_bounded(path))) if path.is_file() else None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no sheet: {error}") from None


def differences(given: Any, made: Any, where: str = "") -> Iterator[str]:
    """The values in which two contents of JSON differ, a line each."""
    if isinstance(given, dict) and isinstance(made, dict):
        for key in dict.fromkeys((*given, *made)):
            yield from differences(given.get(key), made.get(key), f"{where}{key}: ")
    elif isinstance(given, list) and isinstance(made, list):
        yield from differences(_by_name(given), _by_name(made), where)
    elif given != made:
        yield f"{where}{shown(given)} in the sheet, {shown(made)} by the run"


def _by_name(entries: list[Any]) -> dict[str, Any]:
    numbered = enumerate(entries, 1)
    return {f"{entry.get('name', at) if isinstance(entry, dict) else at}": entry for at, entry in numbered}


def _span(jobs: Sequence[JobFacts]) -> tuple[float, float]:
    begins, ends = [job.known_begin_s for job in jobs], [job.known_end_s or 0.0 for job in jobs]
    return min(begins, default=0.0), max(ends, default=0.0)


def _figures(name: str, of_run: Sequence[Record], sweep: Sweep) -> StageFigures:
    records = [record for record in of_run if record.row.stage == name]
    jobs, passed = [job for record in records for job in record.jobs.all], sum(map(acceptance.is_good, records))
    rows, (begun_s, ended_s) = {record.row.row_id for record in records if record.row.tile}, _span(jobs)
    search = [job for row in sweep.rows if row.row in rows for job in row.jobs]
    used, lost = sum(map(used_gpu_hours, records)), sum(map(_lost_gpu_hours, records))
    counts, hours = (passed, len(records) - passed, len(jobs) + len(search)), (ended_s - begun_s) / 3600
    return StageFigures(name, *counts, used + sum(job.gpu_hours for job in search), lost, hours)


def _lost_gpu_hours(record: Record) -> float:
    """GPU-hours of the jobs of a row that failed, or that a training with restarts lost."""
    if record.endurance is not None:
        return record.row.gpus * record.endurance.lost_s / 3600
    last = () if record.jobs.last is None or record.outcome != outcomes.ERROR.word else (record.jobs.last,)
    return record.row.gpus * sum(job.run_s or 0.0 for job in (*record.jobs.failed, *last)) / 3600


def _coverage(state: AcceptanceState, records: Sequence[Record], sweep: Sweep) -> Iterator[Coverage]:
    """The coverage of nodes, and of switches or blocks: each of them needs a covered node."""
    bill, covered = expand(state.nodes), acceptance.covered_nodes(state, records)
    why = {exception.node: exception.kind for exception in state.exceptions}
    missing = {node: why.get(node, "not measured") for node in bill if node not in covered}
    yield Coverage("nodes", len(covered), len(bill), missing)
    there = {name: nodes for name, listed in sweep.switches.items() if (nodes := {*expand(listed)} & {*bill})}
    lacking = {name: compressed(nodes) for name, nodes in there.items() if not nodes & covered}
    if there:
        yield Coverage("switches or blocks", len(there) - len(lacking), len(there), lacking)


def _versions(records: Sequence[Record], sweep: Sweep) -> tuple[Drift, ...]:
    """The versions of all nodes, by their facts and by logs; a node may have several of what is in containers."""
    stated = [((name, value), record.nodes) for record in records for name, value in record.run.environment.items()]
    facts = (one for one in (*(record.facts for record in records), *(row.facts for row in sweep.rows)) if one)
    stated += [((name, value), on) for one in facts for name, of in one.versions.items() for value, on in of.items()]
    versions: dict[str, dict[str, str]] = {}
    for (name, value), nodes in grouped(stated).items():
        versions.setdefault(name, {})[value] = compressed(
            node for one in nodes for node in expand(one.replace(" ", ""))
        )
    return drift_table([NodeFacts(versions=versions)])


def _row(name: str, records: Sequence[Record], rows: int) -> RowFigure:
    """The figure of a row: the median of its tiles, or of its jobs."""
    judged = [record.judged for record in records if record.judged is not None]
    jobs = sum(max(1, len(verdict.jobs)) for verdict in judged)
    noise = next((verdict.noise for verdict in judged if verdict.noise), PRIOR)
    again = ((record, job) for record in records for job in (*record.jobs.attempts, *record.jobs.repeats))
    repeated = tuple(f"{record.row.id}: {attempt_text(job)}" for record, job in again)
    counts = dict(sorted(Counter(record.outcome for record in records).items()))
    figures: tuple[float, ...] = ()
    if judged:
        figure, reference = statistics.median(verdict.measured for verdict in judged), judged[0].reference
        speed = records[0].judged_metric.direction.speed(figure, reference)
        figures = (figure, reference, *interval(speed, noise.of_median(jobs), noise.jobs, rows))
    return RowFigure(name, records[0].row, counts, noise, jobs, repeated, records[0].endurance, *figures)


def _log(directory: Path, log: str) -> tuple[str, str]:
    """A log by its path, below the run's directory if it is there."""
    _, inside, below = log.partition(f"/{directory.absolute().name}/")
    return (below, sha256_of(directory / below)) if inside else (log, sha256_of(Path(log)))


def _table(directory: Path, table: str) -> Path:
    """The file of a table, by its path from the directory of the session, or from that of the bundled ones."""
    places = (*directory.absolute().parents, bundled_baselines().parent)
    return next((place / table for place in places if (place / table).is_file()), Path(table))
