"""The report of a run as a value: its rows with their history, its jobs, its causes of errors, its alarms."""

from __future__ import annotations

import hashlib
import math
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.process import collector_paused
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import ByNumber, by_number, command, minute, plural
from pytest_gsw.history.alarms import OF_ROWS, Alarm, Kind, State, alarms_of, whole_cluster
from pytest_gsw.history.comparison import ClusterText, changes_text, cluster_text, failing_texts
from pytest_gsw.history.model import Point, RowOutcome, SeriesKey, cluster_of, points_of, record_time_s, series_key
from pytest_gsw.history.model import by_run as newest_of
from pytest_gsw.history.row_history import (
    AllAccepted,
    ClusterHistory,
    ClusterSeries,
    Drifting,
    FailingNode,
    KnownGoodNodes,
    NodeJob,
    RowHistory,
    SlowNode,
    histories_of_records,
    series_of_cluster,
)
from pytest_gsw.history.since import Since, periods
from pytest_gsw.history.store import EXCLUDE, History
from pytest_gsw.jobs.journal import RunState
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE, SIGNATURES
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.attention import Attention
from pytest_gsw.results.manifest import (
    FACTS,
    CaseBesideRows,
    RunManifest,
    begun,
    is_owned,
    left_text,
    newest_begun,
    read_noted,
    resume_command,
)
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Record, SweepFinding, used_gpu_hours
from pytest_gsw.results.row_text import inconclusive_text
from pytest_gsw.results.run_progress import RunProgress
from pytest_gsw.results.runs_directory import RECORDS, RUNS, begin_of
from pytest_gsw.results.suggested_commands import needs_of, next_commands
from pytest_gsw.results.summary import ClusterResult, cause_of, cluster_result_of, error_nodes
from pytest_gsw.results.sweep import (
    RowSweep,
    Sweep,
    lost_tiles,
    node_cases,
    not_covered,
    read_sweep,
)
from pytest_gsw.stats.noise import PRIOR
from pytest_gsw.stats.verdict import DOUBTS, Outcome, compare
from pytest_gsw.tables.load import accepted_figures
from pytest_gsw.tables.metrics import BY_KEY, FURTHER
from pytest_gsw.tables.model import rows_text, tile_of, without_tile

# -- one row ---------------------------------------------------------------------------------------

#: The kinds of rows, the worst first; the last two need no attention.
KINDS = tuple(one.kind for one in attention.ATTENTIONS if one.sign)


#: The least share of the documented throughput of a good row, whatever the row's tolerance.
AT_DOCUMENT = 0.95
#: The probability of naming a healthy node by the failures of one run.
_FALSE = 0.01

#: The most rows on a workload's page.
_ON_PAGE = 40
#: The longest name of a page: names of files may have 255 bytes.
_LONGEST_NAME = 120


#: Names of a document's columns that are figures, with and without their units.
_FIGURES = frozenset(name for key in (*BY_KEY, *FURTHER) for name in (key, key.rpartition("_")[0]))


@lru_cache(maxsize=512)
def home_of(run_id: str) -> str:
    """The folder of a run's pages, relative to the report's directory."""
    return f"runs/{re.sub('[^A-Za-z0-9-]+', '_', run_id)[:100] or 'run'}/"


