"""Rows that have several jobs, where Slurm requeues one, gives out its id again, or the session is resumed in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError, RunError, SchedulerUnreachableError, SubmissionError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.journal import Journal, RunState, read_journal
from pytest_gsw.jobs.model import Attempt, FoundJob, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.session.resume import take_over
from pytest_gsw.stats.decision import Done, Repeat
from pytest_gsw.validation.run import Run
from tests.messages import wording
from tests.unit.executor.conftest import (
    DONE,
    PENDING,
    RUNNING,
    Clock,
    FakeLauncher,
    error_of,
    executor_of,
    spec,
)
from tests.unit.executor.conftest import LOST_NODE as LOST

TWICE = "the scheduler gave the id 7 twice, to two jobs of a"


@dataclass
class Slurm(FakeLauncher):
    """Knows every job that was ever submitted by its name; ids count from 100, or are those that it is told."""

    ids: list[str] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    #: How jobs stand, by their attempt; a job completes where nothing is said.
    stand: dict[int, list[JobStatus]] = field(default_factory=dict)
    #: Attempts whose submission gets through although its answer does not.
    lost_answers: set[int] = field(default_factory=set)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.name)
        job = Job(self.ids.pop(0) if self.ids else f"{100 + len(self.jobs)}", spec, self.clock.now_s)
        self.jobs.append(job)
        if spec.attempt in self.lost_answers:
            self.lost_answers.discard(spec.attempt)
            raise SchedulerUnreachableError("slurmctld does not answer")
        return job

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        return next((job for job in reversed(self.jobs) if job.spec.name == spec.name), None)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        latest = {job.id: FoundJob(job.id, job.spec.name, self._stands(job)) for job in self.jobs}  # as sacct, by id
        return tuple(latest.values())

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        self.polls.append([job.id for job in jobs])
        found = {}
        for job in jobs:
            steps = self.stand.get(job.spec.attempt, [DONE])
            found[job.spec.row_id] = steps.pop(0) if len(steps) > 1 else steps[0]
        return found

    def _stands(self, job: Job) -> JobStatus:
        return replace(self.stand.get(job.spec.attempt, [DONE])[0], submit_s=job.submitted_s)


@dataclass
class Session:
    """Sessions of one run, each after the death of the one before."""

    launcher: Slurm
    directory: Path
    jobs: int = 1
    retries: int = 0
    told: list[str] = field(default_factory=list)

    def begin(self) -> Executor:
        """A first session."""
        executor = self._executor()
        self._journal.session("eos", ["t.yaml::a"])
        executor.submit({"a": spec()})
        return executor

    def resume(self) -> tuple[Executor, RunError | None]:
        """A session that goes on with it, and why the row cannot go on."""
        self._journal.close()
        past = read_journal(self.directory)
        executor = self._executor()
        specs: dict[str, JobSpec | RunError] = {"a": spec()}
        left = take_over(executor, past, specs, self.told.append)
        executor.submit(specs, left)
        problem = specs.get("a")
        return executor, problem if isinstance(problem, RunError) else None

    @property
    def past(self) -> RunState:
        return read_journal(self.directory)

    def _executor(self) -> Executor:
        self._journal = Journal(self.directory)
        return executor_of(self.launcher, journal=self._journal, retries=self.retries, decide=self._decide)

    def _decide(self, _row_id: str, run: Run) -> Repeat | Done:
        is_wanted = run.is_whole and len(run.jobs) < self.jobs
        return Repeat(f"{len(run.jobs)} of {self.jobs}") if is_wanted else Done()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Slurm(Clock()), tmp_path)


def ids(executor: Executor) -> list[str]:
    return [job.job_id for job in executor.result_of("a").jobs]


def until(executor: Executor, submissions: int, session: Session) -> None:
    """Let the session go on until it has submitted so many jobs."""
    while len(session.launcher.submitted) < submissions:
        executor._pump()
        if len(session.launcher.submitted) < submissions:
            executor._wait()


# -- --gsw-retries and Slurm's own requeue --------------------------------------------------------


def test_a_requeue_within_a_retried_job_is_the_same_job(session: Session) -> None:
    session.retries = 2
    session.launcher.stand = {1: [LOST], 2: [RUNNING, PENDING, RUNNING, DONE]}
    executor = session.begin()
    assert ids(executor) == ["101"]
    assert [attempt.job_id for attempt in executor.rows.row("a").failures] == ["100"]
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]


def test_a_session_that_died_while_a_retried_job_was_requeued_takes_that_up(session: Session) -> None:
    session.retries = 1
    session.launcher.stand = {1: [LOST], 2: [RUNNING, PENDING, RUNNING, DONE]}
    executor = session.begin()
    until(executor, 2, session)
    resumed, problem = session.resume()
    assert problem is None
    assert ids(resumed) == ["101"]
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]
    assert [(attempt.job_id, attempt.why) for attempt in resumed.rows.row("a").failures] == [("100", "node failure")]


def test_a_retried_job_that_loses_its_node_again_counts_against_the_retries_of_both_sessions(session: Session) -> None:
    session.retries = 1
    session.launcher.stand = {1: [LOST], 2: [RUNNING, PENDING, LOST]}
    until(session.begin(), 2, session)
    resumed, _ = session.resume()
    assert resumed.result_of("a").status.state is JobState.NODE_FAIL
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]


# -- an id that is given out again ----------------------------------------------------------------


@pytest.mark.parametrize("lost", [set(), {2}], ids=["answered", "lost answer"])
def test_a_further_job_with_an_id_that_was_given_out_before_is_an_error(session: Session, lost: set[int]) -> None:
    session.jobs, session.launcher.ids, session.launcher.lost_answers = 2, ["7", "7"], set(lost)
    assert error_of(session.begin()).fact == TWICE
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]
    assert session.launcher.cancelled == [["a"]]


def test_so_it_is_where_the_first_job_was_an_earlier_sessions(session: Session) -> None:
    session.jobs, session.launcher.ids = 2, ["7", "7"]
    session.launcher.lost_answers = {2}
    executor = session.begin()
    until(executor, 2, session)
    session.launcher.jobs.pop()  # the second one did not get through, and the controller loses its state
    session.launcher.ids = ["7"]
    resumed, problem = session.resume()
    assert problem is None
    assert error_of(resumed).fact == TWICE


def test_a_resumed_row_whose_id_was_given_out_again_is_not_submitted_once_more(session: Session) -> None:
    session.jobs, session.launcher.ids = 2, ["7", "7"]
    session.launcher.lost_answers = {2}
    done = replace(DONE, submit_s=900.0, start_s=901.0, end_s=999.0)
    session.launcher.stand = {1: [done], 2: [RUNNING]}
    until(session.begin(), 2, session)
    _, problem = session.resume()
    assert isinstance(problem, SubmissionError)
    assert problem.fact == "the scheduler gave the id 7 twice: job 7 had ended before again2.gsw-a was submitted"
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]


# -- --gsw-repeat and a resume in between ---------------------------------------------------------


@pytest.mark.parametrize("submissions", [1, 2, 3])
def test_a_row_of_three_jobs_has_three_however_often_its_session_dies(session: Session, submissions: int) -> None:
    session.jobs = 3
    until(session.begin(), submissions, session)
    resumed, problem = session.resume()
    assert problem is None
    until(resumed, 3, session)
    resumed, _ = session.resume()
    assert ids(resumed) == ["100", "101", "102"]
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a", "again3.gsw-a"]


def test_so_it_has_where_the_answer_of_one_was_lost(session: Session) -> None:
    session.jobs, session.launcher.lost_answers = 3, {2}
    until(session.begin(), 2, session)
    resumed, _ = session.resume()
    assert ids(resumed) == ["100", "101", "102"]
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a", "again3.gsw-a"]
    assert session.told == ["gsw: a: " + wording("found a job", job=101)]


def test_a_further_job_that_failed_while_nobody_looked_ends_the_row(session: Session) -> None:
    session.jobs = 3
    session.launcher.stand = {2: [RUNNING, JobStatus(JobState.FAILED, exit_code=1)]}
    until(session.begin(), 2, session)
    resumed, _ = session.resume()
    run = resumed.result_of("a")
    assert (run.status.state, [job.job_id for job in run.earlier]) == (JobState.FAILED, ["100"])
    assert session.launcher.submitted == ["gsw-a", "again2.gsw-a"]


def test_one_log_is_not_two_measured_jobs_after_a_resume(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.jobs = 2
    until(session.begin(), 2, session)
    monkeypatch.setattr(Slurm, "find_log", lambda *_: Path("/stage/shared.out"))
    resumed, _ = session.resume()
    assert error_of(resumed, kind=LogError).fact == wording("one log of two", rows="two jobs of a")


def test_a_measured_job_and_a_retry_between_two_sessions(session: Session) -> None:
    session.jobs, session.retries = 2, 1
    session.launcher.stand = {2: [LOST]}
    until(session.begin(), 3, session)
    resumed, _ = session.resume()
    assert ids(resumed) == ["100", "102"]
    assert [attempt.job_id for attempt in resumed.rows.row("a").failures] == ["101"]
    assert session.past.submissions["a"].attempts == (
        Attempt("100", DONE, "1 of 2", measured=True),
        Attempt("101", LOST, "node failure", ("n17",)),
    )
