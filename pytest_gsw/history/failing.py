"""Jobs that the infrastructure failed, as a history keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_gsw.common.redact import printable
from pytest_gsw.history.database import Database
from pytest_gsw.history.model import cluster_of, job_name, job_time_s
from pytest_gsw.results.failures import failed_jobs
from pytest_gsw.results.record import Record

_INSERT = """
INSERT INTO gsw_failure (record_id, job, cluster, job_id, time_s, nodes, why) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_id, job) DO NOTHING"""
_OF_CLUSTER = """
SELECT f.job, r.row_id, r.run_id, f.job_id, f.time_s, f.nodes, f.why
FROM gsw_failure f JOIN gsw_record r ON r.id = f.record_id
WHERE f.cluster = ? AND f.time_s >= ? ORDER BY f.time_s, r.run_id, f.job"""


@dataclass(frozen=True)
class Failure:
    """One job that the infrastructure failed."""

    row: str
    run_id: str
    job_id: str
    time_s: float
    nodes: str
    #: What failed it: ``node failure``, ``ECC error``.
    why: str


def keep_failures(database: Database, records: Mapping[int, Record]) -> None:
    """Write down the failed jobs of records, by the numbers of these; what was there of them before is taken away."""
    database.execute_many("DELETE FROM gsw_failure WHERE record_id = ?", [(record_id,) for record_id in records])
    values = [(record_id, *one) for record_id, record in records.items() for one in _values(record)]
    database.execute_many(_INSERT, values)


def failures_of_cluster(database: Database, cluster: str, since_s: float) -> tuple[Failure, ...]:
    """The failed jobs of a cluster, the oldest first; one that a replay recorded again is its first run's."""
    found: dict[str, Failure] = {}
    for job, *values in database.execute(_OF_CLUSTER, (printable(cluster), since_s)):
        found.setdefault(job, Failure(*values))
    return tuple(found.values())


def _values(record: Record) -> Iterator[tuple[object, ...]]:
    for job, why in failed_jobs(record):
        texts = map(printable, (job_name(job), cluster_of(record), job.id))
        yield (*texts, job_time_s(job, record), printable(job.nodes), printable(why))