@dataclass(frozen=True)
class ReportedRow:
    """One row of a run."""

    record: Record
    #: The name of its page, without an extension.
    name: str
    #: Its runs in the history, with this one if it was measured; none of a tile, whose row has them.
    past: RowHistory = field(default_factory=RowHistory)
    since: Since | None = None
    #: Its outcomes in the runs before, measured or not, the oldest first.
    earlier: tuple[RowOutcome, ...] = ()
    #: The name of the page that all rows of its workload share, without an extension.
    shared_page: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.row.id

    @property
    def tile(self) -> str:
        """Its tile; empty for any nodes."""
        return self.record.row.tile

    @cached_property
    def is_as_before(self) -> bool:
        """True if it passed with its first job, as in the run before: it has no page of its own."""
        states = [self.needs, *(outcomes.of(one.outcome).attention.in_report for one in self.earlier[-1:])]
        return {*states} == {attention.PASSED} and len(self.jobs) < 2

    @cached_property
    def address(self) -> str:
        """Its page, or its section of its workload's, relative to the report's directory."""
        shared = f"workloads/{self.shared_page}.html#row-{self.name}"
        return shared if self.is_as_before else f"{home_of(self.record.run.id)}rows/{self.name}.html"

    @cached_property
    def usual(self) -> tuple[float, float] | None:
        """Its usual figure, and the noise of a job; ``None`` without runs."""
        runs, verdict = [one.judged for one in self.past.reference], self.record.judged
        noise = PRIOR if verdict is None or verdict.noise is None else verdict.noise
        return (statistics.median(runs), noise.sigma) if runs else None

    @property
    def peers_change(self) -> float | None:
        """The change of a tile against its peers; ``None`` for other rows, and if it was not compared."""
        return None if self.record.among_tiles is None else self.record.among_tiles.peers_change

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of its training or benchmark; further figures of its document are none."""
        return {name: value for name, value in self.record.row.settings.items() if name not in _FIGURES}

    @cached_property
    def drifting(self) -> Drifting | None:
        """Its drift; ``None`` if it does not drift or was not measured."""
        return self.past.drifting if points_of(self.record) else None

    @cached_property
    def needs(self) -> Attention:
        """The reason for which it needs attention."""
        needs = needs_of(self.record)
        passed = needs in {attention.PASSED, attention.ACCEPTED}
        return attention.DRIFT if passed and self.drifting is not None else needs

    @property
    def kind(self) -> str:
        """The same, one of :data:`KINDS`."""
        return self.needs.kind

    @cached_property
    def failures(self) -> tuple[RowOutcome, ...]:
        """The runs in which it could not be measured, the oldest first, this one among them."""
        this = RowOutcome(self.record.run.id, record_time_s(self.record), self.record.outcome)
        known = (*self.earlier, this)
        return tuple(one for one in known if outcomes.of(one.outcome).attention.in_report is attention.ERROR)

    @cached_property
    def jobs(self) -> tuple[JobFacts, ...]:
        """Its jobs in the order of their submission, those of a search among them."""
        jobs = self.record.jobs
        return tuple(sorted((*jobs.all, *jobs.search), key=submission_order))

    @property
    def is_at_document(self) -> bool | None:
        """True if it was as fast as :data:`AT_DOCUMENT` demands; ``None`` without a document."""
        documented, judged = self.record.judged_of(self.record.figures.documented), self.record.measured
        if not documented:
            return None
        is_fast = bool(judged) and self.record.judged_metric.direction.speed(judged or 0.0, documented) >= AT_DOCUMENT
        return is_fast and self.record.reason not in DOUBTS


def submission_order(job: JobFacts) -> tuple[float, ByNumber]:
    """The sort key of jobs in the order of their submission.

    Slurm's times are whole seconds; jobs of one second are in the order of their ids.
    """
    return job.known_begin_s, by_number(job.id)


def is_slow(record: Record) -> bool:
    """True if a row is slower than its tolerance allows, whatever the reason."""
    return record.by_own_metric in outcomes.SLOW and not is_implausible(record)


def is_implausible(record: Record) -> bool:
    """True if the measured figure is not plausible."""
    return record.reason in DOUBTS


def device(accelerator: str) -> str:
    """The unit of an accelerator's rows: GPU, or CPU on a machine without GPUs."""
    return "CPU" if accelerator == "CPU" else "GPU"


def page_names(node_ids: Iterable[str]) -> dict[str, str]:
    """The name of each row's page: letters, digits, ``_`` and ``-``, and different ones for different rows.

    A row's page has the same name in every run: links to it stay right. Names that differ only in case are
    one file on some file systems.
    """
    wanted = {node_id: _file_name(node_id.rpartition("::")[2]) for node_id in node_ids}
    counts = Counter(name.lower() for name in wanted.values())
    names = {**wanted}
    for node_id, name in wanted.items():
        if not name or len(name) > _LONGEST_NAME or counts[name.lower()] > 1:
            digest = hashlib.sha256(node_id.encode("utf-8", "replace")).hexdigest()[:12]
            names[node_id] = f"{name[:_LONGEST_NAME] or 'row'}-{digest}"
    return names


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_-")


# -- since when -------------------------------------------------------------------------------------


def since_line(since: Since | None) -> str:
    """The onset of a row's state: ``2026-11-18 22:04, 3 runs``; empty if no run before is known."""
    if since is None or (since.runs == 1 and since.good is None):
        return ""
    first = f"{minute(since.time_s)}{' or before' if since.good is None else ''}"
    return "this run" if since.runs == 1 else f"{first}, {since.runs} runs"


def since_facts(since: Since | None) -> tuple[tuple[str, str], ...]:
    """The onset of a row's state and the changes at that time, each with its name; nothing if unknown."""
    line = since_line(since)
    if since is None or not line:
        return ()
    return (("since", line), *((("changed", changes_text(since.changes)),) if since.changes else ()))


def since_of(row: ReportedRow) -> Since | None:
    """The onset of a row's state, ``None`` if unknown, or if it is well."""
    if row.needs is attention.ERROR:
        return _error_since(row)
    runs = row.past.runs
    if row.needs is attention.DRIFT:
        return None if row.drifting is None else row.drifting.onset
    if row.needs not in {*attention.SLOW, attention.IMPROVED} or not runs or runs[-1].run_id != row.record.run.id:
        return None  # a canary's run, or nothing that counts
    is_slow = runs[-1].outcome in outcomes.SLOW  # else by a site's metric alone
    return row.past.since if is_slow == (row.needs in attention.SLOW) else None


def _error_since(row: ReportedRow) -> Since:
    """The onset of a row's errors."""
    runs = (*row.earlier, RowOutcome(row.record.run.id, record_time_s(row.record), ERROR.word))
    first = periods([one.outcome == ERROR.word for one in runs])[-1].wrong[0]
    return Since(runs[first].begin_s, len(runs) - first, runs[first - 1] if first else None)


# -- one run ----------------------------------------------------------------------------------------

_ADVICE = {signature.name: signature.advice for signature in SIGNATURES}


