"""The one job of a comparison, where the scheduler's answer is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.ab.run import run_job
from pytest_gsw.errors import JobError, QueueFullError, SchedulerAwayError
from pytest_gsw.fleet import patience
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus

SPEC = JobSpec("row", "gsw-row-1", Path("launch.sh"), Path(), Path(), 1, 8, {})
AGAIN = "pytest-gsw compare-ab --of DIR"
AWAY = "sbatch gave no answer within 150 s"


class Lost:
    """A scheduler that takes a job, if it does, and whose answer does not arrive.

    Args:
        taken: Which of the submissions it takes, the first is 1; it answers to none of the first three.
        found_after: How often it does not say either which jobs it has.
    """

    poll_interval_s = 0.0
    log_wait_s = 0.0
    parallel_submissions = 1

    def __init__(self, taken: int | None = 1, found_after: int = 0, interrupt: bool = False) -> None:
        self.taken = taken
        self.found_after = found_after
        self.interrupt = interrupt
        self.submitted = 0
        self.asked: list[float] = []
        self.cancelled: list[str] = []
        self.closed = 0

    def submit(self, spec: JobSpec) -> Job:
        self.submitted += 1
        if self.submitted > 3:
            return Job("8", spec, time.time())
        raise SchedulerAwayError(AWAY, (("command", "sbatch"),), advice="try again")

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        self.asked.append(since_s)
        if self.interrupt and len(self.asked) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        if len(self.asked) <= self.found_after:
            raise SchedulerAwayError("squeue: away")
        return Job("7", spec, since_s) if self.taken is not None and self.submitted >= self.taken else None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        return {job.spec.row_id: JobStatus(JobState.COMPLETED) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled += [job.id for job in jobs]

    def batch_output(self, job: Job) -> Path | None:
        return None

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BACK_OFF_S", 0.001)
    monkeypatch.setattr(patience, "LONGEST_BACK_OFF_S", 0.002)


def ran(launcher: Any) -> tuple[str, list[str]]:
    """The id of the job that was waited for, and what was said."""
    said: list[str] = []
    run = run_job(launcher, SPEC, lambda *_: (), AGAIN, said.append)
    assert (run.status.state, launcher.closed) == (JobState.COMPLETED, 1)
    return run.job_id, said


@pytest.mark.parametrize("found_after", [0, 3])
def test_a_job_whose_submission_was_not_answered_is_found_and_waited_for(found_after: int) -> None:
    launcher = Lost(found_after=found_after)
    began_s = time.time()
    assert ran(launcher) == (
        "7",
        [f"{AWAY}; whether it has the job is asked until it answers", "the job was submitted all the same"],
    )
    assert (launcher.submitted, len(launcher.asked)) == (1, found_after + 1)
    assert len(set(launcher.asked)) == 1
    assert began_s <= launcher.asked[0] <= time.time()


def test_a_job_that_did_not_get_there_is_submitted_again() -> None:
    launcher = Lost(taken=None)
    assert ran(launcher)[0] == "8"
    assert (launcher.submitted, len(launcher.asked)) == (4, 3)


def test_one_that_got_there_only_then_is_found() -> None:
    launcher = Lost(taken=2)
    assert ran(launcher)[0] == "7"
    assert launcher.submitted == 2


def test_a_scheduler_that_stays_away_says_what_to_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "UNKNOWN_LIMIT_S", 0.05)
    launcher = Lost(found_after=10**9)
    with pytest.raises(SchedulerAwayError) as caught:
        run_job(launcher, SPEC, lambda *_: (), AGAIN, print)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"{AWAY}\n\ncommand    sbatch\n"
        "next       it may have the job all the same: squeue --me --name=gsw-row-1; scancel --me --name=gsw-row-1 "
        f"ends it, and once it has ended: {AGAIN}"
    )


@pytest.mark.parametrize(
    ("launcher", "fact", "cancelled"),
    [
        (Lost(interrupt=True), "interrupted: job 7 was cancelled", ["7"]),
        (Lost(interrupt=True, taken=None), "interrupted before the job was submitted", []),
        (Lost(interrupt=True, found_after=9), "interrupted: nobody can tell whether the job was submitted", []),
    ],
)
def test_an_interrupted_session_ends_a_job_that_it_has_not_heard_of(
    launcher: Any, fact: str, cancelled: list[str]
) -> None:
    with pytest.raises(JobError) as caught:
        run_job(launcher, SPEC, lambda *_: (), AGAIN, print)
    assert caught.value.fact == fact
    assert launcher.cancelled == cancelled


class Interrupted(Lost):
    """A scheduler that takes a job while the session is ended: submissions have threads of their own, as on Slurm."""

    parallel_submissions = 8

    def submit(self, spec: JobSpec) -> Job:
        os.kill(os.getpid(), signal.SIGTERM)
        return Job("7", spec, time.time())


def test_a_session_that_is_ended_while_it_submits_ends_the_job() -> None:
    launcher: Any = Interrupted()
    with pytest.raises(JobError) as caught:
        run_job(launcher, SPEC, lambda *_: (), AGAIN, print)
    assert (caught.value.fact, launcher.cancelled) == ("interrupted: job 7 was cancelled", ["7"])


class Full(Lost):
    """A queue that is full when the job comes."""

    def submit(self, spec: JobSpec) -> Job:
        self.submitted += 1
        if self.submitted == 1:
            raise QueueFullError("sbatch refused the job: no more jobs (QOSMaxSubmitJobPerUserLimit)")
        return Job("7", spec, time.time())


def test_a_full_queue_is_waited_for_and_told() -> None:
    assert ran(Full()) == ("7", ["sbatch refused the job: no more jobs (QOSMaxSubmitJobPerUserLimit)"])
