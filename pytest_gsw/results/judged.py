"""The verdict that a record is of, made again from the record alone."""

from __future__ import annotations

from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, Reason, Verdict
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record, judged_key, measured_jobs

_REASONS = {reason.value: reason for reason in Reason}


def verdict_of(record: Record) -> Verdict | None:
    """The verdict that a record is of, ``None`` where there is none in it."""
    judged = judged_key(record)
    measured_s, documented_s = record.measured.get(judged), record.documented.get(judged)
    if not measured_s or not documented_s or record.outcome not in outcomes.JUDGED:
        return None
    return Verdict(
        Outcome(record.outcome),
        measured_s,
        documented_s,
        record.tolerance,
        record.accepted.get(judged) or None,
        limit=record.limit if record.limit is not None and record.limit > record.tolerance else None,
        noise=None if record.sigma is None else Noise(record.sigma, record.sigma_jobs),
        jobs_s=tuple(job.judged_s for job in measured_jobs(record) if job.judged_s is not None),
        steady_s=record.median_s,
        given_reason=_REASONS.get(record.reason),
        max_gain=record.max_gain,
        own_outcome=Outcome(record.own_outcome) if record.own_outcome in outcomes.JUDGED else None,
    )