@dataclass(frozen=True)
class ReportedRun:
    """The facts of a run that its records do not have."""

    #: The run's directory.
    directory: Path
    #: By node id or file, why a row has no record that can be read.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: The exit status of its session, ``None`` if unknown.
    exit_status: int | None = None
    #: The rows that its session has yet to judge; ``None`` once it has ended.
    progress: RunProgress | None = None
    #: Its alarms; ``None`` to read them from the history.
    alarms: tuple[Alarm, ...] | None = None
    #: The manifest of its session, and when that began, seconds since the epoch.
    noted: RunManifest = field(default_factory=RunManifest)
    begun_s: float | None = None
    #: The sweep of its tiles, ``None`` if it has none.
    sweep: Sweep | None = None


@dataclass(frozen=True)
class Unrecorded:
    """A row without a record, or with one that cannot be read: an error."""

    node_id: str
    why: str
    #: Its facts by name, by the session's manifest: all that others have, or none.
    facts: Mapping[str, str]

    @property
    def id(self) -> str:
        """The row's id, or the path of its record."""
        return self.node_id.rpartition("::")[2]

    @property
    def tile(self) -> str:
        """Its tile; empty for any nodes."""
        return tile_of(self.id)


@dataclass(frozen=True)
class Cause:
    """Rows that could not be measured for the same cause."""

    #: The fact, without its job.
    fact: str
    rows: tuple[ReportedRow, ...]
    #: Their nodes, those of most rows first, as :func:`~pytest_gsw.results.summary.error_nodes` names them.
    nodes: str
    #: The advice, if known.
    advice: str


@dataclass(frozen=True)
class RunJob:
    """One job of a run, and its row."""

    row: ReportedRow
    facts: JobFacts

    @property
    def failed(self) -> bool:
        """True if it was not measured."""
        is_last = self.facts is self.row.record.jobs.last
        return (
            self.row.needs is attention.ERROR
            if is_last
            else bool(self.facts.why_repeated) and self.facts.judged is None
        )


@dataclass(frozen=True)
class ReportedSweep:
    """The tiles of one row in a run."""

    whole: Sweep
    of_row: RowSweep
    tiles: tuple[ReportedRow, ...]
    #: By tile, why others have no record.
    unrecorded: Mapping[str, str]

    @property
    def title(self) -> str:
        """``32 tiles of llama3_8b_bf16[H100x8]``."""
        return f"{plural(len(self.tiles) + len(self.unrecorded), 'tile')} of {self.of_row.row}"

    @cached_property
    def not_covered(self) -> Mapping[str, str]:
        """The nodes that were not covered, by reason, see :func:`~pytest_gsw.results.sweep.not_covered`."""
        return not_covered(self.whole, {**self.unrecorded, **lost_tiles(row.record for row in self.tiles)})

    @property
    def not_covered_nodes(self) -> int:
        """Their number."""
        return sum(len(expand(nodes)) for nodes in self.not_covered.values())

    @property
    def covered_nodes(self) -> int:
        """The number of nodes with a measurement."""
        measured = (row.record.row.tile for row in self.tiles if row.needs is not attention.ERROR)
        return len({node for tile in measured for node in expand(tile)})

    @property
    def slow_nodes(self) -> Mapping[str, SweepFinding]:
        """The nodes that the search names, each with its finding."""
        return {node: finding for finding in self.of_row.named for node in expand(finding.nodes)}


@dataclass(frozen=True)
class RunListEntry:
    """A run of a history in short."""

    run_id: str
    #: When it began, seconds since the epoch.
    time_s: float
    #: The number of its rows by the words of their outcomes.
    outcomes: Mapping[str, int]
    #: True if the whole cluster was slower.
    had_incident: bool = False
    #: True if all its rows are tiles.
    is_sweep: bool = False

    @cached_property
    def when(self) -> str:
        """When it began, in words."""
        return minute(self.time_s)

    @property
    def good_percent(self) -> float:
        """The percentage of rows that need no attention."""
        good = sum(count for word, count in self.outcomes.items() if not outcomes.of(word).attention.is_urgent)
        return 100 * good / sum(self.outcomes.values())

    @property
    def anchor(self) -> str:
        """Its place in the index of runs."""
        return f"run-{home_of(self.run_id)[5:-1]}"


