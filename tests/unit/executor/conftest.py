"""A launcher that answers from a script, in time that passes only while the executor waits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import JobError, LogError, RefusedError, RunError, SchedulerUnreachableError, SubmissionError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import Attempt, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.validation.run import Run

POLL_S = 15.0
PENDING = JobStatus(JobState.PENDING)
RUNNING = JobStatus(JobState.RUNNING)
COMPLETED = JobStatus(JobState.COMPLETED, exit_code=0)
DONE = replace(COMPLETED, nodes="n1")
FAILED = JobStatus(JobState.FAILED, exit_code=1)
CANCELLED = JobStatus(JobState.CANCELLED, nodes="n1")
LOST_NODE = JobStatus(JobState.NODE_FAIL, exit_code=0, nodes="n17")


def spec(row_id: str = "a", **changes: Any) -> JobSpec:
    stage = Path("/stage")
    made = JobSpec(row_id, f"gsw-{row_id}", stage / "launch.sh", stage, stage, nodes=1, gpus=8, environment={})
    return replace(made, **{"unique_name": True, **changes})


def status_of(executor: Executor, row_id: str) -> JobStatus | None:
    submitted = executor.rows.submitted(row_id)
    return None if submitted is None else submitted.status


@dataclass
class Clock:
    """Time that passes only while somebody sleeps."""

    now_s: float = 1000.0
    slept_s: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds
        self.slept_s.append(seconds)


@dataclass
class FakeLauncher(Launcher):
    """A launcher that answers from a script: for each row its statuses, the last of them for ever."""

    clock: Clock
    script: dict[str, list[JobStatus | None]] = field(default_factory=dict)
    #: When each row's log appears; ``None`` for never.
    log_at_s: dict[str, float | None] = field(default_factory=dict)
    log_wait_s: float = 60.0
    poll_interval_s: float = POLL_S
    parallel_submissions: int = 1
    jobs_outlive_session: bool = True
    name: str = "fake"
    refused: tuple[str, ...] = ()
    polls: list[list[str]] = field(default_factory=list)
    cancelled: list[list[str]] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    looked_for_log: int = 0
    closed: int = 0

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        return (spec.name,)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.row_id)
        if spec.row_id in self.refused:
            raise SubmissionError(f"{spec.row_id} was refused")
        again = f".{spec.attempt}" if spec.attempt > 1 else ""
        return Job(f"job-{spec.row_id}{again}", spec, self.clock.now_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        return None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        self.polls.append([job.spec.row_id for job in jobs])
        answers = {}
        for job in jobs:
            steps = self.script.get(job.spec.row_id, [COMPLETED])
            status = steps.pop(0) if len(steps) > 1 else steps[0]
            if status is not None:
                answers[job.spec.row_id] = status
        return answers

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled.append([job.spec.row_id for job in jobs])

    def find_log(self, job: Job) -> Path:
        self.looked_for_log += 1
        appears_s = self.log_at_s.get(job.spec.row_id, 0.0)
        if appears_s is None or self.clock.now_s < appears_s:
            raise LogError(f"no log of {job.id}")
        return Path(f"/stage/{job.id}.out")

    def batch_output(self, job: Job) -> Path | None:
        return Path(f"/stage/slurm-{job.id}.out")

    def close(self) -> None:
        self.closed += 1


@dataclass
class NumberedLauncher(FakeLauncher):
    """Its jobs have ids of their own; jobs that must do without ``full`` nodes are refused."""

    full: tuple[str, ...] = ()
    specs: list[JobSpec] = field(default_factory=list)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.row_id)
        if set(spec.avoided_nodes) & set(self.full):
            raise RefusedError("Requested node configuration is not available")
        self.specs.append(spec)
        return Job(f"job-{spec.row_id}-{spec.attempt}", spec, self.clock.now_s)


@dataclass
class AwayLauncher(FakeLauncher):
    """A scheduler that is out of reach for a while; it may have taken the first submission all the same."""

    back_at_s: float = math.inf
    took_it: bool = False
    tries_s: list[float] = field(default_factory=list)
    sought: list[str] = field(default_factory=list)

    def submit(self, spec: JobSpec) -> Job:
        self.tries_s.append(self.clock.now_s)
        if self.clock.now_s < self.back_at_s:
            raise SchedulerUnreachableError("sbatch refused the job: Unable to contact slurm controller")
        return super().submit(spec)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        self.sought.append(spec.row_id)
        if self.clock.now_s < self.back_at_s:
            raise SchedulerUnreachableError("whether a was submitted is not known")
        return Job("job-found", spec, since_s) if self.took_it else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def launcher(clock: Clock) -> FakeLauncher:
    return FakeLauncher(clock)


def executor_of(launcher: FakeLauncher, **options: Any) -> Executor:
    return Executor(launcher, POLL_S, clock=launcher.clock, sleep=launcher.clock.sleep, **options)


def started(launcher: FakeLauncher, rows: Iterable[str] = "a", **options: Any) -> Executor:
    """An executor that has submitted these rows."""
    executor = executor_of(launcher, **options)
    executor.submit({row: spec(row) for row in rows})
    return executor


def run_of(launcher: FakeLauncher, *answers: JobStatus | None, **options: Any) -> Run:
    """The run of the one row ``a`` that has these statuses, the last of them for ever."""
    launcher.script["a"] = list(answers)
    return started(launcher, **options).result_of("a")


def error_of(executor: Executor, row_id: str = "a", kind: type[RunError] = JobError) -> RunError:
    """The error by which a row ends."""
    with pytest.raises(kind) as error:
        executor.result_of(row_id)
    return error.value


@dataclass
class Repeats:
    """The jobs that were reported not to be their row's last."""

    attempts: list[tuple[str, Attempt]] = field(default_factory=list)

    def __call__(self, row_id: str, attempt: Attempt) -> None:
        self.attempts.append((row_id, attempt))

    @property
    def why(self) -> list[str]:
        return [attempt.why for _, attempt in self.attempts]
