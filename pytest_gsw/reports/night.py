"""What is known of a night: its rows, its jobs, why rows could not be measured. Pure data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_gsw.history.alarms import Alarm, by_state
from pytest_gsw.history.model import cluster_of
from pytest_gsw.history.suspects import Failing, Sound, Suspect
from pytest_gsw.history.texts import ClusterTold
from pytest_gsw.logs.causes import DIVERGED, NOT_FINITE
from pytest_gsw.logs.failures import SIGNATURES
from pytest_gsw.reports.rows import KINDS, Row, as_submitted, begin_of_job
from pytest_gsw.reports.scaling import Workload, workloads
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.incident import WholeNight, cluster_night
from pytest_gsw.results.junit_names import Noted
from pytest_gsw.results.nodes import expand
from pytest_gsw.results.record import Record, used_gpu_hours
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.results.summary import cause_of, error_nodes
from pytest_gsw.results.unjudged import WAITS, left_text

_ADVICE = {signature.name: signature.advice for signature in SIGNATURES}


@dataclass(frozen=True)
class Run:
    """What the records of a run do not say of it."""

    #: The run's directory.
    directory: Path
    #: By node id or file, why a row has no record that can be read.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: How its session ended, ``None`` where nobody wrote it down.
    exit_status: int | None = None
    #: Its alarms, ``None`` where the history is to be asked.
    alarms: tuple[Alarm, ...] | None = None
    #: What its session noted of its rows before it began, and when that was, seconds since the epoch.
    noted: Noted = field(default_factory=Noted)
    begun_s: float | None = None


#: What is known of a row that has no record, as metrics name it.
FACTS = ("workload", "framework", "dtype", "accelerator", "gpus")


@dataclass(frozen=True)
class Unrecorded:
    """A row without a record, or with one that cannot be read: an error."""

    node_id: str
    why: str
    #: By name, what its session noted that it is: all of :data:`FACTS`, or nothing.
    facts: Mapping[str, str]

    @property
    def id(self) -> str:
        """The row's id, or the path of its record."""
        return self.node_id.rpartition("::")[2]


@dataclass(frozen=True)
class Cause:
    """Rows that could not be measured for the same cause."""

    #: What happened, without the job that it happened to.
    fact: str
    rows: tuple[Row, ...]
    #: On which nodes, those of most rows first, as :func:`~pytest_gsw.results.summary.error_nodes` names them.
    nodes: str
    #: What to do about it, where that is known.
    advice: str


@dataclass(frozen=True)
class NightJob:
    """One job of a night, and its row."""

    row: Row
    facts: JobFacts

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        is_last = self.facts is self.row.record.jobs.last
        return (
            self.row.needs is attention.ERROR
            if is_last
            else bool(self.facts.why_repeated) and self.facts.judged_s is None
        )

    @property
    def begin_s(self) -> float:
        """When it was submitted, or the nearest time to that which is known; 0 where none is."""
        return begin_of_job(self.facts)


@dataclass(frozen=True)
class Listed:
    """One run of a history, in short."""

    run_id: str
    #: When it began, seconds since the epoch.
    time_s: float
    #: How many of its rows had which outcome.
    outcomes: Mapping[str, int]
    #: Whether the whole cluster was slower.
    had_incident: bool = False