@dataclass(frozen=True)
class RunReport:
    """A run as pages, texts for CI and commands lay it out."""

    run_id: str
    run: ReportedRun
    #: In the order of their files.
    rows: tuple[ReportedRow, ...]
    #: By cluster, the nodes that make jobs slow.
    slow_nodes: Mapping[str, tuple[SlowNode, ...]] = field(default_factory=dict)
    #: By cluster, the nodes on which more jobs fail than by chance.
    nodes_failing_jobs: Mapping[str, tuple[FailingNode, ...]] = field(default_factory=dict)
    #: By cluster, its other nodes; nothing without a history.
    known_good_nodes: Mapping[str, KnownGoodNodes] = field(default_factory=dict)
    #: By node, its newest jobs in the history, the newest first.
    node_jobs: Mapping[str, Sequence[NodeJob]] = field(default_factory=dict)
    #: The alarms of its rows and its clusters' nodes: those that page first.
    alarms: tuple[Alarm, ...] = ()
    #: By cluster, the text of all of its rows together.
    cluster_texts: Mapping[str, ClusterText] = field(default_factory=dict)
    #: The runs of its clusters in the history, the oldest first; nothing without a history.
    history_runs: tuple[RunListEntry, ...] = ()

    @property
    def replay_of(self) -> str:
        """The run, or the place of the logs, that it replayed; empty for a run of its own jobs."""
        return self.run.noted.replay_of

    @cached_property
    def worst_first(self) -> tuple[ReportedRow, ...]:
        """Its rows, the worst first, and among equals the greatest loss."""

        def place(row: ReportedRow) -> tuple[int, float, ByNumber]:
            return KINDS.index(row.kind), row.record.gain or 0.0, by_number(row.id)

        return tuple(sorted(self.rows, key=place))

    @cached_property
    def by_id(self) -> Mapping[str, ReportedRow]:
        """Its rows by id."""
        return {row.id: row for row in self.rows}

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of its rows."""
        return tuple(row.record for row in self.rows)

    @cached_property
    def whole(self) -> ClusterResult | None:
        """Its effect on the whole cluster, an incident or not; ``None`` if it has too few rows."""
        return cluster_result_of(self.records)

    @property
    def incident(self) -> ClusterResult | None:
        """Its incident, ``None`` if it is none."""
        return self.whole if self.whole is not None and self.whole.is_incident else None

    @property
    def incident_since(self) -> str:
        """The onset of the incident and the changes at that time; empty if unknown."""
        known = self.cluster_texts.get(cluster_of(self.records[0])) if self.records else None
        return "" if known is None else known.since

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Its clusters."""
        noted = {self.run.noted.cluster} - {""}
        return tuple(sorted({record.run.cluster for record in self.records} or noted))

    @cached_property
    def unrecorded(self) -> tuple[Unrecorded, ...]:
        """Its rows without a record: each is an error."""
        recorded = {record.row.node_id for record in self.records}
        missing = ((name, why) for name, why in self.run.missing.items() if name not in recorded)
        return tuple(Unrecorded(name, why, _manifest_facts(self.run.noted.rows.get(name, {}))) for name, why in missing)

    @property
    def unjudged(self) -> int:
        """The number of rows that its session, which has ended, did not judge."""
        return [one.why for one in self.unrecorded].count(left_text(self.run.directory))

    @property
    def goes_on(self) -> bool:
        """True if its session has not ended."""
        return self.run.progress is not None

    @cached_property
    def sweeps(self) -> tuple[ReportedSweep, ...]:
        """The tiles of each row."""
        tiles = grouped([(row.record.row.row_id, row) for row in self.rows if row.tile])
        unrecorded: dict[str, dict[str, str]] = {}
        for one in (one for one in self.unrecorded if one.tile):
            unrecorded.setdefault(without_tile(one.id), {})[one.tile] = one.why
        whole = self.run.sweep or Sweep("", "", 0)
        known = {one.row: one for one in whole.rows}
        return tuple(
            ReportedSweep(whole, known.get(row, RowSweep(row)), tuple(tiles.get(row, ())), unrecorded.get(row, {}))
            for row in {**tiles, **unrecorded}
        )

    @cached_property
    def node_cases(self) -> tuple[CaseBesideRows, ...]:
        """The test cases of nodes."""
        lost = {one.tile: one.why for one in self.unrecorded if one.tile} | lost_tiles(self.records)
        return tuple(node_cases(self.run.sweep, lost, next(iter(self.clusters), "")))

    @property
    def slow_tile_nodes(self) -> int:
        """The number of nodes that are slow by their tiles."""
        return len({node for sweep in self.sweeps for node in sweep.slow_nodes})

    @property
    def rows_text(self) -> str:
        """The number of its rows: ``12 rows``, ``32 tiles of 1 row``, ``35 rows, 32 of them tiles``."""
        text = rows_text([*(row.id for row in self.rows), *(row.id for row in self.unrecorded)])
        return f"{text} so far" if self.goes_on else text

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The number of rows of each of :data:`KINDS`; rows without a record are errors."""
        counts = Counter(row.kind for row in self.rows)
        counts[attention.ERROR.kind] += len(self.unrecorded)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    @cached_property
    def outcomes(self) -> Mapping[str, int]:
        """The number of rows of each outcome, by its word; rows without a record are errors."""
        counts = outcomes.counts((record.outcome for record in self.records), len(self.unrecorded))
        return {one.word: count for one, count in counts.items()}

    @property
    def failing_texts(self) -> list[str]:
        """The nodes that failed jobs of the run at once, and those on which more jobs fail than by chance."""
        return failing_texts(self.records, (one for found in self.nodes_failing_jobs.values() for one in found))

    @property
    def nodes_commands(self) -> Mapping[str, str]:
        """The commands that list nodes that are slow or fail jobs, by cluster."""
        found = sorted({*self.slow_nodes, *self.nodes_failing_jobs})
        return {cluster: command("pytest-gsw", "nodes", f"--cluster={cluster}") for cluster in found}

    @property
    def next_commands(self) -> list[tuple[str, str]]:
        """The commands to type next, each after its purpose."""
        of_nodes = ((f"see the nodes to avoid on {cluster}", text) for cluster, text in self.nodes_commands.items())
        # What runs again before its nodes are left out may meet them again.
        listed = [*of_nodes, *next_commands(self.records, self.run.directory, self.incident)]
        if not self.unjudged:
            return listed
        what = f"go on with {plural(self.unjudged, 'row')} that the session did not judge"
        return [(what, resume_command(self.run.directory)), *listed]

    @property
    def active_alarms(self) -> int:
        """The number of its active alarms; parts of another one do not count."""
        return sum(one.is_active and not one.part_of for one in self.alarms)

    @property
    def list_entry(self) -> RunListEntry:
        """The run in short, with its rows that have no record."""
        is_sweep = bool(self.sweeps) and all(row.tile for row in self.rows)
        return RunListEntry(self.run_id, self.begin_s or 0.0, self.outcomes, self.incident is not None, is_sweep)

    @cached_property
    def alarms_by_state(self) -> Mapping[str, list[Alarm]]:
        """Its alarms that are new, ongoing, and fixed in it; those fixed by another run are left out.

        Each row of a common cause is listed, but nothing that a node, or another alarm of the row, explains.
        """
        found: dict[str, list[Alarm]] = {"new": [], "ongoing": [], "fixed": []}
        runs = {self.run_id, *(record.run.id for record in self.records)}
        for one in (one for one in self.alarms if not (one.part_of and one.period.part_of)):
            state = "new" if one.state is State.WORSE else one.state.value
            if state in found and (one.is_active or one.period.fixed_by in runs):
                found[state].append(one)
        return found

    @cached_property
    def begin_s(self) -> float | None:
        """When it began, or if unknown when its first job was submitted."""
        known = [job.facts.known_begin_s for job in self.jobs if job.facts.known_begin_s]
        first_s = self.run.begun_s or min(known, default=min(self._recorded_s, default=0.0))
        name = self.records[0].run.id if self.records else self.run_id
        return begin_of(self.replay_of or name, first_s) or None

    @cached_property
    def end_s(self) -> float | None:
        """When its last job had ended."""
        known = [job.facts.end_s for job in self.jobs if job.facts.end_s]
        return max(known, default=max(self._recorded_s, default=None))

    @property
    def _recorded_s(self) -> list[float]:
        return [record.run.recorded_s for record in self.records if record.run.recorded_s]

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours of its jobs, as far as known."""
        of_search = 0.0 if self.run.sweep is None else self.run.sweep.gpu_hours
        return sum(map(used_gpu_hours, self.records)) + of_search

    @property
    def lost_gpu_hours(self) -> float:
        """The GPU-hours of its failed jobs, as far as known."""
        lost = (job.row.record.row.gpus * (job.facts.run_s or 0.0) for job in self.jobs if job.failed)
        return sum(lost) / 3600

    @property
    def at_document(self) -> tuple[int, int]:
        """The number of rows at :data:`AT_DOCUMENT` or more, and of all rows with a documented figure."""
        known = [one for row in self.rows if (one := row.is_at_document) is not None]
        return sum(known), len(known) + len(self.unrecorded)

    @property
    def exit_status(self) -> int:
        """The exit status of its session, or the one that follows from its records."""
        if self.run.exit_status is not None:
            return self.run.exit_status
        failed = [outcomes.FAILED] if self.unrecorded or (self.incident is not None and self.incident.fails) else []
        failed += [case.status for case in self.node_cases]
        return outcomes.exit_status([*failed, *(record.status for record in self.records)])

    def of(self, kind: str) -> tuple[ReportedRow, ...]:
        """Its rows of one of :data:`KINDS`, the worst first."""
        return tuple(row for row in self.worst_first if row.kind == kind)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of errors, the most frequent first."""
        found = grouped([(cause_of(row.record), row) for row in self.of(attention.ERROR.kind)])
        ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
        return tuple(
            Cause(fact, tuple(rows), error_nodes(row.record for row in rows), advice_of(rows[0].record))
            for fact, rows in ordered
        )

    @cached_property
    def jobs(self) -> tuple[RunJob, ...]:
        """All its jobs in the order of their submission."""
        jobs = (RunJob(row, job) for row in self.rows for job in row.jobs)
        return tuple(sorted(jobs, key=lambda one: submission_order(one.facts)))

    @cached_property
    def failing_nodes(self) -> tuple[FailingNode, ...]:
        """Nodes on which more jobs of the run failed than by chance, those with the most failures first.

        By Fisher's exact test of a node's jobs against all others, for as many nodes as ran.
        """
        ran: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for job in self.jobs:
            nodes = expand(job.facts.nodes)
            ran.update(nodes)
            failed.update(nodes if job.failed else ())
        of, bad = len(self.jobs), sum(job.failed for job in self.jobs)
        alike = grouped([((count, ran[node]), node) for node, count in failed.items()])

        def chance(count: int, jobs: int) -> float:
            ways = (math.comb(bad, one) * math.comb(of - bad, jobs - one) for one in range(count, min(bad, jobs) + 1))
            return sum(ways) / math.comb(of, jobs)

        return tuple(
            FailingNode(tuple(nodes), *counts, bad / of, named=True)
            for counts, nodes in sorted(alike.items(), reverse=True)
            if chance(*counts) * len(ran) < _FALSE
        )

    @cached_property
    def node_runs(self) -> Mapping[str, Sequence[RunJob]]:
        """Its jobs, by node."""
        return grouped([(node, job) for job in self.jobs for node in expand(job.facts.nodes)])

    @property
    def home(self) -> str:
        """The folder of its pages, relative to the report's directory."""
        return home_of(self.run_id)

    @cached_property
    def nodes(self) -> Mapping[str, str]:
        """The address of each node's page: the nodes of its jobs, and those that are slow or fail jobs."""
        groups = (*self.slow_nodes.values(), *self.nodes_failing_jobs.values())
        found = {*self.node_runs, *(node for group in groups for one in group for node in one.nodes)}
        return {node: f"nodes/{name}.html" for node, name in page_names(sorted(found, key=by_number)[:_NODES]).items()}

    @cached_property
    def runs_before(self) -> tuple[RunListEntry, ...]:
        """The runs of its clusters before it, the newest first; sweeps, which are of tiles, are left out."""
        until_s, known = self.list_entry.time_s, self.history_runs[::-1]
        return tuple(one for one in known if one.time_s < until_s and one.run_id != self.run_id and not one.is_sweep)

    @property
    def matrix_runs(self) -> tuple[RunListEntry, ...]:
        """The newest of them."""
        return self.runs_before[:_MATRIX_RUNS]


