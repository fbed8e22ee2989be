"""One row, one job, one log: to which row each of a session's job ids and logs belongs.

A controller that lost its state gives out ids again. Two rows that have the same one would share its answers, its
log, and its cancellation; neither can be told from the other by what a user sees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.errors import JobError, LogError, RunError
from pytest_gsw.jobs.model import Job


@dataclass
class Claims:
    """To which job each id and each log belongs, in one session."""

    #: By the ids of all jobs that are a row's, as its submissions have named them.
    jobs: dict[str, Job] = field(default_factory=dict)
    _logs: dict[str, Job] = field(default_factory=dict)

    def job(self, job: Job) -> tuple[Job, RunError] | None:
        """Claim a job's id for its row; the job that has the id already, and what both rows are told."""
        other = _claim(self.jobs, job.id, job)
        if other is None:
            return None
        return other, JobError(
            f"the scheduler gave the id {job.id} twice, to {_both(other, job)}",
            (("job", job.id), *_names(other, job)),
            advice=f"it has lost its state, as in a restart; once job {job.id} is gone, run again: {_rows(other, job)}",
        )

    def log(self, job: Job, log: Path) -> tuple[Job, RunError] | None:
        """Claim a log for its row; the job whose log it is already, and what both rows are told."""
        other = _claim(self._logs, os.path.realpath(log), job)
        if other is None:
            return None
        return other, LogError(
            f"one log is that of two jobs, of {_both(other, job)}",
            (("log", str(log)), ("jobs", f"{other.id}, {job.id}"), *_names(other, job)),
            advice=f"a log's name has its job's id; correct the recipe, and run again: {_rows(other, job)}",
        )


def _claim(claims: dict[str, Job], key: str, job: Job) -> Job | None:
    """Claim something for a job; the other job that has it already, ``None`` where there is none."""
    other = claims.setdefault(key, job)
    is_same = (other.id, other.spec.row_id, other.spec.attempt) == (job.id, job.spec.row_id, job.spec.attempt)
    return None if is_same or not job.submitted_s else other


def _both(one: Job, other: Job) -> str:
    if one.spec.row_id == other.spec.row_id:
        return f"two jobs of {one.spec.row_id}"
    return f"{one.spec.row_id} and {other.spec.row_id}"


def _names(one: Job, other: Job) -> tuple[tuple[str, str], ...]:
    return tuple(("job name", job.name) for job in (one, other))


def _rows(one: Job, other: Job) -> str:
    return " ".join(dict.fromkeys((one.spec.row_id, other.spec.row_id)))
