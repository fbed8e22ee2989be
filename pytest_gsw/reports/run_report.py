"""The report of a run as a value: its rows with their history, its jobs, its causes of errors, its alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import ByNumber, by_number, command, minute, plural
from pytest_gsw.history.alarms import Alarm, State
from pytest_gsw.history.comparison import ClusterText, failing_texts
from pytest_gsw.history.model import cluster_of
from pytest_gsw.history.node_search import FailingNode, KnownGoodNodes, NodeJob, SlowNode
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE, SIGNATURES
from pytest_gsw.reports.reported_row import KINDS, ReportedRow, home_of, page_names, submission_order
from pytest_gsw.results import attention, manifest, outcomes, run_progress, runs_directory, suggested_commands, summary
from pytest_gsw.results.cluster_result import ClusterResult, cluster_result_of
from pytest_gsw.results.record import JobFacts, Record, used_gpu_hours
from pytest_gsw.results.sweep import RowSweep, Sweep, lost_tiles, node_cases, not_covered
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.tables.model import rows_text, tile_of, without_tile

#: The probability of naming a healthy node by the failures of one run.
_FALSE = 0.01
#: The most nodes with a page, and the most runs of a matrix.
_NODES, _MATRIX_RUNS = 600, 30
#: The most runs of a row that its page lists.
LISTED_RUNS = 14


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
    progress: run_progress.RunProgress | None = None
    #: Its alarms; ``None`` to read them from the history.
    alarms: tuple[Alarm, ...] | None = None
    #: The manifest of its session, and when that began, seconds since the epoch.
    noted: manifest.RunManifest = field(default_factory=manifest.RunManifest)
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
        if self.facts is self.row.record.jobs.last:
            return self.row.needs is attention.ERROR
        return bool(self.facts.why_repeated) and self.facts.judged is None

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours of it; 0 if unknown."""
        return self.row.record.row.gpus * (self.facts.run_s or 0.0) / 3600


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
        return [missing_row.why for missing_row in self.unrecorded].count(manifest.left_text(self.run.directory))

    @property
    def goes_on(self) -> bool:
        """True if its session has not ended."""
        return self.run.progress is not None

    @cached_property
    def sweeps(self) -> tuple[ReportedSweep, ...]:
        """The tiles of each row."""
        tiles = grouped([(row.record.row.row_id, row) for row in self.rows if row.tile])
        unrecorded: dict[str, dict[str, str]] = {}
        for missing_row in (missing_row for missing_row in self.unrecorded if missing_row.tile):
            unrecorded.setdefault(without_tile(missing_row.id), {})[missing_row.tile] = missing_row.why
        whole = self.run.sweep or Sweep("", "", 0)
        known = {row_sweep.row: row_sweep for row_sweep in whole.rows}
        return tuple(
            ReportedSweep(whole, known.get(row, RowSweep(row)), tuple(tiles.get(row, ())), unrecorded.get(row, {}))
            for row in {**tiles, **unrecorded}
        )

    @cached_property
    def node_cases(self) -> tuple[manifest.CaseBesideRows, ...]:
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
        return {outcome.word: count for outcome, count in counts.items()}

    @property
    def failing_texts(self) -> list[str]:
        """The nodes that failed jobs of the run at once, and those on which more jobs fail than by chance."""
        return failing_texts(self.records, (node for found in self.nodes_failing_jobs.values() for node in found))

    @property
    def next_commands(self) -> list[tuple[str, str]]:
        """The commands to type next, each after its purpose."""
        of_nodes = [
            (f"see the nodes to avoid on {cluster}", command("pytest-gsw", "nodes", f"--cluster={cluster}"))
            for cluster in sorted({*self.slow_nodes, *self.nodes_failing_jobs})
        ]
        # What runs again before its nodes are left out may meet them again.
        listed = [*of_nodes, *suggested_commands.next_commands(self.records, self.run.directory, self.incident)]
        if not self.unjudged:
            return listed
        what = f"go on with {plural(self.unjudged, 'row')} that the session did not judge"
        return [(what, manifest.resume_command(self.run.directory)), *listed]

    @property
    def active_alarms(self) -> int:
        """The number of its active alarms; parts of another one do not count."""
        return sum(alarm.is_active and not alarm.part_of for alarm in self.alarms)

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
        alarms: dict[str, list[Alarm]] = {"new": [], "ongoing": [], "fixed": []}
        runs = {self.run_id, *(record.run.id for record in self.records)}
        for alarm in (alarm for alarm in self.alarms if not (alarm.part_of and alarm.period.part_of)):
            state = "new" if alarm.state is State.WORSE else alarm.state.value
            if state in alarms and (alarm.is_active or alarm.period.fixed_by in runs):
                alarms[state].append(alarm)
        return alarms

    @cached_property
    def begin_s(self) -> float | None:
        """When it began, or if unknown when its first job was submitted."""
        known = [job.facts.known_begin_s for job in self.jobs if job.facts.known_begin_s]
        first_s = self.run.begun_s or min(known, default=min(self._recorded_s, default=0.0))
        name = self.records[0].run.id if self.records else self.run_id
        return runs_directory.begin_of(self.replay_of or name, first_s) or None

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
    def at_document(self) -> tuple[int, int]:
        """The number of rows at :data:`AT_DOCUMENT` or more, and of all rows with a documented figure."""
        known = [is_at for row in self.rows if (is_at := row.is_at_document) is not None]
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
        of_causes = grouped([(summary.cause_of(row.record), row) for row in self.of(attention.ERROR.kind)])
        ordered = sorted(of_causes.items(), key=lambda cause: (-len(cause[1]), cause[0]))
        return tuple(
            Cause(fact, tuple(rows), summary.error_nodes(row.record for row in rows), advice_of(rows[0].record))
            for fact, rows in ordered
        )

    @cached_property
    def jobs(self) -> tuple[RunJob, ...]:
        """All its jobs in the order of their submission."""
        jobs = (RunJob(row, job) for row in self.rows for job in row.jobs)
        return tuple(sorted(jobs, key=lambda run_job: submission_order(run_job.facts)))

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
        nodes = {*self.node_runs, *(node for group in groups for node_group in group for node in node_group.nodes)}
        return {node: f"nodes/{name}.html" for node, name in page_names(sorted(nodes, key=by_number)[:_NODES]).items()}

    @cached_property
    def runs_before(self) -> tuple[RunListEntry, ...]:
        """The runs of its clusters before it, the newest first; sweeps, which are of tiles, are left out."""
        until_s, known = self.list_entry.time_s, self.history_runs[::-1]
        return tuple(run for run in known if run.time_s < until_s and run.run_id != self.run_id and not run.is_sweep)

    @property
    def matrix_runs(self) -> tuple[RunListEntry, ...]:
        """The newest of them."""
        return self.runs_before[:_MATRIX_RUNS]


def advice_of(record: Record) -> str:
    """The advice on an error: its own, or that on its cause, if known."""
    if record.advice:
        return record.advice
    fact = summary.cause_of(record)
    if fact.startswith(NOT_FINITE):
        return DIVERGED
    return _ADVICE.get(fact.rpartition(": ")[2], "")


def _manifest_facts(noted: Mapping[str, str]) -> Mapping[str, str]:
    is_whole = set(manifest.FACTS) <= set(noted) and noted["gpus"].isascii() and noted["gpus"].isdigit()
    return {name: noted[name] for name in manifest.FACTS} if is_whole else {}
