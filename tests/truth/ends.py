"""Jobs that did not end well."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gsw.demo.writers import damage
from pytest_gsw.jobs.model import JobState, JobStatus
from tests.truth.logs import as_bytes
from tests.truth.model import Case
from tests.truth.trial import Trial


def not_ended_well(trial: Trial) -> Iterator[Case]:
    """A whole log of a job that failed, and the demo's faults that end a job."""
    job, healthy = f"job {trial.job.id}", trial.events(trial.run)
    ends = [
        (JobStatus(JobState.FAILED, exit_code=3), f"{job} failed with exit code 3"),
        (JobStatus(JobState.COMPLETED, exit_code=3), f"{job} ended with exit code 3"),
        (JobStatus(JobState.COMPLETED, exit_code=0, signal=9), f"{job} ended by signal 9"),
        (JobStatus(JobState.COMPLETED), f"the exit code of {job} is not known"),
        (JobStatus(JobState.UNKNOWN, reason="no answer"), f"the end of {job} is not known: no answer"),
    ]
    with_words = {JobState.COMPLETED, JobState.FAILED, JobState.REPLAYED, JobState.UNKNOWN}
    ends += [(JobStatus(s, exit_code=0), f"{job} ended {s.value}") for s in JobState if s not in with_words]
    for status, fact in trial.random.sample(ends, 4):
        code = "unknown" if status.exit_code is None else status.exit_code
        done = f"the log is whole, the job {status.state.value} with exit code {code}, signal {status.signal}"
        name = f"job-{status.state.value.lower()}-{code}-{status.signal}"
        yield trial.failed(name, done, as_bytes(healthy), status, fact)
    failed, killed = JobStatus(JobState.FAILED, exit_code=1), JobStatus(JobState.OUT_OF_MEMORY, exit_code=0)
    for word, status, fact in (
        ("fail", failed, f"{job} failed with exit code 1"),
        ("oom", failed, f"{job} failed with exit code 1: * out of memory"),
        ("oom-kill", killed, f"{job} ended OUT_OF_MEMORY: host out of memory"),
        ("stall", JobStatus(JobState.TIMEOUT, exit_code=0), f"{job} ended TIMEOUT"),
    ):
        log = as_bytes(damage(healthy, trial.run, word))
        if status is killed:
            fact_of_log = f"{job} completed, but its log tells of an end by host out of memory"
            if trial.one_number:
                fact_of_log = trial.no_steps
            yield trial.broken(f"{word}-lost", f"the demo's fault {word}, exit code 0", log, fact_of_log)
        yield trial.failed(word, f"the demo's fault {word}", log, status, fact)
