"""Which jobs the infrastructure has failed: what a node may be blamed for, and a row never."""

from __future__ import annotations

from pytest_gsw.jobs.model import JobState
from pytest_gsw.logs.failures import SIGNATURES
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import Record
from pytest_gsw.results.summary import cause_of
from pytest_gsw.runs.infrastructure import BLAMELESS
from pytest_gsw.runs.run import CAUSE_OF_STATE

_CAUSES = {one.name for one in SIGNATURES if one.infrastructure} | {
    CAUSE_OF_STATE[state] for state in (JobState.NODE_FAIL, JobState.BOOT_FAIL)
}


def failed_jobs(record: Record) -> tuple[tuple[JobFacts, str], ...]:
    """The jobs of a record that its nodes may have failed, each with the cause.

    Those are its attempts, whatever came of the row in the end, and the last job of a row that could not be measured
    for such a cause. What somebody cancelled or a scheduler took away says nothing of nodes; a script that is wrong
    says something of its row.
    """
    found = [(job, job.why_repeated) for job in record.jobs.failed if job.why_repeated not in BLAMELESS]
    last = record.jobs.last
    if last is not None and record.outcome == ERROR.word:
        why = CAUSE_OF_STATE.get(JobState(last.state)) or cause_of(record).rpartition(": ")[2]
        if why in _CAUSES - BLAMELESS:
            found.append((last, why))
    return tuple((job, why) for job, why in found if job.id and job.nodes)