def advice_of(record: Record) -> str:
    """The advice on an error: its own, or that on its cause, if known."""
    if record.advice:
        return record.advice
    fact = cause_of(record)
    if fact.startswith(NOT_FINITE):
        return DIVERGED
    return _ADVICE.get(fact.rpartition(": ")[2], "")


def _manifest_facts(noted: Mapping[str, str]) -> Mapping[str, str]:
    is_whole = set(FACTS) <= set(noted) and noted["gpus"].isascii() and noted["gpus"].isdigit()
    return {name: noted[name] for name in FACTS} if is_whole else {}


# -- reports from the records, the history, and the directories of runs ----------------------------

#: The most nodes with a page, and the most runs of a matrix.
_NODES, _MATRIX_RUNS = 600, 30
#: The number of earlier runs whose outcomes are read: as many as a row's plot has.
EARLIER_RUNS = 200
#: The most runs of a row that its page lists.
LISTED_RUNS = 14
#: Outcomes that follow from the figure and the limit alone.
_BY_FIGURE = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})


def accepted_in(tables: Sequence[Path], records: Iterable[Record]) -> AllAccepted | None:
    """The accepted figures by row and cluster; ``None`` if no record rests on one."""
    if all(record.reference != "accepted" for record in records):
        return None
    return accepted_figures(tables)