@dataclass(frozen=True)
class Night:
    """One run."""

    run_id: str
    run: Run
    #: The worst first in the report, in the order of their files in exports.
    rows: tuple[Row, ...]
    #: By cluster, the nodes that make jobs slow.
    slow_nodes: Mapping[str, tuple[Suspect, ...]] = field(default_factory=dict)
    #: By cluster, the nodes of which more jobs fail than by chance.
    blamed_nodes: Mapping[str, tuple[Failing, ...]] = field(default_factory=dict)
    #: By cluster, what is known of its other nodes; nothing without a history.
    sound_nodes: Mapping[str, Sound] = field(default_factory=dict)
    #: What the history knows to be wrong with its rows and its clusters' nodes: those that page first.
    alarms: tuple[Alarm, ...] = ()
    #: By cluster, what its nights say of its rows together.
    told: Mapping[str, ClusterTold] = field(default_factory=dict)
    #: The runs that the history has of its clusters, the oldest first; nothing without a history.
    listed: tuple[Listed, ...] = ()

    @property
    def replay_of(self) -> str:
        """The run that it judged again, or the place of logs that it did; empty of a run of its own jobs."""
        return self.run.noted.replay_of

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of its rows."""
        return tuple(row.record for row in self.rows)

    @cached_property
    def whole(self) -> WholeNight | None:
        """What it was for the whole cluster, an incident or not; ``None`` where its rows are too few to tell."""
        return cluster_night(self.records)

    @property
    def incident(self) -> WholeNight | None:
        """That the whole cluster was slower."""
        return self.whole if self.whole is not None and self.whole.is_incident else None

    @property
    def incident_since(self) -> str:
        """Since when that is so, and what changed then; empty where nobody knows."""
        known = self.told.get(cluster_of(self.records[0])) if self.records else None
        return "" if known is None else known.since

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Where it ran."""
        noted = {self.run.noted.cluster} - {""}
        return tuple(sorted({record.run.cluster for record in self.records} or noted))

    @cached_property
    def unrecorded(self) -> tuple[Unrecorded, ...]:
        """Its rows without a record: each is an error."""
        recorded = {record.row.node_id for record in self.records}
        missing = ((name, why) for name, why in self.run.missing.items() if name not in recorded)
        return tuple(Unrecorded(name, why, _facts_of(self.run.noted.rows.get(name, {}))) for name, why in missing)

    @property
    def left(self) -> int:
        """How many of its rows its session, which has ended, did not come to."""
        return [one.why for one in self.unrecorded].count(left_text(self.run.directory))

    @property
    def goes_on(self) -> bool:
        """Whether its session has yet to come to some of its rows."""
        return any(one.why == WAITS for one in self.unrecorded)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each of :data:`KINDS`; rows without a record are errors."""
        counts = Counter(row.kind for row in self.rows)
        counts[attention.ERROR.kind] += len(self.unrecorded)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    @cached_property
    def outcomes(self) -> Mapping[str, int]:
        """How many rows there are of each outcome, by its word; rows without a record are errors."""
        counts = outcomes.counts((record.outcome for record in self.records), len(self.unrecorded))
        return {one.word: count for one, count in counts.items()}

    @property
    def as_listed(self) -> Listed:
        """The same in short, with its rows that have no record."""
        return Listed(self.run_id, self.begin_s or 0.0, self.outcomes, self.incident is not None)

    @cached_property
    def turned(self) -> Mapping[str, list[Alarm]]:
        """Its alarms that are new, ongoing, and fixed in it."""
        return by_state(self.alarms, {self.run_id, *(record.run.id for record in self.records)})

    @cached_property
    def begin_s(self) -> float | None:
        """When it began, or when its first job was submitted where that is all that is known."""
        known = [job.begin_s for job in self.jobs if job.begin_s]
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
        """GPU-hours that its jobs ran for, as far as that is known."""
        return sum(map(used_gpu_hours, self.records))

    @property
    def exit_status(self) -> int:
        """How its session ended, or would have by its records."""
        if self.run.exit_status is not None:
            return self.run.exit_status
        failed = [outcomes.FAILED] if self.unrecorded or self.incident is not None else []
        return outcomes.exit_status([*failed, *(record.status for record in self.records)])

    def of(self, kind: str) -> tuple[Row, ...]:
        """Its rows of one of :data:`KINDS`, the worst first."""
        return tuple(row for row in self.rows if row.kind == kind)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """Why rows could not be measured, the most frequent cause first."""
        found: dict[str, list[Row]] = {}
        for row in self.of(attention.ERROR.kind):
            found.setdefault(cause_of(row.record), []).append(row)
        ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
        return tuple(
            Cause(fact, tuple(rows), error_nodes(row.record for row in rows), advice_of(fact)) for fact, rows in ordered
        )

    @cached_property
    def jobs(self) -> tuple[NightJob, ...]:
        """All its jobs in the order of their submission."""
        jobs = (NightJob(row, job) for row in self.rows for job in row.jobs)
        return tuple(sorted(jobs, key=lambda one: as_submitted(one.facts)))

    @cached_property
    def failing_nodes(self) -> tuple[tuple[str, int, int], ...]:
        """Nodes on which jobs failed, how many of how many; the one that stands out most comes first."""
        ran: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for job in self.jobs:
            nodes = expand(job.facts.nodes)
            ran.update(nodes)
            failed.update(nodes if job.failed else ())
        listed = ((node, count, ran[node]) for node, count in failed.items())
        return tuple(sorted(listed, key=lambda one: (-one[1] / one[2], -one[1], one[0])))

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of its jobs."""
        return tuple(sorted({node for job in self.jobs for node in expand(job.facts.nodes)}))

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads that it ran on several numbers of GPUs."""
        return workloads(self.rows)


def advice_of(fact: str) -> str:
    """What to do about a cause, where that is known."""
    if fact.startswith(NOT_FINITE):
        return DIVERGED
    return _ADVICE.get(fact.rpartition(": ")[2], "")


def _facts_of(noted: Mapping[str, str]) -> Mapping[str, str]:
    is_whole = set(FACTS) <= set(noted) and noted["gpus"].isascii() and noted["gpus"].isdigit()
    return {name: noted[name] for name in FACTS} if is_whole else {}
