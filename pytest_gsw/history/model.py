"""Points and their series: pure functions of records.

One measured job is one point; the steps of one job do not predict the next one. A series contains comparable
points: of one row, on one cluster, under one definition, see :mod:`pytest_gsw.tables.model`. The name of the row's
table is no part of its key: the same table has other names in other directories, and rows with one definition are
one experiment wherever they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import outcomes, runs_directory
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Record
from pytest_gsw.stats.figures import SECONDS_PER_DAY
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.metrics import STEP_TIME, Metric

#: The launcher of an imported job, whose log no session made; the user vouches for its good end.
IMPORTED = "import"

#: Prefix of the runs of imports: each log has one of its own, which is no real run.
_IMPORT_RUN = "import-"

#: The cluster of all simulated runs, whatever cluster a replay of them named.
SIMULATED = "demo"


#: Reasons of points of tiles.
OF_TILES = frozenset({Reason.TILE.value, Reason.SLOW_NODE.value})
_REGRESSED, _INCIDENT = outcomes.REGRESSED.word, Reason.INCIDENT.value


@dataclass(frozen=True, order=True)
class SeriesKey:
    """The common properties of comparable points."""

    row: str
    cluster: str
    definition: str


@dataclass(frozen=True, order=True)
class ExperimentKey:
    """The common properties of a row's runs under any image and release."""

    row: str
    cluster: str
    #: The definition itself if no record names the experiment.
    experiment: str


@dataclass(frozen=True)
class Point:
    """One measured job."""

    run_id: str
    job_id: str
    #: End of the job, or the nearest known time, seconds since the epoch.
    time_s: float
    #: The figure of the row's own metric, in its unit.
    judged: float
    #: The row's outcome in that run.
    outcome: str
    nodes: str = ""
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The job's variables by name; ``None`` if unknown.
    variables: Mapping[str, str] | None = None
    #: The reason for the outcome, see :class:`~pytest_gsw.stats.verdict.Reason`.
    reason: str = ""
    #: Values of the site's metrics, by key.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: The definition, equal for comparable points, see :mod:`pytest_gsw.tables.model`.
    definition: str = ""
    #: Time of its addition to the history, seconds since the epoch; 0 before that, and in earlier releases' histories.
    added_s: float = field(default=0.0, compare=False)
    #: The row's own metric.
    metric: Metric = STEP_TIME
    #: A unique name of its job in the history: ids alone may return, after years or in another database.
    job: str = field(default="", compare=False)
    #: Number of jobs, if it is the median of a run; their ids and nodes are separated by commas.
    jobs: int = field(default=1, compare=False)

    @property
    def cost(self) -> float:
        """The figure on the scale of statistics over several rows, see :meth:`Direction.cost`."""
        return self.metric.direction.cost(self.judged)

    @property
    def begin_s(self) -> float:
        """Start of its run."""
        return runs_directory.begin_of(self.run_id, self.time_s)

    @property
    def is_too_slow(self) -> bool:
        """True if the row regressed, or was part of an incident: such a run affects neither noise nor level."""
        return self.outcome == _REGRESSED or self.reason == _INCIDENT


class RowOutcome(NamedTuple):
    """The outcome of one row in one run."""

    run_id: str
    #: End of its last job, or the nearest known time, seconds since the epoch.
    time_s: float
    #: A word of :mod:`~pytest_gsw.results.outcomes`.
    outcome: str

    @property
    def begin_s(self) -> float:
        """Start of the run."""
        return runs_directory.begin_of(self.run_id, self.time_s)


def run_key(point: Point) -> str:
    """The run of a job; for an imported one, the day."""
    return (
        f"{_IMPORT_RUN}{point.time_s // SECONDS_PER_DAY:.0f}" if point.run_id.startswith(_IMPORT_RUN) else point.run_id
    )


def time_order(point: Point) -> tuple[float, str, str]:
    """The sort key of points in the order of time."""
    return point.time_s, point.run_id, point.job_id


def cluster_of(record: Record) -> str:
    """The cluster of a record's figures."""
    return SIMULATED if record.run.simulated else record.run.cluster


def series_key(record: Record) -> SeriesKey | None:
    """The series of a record's points; ``None`` if it has none."""
    cluster = cluster_of(record)
    if not record.row.definition or cluster == NO_CLUSTER:
        return None
    return SeriesKey(record.row.row_id, cluster, record.row.definition)


def newest_definitions(keys: Iterable[SeriesKey]) -> tuple[SeriesKey, ...]:
    """The first series of each row on each cluster: in a history's list, the one with the newest point."""
    newest: dict[tuple[str, str], SeriesKey] = {}
    for key in keys:
        newest.setdefault((key.row, key.cluster), key)
    return tuple(newest.values())


def is_judged(record: Record) -> bool:
    """True if a record's row was measured and judged, and may be compared."""
    return record.outcome in outcomes.JUDGED and record.not_comparable is None


def points_of(record: Record) -> tuple[Point, ...]:
    """The points of a record: jobs that ended well, were measured and judged, and may be compared.

    A row that ran for a time has none: its jobs are of another length.
    """
    if not is_judged(record) or record.endurance is not None:
        return ()
    outcome, reason = record.by_own_metric, record.reason
    if record.row.tile:
        reason = (Reason.SLOW_NODE if record.named else Reason.TILE).value
    return tuple(
        [
            Point(
                run_id=record.run.id,
                job_id=job.id,
                time_s=job_time_s(job, record),
                judged=job.judged,
                outcome=outcome,
                nodes=job.nodes,
                image=record.run.image,
                environment=record.run.environment,
                variables=record.run.variables,
                reason=reason,
                metrics=job.metrics,
                definition=record.row.definition,
                metric=record.judged_metric,
                job=job_name(job),
            )
            for job in (*record.measured_jobs, *record.jobs.search)
            if _ended_well(job) and job.judged is not None and 0 < job.judged < math.inf
        ]
    )


def record_time_s(record: Record) -> float:
    """End of a record's last job, or the nearest known time."""
    return _run_time_s(record) if record.jobs.last is None else job_time_s(record.jobs.last, record)


def job_time_s(job: JobFacts, record: Record) -> float:
    """End of a job, or the nearest known time; 0 if unknown."""
    return job.known_end_s or _run_time_s(record)


def by_run(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """The valid record of each row in each run, see :func:`rank`."""
    newest: dict[tuple[str, str], Record] = {}
    for record in records:
        known = newest.setdefault((record.run.id, record.row.node_id), record)
        if rank(record) >= rank(known):
            newest[record.run.id, record.row.node_id] = record
    return newest


def rank(record: Record) -> tuple[bool, float]:
    """The precedence among records of one row in one run: the higher one is valid, in any order of arrival.

    It is the one written later, by the clocks of the machines that wrote them. The clocks of two login nodes may
    differ, and one may be set back before a run is resumed. Therefore an error never replaces a measurement: the record
    of an interrupted session must not hide that of its resumption.
    """
    return record.outcome != outcomes.ERROR.word, record.run.recorded_s or 0.0


def _ended_well(job: JobFacts) -> bool:
    imported = job.state is JobState.REPLAYED and job.launcher == IMPORTED
    return bool(job.id) and (imported or job.state is JobState.COMPLETED)


def job_name(job: JobFacts) -> str:
    """A unique name of a job: ids alone may return."""
    ended_s = job.known_end_s
    return job.id if ended_s is None else f"{job.id}@{ended_s!r}"


def _run_time_s(record: Record) -> float:
    return runs_directory.begin_of(record.run.id, 0.0) if record.run.recorded_s is None else record.run.recorded_s