def with_own_figures(alarms: Iterable[Alarm], records: Collection[Record]) -> tuple[Alarm, ...]:
    """Alarms with a run's own figure of its incident: in that of the history, the run is part of its reference."""
    result = cluster_result_of(records)
    if result is None:
        return tuple(alarms)
    found = ((one, one.period.runs[-1]) for one in alarms)
    runs = {record.run.id for record in records}
    return tuple(
        replace(one, period=replace(one.period, runs=(*one.period.runs[:-1], replace(last, level=result.effect))))
        if one.period.kind is Kind.INCIDENT and last.run_id in runs
        else one
        for one, last in found
    )


class HistoryReader:
    """A history as one report reads it: each cluster once, and all of the report of one moment.

    Args:
        history: All runs.
        accepted: By row and cluster, the accepted figures: the runs that count begin with them.
    """

    def __init__(self, history: History, accepted: AllAccepted | None = None) -> None:
        self._history = history
        self._accepted = accepted
        self._series: dict[str, ClusterSeries] = {}
        self.histories: Mapping[SeriesKey, RowHistory] = {}
        #: By cluster and row, the outcomes of earlier runs, the oldest first.
        self.earlier: dict[tuple[str, str], tuple[RowOutcome, ...]] = {}

    def series(self, cluster: str) -> ClusterSeries:
        """The runs of a cluster."""
        if cluster not in self._series:
            self._series[cluster] = series_of_cluster(self._history, cluster, accepted=self._accepted)
        return self._series[cluster]

    def alarms(self, records: Collection[Record], slow_before: Sequence[SlowNode] | None = None) -> tuple[Alarm, ...]:
        """The alarms of a run's rows and of its clusters' nodes, by the runs until then.

        ``slow_before`` are the nodes that were slow before it, if known.
        """
        of_cluster = grouped([(key.cluster, one) for one in records if (key := series_key(one)) is not None])
        found: list[Alarm] = []
        for cluster, ran in of_cluster.items():
            rows = {record.row.id for record in ran}
            known = alarms_of(
                self._history,
                cluster,
                self.series(cluster),
                now_s=time.time(),
                until_s=max(map(record_time_s, ran)) or math.inf,
                measured={record.row.id for record in ran if points_of(record)},
                slow_before=slow_before,
            )
            shown = {*rows, whole_cluster(cluster)}
            of_run = (one for one in known if one.period.kind not in OF_ROWS or one.period.subject in shown)
            listed = {name for one in of_run for name in (one.id, one.part_of)}
            found += (one for one in known if one.id in listed)
        return redact(with_own_figures(found, records), os.environ)

    def read(self, records: Collection[Record], runs: Collection[ReportedRun]) -> None:
        """Read the histories of rows, and the outcomes of earlier runs without excluded ones.

        Rows that were never judged are errors, in those of the runs that still have a directory beside these runs'.
        """
        self.histories = histories_of_records(self._history, records, self.series)
        there = [
            one for place in sorted({run.directory.parent for run in runs}) for one in newest_begun(place, EARLIER_RUNS)
        ]
        clusters = {record.run.cluster for record in records} | {run.noted.cluster for run in runs}
        for cluster in clusters - {NO_CLUSTER, ""}:
            excluded = {event.subject for event in self._history.events(cluster, EXCLUDE)}
            recorded = self._history.outcomes(cluster, EARLIER_RUNS + len(runs))
            begun_there = [one for one in there if one.cluster == cluster]
            for row, of_row in _with_never_judged(recorded, begun_there).items():
                self.earlier[cluster, row] = tuple(one for one in of_row if one.run_id not in excluded)

    def before(self, record: Record) -> tuple[RowOutcome, ...]:
        """The outcomes of a row in the runs before; a run that judged the same job again is none."""
        time_s = record_time_s(record)
        of_row = self.earlier.get((record.run.cluster, record.row.id), ())
        return tuple(one for one in of_row if one.run_id != record.run.id and one.time_s < time_s)

    def clusters_of(self, records: Iterable[Record]) -> tuple[str, ...]:
        """The clusters of which there are histories of these rows."""
        keys = (series_key(record) for record in records)
        return tuple(dict.fromkeys(key.cluster for key in keys if key is not None and key in self.histories))

    def cluster_texts(self, records: Iterable[Record]) -> dict[str, ClusterText]:
        """The text of each cluster's runs until this one, for all of its rows together, by cluster."""
        current_run: dict[str, dict[str, Point]] = {}
        together: dict[str, ClusterHistory] = {}
        for record in records:
            key, points = series_key(record), points_of(record)
            adjustment = None if key is None or key not in self.histories else self.histories[key].adjustment
            if key is not None and points and adjustment is not None and not record.row.tile:
                current_run.setdefault(key.cluster, {})[key.row] = points[0]
                together[key.cluster] = adjustment.together
        found = {}
        for cluster, points_of_rows in current_run.items():
            until_s = max(point.time_s for point in points_of_rows.values())
            before = together[cluster].until(until_s, next(iter(points_of_rows.values())).run_id)
            found[cluster] = redact(cluster_text(before.including_run(points_of_rows)), os.environ)
        return found

    def runs(self, clusters: Collection[str], incidents: Collection[str]) -> tuple[RunListEntry, ...]:
        """The runs of clusters, the oldest first; ``incidents`` are the ids of those that were incidents."""
        rows = [(row, of_row) for (cluster, row), of_row in self.earlier.items() if cluster in clusters]
        found = grouped([(one.run_id, one) for _, of_row in rows for one in of_row])
        nights = {one.run_id for row, of_row in rows if not tile_of(row) for one in of_row}
        runs = (
            RunListEntry(
                run_id,
                begin_of(run_id, min(one.time_s for one in of_run)),
                Counter(one.outcome for one in of_run),
                run_id in incidents,
                run_id not in nights,
            )
            for run_id, of_run in found.items()
        )
        return tuple(sorted(runs, key=lambda run: (run.time_s, run.run_id)))


