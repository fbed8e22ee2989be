"""Points and the series they form: pure functions of records.

One measured job is one point; the steps of one job say nothing of the next one. A series is what may be
compared: one row, on one cluster, under one definition, see :mod:`pytest_gsw.tables.model`. The name of
the row's table is no part of it: the same table bears other names in other directories, and rows of one
definition are one experiment wherever they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_gsw.jobs.model import JobState
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Record
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.verdict import Reason

#: The launcher of a job that no session ran: its log was imported, and whoever did so says that it ended well.
IMPORTED = "import"

#: How the runs of imports begin: each log has one of its own, which is no run.
_IMPORT_RUN = "import-"

#: The cluster of all simulated runs, whatever they were called when they were replayed.
SIMULATED = "demo"


_REGRESSED, _INCIDENT = outcomes.REGRESSED.word, Reason.INCIDENT.value


@dataclass(frozen=True, order=True)
class SeriesKey:
    """What points must share to be compared."""

    row: str
    cluster: str
    definition: str


@dataclass(frozen=True, order=True)
class ExperimentKey:
    """What runs must share to be one line of runs, whatever image and release they ran with."""

    row: str
    cluster: str
    #: The definition itself where no record says of which experiment it is.
    experiment: str


@dataclass(frozen=True)
class Point:
    """One measured job."""

    run_id: str
    job_id: str
    #: When the job ended, or the nearest time to that which is known, seconds since the epoch.
    time_s: float
    #: Seconds of what the row's outcome rests on.
    judged_s: float
    #: The row's outcome in that run.
    outcome: str
    nodes: str = ""
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The variables that the job was given, by name; ``None`` where they are not known.
    variables: Mapping[str, str] | None = None
    #: Why the outcome was what it was, see :class:`~pytest_gsw.stats.verdict.Reason`.
    reason: str = ""
    #: What was measured of the site's metrics, by key.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: What it may be compared with, see :mod:`pytest_gsw.tables.model`.
    definition: str = ""
    #: When the history took it in, seconds since the epoch; 0 before that, and of earlier releases' histories.
    added_s: float = field(default=0.0, compare=False)
    #: How many jobs it is the median of, where it stands for a run; their ids and nodes have commas between.
    jobs: int = field(default=1, compare=False)

    @property
    def begin_s(self) -> float:
        """When its run began."""
        return begin_of(self.run_id, self.time_s)

    @property
    def is_too_slow(self) -> bool:
        """Whether the row regressed, or was part of an incident: such a run widens no noise and moves no level."""
        return self.outcome == _REGRESSED or self.reason == _INCIDENT


@dataclass(frozen=True)
class JobPoint:
    """A point, and what tells its job from others: ids alone may come back, after years or in another database."""

    job: str
    point: Point


@dataclass(frozen=True)
class RunSummary:
    """One run: its cluster, its time, and how many of its rows had which outcome."""

    run_id: str
    cluster: str
    #: Of its first and its last row, seconds since the epoch.
    first_s: float
    last_s: float
    outcomes: Mapping[str, int]


class RowOutcome(NamedTuple):
    """What one run came to for one row."""

    run_id: str
    #: When its last job ended, or the nearest time to that which is known, seconds since the epoch.
    time_s: float
    #: By a word of :mod:`~pytest_gsw.results.outcomes`.
    outcome: str

    @property
    def begin_s(self) -> float:
        """When the run began."""
        return begin_of(self.run_id, self.time_s)


def run_key(point: Point) -> str:
    """The run that a job was of: its run, or the day, where it was imported."""
    return (
        f"{_IMPORT_RUN}{point.time_s // SECONDS_PER_DAY:.0f}" if point.run_id.startswith(_IMPORT_RUN) else point.run_id
    )


def cluster_of(record: Record) -> str:
    """The cluster that a record's figures are of."""
    return SIMULATED if record.run.simulated else record.run.cluster


def series_key(record: Record) -> SeriesKey | None:
    """The series that a record's points belong to, ``None`` where it is of none."""
    cluster = cluster_of(record)
    if not record.row.definition or cluster == NO_CLUSTER:
        return None
    return SeriesKey(record.row.id, cluster, record.row.definition)


def newest_definitions(keys: Iterable[SeriesKey]) -> tuple[SeriesKey, ...]:
    """The first series of each row on each cluster: of those that a history lists, the one with the newest point."""
    newest: dict[tuple[str, str], SeriesKey] = {}
    for key in keys:
        newest.setdefault((key.row, key.cluster), key)
    return tuple(newest.values())


def is_judged(record: Record) -> bool:
    """Whether a record's row was measured and judged, and may be compared."""
    return record.outcome in outcomes.JUDGED and record.not_comparable is None


def points_of(record: Record) -> tuple[JobPoint, ...]:
    """The points of a record: jobs that ended well, were measured and judged, and may be compared."""
    if not is_judged(record):
        return ()
    outcome, reason = record.by_own_metric, record.reason
    return tuple(
        [
            JobPoint(
                job_name(job),
                Point(
                    run_id=record.run.id,
                    job_id=job.id,
                    time_s=job_time_s(job, record),
                    judged_s=job.judged_s,
                    outcome=outcome,
                    nodes=job.nodes,
                    image=record.run.image,
                    environment=record.run.environment,
                    variables=record.run.variables,
                    reason=reason,
                    metrics=job.metrics,
                    definition=record.row.definition,
                ),
            )
            for job in record.measured_jobs
            if _ended_well(job) and job.judged_s is not None and 0 < job.judged_s < math.inf
        ]
    )


def record_time_s(record: Record) -> float:
    """When a record's last job ended, or the nearest time to that which is known."""
    return _run_time_s(record) if record.jobs.last is None else job_time_s(record.jobs.last, record)


def job_time_s(job: JobFacts, record: Record) -> float:
    """When a job ended, or the nearest time to that which is known; 0 where nothing is."""
    return job.known_end_s or _run_time_s(record)


def by_run(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """Of the records of each row in each run the one that stands, see :func:`rank`."""
    newest: dict[tuple[str, str], Record] = {}
    for record in records:
        known = newest.setdefault((record.run.id, record.row.node_id), record)
        if rank(record) >= rank(known):
            newest[record.run.id, record.row.node_id] = record
    return newest


def rank(record: Record) -> tuple[bool, float]:
    """What decides between two records of one row in one run: the higher one stands, in whatever order they come.

    It is the one that was written later, by the clocks of the machines that wrote them. Those of two login nodes may
    differ, and one may be set back before a run is resumed; so that the record of an interrupted session does not
    stand before the measurement that came of resuming it, an error never takes a measurement's place.
    """
    return record.outcome != outcomes.ERROR.word, record.run.recorded_s or 0.0


def _ended_well(job: JobFacts) -> bool:
    imported = job.state is JobState.REPLAYED and job.launcher == IMPORTED
    return bool(job.id) and (imported or job.state is JobState.COMPLETED)


def job_name(job: JobFacts) -> str:
    """What tells a job from others: ids alone may come back."""
    ended_s = job.known_end_s
    return job.id if ended_s is None else f"{job.id}@{ended_s!r}"


def _run_time_s(record: Record) -> float:
    return begin_of(record.run.id, 0.0) if record.run.recorded_s is None else record.run.recorded_s