def _with_never_judged(
    recorded: Mapping[str, tuple[RowOutcome, ...]], there: Iterable[RunState]
) -> Mapping[str, tuple[RowOutcome, ...]]:
    """The outcomes of a cluster's runs by row, with an error for each row that one of them never judged."""
    found = {row: {one.run_id: one for one in of_row} for row, of_row in recorded.items()}
    times_s: dict[str, float] = {}
    for one in (one for of_row in recorded.values() for one in of_row):
        times_s[one.run_id] = max(one.time_s, times_s.get(one.run_id, one.time_s))
    for run in there:
        name = run.directory.name
        missing = [row for row in run.row_ids if name not in found.get(row, {})]
        # A run with records that the history lacks was to be kept from it.
        if not missing or (name not in times_s and any(run.directory.glob(RECORDS))) or is_owned(run.directory):
            continue
        for row in missing:
            found.setdefault(row, {})[name] = RowOutcome(name, times_s.get(name, run.begun_s), ERROR.word)
    return {row: tuple(sorted(of_row.values(), key=lambda one: one.time_s)) for row, of_row in found.items()}


def run_report(
    records: Iterable[Record], run: ReportedRun, history: History | HistoryReader | None = None
) -> RunReport:
    """The report of one run, without secrets.

    Args:
        records: Its records.
        run: What its records do not have.
        history: The runs before, or a reader that has some of them already; ``None`` if there is none.

    Raises:
        HistoryError: The history could not be read.
    """
    listed = list(records)
    run_id = listed[0].run.id if listed else run.directory.name
    (found,) = _build_reports({run_id: listed}, {run_id: run}, history)
    return found


def run_reports(
    records: Iterable[Record],
    history: History | HistoryReader | None = None,
    runs: Mapping[str, ReportedRun] | None = None,
) -> tuple[RunReport, ...]:
    """The reports of several runs, the newest first; ``runs`` has by id what their records do not have."""
    by_run: dict[str, list[Record]] = {run_id: [] for run_id in runs or {}}
    for record in newest_of(records).values():
        by_run.setdefault(record.run.id, []).append(record)
    found = _build_reports(
        by_run, {run_id: (runs or {}).get(run_id) or ReportedRun(RUNS / run_id) for run_id in by_run}, history
    )
    return tuple(sorted(found, key=lambda one: (one.begin_s or 0.0, one.run_id), reverse=True))


@collector_paused()
def _build_reports(
    by_run: Mapping[str, Sequence[Record]], runs: Mapping[str, ReportedRun], history: History | HistoryReader | None
) -> list[RunReport]:
    reader = HistoryReader(history) if isinstance(history, History) else history
    # A session redacts its records; a file may hold anything.
    shown = {run_id: [redact(record, os.environ) for record in of_run] for run_id, of_run in by_run.items()}
    begun_runs = {run_id: _with_manifest(run) for run_id, run in runs.items()}
    if reader is not None:
        reader.read([record for of_run in shown.values() for record in of_run], begun_runs.values())
    return [_build_report(redact(name, os.environ), of_run, begun_runs[name], reader) for name, of_run in shown.items()]


def _with_manifest(run: ReportedRun) -> ReportedRun:
    """A run with what its session wrote down before it began."""
    known = begun(run.directory)
    noted = redact(read_noted(run.directory), os.environ)
    missing = {redact(name, os.environ): redact(why, os.environ) for name, why in run.missing.items()}
    begun_s, sweep = None if known is None else known.begun_s or None, redact(read_sweep(run.directory), os.environ)
    progress = redact(run.progress, os.environ)
    return replace(run, missing=missing, noted=noted, begun_s=begun_s, sweep=sweep, progress=progress)


def _build_report(run_id: str, records: Sequence[Record], run: ReportedRun, reader: HistoryReader | None) -> RunReport:
    rows, broken = _build_rows(records, reader)
    run = replace(run, missing={**run.missing, **broken})
    if reader is None:
        return RunReport(run_id, run, rows, alarms=run.alarms or ())
    alarms = reader.alarms(records) if run.alarms is None else run.alarms
    series = {cluster: reader.series(cluster) for cluster in reader.clusters_of(records)}
    slow = {cluster: tuple(one for one in of.slow if not one.recovered) for cluster, of in series.items()}
    nodes = {cluster: of.nodes for cluster, of in series.items()}
    report = RunReport(
        run_id,
        run,
        rows,
        slow_nodes=redact({cluster: suspects for cluster, suspects in slow.items() if suspects}, os.environ),
        nodes_failing_jobs=redact({cluster: of.failing for cluster, of in nodes.items() if of.failing}, os.environ),
        known_good_nodes=redact({cluster: of.sound for cluster, of in nodes.items()}, os.environ),
        node_jobs={node: jobs for of in nodes.values() for node, jobs in of.newest_jobs().items()},
        alarms=alarms,
        cluster_texts=reader.cluster_texts(records),
    )
    incidents = {seen.run_id for one in alarms if one.period.kind is Kind.INCIDENT for seen in one.period.runs}
    return replace(report, history_runs=reader.runs(report.clusters, incidents))


def _row_history(record: Record, histories: Mapping[SeriesKey, RowHistory]) -> RowHistory:
    """The history of a row until a run of it, with that run."""
    key = series_key(record)
    if key is None:
        return RowHistory()
    current_run = points_of(record)
    until_s = max([record_time_s(record), *(point.time_s for point in current_run)])
    return histories.get(key, RowHistory()).without(record.run.id, until_s, current_run).including_run(current_run)


def _build_rows(
    records: Sequence[Record], reader: HistoryReader | None
) -> tuple[tuple[ReportedRow, ...], dict[str, str]]:
    """The rows of a run, and by node id why a record cannot be shown."""
    names = page_names(record.row.node_id for record in records)
    rows, broken = [], {}
    together: Counter[str] = Counter()
    for record in records:
        name = names[record.row.node_id]
        is_tile = bool(record.row.tile)  # the history is its row's
        past = RowHistory() if is_tile else _row_history(record, {} if reader is None else reader.histories)
        try:
            row = ReportedRow(record, name, past, earlier=() if reader is None or is_tile else reader.before(record))
            if record.judged is not None and row.needs is attention.INCONCLUSIVE:
                inconclusive_text(record, record.judged)
            workload = _file_name(record.row.workload)[:_LONGEST_NAME].lower() or "rows"
            number, together[workload] = together[workload] // _ON_PAGE, together[workload] + 1
            page = f"{workload}-{number + 1}" if number else workload
            rows.append(replace(row, since=since_of(row), shared_page=page))
        except ValueError as error:  # numbers from which nothing can be computed
            broken[record.row.node_id] = f"its record cannot be shown: {error}"
    return tuple(rows), broken


# -- references of runs -----------------------------------------------------------------------------


def current_reference(row: ReportedRow) -> tuple[float | None, str]:
    """The reference of the row's verdict, and its name."""
    figures, judged_of = row.record.figures, row.record.judged_of
    if accepted := judged_of(figures.accepted):
        return accepted, "the accepted"
    return judged_of(figures.documented), "the documented"


def reference_at(row: ReportedRow, point: Point) -> float | None:
    """The reference of a run of the row; ``None`` if its outcome does not follow from the current one."""
    held, facts = current_reference(row)[0], row.record.row
    if held is None or point.run_id == row.record.run.id or point.outcome not in _BY_FIGURE:
        return held
    outcome = compare(point.judged, held, facts.tolerance, row.record.judged_metric.direction)
    return held if outcome.value == point.outcome else None
